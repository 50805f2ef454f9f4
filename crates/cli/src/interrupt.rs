//! Makes Ctrl-C and SIGTERM awaitable, so that a command can clean up before it ends.

use jobs::Class;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// From its creation on, Ctrl-C and SIGTERM are recorded and no longer end the process by themselves.
pub struct Interruption(Option<[Signal; 2]>);

impl Interruption {
    /// Starts listening. If that fails, the signals end the process as usual.
    pub fn listen() -> Self {
        let listen = |kind| signal(kind).ok();
        let both = listen(SignalKind::interrupt()).zip(listen(SignalKind::terminate()));
        Self(both.map(|(interrupt, terminate)| [interrupt, terminate]))
    }

    /// Waits for a signal; returns at once if one came since [`Interruption::listen`].
    pub async fn came(&mut self) {
        let Some([interrupt, terminate]) = &mut self.0 else { return std::future::pending().await };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }
}

/// Waits for Ctrl-C or SIGTERM.
#[cfg(feature = "local")]
pub async fn interrupted() {
    Interruption::listen().came().await;
}

/// Creates the failure of a command that was interrupted.
pub fn failure(message: impl Into<String>, hint: impl Into<String>) -> Failure {
    Failure::new(Class::Interrupted, "Interrupted", message).with_hint(hint)
}
