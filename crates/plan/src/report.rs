//! Turns what was observed and decided into the status to write and the events to record. Conditions, reasons and
//! messages are upstream's (`updateMPIJobStatus` in `pkg/controller/mpi_job_controller.go`); generation, phase, Worker
//! counts and the failure are additions. It writes nothing and repeats nothing: equal input gives an equal status, and
//! an event is returned only when its content is new.

use std::time::Duration;

use api::{
    CONDITION_CREATED, CONDITION_FAILED, CONDITION_INVALID, CONDITION_LIMITS_NOT_ENFORCED,
    CONDITION_RESTARTING, CONDITION_RUNNING, CONDITION_SUCCEEDED, CONDITION_SUSPENDED,
    EVENT_MESSAGE_LIMIT_BYTES, Failure, GpuCounts, LABEL_QUEUE_NAME, LAUNCHER, MPIJob, MPIJobStatus,
    PHASE_REASON_INITIALIZING, PHASE_REASON_QUEUED, PHASE_REASON_RESTARTING, PHASE_REASON_RETRYING,
    PHASE_REASON_SUSPENDED, Phase, REASON_CORRECTED, REASON_CREATED, REASON_FAILED, REASON_LAUNCHER_WARNING,
    REASON_NO_CGROUPS, REASON_PLAIN_MODE, REASON_RESOURCE_EXISTS, REASON_RESTARTING, REASON_RESUMED,
    REASON_RUNNING, REASON_SUCCEEDED, REASON_SUSPENDED, REASON_TEMPLATE_RESTART_POLICY, REASON_VALIDATION,
    ReplicaStatus, WAITING_FOR_DELETED_JOB, WORKER, Waiting, WorkerCounts,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use semantics::kept::condition_since;
use semantics::local_nodes::{ANNOTATION_NODE_MODE, PLAIN_MODE};
use semantics::{is_deleted, is_ready, phase};

use crate::attempts::{end_attempt, report_attempt};
use crate::change::{ChildKind, JobChange};
use crate::conditions::{condition, end_last, has_run, is_finished, is_true, set_condition};
use crate::explanation::{hindrance, leaving_names};
use crate::failure::{failed_success, launcher_failure};
use crate::kept::Pod;
use crate::notice::{Applied, ApplyFailure, Notice, Report};
use crate::objects::record;
use crate::observed::{
    LauncherEnd, ObservedState, container_state, is_failed, is_running, next_start, started_at,
};
use crate::outlook::{AttemptFailure, Outlook};
use crate::planning::{Plan, after_failures, follows_deleted_job, has_failed, was_ended_early, was_refused};
use crate::stall::report_stall;
use crate::startup::report_startup;
use crate::time::whole_seconds;
use crate::validate::{CleanPods, Fault, ValidJob};
use crate::world_check::report_world;
use diagnosis::{Cause, Gpus, Output, failed_run, warnings};

/// Returns the status of a job after a pass, and what goes with it.
#[must_use]
pub fn report(
    job: &ValidJob,
    seen: &ObservedState,
    plan: &Plan,
    applied: &Applied,
    now: Timestamp,
) -> Report {
    let now = whole_seconds(now);
    let mut report = Report { status: seen.status.clone(), ..Report::default() };
    if plan.outlook == Outlook::Expired {
        report.then = Some(JobChange::Delete);
        return report;
    }
    let outlook = &after_failures(job, seen, &plan.outlook, &applied.failures);
    let run = seen.launcher_failed.as_ref().or(applied.last_words.as_ref());
    report.status.observed_generation = job.generation.or(report.status.observed_generation);
    report_created(job, seen, &mut report, now);
    report_faults(job, &mut report, now);
    match outlook {
        Outlook::Finished => report_finished(job, seen, &mut report.status),
        _ => {
            report_progress(job, seen, outlook, &mut report, now);
            if !job.suspended {
                report_stall(job, seen, plan.output.as_ref(), &mut report, now);
            }
        }
    }
    report.status.workers = Some(count_workers(job, seen));
    set_phase(job, &mut report.status);
    report_startup(job, seen, run, &mut report.status);
    match outlook {
        Outlook::Restarting(verdict) => {
            report_restart(job, verdict, &mut report, now);
            report.then = Some(JobChange::BeginAttemptAfter(job.attempt));
        }
        Outlook::Clearing => {}
        _ => report_attempt(job, &mut report.status),
    }
    report_waiting(job, seen, outlook, &applied.failures, &mut report, now);
    end_last(&mut report.status);
    report.notices.extend(applied.failures.iter().map(tell_failure));
    for notice in &mut report.notices {
        notice.message = shortened(&notice.message);
    }
    if seen.status.completion_time.is_none() {
        report.record = record(job, seen, outlook, run, &report.status).map(Box::new);
    }
    report
}

/// Reports a job that cannot be run and has not begun. This is not final: no completion time is set, so a job that is
/// corrected goes on. A suspended or queued job waits instead of failing: a queue takes Failed for the end, and
/// forgets the job.
#[must_use]
pub fn reject(job: &MPIJob, faults: &[Fault], now: Timestamp) -> Report {
    let now = whole_seconds(now);
    let mut report = Report { status: job.status.clone().unwrap_or_default(), ..Report::default() };
    report.status.observed_generation = job.metadata.generation.or(report.status.observed_generation);
    let suspended = job.spec.run_policy.as_ref().and_then(|policy| policy.suspend).unwrap_or(false);
    let queued = job.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(LABEL_QUEUE_NAME));
    if suspended || queued {
        report_held_back(faults, &mut report, now);
        report.status.phase = Some(Phase::Pending);
        report.status.phase_reason = Some(pending_reason(suspended, queued).to_owned());
    } else {
        report_refusal(faults, &mut report, now);
    }
    report
}

