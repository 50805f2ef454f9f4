//! The condition `Stalled`: nothing was printed for the stall timeout, with what was probed and found; or at once, if the
//! output ends with an exception for which the other ranks wait. It never fails a job, as a healthy one may compute for
//! hours without a word, and it goes again when the job prints.

use std::collections::BTreeMap;
use std::time::Duration;

use api::{CONDITION_RUNNING, CONDITION_STALLED, REASON_ENDED, REASON_NO_OUTPUT, REASON_OUTPUT_SEEN};
use jiff::Timestamp;
use semantics::{has_ended, is_ready};

use crate::conditions::{condition, is_finished, is_true, set_condition};
use crate::kept::Pod;
use crate::notice::{Notice, Report};
use crate::observed::{ObservedState, OutputRead, OutputSeen, is_running};
use crate::pauses::Pauses;
use crate::time::elapsed;
use crate::validate::{Launch, ValidJob};
use diagnosis::{Cause, Confidence, Diagnosis, Ending, Facts, Output, STALL_SECONDS, diagnose};

/// The output of a job that is not silent for the timeout is looked at once it has run for this long,
const RUN_LOOK_SOONEST: Duration = Duration::from_secs(6);
/// ... and again whenever it has run twice as long as at the last look, but no later after that than this: what goes wrong in
/// the first seconds is seen within seconds, and a long job costs a request a minute.
const RUN_LOOK_LATEST: Duration = Duration::from_secs(60);
/// A silent job's output is looked at again after this part of its silence: the longer it has said nothing, the more rarely,
/// so that many jobs which print nothing by nature cost next to nothing,
const PART_OF_SILENCE: u32 = 10;
/// ... but no sooner than this, or than the timeout where that is shorter,
const LOOK_SOONEST: Duration = Duration::from_secs(30);
/// ... and no later than this: it is also how late the condition goes when the job prints again.
const LOOK_LATEST: Duration = Duration::from_secs(300);

/// A job as the check for a stall sees it, whichever its kind.
#[derive(Clone, Copy, Debug)]
pub struct Listening<'a> {
    /// How long the job may print nothing.
    pub(crate) timeout: Duration,
    /// Since when it runs; `None` if it does not.
    pub(crate) since: Option<Timestamp>,
    /// Whether the Launcher's newest pod has ended.
    pub(crate) has_ended: bool,
    /// What its output showed when an earlier pass read it.
    pub(crate) output: Option<&'a OutputSeen>,
    /// Its output, if this pass read it.
    pub(crate) read: Option<&'a OutputRead>,
    /// When its output could last not be read, unless it has been read since.
    pub(crate) unreadable: Option<Timestamp>,
    /// When the observer was paused.
    pub(crate) pauses: &'a Pauses,
}

impl<'a> Listening<'a> {
    /// An MPIJob.
    #[must_use]
    pub fn to(job: &ValidJob, seen: &'a ObservedState) -> Self {
        let running = condition(&seen.status, CONDITION_RUNNING).filter(|running| running.status == "True");
        let since = running.and_then(|running| running.last_transition_time.as_ref()).map(|time| time.0);
        Self {
            timeout: job.stall_timeout,
            since,
            has_ended: seen.newest_launcher_pod().is_some_and(has_ended),
            output: seen.output.as_ref(),
            read: seen.output_read.as_ref(),
            unreadable: seen.unreadable,
            pauses: &seen.pauses,
        }
    }

