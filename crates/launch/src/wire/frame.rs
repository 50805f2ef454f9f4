//! The frames of an established connection: one byte for the kind, then the payload.

/// A stream of the remote command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// To the command.
    Stdin,
    /// From the command.
    Stdout,
    /// From the command.
    Stderr,
}

/// One message. `→` marks those that only the caller sends, `←` those that only the agent sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// → A piece of the command, at most [`super::CHUNK`] bytes.
    Command(Vec<u8>),
    /// → The command is complete: run it.
    Start,
    /// Bytes of a stream: standard input →, the others ←. Never empty.
    Data(Stream, Vec<u8>),
    /// → Standard input has ended.
    StdinEnd,
    /// → Send this signal to the command's processes.
    Signal(u8),
    /// The receiver has written this many bytes of the stream; the sender may send as many more.
    Credit(Stream, u32),
    /// The receiver can write no more of this stream.
    Closed(Stream),
    /// A keep-alive.
    Alive,
    /// ← The command has ended with this code; nothing follows.
    Exit(u8),
    /// ← The command was not run, for this reason; nothing follows.
    Refused(String),
}

/// An invalid frame.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("invalid frame of kind {0}")]
pub struct FrameFault(u8);

const COMMAND: u8 = 1;
const START: u8 = 2;
const STDIN: u8 = 3;
const STDIN_END: u8 = 4;
const SIGNAL: u8 = 5;
const CREDIT: u8 = 6;
const CLOSED: u8 = 7;
const ALIVE: u8 = 8;
const STDOUT: u8 = 16;
const STDERR: u8 = 17;
const EXIT: u8 = 18;
const REFUSED: u8 = 19;

impl Stream {
    const fn byte(self) -> u8 {
        match self {
            Self::Stdin => STDIN,
            Self::Stdout => STDOUT,
            Self::Stderr => STDERR,
        }
    }

    const fn of(byte: u8) -> Option<Self> {
        match byte {
            STDIN => Some(Self::Stdin),
            STDOUT => Some(Self::Stdout),
            STDERR => Some(Self::Stderr),
            _ => None,
        }
    }
}

impl Frame {
    /// Encodes this frame.
    pub fn encode(&self) -> Vec<u8> {
        let with = |kind: u8, payload: &[u8]| [&[kind], payload].concat();
        match self {
            Self::Command(piece) => with(COMMAND, piece),
            Self::Start => vec![START],
            Self::Data(stream, bytes) => with(stream.byte(), bytes),
            Self::StdinEnd => vec![STDIN_END],
            Self::Signal(number) => vec![SIGNAL, *number],
            Self::Credit(stream, count) => {
                let [a, b, c, d] = count.to_be_bytes();
                vec![CREDIT, stream.byte(), a, b, c, d]
            }
            Self::Closed(stream) => vec![CLOSED, stream.byte()],
            Self::Alive => vec![ALIVE],
            Self::Exit(code) => vec![EXIT, *code],
            Self::Refused(reason) => with(REFUSED, reason.as_bytes()),
        }
    }

    /// Decodes a frame.
    pub fn decode(bytes: &[u8]) -> Result<Self, FrameFault> {
        let fault = FrameFault(bytes.first().copied().unwrap_or(0));
        match bytes {
            [COMMAND, piece @ ..] => Ok(Self::Command(piece.to_vec())),
            [START] => Ok(Self::Start),
            [kind @ (STDIN | STDOUT | STDERR), data @ ..] if !data.is_empty() => {
                Stream::of(*kind).map(|stream| Self::Data(stream, data.to_vec())).ok_or(fault)
            }
            [STDIN_END] => Ok(Self::StdinEnd),
            [SIGNAL, number] => Ok(Self::Signal(*number)),
            [CREDIT, stream, a, b, c, d] => Stream::of(*stream)
                .map(|stream| Self::Credit(stream, u32::from_be_bytes([*a, *b, *c, *d])))
                .ok_or(fault),
            [CLOSED, stream] => Stream::of(*stream).map(Self::Closed).ok_or(fault),
            [ALIVE] => Ok(Self::Alive),
            [EXIT, code] => Ok(Self::Exit(*code)),
            [REFUSED, reason @ ..] => Ok(Self::Refused(String::from_utf8_lossy(reason).into_owned())),
            _ => Err(fault),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_frame_survives_encoding_and_decoding() {
        for frame in [
            Frame::Command(b"hostname".to_vec()),
            Frame::Start,
            Frame::Data(Stream::Stdin, vec![0, 255]),
            Frame::Data(Stream::Stdout, b"x".to_vec()),
            Frame::Data(Stream::Stderr, b"y".to_vec()),
            Frame::StdinEnd,
            Frame::Signal(15),
            Frame::Credit(Stream::Stderr, 0xdead_beef),
            Frame::Closed(Stream::Stdout),
            Frame::Alive,
            Frame::Exit(143),
            Frame::Refused("no".into()),
        ] {
            assert_eq!(Frame::decode(&frame.encode()), Ok(frame));
        }
    }

    #[test]
    fn invalid_frames_are_refused() {
        for bytes in [
            &[][..],
            &[0],
            &[99, 1],
            &[START, 1],
            &[STDIN],
            &[SIGNAL],
            &[CREDIT, 1, 0, 0, 0, 0],
            &[EXIT, 1, 2],
        ] {
            assert!(Frame::decode(bytes).is_err(), "{bytes:?}");
        }
    }
}