/// Reports an invalid job that is suspended or queued anyway, and must not be released before it is corrected.
fn report_held_back(faults: &[Fault], report: &mut Report, now: Timestamp) {
    let message = "The job is invalid and waits until it is corrected.".to_owned();
    if is_true(&report.status, CONDITION_FAILED) {
        set_condition(&mut report.status, CONDITION_FAILED, false, REASON_VALIDATION, message, now);
    }
    report.status.failure = None;
    let waiting = invalid(faults, now);
    let known = report.status.waiting.as_ref();
    if known.is_none_or(|known| (&known.reason, &known.message) != (&waiting.reason, &waiting.message)) {
        report.notices.push(warning(REASON_VALIDATION, waiting.message.clone()));
        report.status.waiting = Some(waiting);
    }
}

fn report_refusal(faults: &[Fault], report: &mut Report, now: Timestamp) {
    let status = &mut report.status;
    let Waiting { message, suggestion, .. } = invalid(faults, now);
    // A condition of equal status and reason is kept, so the message for the earlier faults has to be removed first.
    if condition(status, CONDITION_FAILED).is_some_and(|failed| failed.message.as_ref() != Some(&message)) {
        status.conditions.retain(|condition| condition.type_ != CONDITION_FAILED);
    }
    let new = set_condition(status, CONDITION_FAILED, true, REASON_VALIDATION, message.clone(), now);
    status.waiting = None;
    status.phase = Some(Phase::Failed);
    status.phase_reason = Some(REASON_VALIDATION.to_owned());
    status.failure = Some(Failure {
        reason: REASON_VALIDATION.to_owned(),
        message: in_a_row(faults.iter().map(Fault::to_string)),
        suggestion,
        ..Failure::default()
    });
    if new {
        report.notices.push(warning(REASON_VALIDATION, message));
    }
}

/// What an invalid job waits for.
fn invalid(faults: &[Fault], now: Timestamp) -> Waiting {
    let listed = in_a_row(faults.iter().map(Fault::to_string));
    Waiting {
        reason: REASON_VALIDATION.to_owned(),
        message: shortened(&format!("Found validation errors: {listed}")),
        suggestion: Some(in_a_row(faults.iter().map(|fault| fault.advice.clone()))),
        link: None,
        since: Some(Time(now)),
        gpus: None,
    }
}

fn in_a_row(texts: impl Iterator<Item = String>) -> String {
    texts.collect::<Vec<_>>().join("; ")
}

/// Reports faults that came up after the job began: a condition and an event that list them, and nothing else.
fn report_faults(job: &ValidJob, report: &mut Report, now: Timestamp) {
    let status = &mut report.status;
    if job.faults.is_empty() {
        if is_true(status, CONDITION_INVALID) {
            let message = "The job is valid.".to_owned();
            set_condition(status, CONDITION_INVALID, false, REASON_CORRECTED, message, now);
        }
        return;
    }
    if is_finished(status) {
        return;
    }
    let goes_on = if job.is_held() {
        "the job continues, but none of its objects is created or changed until this is corrected"
    } else {
        "the job continues with the last valid value or the default"
    };
    let listed = in_a_row(job.faults.iter().map(Fault::to_string));
    let message = shortened(&format!("Found validation errors: {listed}; {goes_on}"));
    // A condition of equal status and reason would be kept, with the message for the earlier faults.
    if condition(status, CONDITION_INVALID).is_some_and(|known| known.message.as_ref() != Some(&message)) {
        status.conditions.retain(|condition| condition.type_ != CONDITION_INVALID);
    }
    if set_condition(status, CONDITION_INVALID, true, REASON_VALIDATION, message.clone(), now) {
        report.notices.push(warning(REASON_VALIDATION, message));
    }
}

