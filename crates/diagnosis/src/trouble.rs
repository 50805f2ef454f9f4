//! Finds lines that look like errors, for failures whose cause no rule names: such a line is quoted, so that a message
//! never claims that the output has none. It proves nothing, and decides nothing. Pure.

use std::sync::LazyLock;

use regex::Regex;

use super::last_words::unframed;
use super::lines::Line;
use super::scan::Finding;

/// The lines before and after a launcher's report in which its reason is searched for.
const NEAR: usize = 40;

/// Words of errors. A number after `error`, as in `error: 0.13`, is a metric.
static ERROR: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?x)
        \b(?i:fatal|failed|failure|cannot|can't|could\ not|couldn't|unable\ to|denied|refused|no\ such|not\ found|not\ permitted
        |not\ available|unavailable|unreachable|timed\ out|time-?out|exceeded|invalid|illegal|aborted|killed|disconnected|expired
        |too\ many|must\ be|required|unsupported|unknown)\b
        |_ERROR_|ERROR\b|Error\b|(?i:\berror(?:s)?\b)(?:$|[^\w=\s]*\s*[^\s\d.=:,%]|:\s*[^\s\d.-])",
    )
    .ok()
});
/// Lines with these words report that all is well.
static GOOD: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?:no|0|without|zero)\s+(?:\w+\s+)?(?:errors?|failures?|failed)\b").ok()
});

fn is_error(line: &Line<'_>) -> bool {
    let matches = |pattern: &LazyLock<Option<Regex>>| {
        pattern.as_ref().is_some_and(|pattern| pattern.is_match(&line.text))
    };
    matches(&ERROR) && !matches(&GOOD)
}

/// The last line that looks like an error and is not a part of a launcher's report.
pub(crate) fn last(lines: &[Line<'_>]) -> Option<usize> {
    unframed(lines).into_iter().rev().find(|at| is_error(&lines[*at]))
}

/// The line near a launcher's report that may be its reason: the closest one that looks like an error, else the closest one,
/// whatever it says. Lines before the report come first.
pub(crate) fn beside(lines: &[Line<'_>], finding: &Finding) -> Option<usize> {
    let is_near = |at: &usize| *at != finding.at && at.abs_diff(finding.at) <= NEAR && !lines[*at].by_rank;
    let (before, after): (Vec<usize>, Vec<usize>) =
        unframed(lines).into_iter().filter(is_near).partition(|at| *at < finding.at);
    let closest = || before.iter().rev().chain(&after).copied();
    closest().find(|at| is_error(&lines[*at])).or_else(|| closest().next())
}
