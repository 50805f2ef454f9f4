//! The condition `Stalled`: nothing was printed for the stall timeout, with what was probed and found; or at once, if the
//! output ends with an exception for which the other ranks wait. It never fails a job, as a healthy one may compute for
//! hours without a word, and it goes again when the job prints.

use std::time::Duration;

use api::{CONDITION_RUNNING, CONDITION_STALLED, REASON_ENDED, REASON_NO_OUTPUT, REASON_OUTPUT_SEEN};
use jiff::Timestamp;
use semantics::is_ready;

use crate::conditions::{condition, is_finished, is_true, set_condition};
use crate::failure::{pod_facts, world};
use crate::notice::{Notice, Report};
use crate::observed::{ObservedState, OutputRead, OutputSeen, is_running};
use crate::time::elapsed;
use crate::validate::{Launch, ValidJob};
use diagnosis::{Cause, Confidence, Diagnosis, Ending, Facts, Output, STALL_SECONDS, diagnose};

/// The output of a job that is not silent for the timeout is looked at after this part of its run time, so that what goes
/// wrong in the first seconds is seen within seconds, and a long job costs a request a minute,
const PART_OF_RUN: u32 = 4;
/// ... but no sooner than this,
const RUN_LOOK_SOONEST: Duration = Duration::from_secs(5);
/// ... and no later than this.
const RUN_LOOK_LATEST: Duration = Duration::from_secs(60);
/// A silent job's output is looked at again after this part of its silence: the longer it has said nothing, the more rarely,
/// so that many jobs which print nothing by nature cost next to nothing,
const PART_OF_SILENCE: u32 = 10;
/// ... but no sooner than this, or than the timeout where that is shorter,
const LOOK_SOONEST: Duration = Duration::from_secs(30);
/// ... and no later than this: it is also how late the condition goes when the job prints again.
const LOOK_LATEST: Duration = Duration::from_secs(300);

/// What the Launcher's output shows by now: as it was read in this pass, or else in an earlier one.
pub(crate) fn output_shown(job: &ValidJob, seen: &ObservedState) -> Option<OutputSeen> {
    let Some(OutputRead { looked, last, log }) = &seen.output_read else { return seen.output.clone() };
    let found = match log {
        None => seen.output.as_ref().and_then(|known| known.found.clone()),
        Some(log) => running_since(seen).and_then(|since| {
            let sign = last.map_or(since, |last| last.max(since));
            hang(job, seen, log, elapsed(sign, *looked))
        }),
    };
    Some(OutputSeen { looked: *looked, last: *last, found })
}

/// When the output of a running job is to be looked at again, at the latest once it may have been silent for the timeout.
pub(crate) fn next_look(
    job: &ValidJob,
    seen: &ObservedState,
    output: Option<&OutputSeen>,
    now: Timestamp,
) -> Option<Duration> {
    let ran = elapsed(running_since(seen)?, now);
    let silent = elapsed(last_sign(seen, output)?, now);
    let pause = pause(job.stall_timeout, silent, ran);
    let since_look = output.map_or(ran, |output| elapsed(output.looked, now));
    // A look that could not be taken is not taken again at once.
    let left = pause.saturating_sub(since_look);
    let left = if left.is_zero() { pause } else { left };
    let until_stalled = job.stall_timeout.saturating_sub(silent);
    Some(if until_stalled.is_zero() { left } else { left.min(until_stalled) })
}

/// Whether the Launcher's output has to be looked at: from time to time, and when the job may have been silent for the
/// timeout.
#[must_use]
pub fn wants_look(job: &ValidJob, seen: &ObservedState, now: Timestamp) -> bool {
    let output = seen.output.as_ref();
    let since = |from: Option<Timestamp>| from.map(|from| elapsed(from, now));
    let Some((silent, ran)) = since(last_sign(seen, output)).zip(since(running_since(seen))) else {
        return false;
    };
    let pause = pause(job.stall_timeout, silent, ran);
    // Output that cannot be read is not asked for whenever something else happens to the job.
    if since(seen.unreadable).is_some_and(|ago| ago < pause) {
        return false;
    }
    match output.map(|output| elapsed(output.looked, now)) {
        Some(ago) => {
            ago >= pause || (silent >= job.stall_timeout && silent.saturating_sub(ago) < job.stall_timeout)
        }
        None => ran >= pause || silent >= job.stall_timeout,
    }
}