fn report_created(job: &ValidJob, seen: &ObservedState, report: &mut Report, now: Timestamp) {
    if was_refused(seen) {
        let message = if job.faults.is_empty() { "The job is valid now." } else { "The job has begun." };
        let message = message.to_owned();
        set_condition(&mut report.status, CONDITION_FAILED, false, REASON_VALIDATION, message, now);
        report.status.failure = None;
    }
    if condition(&report.status, CONDITION_CREATED).is_some() {
        return;
    }
    let message = format!("MPIJob {}/{} is created.", job.namespace, job.name);
    set_condition(&mut report.status, CONDITION_CREATED, true, REASON_CREATED, message.clone(), now);
    report.notices.push(normal(REASON_CREATED, message));
    let template_policy = job.launcher.template.spec.as_ref().and_then(|pod| pod.restart_policy.as_deref());
    if template_policy.is_some_and(|policy| !policy.is_empty()) {
        let message = "Restart policy in pod template overridden by restart policy in replica spec";
        report.notices.push(warning(REASON_TEMPLATE_RESTART_POLICY, message.to_owned()));
    }
}

/// After the end only counts change: those of Workers that were cleaned up, and of a Launcher that was deleted.
fn report_finished(job: &ValidJob, seen: &ObservedState, status: &mut MPIJobStatus) {
    let ended_early = was_ended_early(seen);
    if ended_early {
        let failed = status.replica_statuses.get(WORKER).and_then(|counts| counts.failed);
        let counts = ReplicaStatus { failed, ..ReplicaStatus::default() };
        status.replica_statuses.insert(WORKER.to_owned(), counts);
        let launcher =
            ReplicaStatus { active: count(&seen.launcher_pods, is_running), ..launcher_counts(seen) };
        status.replica_statuses.insert(LAUNCHER.to_owned(), launcher);
    } else if job.clean_pods != CleanPods::None {
        status.replica_statuses.insert(WORKER.to_owned(), ReplicaStatus::default());
    }
}

fn report_progress(
    job: &ValidJob,
    seen: &ObservedState,
    outlook: &Outlook,
    report: &mut Report,
    now: Timestamp,
) {
    if report.status.start_time.is_none() && !job.suspended {
        report.status.start_time = Some(Time(now));
    }
    report_suspension(job, report, now);
    report_limits(seen, &mut report.status, now);
    let launcher = launcher_progress(seen, outlook);
    if seen.launcher.is_some() || report.status.replica_statuses.contains_key(LAUNCHER) {
        report.status.replica_statuses.insert(LAUNCHER.to_owned(), launcher);
    }
    let workers = worker_progress(job, seen, outlook);
    // A pod that is being deleted is on its way out, as those of a suspended job that was resumed at once.
    let runs = |pod: &Pod| is_running(pod) && !is_deleted(pod);
    let all_run = seen.by_index(job).into_iter().all(|pod| pod.is_some_and(runs)) && !seen.former_run_ends();
    report.status.replica_statuses.insert(WORKER.to_owned(), workers);
    match outlook {
        Outlook::LauncherEnded => report_launcher_end(job, seen, report, now),
        Outlook::Failed(verdict) => report_verdict(job, verdict, report, now),
        Outlook::Restarting(_)
        | Outlook::Clearing
        | Outlook::Active
        | Outlook::Suspended
        | Outlook::Finished
        | Outlook::Expired => {}
    }
    if job.suspended {
        let message = format!("MPIJob {}/{} is suspended.", job.namespace, job.name);
        set_condition(&mut report.status, CONDITION_RUNNING, false, REASON_SUSPENDED, message, now);
    } else if is_finished(&report.status) {
        close_running(job, &mut report.status, now);
    } else if all_run && *outlook == Outlook::Active && seen.launcher_pods.iter().any(runs) {
        set_running(job, report, now, now);
    }
}

/// The Launcher's counts. A pod that is being deleted counts as active until it is gone, because a queue gives away
/// the quota of a job without active pods.
fn launcher_progress(seen: &ObservedState, outlook: &Outlook) -> ReplicaStatus {
    let pods = seen.launcher_pods.iter().chain(&seen.former_launcher_pods);
    let active = match outlook {
        Outlook::LauncherEnded | Outlook::Finished | Outlook::Expired => None,
        Outlook::Active | Outlook::Failed(_) => count(&seen.launcher_pods, is_running),
        Outlook::Suspended | Outlook::Restarting(_) | Outlook::Clearing => count(pods, holds_a_node),
    };
    ReplicaStatus { active, ..launcher_counts(seen) }
}

