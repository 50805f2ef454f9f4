//! Chooses among findings: the cause before what follows from it, and nothing rather than a guess.
//!
//! Input: findings of the output and of the cluster, how the launcher ended, and the lines. Output: the one to
//! report, with how far it can be relied on, or that nothing failed.

use super::cause::Cause;
use super::lines::Line;
use super::rules::{self, Phase, Speaker, weight};
use super::scan::Finding;
use super::{Confidence, Ending};

/// So long must a running launcher be silent before silence is worth a word, in seconds.
pub(crate) const STALL_SECONDS: u64 = 10;
/// After so many further lines a running job has evidently got over what was found.
const LINES_AFTER: usize = 50;
/// Below this a finding names no cause.
const LEAST: i32 = 20;
/// From here on a finding stands without knowing how the launcher ended, or while it runs.
const FIRM: i32 = 45;
/// A launcher's words with a rank's tag, or of a phase that was evidently passed.
const IMPLAUSIBLE: i32 = 60;
/// A launcher's report that another one and the exit code contradict.
const CONTRADICTED: i32 = 50;
/// Kubernetes' words in a launcher's output.
const OUT_OF_PLACE: i32 = 15;
/// Nearly all lines carry a tag: then a log tool put it there and it says nothing.
const TAGGED_SHARE: usize = 10;

/// A finding with what speaks for it.
#[derive(Debug, Clone)]
pub(crate) struct Candidate<'a> {
    pub finding: &'a Finding,
    /// From the cluster's statuses and events, not from the output.
    pub from_cluster: bool,
    pub score: i32,
    /// The program itself may have printed it.
    pub weak: bool,
}

/// What to report.
#[derive(Debug, Clone)]
pub(crate) enum Verdict<'a> {
    /// Nothing failed.
    Nothing,
    /// The cause that a rule names.
    Found(Candidate<'a>, Confidence),
    /// The processes did not find each other; the lines that say so.
    Lonely(Vec<usize>, Confidence),
    /// Only the ending speaks: cause and message.
    Ended(Cause, String, Confidence),
}

/// Everything the choice rests on.
pub(crate) struct Material<'a> {
    pub ending: Ending,
    pub lines: &'a [Line<'a>],
    pub output: &'a [Finding],
    pub cluster: &'a [Finding],
    pub lonely: Option<Vec<usize>>,
}

/// The verdict.
pub(crate) fn judge<'a>(material: &Material<'a>) -> Verdict<'a> {
    let candidates = candidates(material);
    let best = candidates
        .iter()
        .filter(|candidate| counts(candidate, material))
        .max_by_key(|candidate| rank(candidate));
    if let Some(lonely) = lonely(material, best) {
        return lonely;
    }
    if material.ending == Ending::Exited(0) {
        return Verdict::Nothing;
    }
    if let Some(best) = best.filter(|best| best.finding.rule.cause != Cause::Unknown) {
        return Verdict::Found(best.clone(), confidence(best, &candidates));
    }
    by_ending(material, best)
}

/// The higher the better; of equals, what names a cause, and then what was printed first.
fn rank(candidate: &Candidate<'_>) -> (bool, i32, std::cmp::Reverse<usize>) {
    let finding = candidate.finding;
    (finding.rule.cause != Cause::Unknown, candidate.score, std::cmp::Reverse(finding.at))
}

