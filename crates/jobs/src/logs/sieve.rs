//! Filters the lines of one pod: a pattern that must match, one that must not, a level, and context lines around matches.
//! Pure.
//!
//! Each pod's lines are filtered before they are merged with others', so that context lines come from the same pod as
//! the match and keep their place in time.

use std::collections::VecDeque;

use regex::{Regex, RegexBuilder};

use super::level::Level;

/// The maximum number of context lines.
pub const MAX_CONTEXT: usize = 1_000;

/// The maximum length of a pattern, in bytes, and of its compiled form.
pub const MAX_PATTERN_BYTES: usize = 4096;
const MAX_COMPILED_BYTES: usize = 1024 * 1024;

/// Compiles a pattern: a regular expression, or with `literal` the text itself in any case. It matches in time linear in
/// the length of a line.
///
/// # Errors
/// A sentence about what is wrong with the pattern, or that it is too large.
pub fn pattern(text: &str, literal: bool) -> Result<Regex, String> {
    if text.len() > MAX_PATTERN_BYTES {
        return Err(format!("a pattern has at most {MAX_PATTERN_BYTES} bytes"));
    }
    let escaped = regex::escape(text);
    let mut builder = RegexBuilder::new(if literal { &escaped } else { text });
    let built = builder.case_insensitive(literal).size_limit(MAX_COMPILED_BYTES).build();
    built.map_err(|error| match error {
        regex::Error::Syntax(wrong) => {
            wrong.lines().last().unwrap_or(&wrong).trim_start_matches("error: ").to_owned()
        }
        regex::Error::CompiledTooBig(_) => "the pattern is too large once compiled".to_owned(),
        other => other.to_string(),
    })
}

/// The filter; the default accepts every line.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Accepts only lines that match, and their context.
    pub grep: Option<Regex>,
    /// Rejects lines that match, even as context.
    pub exclude: Option<Regex>,
    /// Accepts only lines of at least this level, and their context.
    pub level: Option<Level>,
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

    /// Whether the text of a line decides whether it is wanted.
    pub fn reads_text(&self) -> bool {
        self.wanted.grep.is_some() || self.wanted.exclude.is_some()
    }

    /// Takes a line and its level. If it is wanted, `pass` gets its preceding context and then the line.
    pub fn push(&mut self, text: &str, level: Option<Level>, line: T, mut pass: impl FnMut(T)) {
        let found = |pattern: &Option<Regex>| pattern.as_ref().map(|pattern| pattern.is_match(text));
        if found(&self.wanted.exclude) == Some(true) {
            return;
        }
        let context = self.wanted.context.min(MAX_CONTEXT);
        let grave = self.wanted.level.map(|least| level.is_some_and(|level| level >= least));
        let matches = match (grave, found(&self.wanted.grep)) {
            (Some(grave), Some(found)) => Some(grave && found),
            (grave, found) => grave.or(found),
        };
        match matches {
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
        let wanted = Wanted { grep: pattern(grep), exclude: pattern(exclude), level: None, context };
        let mut sieve = Sieve::new(wanted);
        let mut passed = Vec::new();
        for word in text.split(' ') {
            sieve.push(word, None, word, |word| passed.push(word));
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

    #[test]
    fn lines_of_a_level_or_above_come_with_their_context() {
        let lines =
            [("a", None), ("b", Some(Level::Info)), ("c", Some(Level::Error)), ("d", None), ("e", None)];
        let sieved = |level: Level, grep: Option<&str>, context: usize| {
            let grep = grep.map(|text| Regex::new(text).unwrap());
            let mut sieve = Sieve::new(Wanted { grep, level: Some(level), context, exclude: None });
            let mut passed = String::new();
            for (text, level) in lines {
                sieve.push(text, level, text, |text| passed.push_str(text));
            }
            passed
        };
        assert_eq!(sieved(Level::Debug, None, 0), "bc");
        assert_eq!(sieved(Level::Warning, None, 0), "c");
        assert_eq!(sieved(Level::Warning, None, 1), "bcd");
        assert_eq!(sieved(Level::Info, Some("[ab]"), 0), "b");
    }

    #[test]
    fn patterns_are_bounded_and_texts_are_taken_literally() {
        assert!(pattern("a.c", true).unwrap().is_match("xA.Cx"));
        assert!(!pattern("a.c", true).unwrap().is_match("abc"));
        assert!(pattern("a.c", false).unwrap().is_match("abc"));
        assert!(pattern("(", false).unwrap_err().contains("unclosed group"));
        assert!(pattern("(?:x{1000}){1000}", false).is_err());
        assert!(pattern(&"x".repeat(MAX_PATTERN_BYTES + 1), true).is_err());
    }
}
