//! Chooses among findings: a cause before its consequences, and nothing rather than a guess.
//!
//! The input is the findings of the output and of the cluster, how the launcher ended, and the lines. The output is
//! the finding to report with its confidence, or that nothing failed.

use super::cause::Cause;
use super::facts::{World, pod_name};
use super::intel;
use super::lines::Line;
use super::rules::{self, Phase, Speaker, weight};
use super::scan::Finding;
use super::{Confidence, Ending};

/// Seconds of silence of a running launcher before the silence is reported.
pub const STALL_SECONDS: u64 = 10;
/// Seconds of silence after an uncaught exception before the other ranks count as waiting.
const EXCEPTION_SECONDS: u64 = 3;
/// The lines that other ranks may print after an exception before they count as going on: few at first, and more once
/// they have been silent for [`LONG_SILENCE_SECONDS`].
const LINES_AFTER_EXCEPTION: usize = 2;
const LINES_BEFORE_LONG_SILENCE: usize = 10;
const LONG_SILENCE_SECONDS: u64 = 30;
/// A running job that has printed this many lines since a finding has evidently recovered from it.
const LINES_AFTER: usize = 50;
/// A finding with a lower score names no cause.
const LEAST: i32 = 20;
/// A program's last traceback is searched for in this many lines at the end.
const TRACEBACK_LINES: usize = 2000;
/// From this score on, a finding counts even if the launcher still runs or its end is unknown.
const FIRM: i32 = 45;
/// The penalty for a launcher's message that carries a rank's tag, or belongs to a phase that was evidently passed.
const IMPLAUSIBLE: i32 = 60;
/// The penalty for a launcher's report that another report and the exit code contradict.
const CONTRADICTED: i32 = 50;
/// The penalty for an exception of MPI that the program has caught.
const ABANDONED: i32 = 5;
/// The penalty for Kubernetes' messages in a launcher's output.
const OUT_OF_PLACE: i32 = 15;
/// If this share of lines (nine of ten) carries a tag, and all of the launcher's messages, a log tool added
/// the tags, and they mean nothing.
const TAGGED_SHARE: usize = 10;

/// A finding with its score.
#[derive(Debug, Clone)]
pub(crate) struct Candidate<'a> {
    pub finding: &'a Finding,
    /// Whether it comes from the cluster's statuses and events instead of the output.
    pub from_cluster: bool,
    pub score: i32,
    /// Whether the program itself may have printed it.
    pub weak: bool,
}

/// What to report.
#[derive(Debug, Clone)]
pub(crate) enum Judgement<'a> {
    /// Nothing failed.
    Nothing,
    /// The cause that a rule names.
    Found(Candidate<'a>, Confidence),
    /// Intel MPI's reports of ranks that were ended, and what they show.
    Intel(Candidate<'a>, intel::Ended, Confidence),
    /// The processes did not find each other; has the lines that show it.
    Lonely(Vec<usize>, Confidence),
    /// A rank raised an exception that nothing caught, and the others wait for it; has the traceback's lines.
    Raised(Traceback),
    /// The program ended with an exception that nothing caught; has the traceback's lines.
    Uncaught(Traceback),
    /// Only the ending gives a hint: cause and message.
    Ended(Cause, String, Confidence),
}

/// Everything that the choice is based on.
pub(crate) struct Material<'a> {
    pub ending: Ending,
    pub lines: &'a [Line<'a>],
    pub output: &'a [Finding],
    pub cluster: &'a [Finding],
    pub lonely: Option<Vec<usize>>,
    pub world: Option<&'a World>,
}

