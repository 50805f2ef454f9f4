//! A connection that has not yet proved that it holds the key: it lives for ten seconds and buffers less than two
//! records.
//!
//! A stranger can record the caller's first message and replay it, but not its first sealed frame, because the keys
//! of a connection are fresh. So a connection stays on trial until that frame has opened.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::key::{Key, KeyFault};
use crate::wire::frame::Frame;
use crate::wire::handshake::{self, GREETING, HELLO, HandshakeError};
use crate::wire::sealed::Sealed;

/// How long a caller may take to prove the key.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// The most connections on trial at once; an honest caller needs two round trips.
const MAX_GREETINGS: usize = 32;
/// The most connections on trial at once from one address.
const MAX_OF_PEER: usize = 16;
/// The most bytes read at once from a connection on trial.
const PIECE: usize = 4096;

/// A connection on trial.
pub struct Greeting {
    /// The socket, non-blocking.
    pub socket: TcpStream,
    /// The peer's address.
    pub peer: SocketAddr,
    /// When the trial ends.
    pub until: Instant,
    received: [u8; HELLO],
    filled: usize,
    /// The sealed connection, once the first message has been answered.
    sealed: Option<Sealed>,
}

/// The state of a connection on trial.
pub enum GreetingDecision {
    /// More bytes have to come.
    Wait,
    /// It holds the key, and this is its first frame.
    Admit(Sealed, Frame),
    /// It has ended, with a reason to log or without one.
    Dismiss(Option<String>),
}

impl Greeting {
    /// Puts a new connection on trial.
    pub fn begin(socket: TcpStream, peer: SocketAddr) -> std::io::Result<Self> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        let until = Instant::now() + HANDSHAKE_TIMEOUT;
        Ok(Self { socket, peer, until, received: [0; HELLO], filled: 0, sealed: None })
    }

    /// Reads the available bytes and checks them. Calls `read_key` once the caller's message is complete.
    pub fn advance(
        &mut self,
        is_full: bool,
        read_key: impl Fn() -> Result<Key, KeyFault>,
    ) -> GreetingDecision {
        if let Some(sealed) = self.sealed.take() {
            return self.prove(sealed);
        }
        match self.socket.read(&mut self.received[self.filled..]) {
            // A probe that only checks whether the port is open is not worth a log line.
            Ok(0) => {
                GreetingDecision::Dismiss((self.filled > 0).then(|| "closed during the handshake".into()))
            }
            Ok(count) => {
                self.filled += count;
                self.judge(is_full, read_key)
            }
            Err(error) => judge_error(&error),
        }
    }

    /// Reads a part of the first sealed frame, and opens the frame once it is complete.
    fn prove(&mut self, mut sealed: Sealed) -> GreetingDecision {
        let mut piece = [0; PIECE];
        match self.socket.read(&mut piece) {
            // A probe that only checks whether the agent holds the key is not worth a log line either.
            Ok(0) => return GreetingDecision::Dismiss(None),
            Ok(count) => sealed.receive(&piece[..count]),
            Err(error) => {
                self.sealed = Some(sealed);
                return judge_error(&error);
            }
        }
        match sealed.open() {
            Ok(Some(frame)) => GreetingDecision::Admit(sealed, frame),
            Ok(None) => {
                self.sealed = Some(sealed);
                GreetingDecision::Wait
            }
            Err(fault) => GreetingDecision::Dismiss(Some(fault.to_string())),
        }
    }

    fn judge(&mut self, is_full: bool, read_key: impl Fn() -> Result<Key, KeyFault>) -> GreetingDecision {
        let Some(greeting) = self.received[..self.filled].first_chunk::<GREETING>() else {
            return GreetingDecision::Wait;
        };
        if let Err(refusal) = handshake::judge(greeting) {
            return self.refuse(refusal);
        }
        if self.filled < HELLO {
            return GreetingDecision::Wait;
        }
        if is_full {
            return self.refuse(HandshakeError::Busy);
        }
        let key = match read_key() {
            Ok(key) => key,
            Err(fault) => return GreetingDecision::Dismiss(Some(fault.to_string())),
        };
        match handshake::accept(&key, &self.received) {
            Err(refusal) => self.refuse(refusal),
            Ok((answer, sealed)) => match self.socket.write(&answer) {
                Ok(count) if count == answer.len() => {
                    self.sealed = Some(sealed);
                    GreetingDecision::Wait
                }
                _ => GreetingDecision::Dismiss(Some("closed during the handshake".into())),
            },
        }
    }

    /// Writes a few bytes to a socket that has not been written to: either it accepts them, or it is dead.
    fn refuse(&mut self, refusal: HandshakeError) -> GreetingDecision {
        drop(self.socket.write(&handshake::refuse(refusal)));
        GreetingDecision::Dismiss(Some(refusal.to_string()))
    }
}

fn judge_error(error: &std::io::Error) -> GreetingDecision {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::Interrupted => GreetingDecision::Wait,
        _ => GreetingDecision::Dismiss(Some(error.to_string())),
    }
}

/// Returns the index of the connection on trial, oldest first, that must make room for a new one from `newest`.
/// Many connections from one address displace each other, never those from other addresses.
pub fn displaced(trials: &VecDeque<IpAddr>, newest: IpAddr) -> Option<usize> {
    let of = |peer: IpAddr| trials.iter().filter(|other| **other == peer).count();
    let crowd = match of(newest) {
        MAX_OF_PEER.. => newest,
        _ if trials.len() < MAX_GREETINGS => return None,
        _ => *trials.iter().rev().max_by_key(|peer| of(**peer))?,
    };
    trials.iter().position(|peer| *peer == crowd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_of_one_address_displaces_nobody_else() {
        let address = |last: u8| IpAddr::from([10, 0, 0, last]);
        let mut trials: VecDeque<IpAddr> = [address(1)].into();
        assert_eq!(displaced(&trials, address(2)), None);
        trials.extend([address(2); MAX_OF_PEER]);
        assert_eq!(displaced(&trials, address(2)), Some(1), "the oldest of its own");
        assert_eq!(displaced(&trials, address(3)), None);
        trials.extend([address(3); MAX_GREETINGS - MAX_OF_PEER - 1]);
        assert_eq!(trials.len(), MAX_GREETINGS);
        assert_eq!(displaced(&trials, address(4)), Some(1), "the oldest of the largest crowd");
        let strangers: VecDeque<IpAddr> = (0..32).map(address).collect();
        assert_eq!(displaced(&strangers, address(99)), Some(0), "the oldest where all are alike");
    }
}
