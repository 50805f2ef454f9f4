//! Splits the bytes of an output into lines that rules can be matched against.
//!
//! Terminal escapes are removed. The prefixes that launchers and log tools add (timestamps, rank tags) are cut off and
//! recorded. Each rewrite of a progress bar (`\r`) becomes a line of its own, and an overlong line is cut into pieces.
//! Nothing is printed unescaped: see [`escaped`].

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::bytes::{Regex, RegexBuilder};

use super::collect::Output;
use super::tags::Tags;

/// A longer line is cut into pieces of this size.
const MAX_PIECE_BYTES: usize = 4096;
/// The maximum number of lines examined.
const MAX_LINES: usize = 400_000;
/// The maximum number of prefixes on a line: log tool, timestamp, rank tag.
const MAX_PREFIXES: usize = 4;
/// The maximum length of evidence, in characters.
const MAX_EVIDENCE_CHARS: usize = 400;

/// One line, or a piece of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    /// The line number, counted from 1 by line feeds, as in editors.
    pub number: usize,
    /// The text without prefixes and terminal escapes.
    pub text: Cow<'a, str>,
    /// Whether the launcher tagged the line as a rank's output, so that the launcher cannot have written it.
    pub by_rank: bool,
    /// The rank in that tag.
    pub rank: Option<u32>,
}

/// All lines of an output's head and tail.
pub(crate) fn lines<'a>(head: &'a str, tail: &'a str, output: &Output) -> Vec<Line<'a>> {
    let mut all = Vec::new();
    // A log with Windows line ends throughout was converted as a whole, which says nothing about names in it.
    let returns = head.matches("\r\n").count();
    let is_converted = 2 * returns >= head.matches('\n').count();
    let ends = split(head, 1, is_converted, &mut all);
    if !tail.is_empty() {
        split(tail, 1 + ends + output.skipped_lines, is_converted, &mut all);
    }
    all
}

/// What follows a carriage return that is part of a name which a message quotes.
const AFTER_NAME: [&str; 6] = [": ", "'", "\"", "`", ")", " ("];

/// The messages that end with a name or an option. ssh ends its own lines with a carriage return.
const NAMES_AT_END: [&str; 4] = ["Executable: ", "Application name: ", "llegal option -", "nvalid option"];

/// Makes carriage returns visible that are part of a name, as scripts with Windows line ends cause them: they would vanish
/// otherwise. Others rewrite a progress bar.
fn visible(line: &str, is_converted: bool) -> Option<String> {
    let ends_with_name = NAMES_AT_END.iter().any(|words| line.contains(words));
    let (body, last) = match line.strip_suffix('\r') {
        Some(body) if ends_with_name && !is_converted && !body.is_empty() && !body.contains('\r') => {
            (body, "\\r")
        }
        _ => (line, ""),
    };
    let mut shown = String::new();
    let mut parts = body.split('\r').peekable();
    while let Some(part) = parts.next() {
        shown.push_str(part);
        if let Some(next) = parts.peek() {
            let is_name = !part.is_empty() && AFTER_NAME.iter().any(|after| next.starts_with(after));
            shown.push_str(if is_name { "\\r" } else { "\r" });
        }
    }
    shown.push_str(last);
    (shown != line).then_some(shown)
}

/// Adds the lines of `text`, the first of which has the number `first`; returns the number of line ends.
fn split<'a>(text: &'a str, first: usize, is_converted: bool, all: &mut Vec<Line<'a>>) -> usize {
    let mut ends = 0;
    let mut tags = Tags::default();
    for line in text.split('\n') {
        let number = first + ends;
        if let Some(shown) = line.contains('\r').then(|| visible(line, is_converted)).flatten() {
            let own = |piece| {
                let Line { number, text, by_rank, rank } = read_line(number, piece);
                Line { number, text: text.into_owned().into(), by_rank, rank }
            };
            all.extend(segments(&shown).map(own));
        } else if tags.concerns(line) {
            tags.take_off(line, |rank, text| all.extend(rejoined(number, rank, &text)));
        } else {
            all.extend(segments(line).map(|piece| read_line(number, piece)));
        }
        ends += 1;
        all.truncate(MAX_LINES);
    }
    tags.finish(|rank, text| all.extend(rejoined(first + ends - 1, rank, &text)));
    all.truncate(MAX_LINES);
    ends - 1
}

/// The parts of a line that are examined: its rewrites, each cut into pieces.
fn segments(line: &str) -> impl Iterator<Item = &str> {
    line.split('\r').filter(|segment| !segment.is_empty()).flat_map(pieces)
}