    /// What an earlier pass read. That of a run before this one says nothing about it.
    fn known(&self) -> Option<&'a OutputSeen> {
        self.output.filter(|known| self.since.is_none_or(|since| known.looked >= since))
    }

    /// When the output was last looked at, or asked for in vain.
    fn last_look(&self, output: Option<&OutputSeen>) -> Option<Timestamp> {
        output.map(|output| output.looked).max(self.unreadable)
    }

    /// The last sign of life of a job that runs: since it runs, or its last output where that was looked at.
    fn last_sign(&self, output: Option<&OutputSeen>) -> Option<Timestamp> {
        let since = self.since?;
        let printed = output.and_then(|output| output.last);
        Some(printed.map_or(since, |printed| printed.max(since)))
    }

    /// Whether the Launcher's output has to be looked at: from time to time, and when the job may have been silent for the
    /// timeout.
    #[must_use]
    pub fn wants_look(&self, now: Timestamp) -> bool {
        // The end of its output is read when its Job says how it ended.
        if self.has_ended {
            return false;
        }
        let output = self.known();
        let Some((since, sign)) = self.since.zip(self.last_sign(output)) else { return false };
        let looked = self.last_look(output).unwrap_or(since);
        let is_due = elapsed(looked, now)
            >= pause(self.timeout, self.pauses.awake(sign, looked), elapsed(since, looked));
        let silent = |until| self.pauses.awake(sign, until);
        let stalls = silent(now) >= self.timeout && silent(looked) < self.timeout;
        is_due || stalls
    }

    /// When the last line was printed, if the last look at a silent job stays true while nothing more is printed: it found
    /// why the job hangs, or the job had been silent for long enough then that no more silence says more.
    #[must_use]
    pub fn conclusive(&self) -> Option<Option<Timestamp>> {
        let (output, sign) = self.known().zip(self.last_sign(self.known()))?;
        let is_conclusive = output.found.is_some() || elapsed(sign, output.looked).as_secs() >= STALL_SECONDS;
        is_conclusive.then_some(output.last)
    }
}

/// What the Launcher's output shows by now: as it was read in this pass, or else in an earlier one. `facts` are those of the
/// job's pods.
pub(crate) fn output_shown(listening: &Listening<'_>, facts: impl FnOnce() -> Facts) -> Option<OutputSeen> {
    let known = listening.known();
    let Some(OutputRead { looked, last, log }) = listening.read else { return known.cloned() };
    let found = match log {
        None => known.and_then(|known| known.found.clone()),
        Some(log) => listening.since.and_then(|since| {
            let sign = last.map_or(since, |last| last.max(since));
            hang(log, elapsed(sign, *looked), &facts())
        }),
    };
    Some(OutputSeen { looked: *looked, last: *last, found })
}

/// When the output of a running job is to be looked at again, at the latest once it may have been silent for the timeout.
pub(crate) fn next_look(
    listening: &Listening<'_>,
    output: Option<&OutputSeen>,
    now: Timestamp,
) -> Option<Duration> {
    let (since, sign) = (listening.since?, listening.last_sign(output)?);
    let looked = listening.last_look(output).unwrap_or(since);
    let pause_after = |at: Timestamp| pause(listening.timeout, elapsed(sign, at), elapsed(since, at));
    let left = pause_after(looked).saturating_sub(elapsed(looked, now));
    // A look that could not be taken is not taken again at once.
    let left = if left.is_zero() { pause_after(now) } else { left };
    let until_stalled = listening.timeout.saturating_sub(elapsed(sign, now));
    Some(if until_stalled.is_zero() { left } else { left.min(until_stalled) })
}

/// The time from one look at the output of a job to the next, by how long the job had been silent at that look, and had run.
/// It doesn't grow while it passes, so a pass at its end takes the look.
fn pause(timeout: Duration, silent: Duration, ran: Duration) -> Duration {
    if silent < timeout {
        return ran.clamp(RUN_LOOK_SOONEST, RUN_LOOK_LATEST);
    }
    (silent / PART_OF_SILENCE).clamp(LOOK_SOONEST.min(timeout), LOOK_LATEST)
}

/// What its output says about a running job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Liveness {
    /// It prints, or has not been silent for long.
    Alive,
    /// It is stalled.
    Stalled {
        /// The reason of the condition, one CamelCase word.
        reason: &'static str,
        /// Its message.
        message: String,
        /// What to do, if the message does not contain it.
        advice: Option<String>,
    },
}