/// The Workers' counts, by the same rule.
fn worker_progress(job: &ValidJob, seen: &ObservedState, outlook: &Outlook) -> ReplicaStatus {
    match outlook {
        Outlook::Active | Outlook::Failed(_) => worker_counts(job, seen),
        // Upstream ignores the Workers once the Launcher has ended.
        Outlook::LauncherEnded | Outlook::Finished | Outlook::Expired => ReplicaStatus::default(),
        Outlook::Suspended | Outlook::Restarting(_) | Outlook::Clearing => ReplicaStatus {
            active: count(seen.workers.iter().map(|pod| &**pod), holds_a_node),
            ..ReplicaStatus::default()
        },
    }
}

/// Whether a pod takes up resources on a node.
fn holds_a_node(pod: &Pod) -> bool {
    let bound = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    is_running(pod) || (bound && phase(pod) == "Pending")
}

fn report_suspension(job: &ValidJob, report: &mut Report, now: Timestamp) {
    let status = &mut report.status;
    if job.suspended {
        let message = "MPIJob suspended".to_owned();
        if set_condition(status, CONDITION_SUSPENDED, true, REASON_SUSPENDED, message.clone(), now) {
            report.notices.push(normal(REASON_SUSPENDED, message));
        }
    } else if condition(status, CONDITION_SUSPENDED).is_some() {
        let message = "MPIJob resumed".to_owned();
        if set_condition(status, CONDITION_SUSPENDED, false, REASON_RESUMED, message.clone(), now) {
            status.start_time = Some(Time(now));
            report.notices.push(normal(REASON_RESUMED, message));
        }
    }
}

/// Reports that a node does not enforce the limits of the job's pods, if a pod's annotation or condition says so.
fn report_limits(seen: &ObservedState, status: &mut MPIJobStatus, now: Timestamp) {
    let pods = || seen.workers.iter().map(|pod| &**pod).chain(&seen.launcher_pods);
    let plain = pods().any(|pod| {
        let mode = pod.metadata.annotations.as_ref().and_then(|notes| notes.get(ANNOTATION_NODE_MODE));
        mode.is_some_and(|mode| mode == PLAIN_MODE)
    });
    let (reason, message) = if plain {
        (REASON_PLAIN_MODE, PLAIN_MODE_MESSAGE)
    } else if pods().any(|pod| condition_since(pod, CONDITION_LIMITS_NOT_ENFORCED).is_some()) {
        (REASON_NO_CGROUPS, NO_CGROUPS_MESSAGE)
    } else {
        return;
    };
    set_condition(status, CONDITION_LIMITS_NOT_ENFORCED, true, reason, message.to_owned(), now);
}

const PLAIN_MODE_MESSAGE: &str = "The node runs pods in plain mode, as processes without isolation: memory and CPU limits are not enforced, pods share the machine's host name, network, files and processes, and pod names do not resolve.";
const NO_CGROUPS_MESSAGE: &str = "The node cannot use cgroups: memory and CPU limits are not enforced, so a pod that exceeds its limits takes resources from other pods.";

