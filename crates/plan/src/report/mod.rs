//! Turns what was observed and decided into the status to write and the events to record. Conditions, reasons and
//! messages are upstream's (`updateMPIJobStatus` in `pkg/controller/mpi_job_controller.go`); generation, phase, Worker
//! counts and the failure are additions. It writes nothing and repeats nothing: equal input gives an equal status, and
//! an event is returned only when its content is new.

mod counts;
mod faults;
mod launcher_end;
mod waiting;

use api::{
    CONDITION_CREATED, CONDITION_FAILED, CONDITION_LIMITS_NOT_ENFORCED, CONDITION_RESTARTING,
    CONDITION_RUNNING, CONDITION_SUCCEEDED, CONDITION_SUSPENDED, EVENT_MESSAGE_LIMIT_BYTES, Failure,
    LAUNCHER, MPIJobStatus, PHASE_REASON_INITIALIZING, PHASE_REASON_QUEUED, PHASE_REASON_RESTARTING,
    PHASE_REASON_SUSPENDED, Phase, REASON_CREATED, REASON_FAILED, REASON_NO_CGROUPS, REASON_PLAIN_MODE,
    REASON_RESOURCE_EXISTS, REASON_RESTARTING, REASON_RESUMED, REASON_RUNNING, REASON_SUSPENDED,
    REASON_TEMPLATE_RESTART_POLICY, REASON_VALIDATION, ReplicaStatus, WORKER,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use semantics::is_deleted;
use semantics::kept::condition_since;
use semantics::local_nodes::{ANNOTATION_NODE_MODE, PLAIN_MODE};

use crate::attempts::{end_attempt, report_attempt};
use crate::change::{ChildKind, JobChange};
use crate::conditions::{condition, end_last, is_finished, is_true, set_condition};
use crate::kept::Pod;
use crate::notice::{Applied, ApplyFailure, Notice, Report};
use crate::objects::record;
use crate::observed::{ObservedState, is_running};
use crate::outlook::{AttemptFailure, Outlook};
use crate::planning::{Plan, after_failures, was_ended_early, was_refused};
use crate::stall::report_stall;
use crate::startup::report_startup;
use crate::time::whole_seconds;
use crate::validate::{CleanPods, ValidJob};
use counts::{count, count_workers, launcher_counts, launcher_progress, worker_progress};
pub use faults::reject;
use faults::report_faults;
use launcher_end::report_launcher_end;
use waiting::report_waiting;

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
