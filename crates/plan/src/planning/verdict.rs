//! Decides whether an attempt has failed, and why.

use std::time::Duration;

use api::{CONDITION_RUNNING, Failure, LAUNCHER, REASON_EVICTED, REASON_FAILED, REASON_RESTARTING, WORKER};
use jiff::Timestamp;
use semantics::kept::condition_since;
use semantics::{has_ended, is_deleted, is_ready};

use crate::advice::elastic_advice;
use crate::conditions::is_true;
use crate::failure::{failed_success, failure_of, launcher_failure, refusal, users_error};
use crate::kept::Pod;
use crate::notice::ApplyFailure;
use crate::objects::worker_name;
use crate::observed::{LauncherEnd, ObservedState, Recorded, is_failed, mpi_container};
use crate::outlook::AttemptFailure;
use crate::restart::is_restarted;
use crate::time::elapsed;
use crate::validate::ValidJob;
use diagnosis::{
    Cause, PodFailure, lost_with_node, of_missing_worker, of_slow_worker, of_unstartable, of_worker,
};

/// Returns a failure that was decided before the Launcher's Job ended and recorded, but that a crash kept out of the
/// status. What has happened to the pods since then does not change it.
pub(super) fn recorded(
    seen: &ObservedState,
    is_decided: impl Fn(&Recorded) -> bool,
) -> Option<AttemptFailure> {
    let recorded = seen.recorded.as_ref().filter(|recorded| is_decided(recorded))?;
    let Recorded { condition_reason, condition_message, failure, completion_time, node: _ } = recorded;
    Some(AttemptFailure {
        reason: condition_reason.clone(),
        message: condition_message.clone(),
        failure: failure.clone(),
        since: *completion_time,
    })
}

/// Returns the failure of the Launcher's Job if the infrastructure caused it and another attempt follows.
pub(super) fn launcher_verdict(
    job: &ValidJob,
    seen: &ObservedState,
    end: LauncherEnd<'_>,
) -> Option<AttemptFailure> {
    if job.attempt > job.max_gang_restarts {
        return None;
    }
    let failure = match end {
        LauncherEnd::Failed { reason, message } => launcher_failure(job, seen, reason, message),
        LauncherEnd::Succeeded => failed_success(job, seen)?,
    };
    is_restarted(job, &failure).then(|| AttemptFailure::now(REASON_RESTARTING, failure))
}

/// The end of a job that a person has cancelled.
pub(super) fn cancelled() -> AttemptFailure {
    let cause = Cause::Cancelled;
    let failure = Failure {
        reason: cause.word().to_owned(),
        message: cause.texts().message.to_owned(),
        suggestion: Some(cause.texts().suggestion.to_owned()),
        link: Some(cause.link()),
        ..Failure::default()
    };
    AttemptFailure::now(REASON_FAILED, failure)
}

pub(super) fn template_refused(job: &ValidJob, refused: &ApplyFailure) -> AttemptFailure {
    let index = (0..job.worker_count()).find(|index| worker_name(&job.name, *index) == refused.name);
    let (who, role) = match index {
        Some(index) => (format!("Worker {index} ({})", refused.name), WORKER),
        None => (format!("Launcher ({})", refused.name), LAUNCHER),
    };
    let failure = Failure {
        pod: index.map(|_| refused.name.clone()),
        worker: index.and_then(|index| i32::try_from(index).ok()),
        ..refusal(&who, &format!("spec.mpiReplicaSpecs[{role}].template"), refused)
    };
    AttemptFailure::now(REASON_FAILED, failure)
}

/// Decides whether the job cannot go on: the Launcher or a Worker can never start, or a Worker failed, vanished while
/// the job ran, or did not become ready in time. If the job tolerates failed Workers, only the Launcher counts.
pub(super) fn judge(job: &ValidJob, seen: &ObservedState, now: Timestamp) -> Option<AttemptFailure> {
    if job.tolerates_failures() {
        return judge_launcher(job, seen);
    }
    let by_index = seen.by_index(job);
    let workers = || by_index.iter().copied().enumerate();
    let failed = workers()
        .filter_map(|(index, pod)| Some((index, pod?)))
        .filter(|(_, pod)| has_failed(job, pod) && !seen.was_left_over(pod))
        .min_by_key(|(index, pod)| (ended_at(pod), *index));
    if let Some((index, pod)) = failed {
        return Some(verdict(job, seen, index, of_worker(pod)));
    }
    let on_lost_node = workers().find_map(|(index, pod)| Some((index, of_lost_node(seen, pod?)?)));
    if let Some((index, failure)) = on_lost_node {
        return Some(verdict(job, seen, index, failure));
    }
    let unstartable = workers().find_map(|(index, pod)| {
        let pod = pod.filter(|pod| !is_deleted(pod))?;
        Some((index, of_unstartable(pod)?))
    });
    if let Some((index, failure)) = unstartable {
        return Some(verdict(job, seen, index, failure));
    }
    if let Some(verdict) = judge_launcher(job, seen) {
        return Some(verdict);
    }
    if all_were_up(job, seen) {
        let lost = workers().find(|(_, pod)| pod.is_none_or(is_deleted));
        return lost.map(|(index, pod)| {
            let pod = pod.or_else(|| seen.disrupted_worker(job, index));
            verdict(job, seen, index, of_missing_worker(pod))
        });
    }
    if is_true(&seen.status, CONDITION_RUNNING) {
        return None;
    }
    let slow = workers()
        .filter_map(|(index, pod)| Some((index, pod?)))
        .find(|(_, pod)| start_deadline(job, pod, seen, now).is_some_and(|deadline| deadline <= now));
    let waited = format!("{} s", job.start_timeout.as_secs());
    slow.map(|(index, pod)| verdict(job, seen, index, of_slow_worker(pod, &waited)))
}

