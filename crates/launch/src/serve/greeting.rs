//! A connection that has not yet proved the key: a socket and 53 bytes, nothing more, for ten seconds.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::key::{Key, KeyFault};
use crate::wire::handshake::{self, GREETING, HELLO, Refusal};
use crate::wire::sealed::Sealed;

/// A caller proves the key within this.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection on trial.
pub struct Greeting {
    /// The socket; it does not block.
    pub socket: TcpStream,
    /// Who it is.
    pub peer: SocketAddr,
    /// When the trial is over.
    pub until: Instant,
    received: [u8; HELLO],
    filled: usize,
}

/// What has become of a connection on trial.
pub enum Verdict {
    /// More bytes have to come.
    Wait,
    /// It holds the key.
    Admit(Sealed),
    /// It is over, for a reason to log, or quietly.
    Dismiss(Option<String>),
}

impl Greeting {
    /// Puts a fresh connection on trial.
    pub fn begin(socket: TcpStream, peer: SocketAddr) -> std::io::Result<Self> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        let until = Instant::now() + HANDSHAKE_TIMEOUT;
        Ok(Self { socket, peer, until, received: [0; HELLO], filled: 0 })
    }

    /// Reads what has come and judges it. `read_key` is called once the caller's message is complete.
    pub fn advance(&mut self, is_full: bool, read_key: impl Fn() -> Result<Key, KeyFault>) -> Verdict {
        match self.socket.read(&mut self.received[self.filled..]) {
            // A probe that only asks whether the port is open is not worth a line.
            Ok(0) => Verdict::Dismiss((self.filled > 0).then(|| "closed during the handshake".into())),
            Ok(count) => {
                self.filled += count;
                self.judge(is_full, read_key)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                Verdict::Wait
            }
            Err(error) => Verdict::Dismiss(Some(error.to_string())),
        }
    }

    fn judge(&mut self, is_full: bool, read_key: impl Fn() -> Result<Key, KeyFault>) -> Verdict {
        let Some(greeting) = self.received[..self.filled].first_chunk::<GREETING>() else {
            return Verdict::Wait;
        };
        if let Err(refusal) = handshake::judge(greeting) {
            return self.refuse(refusal);
        }
        if self.filled < HELLO {
            return Verdict::Wait;
        }
        if is_full {
            return self.refuse(Refusal::Busy);
        }
        let key = match read_key() {
            Ok(key) => key,
            Err(fault) => return Verdict::Dismiss(Some(fault.to_string())),
        };
        match handshake::accept(&key, &self.received) {
            Err(refusal) => self.refuse(refusal),
            Ok((answer, sealed)) => match self.socket.write(&answer) {
                Ok(count) if count == answer.len() => Verdict::Admit(sealed),
                _ => Verdict::Dismiss(Some("closed during the handshake".into())),
            },
        }
    }

    /// A few bytes into a socket that nothing was written to: it takes them, or is dead.
    fn refuse(&mut self, refusal: Refusal) -> Verdict {
        drop(self.socket.write(&handshake::refuse(refusal)));
        Verdict::Dismiss(Some(refusal.to_string()))
    }
}
