//! Takes the tags off that MPI launchers put before the lines of their ranks. Pure.
//!
//! `[1,3]<stdout>:` is Open MPI 4's (`--tag-output`), `[1,3]<stdout>: ` or `[prterun-node-7@1,3]<stdout>: `
//! Open MPI 5's, and `[3] ` that of MPICH and Intel MPI (`-prepend-rank`, `-l`). Only the tag is taken off:
//! the rest is what the rank wrote, with its indentation.
//!
//! Open MPI 4 tags what it reads, not lines: it begins again within a long line, and between two ranks
//! neither of which has ended its line. What a rank has not ended is held until the rest of it comes, so that
//! each line is whole again.

use std::borrow::Cow;
use std::collections::BTreeMap;

/// The names of the streams in Open MPI's tags.
const STREAMS: [&str; 3] = ["<stdout>", "<stderr>", "<stddiag>"];
/// How the end of each of these tags begins: cheap to search for.
const STREAM: &str = "]<std";
/// The most bytes of unended lines that are held, of all ranks together; more are passed on as they are.
const MOST_HELD_BYTES: usize = 1 << 20;

/// The tags in one launcher's output.
#[derive(Debug, Default)]
pub struct Tags {
    /// Whether `[3] ` is a tag.
    bare: bool,
    /// Whether a text followed its tag without a space, which Open MPI 5 never does.
    unspaced: bool,
    /// What ranks have written on their streams without ending the line.
    unended: BTreeMap<(u32, usize), String>,
    held_bytes: usize,
}

/// A tag of Open MPI, and the text after it.
struct Tag<'a> {
    rank: u32,
    stream: usize,
    /// Whether only Open MPI 5 writes this form.
    is_of_5: bool,
    text: &'a str,
}

impl Tags {
    /// With `bare`, `[3] ` at the beginning of a line is a tag as well. A program may write the same itself.
    #[must_use]
    pub fn new(bare: bool) -> Tags {
        Tags { bare, ..Tags::default() }
    }

    /// Takes the tags off a line. Passes on the lines that it ends, each with its rank if it is tagged.
    pub fn take_off<'a>(&mut self, line: &'a str, mut pass: impl FnMut(Option<u32>, Cow<'a, str>)) {
        let Some(tag) = tag(line) else {
            return match self.bare.then(|| bare(line)).flatten() {
                Some((rank, text)) => pass(Some(rank), text),
                None => pass(None, line.into()),
            };
        };
        let mut next = Some(tag);
        while let Some(tag) = next.take() {
            let (text, following) = up_to_next(tag.text);
            let text = self.without_space(text, tag.is_of_5);
            let key = (tag.rank, tag.stream);
            let is_last = following.is_none();
            next = following;
            if is_last {
                pass(Some(tag.rank), self.joined(key, text));
            } else if self.held_bytes + text.len() <= MOST_HELD_BYTES {
                self.held_bytes += text.len();
                self.unended.entry(key).or_default().push_str(text);
            } else {
                pass(Some(tag.rank), self.joined(key, text));
            }
        }
    }

    /// Whether this line has to be joined with others, or consists of several.
    pub(crate) fn concerns(&self, line: &str) -> bool {
        let tags = line.match_indices(STREAM).take(2).count();
        tags == 2 || (tags == 1 && !self.unended.is_empty())
    }

    /// Passes on what ranks wrote without ending the line.
    pub fn finish(&mut self, mut pass: impl FnMut(Option<u32>, String)) {
        self.held_bytes = 0;
        for ((rank, _), text) in std::mem::take(&mut self.unended) {
            pass(Some(rank), text);
        }
    }

    /// What the rank has not ended on this stream, and this text.
    fn joined<'a>(&mut self, key: (u32, usize), text: &'a str) -> Cow<'a, str> {
        let Some(mut held) = self.unended.remove(&key) else { return text.into() };
        self.held_bytes -= held.len();
        held.push_str(text);
        held.into()
    }

    /// Open MPI 5 puts a space between tag and text; Open MPI 4 does not, and writes mostly the same tags.
    /// Until a text without a space shows which it is, indentation counts as even.
    fn without_space<'a>(&mut self, text: &'a str, is_of_5: bool) -> &'a str {
        let is_odd = (text.len() - text.trim_start_matches(' ').len()) % 2 == 1;
        match text.strip_prefix(' ') {
            Some(rest) if is_of_5 || (is_odd && !self.unspaced) => rest,
            Some(_) => text,
            None => {
                self.unspaced |= !text.is_empty() && !is_of_5;
                text
            }
        }
    }
}

/// Reads the tag of Open MPI with which a text begins.
fn tag(text: &str) -> Option<Tag<'_>> {
    let (inside, after) = text.strip_prefix('[')?.split_once(']')?;
    // A second bracket has the host and the process.
    let after_place = match after.strip_prefix('[').and_then(|after| after.split_once(']')) {
        Some((place, rest)) if place.contains(':') && !place.contains(char::is_whitespace) => rest,
        _ => after,
    };
    let found = STREAMS.iter().enumerate();
    let mut found = found.filter_map(|(at, name)| Some((at, after_place.strip_prefix(name)?)));
    let (stream, text) = found.next()?;
    let (job, rank) = inside.rsplit_once([',', '@']).unwrap_or(("", inside));
    let text = text.strip_prefix(':').unwrap_or(text);
    Some(Tag { rank: number(rank)?, stream, is_of_5: job.contains('@'), text })
}