/// Returns the verdict.
pub(crate) fn judge<'a>(material: &Material<'a>) -> Judgement<'a> {
    let candidates = candidates(material);
    let own = uncaught_of_its_own(material);
    let overtaking = own.map(|_| tracebacks(material.lines)).unwrap_or_default();
    let killed_on = killed_on(material);
    let best = candidates
        .iter()
        .filter(|candidate| counts(candidate, material) && !is_overtaken(candidate, &overtaking))
        .max_by_key(|candidate| rank(candidate, &killed_on));
    if let Some(lonely) = lonely(material, best) {
        return lonely;
    }
    if material.ending == Ending::Exited(0) {
        return match best.filter(|best| rules::of_failed_success(best.finding.rule)) {
            Some(best) => Judgement::Found(best.clone(), Confidence::High),
            None => Judgement::Nothing,
        };
    }
    // A rank that has raised an exception waits for the others, and has not exited.
    let is_running = matches!(material.ending, Ending::Running { .. });
    let is_firm = |best: &&Candidate<'_>| {
        let cause = best.finding.rule.cause;
        !best.weak && cause != Cause::Unknown && !(is_running && cause == Cause::RankExited)
    };
    let best_is_firm = best.is_some_and(|best| is_firm(&best));
    if let Some(raised) = raised(material).filter(|_| !best_is_firm) {
        return Judgement::Raised(raised);
    }
    if let Some(best) = best.filter(|best| best.finding.rule.id == intel::RULE) {
        return by_intel(best, material);
    }
    if let Some(own) = own.filter(|_| best.is_some_and(|best| rules::of_refusal(best.finding.rule))) {
        return Judgement::Uncaught(own);
    }
    if let Some(best) = best.filter(|best| best.finding.rule.cause != Cause::Unknown) {
        return Judgement::Found(best.clone(), confidence(best, &candidates));
    }
    // A shell's codes for signals say more than an exception that may have been handled.
    let says_more = matches!(material.ending, Ending::Exited(124 | 127 | 129..=192));
    if let Some(uncaught) = uncaught(material).filter(|_| !says_more) {
        return Judgement::Uncaught(uncaught);
    }
    by_ending(material, best)
}

/// The verdict by Intel MPI's reports alone.
fn by_intel<'a>(best: &Candidate<'a>, material: &Material<'_>) -> Judgement<'a> {
    let ended = intel::read(material.output, material.world);
    // There may be fewer ranks than slots, so that the missing one never ran.
    let confidence = match ended {
        intel::Ended::Killed(_) => Confidence::Medium,
        intel::Ended::Exited(_) | intel::Ended::Unclear => Confidence::Low,
    };
    Judgement::Intel(best.clone(), ended, confidence)
}

/// The sort key, higher is better: first a finding that names a cause, then the score, then the Worker on which the launcher
/// reports a killed rank, then the earlier line.
fn rank(candidate: &Candidate<'_>, killed_on: &[String]) -> (bool, i32, bool, std::cmp::Reverse<usize>) {
    let finding = candidate.finding;
    let host = finding.values.get("host").map(|host| pod_name(host));
    let is_killed = host.is_some_and(|host| killed_on.contains(&host));
    (finding.rule.cause != Cause::Unknown, candidate.score, is_killed, std::cmp::Reverse(finding.at))
}

/// The Workers on which the launcher reports killed ranks.
fn killed_on(material: &Material<'_>) -> Vec<String> {
    let reports = material.output.iter().filter(|finding| {
        finding.rule.cause == Cause::RankKilled && finding.rule.speaker == Speaker::Launcher
    });
    reports.filter_map(|report| report.values.get("host")).map(|host| pod_name(host)).collect()
}

fn candidates<'a>(material: &Material<'a>) -> Vec<Candidate<'a>> {
    let tagged = material.lines.iter().filter(|line| line.by_rank).count();
    let few_tagged = tagged * TAGGED_SHARE < material.lines.len() * (TAGGED_SHARE - 1);
    let speaks = |finding: &Finding| finding.rule.speaker == Speaker::Launcher;
    let tags_tell = few_tagged
        || material.output.iter().any(|finding| speaks(finding) && !material.lines[finding.at].by_rank);
    let tag = |finding: &Finding| tags_tell && material.lines[finding.at].by_rank;
    let reports: Vec<&Finding> = material
        .output
        .iter()
        .filter(|finding| finding.rule.phase == Phase::Report && !tag(finding))
        .collect();
    let not_launched =
        material.output.iter().any(|finding| rules::of_failed_launch(finding.rule) && !tag(finding));
    let confirmed = reports.iter().any(|report| agrees(report, material.ending) == Some(true));
    // mpi4py ends a job with error code 1 for an exception that nothing caught; with others, the program has decided so.
    let aborted_otherwise = reports.iter().any(|report| {
        report.rule.cause == Cause::RankAborted && report.values.get("code").is_some_and(|code| code != "1")
    });
    let counted = |finding: &&Finding| {
        finding.rule.speaker != Speaker::Transport
            || (not_launched && !tag(finding) && !of_known_speaker(&material.lines[finding.at]))
    };
    let of_output = material.output.iter().filter(counted).map(|finding| {
        let rule = finding.rule;
        let foreign = rule.speaker == Speaker::Launcher && tag(finding);
        let passed = rule.phase == Phase::Start && !reports.is_empty();
        let contradicted = confirmed && agrees(finding, material.ending) == Some(false);
        let abandoned = aborted_otherwise && rule.id.starts_with("mpi4py-error");
        let penalty = [
            (abandoned, ABANDONED),
            (foreign || passed, IMPLAUSIBLE),
            (contradicted, CONTRADICTED),
            (rule.speaker == Speaker::Cluster, OUT_OF_PLACE),
        ];
        let score =
            rule.weight - penalty.iter().filter(|(applies, _)| *applies).map(|(_, by)| by).sum::<i32>();
        let weak =
            foreign || passed || contradicted || matches!(rule.speaker, Speaker::Program | Speaker::Cluster);
        Candidate { finding, from_cluster: false, score, weak }
    });
    let of_cluster = material.cluster.iter().map(|finding| Candidate {
        finding,
        from_cluster: true,
        score: finding.rule.weight,
        weak: false,
    });
    of_output.chain(of_cluster).collect()
}

