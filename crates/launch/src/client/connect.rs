//! From a host's name to a sealed connection: look up, connect, prove the key; retried while a Worker comes up.
//!
//! Errors use ssh's wording where ssh has one, so that people and the diagnosis recognize them.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;

use crate::key::{Key, KeyFault};
use crate::report;
use crate::resolve::{self, Sources, Unresolved};
use crate::settings::Settings;
use crate::wire::frame::Frame;
use crate::wire::handshake::{self, ANSWER, HandshakeError, WELCOME};
use crate::wire::sealed::Sealed;

/// The longest time for one attempt to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest time for an agent that accepts a connection to answer the handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// How often an agent has to refuse a caller before that is final: a refusal is not sealed, so anyone between can
/// forge one, and a key that was just changed reaches one pod before the other.
const REFUSALS: u32 = 6;
/// The first pause between two attempts; it grows by half each time.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// How often a waiting caller reports progress.
const PROGRESS_EVERY: Duration = Duration::from_secs(10);

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectFault {
    /// There is no key to prove.
    #[error(transparent)]
    Key(#[from] KeyFault),
    /// The name has no address (yet).
    #[error("Could not resolve hostname {host}: {source}")]
    Unresolved {
        /// The host.
        host: String,
        /// The resolver's error.
        source: Unresolved,
    },
    /// No agent has announced itself under this name (yet).
    #[error("Could not resolve hostname {host}: no agent has announced itself under this name")]
    Unannounced {
        /// The host.
        host: String,
    },
    /// The address is unreachable, or nobody listens there (yet).
    #[error("connect to host {host} ({address}) port {port}: {reason}", address = address.ip(), port = address.port())]
    Unreachable {
        /// The host.
        host: String,
        /// Its address.
        address: SocketAddr,
        /// `Connection refused`, `Connection timed out`, …
        reason: String,
    },
    /// The connection ended or stayed silent before both sides had proved the key.
    #[error("connect to host {host} ({address}) port {port}: {reason} during the handshake", address = address.ip(), port = address.port())]
    Interrupted {
        /// The host.
        host: String,
        /// Its address.
        address: SocketAddr,
        /// What happened.
        reason: String,
    },
    /// One side refused the other.
    #[error("{host}: {refusal}")]
    Refused {
        /// The host.
        host: String,
        /// Why.
        refusal: HandshakeError,
    },
    /// The cipher could not be set up; not expected.
    #[error("cannot begin a handshake: {0}")]
    Cipher(#[from] snow::Error),
    /// The start timeout has passed.
    #[error("{last} (gave up after {} s: the Worker did not come up)", waited.as_secs())]
    GaveUp {
        /// The fault of the last attempt.
        last: Box<ConnectFault>,
        /// How long the caller has tried.
        waited: Duration,
    },
}

/// Whether the next attempt may succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Prospect {
    /// Likely: the Worker is still coming up.
    Good,
    /// Only if the refusal was forged, or the key is being changed.
    Doubtful,
    /// Never.
    None,
}

impl ConnectFault {
    fn prospect(&self) -> Prospect {
        match self {
            Self::Unresolved { .. }
            | Self::Unannounced { .. }
            | Self::Unreachable { .. }
            | Self::Interrupted { .. }
            | Self::Refused { refusal: HandshakeError::Busy, .. } => Prospect::Good,
            Self::Refused { .. } => Prospect::Doubtful,
            Self::Key(_) | Self::Cipher(_) | Self::GaveUp { .. } => Prospect::None,
        }
    }
}

/// A connection between two peers that have proved the key.
pub struct Connection {
    /// The socket, blocking.
    pub socket: TcpStream,
    /// The sealed channel on top of it.
    pub sealed: Sealed,
    address: SocketAddr,
}

/// Retries until there is a connection, the fault is permanent, or `start_timeout` has passed. Reports every ten
/// seconds what it waits for.
pub fn connect(host: &str, settings: &Settings) -> Result<Connection, ConnectFault> {
    let begun = Instant::now();
    let deadline = begun + settings.start_timeout;
    let mut pause = FIRST_PAUSE;
    let mut next_word = begun + PROGRESS_EVERY;
    let mut refusals = 0;
    loop {
        let outcome = attempt(host, settings, CONNECT_TIMEOUT);
        let fault = match outcome.and_then(|connection| confirm(host, connection)) {
            Ok(connection) => return Ok(connection),
            Err(fault) => fault,
        };
        let prospect = fault.prospect();
        refusals += u32::from(prospect == Prospect::Doubtful);
        if prospect == Prospect::None || refusals >= REFUSALS {
            return Err(fault);
        }
        let now = Instant::now();
        if now >= deadline {
            return Err(ConnectFault::GaveUp { last: Box::new(fault), waited: now - begun });
        }
        if now >= next_word {
            next_word = now + PROGRESS_EVERY;
            let (waited, limit) = ((now - begun).as_secs(), settings.start_timeout.as_secs());
            report::line(&format!("waiting for {host} ({waited} s of {limit} s): {fault}"));
        }
        thread::sleep(pause.min(deadline - now));
        pause = (pause * 3 / 2).min(LONGEST_PAUSE);
    }
}

/// Tries every address of the host once, in turn; `limit` bounds each connection.
pub fn attempt(host: &str, settings: &Settings, limit: Duration) -> Result<Connection, ConnectFault> {
    let key = Key::read(settings.key.as_deref())?;
    let addresses = match &settings.registry {
        Some(registry) => vec![announced(registry, host)?],
        None => resolve::resolve(host, &Sources::default())
            .map_err(|source| ConnectFault::Unresolved { host: host.to_owned(), source })?
            .into_iter()
            .map(|address: IpAddr| SocketAddr::new(address, settings.port))
            .collect(),
    };
    let mut outcome = Err(ConnectFault::Unresolved { host: host.to_owned(), source: Unresolved::Unknown });
    for address in addresses {
        outcome = reach(host, address, &key, limit);
        if outcome.as_ref().map_or_else(|fault| fault.prospect() != Prospect::Good, |_| true) {
            break;
        }
    }
    outcome
}

/// Returns the address that the agent in the pod of this name has written to the registry.
fn announced(registry: &Path, host: &str) -> Result<SocketAddr, ConnectFault> {
    let name = host.split('.').next().unwrap_or(host);
    std::fs::read_to_string(registry.join(name))
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .ok_or_else(|| ConnectFault::Unannounced { host: host.to_owned() })
}

fn reach(host: &str, address: SocketAddr, key: &Key, limit: Duration) -> Result<Connection, ConnectFault> {
    let unreachable = |error: io::Error| ConnectFault::Unreachable {
        host: host.to_owned(),
        address,
        reason: words(&error),
    };
    let interrupted = |error| interrupted(host, address, &error);
    let refused = |refusal| ConnectFault::Refused { host: host.to_owned(), refusal };

    let mut socket = TcpStream::connect_timeout(&address, limit).map_err(unreachable)?;
    let (hello, state) = handshake::begin(key)?;
    let mut answer = [0; ANSWER];
    prepare(&socket).and_then(|()| socket.write_all(&hello)).map_err(interrupted)?;
    socket.read_exact(&mut answer).map_err(interrupted)?;
    handshake::judge_answer(&answer).map_err(refused)?;
    let mut welcome = [0; WELCOME];
    socket.read_exact(&mut welcome).map_err(interrupted)?;
    let sealed = handshake::finish(state, &welcome).map_err(refused)?;
    Ok(Connection { socket, sealed, address })
}

/// Sends the first sealed frame and waits for the agent's. Only then does the agent keep the connection. If the
/// agent drops it before, for newer ones, the caller retries, because nothing has run yet.
fn confirm(host: &str, mut connection: Connection) -> Result<Connection, ConnectFault> {
    match exchange(&mut connection.socket, &mut connection.sealed) {
        Ok(()) => Ok(connection),
        Err(error) => Err(interrupted(host, connection.address, &error)),
    }
}

fn exchange(socket: &mut TcpStream, sealed: &mut Sealed) -> io::Result<()> {
    let deadline = Instant::now() + HANDSHAKE_TIMEOUT;
    sealed.seal(&Frame::Alive).map_err(io::Error::other)?;
    sealed.send(socket)?;
    let mut piece = [0; 64];
    while sealed.open().map_err(io::Error::other)?.is_none() {
        if Instant::now() >= deadline {
            return Err(ErrorKind::TimedOut.into());
        }
        match socket.read(&mut piece)? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            count => sealed.receive(&piece[..count]),
        }
    }
    Ok(())
}

