//! Filters the lines of one pod: a pattern that must match, one that must not, a level, and context lines around matches.
//! Pure.
//!
//! Each pod's lines are filtered before they are merged with others', so that context lines come from the same pod as
//! the match and keep their place in time.

use std::collections::VecDeque;

use super::level::Level;
use super::pattern::Pattern;

/// The maximum number of context lines.
pub const MAX_CONTEXT: usize = 1_000;
/// The maximum size of the context lines that are held for the next match; of those, the oldest are dropped.
const MAX_HELD_BYTES: usize = 1 << 20;

/// The filter; the default accepts every line.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Accepts only lines that match, and their context.
    pub grep: Option<Pattern>,
    /// Rejects lines that match, even as context.
    pub exclude: Option<Pattern>,
    /// Accepts only lines of at least this level, and their context.
    pub level: Option<Level>,
    /// The number of context lines before and after a match; at most [`MAX_CONTEXT`].
    pub context: usize,
}

/// What the filter finds in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing is searched for.
    Unsearched,
    /// It matches.
    Match,
    /// It does not match.
    Other,
    /// It is rejected.
    Excluded,
}

impl Wanted {
    /// Whether the text of a line decides whether it is wanted.
    pub fn reads_text(&self) -> bool {
        self.grep.is_some() || self.exclude.is_some()
    }

    /// Searches a line.
    pub fn find(&self, text: &str, level: Option<Level>) -> Found {
        let found = |pattern: &Option<Pattern>| pattern.as_ref().map(|pattern| pattern.is_match(text));
        if found(&self.exclude) == Some(true) {
            return Found::Excluded;
        }
        let is_grave = self.level.map(|least| level.is_some_and(|level| level >= least));
        if is_grave == Some(false) {
            return Found::Other;
        }
        match found(&self.grep).or(is_grave) {
            None => Found::Unsearched,
            Some(true) => Found::Match,
            Some(false) => Found::Other,
        }
    }
}

/// The filter state of one pod.
#[derive(Debug)]
pub struct Sieve<T> {
    wanted: Wanted,
    /// The last lines not passed on with their sizes, oldest first.
    before: VecDeque<(usize, T)>,
    /// Their size together.
    bytes: usize,
    /// How many more lines to pass on as context of a match.
    after: usize,
}

impl<T> Sieve<T> {
    /// Creates an empty sieve.
    pub fn new(wanted: Wanted) -> Self {
        Sieve { wanted, before: VecDeque::new(), bytes: 0, after: 0 }
    }

    /// Returns what lines are wanted.
    pub fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    /// Takes a line of a size, and what was found in it. If it is wanted, `pass` gets its preceding context and then the line.
    pub fn push(&mut self, found: Found, bytes: usize, line: T, mut pass: impl FnMut(T)) {
        match found {
            Found::Excluded => {}
            Found::Unsearched => pass(line),
            Found::Match => {
                self.before.drain(..).for_each(|(_, line)| pass(line));
                self.bytes = 0;
                pass(line);
                self.after = self.context();
            }
            Found::Other if self.after > 0 => {
                self.after -= 1;
                pass(line);
            }
            Found::Other => self.hold(bytes, line),
        }
    }

    fn hold(&mut self, bytes: usize, line: T) {
        self.before.push_back((bytes, line));
        self.bytes += bytes;
        while self.before.len() > self.context() || self.bytes > MAX_HELD_BYTES {
            let Some((dropped, _)) = self.before.pop_front() else { break };
            self.bytes -= dropped;
        }
    }

    fn context(&self) -> usize {
        self.wanted.context.min(MAX_CONTEXT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Option<Pattern> {
        Some(Pattern::new(text, false).unwrap())
    }

    fn sieved(grep: Option<&str>, exclude: Option<&str>, context: usize, text: &str) -> String {
        let wanted =
            Wanted { grep: grep.and_then(pattern), exclude: exclude.and_then(pattern), level: None, context };
        let mut sieve = Sieve::new(wanted);
        let mut passed = Vec::new();
        for word in text.split(' ') {
            let found = sieve.wanted().find(word, None);
            sieve.push(found, word.len(), word, |word| passed.push(word));
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
            let grep = grep.and_then(pattern);
            let mut sieve = Sieve::new(Wanted { grep, level: Some(level), context, exclude: None });
            let mut passed = String::new();
            for (text, level) in lines {
                let found = sieve.wanted().find(text, level);
                sieve.push(found, text.len(), text, |text| passed.push_str(text));
            }
            passed
        };
        assert_eq!(sieved(Level::Debug, None, 0), "bc");
        assert_eq!(sieved(Level::Warning, None, 0), "c");
        assert_eq!(sieved(Level::Warning, None, 1), "bcd");
        assert_eq!(sieved(Level::Info, Some("[ab]"), 0), "b");
    }

    #[test]
    fn context_lines_are_bounded_by_their_size() {
        let wanted = Wanted { grep: pattern("x"), context: MAX_CONTEXT, ..Wanted::default() };
        let mut sieve = Sieve::new(wanted);
        let mut passed = Vec::new();
        let large = MAX_HELD_BYTES / 4;
        for number in 0..100 {
            sieve.push(Found::Other, large, number, |number| passed.push(number));
            assert!(sieve.bytes <= MAX_HELD_BYTES && sieve.before.len() <= 4);
        }
        sieve.push(Found::Match, large, 100, |number| passed.push(number));
        assert_eq!(passed, [96, 97, 98, 99, 100]);
        assert_eq!(sieve.bytes, 0);
    }
}