/// Whether mpiexec or the launch agent printed the line; their messages have rules of their own.
fn of_known_speaker(line: &Line<'_>) -> bool {
    ["[mpiexec@", "[proxy:", "odh-launch: "].iter().any(|start| line.text.trim_start().starts_with(start))
}

/// Whether the exit code matches a launcher's report; `None` if they cannot be compared.
fn agrees(finding: &Finding, ending: Ending) -> Option<bool> {
    let Ending::Exited(code) = ending else { return None };
    let number = |name: &str| finding.values.get(name).and_then(|value| value.parse::<i32>().ok());
    match finding.rule.id {
        "ompi-killed" | "ompi-crashed" => Some(code == 128 + number("signal")?),
        "ompi-nonzero" | "ompi-abort" | "mpich-abort" => Some(code == number("code")? & 0xff),
        // mpiexec of MPICH ends with the signal of the rank that failed first, and its report may be about a rank that it ended
        // itself, with signal 9.
        id if id.starts_with("hydra-") && (1..=64).contains(&code) => {
            Some(code == number("signal").or_else(|| id.ends_with("-killed").then_some(9))?)
        }
        _ => None,
    }
}

/// How many lines a launcher prints while it ends.
const LAST_LINES: usize = 8;

/// Whether only a few lines follow the one at this index.
fn is_last(at: usize, lines: &[Line<'_>]) -> bool {
    lines[at..].iter().filter(|line| !line.text.trim().is_empty()).count() <= LAST_LINES
}

/// Whether a finding may name the cause, given how the launcher ended.
fn counts(candidate: &Candidate<'_>, material: &Material<'_>) -> bool {
    let rule = candidate.finding.rule;
    if candidate.from_cluster {
        return true;
    }
    // A job that has ended cannot hang.
    if rule.cause == Cause::SilentHang && !matches!(material.ending, Ending::Running { .. }) {
        return false;
    }
    // mpiexec of Intel MPI kills its proxies when a rank exits, and passes the rank's exit code on; it ends with 255 if it
    // loses one.
    if rule.id == "hydra-downstream" && matches!(material.ending, Ending::Exited(1..=124)) {
        return false;
    }
    let firm = !candidate.weak && (candidate.score >= FIRM || rule.phase == Phase::Report);
    let recent = material.lines.len() - candidate.finding.at <= LINES_AFTER;
    match material.ending {
        Ending::Exited(0) => {
            let is_its_own = rule.speaker == Speaker::Rank || !material.lines[candidate.finding.at].by_rank;
            // mpiexec reports a proxy that it has lost while it ends.
            let is_in_time = rule.id != "hydra-downstream" || is_last(candidate.finding.at, material.lines);
            rules::of_failed_success(rule) && !candidate.weak && is_its_own && is_in_time
        }
        Ending::Exited(_) => candidate.score >= LEAST,
        Ending::Unknown => {
            firm || candidate.score >= weight::REASON - OUT_OF_PLACE || rule.cause == Cause::Unknown
        }
        Ending::Running { silent_seconds } if silent_seconds < STALL_SECONDS => firm && recent,
        // What mpiexec prints when it is stopped does not explain why it hung.
        Ending::Running { .. } => {
            let is_lasting = !candidate.weak && !rules::of_refusal(rule);
            candidate.score >= LEAST && rule.cause != Cause::Terminated && (recent || is_lasting)
        }
    }
}

/// The lines of a Python traceback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Traceback {
    /// The index of its heading.
    pub begin: usize,
    /// The index of its last line, which names the exception.
    pub exception: usize,
}

