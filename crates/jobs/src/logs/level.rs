//! The level of a log line, as the program that wrote it marked it. Pure.
//!
//! Understood are Python's `logging` in its usual formats, key-value and JSON logs, glog and TensorFlow, NCCL, the messages
//! of MPI, compilers and shells, and Python's exceptions and warnings. A line without such a mark has no level: the word
//! "error" in a sentence or a metric's name is no mark.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use regex::bytes::{Regex, RegexBuilder};
use serde::Serialize;

/// The number of bytes at the start of a line in which a mark is looked for.
const MAX_HEADER_BYTES: usize = 400;
/// The maximum number of ranks whose last level is remembered.
const MAX_RANKS: usize = 65_536;

/// The severity of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Level {
    /// Details for finding a fault; also `TRACE`.
    Debug,
    /// What happens.
    Info,
    /// Something that may become a problem.
    Warning,
    /// A failure; also `CRITICAL` and `FATAL`.
    Error,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Warning => "warning",
            Level::Error => "error",
        })
    }
}

impl FromStr for Level {
    type Err = String;

    fn from_str(text: &str) -> Result<Level, String> {
        named(text.as_bytes())
            .ok_or_else(|| format!("\"{text}\" is not a level: use debug, info, warning or error"))
    }
}

fn named(word: &[u8]) -> Option<Level> {
    let is = |names: &[&str]| names.iter().any(|name| word.eq_ignore_ascii_case(name.as_bytes()));
    if is(&["debug", "trace", "d"]) {
        Some(Level::Debug)
    } else if is(&["info", "notice", "i"]) {
        Some(Level::Info)
    } else if is(&["warning", "warn", "w"]) {
        Some(Level::Warning)
    } else if is(&["error", "err", "critical", "fatal", "panic", "e", "f"]) {
        Some(Level::Error)
    } else {
        None
    }
}

/// glog's `W0101 00:00:00.123456 1 file.cc:1] text` and TensorFlow's `2026-01-01 00:00:00.123456: W file.cc:1] text`.
const GLOG: &str =
    r"^(?:(?P<glog>[IWEF])\d{4} \d\d:\d\d:\d\d|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+: (?P<tf>[IWEF]) )";
/// The forms of a mark; the group `level` has the word.
const FORMS: [&str; 7] = [
    // `WARNING:root:text`, `ERROR text`, `INFO 01-01 00:00:00 text`, `INFO - text`
    r"^(?P<level>DEBUG|TRACE|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL)(?::| |\t|$)",
    // `[2026-01-01 00:00:00,123] [INFO] [engine.py:1] text`, `[rank0] [error] text`
    r"^[^\]]{0,80}(?:\][^\[\]]{0,20}){0,3}\[ ?(?P<level>DEBUG|TRACE|INFO|NOTICE|WARNING|WARN|ERROR|CRITICAL|FATAL|debug|trace|info|notice|warning|warn|error|critical|fatal|Debug|Info|Warning|Error) ?\]",
    // `2026-01-01 00:00:00,123 - name - INFO - text`, `2026-01-01T00:00:00Z  WARN name: text`, `00:00:00 | INFO | text`
    r"^\[?(?:\d{4}[-/]\d\d[-/]\d\d[T ])?\d\d:\d\d:\d\d\S{0,12}[\s|-][^\n]{0,60}?(?P<level>DEBUG|TRACE|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL)(?:\s|:|\||\]|$)",
    GLOG,
    // `node-1:12:34 [0] NCCL WARN text`
    r"^\S+:\d+:\d+ \[\d+\] NCCL (?P<level>INFO|WARN|TRACE|ERROR)\b",
    // `time=… level=info msg=…` and `{"level": "info", …}`
    r#"^[^\n]{0,120}?(?:(?:^|\s)(?:level|lvl|severity)=|"(?:level|levelname|severity|log\.level)"\s*:\s*)"?(?P<level>(?i:debug|trace|info|warning|warn|error|critical|fatal))\b"#,
    // `warning: text`, `a.c:3:5: error: text`, `/lib/x.py:10: UserWarning: text`
    r"^(?:\S+:\d+:(?:\d+:)? *)?(?:fatal )?(?:\w+)?(?P<level>[Ww]arning|WARNING|error|ERROR|fatal|FATAL|panic): ",
];
/// Lines that say that something failed, without a word for the level.
const FAILURES: &str = r"^(?:Traceback \(most recent call last\):|(?:[A-Za-z_][\w.]*)?(?:Error|Exception|Interrupt)(?:: |:?$)|\[\S+:\d+\] \*\*\* (?:An error occurred|Process received signal)|\*\*\* An error occurred|Segmentation fault|Killed$|thread '.*' panicked at )";
/// Every line that has one of the other forms, or says that something failed, has one of these words. Most lines have none, and
/// one search for all of them costs a small part of what all forms cost.
const WORDS: &str = "(?i)debug|trace|info|notice|warn|error|critical|fatal|panic|exception|interrupt|received signal|segmentation fault|killed";

