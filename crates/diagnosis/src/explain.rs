//! Puts a verdict into words: message, Worker, evidence, advice.

use std::collections::BTreeMap;

use super::cause::Cause;
use super::declared;
use super::facts::{Facts, pod_name};
use super::intel;
use super::judge::{
    Candidate, Judgement, Material, TRACEBACK, Traceback, is_consequence, last_traceback, telling_traceback,
};
use super::lines::{Line, escaped, is_noise};
use super::rules::{self, Phase, Speaker};
use super::scan::Finding;
use super::trouble;
use super::{Confidence, Diagnosis, Ending, Evidence, Warning};

/// The maximum number of evidence lines in a diagnosis.
const MAX_EVIDENCE: usize = 6;
/// The note that a message gets if the program itself may have printed the evidence.
const WEAK: &str = " (weak evidence: the program itself may have printed these lines)";

/// The diagnosis for a verdict.
pub(crate) fn explain(
    verdict: &Judgement<'_>,
    material: &Material<'_>,
    told: &[Line<'_>],
    facts: &Facts,
) -> Option<Diagnosis> {
    match verdict {
        Judgement::Nothing => None,
        Judgement::Found(candidate, confidence) => {
            let plain = found(candidate, *confidence, material, told, facts);
            let is_firm = !candidate.from_cluster && !candidate.weak;
            let line = material.lines.get(candidate.finding.at);
            Some(match line.filter(|line| is_firm && !line.by_rank) {
                Some(line) => declared::compared(plain, candidate.finding, &line.text, facts.mpi),
                None => plain,
            })
        }
        Judgement::Intel(candidate, ended, confidence) => {
            let plain = found(candidate, *confidence, material, told, facts);
            Some(ended_under_intel(plain, ended, material, facts))
        }
        Judgement::Lonely(at, confidence) => {
            let evidence = at.iter().take(MAX_EVIDENCE).map(|at| quote(&material.lines[*at])).collect();
            let message = Cause::WrongMpi.texts().message.to_owned();
            Some(diagnosis(Cause::WrongMpi, *confidence, evidence, None, message, None))
        }
        Judgement::Raised(traceback) => Some(raised(*traceback, material, facts)),
        Judgement::Uncaught(traceback) => Some(uncaught(*traceback, material, facts)),
        Judgement::Ended(cause, message, confidence) => {
            let clue = matches!(cause, Cause::RankExited | Cause::Unknown)
                .then(|| exception(material.lines))
                .flatten();
            let is_open = matches!(cause, Cause::RankExited | Cause::Unknown | Cause::SilentHang);
            let words = || trouble::any(material.lines, *cause == Cause::Unknown);
            let error = if is_open && clue.is_none() { words() } else { None };
            let message = with_error(with_clue(message.clone(), clue), error.as_ref());
            let error = error.map(|(at, _)| &material.lines[at]);
            let evidence = ending_evidence(material, clue.or(error));
            Some(diagnosis(*cause, *confidence, evidence, None, message, None))
        }
    }
}

/// Says that no node can take a pod, or several: the message of [`Cause::Unschedulable`].
#[must_use]
pub fn no_node_can_take(pod: &str, why: &str) -> String {
    let values = [("host", pod), ("reason", why)].map(|(name, value)| (name.to_owned(), value.to_owned()));
    fill(Cause::Unschedulable.texts().message, &values.into())
}

/// What a finding in a successful run says.
pub(crate) fn warning(finding: &Finding, line: &Line<'_>) -> Warning {
    let rule = finding.rule;
    let message = fill(rule.says.unwrap_or(rule.cause.texts().message), &finding.values);
    Warning { message: escaped(&message), line: line.number }
}

fn diagnosis(
    cause: Cause,
    confidence: Confidence,
    evidence: Vec<Evidence>,
    worker: Option<String>,
    message: String,
    suggestion: Option<&str>,
) -> Diagnosis {
    Diagnosis {
        cause,
        confidence,
        evidence,
        worker,
        message: escaped(&message),
        suggestion: suggestion.unwrap_or(cause.texts().suggestion).to_owned(),
        link: cause.link(),
    }
}

fn found(
    candidate: &Candidate<'_>,
    confidence: Confidence,
    material: &Material<'_>,
    told: &[Line<'_>],
    facts: &Facts,
) -> Diagnosis {
    let finding = candidate.finding;
    let rule = finding.rule;
    let (lines, findings) =
        if candidate.from_cluster { (told, material.cluster) } else { (material.lines, material.output) };
    let mut values = finding.values.clone();
    if let Some(rank) = lines[finding.at].rank.filter(|_| rule.speaker != Speaker::Launcher) {
        values.entry("rank".to_owned()).or_insert_with(|| rank.to_string());
    }
    if !candidate.from_cluster {
        values.extend(reported(finding, &values, material));
    }
    if let Ending::Exited(code) = material.ending
        && rule.cause == Cause::RankExited
    {
        values.entry("code".to_owned()).or_insert_with(|| code.to_string());
    }
    if let Some(rank) = values.get("rank").cloned() {
        values.insert("who".to_owned(), format!("Rank {rank}"));
        values.insert("whom".to_owned(), format!("rank {rank}"));
    }
    let worker = worker(&values, material.lines, facts).or_else(|| pod_of(&lines[finding.at].text));
    if let Some(worker) = &worker {
        values.entry("host".to_owned()).or_insert_with(|| worker.clone());
    }
    let same: Vec<&Finding> =
        findings.iter().filter(|other| other.rule.cause == rule.cause && other.at != finding.at).collect();
    let clue = (rule.phase == Phase::Report && matches!(rule.cause, Cause::RankExited | Cause::RankAborted))
        .then(|| exception(material.lines))
        .flatten();
    let message =
        fill(rule.says.unwrap_or(rule.cause.texts().message), &values) + &others(worker.as_ref(), &same);
    // The launcher's own report of a failure gives no reason; what else was printed may be one.
    let words = match rule.cause {
        Cause::Unknown => trouble::beside(lines, finding),
        Cause::RankExited if rule.phase == Phase::Report && clue.is_none() => trouble::before(lines, finding),
        _ => None,
    };
    let mut message = with_error(with_clue(message, clue), words.as_ref());
    let words = words.map(|(at, _)| &lines[at]);
    if candidate.weak && !(confidence > Confidence::Low && is_last_exception(&lines[finding.at], material)) {
        message.push_str(WEAK);
    }
    let mut evidence = vec![quote(&lines[finding.at])];
    evidence.extend(words.map(quote));
    if rule.speaker == Speaker::Transport {
        let report = findings.iter().find(|other| rules::of_failed_launch(other.rule));
        evidence.extend(report.map(|report| quote(&lines[report.at])));
    }
    evidence.extend(finding.also.iter().map(|at| quote(&lines[*at])));
    evidence.extend(clue.map(quote));
    evidence.extend(same.iter().map(|other| quote(&lines[other.at])));
    if rule.cause == Cause::ImagePull {
        keep_first_of_each_reason(&mut evidence);
    }
    diagnosis(rule.cause, confidence, trimmed(evidence), worker, message, rules::advice(rule, &values))
}

/// The rank and host of what a program printed without saying who it is: those that the launcher reports as the first to fail,
/// if only one rank printed such words.
fn reported(
    finding: &Finding,
    values: &BTreeMap<String, String>,
    material: &Material<'_>,
) -> BTreeMap<String, String> {
    let is_rank = matches!(finding.rule.speaker, Speaker::Program | Speaker::Rank);
    let is_known = ["host", "rank"].iter().any(|name| values.contains_key(*name));
    let same = material.output.iter().filter(|other| other.rule.id == finding.rule.id).count();
    let tracebacks = material.lines.iter().filter(|line| line.text.contains(TRACEBACK)).take(2).count();
    if !is_rank || is_known || same > 1 || tracebacks > 1 {
        return BTreeMap::new();
    }
    let is_report = |other: &&Finding| {
        other.rule.phase == Phase::Report
            && other.rule.speaker == Speaker::Launcher
            && !material.lines[other.at].by_rank
    };
    let report = material.output.iter().find(is_report);
    let of_report = report.into_iter().flat_map(|report| &report.values);
    of_report
        .filter(|(name, _)| *name == "host" || *name == "rank")
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// The ranks of all of Intel MPI's reports: it takes all of them to know which rank failed.
fn of_all_reports(material: &Material<'_>, evidence: Vec<Evidence>) -> Vec<Evidence> {
    let reports = material.output.iter().filter(|finding| finding.rule.id == intel::RULE);
    let ranks = reports.flat_map(|finding| &finding.also).map(|at| quote(&material.lines[*at]));
    let mut all: Vec<Evidence> = ranks.collect();
    all.extend(evidence);
    all
}

/// Says which rank was killed or has exited, where Intel MPI's reports show it.
fn ended_under_intel(
    plain: Diagnosis,
    ended: &intel::Ended,
    material: &Material<'_>,
    facts: &Facts,
) -> Diagnosis {
    let host = plain.worker.clone().unwrap_or_else(|| "a Worker".to_owned());
    let plain = Diagnosis { evidence: trimmed(of_all_reports(material, plain.evidence)), ..plain };
    match ended {
        intel::Ended::Unclear => plain,
        intel::Ended::Killed(ranks) => {
            let message = format!("{} on {host} was killed by signal 9", intel::one_of(ranks));
            Diagnosis { message, ..plain }
        }
        intel::Ended::Exited(rank) => {
            let values = BTreeMap::from([("rank".to_owned(), rank.to_string())]);
            let worker = worker(&values, material.lines, facts).or(plain.worker);
            let message = format!(
                "Rank {rank} on {host} ended with an error, which Intel MPI does not report, and mpiexec ended the other ranks there"
            );
            let message = with_clue(message, exception(material.lines));
            diagnosis(Cause::RankExited, plain.confidence, plain.evidence, worker, message, None)
        }
    }
}

/// Removes what repeats the reason why an image cannot be pulled: it is in the container's status and in several events, of
/// each pod.
fn keep_first_of_each_reason(evidence: &mut Vec<Evidence>) {
    let mut known: Vec<(String, String)> = Vec::new();
    evidence.retain(|Evidence { text, .. }| {
        let named = text.split_once("image \"").and_then(|(_, rest)| rest.split_once('"'));
        let Some((image, reason)) = named else { return true };
        let reason = reason.trim_start_matches(": ");
        let is_known = known.iter().any(|(other, text)| other == image && text.contains(reason));
        known.push((image.to_owned(), text.clone()));
        !is_known
    });
}

/// Whether a line names the exception of the last traceback, with which the program ended if the launcher reports so.
fn is_last_exception(line: &Line<'_>, material: &Material<'_>) -> bool {
    last_traceback(material.lines)
        .is_some_and(|traceback| material.lines[traceback.exception].text == line.text)
}

/// An exception in one rank for which the others wait: which, where, and the traceback's last lines.
fn raised(traceback: Traceback, material: &Material<'_>, facts: &Facts) -> Diagnosis {
    let Traceback { begin, exception } = traceback;
    let lines = &material.lines[begin..=exception];
    let last = &material.lines[exception];
    let place = place_in(lines);
    let mut values = BTreeMap::from([("name".to_owned(), exception_of(last).to_owned())]);
    values.extend(place.map(|place| ("path".to_owned(), format!(" ({place})"))));
    if let Some(rank) = last.rank {
        values.extend([("rank".to_owned(), rank.to_string()), ("who".to_owned(), format!("Rank {rank}"))]);
    }
    let worker = worker(&values, material.lines, facts);
    let message = fill(Cause::PythonException.texts().message, &values);
    let from = lines.len().saturating_sub(MAX_EVIDENCE);
    let evidence = lines[from..].iter().map(quote).collect();
    diagnosis(Cause::PythonException, Confidence::Medium, evidence, worker, message, None)
}

/// An exception with which the program ended: which, where, and the traceback's last lines.
fn uncaught(traceback: Traceback, material: &Material<'_>, facts: &Facts) -> Diagnosis {
    let told = raised(traceback, material, facts);
    let last = &material.lines[traceback.exception];
    let who = last.rank.map_or_else(|| "The program".to_owned(), |rank| format!("Rank {rank}"));
    let place = place_in(&material.lines[traceback.begin..=traceback.exception]);
    let place = place.map(|place| format!(" ({place})")).unwrap_or_default();
    let code = match material.ending {
        Ending::Exited(code) => format!(", exit code {code}"),
        Ending::Running { .. } | Ending::Unknown => String::new(),
    };
    let message = format!("{who} ended with {}{place}{code}", exception_of(last));
    let cause = Cause::RankExited;
    let suggestion = match is_consequence(&last.text) {
        true => {
            "Another rank or process ended first, and this is the consequence: look for what that one printed."
        }
        false => "Correct the program where the traceback says.",
    };
    let suggestion = suggestion.to_owned();
    Diagnosis { cause, message: escaped(&message), suggestion, link: cause.link(), ..told }
}

/// The place in a traceback that its reader can change: the innermost frame that is neither the interpreter's own nor a
/// library's; without one, the innermost frame.
fn place_in(lines: &[Line<'_>]) -> Option<String> {
    let is_foreign = |line: &str| {
        ["File \"<frozen ", "/site-packages/", "/dist-packages/", "/lib/python", "/lib64/python"]
            .iter()
            .any(|part| line.contains(part))
    };
    let frames = || lines.iter().rev().filter(|line| place(&line.text).is_some());
    let own = frames().find(|line| !is_foreign(&line.text)).or_else(|| frames().next())?;
    place(&own.text)
}

/// The exception that a traceback's last line names. The lines of a group of exceptions have a bar before them.
fn exception_of<'a>(line: &'a Line<'_>) -> &'a str {
    line.text.trim().trim_start_matches("| ")
}

/// The file and the line in a frame of a Python traceback: `train.py, line 9`.
fn place(line: &str) -> Option<String> {
    let line = line.trim_start().trim_start_matches('|').trim_start();
    let (file, rest) = line.strip_prefix("File \"")?.split_once("\", line ")?;
    let number =
        rest.split(|letter: char| !letter.is_ascii_digit()).next().filter(|digits| !digits.is_empty())?;
    Some(format!("{file}, line {number}"))
}

/// Removes duplicate lines, and those beyond the maximum.
fn trimmed(evidence: Vec<Evidence>) -> Vec<Evidence> {
    let mut kept: Vec<Evidence> = Vec::new();
    for item in evidence {
        if kept.len() < MAX_EVIDENCE && !kept.contains(&item) {
            kept.push(item);
        }
    }
    kept
}

fn quote(line: &Line<'_>) -> Evidence {
    Evidence { line: (line.number > 0).then_some(line.number), text: escaped(&line.text) }
}

/// The last lines, for a diagnosis that has only the ending to go by.
fn ending_evidence(material: &Material<'_>, clue: Option<&Line<'_>>) -> Vec<Evidence> {
    let ended = match material.ending {
        Ending::Exited(code) => Some(format!("exit code {code}")),
        Ending::Running { silent_seconds } => Some(format!("still running, silent for {silent_seconds} s")),
        Ending::Unknown => None,
    };
    let last = material.lines.iter().rev().find(|line| !line.text.trim().is_empty() && !is_noise(&line.text));
    let mut evidence: Vec<Evidence> = ended.map(|text| Evidence { line: None, text }).into_iter().collect();
    evidence.extend(clue.map(quote));
    evidence.extend(last.map(quote));
    trimmed(evidence)
}

/// The Worker's name: the captured host if it is not the Launcher, else the one that the rank runs on.
fn worker(values: &BTreeMap<String, String>, lines: &[Line<'_>], facts: &Facts) -> Option<String> {
    let host = values.get("host").map(|host| pod_name(host));
    if let Some(host) = host {
        return (is_name(&host) && !host.contains("launcher")).then_some(host);
    }
    let rank: u32 = values.get("rank")?.parse().ok()?;
    if let Some(world) = facts.world.as_ref().filter(|world| world.slots > 0) {
        return world.workers.get((rank / world.slots) as usize).cloned();
    }
    lines.iter().find_map(|line| host_of_rank(&line.text, rank))
}

/// The pod at the start of a line about a status or event.
fn pod_of(text: &str) -> Option<String> {
    let (name, _) = text.strip_prefix("pod ")?.split_once(": ")?;
    (is_name(name) && !name.contains("launcher")).then(|| name.to_owned())
}

/// Whether the text can be a host's name or address; anything else was captured by mistake.
fn is_name(host: &str) -> bool {
    !host.is_empty()
        && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b':'))
}

/// The host in a line that a rank prints about itself: `rank 1 host train-worker-1`, `rank 1 of 4 on train-worker-1`.
fn host_of_rank(text: &str, rank: u32) -> Option<String> {
    let between = |letter: char| letter.is_whitespace() || matches!(letter, '=' | ':' | ',');
    let names_host =
        |word: &&str| ["host", "on", "node", "hostname"].iter().any(|name| word.eq_ignore_ascii_case(name));
    let mut words = text.split(between).filter(|word| !word.is_empty());
    words.by_ref().find(|word| word.eq_ignore_ascii_case("rank"))?;
    if words.next()?.split('/').next()?.parse() != Ok(rank) {
        return None;
    }
    words.by_ref().take(5).find(names_host)?;
    let host = pod_name(words.find(|word| !names_host(word))?);
    (is_name(&host) && host.contains(|letter: char| letter.is_ascii_alphabetic())).then_some(host)
}

/// A note on how many other Workers had the same failure.
fn others(worker: Option<&String>, same: &[&Finding]) -> String {
    if worker.is_none() {
        return String::new();
    }
    let mut names: Vec<String> =
        same.iter().filter_map(|other| other.values.get("host")).map(|host| pod_name(host)).collect();
    names.sort_unstable();
    names.dedup();
    names.retain(|name| Some(name) != worker && !name.contains("launcher"));
    match names.len() {
        0 => String::new(),
        1 => format!("; the same on {}", names[0]),
        count => format!("; the same on {count} other Workers"),
    }
}

fn with_clue(message: String, clue: Option<&Line<'_>>) -> String {
    match clue {
        Some(line) => format!("{message}; before that the program printed: {}", line.text.trim()),
        None => message,
    }
}

/// Adds words of the output that may be the reason, where none is known.
fn with_error(message: String, words: Option<&(usize, String)>) -> String {
    match words {
        Some((_, words)) => format!("{message}; the output also has: {words}"),
        None => message,
    }
}

/// The last line of the Python traceback that explains the end.
fn exception<'a>(lines: &'a [Line<'a>]) -> Option<&'a Line<'a>> {
    telling_traceback(lines).map(|traceback| &lines[traceback.exception])
}

/// Fills in a template's values: `{name|default text}`.
fn fill(template: &str, values: &BTreeMap<String, String>) -> String {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, tail)) = rest.split_once('{') {
        text.push_str(before);
        let (field, after) = tail.split_once('}').unwrap_or((tail, ""));
        let (name, otherwise) = field.split_once('|').unwrap_or((field, ""));
        match values.get(name).map(String::as_str) {
            Some(value) if name == "host" || name == "peer" => text.push_str(&pod_name(value)),
            value => text.push_str(value.unwrap_or(otherwise)),
        }
        rest = after;
    }
    text.push_str(rest);
    let text = text.trim_end().trim_end_matches(':');
    match text.chars().next() {
        Some(first)
            if template.starts_with('{') && first.is_lowercase() && !values_start(template, values) =>
        {
            first.to_uppercase().collect::<String>() + &text[first.len_utf8()..]
        }
        _ => text.to_owned(),
    }
}

/// Whether the text begins with a captured value, whose spelling must not be changed.
fn values_start(template: &str, values: &BTreeMap<String, String>) -> bool {
    let name = template[1..].split(['|', '}']).next().unwrap_or_default();
    values.contains_key(name)
}
