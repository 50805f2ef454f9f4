//! Ctrl-C and SIGTERM as something to wait for, so that a command can tidy up before it ends.

use jobs::Class;
use tokio::signal::unix::{SignalKind, signal};

use crate::failure::Failure;

/// Waits until the person or the system wants this process to end.
pub async fn interrupted() {
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        // Without handlers the signals end the process by themselves.
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}

/// The ending of a command that was interrupted.
pub fn failure(message: impl Into<String>, hint: impl Into<String>) -> Failure {
    Failure::new(Class::Interrupted, "Interrupted", message).with_hint(hint)
}
