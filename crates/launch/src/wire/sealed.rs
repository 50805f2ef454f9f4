//! A sealed connection: frames to encrypted, length-prefixed records and back. Length is two bytes, so a record is bounded.

use std::io::{self, Write};

use snow::TransportState;

use super::backlog::Backlog;
use super::frame::{Frame, FrameFault};

/// What the cipher adds to a frame.
const TAG: usize = 16;
/// The two bytes of length in front of a record.
const PREFIX: usize = 2;

/// Both directions of a connection whose two ends hold the job's key.
pub struct Sealed {
    noise: TransportState,
    inbound: Vec<u8>,
    outbound: Backlog,
}

/// Why a connection cannot go on.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SealFault {
    /// A record was changed on the way, or is not from the peer.
    #[error("a record does not open: the connection was tampered with")]
    Tampered,
    /// A frame is too long to be sealed.
    #[error("a frame of {0} bytes is too long")]
    TooLong(usize),
    /// A record opened to nonsense.
    #[error(transparent)]
    Nonsense(#[from] FrameFault),
}

impl Sealed {
    /// Goes on where a handshake has ended.
    pub fn new(noise: TransportState) -> Self {
        Self { noise, inbound: Vec::new(), outbound: Backlog::default() }
    }

    /// Adds a frame to what waits to be sent.
    pub fn seal(&mut self, frame: &Frame) -> Result<(), SealFault> {
        let plain = frame.encode();
        let length = plain.len() + TAG;
        let prefix = u16::try_from(length).map_err(|_| SealFault::TooLong(plain.len()))?.to_be_bytes();
        let mut record = vec![0; PREFIX + length];
        record[..PREFIX].copy_from_slice(&prefix);
        self.noise
            .write_message(&plain, &mut record[PREFIX..])
            .map_err(|_| SealFault::TooLong(plain.len()))?;
        self.outbound.push(&record);
        Ok(())
    }

    /// How many bytes wait to be sent.
    pub fn unsent(&self) -> usize {
        self.outbound.len()
    }

    /// Sends what the socket takes.
    pub fn send(&mut self, socket: &mut impl Write) -> io::Result<()> {
        self.outbound.write_to(socket).map(drop)
    }

    /// Takes bytes that came in. The caller opens all frames before it takes more, so what is kept is less than one record.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.inbound.extend_from_slice(bytes);
    }

    /// The next frame, if it is all there.
    pub fn open(&mut self) -> Result<Option<Frame>, SealFault> {
        let Some((prefix, rest)) = self.inbound.split_first_chunk::<PREFIX>() else { return Ok(None) };
        let length = usize::from(u16::from_be_bytes(*prefix));
        let Some(record) = rest.get(..length) else { return Ok(None) };
        let mut plain = vec![0; length.saturating_sub(TAG)];
        self.noise.read_message(record, &mut plain).map_err(|_| SealFault::Tampered)?;
        self.inbound.drain(..PREFIX + length);
        if self.inbound.is_empty() {
            self.inbound.shrink_to(0);
        }
        Ok(Some(Frame::decode(&plain)?))
    }
}