/// The time between two looks at the output of a job that has been silent for so long, and has run for so long.
fn pause(timeout: Duration, silent: Duration, ran: Duration) -> Duration {
    if silent < timeout {
        return (ran / PART_OF_RUN).clamp(RUN_LOOK_SOONEST, RUN_LOOK_LATEST);
    }
    (silent / PART_OF_SILENCE).clamp(LOOK_SOONEST.min(timeout), LOOK_LATEST)
}

/// Whether the last look at a silent job stays true while nothing more is printed: it found why the job hangs, or the job had
/// been silent for long enough then that no more silence says more.
#[must_use]
pub fn is_conclusive(seen: &ObservedState) -> bool {
    let output = seen.output.as_ref();
    let Some((output, sign)) = output.zip(last_sign(seen, output)) else { return false };
    output.found.is_some() || elapsed(sign, output.looked).as_secs() >= STALL_SECONDS
}

/// The last sign of life of a job that runs: since it runs, or its last output where that was looked at.
fn last_sign(seen: &ObservedState, output: Option<&OutputSeen>) -> Option<Timestamp> {
    let since = running_since(seen)?;
    let printed = output.and_then(|output| output.last);
    Some(printed.map_or(since, |printed| printed.max(since)))
}

fn running_since(seen: &ObservedState) -> Option<Timestamp> {
    let running = condition(&seen.status, CONDITION_RUNNING).filter(|running| running.status == "True")?;
    Some(running.last_transition_time.as_ref()?.0)
}

/// Sets and clears the condition.
pub(crate) fn report_stall(
    job: &ValidJob,
    seen: &ObservedState,
    output: Option<&OutputSeen>,
    report: &mut Report,
    now: Timestamp,
) {
    let stalled = is_true(&report.status, CONDITION_STALLED);
    if is_finished(&report.status) {
        if stalled {
            let message = "The job has ended.".to_owned();
            set_condition(&mut report.status, CONDITION_STALLED, false, REASON_ENDED, message, now);
        }
        return;
    }
    let Some((output, sign)) = output.zip(last_sign(seen, output)) else { return };
    let raised = output.found.as_ref().filter(|found| found.cause == Cause::PythonException);
    if let Some(found) = raised {
        let (reason, message) = (found.cause.word(), found.message.clone());
        let advice = &found.suggestion;
        if set_condition(&mut report.status, CONDITION_STALLED, true, reason, message.clone(), now) {
            let message = format!("{message}. {advice}");
            report.notices.push(Notice { warning: true, reason: CONDITION_STALLED.to_owned(), message });
        }
    } else if elapsed(sign, output.looked) >= job.stall_timeout {
        let silent = elapsed(sign, now).as_secs();
        let (reason, found) = match &output.found {
            Some(found) => (found.cause.word(), in_words(found)),
            None => (REASON_NO_OUTPUT, "no error: the job hangs, or works without printing".to_owned()),
        };
        let message = format!("No output for {silent} s and {found}. {}", probed(job, seen, output));
        if set_condition(&mut report.status, CONDITION_STALLED, true, reason, message.clone(), now) {
            report.notices.push(Notice { warning: true, reason: CONDITION_STALLED.to_owned(), message });
        }
    } else if stalled {
        let message = "The job prints again.".to_owned();
        set_condition(&mut report.status, CONDITION_STALLED, false, REASON_OUTPUT_SEEN, message, now);
    }
}

/// What the end of a silent job's output says of why it hangs; nothing where it says nothing that can be relied on.
fn hang(job: &ValidJob, seen: &ObservedState, log: &str, silent: Duration) -> Option<Diagnosis> {
    let ending = Ending::Running { silent_seconds: silent.as_secs() };
    let facts = Facts { pods: pod_facts(seen), world: world(job), ..Facts::default() };
    diagnose(&Output::from(log), ending, &facts)
        .filter(|found| found.cause != Cause::Unknown)
        // Silence alone says nothing that is not known.
        .filter(|found| found.cause != Cause::SilentHang || found.confidence > Confidence::Low)
}

/// A diagnosis as part of a sentence: what, on what evidence, what to do.
fn in_words(found: &Diagnosis) -> String {
    let evidence = found.evidence.first().map_or("", |evidence| evidence.text.trim());
    format!("{} (evidence: {evidence}). {}", found.message, found.suggestion.trim_end_matches('.'))
}