/// The parts of a line of a rank that stood in pieces in the output.
fn rejoined(number: usize, rank: Option<u32>, text: &str) -> Vec<Line<'static>> {
    let whole = |piece| {
        let Line { text, .. } = read_line(number, piece);
        Line { number, text: text.into_owned().into(), by_rank: rank.is_some(), rank }
    };
    segments(text).map(whole).collect()
}

/// Cuts at character boundaries.
fn pieces(mut rest: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let mut end = MAX_PIECE_BYTES.min(rest.len());
        while !rest.is_char_boundary(end) {
            end -= 1;
        }
        let (piece, left) = rest.split_at(end);
        rest = left;
        Some(piece)
    })
}

/// Returns the rank that wrote a line, and the line without its rank tag; `None` if it has no tag.
///
/// Recognizes the tags of `mpirun --tag-output` (Open MPI 4 and 5) and `-prepend-rank`, `-l` (MPICH, Intel MPI).
pub fn rank_of(line: &str) -> Option<(u32, &str)> {
    let (start, _, rank) = prefixes(line);
    Some((rank?, line.get(start..)?))
}

fn read_line(number: usize, raw: &str) -> Line<'_> {
    let clean = without_escapes(raw);
    let (start, by_rank, rank) = prefixes(&clean);
    let text = match clean {
        Cow::Borrowed(text) => Cow::Borrowed(&text[start..]),
        Cow::Owned(text) => Cow::Owned(text[start..].to_owned()),
    };
    Line { number, text, by_rank, rank }
}

/// The prefixes of `kubectl logs --prefix`, timestamps of log tools, and the rank tags of Open MPI 4 and 5
/// (`--tag-output`) and of MPICH and Intel MPI (`-l`, `-prepend-rank`).
static PREFIX: LazyLock<Option<Regex>> = LazyLock::new(|| {
    RegexBuilder::new(
        r"^\s*(?:\[pod/[\w./-]+\]|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?|(?:[A-Z][a-z]{2} ){2}[ \d]\d \d\d:\d\d:\d\d(?: \d{4})?|(?P<tag>\[(?:[\w.@:-]+[,@])?(?:\d+,)?(?P<rank>\d+)\](?:\[[\w.-]+:\d+\])?<(?:stdout|stderr|stddiag)>:?)|(?P<plain>\[(?P<mpich>\d+)\](?: |$)))[ \t]?",
    )
    .unicode(false)
    .build()
    .ok()
});

/// Where the line's own text begins, whether a rank printed it, and which rank.
fn prefixes(line: &str) -> (usize, bool, Option<u32>) {
    let (mut start, mut by_rank, mut rank) = (0, false, None);
    let Some(prefix) = PREFIX.as_ref() else { return (0, false, None) };
    for _ in 0..MAX_PREFIXES {
        let rest = &line[start..];
        let Some(found) = may_be_prefix(rest).then(|| prefix.captures(rest.as_bytes())).flatten() else {
            break;
        };
        by_rank |= found.name("tag").is_some() || found.name("plain").is_some();
        rank = found
            .name("rank")
            .or(found.name("mpich"))
            .and_then(|digits| std::str::from_utf8(digits.as_bytes()).ok()?.parse().ok())
            .or(rank);
        start += found.get_match().end();
    }
    (start, by_rank, rank)
}

/// A cheap check before the regex: most lines begin with a word that is not a day of the week.
fn may_be_prefix(rest: &str) -> bool {
    let rest = rest.trim_start().as_bytes();
    match rest.first() {
        Some(b'[') => true,
        Some(first) if first.is_ascii_digit() => rest.get(4) == Some(&b'-'),
        _ => {
            [b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat", b"Sun"].iter().any(|day| rest.starts_with(*day))
        }
    }
}

/// Removes CSI and OSC sequences and all control characters except tabs.
fn without_escapes(raw: &str) -> Cow<'_, str> {
    if !raw.bytes().any(|byte| byte < 0x20 && byte != b'\t' || byte == 0x7f) {
        return Cow::Borrowed(raw);
    }
    let mut clean = String::with_capacity(raw.len());
    let mut rest = raw.chars().peekable();
    while let Some(next) = rest.next() {
        match (next, rest.peek()) {
            ('\u{1b}', Some('[')) => {
                rest.next();
                rest.by_ref().find(|end| ('\u{40}'..='\u{7e}').contains(end));
            }
            ('\u{1b}', Some(']')) => {
                let mut before = ' ';
                rest.by_ref().find(|end| {
                    let ends = *end == '\u{7}' || (before == '\u{1b}' && *end == '\\');
                    before = *end;
                    ends
                });
            }
            ('\u{1b}', Some(_)) => {
                rest.next();
            }
            (control, _) if control.is_control() && control != '\t' => {}
            (other, _) => clean.push(other),
        }
    }
    Cow::Owned(clean)
}