/// The Python traceback that explains the end: of the last ones, which follow one another with few lines in between, the
/// first whose exception is no consequence of another rank's end.
pub(crate) fn telling_traceback(lines: &[Line<'_>]) -> Option<Traceback> {
    let all = tracebacks(lines);
    let mut last: Vec<Traceback> = Vec::new();
    for found in all.into_iter().rev() {
        let is_near =
            last.last().is_none_or(|next| next.begin.saturating_sub(found.exception) <= LINES_BETWEEN);
        // The first of a chain was handled, and the handler failed: what ended the program is the last.
        let is_chained = last.last().is_some_and(|next| {
            let between = lines.get(found.exception + 1..next.begin).unwrap_or_default();
            lines[found.begin].rank == lines[next.begin].rank
                && between.iter().any(|line| CHAINS.iter().any(|words| line.text.starts_with(words)))
        });
        if !is_near {
            break;
        }
        if !is_chained {
            last.push(found);
        }
    }
    let own = last.iter().rev().find(|traceback| !is_consequence(&lines[traceback.exception].text));
    own.or(last.first()).copied()
}

/// The tracebacks at the end of the output, in order.
fn tracebacks(lines: &[Line<'_>]) -> Vec<Traceback> {
    let from = lines.len().saturating_sub(TRACEBACK_LINES);
    let found =
        (from..lines.len()).filter_map(|at| traceback_at(lines, at).or_else(|| syntax_error_at(lines, at)));
    let mut all: Vec<Traceback> = found.collect();
    // A syntax error of an imported module ends a traceback.
    all.dedup_by_key(|found| found.exception);
    all
}

/// Whether a rank raises this exception because another rank or process has ended.
pub(crate) fn is_consequence(exception: &str) -> bool {
    CONSEQUENCES.iter().any(|words| exception.contains(words))
}

pub(crate) const TRACEBACK: &str = "Traceback (most recent call last)";
/// Tracebacks with more lines between them do not belong together: the program survived the earlier one.
const LINES_BETWEEN: usize = 40;
/// What Python prints between the tracebacks of exceptions of which one led to the next.
const CHAINS: [&str; 2] = [
    "During handling of the above exception, another exception occurred:",
    "The above exception was the direct cause of the following exception:",
];
/// Exceptions that a rank raises because another one has ended.
const CONSEQUENCES: [&str; 11] = [
    "onnection closed by peer",
    "onnection reset by peer",
    "ConnectionResetError",
    "BrokenPipeError",
    "roken pipe",
    "BrokenProcessPool",
    "emote process exited",
    "KeyboardInterrupt",
    "SystemExit",
    "EOFError",
    "ocket closed",
];

/// The last Python traceback in the lines.
pub(crate) fn last_traceback(lines: &[Line<'_>]) -> Option<Traceback> {
    let from = lines.len().saturating_sub(TRACEBACK_LINES);
    let last = (from..lines.len()).rev().find_map(|begin| traceback_at(lines, begin));
    let syntax = (from..lines.len()).rev().find_map(|at| syntax_error_at(lines, at));
    last.into_iter().chain(syntax).max_by_key(|found| found.exception)
}

/// What Python prints of a program that it cannot parse: a traceback without its heading.
fn syntax_error_at(lines: &[Line<'_>], begin: usize) -> Option<Traceback> {
    // Of the indentation, a rank's tag may have taken a part.
    if !lines[begin].text.trim_start().starts_with("File \"") || !lines[begin].text.starts_with(' ') {
        return None;
    }
    let after = lines[begin + 1..].iter().take(LINES_OF_SYNTAX_ERROR);
    let offset = after.enumerate().find_map(|(offset, line)| {
        let is_end = SYNTAX_ERRORS.iter().any(|name| line.text.starts_with(name));
        (is_end && line.rank == lines[begin].rank).then_some(offset)
    })?;
    Some(Traceback { begin, exception: begin + 1 + offset })
}

/// The exceptions of a program that Python cannot parse.
const SYNTAX_ERRORS: [&str; 3] = ["SyntaxError: ", "IndentationError: ", "TabError: "];
/// The lines of such an error, between those of other ranks: the statement, a mark below it, and the exception.
const LINES_OF_SYNTAX_ERROR: usize = 12;

/// The traceback with its heading there.
fn traceback_at(lines: &[Line<'_>], begin: usize) -> Option<Traceback> {
    if !lines[begin].text.contains(TRACEBACK) {
        return None;
    }
    // The lines of a group of exceptions have a bar before them.
    let is_group = lines[begin].text.trim_start().starts_with(['+', '|']);
    let exception = lines[begin + 1..].iter().position(|line| {
        let text = if is_group { line.text.trim_start().trim_start_matches("| ") } else { &line.text };
        let (name, message) = text.split_once(':').unwrap_or((text, ""));
        let is_part =
            |part: &str| part.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_');
        line.rank == lines[begin].rank
            && !text.starts_with([' ', '\t'])
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_'))
            // `INFO:root:` is the beginning of a log's line, and a warning ends nothing.
            && name.contains(|letter: char| letter.is_ascii_lowercase())
            && !name.ends_with("Warning")
            && (name.contains(|letter: char| letter.is_ascii_uppercase())
                // `socket.gaierror: …`, but not a file's name or a number that another rank prints in between.
                || (name.contains('.') && name.split('.').all(is_part) && message.starts_with(' ')))
    })?;
    Some(Traceback { begin, exception: begin + 1 + exception })
}

/// The traceback with which an output ends whose program has evidently failed: by its exit code, or because nothing follows.
fn uncaught(material: &Material<'_>) -> Option<Traceback> {
    let found = last_traceback(material.lines)?;
    let after = material.lines[found.exception + 1..].iter().filter(|line| !line.text.trim().is_empty());
    let is_end = match material.ending {
        Ending::Exited(_) => true,
        Ending::Unknown => after.count() <= LINES_AFTER_EXCEPTION,
        Ending::Running { .. } => false,
    };
    is_end.then(|| telling_traceback(material.lines)).flatten()
}

/// Whether what a program printed was followed by an exception with which it ended: it had survived the first. The tracebacks are
/// none unless it ended so.
fn is_overtaken(candidate: &Candidate<'_>, tracebacks: &[Traceback]) -> bool {
    let at = candidate.finding.at;
    let is_part = tracebacks.iter().any(|found| (found.begin..=found.exception).contains(&at));
    let is_before = tracebacks.last().is_some_and(|last| at < last.begin);
    let of_program = !candidate.from_cluster && candidate.finding.rule.speaker == Speaker::Program;
    of_program && is_before && !is_part
}

/// The traceback with which the program ended for a reason of its own, and not because a connection failed.
fn uncaught_of_its_own(material: &Material<'_>) -> Option<Traceback> {
    let found = uncaught(material)?;
    let exception = material.lines[found.exception].text.to_ascii_lowercase();
    let is_own = !is_consequence(&material.lines[found.exception].text)
        && !WORDS_OF_CONNECTIONS.iter().any(|word| exception.contains(word));
    is_own.then_some(found)
}

/// In lower case, in exceptions that a failed connection raises.
const WORDS_OF_CONNECTIONS: [&str; 10] =
    ["connect", "socket", "gloo", "nccl", "c10d", "dist", "store", "timeout", "timed out", "mpi"];

/// The traceback with which the output of a running job ends. An exception that the program handles is followed by more
/// output, or the next look withdraws the diagnosis.
fn raised(material: &Material<'_>) -> Option<Traceback> {
    let Ending::Running { silent_seconds } = material.ending else { return None };
    let found = last_traceback(material.lines).filter(|_| silent_seconds >= EXCEPTION_SECONDS)?;
    let after = material.lines.len() - 1 - found.exception;
    let telling = telling_traceback(material.lines).unwrap_or(found);
    let interrupted = material.lines[telling.exception].text.starts_with("KeyboardInterrupt");
    let most = match silent_seconds {
        ..LONG_SILENCE_SECONDS => LINES_AFTER_EXCEPTION,
        _ => LINES_BEFORE_LONG_SILENCE,
    };
    (after <= most && !interrupted).then_some(telling)
}

fn lonely<'a>(material: &Material<'a>, best: Option<&Candidate<'_>>) -> Option<Judgement<'a>> {
    let lines = material.lonely.clone()?;
    let explained = best.is_some_and(|best| best.score > FIRM && best.finding.rule.cause != Cause::Unknown);
    match material.ending {
        Ending::Exited(0) => Some(Judgement::Lonely(lines, Confidence::High)),
        _ if explained => None,
        _ => Some(Judgement::Lonely(lines, Confidence::Medium)),
    }
}

fn confidence(best: &Candidate<'_>, all: &[Candidate<'_>]) -> Confidence {
    let rule = best.finding.rule;
    let reported = all.iter().any(|other| other.finding.rule.phase == Phase::Report && !other.weak);
    match rule.speaker {
        _ if best.from_cluster => Confidence::High,
        Speaker::Program if reported => Confidence::Medium,
        _ if best.weak => Confidence::Low,
        _ if rules::of_two_causes(rule) => Confidence::Medium,
        // What answers at an address is known to that end only.
        Speaker::Rank if rule.cause == Cause::RankExited => Confidence::Medium,
        _ if rules::of_guess(rule) => Confidence::Low,
        _ if rule.phase == Phase::Report || best.score >= weight::CONNECT => Confidence::High,
        _ => Confidence::Medium,
    }
}

/// The verdict by exit code or silence, when no rule names a cause.
fn by_ending<'a>(material: &Material<'a>, best: Option<&Candidate<'a>>) -> Judgement<'a> {
    let best = best.cloned();
    let not_started = best.as_ref().is_some_and(|best| {
        matches!(
            best.finding.rule.id,
            "daemons-not-started" | "daemon-report" | "daemon-status" | "bstrap-proxy"
        )
    });
    match material.ending {
        Ending::Exited(127) if not_started => Judgement::Ended(
            Cause::DaemonMissing,
            "mpirun could not start its daemons: the remote shell did not find them, or a library of theirs (exit code 127)"
                .to_owned(),
            Confidence::Medium,
        ),
        Ending::Exited(code @ 1..=123)
            if best.as_ref().is_some_and(|best| best.finding.rule.id == "hydra-downstream-ended") =>
        {
            let message = format!("exit code {code}: a rank exited with it, and mpiexec ended the others");
            Judgement::Ended(Cause::RankExited, message, Confidence::Low)
        }
        Ending::Exited(code) => match best {
            Some(best) => Judgement::Found(best, Confidence::Low),
            None => by_exit_code(code, !material.lines.is_empty()),
        },
        Ending::Running { silent_seconds } if silent_seconds >= STALL_SECONDS => match best {
            Some(best) => Judgement::Found(best, Confidence::Low),
            None => silence(silent_seconds, !material.lines.is_empty()),
        },
        Ending::Running { .. } => Judgement::Nothing,
        Ending::Unknown => match best {
            Some(best) => Judgement::Found(best, Confidence::Low),
            None => Judgement::Nothing,
        },
    }
}

fn silence<'a>(seconds: u64, printed: bool) -> Judgement<'a> {
    let before = if printed { "No output for" } else { "No output at all for" };
    let message = format!("{before} {seconds} s: the job hangs, or works without printing");
    Judgement::Ended(Cause::SilentHang, message, Confidence::Low)
}

/// The verdict by exit code alone: shells and runtimes report a signal as 128 plus its number, `timeout` exits with
/// 124.
fn by_exit_code<'a>(code: i32, printed: bool) -> Judgement<'a> {
    let (cause, message, confidence) = match code {
        137 => (
            Cause::RankKilled,
            "exit code 137: a rank or the Launcher was killed by signal 9".to_owned(),
            Confidence::Medium,
        ),
        132 | 134 | 135 | 136 | 139 => (
            Cause::RankCrashed,
            format!("exit code {code}: a rank or the Launcher crashed with signal {}", code - 128),
            // Launchers report crashed ranks; without a report, the launcher itself may have crashed.
            Confidence::Low,
        ),
        124 => (
            Cause::Terminated,
            "exit code 124: the Launcher was ended by a time limit outside of MPI".to_owned(),
            Confidence::Medium,
        ),
        129 | 130 | 143 => (
            Cause::Terminated,
            format!("exit code {code}: the Launcher was ended from outside by signal {}", code - 128),
            Confidence::Medium,
        ),
        // MPICH passes a rank's exit code on without a message; mpirun's own failures are 1 and high numbers.
        2..=123 if printed => (
            Cause::RankExited,
            format!("exit code {code} without an error of the Launcher: a rank exited with it"),
            Confidence::Low,
        ),
        _ => (
            Cause::Unknown,
            format!("The Launcher ended with exit code {code}; the cause is unknown"),
            Confidence::Low,
        ),
    };
    Judgement::Ended(cause, message, confidence)
}
