//! What is kept of an output: its head and its tail, whatever its length.
//!
//! Bytes come in by [`Collector::push`] in chunks of any size; memory stays bounded. Nothing is interpreted here.

use std::collections::VecDeque;

/// What is kept from the start, in bytes: start-up failures stand there.
const HEAD_BYTES: usize = 1024 * 1024;
/// What is kept from the end, in bytes: what ended the job stands there.
const TAIL_BYTES: usize = 3 * 1024 * 1024;

/// Takes an output in and keeps its head and tail.
#[derive(Debug, Default)]
pub struct Collector {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    /// Bytes that are neither in head nor tail.
    skipped: u64,
    /// Line ends among them.
    skipped_lines: usize,
}

/// A bounded excerpt of an output.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Output {
    /// The first bytes.
    pub(crate) head: Vec<u8>,
    /// The last bytes; empty where everything is in the head.
    pub(crate) tail: Vec<u8>,
    /// Bytes between them that were not looked at.
    pub skipped_bytes: u64,
    /// Line ends in those bytes.
    pub(crate) skipped_lines: usize,
}

impl Collector {
    /// Takes the next bytes.
    pub fn push(&mut self, chunk: &[u8]) {
        let room = HEAD_BYTES - self.head.len();
        let (head, rest) = chunk.split_at(room.min(chunk.len()));
        self.head.extend_from_slice(head);
        // Of a chunk longer than the tail only its end can stay.
        let (lost, kept) = rest.split_at(rest.len().saturating_sub(TAIL_BYTES));
        let overflow = (self.tail.len() + kept.len()).saturating_sub(TAIL_BYTES);
        let gone = self.tail.drain(..overflow.min(self.tail.len()));
        self.skipped_lines += gone.filter(|byte| *byte == b'\n').count() + line_ends(lost);
        self.skipped += (overflow + lost.len()) as u64;
        self.tail.extend(kept);
    }

    /// What was kept.
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
    fn of_a_long_output_head_and_tail_are_kept_in_any_chunking() {
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
