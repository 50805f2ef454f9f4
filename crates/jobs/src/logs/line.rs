//! Takes lines out of a stream of bytes. Pure.

/// The maximum length of a line, in bytes; longer lines are cut.
const MAX_LINE_BYTES: usize = 1024 * 1024;

/// Moves bytes from a buffer into `line`, up to the end of the line, which it leaves out. Returns how many bytes of the
/// buffer are used, and whether the line is whole.
pub(super) fn take_line(buffer: &[u8], line: &mut Vec<u8>) -> (usize, bool) {
    let end = buffer.iter().position(|byte| *byte == b'\n');
    let taken = end.unwrap_or(buffer.len());
    let room = MAX_LINE_BYTES.saturating_sub(line.len());
    line.extend_from_slice(buffer.get(..taken.min(room)).unwrap_or_default());
    if end.is_some() && line.last() == Some(&b'\r') {
        line.pop();
    }
    (taken + usize::from(end.is_some()), end.is_some())
}
