//! Keeps the head and tail of an output of any length.
//!
//! [`Collector::push`] takes bytes in chunks of any size; memory stays bounded. Nothing is interpreted here.

use std::collections::VecDeque;

/// Bytes kept from the start, where start-up failures are.
const HEAD_BYTES: usize = 1024 * 1024;
/// Bytes kept from the end, where the reason for the job's end is.
const TAIL_BYTES: usize = 3 * 1024 * 1024;

/// Collects the head and tail of an output.
#[derive(Debug, Default)]
pub struct Collector {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    /// The number of bytes in neither head nor tail.
    skipped: u64,
    /// The number of line ends among them.
    skipped_lines: usize,
}

/// A bounded excerpt of an output.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Output {
    /// The first bytes.
    pub(crate) head: Vec<u8>,
    /// The last bytes; empty if everything is in the head.
    pub(crate) tail: Vec<u8>,
    /// The number of bytes between them, which were dropped.
    pub skipped_bytes: u64,
    /// The number of line ends in those bytes.
    pub(crate) skipped_lines: usize,
}

impl Collector {
    /// Adds the next bytes.
    pub fn push(&mut self, chunk: &[u8]) {
        let room = HEAD_BYTES - self.head.len();
        let (head, rest) = chunk.split_at(room.min(chunk.len()));
        self.head.extend_from_slice(head);
        // If the chunk is longer than the tail, only its end is kept.
        let (lost, kept) = rest.split_at(rest.len().saturating_sub(TAIL_BYTES));
        let overflow = (self.tail.len() + kept.len()).saturating_sub(TAIL_BYTES);
        let gone = self.tail.drain(..overflow.min(self.tail.len()));
        self.skipped_lines += gone.filter(|byte| *byte == b'\n').count() + line_ends(lost);
        self.skipped += (overflow + lost.len()) as u64;
        self.tail.extend(kept);
    }

    /// Returns what was kept.
    #[must_use]
    pub fn finish(self) -> Output {
        Output {
            head: self.head,
            tail: self.tail.into(),
            skipped_bytes: self.skipped,
            skipped_lines: self.skipped_lines,
        }
    }
}

impl From<&[u8]> for Output {
    fn from(bytes: &[u8]) -> Self {
        let mut collector = Collector::default();
        collector.push(bytes);
        collector.finish()
    }
}

impl From<&str> for Output {
    fn from(text: &str) -> Self {
        Self::from(text.as_bytes())
    }
}

fn line_ends(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_output_is_kept_whole() {
        let output = Output::from("one\ntwo\n");
        assert_eq!(output.head, b"one\ntwo\n");
        assert!(output.tail.is_empty());
        assert_eq!(output.skipped_bytes, 0);
    }

    #[test]
    fn head_and_tail_of_a_long_output_are_kept_in_any_chunking() {
        let text: Vec<u8> = (0..1_000_000u32).flat_map(|n| format!("line {n}\n").into_bytes()).collect();
        let whole = Output::from(text.as_slice());
        let mut pieces = Collector::default();
        text.chunks(77_777).for_each(|chunk| pieces.push(chunk));
        assert_eq!(pieces.finish(), whole);
        assert_eq!(whole.head, text[..HEAD_BYTES]);
        assert_eq!(whole.tail, text[text.len() - TAIL_BYTES..]);
        assert_eq!(whole.skipped_bytes as usize, text.len() - HEAD_BYTES - TAIL_BYTES);
        assert_eq!(whole.skipped_lines, line_ends(&text[HEAD_BYTES..text.len() - TAIL_BYTES]));
    }
}
