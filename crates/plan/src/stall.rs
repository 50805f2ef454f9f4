//! The condition `Stalled`: nothing was printed for the stall timeout, with what was probed and found. It never fails a
//! job, as a healthy one may compute for hours without a word, and it goes again when the job prints.

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

/// When the output of a running job is to be looked at again: once it may have been silent for the timeout.
pub(crate) fn next_look(
    job: &ValidJob,
    seen: &ObservedState,
    output: Option<&OutputSeen>,
    now: Timestamp,
) -> Option<Duration> {
    let silent = elapsed(last_sign(seen, output)?, now);
    let left = job.stall_timeout.saturating_sub(silent);
    if !left.is_zero() {
        return Some(left);
    }
    let pause = pause(job.stall_timeout, silent);
    let since_look = output.map_or(Duration::ZERO, |output| elapsed(output.looked, now));
    // A look that could not be taken is not taken again at once.
    let left = pause.saturating_sub(since_look);
    Some(if left.is_zero() { pause } else { left })
}

/// Whether the Launcher's output has to be looked at, as the job may have been silent for the timeout.
#[must_use]
pub fn wants_look(job: &ValidJob, seen: &ObservedState, now: Timestamp) -> bool {
    let output = seen.output.as_ref();
    let Some(silent) = last_sign(seen, output).map(|sign| elapsed(sign, now)) else { return false };
    let looked = output.map(|output| elapsed(output.looked, now));
    silent >= job.stall_timeout && looked.is_none_or(|ago| ago >= pause(job.stall_timeout, silent))
}

/// The time between two looks at the output of a job that has been silent for so long.
fn pause(timeout: Duration, silent: Duration) -> Duration {
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
    if elapsed(sign, output.looked) >= job.stall_timeout {
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
        let pauses = [10, 20, 50, 600].map(|minutes| pause(timeout, minute * minutes).as_secs());
        assert_eq!(pauses, [60, 120, 300, 300]);
        assert_eq!(pause(Duration::from_secs(2), Duration::from_secs(2)), Duration::from_secs(2));
        let (mut silent, mut looks) = (timeout, 0);
        while silent < timeout + 60 * minute {
            (silent, looks) = (silent + pause(timeout, silent), looks + 1);
        }
        assert!(looks <= 22, "{looks} looks in an hour");
    }
}