fn candidates<'a>(material: &Material<'a>) -> Vec<Candidate<'a>> {
    let tagged = material.lines.iter().filter(|line| line.by_rank).count();
    let tags_tell = tagged * TAGGED_SHARE < material.lines.len() * (TAGGED_SHARE - 1);
    let tag = |finding: &Finding| tags_tell && material.lines[finding.at].by_rank;
    let reports: Vec<&Finding> = material
        .output
        .iter()
        .filter(|finding| finding.rule.phase == Phase::Report && !tag(finding))
        .collect();
    let not_launched =
        material.output.iter().any(|finding| rules::of_failed_launch(finding.rule) && !tag(finding));
    let confirmed = reports.iter().any(|report| agrees(report, material.ending) == Some(true));
    let counted = |finding: &&Finding| {
        finding.rule.speaker != Speaker::Transport
            || (not_launched && !tag(finding) && !of_known_speaker(&material.lines[finding.at]))
    };
    let of_output = material.output.iter().filter(counted).map(|finding| {
        let rule = finding.rule;
        let foreign = rule.speaker == Speaker::Launcher && tag(finding);
        let passed = rule.phase == Phase::Start && !reports.is_empty();
        let contradicted = confirmed && agrees(finding, material.ending) == Some(false);
        let penalty = [
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

/// Whether mpiexec or the launch agent says it, in words that have rules of their own.
fn of_known_speaker(line: &Line<'_>) -> bool {
    ["[mpiexec@", "[proxy:", "odh-launch: "].iter().any(|start| line.text.trim_start().starts_with(start))
}

/// Whether the exit code is the one that goes with a launcher's report; nothing where there is none to compare.
fn agrees(finding: &Finding, ending: Ending) -> Option<bool> {
    let Ending::Exited(code) = ending else { return None };
    let number = |name: &str| finding.values.get(name).and_then(|value| value.parse::<i32>().ok());
    match finding.rule.id {
        "ompi-killed" | "ompi-crashed" => Some(code == 128 + number("signal")?),
        "ompi-nonzero" | "ompi-abort" | "mpich-abort" => Some(code == number("code")? & 0xff),
        _ => None,
    }
}

/// Whether a finding may name the cause, given how the launcher ended.
fn counts(candidate: &Candidate<'_>, material: &Material<'_>) -> bool {
    let rule = candidate.finding.rule;
    if candidate.from_cluster {
        return true;
    }
    // A job that has ended does not hang.
    if rule.cause == Cause::SilentHang && !matches!(material.ending, Ending::Running { .. }) {
        return false;
    }
    let firm = !candidate.weak && (candidate.score >= FIRM || rule.phase == Phase::Report);
    let recent = material.lines.len() - candidate.finding.at <= LINES_AFTER;
    match material.ending {
        Ending::Exited(0) => false,
        Ending::Exited(_) => candidate.score >= LEAST,
        Ending::Unknown => {
            firm || candidate.score >= weight::REASON - OUT_OF_PLACE || rule.cause == Cause::Unknown
        }
        Ending::Running { silent_seconds } if silent_seconds < STALL_SECONDS => firm && recent,
        // What mpiexec prints when somebody stops it says nothing about why it hung.
        Ending::Running { .. } => {
            candidate.score >= LEAST && rule.cause != Cause::Terminated && (recent || !candidate.weak)
        }
    }
}

fn lonely<'a>(material: &Material<'a>, best: Option<&Candidate<'_>>) -> Option<Verdict<'a>> {
    let lines = material.lonely.clone()?;
    let explained = best.is_some_and(|best| best.score > FIRM && best.finding.rule.cause != Cause::Unknown);
    match material.ending {
        Ending::Exited(0) => Some(Verdict::Lonely(lines, Confidence::High)),
        _ if explained => None,
        _ => Some(Verdict::Lonely(lines, Confidence::Medium)),
    }
}

fn confidence(best: &Candidate<'_>, all: &[Candidate<'_>]) -> Confidence {
    let rule = best.finding.rule;
    let reported = all.iter().any(|other| other.finding.rule.phase == Phase::Report && !other.weak);
    match rule.speaker {
        _ if best.from_cluster => Confidence::High,
        Speaker::Program if reported => Confidence::Medium,
        _ if best.weak => Confidence::Low,
        _ if rule.id == "exe-missing-or-no-access" || rule.id == "exe-script-no-access" => Confidence::Medium,
        _ if rule.phase == Phase::Report || best.score >= weight::CONNECT => Confidence::High,
        _ => Confidence::Medium,
    }
}

/// Where no rule names a cause: what the exit code or the silence says.
fn by_ending<'a>(material: &Material<'a>, best: Option<&Candidate<'a>>) -> Verdict<'a> {
    let best = best.cloned();
    let not_started = best.as_ref().is_some_and(|best| {
        matches!(
            best.finding.rule.id,
            "daemons-not-started" | "daemon-report" | "daemon-status" | "bstrap-proxy"
        )
    });
    match material.ending {
        Ending::Exited(127) if not_started => Verdict::Ended(
            Cause::DaemonMissing,
            "mpirun could not start its daemons: the remote shell did not find them (exit code 127)"
                .to_owned(),
            Confidence::Medium,
        ),
        Ending::Exited(code) => match best {
            Some(best) => Verdict::Found(best, Confidence::Low),
            None => by_exit_code(code, !material.lines.is_empty()),
        },
        Ending::Running { silent_seconds } if silent_seconds >= STALL_SECONDS => match best {
            Some(best) => Verdict::Found(best, Confidence::Low),
            None => silence(silent_seconds, !material.lines.is_empty()),
        },
        Ending::Running { .. } => Verdict::Nothing,
        Ending::Unknown => match best {
            Some(best) => Verdict::Found(best, Confidence::Low),
            None => Verdict::Nothing,
        },
    }
}

fn silence<'a>(seconds: u64, printed: bool) -> Verdict<'a> {
    let before = if printed { "No output for" } else { "No output at all for" };
    let message = format!("{before} {seconds} s and no error: the job hangs, or works without printing");
    Verdict::Ended(Cause::SilentHang, message, Confidence::Low)
}

/// What an exit code alone says: shells and runtimes report a signal as 128 plus its number, `timeout` says 124.
fn by_exit_code<'a>(code: i32, printed: bool) -> Verdict<'a> {
    let (cause, message, confidence) = match code {
        137 => (
            Cause::RankKilled,
            "exit code 137: a rank, or the launcher, was killed by signal 9".to_owned(),
            Confidence::Medium,
        ),
        132 | 134 | 135 | 136 | 139 => (
            Cause::RankCrashed,
            format!("exit code {code}: a rank, or the launcher, crashed with signal {}", code - 128),
            // Launchers report ranks that crash: where they do not, it may have been the launcher.
            Confidence::Low,
        ),
        124 => (
            Cause::Terminated,
            "exit code 124: the launcher was ended by a time limit outside of MPI".to_owned(),
            Confidence::Medium,
        ),
        129 | 130 | 143 => (
            Cause::Terminated,
            format!("exit code {code}: the launcher was ended from outside by signal {}", code - 128),
            Confidence::Medium,
        ),
        // MPICH passes a rank's exit code on and says nothing; mpirun's own failures are 1 and high numbers.
        2..=123 if printed => (
            Cause::RankExited,
            format!("exit code {code}, and no error of the launcher: a rank exited with it"),
            Confidence::Low,
        ),
        _ => (
            Cause::Unknown,
            format!("The launcher ended with exit code {code}; the cause is not known"),
            Confidence::Low,
        ),
    };
    Verdict::Ended(cause, message, confidence)
}