/// What was looked at beside the output, and found.
fn probed(job: &ValidJob, seen: &ObservedState, output: &OutputSeen) -> String {
    let launcher = if seen.launcher_pods.iter().any(is_running) { "is running" } else { "is not running" };
    let workers = seen.by_index(job);
    let silent: Vec<&str> = workers
        .iter()
        .flatten()
        .filter(|pod| !is_ready(pod))
        .filter_map(|pod| pod.metadata.name.as_deref())
        .collect();
    let answering = workers.iter().flatten().count().saturating_sub(silent.len());
    let mut text = format!(
        "Probed: the Launcher's container {launcher}; {answering} of {} Workers are ready",
        job.worker_count()
    );
    if !silent.is_empty() {
        text.push_str(&format!(", not {}", silent.join(", ")));
    }
    if seen.lost_nodes.is_empty() {
        text.push_str("; their nodes report");
    } else {
        let nodes: Vec<&str> = seen.lost_nodes.keys().map(String::as_str).collect();
        text.push_str(&format!("; these nodes do not report: {}", nodes.join(", ")));
    }
    if job.launch == Some(Launch::Agent) && output.found.is_none() {
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

    fn running(since: Timestamp) -> ObservedState {
        let running = json!({ "type": CONDITION_RUNNING, "status": "True", "lastTransitionTime": since });
        let status = serde_json::from_value(json!({ "conditions": [running] })).unwrap();
        ObservedState { status, ..ObservedState::default() }
    }

    #[test]
    fn why_a_job_hangs_is_remembered_until_it_prints_again() {
        let second = |second: i64| Timestamp::from_second(second).unwrap();
        let read = |looked: i64, last: i64, log: Option<&str>| {
            let (looked, last) = (second(looked), Some(second(last)));
            Some(OutputRead { looked, last, log: log.map(str::to_owned) })
        };
        let mut seen = running(second(0));
        assert_eq!(output_shown(&job(), &seen), None, "it was not read");
        seen.output_read = read(900, 100, Some(ENDED));
        let shown = output_shown(&job(), &seen).unwrap();
        assert_eq!(shown.found.as_ref().map(|found| found.cause), Some(Cause::SilentHang));
        seen.output = Some(shown.clone());
        seen.output_read = None;
        assert_eq!(output_shown(&job(), &seen), Some(shown.clone()), "nothing was read since");
        seen.output_read = read(1000, 100, None);
        let again = OutputSeen { looked: second(1000), ..shown };
        assert_eq!(output_shown(&job(), &seen), Some(again), "nothing was printed since");
        seen.output_read = read(1100, 1099, Some("epoch 2\n"));
        assert_eq!(output_shown(&job(), &seen).unwrap().found, None);
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
        let seconds =
            |ran: u64| pause(Duration::from_secs(600), Duration::ZERO, Duration::from_secs(ran)).as_secs();
        assert_eq!([1, 20, 60, 240, 36_000].map(seconds), [5, 5, 15, 60, 60]);
        let second = |second: i64| Timestamp::from_second(second).unwrap();
        let mut seen = running(second(0));
        assert_eq!([4, 5].map(|now| wants_look(&job(), &seen, second(now))), [false, true]);
        assert_eq!(next_look(&job(), &seen, None, second(1)), Some(Duration::from_secs(4)));
        seen.output = Some(OutputSeen { looked: second(5), last: Some(second(4)), found: None });
        assert_eq!([9, 10].map(|now| wants_look(&job(), &seen, second(now))), [false, true]);
    }

    #[test]
    fn output_that_cannot_be_read_is_not_asked_for_at_each_change_of_the_job() {
        let second = |second: i64| Timestamp::from_second(second).unwrap();
        let seen = ObservedState { unreadable: Some(second(5)), ..running(second(0)) };
        assert_eq!([5, 9, 10].map(|now| wants_look(&job(), &seen, second(now))), [false, false, true]);
        let seen = ObservedState { unreadable: Some(second(240)), ..running(second(0)) };
        assert_eq!([250, 300].map(|now| wants_look(&job(), &seen, second(now))), [false, true]);
    }

    #[test]
    fn an_exception_for_which_the_others_wait_is_reported_before_the_timeout() {
        let second = |second: i64| Timestamp::from_second(second).unwrap();
        let log = "Traceback (most recent call last):\n  File \"boom.py\", line 9, in <module>\nKeyError: 'missing'\n";
        let mut seen = running(second(0));
        seen.output_read =
            Some(OutputRead { looked: second(5), last: Some(second(1)), log: Some(log.to_owned()) });
        let shown = output_shown(&job(), &seen);
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
        report_stall(&job(), &seen, output_shown(&job(), &seen).as_ref(), &mut report, second(10));
        assert!(!is_true(&report.status, CONDITION_STALLED), "it goes on");
    }
}