/// Decides whether a job is stalled; `None` if its output has not been read yet. `probe` is what else is known of it.
pub(crate) fn liveness<'a>(
    listening: &Listening<'_>,
    output: Option<&OutputSeen>,
    probe: impl FnOnce() -> Probe<'a>,
    now: Timestamp,
) -> Option<Liveness> {
    let (output, sign) = output.zip(listening.last_sign(output))?;
    let raised = output.found.as_ref().filter(|found| found.cause == Cause::PythonException);
    if let Some(found) = raised {
        return Some(Liveness::Stalled {
            reason: found.cause.word(),
            message: found.message.clone(),
            advice: Some(found.suggestion.clone()),
        });
    }
    if listening.pauses.awake(sign, output.looked) < listening.timeout {
        return Some(Liveness::Alive);
    }
    let silent = listening.pauses.awake(sign, now).as_secs();
    let (reason, found) = match &output.found {
        Some(found) => (found.cause.word(), in_words(found)),
        None => (REASON_NO_OUTPUT, "no known error: the job hangs, or works without printing".to_owned()),
    };
    let probed = probed(&probe(), output.found.is_none());
    let message = format!("No output for {silent} s and {found}. {probed}");
    Some(Liveness::Stalled { reason, message, advice: None })
}

/// The event of a job that was found to be stalled.
pub(crate) fn stall_notice(message: String, advice: Option<String>) -> Notice {
    let message = match advice {
        Some(advice) => format!("{message}. {advice}"),
        None => message,
    };
    Notice { warning: true, reason: CONDITION_STALLED.to_owned(), message }
}

/// Sets and clears the condition of an MPIJob.
pub(crate) fn report_stall(
    job: &ValidJob,
    seen: &ObservedState,
    output: Option<&OutputSeen>,
    report: &mut Report,
    now: Timestamp,
) {
    let stalled = is_true(&report.status, CONDITION_STALLED);
    let status = &mut report.status;
    if is_finished(status) {
        if stalled {
            let message = "The job has ended.".to_owned();
            set_condition(status, CONDITION_STALLED, false, REASON_ENDED, message, now);
        }
        return;
    }
    match liveness(&Listening::to(job, seen), output, || probe(job, seen), now) {
        Some(Liveness::Stalled { reason, message, advice }) => {
            if set_condition(status, CONDITION_STALLED, true, reason, message.clone(), now) {
                report.notices.push(stall_notice(message, advice));
            }
        }
        Some(Liveness::Alive) if stalled => {
            let message = "The job prints again.".to_owned();
            set_condition(status, CONDITION_STALLED, false, REASON_OUTPUT_SEEN, message, now);
        }
        Some(Liveness::Alive) | None => {}
    }
}

/// What the end of a silent job's output says of why it hangs; nothing where it says nothing that can be relied on.
fn hang(log: &str, silent: Duration, facts: &Facts) -> Option<Diagnosis> {
    let ending = Ending::Running { silent_seconds: silent.as_secs() };
    diagnose(&Output::from(log), ending, facts)
        .filter(|found| found.cause != Cause::Unknown)
        // Silence alone says nothing that is not known.
        .filter(|found| found.cause != Cause::SilentHang || found.confidence > Confidence::Low)
}

/// A diagnosis as part of a sentence: what, on what evidence, what to do.
fn in_words(found: &Diagnosis) -> String {
    let evidence = found.evidence.first().map_or("", |evidence| evidence.text.trim());
    format!("{} (evidence: {evidence}). {}", found.message, found.suggestion.trim_end_matches('.'))
}

/// What is looked at beside the output of a silent job.
pub(crate) struct Probe<'a> {
    /// Whether the Launcher's container runs.
    pub launcher_runs: bool,
    /// The pods of the Workers.
    pub workers: Vec<&'a Pod>,
    /// The number of Workers that the job asks for.
    pub worker_count: usize,
    /// The lost nodes of its pods.
    pub lost_nodes: &'a BTreeMap<String, String>,
    /// How the Launcher reaches the Workers, if known.
    pub launch: Option<Launch>,
}

fn probe<'a>(job: &ValidJob, seen: &'a ObservedState) -> Probe<'a> {
    Probe {
        launcher_runs: seen.launcher_pods.iter().any(is_running),
        workers: seen.by_index(job).into_iter().flatten().collect(),
        worker_count: job.worker_count(),
        lost_nodes: &seen.lost_nodes,
        launch: job.launch,
    }
}

