//! Holds the last lines of chosen ranks until the end of a log is reached. Pure.

use std::collections::VecDeque;

use super::{Item, bytes_of};
use crate::Error;

/// The last lines of chosen ranks: in a log they stand between those of others, so the node cannot count them.
pub(super) struct Held {
    most: usize,
    pub(super) lines: VecDeque<Result<Item, Error>>,
    bytes: usize,
    /// Whether lines were dropped for their size.
    pub(super) is_cut: bool,
}

/// The most bytes of lines that are held.
pub(super) const MAX_HELD_BYTES: usize = 8 << 20;

impl Held {
    pub(super) fn new(tail: i64) -> Held {
        let most = usize::try_from(tail).unwrap_or_default();
        Held { most, lines: VecDeque::new(), bytes: 0, is_cut: false }
    }

    pub(super) fn push(&mut self, line: Result<Item, Error>) {
        self.bytes += bytes_of(&line);
        self.lines.push_back(line);
        while self.lines.len() > self.most || self.bytes > MAX_HELD_BYTES && self.lines.len() > 1 {
            self.is_cut |= self.lines.len() <= self.most;
            let Some(dropped) = self.lines.pop_front() else { break };
            self.bytes -= bytes_of(&dropped);
        }
    }
}