/// Reports the end of the Launcher's Job. A job whose Launcher succeeded did run: if that was never observed, Running
/// is reported now, and the end with the next pass, which the status write triggers.
fn report_launcher_end(job: &ValidJob, seen: &ObservedState, report: &mut Report, now: Timestamp) {
    let full_name = format!("{}/{}", job.namespace, job.name);
    match seen.launcher_end() {
        // If the job was suspended meanwhile, Running is False, and only its end is left to report.
        Some(LauncherEnd::Succeeded) if !has_run(&report.status) && !job.suspended => {
            let since = seen.launcher_pods.iter().filter_map(started_at).max().unwrap_or(now);
            set_running(job, report, now, since);
        }
        Some(LauncherEnd::Succeeded) => {
            let message = format!("MPIJob {full_name} successfully completed.");
            let ended =
                seen.launcher.as_ref().and_then(|launcher| launcher.status.as_ref()?.completion_time.clone());
            report.status.completion_time.get_or_insert(ended.unwrap_or(Time(now)));
            if let Some(failure) = failed_success(job, seen) {
                let message = failure.message.clone();
                report.status.failure = Some(failure);
                set_condition(
                    &mut report.status,
                    CONDITION_FAILED,
                    true,
                    REASON_FAILED,
                    message.clone(),
                    now,
                );
                report.notices.push(warning(REASON_FAILED, message));
                return;
            }
            if let Some(log) = &seen.success_log {
                report_world(job, log, &seen.agents, report, now);
                report.notices.extend(launcher_warnings(log));
            }
            if let Some(counts) = report.status.replica_statuses.get_mut(LAUNCHER) {
                counts.succeeded = Some(1);
            }
            set_condition(
                &mut report.status,
                CONDITION_SUCCEEDED,
                true,
                REASON_SUCCEEDED,
                message.clone(),
                now,
            );
            report.notices.push(normal(REASON_SUCCEEDED, message));
        }
        Some(LauncherEnd::Failed { reason, message }) => {
            let recorded =
                seen.recorded.as_ref().filter(|recorded| recorded.condition_reason != REASON_RESTARTING);
            let (reason, message) = recorded.map_or_else(
                || failure_words(&full_name, reason, message, &seen.launcher_pods),
                |recorded| (recorded.condition_reason.clone(), recorded.condition_message.clone()),
            );
            let ended = recorded.and_then(|recorded| recorded.completion_time).unwrap_or(now);
            report.status.completion_time.get_or_insert(Time(ended));
            let failure = recorded.map_or_else(
                || launcher_failure(job, seen, &reason, &message),
                |recorded| recorded.failure.clone(),
            );
            report.status.failure = Some(Failure { ended_early: Some(false), ..failure });
            set_condition(&mut report.status, CONDITION_FAILED, true, &reason, message.clone(), now);
            report.notices.push(Notice { warning: true, reason, message });
        }
        None => {}
    }
}

/// The maximum number of warning events for one run.
const MOST_WARNINGS: usize = 3;

/// What the Launcher of a successful job complained of. `mpirun` of Open MPI 5 ends with 0 after it has lost a daemon, and with
/// it the ranks of a Worker.
fn launcher_warnings(log: &str) -> impl Iterator<Item = Notice> {
    let said = warnings(&Output::from(log)).into_iter().take(MOST_WARNINGS);
    said.map(|said| {
        let message = format!("The Launcher succeeded, but its output says: {}.", said.message);
        warning(REASON_LAUNCHER_WARNING, shortened(&message))
    })
}

/// Upstream's reason and message for a failed Launcher: the Job's, and if it ran out of retries also those of the last
/// failed pod.
fn failure_words(job: &str, reason: &str, message: &str, pods: &[Pod]) -> (String, String) {
    let mut words = (
        if reason.is_empty() { REASON_FAILED.to_owned() } else { reason.to_owned() },
        if message.is_empty() { format!("MPIJob {job} has failed") } else { message.to_owned() },
    );
    let last = pods.iter().filter(|pod| is_failed(pod)).max_by_key(|pod| created_at(pod));
    if let Some(status) =
        last.and_then(|pod| pod.status.as_ref()).filter(|_| reason == "BackoffLimitExceeded")
    {
        words.0 = format!("{}/{}", words.0, status.reason.as_deref().unwrap_or_default());
        words.1 = shortened(&format!("{}: {}", words.1, status.message.as_deref().unwrap_or_default()));
    }
    words
}

fn created_at(pod: &Pod) -> Option<Timestamp> {
    pod.metadata.creation_timestamp.as_ref().map(|time| time.0)
}

/// Reports that this attempt is over and the next begins. The failed attempt is described in its entry, its record and
/// an event.
fn report_restart(job: &ValidJob, verdict: &AttemptFailure, report: &mut Report, now: Timestamp) {
    let status = &mut report.status;
    let ended = Time(whole_seconds(verdict.since.unwrap_or(now)));
    end_attempt(job, &verdict.failure, ended.clone(), status);
    let message = format!(
        "Attempt {} of {} failed: {}; restarting the gang",
        job.attempt,
        job.max_gang_restarts.saturating_add(1),
        verdict.failure.message.trim_end_matches('.')
    );
    let message = shortened(&message);
    // A condition of equal status and reason would be kept, with the message of an earlier attempt.
    let known = condition(status, CONDITION_RESTARTING).and_then(|known| known.message.as_ref());
    if known.is_some_and(|known| *known != message) {
        status.conditions.retain(|condition| condition.type_ != CONDITION_RESTARTING);
    }
    if set_condition(status, CONDITION_RESTARTING, true, REASON_RESTARTING, message.clone(), now) {
        status.start_time = Some(ended);
        status.failure = None;
        set_phase(job, status);
        report.notices.push(warning(REASON_RESTARTING, message));
    }
}

