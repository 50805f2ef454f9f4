//! Encodes and decodes the frames of SPDY/3.1 that Kubernetes clients use (`github.com/moby/spdystream`).
//!
//! No IO. An oversized or malformed frame is an error that ends the connection. There is no flow control,
//! because those clients have none either.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress};

use super::dictionary::DICTIONARY;

/// The maximum size of a frame; clients send 32 KiB at a time.
const MAX_FRAME_BYTES: usize = 1 << 20;
/// The maximum size of uncompressed headers.
const MAX_HEADER_BYTES: usize = 16 << 10;
/// The size of a frame's header.
const HEAD_BYTES: usize = 8;
/// The protocol version in control frames.
const VERSION: u16 = 3;
/// The flag of a stream's last frame.
const FIN: u8 = 1;

const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GOAWAY: u16 = 7;

/// Names in lower case, and values.
pub type Headers = Vec<(String, String)>;

/// A decoded frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// Opens a stream.
    Open {
        /// The stream's ID.
        stream: u32,
        /// Whether the sender will send no data.
        fin: bool,
        /// The headers.
        headers: Headers,
    },
    /// Data on a stream.
    Data {
        /// The stream's ID.
        stream: u32,
        /// Whether this is the last frame.
        fin: bool,
        /// The data.
        bytes: Bytes,
    },
    /// Resets a stream.
    Reset(u32),
    /// A ping to be echoed.
    Ping(u32),
    /// The peer opens no more streams and is closing the connection.
    GoAway,
    /// Any other frame; ignored.
    Other,
}

/// A malformed frame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The frame is too long.
    #[error("a frame of {0} bytes is longer than {MAX_FRAME_BYTES}")]
    TooLong(usize),
    /// An unsupported version.
    #[error("SPDY version {0} is not 3")]
    Version(u16),
    /// The frame's contents are malformed.
    #[error("a frame is malformed: {0}")]
    Malformed(&'static str),
}

/// Decodes frames from bytes.
pub struct Decoder {
    buffer: BytesMut,
    headers: Decompress,
}

impl Default for Decoder {
    fn default() -> Self {
        Self { buffer: BytesMut::new(), headers: Decompress::new(true) }
    }
}

impl Decoder {
    /// Appends received bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next complete frame.
    ///
    /// # Errors
    /// If it is malformed; the connection must then be closed.
    pub fn next(&mut self) -> Result<Option<Frame>, FrameError> {
        let Some(head) = self.buffer.first_chunk::<HEAD_BYTES>() else { return Ok(None) };
        let (first, flags) = (u32::from_be_bytes([head[0], head[1], head[2], head[3]]), head[4]);
        let length = u32::from_be_bytes([0, head[5], head[6], head[7]]) as usize;
        if length > MAX_FRAME_BYTES {
            return Err(FrameError::TooLong(length));
        }
        if self.buffer.len() < HEAD_BYTES + length {
            return Ok(None);
        }
        self.buffer.advance(HEAD_BYTES);
        let body = self.buffer.split_to(length).freeze();
        let fin = flags & FIN != 0;
        if first >> 31 == 0 {
            return Ok(Some(Frame::Data { stream: first, fin, bytes: body }));
        }
        let [version, kind] = [(first >> 16) as u16 & 0x7fff, first as u16];
        if version != VERSION {
            return Err(FrameError::Version(version));
        }
        self.control(kind, fin, body).map(Some)
    }

    fn control(&mut self, kind: u16, fin: bool, mut body: Bytes) -> Result<Frame, FrameError> {
        let short = FrameError::Malformed("it is too short");
        match kind {
            SYN_STREAM => {
                let stream = body.try_get_u32().map_err(|_| short.clone())? & 0x7fff_ffff;
                // Associated stream, priority and slot are ignored.
                if body.remaining() < 6 {
                    return Err(short);
                }
                body.advance(6);
                Ok(Frame::Open { stream, fin, headers: self.read_headers(&body)? })
            }
            // All headers must pass the decompressor, whose state spans the connection.
            SYN_REPLY | 8 => {
                if body.remaining() < 4 {
                    return Err(short);
                }
                body.advance(4);
                self.read_headers(&body).map(|_| Frame::Other)
            }
            RST_STREAM => body.try_get_u32().map(|id| Frame::Reset(id & 0x7fff_ffff)).map_err(|_| short),
            PING => body.try_get_u32().map(Frame::Ping).map_err(|_| short),
            GOAWAY => Ok(Frame::GoAway),
            _ => Ok(Frame::Other),
        }
    }