static MARKS: LazyLock<Vec<Regex>> =
    LazyLock::new(|| FORMS.iter().filter_map(|form| compiled(form)).collect());
static GLOG_MARK: LazyLock<Option<Regex>> = LazyLock::new(|| compiled(GLOG));
static FAILURE: LazyLock<Option<Regex>> = LazyLock::new(|| compiled(FAILURES));
static WORD: LazyLock<Option<Regex>> = LazyLock::new(|| compiled(WORDS));

fn compiled(pattern: &str) -> Option<Regex> {
    RegexBuilder::new(pattern).unicode(false).build().ok()
}

/// Returns the level that a line is marked with. Tags of ranks must be removed before.
pub fn level_of(line: &str) -> Option<Level> {
    let colourless = without_colours(line);
    let line = colourless.as_deref().unwrap_or(line).trim_start();
    let end = (0..=MAX_HEADER_BYTES.min(line.len())).rev().find(|end| line.is_char_boundary(*end))?;
    let header = line.get(..end)?.as_bytes();
    if !has_word(header) {
        return GLOG_MARK.as_ref().and_then(|form| marked(form, header));
    }
    if FAILURE.as_ref().is_some_and(|failure| failure.is_match(header)) {
        return Some(Level::Error);
    }
    MARKS.iter().find_map(|form| marked(form, header))
}

/// Whether a line may have another form than glog's.
fn has_word(header: &[u8]) -> bool {
    WORD.as_ref().is_none_or(|word| word.is_match(header))
}

/// The level of a line that has this form.
fn marked(form: &Regex, header: &[u8]) -> Option<Level> {
    // Without a match, nothing is allocated.
    let found = form.is_match(header).then(|| form.captures(header)).flatten()?;
    let word = ["level", "glog", "tf"].into_iter().find_map(|group| found.name(group))?;
    named(word.as_bytes())
}

/// Removes colours: programs colour the level even where nobody sees it.
fn without_colours(line: &str) -> Option<String> {
    if !line.contains('\u{1b}') {
        return None;
    }
    let mut rest = line;
    let mut clean = String::new();
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        clean.push_str(before);
        let end = after.find(|c: char| ('\u{40}'..='\u{7e}').contains(&c))?;
        rest = after.get(end + 1..)?;
    }
    (!clean.is_empty() || rest.len() < line.len()).then(|| clean + rest)
}

/// The levels of the lines of one pod. An indented line without a mark, such as one of a traceback, has the level of the
/// line of the same rank that it belongs to.
#[derive(Debug, Default)]
pub struct Levels {
    last: HashMap<Option<u32>, Level>,
}

