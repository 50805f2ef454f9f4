//! Reads a log with the options of `kubectl logs`.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt};
use jiff::Timestamp;
use tokio::sync::watch;

use super::{LogState, MAX_FILE_BYTES, MAX_FILES, RunLog, generation_path, lock};

/// How a line begins that stands for lines that were removed. Clients of the log show it as a note.
const REMOVED: &str = "odh-node: ";
/// Lines that one step of a reader returns at most.
const LINES_PER_STEP: usize = 512;

/// Which lines to read (`v1.PodLogOptions`).
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// Keep reading while the container runs.
    pub follow: bool,
    /// Only this many of the last lines.
    pub tail_lines: Option<u64>,
    /// Only lines from this time on.
    pub since: Option<Timestamp>,
    /// Begin each line with its time.
    pub timestamps: bool,
    /// At most this many bytes.
    pub limit_bytes: Option<u64>,
}

impl RunLog {
    /// Returns the selected lines as a stream.
    ///
    /// # Errors
    /// When the log cannot be opened.
    pub fn read(self: &Arc<Self>, wanted: Wanted) -> io::Result<BoxStream<'static, io::Result<Bytes>>> {
        let mut reader = Reader::open(Arc::clone(self), wanted)?;
        if let Some(count) = reader.wanted.tail_lines {
            reader.skip_to_tail(usize::try_from(count).unwrap_or(usize::MAX))?;
        }
        let stream = stream::unfold(Some(reader), |reader| async move {
            let mut reader = reader?;
            match reader.next().await {
                Ok(Some(bytes)) => Some((Ok(bytes), Some(reader))),
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        });
        Ok(stream.boxed())
    }

    /// Returns the end of the log, for a termination message: at most `lines` lines and `bytes` bytes.
    pub fn last_words(self: &Arc<Self>, lines: usize, bytes: usize) -> String {
        let Ok(mut reader) = Reader::open(Arc::clone(self), Wanted::default()) else { return String::new() };
        if reader.skip_to_tail(lines).is_err() {
            return String::new();
        }
        let text = reader.take_pending();
        let start = text.len().saturating_sub(bytes);
        String::from_utf8_lossy(&text[start..]).into_owned()
    }
}

/// A reader's position in a log.
struct Reader {
    log: Arc<RunLog>,
    wanted: Wanted,
    changes: watch::Receiver<LogState>,
    file: BufReader<File>,
    generation: u64,
    /// The files that were removed before the record that is read next.
    removed: u64,
    /// Whether the next piece starts a line.
    at_line_start: bool,
    /// A record of which only a part has been written so far.
    unfinished: Vec<u8>,
    /// Lines read ahead to find the tail.
    pending: VecDeque<Vec<u8>>,
    sent: u64,
}

impl Reader {
    fn open(log: Arc<RunLog>, wanted: Wanted) -> io::Result<Reader> {
        let mut changes = log.state.subscribe();
        // Hold the writer's lock, so that no rotation happens between reading the number and opening the file.
        let guard = lock(&log.file);
        let newest = changes.borrow_and_update().generation;
        let generation = (newest + 1).saturating_sub(MAX_FILES);
        let file = BufReader::new(File::open(generation_path(&log.path, generation, newest))?);
        drop(guard);
        Ok(Reader {
            log,
            wanted,
            changes,
            file,
            generation,
            removed: generation,
            at_line_start: true,
            unfinished: Vec::new(),
            pending: VecDeque::new(),
            sent: 0,
        })
    }

