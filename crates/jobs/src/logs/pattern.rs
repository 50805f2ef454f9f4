//! Regular expressions that people send to search lines. Pure.
//!
//! A pattern is not trusted: its text, its compiled form, its groups and the part of a line that it reads are bounded,
//! because together they determine the memory of a search and the time that one line takes.

use std::sync::Arc;

use regex::{Captures, Matches, Regex, RegexBuilder};

/// The maximum length of a pattern, in bytes.
pub const MAX_PATTERN_BYTES: usize = 1024;
/// The maximum number of groups of a pattern.
pub const MAX_GROUPS: usize = 32;
/// The part of a line in which a pattern is looked for, in bytes from its beginning.
pub const MAX_SEARCHED_BYTES: usize = 16 << 10;

/// The sizes that are tried, in bytes: of each compiled form, and of each table of states that is filled while it searches.
const SIZES: [Size; 3] = [
    Size { compiled: 16 << 10, states: 128 << 10 },
    Size { compiled: 64 << 10, states: 256 << 10 },
    Size { compiled: 256 << 10, states: 1 << 20 },
];
/// The maximum size of the table for groups, which the library chooses.
const MAX_TABLE_OF_GROUPS: usize = 1 << 20;

const TOO_LARGE: &str =
    r"the pattern is too large once compiled: repeat fewer times, and use (?-u:\w) for \w";

struct Size {
    compiled: usize,
    states: usize,
}

impl Size {
    /// The memory of a pattern of this size: it is compiled for both directions.
    fn bytes(&self, has_groups: bool) -> usize {
        let of_groups = (self.compiled * 16).min(MAX_TABLE_OF_GROUPS);
        2 * (self.compiled + self.states) + if has_groups { of_groups } else { 0 }
    }
}

/// A compiled pattern. Clones share its memory.
#[derive(Clone, Debug)]
pub struct Pattern {
    regex: Arc<Regex>,
    bytes: usize,
}

impl Pattern {
    /// Compiles a pattern: a regular expression, or with `literal` the text itself in any case. It matches in time linear in
    /// the length of a line. Compiling a long pattern takes up to some tenths of a second.
    ///
    /// # Errors
    /// A sentence about what is wrong with the pattern, or that it is too large.
    pub fn new(text: &str, literal: bool) -> Result<Self, String> {
        if text.len() > MAX_PATTERN_BYTES {
            return Err(format!("a pattern has at most {MAX_PATTERN_BYTES} bytes"));
        }
        let escaped = regex::escape(text);
        let mut builder = RegexBuilder::new(if literal { &escaped } else { text });
        builder.case_insensitive(literal);
        for size in SIZES {
            match builder.size_limit(size.compiled).dfa_size_limit(size.states).build() {
                Ok(regex) => return Self::bounded(regex, &size),
                Err(regex::Error::CompiledTooBig(_)) => {}
                Err(regex::Error::Syntax(wrong)) => {
                    let reason = wrong.lines().last().unwrap_or(&wrong);
                    return Err(reason.trim_start_matches("error: ").to_owned());
                }
                Err(other) => return Err(other.to_string()),
            }
        }
        Err(TOO_LARGE.to_owned())
    }

    fn bounded(regex: Regex, size: &Size) -> Result<Self, String> {
        // The first is the whole match.
        let groups = regex.captures_len().saturating_sub(1);
        if groups > MAX_GROUPS {
            return Err(format!(
                "the pattern has {groups} groups; at most {MAX_GROUPS} are allowed, (?:…) does not count"
            ));
        }
        Ok(Self { regex: Arc::new(regex), bytes: size.bytes(groups > 0) })
    }

    /// Returns the pattern as written.
    pub fn as_str(&self) -> &str {
        self.regex.as_str()
    }

