//! Frames of the protocol: a length, then JSON.

use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::MsgFlags;

use super::protocol::MAX_FRAME_BYTES;

/// Takes the first complete frame from `inbox`.
///
/// # Errors
/// When it is too long, or not JSON of the expected type.
pub fn take_frame<T: serde::de::DeserializeOwned>(inbox: &mut Vec<u8>) -> Result<Option<T>, String> {
    let Some(head) = inbox.first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_be_bytes(*head) as usize;
    if length > MAX_FRAME_BYTES {
        return Err(format!("{length} bytes are too many"));
    }
    let Some(body) = inbox.get(4..4 + length) else { return Ok(None) };
    let value = serde_json::from_slice(body).map_err(|e| e.to_string())?;
    inbox.drain(..4 + length);
    Ok(Some(value))
}

/// Writes one frame.
///
/// # Errors
/// When the peer has ended.
pub fn write_frame(socket: &OwnedFd, value: &impl serde::Serialize) -> std::io::Result<()> {
    let frame = frame(value).map_err(std::io::Error::other)?;
    let mut rest = frame.as_slice();
    while !rest.is_empty() {
        match nix::sys::socket::send(socket.as_raw_fd(), rest, MsgFlags::MSG_NOSIGNAL) {
            Ok(count) => rest = &rest[count..],
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Encodes a value as a frame.
///
/// # Errors
/// When it is too long.
pub fn frame(value: &impl serde::Serialize) -> Result<Vec<u8>, String> {
    let body = serde_json::to_vec(value).map_err(|e| e.to_string())?;
    if body.len() > MAX_FRAME_BYTES {
        return Err(format!("{} bytes are too many for one message", body.len()));
    }
    let length = u32::try_from(body.len()).map_err(|e| e.to_string())?;
    Ok([length.to_be_bytes().as_slice(), &body].concat())
}
