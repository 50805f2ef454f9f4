//! Finds runs whose processes did not find each other: every one says that it is rank 0 of 1.
//!
//! A job of one process says so, too, and so may a program that prints a line of that kind per epoch: there must be
//! at least two *processes* that say it (by host, process id or rank tag, or the very same greeting twice), and
//! none that says otherwise.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;

use super::lines::Line;

/// Lines of that kind that are looked at.
const MAX_GREETINGS: usize = 4096;

static RANK_OF_SIZE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?:rank|process|processor|proc|task|worker|node|id|am) *[:=#]? *(?P<rank>\d+) *(?:/|,? *(?:out )?of:?) *(?P<size>\d+)\b").ok()
});
static SIZE_APART: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?i)\brank *[:=]? *(?P<rank>\d+)\b.{0,40}?\b(?:world[_ ]?)?size *[:=]? *(?P<size>\d+)\b")
        .ok()
});
static SIZE_BEFORE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?i)\b(?:world[_ ]?)?size *[:=]? *(?P<size>\d+)\b.{0,40}?\brank *[:=]? *(?P<rank>\d+)\b")
        .ok()
});
static HOST: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?i)(?:\b(?:host|hostname|node|on|processor)[ =:]+|@)(?P<host>[a-z][\w.-]*\d[\w.-]*|[a-z][\w]*-[\w.-]+)").ok()
});
static PID: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"(?i)\bpid[ =:]+(?P<pid>\d+)").ok());

/// The indices of the lines in which processes say that they are alone, where that is true of all of them and there
/// are several. `ranks` is how many there should be, where that is known.
pub(crate) fn lonely(lines: &[Line<'_>], ranks: Option<u32>) -> Option<Vec<usize>> {
    if ranks == Some(1) {
        return None;
    }
    let greetings: Vec<usize> = (0..lines.len())
        .filter(|at| may_greet(&lines[*at].text) && rank_and_size(&lines[*at].text) == Some((0, 1)))
        .take(MAX_GREETINGS)
        .collect();
    if greetings.len() < 2 || !(ranks.is_some() || are_processes(lines, &greetings)) {
        return None;
    }
    let otherwise = |line: &Line<'_>| rank_and_size(&line.text).is_some_and(|(_, size)| size > 1);
    (!lines.iter().any(otherwise)).then_some(greetings)
}

/// Cheap: nearly every line ends here.
fn may_greet(text: &str) -> bool {
    text.contains('0') && ["/1", "/ 1", "of 1", "of: 1", "ize", "IZE"].iter().any(|part| text.contains(part))
}

fn rank_and_size(text: &str) -> Option<(u64, u64)> {
    [&RANK_OF_SIZE, &SIZE_APART, &SIZE_BEFORE].into_iter().find_map(|pattern| {
        let captures = pattern.as_ref()?.captures(text)?;
        Some((captures["rank"].parse().ok()?, captures["size"].parse().ok()?))
    })
}

fn are_processes(lines: &[Line<'_>], greetings: &[usize]) -> bool {
    let several = |values: BTreeSet<String>| values.len() > 1;
    let found = |pattern: &'static LazyLock<Option<Regex>>, group: &'static str| {
        greetings
            .iter()
            .filter_map(|at| Some(pattern.as_ref()?.captures(&lines[*at].text)?[group].to_owned()))
            .collect::<BTreeSet<_>>()
    };
    let tags = greetings.iter().filter_map(|at| lines[*at].rank.map(|rank| rank.to_string())).collect();
    let greeting = &lines[greetings[0]].text;
    several(found(&HOST, "host"))
        || several(found(&PID, "pid"))
        || several(tags)
        || greetings.iter().all(|at| lines[*at].text == *greeting)
}