impl Levels {
    /// Returns the level of the next line.
    pub fn next(&mut self, rank: Option<u32>, line: &str) -> Option<Level> {
        let is_continued = line.starts_with([' ', '\t']) && !line.trim().is_empty();
        if let Some(level) = self.last.get(&rank).filter(|_| is_continued) {
            return Some(*level);
        }
        let level = level_of(line);
        match level {
            Some(level) if self.last.len() < MAX_RANKS => {
                self.last.insert(rank, level);
            }
            _ => {
                self.last.remove(&rank);
            }
        }
        level
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marked_lines_have_their_level() {
        let table = [
            ("WARNING:root:low disk", Level::Warning),
            ("INFO:horovod:rank 0 of 4", Level::Info),
            ("ERROR something broke", Level::Error),
            ("INFO 01-01 00:00:00 engine.py:12] started", Level::Info),
            ("2026-01-01 00:00:00,123 - train - DEBUG - batch 7", Level::Debug),
            ("2026-01-01 00:00:00,123 | WARNING | slow", Level::Warning),
            ("2026-01-01T00:00:00.000001Z  INFO mod::name: text", Level::Info),
            ("00:00:01 ERROR text", Level::Error),
            ("[2026-01-01 00:00:00,123] [INFO] [engine.py:95:print] text", Level::Info),
            ("[2026-01-01 00:00:00,123] [WARNING] text", Level::Warning),
            ("[rank0] [error] text", Level::Error),
            ("\u{1b}[32mINFO\u{1b}[0m: text", Level::Info),
            ("W0101 00:00:00.123456 140 file.cc:12] text", Level::Warning),
            ("2026-01-01 00:00:00.123456: W tensorflow/core/a.cc:1] text", Level::Warning),
            ("2026-01-01 00:00:00.123456: I tensorflow/core/a.cc:1] no error", Level::Info),
            ("node-1:12:34 [0] NCCL INFO NET/Socket", Level::Info),
            ("node-1:12:34 [7] NCCL WARN Call to connect failed", Level::Warning),
            ("time=2026-01-01T00:00:00Z level=error msg=x", Level::Error),
            ("{\"time\": 1, \"level\": \"warn\", \"msg\": \"x\"}", Level::Warning),
            ("warning: unused variable", Level::Warning),
            ("/usr/lib/python3/torch/x.py:10: UserWarning: deprecated", Level::Warning),
            ("a.c:3:5: error: expected ';'", Level::Error),
            ("Traceback (most recent call last):", Level::Error),
            ("ValueError: bad shape", Level::Error),
            ("torch.cuda.OutOfMemoryError: CUDA out of memory.", Level::Error),
            ("KeyboardInterrupt", Level::Error),
            ("[node-1:77] *** An error occurred in MPI_Send", Level::Error),
            ("Killed", Level::Error),
        ];
        for (line, level) in table {
            assert_eq!(level_of(line), Some(level), "{line}");
        }
    }

    #[test]
    fn near_misses_have_no_level() {
        let table = [
            "epoch 3 loss=0.25 error rate 0.1",
            "errors: 0",
            "ERRORS=0",
            "validation error: 0.12",
            "mean absolute Error of 0.3",
            "no warnings",
            "INFORMATION for the reader",
            "informed by 3 ranks",
            "DEBUGGER attached",
            "set the level to WARNING if needed",
            "Killed 3 of 4 trials",
            "loading [information] pages",
            "step [100/200] error=0.3",
            "level of detail: 3",
            "2026-01-01 00:00:00 loss 0.3 ERRORS 0",
            "",
            "Errors were found",
            "ErrorRate: 0.1",
        ];
        for line in table {
            assert_eq!(level_of(line), None, "{line}");
        }
    }

    #[test]
    fn ordinary_lines_are_compared_with_no_form_but_one() {
        for line in ["epoch 3 loss=0.25 acc=0.9", "[Epoch 3] [batch 1/100] loss: 0.3", "{\"step\": 3}", ""] {
            assert!(!has_word(line.as_bytes()), "{line}");
        }
        for line in ["Killed", "a level=WARN", "thread 'main' panicked at a.rs:1", "KeyboardInterrupt"] {
            assert!(has_word(line.as_bytes()), "{line}");
        }
    }

    #[test]
    fn a_traceback_belongs_together_for_each_rank() {
        let mut levels = Levels::default();
        let lines = [
            (0, "Traceback (most recent call last):", Some(Level::Error)),
            (1, "  indented output", None),
            (0, "  File \"train.py\", line 3", Some(Level::Error)),
            (0, "ValueError: bad", Some(Level::Error)),
            (0, "epoch 1", None),
            (0, "  indented output", None),
        ];
        for (rank, line, level) in lines {
            assert_eq!(levels.next(Some(rank), line), level, "{line}");
        }
    }

    #[test]
    fn levels_are_ordered_and_named() {
        assert!(Level::Error > Level::Warning && Level::Warning > Level::Info && Level::Info > Level::Debug);
        assert_eq!("Warn".parse(), Ok(Level::Warning));
        assert!("loud".parse::<Level>().unwrap_err().contains("use debug"));
    }

    #[test]
    fn no_line_breaks_the_detection() {
        for line in ["\u{1b}[", "\u{1b}[31", &"é".repeat(500), "\u{1b}[0m", "\u{0}"] {
            let _: Option<Level> = level_of(line);
        }
        assert_eq!(level_of(&format!("ERROR: {}", "é".repeat(500))), Some(Level::Error));
    }
}