/// Splits a text where the next tag of Open MPI begins.
fn up_to_next(text: &str) -> (&str, Option<Tag<'_>>) {
    if text.contains(STREAM) {
        for (at, _) in text.match_indices('[') {
            if let Some(found) = tag(&text[at..]) {
                return (&text[..at], Some(found));
            }
        }
    }
    (text, None)
}

/// Reads a line that begins with `[3] `. The tag is written again where the rank had not ended its line; that
/// is certain only before a rewrite of the line, and at its end.
fn bare(line: &str) -> Option<(u32, Cow<'_, str>)> {
    let (inside, after) = line.strip_prefix('[')?.split_once(']')?;
    let rank = number(inside)?;
    if after.is_empty() {
        return Some((rank, "".into()));
    }
    let text = after.strip_prefix(' ')?;
    let again = &line[..inside.len() + 3];
    let text = text.strip_suffix(again).unwrap_or(text);
    let rewrite = format!("{again}\r");
    Some((rank, if text.contains(&rewrite) { text.replace(&rewrite, "\r").into() } else { text.into() }))
}

/// A rank in digits only.
fn number(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of an output, as `rank: text`.
    fn lines(bare: bool, output: &[&str]) -> Vec<String> {
        let mut tags = Tags::new(bare);
        let mut found = Vec::new();
        let written = |rank: Option<u32>, text: &str| match rank {
            Some(rank) => format!("{rank}: {text}"),
            None => text.to_owned(),
        };
        for line in output {
            tags.take_off(line, |rank, text| found.push(written(rank, &text)));
        }
        tags.finish(|rank, text| found.push(written(rank, &text)));
        found
    }

    #[test]
    fn every_launchers_tags_are_taken_off_and_nothing_else() {
        let table = [
            ("[1,3]<stdout>:step 1", "3: step 1"),
            ("[1,3]<stdout>: step 1", "3: step 1"),
            ("[1,0]<stdout>:2026-01-01 00:00:00,1 INFO x", "0: 2026-01-01 00:00:00,1 INFO x"),
            ("[prterun-node-1-77@1,3]<stdout>: step", "3: step"),
            ("[prterun-node-1-77@1,3]<stdout>:   indented", "3:   indented"),
            ("[1,3][node-1:77]<stdout>:step", "3: step"),
            ("[1,3]<stddiag>:", "3: "),
            ("[3] step", "3: step"),
            ("[3]   step", "3:   step"),
            ("[3]", "3: "),
            ("[3]: text", "[3]: text"),
            ("[INFO] text", "[INFO] text"),
            ("[2026-01-01 00:00:00] text", "[2026-01-01 00:00:00] text"),
            ("[node-1:77] *** An error occurred", "[node-1:77] *** An error occurred"),
            ("[1,x]<stdout>:text", "[1,x]<stdout>:text"),
            ("[-1] text", "[-1] text"),
            ("[99999999999] text", "[99999999999] text"),
            ("text [1,3]<stdout>:", "text [1,3]<stdout>:"),
            ("[", "["),
            ("", ""),
        ];
        for (line, expected) in table {
            assert_eq!(lines(true, &[line]), [expected], "{line}");
        }
        assert_eq!(lines(false, &["[3] step", "[1,3]<stdout>:[0] step"]), ["[3] step", "3: [0] step"]);
    }

    #[test]
    fn indentation_is_kept_whichever_open_mpi_wrote_the_tag() {
        let four = ["[1,0]<stderr>:Traceback:", "[1,0]<stderr>:  File \"a.py\"", "[1,0]<stderr>:KeyError"];
        assert_eq!(lines(false, &four), ["0: Traceback:", "0:   File \"a.py\"", "0: KeyError"]);
        let five = ["[1,0]<stderr>: Traceback:", "[1,0]<stderr>:   File \"a.py\"", "[1,0]<stderr>: KeyError"];
        assert_eq!(lines(false, &five), ["0: Traceback:", "0:   File \"a.py\"", "0: KeyError"]);
        for inner in ["[1,0]<stderr>:  File", "[1,0]<stderr>:   File"] {
            assert_eq!(lines(false, &[inner]), ["0:   File"], "read from the middle");
        }
    }

    #[test]
    fn lines_that_are_tagged_in_pieces_are_whole_again() {
        let output = [
            "[1,0]<stdout>:part[1,1]<stdout>:piece[1,0]<stdout>: rest",
            "mpirun has something to report",
            "[1,1]<stdout>: of 1",
            "[1,0]<stderr>:\r 00%[1,0]<stderr>:\r 10%[1,0]<stderr>:",
            "[1,0]<stdout>:end[1,1]<stdout>:unended",
            "[1,1]<stderr>:an error",
        ];
        assert_eq!(
            lines(false, &output),
            [
                "0: part rest",
                "mpirun has something to report",
                "1: piece of 1",
                "0: \r 00%\r 10%",
                "1: unended",
                "1: an error",
                "0: end",
            ]
        );
        let hydra = ["[0] \r 00%[0] \r 10%[0] ", "[0] a[0] = 1"];
        assert_eq!(lines(true, &hydra), ["0: \r 00%\r 10%", "0: a[0] = 1"]);
    }

    #[test]
    fn what_is_held_of_unended_lines_is_bounded() {
        let long = "x".repeat(MOST_HELD_BYTES / 2 + 1);
        let line = format!("[1,0]<stdout>:{long}[1,1]<stdout>:{long}[1,2]<stdout>:end");
        let found = lines(false, &[&line]);
        assert_eq!(found.iter().map(|line| &line[..1]).collect::<Vec<_>>(), ["1", "2", "0"]);
    }
}