fn report_verdict(job: &ValidJob, verdict: &AttemptFailure, report: &mut Report, now: Timestamp) {
    let AttemptFailure { reason, message, failure, since } = verdict;
    let suffix = format!(" (attempt {})", job.attempt);
    // The recorded message already has the suffix.
    let message = if job.attempt == 1 || message.ends_with(&suffix) {
        message.clone()
    } else {
        format!("{message}{suffix}")
    };
    report.status.completion_time = Some(Time(since.unwrap_or(now)));
    report.status.failure = Some(Failure { ended_early: Some(true), ..failure.clone() });
    set_condition(&mut report.status, CONDITION_FAILED, true, reason, message.clone(), now);
    report.notices.push(warning(reason, message));
}

fn set_running(job: &ValidJob, report: &mut Report, now: Timestamp, since: Timestamp) {
    let message = format!("MPIJob {}/{} is running.", job.namespace, job.name);
    if !set_condition(&mut report.status, CONDITION_RUNNING, true, REASON_RUNNING, message, now) {
        return;
    }
    if let Some(running) =
        report.status.conditions.iter_mut().find(|condition| condition.type_ == CONDITION_RUNNING)
    {
        running.last_transition_time = Some(Time(whole_seconds(since)));
    }
    report.notices.push(normal(REASON_RUNNING, format!("MPIJob {}/{} is running", job.namespace, job.name)));
}

/// A job that ended without ever running still gets the condition Running, dated with its end, for clients that
/// compute durations.
fn close_running(job: &ValidJob, status: &mut MPIJobStatus, now: Timestamp) {
    if condition(status, CONDITION_RUNNING).is_some() {
        return;
    }
    let at = status.completion_time.as_ref().map_or(now, |time| time.0);
    let message =
        format!("MPIJob {}/{} is finished but Running condition was never set.", job.namespace, job.name);
    set_condition(status, CONDITION_RUNNING, false, REASON_RUNNING, message, at);
}

fn launcher_counts(seen: &ObservedState) -> ReplicaStatus {
    let failed =
        seen.launcher.as_ref().and_then(|launcher| launcher.status.as_ref()?.failed).filter(|n| *n > 0);
    ReplicaStatus { failed, ..ReplicaStatus::default() }
}

fn worker_counts(job: &ValidJob, seen: &ObservedState) -> ReplicaStatus {
    let pods: Vec<&Pod> = seen.by_index(job).into_iter().flatten().collect();
    ReplicaStatus {
        active: count(pods.iter().copied(), is_running),
        succeeded: count(pods.iter().copied(), |pod| phase(pod) == "Succeeded"),
        failed: count(pods.iter().copied(), is_failed),
        ..ReplicaStatus::default()
    }
}

/// The number of matches; `None` for zero, as Go omits it.
fn count<'a>(pods: impl IntoIterator<Item = &'a Pod>, matches: impl Fn(&Pod) -> bool) -> Option<i32> {
    i32::try_from(pods.into_iter().filter(|pod| matches(pod)).count()).ok().filter(|n| *n > 0)
}

fn count_workers(job: &ValidJob, seen: &ObservedState) -> WorkerCounts {
    let mut counts =
        WorkerCounts { of: i32::try_from(job.worker_count()).unwrap_or(i32::MAX), ..WorkerCounts::default() };
    let ended = is_finished(&seen.status) && seen.status.completion_time.is_some();
    for pod in seen.by_index(job) {
        match pod {
            // A new Worker takes its place once it is gone.
            Some(pod) if seen.was_left_over(pod) && !job.suspended => counts.pending += 1,
            Some(pod) if has_failed(job, pod) => counts.failed += 1,
            Some(pod) if is_running(pod) && is_ready(pod) => counts.running += 1,
            Some(pod) if phase(pod) == "Succeeded" => {}
            None if ended => {}
            _ => counts.pending += 1,
        }
    }
    counts.ready = format!("{}/{}", counts.running, counts.of);
    counts
}