    fn read_headers(&mut self, compressed: &[u8]) -> Result<Headers, FrameError> {
        let garbled = |_| FrameError::Malformed("its headers cannot be decompressed");
        let mut plain = Vec::with_capacity(MAX_HEADER_BYTES);
        let (start, mut at) = (self.headers.total_in(), 0);
        loop {
            let result = self.headers.decompress_vec(&compressed[at..], &mut plain, FlushDecompress::Sync);
            at = (self.headers.total_in() - start) as usize;
            match result {
                Ok(_) if plain.len() == plain.capacity() => {
                    return Err(FrameError::Malformed("its headers are too long"));
                }
                Ok(_) if at == compressed.len() => break,
                Ok(_) => return Err(FrameError::Malformed("its headers end too early")),
                Err(error) if error.needs_dictionary().is_some() => {
                    self.headers.set_dictionary(&DICTIONARY).map_err(garbled)?;
                }
                Err(error) => return Err(garbled(error)),
            }
        }
        parse_headers(&plain)
    }
}

fn parse_headers(mut plain: &[u8]) -> Result<Headers, FrameError> {
    let cut = FrameError::Malformed("its headers are cut off");
    let count = plain.try_get_u32().map_err(|_| cut.clone())?;
    let mut text = || -> Result<String, FrameError> {
        let length = plain.try_get_u32().map_err(|_| cut.clone())? as usize;
        let (text, rest) = plain.split_at_checked(length).ok_or_else(|| cut.clone())?;
        plain = rest;
        String::from_utf8(text.to_vec()).map_err(|_| FrameError::Malformed("a header is no UTF-8"))
    };
    let mut headers = Vec::new();
    for _ in 0..count {
        let (name, value) = (text()?, text()?);
        headers.push((name.to_lowercase(), value));
    }
    Ok(headers)
}

/// Encodes frames.
pub struct Encoder {
    headers: Compress,
}

impl Encoder {
    /// Creates an encoder for one connection.
    ///
    /// # Errors
    /// If zlib rejects the dictionary, which doesn't happen.
    pub fn new() -> Result<Self, FrameError> {
        let mut headers = Compress::new(Compression::fast(), true);
        let refused = |_| FrameError::Malformed("the dictionary is refused");
        headers.set_dictionary(&DICTIONARY).map_err(refused)?;
        Ok(Self { headers })
    }

    /// Accepts a stream.
    ///
    /// # Errors
    /// If the headers cannot be compressed.
    pub fn reply(&mut self, stream: u32) -> Result<Bytes, FrameError> {
        let block = self.headers(&[])?;
        Ok(control(SYN_REPLY, 0, &[&stream.to_be_bytes(), &block]))
    }

    /// Opens a stream; used by tests only, because only clients open streams.
    ///
    /// # Errors
    /// If the headers cannot be compressed.
    #[cfg(test)]
    pub fn open(&mut self, stream: u32, headers: &[(&str, &str)]) -> Result<Bytes, FrameError> {
        let block = self.headers(headers)?;
        Ok(control(SYN_STREAM, 0, &[&stream.to_be_bytes(), &[0; 6], &block]))
    }

    fn headers(&mut self, headers: &[(&str, &str)]) -> Result<Vec<u8>, FrameError> {
        let mut plain = BytesMut::new();
        plain.put_u32(u32::try_from(headers.len()).unwrap_or(u32::MAX));
        for text in headers.iter().flat_map(|(name, value)| [name, value]) {
            plain.put_u32(u32::try_from(text.len()).unwrap_or(u32::MAX));
            plain.put_slice(text.as_bytes());
        }
        // Room for incompressible data and for zlib's overhead.
        let mut block = Vec::with_capacity(plain.len() * 2 + 64);
        self.headers
            .compress_vec(&plain, &mut block, FlushCompress::Sync)
            .map_err(|_| FrameError::Malformed("headers cannot be compressed"))?;
        Ok(block)
    }
}

