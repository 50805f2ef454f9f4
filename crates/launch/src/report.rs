//! Lines on stderr: what the agent logs and what the caller is told. Never a secret, never a control character.

use std::io::Write;

/// Longest line written; the rest of a longer one is cut.
const MAX_LINE: usize = 2048;

/// Writes one line, with the program's name in front, in a single write so that lines of several processes stay whole.
///
/// A stderr that cannot be written to is no reason to fail: the line is dropped.
pub fn line(text: &str) {
    drop(std::io::stderr().write_all(framed(text).as_bytes()));
}

/// The line as it is written.
pub fn framed(text: &str) -> String {
    let mut line = String::with_capacity(text.len() + 16);
    line.push_str("odh-launch: ");
    line.extend(text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).take(MAX_LINE));
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    #[test]
    fn control_characters_do_not_reach_a_terminal() {
        let shown: String =
            "a\u{1b}[31mb".chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
        assert_eq!(shown, "a\u{fffd}[31mb");
    }
}
