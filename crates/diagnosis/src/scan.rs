//! Applies the rules to lines: one pass finds the lines that can match, and only those are examined closely.
//!
//! The input is lines, in order; the output is findings, in order. Everything is bounded: findings and tries per rule,
//! and lines per block.

use std::collections::BTreeMap;
use std::sync::{LazyLock, OnceLock};

use aho_corasick::AhoCorasick;
use regex::bytes::{Captures, Regex, RegexBuilder};

use super::lines::Line;
use super::rules::{self, Rule};

/// The maximum number of findings kept per rule; the rest is dropped.
const MAX_FINDINGS: usize = 32;
/// The maximum number of lines that one rule examines closely.
const MAX_TRIES: usize = 20_000;
/// The maximum number of lines in a block: a help text, a frame or a stack trace.
const BLOCK_LINES: usize = 24;
/// The maximum length of a captured value, in characters.
const MAX_VALUE_CHARS: usize = 200;

/// A rule that matched.
#[derive(Debug, Clone)]
pub(crate) struct Finding {
    pub rule: &'static Rule,
    /// The index of the line.
    pub at: usize,
    /// The values that the rule's groups captured.
    pub values: BTreeMap<String, String>,
    /// The indices of further lines that gave values.
    pub also: Vec<usize>,
}

struct Compiled {
    line: Regex,
    block: Option<Regex>,
    details: Vec<Regex>,
}

struct Matcher {
    needles: AhoCorasick,
    /// For each needle, the index of its rule.
    owners: Vec<usize>,
    rules: Vec<(&'static Rule, OnceLock<Option<Compiled>>)>,
}

static MATCHER: LazyLock<Option<Matcher>> = LazyLock::new(|| {
    let rules: Vec<_> = rules::all().map(|rule| (rule, OnceLock::new())).collect();
    let (needles, owners): (Vec<&str>, Vec<usize>) = rules
        .iter()
        .enumerate()
        .flat_map(|(index, (rule, _))| rule.needle.split('|').map(move |needle| (needle, index)))
        .unzip();
    Some(Matcher {
        needles: AhoCorasick::builder().ascii_case_insensitive(true).build(needles).ok()?,
        owners,
        rules,
    })
});

/// Matches bytes, without Unicode classes: the rules' texts are ASCII, and such a regex is small and quick to build.
fn expression(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(pattern).unicode(false).build()
}

fn compile(rule: &Rule) -> Option<Compiled> {
    Some(Compiled {
        line: expression(rule.line).ok()?,
        block: rule.block.map(expression).transpose().ok()?,
        details: rule.details.iter().map(|detail| expression(detail)).collect::<Result<_, _>>().ok()?,
    })
}

/// Returns all findings in the lines, in order.
pub(crate) fn scan(lines: &[Line<'_>]) -> Vec<Finding> {
    let Some(matcher) = MATCHER.as_ref() else { return Vec::new() };
    let mut findings = Vec::new();
    let mut found = vec![0usize; matcher.rules.len()];
    let mut tried = vec![0usize; matcher.rules.len()];
    let mut last = vec![usize::MAX; matcher.rules.len()];
    for (at, line) in lines.iter().enumerate() {
        for hit in matcher.needles.find_overlapping_iter(line.text.as_ref()) {
            let owner = matcher.owners[hit.pattern().as_usize()];
            if last[owner] == at || found[owner] == MAX_FINDINGS || tried[owner] == MAX_TRIES {
                continue;
            }
            last[owner] = at;
            tried[owner] += 1;
            let (rule, compiled) = &matcher.rules[owner];
            let Some(compiled) = compiled.get_or_init(|| compile(rule)) else { continue };
            if let Some(finding) = apply(rule, compiled, lines, at) {
                found[owner] += 1;
                findings.push(finding);
            }
        }
    }
    findings
}

fn apply(rule: &'static Rule, compiled: &Compiled, lines: &[Line<'_>], at: usize) -> Option<Finding> {
    let captures = compiled.line.captures(lines[at].text.as_bytes())?;
    let mut finding = Finding { rule, at, values: BTreeMap::new(), also: Vec::new() };
    keep(&mut finding.values, &compiled.line, &captures);
    if compiled.block.is_none() && compiled.details.is_empty() {
        return Some(finding);
    }
    let (block, starts) = block(lines, at);
    if let Some(wanted) = &compiled.block {
        let matched = wanted.find(block.as_bytes())?;
        rest_on(&mut finding, at + line_at(&starts, matched.end() - 1));
    }
    for detail in &compiled.details {
        let Some(captures) = detail.captures(block.as_bytes()) else { continue };
        keep(&mut finding.values, detail, &captures);
        let position =
            captures.iter().skip(1).flatten().map(|group| group.start()).next().unwrap_or_default();
        rest_on(&mut finding, at + line_at(&starts, position));
    }
    Some(finding)
}

/// The line that contains a position, given the positions where lines begin.
fn line_at(starts: &[usize], position: usize) -> usize {
    starts.partition_point(|start| *start <= position).saturating_sub(1)
}

fn rest_on(finding: &mut Finding, line: usize) {
    if line != finding.at && !finding.also.contains(&line) {
        finding.also.push(line);
    }
}

fn keep(values: &mut BTreeMap<String, String>, regex: &Regex, captures: &Captures<'_>) {
    for name in regex.capture_names().flatten() {
        let Some(group) = captures.name(name) else { continue };
        let value = String::from_utf8_lossy(group.as_bytes());
        let value = value.trim_end();
        if !value.is_empty() {
            values.entry(name.to_owned()).or_insert_with(|| value.chars().take(MAX_VALUE_CHARS).collect());
        }
    }
}

/// Joins the line with those after it up to the end of its frame; also returns where in that text each line begins.
fn block(lines: &[Line<'_>], at: usize) -> (String, Vec<usize>) {
    let mut text = String::new();
    let mut starts = Vec::new();
    for (offset, line) in lines[at..].iter().take(BLOCK_LINES).enumerate() {
        if offset > 0 && is_frame(line) {
            break;
        }
        starts.push(text.len());
        text.push_str(&line.text);
        text.push('\n');
    }
    (text, starts)
}

/// The lengths of the rules that frame the texts of Open MPI 4 and 5 (`-`) and of Hydra (`=`). Rules of other lengths
/// come from ranks' output.
const DASHES: [usize; 3] = [60, 66, 74];
const EQUALS: [usize; 1] = [83];

/// Whether the line is a rule of dashes or equals signs, which ends a help text.
pub(crate) fn is_frame(line: &Line<'_>) -> bool {
    let text = line.text.trim();
    let is_rule = |letter: u8, lengths: &[usize]| {
        lengths.contains(&text.len()) && text.bytes().all(|byte| byte == letter)
    };
    !line.by_rank && (is_rule(b'-', &DASHES) || is_rule(b'=', &EQUALS))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::collect::Output;
    use super::super::lines;
    use super::*;

    #[test]
    fn every_rule_compiles_has_its_own_name_and_matches_its_example() {
        let mut names = BTreeSet::new();
        assert!(MATCHER.is_some());
        for rule in rules::all() {
            assert!(names.insert(rule.id), "{} twice", rule.id);
            assert!(compile(rule).is_some(), "{} does not compile", rule.id);
            let output = Output::from(rule.example);
            let lines = lines::lines(rule.example, "", &output);
            let found = scan(&lines);
            assert!(
                found.iter().any(|finding| finding.rule.id == rule.id),
                "{}: {:?}",
                rule.id,
                rule.example
            );
        }
    }
}