/// Detects a Launcher that can never start, or whose MPI refused what the user wrote. Upstream's Job would retry it in
/// vain for minutes.
fn judge_launcher(job: &ValidJob, seen: &ObservedState) -> Option<AttemptFailure> {
    let mut pods = seen.launcher_pods.iter().filter(|pod| !is_deleted(pod));
    let unstartable = pods.find_map(|pod| Some((pod, of_unstartable(pod)?))).map(|(pod, failure)| {
        let pod = pod.metadata.name.clone().unwrap_or_default();
        failure_of(failure, &format!("Launcher ({pod})"), pod, None)
    });
    let on_lost_node = || {
        let (pod, failure) =
            seen.launcher_pods.iter().find_map(|pod| Some((pod, of_lost_node(seen, pod)?)))?;
        let pod = pod.metadata.name.clone().unwrap_or_default();
        Some(failure_of(failure, &format!("Launcher ({pod})"), pod, None))
    };
    let failure = unstartable.or_else(on_lost_node).or_else(|| users_error(job, seen))?;
    Some(AttemptFailure::now(REASON_FAILED, failure))
}

/// The failure of a pod on a lost node, unless the pod ended before.
fn of_lost_node(seen: &ObservedState, pod: &Pod) -> Option<PodFailure> {
    let (node, told) = seen.lost_node(pod).filter(|_| !has_ended(pod))?;
    Some(lost_with_node(node, told))
}

/// A Worker has failed if its pod has, or if its MPI container has and nothing restarts it: a pod with a sidecar does
/// not reach the phase Failed before the sidecar ends too.
pub(crate) fn has_failed(job: &ValidJob, pod: &Pod) -> bool {
    let never = job.workers.as_ref().is_some_and(|workers| workers.restart_policy == "Never");
    let ended = mpi_container(pod).and_then(|(_, state)| state.terminated.as_ref());
    is_failed(pod) || (never && ended.is_some_and(|ended| ended.exit_code != 0))
}

fn ended_at(pod: &Pod) -> Timestamp {
    let ended = mpi_container(pod).and_then(|(_, state)| state.terminated.as_ref());
    ended.and_then(|ended| ended.finished_at.as_ref()).map_or(Timestamp::MAX, |time| time.0)
}

/// Whether every Worker of exactly this spec was seen running. Only then is a missing Worker a lost one, rather than
/// one still to be created. The counts are upstream's, as its CRD would drop ours.
fn all_were_up(job: &ValidJob, seen: &ObservedState) -> bool {
    let same_spec = seen.status.observed_generation.is_none_or(|observed| Some(observed) == job.generation);
    let counts = seen.status.replica_statuses.get(WORKER);
    let up = counts.map_or(0, |counts| counts.active.unwrap_or(0) + counts.succeeded.unwrap_or(0));
    is_true(&seen.status, CONDITION_RUNNING)
        && same_spec
        && job.worker_count() > 0
        && usize::try_from(up).is_ok_and(|up| up >= job.worker_count())
}

/// The deadline by which a scheduled Worker that is not ready must become ready. Pauses of the observer do not count.
fn start_deadline(job: &ValidJob, pod: &Pod, seen: &ObservedState, now: Timestamp) -> Option<Timestamp> {
    if is_ready(pod) || is_deleted(pod) || has_ended(pod) {
        return None;
    }
    let since = condition_since(pod, "PodScheduled")?;
    since.checked_add(job.start_timeout + seen.pauses.within(since, now)).ok()
}

/// How long until the first start deadline.
pub(super) fn next_deadline(job: &ValidJob, seen: &ObservedState, now: Timestamp) -> Option<Duration> {
    if is_true(&seen.status, CONDITION_RUNNING) {
        return None;
    }
    let deadline = seen.workers.iter().filter_map(|pod| start_deadline(job, pod, seen, now)).min()?;
    Some(elapsed(now, deadline))
}

/// The verdict on a failed Worker; the reason and message of an eviction are upstream's.
fn verdict(job: &ValidJob, seen: &ObservedState, index: usize, failure: PodFailure) -> AttemptFailure {
    let pod = worker_name(&job.name, index);
    let mut failure = failure_of(failure, &format!("Worker {index} ({pod})"), pod, i32::try_from(index).ok());
    if let Some(advice) = elastic_advice(job) {
        let suggestion = failure.suggestion.take().into_iter().chain([advice]);
        failure.suggestion = Some(suggestion.collect::<Vec<_>>().join(" "));
    }
    let evicted = seen.workers.iter().filter(|pod| is_evicted(pod)).count();
    let (reason, message) = if evicted > 0 {
        (REASON_EVICTED, format!("{evicted}/{} workers are evicted", job.worker_count()))
    } else {
        (REASON_FAILED, failure.message.clone())
    };
    AttemptFailure { reason: reason.to_owned(), message, failure, since: None }
}

fn is_evicted(pod: &Pod) -> bool {
    is_failed(pod) && pod.status.as_ref().and_then(|status| status.reason.as_deref()) == Some("Evicted")
}
