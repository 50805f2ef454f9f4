//! A buffer of bytes for a writer that takes only a part at a time.

use std::io::{self, ErrorKind, Write};

/// Memory that is kept for the next bytes once everything has been written.
const KEEP: usize = 64 * 1024;

/// Bytes in order; a part at the front may have been written already. Its users bound what they add (see `WINDOW`).
#[derive(Default)]
pub struct Backlog {
    bytes: Vec<u8>,
    written: usize,
}

impl Backlog {
    /// Adds bytes at the end.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the number of bytes that wait.
    pub fn len(&self) -> usize {
        self.bytes.len() - self.written
    }

    /// Returns whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes until nothing waits or `target` accepts no more for now. Returns the number of bytes written.
    pub fn write_to(&mut self, target: &mut impl Write) -> io::Result<usize> {
        let before = self.len();
        while self.written < self.bytes.len() {
            match target.write(&self.bytes[self.written..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => self.written += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        let written = before - self.len();
        self.compact();
        Ok(written)
    }

    fn compact(&mut self) {
        if self.written == self.bytes.len() {
            self.bytes.clear();
            self.bytes.shrink_to(KEEP);
            self.written = 0;
        } else if self.written >= KEEP {
            self.bytes.drain(..self.written);
            self.written = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes three bytes at a time, and every second call would block.
    struct Reluctant(Vec<u8>, bool);

    impl Write for Reluctant {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 {
                return Err(ErrorKind::WouldBlock.into());
            }
            let count = bytes.len().min(3);
            self.0.extend_from_slice(&bytes[..count]);
            Ok(count)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn everything_arrives_in_order() {
        let wanted: Vec<u8> = (0..200_000_u32).map(|i| (i % 251) as u8).collect();
        let mut target = Reluctant(Vec::new(), false);
        let mut backlog = Backlog::default();
        let mut written = 0;
        for piece in wanted.chunks(7) {
            backlog.push(piece);
            written += backlog.write_to(&mut target).unwrap();
        }
        while !backlog.is_empty() {
            written += backlog.write_to(&mut target).unwrap();
        }
        assert_eq!((written, target.0 == wanted), (wanted.len(), true));
    }
}
