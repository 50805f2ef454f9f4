//! Ctrl-C and SIGTERM as something to wait for, so that a command can tidy up before it ends.

use jobs::Class;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// From its making on, a wish to end is noted and no longer ends the process by itself.
pub struct Interruption(Option<[Signal; 2]>);

impl Interruption {
    /// Begins to listen. Where that is not possible, the signals end the process as ever.
    pub fn listen() -> Self {
        let listen = |kind| signal(kind).ok();
        let both = listen(SignalKind::interrupt()).zip(listen(SignalKind::terminate()));
        Self(both.map(|(interrupt, terminate)| [interrupt, terminate]))
    }

    /// Waits until the person or the system wants this process to end, or has wanted it since [`Interruption::listen`].
    pub async fn came(&mut self) {
        let Some([interrupt, terminate]) = &mut self.0 else { return std::future::pending().await };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }
}

/// Waits until the person or the system wants this process to end.
#[cfg(feature = "local")]
pub async fn interrupted() {
    Interruption::listen().came().await;
}

/// The ending of a command that was interrupted.
pub fn failure(message: impl Into<String>, hint: impl Into<String>) -> Failure {
    Failure::new(Class::Interrupted, "Interrupted", message).with_hint(hint)
}