/// Reports what keeps a starting job from going on. It is reported once, with an event, and removed when nothing does
/// any more.
fn report_waiting(
    job: &ValidJob,
    seen: &ObservedState,
    outlook: &Outlook,
    failures: &[ApplyFailure],
    report: &mut Report,
    now: Timestamp,
) {
    let starting =
        *outlook == Outlook::Active && report.status.phase == Some(Phase::Pending) && !job.suspended;
    let pods = seen.workers.iter().map(|pod| &**pod).chain(&seen.launcher_pods);
    let refused = failures.iter().map(|failure| &failure.message).chain(&seen.launcher_refused);
    let refused = refused.map(|message| ("FailedCreate".to_owned(), message.clone()));
    let missing = seen.missing_reference.iter().map(|message| ("FailedMount".to_owned(), message.clone()));
    let refused = refused.chain(missing).collect();
    if starting && job.is_held() {
        let waiting = invalid(&job.faults, now);
        if report.status.waiting.as_ref().is_none_or(|known| known.message != waiting.message) {
            report.status.waiting = Some(waiting);
        }
        return;
    }
    if starting && follows_deleted_job(seen) {
        let known = report.status.waiting.take();
        let known = known.filter(|known| known.reason == WAITING_FOR_DELETED_JOB);
        let waiting = known.unwrap_or_else(|| {
            let message = leaving_names(&seen.left_behind);
            report.notices.push(normal(WAITING_FOR_DELETED_JOB, message.clone()));
            let (reason, since) = (WAITING_FOR_DELETED_JOB.to_owned(), Some(Time(now)));
            Waiting { reason, message, since, ..Waiting::default() }
        });
        report.status.waiting = Some(waiting);
        return;
    }
    if let Some(waiting) = retrying(job, seen, outlook, now) {
        // Its pods may never have all run at once, but it has begun to run.
        report.status.phase = Some(Phase::Running);
        report.status.phase_reason = Some(PHASE_REASON_RETRYING.to_owned());
        if report.status.waiting.as_ref().is_none_or(|known| known.message != waiting.message) {
            report.notices.push(warning(PHASE_REASON_RETRYING, waiting.message.clone()));
            report.status.waiting = Some(waiting);
        }
        return;
    }
    let Some(found) = starting.then(|| hindrance(&job.name, pods, refused, seen.gpus)).flatten() else {
        report.status.waiting = None;
        return;
    };
    let reason = found.cause.word();
    let gpus = seen.gpus.filter(|gpus| found.cause == Cause::Unschedulable && gpus.are_short());
    // Numbers change with every pod that comes and goes; only their first appearance is news.
    let same = |known: &Waiting| known.reason == reason && (known.gpus.is_some() || gpus.is_none());
    if report.status.waiting.as_ref().is_some_and(same) {
        return;
    }
    report.status.waiting = Some(Waiting {
        reason: reason.to_owned(),
        message: found.message.clone(),
        suggestion: Some(found.suggestion),
        link: Some(found.link),
        since: Some(Time(now)),
        gpus: gpus.map(counts),
    });
    report.notices.push(warning(reason, found.message));
}

/// What a job waits for between two runs of its Launcher: why the last run failed, and when the next begins.
fn retrying(job: &ValidJob, seen: &ObservedState, outlook: &Outlook, now: Timestamp) -> Option<Waiting> {
    if *outlook != Outlook::Active || job.suspended || seen.launcher_end().is_some() {
        return None;
    }
    let next = next_in_place(job, seen).or_else(|| next_pod(job, seen))?;
    let failure = launcher_failure(job, seen, "", "");
    let when = match next.at {
        Some(at) => format!("starts at about {} UTC", at.strftime("%H:%M:%S")),
        None => "starts shortly".to_owned(),
    };
    Some(Waiting {
        reason: failure.reason,
        message: shortened(&format!(
            "{}; attempt {} of {} of the Launcher {when}",
            failure.message.trim_end_matches('.'),
            next.number,
            next.of,
        )),
        suggestion: failure.suggestion,
        link: failure.link,
        since: Some(Time(now)),
        gpus: None,
    })
}

/// The next run of a Launcher whose last one failed.
struct NextRun {
    number: i32,
    of: i32,
    at: Option<Timestamp>,
}

/// The next run in the same pod, whose kubelet starts the container again. Its Job gives up once the containers were started
/// again as often as its backoff limit allows (`pastBackoffLimitOnFailure` in `pkg/controller/job/job_controller.go`).
fn next_in_place(job: &ValidJob, seen: &ObservedState) -> Option<NextRun> {
    if job.launcher.restart_policy != "OnFailure" {
        return None;
    }
    let pod = seen.newest_launcher_pod().filter(|pod| !is_deleted(pod) && !is_failed(pod))?;
    let failed = failed_run(pod)?;
    let state = container_state(pod, &failed.container)?;
    if state.running.is_some() {
        return None;
    }
    let runs = job.backoff_limit.unwrap_or(DEFAULT_BACKOFF_LIMIT).max(1);
    let failures = failed.restarts + 1;
    let at = next_start(state, &failed);
    (failures < runs).then_some(NextRun { number: failures + 1, of: runs, at })
}

