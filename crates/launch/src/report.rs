//! Lines on stderr: the agent's log, and messages to the caller. Never a secret, never a control character.

use std::io::Write;

/// The longest line that is written; longer ones are cut.
const MAX_LINE: usize = 2048;

/// Writes one line, prefixed with the program's name, in a single write, so that lines of several processes stay
/// whole.
///
/// If stderr cannot be written to, the line is dropped.
pub fn line(text: &str) {
    drop(std::io::stderr().write_all(framed(text).as_bytes()));
}

/// Formats the line.
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