    /// Returns the next selected piece, or `None` at the current end.
    fn piece(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            self.file.read_until(b'\n', &mut self.unfinished)?;
            if self.unfinished.last() != Some(&b'\n') {
                if !self.next_generation()? {
                    return Ok(None);
                }
                continue;
            }
            let mut record = std::mem::take(&mut self.unfinished);
            let text = self.select(&record);
            // Its memory serves for the next one.
            record.clear();
            self.unfinished = record;
            if text.is_some() {
                return Ok(text);
            }
        }
    }

    fn next_generation(&mut self) -> io::Result<bool> {
        let guard = lock(&self.log.file);
        let newest = self.log.state.borrow().generation;
        if self.generation >= newest {
            return Ok(false);
        }
        let oldest = (newest + 1).saturating_sub(MAX_FILES);
        self.removed += oldest.saturating_sub(self.generation + 1);
        self.generation = (self.generation + 1).max(oldest);
        self.file = BufReader::new(File::open(generation_path(&self.log.path, self.generation, newest))?);
        drop(guard);
        Ok(true)
    }

    /// Returns the text of a record, or `None` if it is too old or malformed.
    fn select(&mut self, record: &[u8]) -> Option<Vec<u8>> {
        let mut parts = record.splitn(4, |byte| *byte == b' ');
        let time = std::str::from_utf8(parts.next()?).ok()?;
        let (_, tag, text) = (parts.next()?, parts.next()?, parts.next()?);
        if let Some(since) = self.wanted.since
            && time.parse::<Timestamp>().is_ok_and(|time| time < since)
        {
            // What is before a record that is too old was not asked for either.
            self.removed = 0;
            return None;
        }
        let text = if tag == b"P" { text.strip_suffix(b"\n").unwrap_or(text) } else { text };
        let prefix = self.wanted.timestamps && self.at_line_start;
        let removed = if self.at_line_start { std::mem::take(&mut self.removed) } else { 0 };
        self.at_line_start = tag != b"P";
        let head = if prefix { [time.as_bytes(), b" "].concat() } else { Vec::new() };
        let mut piece = Vec::with_capacity(head.len() + text.len());
        if removed > 0 {
            // With the line after it, so that a tail without that line lacks it too.
            piece.extend([head.as_slice(), removal(removed).as_bytes(), b"\n"].concat());
        }
        piece.extend(head);
        piece.extend(text);
        Some(piece)
    }

    fn skip_to_tail(&mut self, lines: usize) -> io::Result<()> {
        let mut current = Vec::new();
        while let Some(piece) = self.piece()? {
            current.extend(piece);
            if current.last() == Some(&b'\n') {
                self.pending.push_back(std::mem::take(&mut current));
            }
            if self.pending.len() > lines {
                self.pending.pop_front();
            }
        }
        if !current.is_empty() && lines > 0 {
            self.pending.push_back(current);
        }
        Ok(())
    }

    /// Takes the lines that were read ahead.
    fn take_pending(&mut self) -> Vec<u8> {
        self.pending.drain(..).collect::<Vec<_>>().concat()
    }

    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            if self.wanted.limit_bytes.is_some_and(|limit| self.sent >= limit) {
                return Ok(None);
            }
            // Mark as seen before reading, so that lines written during the read wake us again.
            let closed = self.changes.borrow_and_update().closed;
            let mut text = self.take_pending();
            for _ in 0..LINES_PER_STEP {
                match self.piece()? {
                    Some(piece) => text.extend(piece),
                    None => break,
                }
            }
            if !text.is_empty() {
                if let Some(limit) = self.wanted.limit_bytes {
                    text.truncate(usize::try_from(limit - self.sent).unwrap_or(usize::MAX));
                }
                self.sent += text.len() as u64;
                return Ok(Some(text.into()));
            }
            if closed || !self.wanted.follow || self.changes.changed().await.is_err() {
                return Ok(None);
            }
        }
    }
}

/// The line that stands for files that were removed.
fn removal(files: u64) -> String {
    format!(
        "{REMOVED}up to {} MiB of output were removed here by log rotation, which keeps the newest {} MiB of a log",
        files.saturating_mul(MAX_FILE_BYTES) >> 20,
        (MAX_FILES * MAX_FILE_BYTES) >> 20
    )
}
