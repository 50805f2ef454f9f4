//! Finds lines that look like errors, for failures whose cause no rule names: such a line is quoted, so that a message
//! never claims that the output has none. It proves nothing, and decides nothing. Pure.

use std::sync::LazyLock;

use regex::Regex;

use super::last_words::unframed;
use super::lines::Line;
use super::scan::{Finding, is_frame};

/// The lines before and after a launcher's report in which its reason is searched for.
const NEAR: usize = 40;
/// The lines from the end on that are examined.
const MOST: usize = 20_000;
/// The lines of a report that are read.
const LINES_OF_REPORT: usize = 4;

/// Words of errors. A number after `error`, as in `error: 0.13`, is a metric.
static ERROR: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?x)
        \b(?i:fatal|failed|failure|cannot|can't|could\ not|couldn't|unable\ to|denied|refused|no\ such|not\ found|not\ permitted
        |not\ available|unavailable|unreachable|timed\ out|time-?out|exceeded|invalid|illegal|aborted|killed|disconnected|expired
        |too\ many|must\ be|required|unsupported|unknown|unbound)\b
        |_ERROR_|ERROR\b|Error\b|(?i:\berror(?:s)?\b)(?:$|[^\w=\s]*\s*[^\s\d.=:,%]|:\s*[^\s\d.-])",
    )
    .ok()
});
/// Lines with these words report that all is well, or nearly.
static GOOD: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?:no|0|without|zero)\s+(?:\w+\s+)?(?:errors?|failures?|failed)\b|warning\b|\bWARN\b")
        .ok()
});

fn is_error(line: &Line<'_>) -> bool {
    let matches = |pattern: &LazyLock<Option<Regex>>| {
        pattern.as_ref().is_some_and(|pattern| pattern.is_match(&line.text))
    };
    matches(&ERROR) && !matches(&GOOD)
}

/// A line with its words.
type Words = (usize, String);

fn words(lines: &[Line<'_>], at: usize) -> Words {
    (at, lines[at].text.trim().to_owned())
}

/// The last line that looks like an error and is not a part of a launcher's report, or the first sentence of the first report;
/// the report comes first where it must be one that no rule knows.
pub(crate) fn any(lines: &[Line<'_>], is_report_unknown: bool) -> Option<Words> {
    let line = || {
        let found = unframed(lines).into_iter().rev().take(MOST).find(|at| is_error(&lines[*at]))?;
        Some(words(lines, found))
    };
    let report = || report(lines);
    if is_report_unknown { report().or_else(line) } else { line().or_else(report) }
}

/// The first sentence or lines of the first framed report of a launcher.
fn report(lines: &[Line<'_>]) -> Option<Words> {
    let frame = lines.iter().position(is_frame)?;
    let begin = frame + 1 + lines[frame + 1..].iter().position(|line| !line.text.trim().is_empty())?;
    let paragraph = lines[begin..].iter().take_while(|line| !is_frame(line) && !line.text.trim().is_empty());
    let text: Vec<&str> = paragraph.take(LINES_OF_REPORT).map(|line| line.text.trim()).collect();
    let text = text.join(" ");
    let sentence = text.split_once(". ").map_or(text.as_str(), |(first, _)| first);
    let sentence = sentence.trim_end_matches(['.', ':']);
    (!sentence.is_empty()).then(|| (begin, sentence.to_owned()))
}

/// The line near a launcher's report that may be its reason: the closest one that looks like an error, else the closest one,
/// whatever it says. Lines before the report come first.
pub(crate) fn beside(lines: &[Line<'_>], finding: &Finding) -> Option<Words> {
    let is_near = |at: &usize| *at != finding.at && at.abs_diff(finding.at) <= NEAR && !lines[*at].by_rank;
    let (before, after): (Vec<usize>, Vec<usize>) =
        unframed(lines).into_iter().filter(is_near).partition(|at| *at < finding.at);
    let closest = || before.iter().rev().chain(&after).copied();
    let found = closest().find(|at| is_error(&lines[*at])).or_else(|| closest().next())?;
    Some(words(lines, found))
}

/// The closest line before a launcher's report on a rank that looks like an error.
pub(crate) fn before(lines: &[Line<'_>], finding: &Finding) -> Option<Words> {
    let is_near = |at: &usize| *at < finding.at && finding.at - at <= NEAR;
    let found = unframed(lines).into_iter().rev().filter(is_near).find(|at| is_error(&lines[*at]))?;
    Some(words(lines, found))
}