/// What was looked at beside the output, and found.
fn probed(probe: &Probe<'_>, is_unexplained: bool) -> String {
    let launcher = if probe.launcher_runs { "is running" } else { "is not running" };
    let silent = probe.workers.iter().filter(|pod| !is_ready(*pod));
    let silent: Vec<&str> = silent.filter_map(|pod| pod.metadata.name.as_deref()).collect();
    let answering = probe.workers.len().saturating_sub(silent.len());
    let of = probe.worker_count;
    let mut text =
        format!("Probed: the Launcher's container {launcher}; {answering} of {of} Workers are ready");
    if !silent.is_empty() {
        text.push_str(&format!(", not {}", silent.join(", ")));
    }
    if probe.lost_nodes.is_empty() {
        text.push_str("; their nodes report");
    } else {
        let nodes: Vec<&str> = probe.lost_nodes.keys().map(String::as_str).collect();
        text.push_str(&format!("; these nodes do not report: {}", nodes.join(", ")));
    }
    if probe.launch == Some(Launch::Agent) && is_unexplained {
        text.push_str("; the launch agents report no unanswered connection");
    }
    text.push('.');
    text
}

#[cfg(test)]
mod tests {
    use api::MPIJob;
    use serde_json::json;

    use super::*;
    use crate::validate::validate;

    const ENDED: &str = "odh-launch: pi-worker-1: ranks 1-1 of 2 have ended, but the process that started them is still running\n";

    fn job() -> ValidJob {
        let replica = |count: i32| {
            let container = json!({ "name": "main", "image": "mpi:1", "command": ["mpirun", "hostname"] });
            json!({ "replicas": count, "template": { "spec": { "containers": [container] } } })
        };
        let job: MPIJob = serde_json::from_value(json!({
            "apiVersion": "kubeflow.org/v2beta1",
            "kind": "MPIJob",
            "metadata": { "name": "pi", "namespace": "team", "uid": "7f1c" },
            "spec": { "mpiReplicaSpecs": { "Launcher": replica(1), "Worker": replica(2) } },
        }))
        .unwrap();
        validate(&job).unwrap()
    }

