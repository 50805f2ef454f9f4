//! The caller's side, which an MPI launcher runs in place of ssh: connect, then relay until the command has ended.

pub mod connect;
mod here;
mod relay;
mod sink;

use crate::arguments::RemoteCommand;
use crate::settings::Settings;

/// Why a call has failed. A failure of the command itself is an exit code, not a fault.
#[derive(Debug, thiserror::Error)]
pub enum CallFault {
    /// There is no connection.
    #[error(transparent)]
    Connect(#[from] connect::ConnectFault),
    /// The shell for a command on the caller's own host could not be started.
    #[error("cannot run /bin/sh: {0}")]
    Here(std::io::Error),
    /// The connection was lost, or the agent refused to run the command.
    #[error("{host}: {source}")]
    Relay {
        /// The host.
        host: String,
        /// What happened.
        source: relay::RelayFault,
    },
}

/// Runs the command on its host. Returns the exit code to pass on.
pub fn call(call: &RemoteCommand, settings: &Settings) -> Result<u8, CallFault> {
    if here::is_here(&call.host, settings) {
        return Err(CallFault::Here(here::run(call)));
    }
    let connection = connect::connect(&call.host, settings)?;
    relay::relay(call, connection.socket, connection.sealed, settings.peer_timeout)
        .map_err(|source| CallFault::Relay { host: call.host.clone(), source })
}
