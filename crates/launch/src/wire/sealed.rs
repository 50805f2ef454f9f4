//! A sealed connection: converts frames to encrypted, length-prefixed records and back. The length has two bytes,
//! which bounds a record.

use std::io::{self, Write};

use snow::TransportState;

use super::backlog::Backlog;
use super::frame::{Frame, FrameFault};

/// The bytes that the cipher adds to a frame.
const TAG: usize = 16;
/// The length prefix of a record.
const PREFIX: usize = 2;

/// Both directions of a connection between two holders of the job's key.
pub struct Sealed {
    noise: TransportState,
    inbound: Vec<u8>,
    outbound: Backlog,
}

/// Why a connection cannot continue.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SealFault {
    /// A record was changed on the way, or is not from the peer.
    #[error("a record cannot be decrypted: the connection was tampered with")]
    Tampered,
    /// A frame is too long to be sealed.
    #[error("a frame of {0} bytes is too long")]
    TooLong(usize),
    /// A record opened to an invalid frame.
    #[error(transparent)]
    Nonsense(#[from] FrameFault),
}

impl Sealed {
    /// Takes over from a completed handshake.
    pub fn new(noise: TransportState) -> Self {
        Self { noise, inbound: Vec::new(), outbound: Backlog::default() }
    }

    /// Queues a frame for sending.
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

    /// Returns the number of bytes that wait to be sent.
    pub fn unsent(&self) -> usize {
        self.outbound.len()
    }

    /// Sends as much as the socket accepts.
    pub fn send(&mut self, socket: &mut impl Write) -> io::Result<()> {
        self.outbound.write_to(socket).map(drop)
    }

    /// Adds received bytes. The caller opens all frames before it adds more, so less than one record is kept.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.inbound.extend_from_slice(bytes);
    }

    /// Returns the next frame, if it is complete.
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