    /// Returns an upper bound of the memory that it takes, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the names of its groups.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.regex.capture_names().flatten()
    }

    /// Whether a line matches.
    pub fn is_match(&self, line: &str) -> bool {
        self.regex.is_match(searched(line))
    }

    /// Returns the groups of the first match in a line.
    pub fn captures<'l>(&self, line: &'l str) -> Option<Captures<'l>> {
        self.regex.captures(searched(line))
    }

    /// Returns all matches in a line.
    pub fn find_iter<'p, 'l>(&'p self, line: &'l str) -> Matches<'p, 'l> {
        self.regex.find_iter(searched(line))
    }
}

/// The part of a line that is searched.
fn searched(line: &str) -> &str {
    let longest = MAX_SEARCHED_BYTES.min(line.len());
    let end = (0..=longest).rev().find(|end| line.is_char_boundary(*end));
    end.and_then(|end| line.get(..end)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_taken_literally_in_any_case() {
        assert!(Pattern::new("a.c", true).unwrap().is_match("xA.Cx"));
        assert!(!Pattern::new("a.c", true).unwrap().is_match("abc"));
        assert!(Pattern::new("a.c", false).unwrap().is_match("abc"));
    }

    #[test]
    fn patterns_that_people_write_are_accepted() {
        for text in [
            "loss=|Error",
            r"(?i)\b(?:error|warning|exception|traceback|killed|out of memory|cuda|nccl)\b",
            r"loss=(?<loss>[0-9.e+-]+)",
            r"(?<name>\w+)=(?<value>\S+)",
            r"rate: (?<rate>[0-9.]+)",
            r"epoch=(?<epoch>\d+) step=(?<step>\d+) loss=(?<loss>[\d.]+) acc=(?<acc>\d+\.\d+)",
            r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(?:[.,]\d+)?\s+\[?(?:DEBUG|INFO|WARN(?:ING)?|ERROR)\]?",
            r"(?:\d{1,3}\.){3}\d{1,3}",
            r"größe=(?<size>\d+)|\p{Greek}+",
        ] {
            let pattern = Pattern::new(text, false);
            assert!(pattern.is_ok(), "{text}: {pattern:?}");
        }
        assert!(Pattern::new(&"x".repeat(MAX_PATTERN_BYTES), true).is_ok());
    }

    #[test]
    fn a_pattern_that_is_too_large_is_refused_with_what_to_do() {
        for (text, expected) in [
            ("(".to_owned(), "unclosed group"),
            ("x".repeat(MAX_PATTERN_BYTES + 1), "at most 1024 bytes"),
            ("(?:x{1000}){1000}".to_owned(), "repeat fewer times"),
            (r"\w{25}".to_owned(), r"(?-u:\w)"),
            ("(?:[xy]?[xz]?){9000}".to_owned(), "repeat fewer times"),
            ("(x)".repeat(MAX_GROUPS + 1), "33 groups; at most 32"),
        ] {
            let refused = Pattern::new(&text, false).unwrap_err();
            assert!(refused.contains(expected), "{text:.40}: {refused}");
        }
    }

    #[test]
    fn the_memory_of_a_pattern_grows_with_its_size() {
        let bytes = |text: &str| Pattern::new(text, false).unwrap().bytes();
        assert!(bytes("loss") < 300 << 10);
        assert!(bytes("loss") < bytes("(?<loss>x)"));
        assert!(bytes("loss") < bytes(r"\w+ \w+ \w+"));
        assert!(bytes(r"(?<a>\w+) \w+ \w+") < 4 << 20);
    }

    #[test]
    fn the_beginning_of_a_long_line_is_searched() {
        let pattern = Pattern::new("x|ä$", false).unwrap();
        let long = |before: usize, text: &str| format!("{}{text}", "-".repeat(before));
        assert!(pattern.is_match(&long(MAX_SEARCHED_BYTES - 1, "x")));
        assert!(!pattern.is_match(&long(MAX_SEARCHED_BYTES, "x")));
        assert!(!pattern.is_match(&long(MAX_SEARCHED_BYTES - 1, "ä")), "half of a letter is not searched");
        assert!(pattern.captures(&long(MAX_SEARCHED_BYTES, "x")).is_none());
        assert_eq!(pattern.find_iter(&long(MAX_SEARCHED_BYTES, "xx")).count(), 0);
    }
}