fn interrupted(host: &str, address: SocketAddr, error: &io::Error) -> ConnectFault {
    ConnectFault::Interrupted { host: host.to_owned(), address, reason: words(error) }
}

fn prepare(socket: &TcpStream) -> io::Result<()> {
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(HANDSHAKE_TIMEOUT))?;
    socket.set_write_timeout(Some(HANDSHAKE_TIMEOUT))
}

/// Returns the system's text for an error, without Rust's additions.
fn words(error: &io::Error) -> String {
    match (error.kind(), error.raw_os_error()) {
        (ErrorKind::TimedOut | ErrorKind::WouldBlock, _) => Errno::ETIMEDOUT.desc().to_owned(),
        (ErrorKind::UnexpectedEof, _) => "Connection closed by remote host".to_owned(),
        (_, Some(number)) => Errno::from_raw(number).desc().to_owned(),
        (_, None) => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_use_the_wording_of_ssh() {
        let address = "10.0.0.3:7222".parse().unwrap();
        let host = || "w-3.job.ns".to_owned();
        let refused = |error: Errno| words(&io::Error::from_raw_os_error(error as i32));
        for (fault, text) in [
            (
                ConnectFault::Unresolved { host: host(), source: Unresolved::Unknown },
                "Could not resolve hostname w-3.job.ns: Name or service not known",
            ),
            (
                ConnectFault::Unreachable { host: host(), address, reason: refused(Errno::ECONNREFUSED) },
                "connect to host w-3.job.ns (10.0.0.3) port 7222: Connection refused",
            ),
            (
                ConnectFault::Unreachable {
                    host: host(),
                    address,
                    reason: words(&ErrorKind::TimedOut.into()),
                },
                "connect to host w-3.job.ns (10.0.0.3) port 7222: Connection timed out",
            ),
            (
                ConnectFault::Refused { host: host(), refusal: HandshakeError::Key },
                "w-3.job.ns: authentication failed: the key of this job does not match",
            ),
        ] {
            assert_eq!(fault.to_string(), text);
        }
    }
}