/// The next run in another pod, which the Launcher's Job creates.
fn next_pod(job: &ValidJob, seen: &ObservedState) -> Option<NextRun> {
    if seen.launcher_pods.iter().any(is_running) {
        return None;
    }
    let failures = seen.launcher.as_ref()?.status.as_ref()?.failed.filter(|failures| *failures > 0)?;
    // Until the Job has counted the run that has just failed, its number would be that of the run before.
    let failed_pods = seen.launcher_pods.iter().filter(|pod| is_failed(pod)).count();
    if usize::try_from(failures).is_ok_and(|counted| counted < failed_pods) {
        return None;
    }
    let of = job.backoff_limit.unwrap_or(DEFAULT_BACKOFF_LIMIT).saturating_add(1);
    let failed = seen.failed_launcher_pod().filter(|_| failures < of)?;
    let ended = failed_run(failed)?.ended.finished_at?.0;
    let exponent = u32::try_from(failures - 1).unwrap_or(0).min(BACKOFF_DOUBLINGS);
    let at = ended.checked_add(FIRST_BACKOFF * 2_u32.pow(exponent)).ok();
    Some(NextRun { number: failures + 1, of, at })
}

/// `spec.backoffLimit` of a Job that does not set it.
const DEFAULT_BACKOFF_LIMIT: i32 = 6;
/// The Job controller's wait after a first failure; it doubles with each further one, up to ten minutes
/// (`k8s.io/kubernetes/pkg/controller/job/backoff_utils.go`).
const FIRST_BACKOFF: Duration = Duration::from_secs(10);
const BACKOFF_DOUBLINGS: u32 = 6;

fn counts(gpus: Gpus) -> GpuCounts {
    let bounded = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    GpuCounts { requested: bounded(gpus.requested), available: bounded(gpus.available) }
}

fn set_phase(job: &ValidJob, status: &mut MPIJobStatus) {
    let (phase, reason) = if is_true(status, CONDITION_SUCCEEDED) {
        (Phase::Succeeded, None)
    } else if is_true(status, CONDITION_FAILED) {
        let cause =
            status.failure.as_ref().map_or_else(|| "Unknown".to_owned(), |failure| failure.reason.clone());
        (Phase::Failed, Some(cause))
    } else if job.suspended {
        (Phase::Pending, Some(pending_reason(job.suspended, job.queued).to_owned()))
    } else if is_true(status, CONDITION_RESTARTING) {
        (Phase::Pending, Some(PHASE_REASON_RESTARTING.to_owned()))
    } else if is_true(status, CONDITION_RUNNING) {
        (Phase::Running, None)
    } else {
        (Phase::Pending, Some(PHASE_REASON_INITIALIZING.to_owned()))
    };
    status.phase = Some(phase);
    status.phase_reason = reason;
}

/// What a job that has not begun to run waits for.
fn pending_reason(suspended: bool, queued: bool) -> &'static str {
    match (suspended, queued) {
        (true, true) => PHASE_REASON_QUEUED,
        (true, false) => PHASE_REASON_SUSPENDED,
        (false, _) => PHASE_REASON_INITIALIZING,
    }
}

/// Upstream's events for a child that could not be created.
fn tell_failure(failure: &ApplyFailure) -> Notice {
    let ApplyFailure { kind, name, foreign, creating, invalid: _, message } = failure;
    if *foreign {
        let kind = kind.as_str();
        let text = format!("Resource {name:?} of Kind {kind:?} already exists and is not managed by MPIJob");
        return warning(REASON_RESOURCE_EXISTS, text);
    }
    let text = match (kind, creating) {
        (ChildKind::Pod, true) => format!("worker pod created failed: {message}"),
        (ChildKind::Job, true) => format!("launcher pod created failed: {message}"),
        (_, true) => format!("creating {} {name:?} failed: {message}", kind.as_str()),
        (_, false) => format!("changing {} {name:?} failed: {message}", kind.as_str()),
    };
    warning(REASON_FAILED, text)
}

fn normal(reason: &str, message: String) -> Notice {
    Notice { warning: false, reason: reason.to_owned(), message }
}

fn warning(reason: &str, message: String) -> Notice {
    Notice { warning: true, reason: reason.to_owned(), message }
}

/// Cuts a message to the maximum length of an event, as upstream does, but never inside a character.
fn shortened(message: &str) -> String {
    if message.len() <= EVENT_MESSAGE_LIMIT_BYTES {
        return message.to_owned();
    }
    let mut end = EVENT_MESSAGE_LIMIT_BYTES - "...".len();
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}...", &message[..end])
}
