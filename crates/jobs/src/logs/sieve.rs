//! Filters the lines of one pod: a pattern that must match, one that must not, and context lines around matches. Pure.
//!
//! Each pod's lines are filtered before they are merged with others', so that context lines come from the same pod as
//! the match and keep their place in time.

use std::collections::VecDeque;

use regex::Regex;

/// The maximum number of context lines.
pub const MAX_CONTEXT: usize = 1_000;

/// The filter; the default accepts every line.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Accepts only lines that match, and their context.
    pub grep: Option<Regex>,
    /// Rejects lines that match, even as context.
    pub exclude: Option<Regex>,
    /// The number of context lines before and after a match; at most [`MAX_CONTEXT`].
    pub context: usize,
}

/// The filter state of one pod.
#[derive(Debug)]
pub struct Sieve<T> {
    wanted: Wanted,
    /// The last lines not passed on, oldest first.
    before: VecDeque<T>,
    /// How many more lines to pass on as context of a match.
    after: usize,
}

impl<T> Sieve<T> {
    /// Creates an empty sieve.
    pub fn new(wanted: Wanted) -> Self {
        Sieve { wanted, before: VecDeque::new(), after: 0 }
    }

    /// Takes a line. If it is wanted, `pass` gets its preceding context and then the line.
    pub fn push(&mut self, text: &str, line: T, mut pass: impl FnMut(T)) {
        let found = |pattern: &Option<Regex>| pattern.as_ref().map(|pattern| pattern.is_match(text));
        if found(&self.wanted.exclude) == Some(true) {
            return;
        }
        let context = self.wanted.context.min(MAX_CONTEXT);
        match found(&self.wanted.grep) {
            None => pass(line),
            Some(true) => {
                self.before.drain(..).for_each(&mut pass);
                pass(line);
                self.after = context;
            }
            Some(false) if self.after > 0 => {
                self.after -= 1;
                pass(line);
            }
            Some(false) if context > 0 => {
                if self.before.len() == context {
                    self.before.pop_front();
                }
                self.before.push_back(line);
            }
            Some(false) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sieved(grep: Option<&str>, exclude: Option<&str>, context: usize, text: &str) -> String {
        let pattern = |text: Option<&str>| text.map(|text| Regex::new(text).unwrap());
        let mut sieve = Sieve::new(Wanted { grep: pattern(grep), exclude: pattern(exclude), context });
        let mut passed = Vec::new();
        for word in text.split(' ') {
            sieve.push(word, word, |word| passed.push(word));
        }
        passed.join(" ")
    }

    #[test]
    fn lines_are_matched_excluded_and_come_with_their_context() {
        let text = "a b loss=1 c d e f loss=2 loss=3 g h";
        assert_eq!(sieved(None, None, 0, text), text);
        assert_eq!(sieved(Some("loss"), None, 0, text), "loss=1 loss=2 loss=3");
        assert_eq!(sieved(Some("loss"), None, 1, text), "b loss=1 c f loss=2 loss=3 g");
        assert_eq!(sieved(Some("loss"), None, 2, text), "a b loss=1 c d e f loss=2 loss=3 g h");
        assert_eq!(sieved(Some("loss"), Some("[bg]|2"), 1, text), "a loss=1 c f loss=3 h");
        assert_eq!(sieved(None, Some("loss"), 3, text), "a b c d e f g h");
        assert_eq!(sieved(Some("nothing"), None, 5, text), "");
    }
}