    fn listening(seen: &ObservedState) -> Listening<'_> {
        Listening::to(&job(), seen)
    }

    fn read(seen: &ObservedState) -> Option<OutputSeen> {
        output_shown(&listening(seen), Facts::default)
    }

    fn wants_look(seen: &ObservedState, now: Timestamp) -> bool {
        listening(seen).wants_look(now)
    }

    fn running(since: Timestamp) -> ObservedState {
        let running = json!({ "type": CONDITION_RUNNING, "status": "True", "lastTransitionTime": since });
        let status = serde_json::from_value(json!({ "conditions": [running] })).unwrap();
        ObservedState { status, ..ObservedState::default() }
    }

    #[test]
    fn why_a_job_hangs_is_remembered_until_it_prints_again() {
        let second = |second: i64| Timestamp::from_second(second).unwrap();
        let at = |looked: i64, last: i64, log: Option<&str>| {
            let (looked, last) = (second(looked), Some(second(last)));
            Some(OutputRead { looked, last, log: log.map(str::to_owned) })
        };
        let mut seen = running(second(0));
        assert_eq!(read(&seen), None, "it was not read");
        seen.output_read = at(900, 100, Some(ENDED));
        let shown = read(&seen).unwrap();
        assert_eq!(shown.found.as_ref().map(|found| found.cause), Some(Cause::SilentHang));
        seen.output = Some(shown.clone());
        seen.output_read = None;
        assert_eq!(read(&seen), Some(shown.clone()), "nothing was read since");
        seen.output_read = at(1000, 100, None);
        let again = OutputSeen { looked: second(1000), ..shown };
        assert_eq!(read(&seen), Some(again), "nothing was printed since");
        seen.output_read = at(1100, 1099, Some("epoch 2\n"));
        assert_eq!(read(&seen).unwrap().found, None);
    }

    #[test]
    fn a_silent_job_is_looked_at_ever_more_rarely() {
        let (minute, timeout) = (Duration::from_secs(60), Duration::from_secs(600));
        let pauses =
            [10, 20, 50, 600].map(|minutes| pause(timeout, minute * minutes, minute * minutes).as_secs());
        assert_eq!(pauses, [60, 120, 300, 300]);
        let two = Duration::from_secs(2);
        assert_eq!(pause(two, two, two), two);
        let (mut silent, mut looks) = (timeout, 0);
        while silent < timeout + 60 * minute {
            (silent, looks) = (silent + pause(timeout, silent, silent), looks + 1);
        }
        assert!(looks <= 22, "{looks} looks in an hour");
    }

    #[test]
    fn a_job_that_prints_is_looked_at_within_seconds_and_then_once_a_minute() {
        let second = |second: i64| Timestamp::from_second(second).unwrap();
        let mut seen = running(second(0));
        assert_eq!(next_look(&listening(&seen), None, second(1)), Some(Duration::from_secs(5)));
        let mut looks = Vec::new();
        let mut now = Timestamp::UNIX_EPOCH;
        while now <= second(300) {
            now += next_look(&listening(&seen), seen.output.as_ref(), now).unwrap();
            assert!(wants_look(&seen, now), "a pass that takes no look is in vain: {now}");
            looks.push(now.as_second());
            seen.output = Some(OutputSeen { looked: now, last: Some(now), found: None });
        }
        assert_eq!(looks, [6, 12, 24, 48, 96, 156, 216, 276, 336]);
    }

    #[test]
    fn the_output_of_a_launcher_that_has_ended_is_left_to_its_end() {
        let mut seen = running(Timestamp::UNIX_EPOCH);
        let now = Timestamp::from_second(7).unwrap();
        for (phase, wanted) in [("Running", true), ("Succeeded", false), ("Failed", false)] {
            let pod = json!({ "metadata": { "name": "pi-launcher-x" }, "status": { "phase": phase } });
            seen.launcher_pods = vec![serde_json::from_value(pod).unwrap()];
            assert_eq!(wants_look(&seen, now), wanted, "{phase}");
        }
    }

    #[test]
    fn output_that_cannot_be_read_is_not_asked_for_at_each_change_of_the_job() {
        let second = |second: i64| Timestamp::from_second(second).unwrap();
        let seen = ObservedState { unreadable: Some(second(5)), ..running(second(0)) };
        assert_eq!([6, 10, 11].map(|now| wants_look(&seen, second(now))), [false, false, true]);
        let seen = ObservedState { unreadable: Some(second(240)), ..running(second(0)) };
        assert_eq!([250, 300].map(|now| wants_look(&seen, second(now))), [false, true]);
    }

    #[test]
    fn an_exception_for_which_the_others_wait_is_reported_before_the_timeout() {
        let second = |second: i64| Timestamp::from_second(second).unwrap();
        let log = "Traceback (most recent call last):\n  File \"boom.py\", line 9, in <module>\nKeyError: 'missing'\n";
        let mut seen = running(second(0));
        seen.output_read =
            Some(OutputRead { looked: second(5), last: Some(second(1)), log: Some(log.to_owned()) });
        let shown = read(&seen);
        let mut report = Report { status: seen.status.clone(), ..Report::default() };
        report_stall(&job(), &seen, shown.as_ref(), &mut report, second(5));
        let stalled = condition(&report.status, CONDITION_STALLED).unwrap();
        assert_eq!((stalled.status.as_str(), stalled.reason.as_deref()), ("True", Some("PythonException")));
        assert!(report.notices[0].message.contains("python -m mpi4py"), "{:?}", report.notices);
        seen.output = shown;
        seen.status = report.status;
        seen.output_read = Some(OutputRead {
            looked: second(10),
            last: Some(second(9)),
            log: Some(format!("{log}epoch 2\n")),
        });
        let mut report = Report { status: seen.status.clone(), ..Report::default() };
        report_stall(&job(), &seen, read(&seen).as_ref(), &mut report, second(10));
        assert!(!is_true(&report.status, CONDITION_STALLED), "it goes on");
    }
}