/// Whether a launcher prints this line in good runs too, and it explains nothing: a warning about process groups, and which
/// signals it passes on. Open MPI 4 gives `(null)` for its own name.
pub fn is_noise(text: &str) -> bool {
    // The end first: it is cheap, and every line of a log is compared.
    let forwards = text.ends_with(" to job")
        && text.split_once(": Forwarding signal ").is_some_and(|(program, rest)| {
            ["(null)", "mpirun", "mpiexec", "orterun", "prterun"].contains(&program)
                && rest.ends_with(" to job")
        });
    forwards || (text.starts_with('[') && text.contains("sh: Warning: setpgid("))
}

/// Returns a line of output in the form that evidence has: without rank prefixes, escaped, cut to length.
pub fn as_evidence(line: &str) -> String {
    escaped(&read_line(1, line).text)
}

/// Makes text safe to show: without control characters and direction overrides, and no longer than evidence may be.
pub(crate) fn escaped(text: &str) -> String {
    let mut shown = String::new();
    for (count, letter) in text.trim_end().chars().enumerate() {
        if count == MAX_EVIDENCE_CHARS {
            shown.push('…');
            break;
        }
        match letter {
            '\t' => shown.push(' '),
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' => {
                shown.extend(letter.escape_unicode());
            }
            _ if letter.is_control() => shown.extend(letter.escape_unicode()),
            _ => shown.push(letter),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_which_rank_wrote_it() {
        assert_eq!(rank_of("[1,3]<stdout>:loss 0.5"), Some((3, "loss 0.5")));
        assert_eq!(rank_of("[prterun-host-1@1,12]<stdout>: loss"), Some((12, "loss")));
        assert_eq!(rank_of("[7] loss"), Some((7, "loss")));
        assert_eq!(rank_of("loss [7]"), None);
    }

    fn only(raw: &str) -> (String, bool, Option<u32>) {
        let line = read_line(1, raw);
        (line.text.into_owned(), line.by_rank, line.rank)
    }

    #[test]
    fn prefixes_are_cut_off_and_remembered() {
        for (raw, text, by_rank, rank) in [
            ("ssh: x", "ssh: x", false, None),
            ("[1,3]<stderr>:ssh: x", "ssh: x", true, Some(3)),
            ("[prterun-w-1-17@1,2]<stdout>: hello", "hello", true, Some(2)),
            ("2026-11-21T09:10:11.123456789Z [1,0]<stdout>:hello", "hello", true, Some(0)),
            ("[pod/job-launcher-x/mpi] 2026-11-21T09:10:11Z hello", "hello", false, None),
            ("[7] hello", "hello", true, Some(7)),
            ("[w-0:00419] *** An error", "[w-0:00419] *** An error", false, None),
            ("[[43557,1],1][file.c:1:f] from a", "[[43557,1],1][file.c:1:f] from a", false, None),
            ("[ 0] /lib/libc.so", "[ 0] /lib/libc.so", false, None),
        ] {
            assert_eq!(only(raw), (text.to_owned(), by_rank, rank), "{raw}");
        }
    }

    #[test]
    fn terminal_escapes_do_not_hide_or_fake_anything() {
        assert_eq!(only("\u{1b}[31mssh: \u{1b}[0mx").0, "ssh: x");
        assert_eq!(only("\u{1b}]0;title\u{7}ssh: x").0, "ssh: x");
        assert_eq!(only("s\u{0}s\u{8}h").0, "ssh");
        assert_eq!(escaped("a\u{202e}b\u{1b}c"), "a\\u{202e}b\\u{1b}c");
    }

    #[test]
    fn a_line_whose_rank_was_interrupted_is_whole_again() {
        let text = "[1,1]<stderr>:KeyError[1,0]<stdout>:step[1,1]<stderr>:: 'x'\n[1,0]<stdout>: 2\nmpirun\n";
        let output = Output::from(text);
        let found: Vec<_> = lines(text, "", &output)
            .into_iter()
            .map(|line| (line.number, line.rank, line.text.into_owned()))
            .collect();
        let line = |number, rank, text: &str| (number, rank, text.to_owned());
        assert_eq!(
            found,
            [line(1, Some(1), "KeyError: 'x'"), line(2, Some(0), "step 2"), line(3, None, "mpirun")]
        );
    }

    #[test]
    fn numbers_count_line_feeds_only() {
        let text = format!("a\r\nb\rc\n\n{}d\n", "x".repeat(3 * MAX_PIECE_BYTES));
        let output = Output::from(text.as_str());
        let numbers: Vec<_> = lines(&text, "", &output).iter().map(|line| line.number).collect();
        assert_eq!(numbers, [1, 2, 2, 4, 4, 4, 4]);
    }
}