fn head(first: u32, flags: u8, length: usize) -> BytesMut {
    let mut bytes = BytesMut::with_capacity(HEAD_BYTES + length);
    bytes.put_u32(first);
    bytes.put_u32(u32::from(flags) << 24 | (length as u32 & 0x00ff_ffff));
    bytes
}

fn control(kind: u16, flags: u8, parts: &[&[u8]]) -> Bytes {
    let length = parts.iter().map(|part| part.len()).sum();
    let mut bytes = head(1 << 31 | u32::from(VERSION) << 16 | u32::from(kind), flags, length);
    parts.iter().for_each(|part| bytes.put_slice(part));
    bytes.freeze()
}

/// Returns a data frame.
pub fn data(stream: u32, bytes: &[u8], fin: bool) -> Bytes {
    let mut frame = head(stream, if fin { FIN } else { 0 }, bytes.len());
    frame.put_slice(bytes);
    frame.freeze()
}

/// Resets a stream.
pub fn reset(stream: u32) -> Bytes {
    /// `CANCEL`
    const STATUS: u32 = 5;
    control(RST_STREAM, 0, &[&stream.to_be_bytes(), &STATUS.to_be_bytes()])
}

/// Echoes a ping.
pub fn ping(number: u32) -> Bytes {
    control(PING, 0, &[&number.to_be_bytes()])
}

/// Announces the end of the connection.
pub fn go_away() -> Bytes {
    control(GOAWAY, 0, &[&[0; 8]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_decoded_from_pieces_of_any_size() {
        let mut encoder = Encoder::new().unwrap();
        let headers = [("streamtype", "data"), ("port", "8080"), ("requestid", "0")];
        let sent = [
            encoder.open(1, &headers).unwrap(),
            encoder.open(3, &headers[..1]).unwrap(),
            data(1, b"abc", false),
            data(1, b"", true),
            reset(3),
            ping(7),
            go_away(),
        ]
        .concat();
        let owned = |headers: &[(&str, &str)]| {
            headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        let wanted = [
            Frame::Open { stream: 1, fin: false, headers: owned(&headers) },
            Frame::Open { stream: 3, fin: false, headers: owned(&headers[..1]) },
            Frame::Data { stream: 1, fin: false, bytes: Bytes::from_static(b"abc") },
            Frame::Data { stream: 1, fin: true, bytes: Bytes::new() },
            Frame::Reset(3),
            Frame::Ping(7),
            Frame::GoAway,
        ];
        for size in [1, 7, sent.len()] {
            let mut decoder = Decoder::default();
            let mut found = Vec::new();
            for piece in sent.chunks(size) {
                decoder.feed(piece);
                while let Some(frame) = decoder.next().unwrap() {
                    found.push(frame);
                }
            }
            assert_eq!(found, wanted, "pieces of {size} bytes");
        }
    }

    #[test]
    fn malformed_frames_are_errors() {
        let read = |bytes: &[u8]| {
            let mut decoder = Decoder::default();
            decoder.feed(bytes);
            decoder.next()
        };
        assert_eq!(read(b"\0\0\0\x01\0\xff\xff\xff"), Err(FrameError::TooLong(0xff_ffff)));
        assert_eq!(read(b"\x80\x02\0\x01\0\0\0\0"), Err(FrameError::Version(2)));
        assert!(matches!(read(b"\x80\x03\0\x01\0\0\0\x02ab"), Err(FrameError::Malformed(_))));
        assert!(matches!(read(b"\x80\x03\0\x01\0\0\0\x0cabcdefghijkl"), Err(FrameError::Malformed(_))));
        assert_eq!(read(b"\0\0\0\x01\0\0\0\x05abc"), Ok(None));
    }

    #[test]
    fn oversized_headers_are_rejected() {
        let long = "x".repeat(MAX_HEADER_BYTES + 1);
        let mut encoder = Encoder::new().unwrap();
        let mut decoder = Decoder::default();
        decoder.feed(&encoder.open(1, &[("name", &long)]).unwrap());
        assert_eq!(decoder.next(), Err(FrameError::Malformed("its headers are too long")));
    }

    proptest::proptest! {
        #[test]
        fn decoding_never_panics(bytes in proptest::collection::vec(0u8.., 0..256)) {
            let mut decoder = Decoder::default();
            decoder.feed(&bytes);
            while let Ok(Some(_)) = decoder.next() {}
        }
    }
}
