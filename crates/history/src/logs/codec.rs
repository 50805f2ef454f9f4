//! How lines become bytes: each as its time in microseconds, a space, its text and a line feed; some hundred KiB of
//! them form one gzip member.

use std::io::{BufRead, BufReader, Cursor, Read as _, Write as _};

use flate2::Compression;
use flate2::bufread::{GzDecoder, MultiGzDecoder};
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};

use super::{Line, MAX_BATCH_BYTES};
use crate::error::Error;
use crate::store::{micros, time};

/// The uncompressed size at which a member ends.
const MEMBER_BYTES: usize = 256 << 10;
/// The maximum size of one encoded line: the largest batch may be a single line.
const MAX_LINE_BYTES: u64 = MAX_BATCH_BYTES as u64 + 32;

/// Lines, encoded.
pub(super) struct Encoded {
    /// The time of the first line.
    pub first: i64,
    /// The time of the last line.
    pub last: i64,
    /// Gzip members.
    pub data: Vec<u8>,
}

/// Encodes lines that follow a line of a given time.
pub(super) fn encode(lines: &[Line], before: i64) -> Result<Encoded, Error> {
    let mut packer = Packer::default();
    let (mut first, mut last) = (None, before);
    for line in lines {
        last = last.max(micros(line.at));
        first.get_or_insert(last);
        packer.line(format!("{last} {}\n", line.text).as_bytes())?;
    }
    Ok(Encoded { first: first.unwrap_or(before), last, data: packer.finish()? })
}

/// Writes encoded lines as gzip members.
#[derive(Default)]
pub(super) struct Packer {
    done: Vec<u8>,
    member: Option<GzEncoder<Vec<u8>>>,
    in_member: usize,
}

impl Packer {
    /// Adds the lines of another part.
    pub fn add(&mut self, part: Vec<u8>) -> Result<(), Error> {
        let mut lines = Lines::new(part);
        let mut line = Vec::new();
        while lines.next_raw(&mut line)? {
            self.line(&line)?;
        }
        Ok(())
    }

    fn line(&mut self, line: &[u8]) -> Result<(), Error> {
        let failed = |error| Error::damaged("compression", error);
        let member = self.member.get_or_insert_with(|| GzEncoder::new(Vec::new(), Compression::default()));
        member.write_all(line).map_err(failed)?;
        self.in_member += line.len();
        if self.in_member >= MEMBER_BYTES {
            self.end_member()?;
        }
        Ok(())
    }

    fn end_member(&mut self) -> Result<(), Error> {
        self.in_member = 0;
        if let Some(member) = self.member.take() {
            let data = member.finish().map_err(|error| Error::damaged("compression", error))?;
            self.done.extend_from_slice(&data);
        }
        Ok(())
    }

    /// Returns the members.
    pub fn finish(mut self) -> Result<Vec<u8>, Error> {
        self.end_member()?;
        Ok(self.done)
    }
}

/// The lines of a part, decompressed one by one.
pub(super) struct Lines {
    reader: BufReader<MultiGzDecoder<Cursor<Vec<u8>>>>,
}

impl Lines {
    pub fn new(part: Vec<u8>) -> Self {
        Self { reader: BufReader::new(MultiGzDecoder::new(Cursor::new(part))) }
    }

    /// Reads the next line into `line`, with its line feed. Returns `false` at the end.
    pub fn next_raw(&mut self, line: &mut Vec<u8>) -> Result<bool, Error> {
        line.clear();
        let read = self.reader.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', line);
        match read.map_err(|error| Error::damaged("a log part", error))? {
            0 => Ok(false),
            _ if line.ends_with(b"\n") => Ok(true),
            _ => Err(Error::Damaged("a log part ends within a line".to_owned())),
        }
    }

    /// Returns the next line.
    pub fn next(&mut self) -> Result<Option<Line>, Error> {
        let mut line = Vec::new();
        if !self.next_raw(&mut line)? {
            return Ok(None);
        }
        line.pop();
        let text = String::from_utf8(line).map_err(|error| Error::damaged("a log line", error))?;
        let (at, text) =
            text.split_once(' ').ok_or_else(|| Error::Damaged("a log line has no time".to_owned()))?;
        let at = at.parse().map_err(|error| Error::damaged("a log line's time", error))?;
        Ok(Some(Line { at: time(at)?, text: text.to_owned() }))
    }
}

/// Returns the complete members at the beginning of a torn part.
pub(super) fn whole_members(part: &[u8]) -> &[u8] {
    let mut whole = 0;
    while let Some(rest) = part.get(whole..).filter(|rest| !rest.is_empty()) {
        let mut decoder = GzDecoder::new(rest);
        match std::io::copy(&mut decoder, &mut std::io::sink()) {
            Ok(_) => whole = part.len() - decoder.into_inner().len(),
            Err(_) => break,
        }
    }
    part.get(..whole).unwrap_or_default()
}

/// Returns the number of lines of a part and the time of the last.
pub(super) fn measure(part: &[u8]) -> Result<Option<(i64, i64)>, Error> {
    if part.is_empty() {
        return Ok(None);
    }
    let mut lines = Lines::new(part.to_vec());
    let mut measured = None;
    while let Some(line) = lines.next()? {
        measured = Some((measured.map_or(0, |(count, _)| count) + 1, micros(line.at)));
    }
    Ok(measured)
}

/// Returns the SHA-256 of a chunk.
pub(super) fn digest(data: &[u8]) -> String {
    Sha256::digest(data).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn line(second: i64, text: &str) -> Line {
        Line { at: Timestamp::from_second(second).unwrap(), text: text.to_owned() }
    }

    #[test]
    fn lines_survive_and_time_does_not_go_back() {
        let lines = [line(5, "a b"), line(3, ""), line(7, "ü \r")];
        let encoded = encode(&lines, micros(Timestamp::MIN)).unwrap();
        assert_eq!((encoded.first, encoded.last), (5_000_000, 7_000_000));
        let mut decoded = Lines::new(encoded.data);
        assert_eq!(decoded.next().unwrap(), Some(line(5, "a b")));
        assert_eq!(decoded.next().unwrap(), Some(line(5, "")));
        assert_eq!(decoded.next().unwrap(), Some(line(7, "ü \r")));
        assert_eq!(decoded.next().unwrap(), None);
    }

    #[test]
    fn a_torn_part_keeps_its_whole_members_wherever_it_is_torn() {
        let text = "x".repeat(MEMBER_BYTES / 2);
        let lines: Vec<Line> = (0..5).map(|second| line(second, &text)).collect();
        let whole = encode(&lines, i64::MIN).unwrap().data;
        assert_eq!(whole_members(&whole), whole);
        let mut found = Vec::new();
        for end in (0..whole.len()).step_by(23) {
            let part = whole_members(&whole[..end]);
            found.push(measure(part).unwrap().map_or(0, |(lines, _)| lines));
        }
        found.dedup();
        assert_eq!(found, [0, 2, 4], "two lines in each of the first two members, one in the last");
    }
}
