//! Turns what was observed and decided into the status to write and the events to record. Conditions, reasons and the
//! beginnings of messages are upstream's (`kubeflow/trainer`, `pkg/controller/trainjob_controller.go`, and JobSet's); the
//! cause that follows is ours, and so is the condition Stalled, which a job has only while it is. There is no condition of a
//! job that starts or runs: Trainer's SDK takes the absence of conditions for that. `trainerStatus` has another writer and
//! is never part of what is written.

use std::collections::BTreeMap;
use std::fmt::Write;

use api::{CONDITION_STALLED, EVENT_MESSAGE_LIMIT_BYTES, Failure, JobStatus, TrainJob, TrainJobStatus};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use semantics::has_ended;

use super::job_set::Replicated;
use super::objects::{job_name, owned};
use super::observed::{COMPLETE, FAILED, JobEnd, SUSPENDED, SeenTrainJob, end_of, label};
use super::planning::{DEADLINE, Ending, TrainJobOutlook, TrainJobPlan, after_failures, all_ready, probe};
use super::valid::ValidTrainJob;
use super::validate::Refusal;
use crate::change::JobChange;
use crate::failure::place;
use crate::notice::{Applied, ApplyFailure, Notice};
use crate::objects::{RecordedFailure, record_data, record_name};
use crate::stall::{Liveness, liveness, stall_notice};
use crate::time::whole_seconds;

/// Trainer's reason of an event about objects that could not be made.
const CREATION_FAILED: &str = "TrainJobResourcesCreationFailed";
/// Trainer's reason of a job whose runtime is not supported.
const NOT_SUPPORTED: &str = "TrainingRuntimeNotSupported";
/// The longest message of a condition, in bytes.
const LONGEST_MESSAGE: usize = 32768;

/// What a pass reports, in the order in which it is written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrainJobReport {
    /// The record of the attempt, if it has failed in this pass.
    pub record: Option<Box<ConfigMap>>,
    /// The events to record, in order.
    pub notices: Vec<Notice>,
    /// The new status; only conditions and `jobsStatus` are written.
    pub status: TrainJobStatus,
    /// What then happens to the job itself.
    pub then: Option<JobChange>,
}

/// Returns the status of a job after a pass, and what goes with it.
#[must_use]
pub fn report(
    job: &ValidTrainJob,
    seen: &SeenTrainJob,
    plan: &TrainJobPlan,
    applied: &Applied,
    now: Timestamp,
) -> TrainJobReport {
    let now = whole_seconds(now);
    let mut report = TrainJobReport { status: seen.status.clone(), ..TrainJobReport::default() };
    let finished = plan.outlook == TrainJobOutlook::Finished;
    let of_last = |part: &Replicated| seen.status.jobs_status.iter().find(|known| known.name == part.name);
    let counted = job.job_set.replicated.iter().map(|part| {
        let counts = count(job, seen, part);
        if finished { after_end(counts, of_last(part)) } else { counts }
    });
    // A job that had ended before it was seen here may have no counts.
    if !finished || !seen.jobs.is_empty() || !seen.status.jobs_status.is_empty() {
        report.status.jobs_status = counted.collect();
    }
    if !finished {
        report_suspension(job.suspended, &mut report, now);
    }
    let outlook = &after_failures(job, seen, &plan.outlook, &applied.failures);
    report_stall(job, seen, plan, outlook, &mut report, now);
    match outlook {
        TrainJobOutlook::Complete => {
            let message = "jobset completed successfully".to_owned();
            if set(&mut report.status, COMPLETE, true, "AllJobsCompleted", message.clone(), now) {
                report.notices.push(notice(false, "AllJobsCompleted", message));
            }
        }
        TrainJobOutlook::Failed(ending) => {
            let message = in_full(ending);
            if set(&mut report.status, FAILED, true, &ending.reason, message.clone(), now) {
                report.notices.push(notice(true, &ending.reason, message));
            }
            report.record = Some(Box::new(record(job, seen, ending, applied, now)));
        }
        TrainJobOutlook::Restarting(ending) => {
            let message = format!(
                "Attempt {} of {} failed and all Jobs are started again: {}",
                job.attempt,
                job.job_set.max_restarts.saturating_add(1),
                cause(ending)
            );
            report.notices.push(notice(true, "Restarting", message));
            report.record = Some(Box::new(record(job, seen, ending, applied, now)));
            report.then = Some(JobChange::BeginAttemptAfter(job.attempt));
        }
        TrainJobOutlook::Finished | TrainJobOutlook::Suspended | TrainJobOutlook::Active => {}
    }
    report.notices.extend(applied.failures.iter().map(creation_failed));
    report
}

/// Reports a job that cannot be run. Failed is final, so a suspended job, which a queue may hold, is only told about: it
/// fails when it is resumed without a correction.
#[must_use]
pub fn reject(job: &TrainJob, refusal: &Refusal, now: Timestamp) -> TrainJobReport {
    let now = whole_seconds(now);
    let mut report =
        TrainJobReport { status: job.status.clone().unwrap_or_default(), ..TrainJobReport::default() };
    let faults: Vec<String> = refusal.faults.iter().map(ToString::to_string).collect();
    let listed = faults.join("; ");
    if refusal.unsupported || job.spec.suspend != Some(true) {
        let reason = if refusal.unsupported { NOT_SUPPORTED } else { api::REASON_VALIDATION };
        if set(&mut report.status, FAILED, true, reason, shortened(&listed, LONGEST_MESSAGE), now) {
            report.notices.push(notice(true, reason, listed));
        }
        return report;
    }
    report_suspension(true, &mut report, now);
    report.notices.push(notice(true, api::REASON_VALIDATION, listed));
    report
}

/// Reports a job whose runtime does not exist: it may be created yet, so the job waits.
#[must_use]
pub fn without_runtime(job: &TrainJob, message: String, now: Timestamp) -> TrainJobReport {
    let mut report =
        TrainJobReport { status: job.status.clone().unwrap_or_default(), ..TrainJobReport::default() };
    report_suspension(job.spec.suspend == Some(true), &mut report, whole_seconds(now));
    report.notices.push(notice(
        true,
        CREATION_FAILED,
        format!("TrainJob resources reconciliation failed: {message}"),
    ));
    report
}

fn report_suspension(suspended: bool, report: &mut TrainJobReport, now: Timestamp) {
    let status = &mut report.status;
    let known = status.conditions.iter().find(|condition| condition.type_ == SUSPENDED);
    if suspended {
        let message = "TrainJob is suspended".to_owned();
        if set(status, SUSPENDED, true, "Suspended", message.clone(), now) {
            report.notices.push(notice(false, "Suspended", message));
        }
    } else if known.is_some_and(|known| known.status == "True") {
        let message = "TrainJob is resumed".to_owned();
        set(status, SUSPENDED, false, "Resumed", message.clone(), now);
        report.notices.push(notice(false, "Resumed", message));
    }
}

/// Sets the condition of a stalled job, and removes it from one that is not: Trainer's SDK takes a job without conditions for
/// one that runs, and kubectl shows the last condition, whatever its status.
fn report_stall(
    job: &ValidTrainJob,
    seen: &SeenTrainJob,
    plan: &TrainJobPlan,
    outlook: &TrainJobOutlook,
    report: &mut TrainJobReport,
    now: Timestamp,
) {
    let status = &mut report.status;
    let listening = seen.listening(job);
    let runs = *outlook == TrainJobOutlook::Active && listening.since.is_some();
    let found = liveness(&listening, plan.output.as_ref(), || probe(job, seen), now);
    match found.filter(|_| runs) {
        Some(Liveness::Stalled { reason, message, advice }) => {
            // The number of seconds in the message changes with every pass.
            let known = status.conditions.iter().find(|condition| condition.type_ == CONDITION_STALLED);
            if known.is_none_or(|known| known.reason != reason) {
                let text = shortened(&message, LONGEST_MESSAGE);
                set(status, CONDITION_STALLED, true, reason, text, now);
                let Notice { warning, reason, message } = stall_notice(message, advice);
                report.notices.push(notice(warning, &reason, message));
            }
        }
        // After a restart of the operator, a job stays stalled until its output has been read.
        None if runs => {}
        Some(Liveness::Alive) | None => {
            status.conditions.retain(|condition| condition.type_ != CONDITION_STALLED);
        }
    }
}

/// Sets a condition as `meta.SetStatusCondition` of `k8s.io/apimachinery` does; returns whether anything changed.
fn set(
    status: &mut TrainJobStatus,
    type_: &str,
    value: bool,
    reason: &str,
    message: String,
    now: Timestamp,
) -> bool {
    let value = if value { "True" } else { "False" };
    let Some(known) = status.conditions.iter_mut().find(|condition| condition.type_ == type_) else {
        status.conditions.push(Condition {
            type_: type_.to_owned(),
            status: value.to_owned(),
            reason: reason.to_owned(),
            message,
            last_transition_time: Time(now),
            observed_generation: None,
        });
        return true;
    };
    if known.status != value {
        value.clone_into(&mut known.status);
        known.last_transition_time = Time(now);
    } else if known.reason == reason && known.message == message {
        return false;
    }
    reason.clone_into(&mut known.reason);
    known.message = message;
    true
}

/// How many Jobs of a replicated job are in which state. A Job whose pods have not all ended is active even if it is gone
/// itself, because a queue gives away the quota of a job that has nothing active.
fn count(job: &ValidTrainJob, seen: &SeenTrainJob, part: &Replicated) -> JobStatus {
    let mut counts = JobStatus { name: part.name.clone(), ..JobStatus::default() };
    for index in 0..part.replicas {
        let name = job_name(&job.name, &part.name, index);
        let of_job = |pod: &&crate::kept::Pod| {
            label(&pod.metadata, "batch.kubernetes.io/job-name") == Some(name.as_str())
        };
        let left = seen.pods.iter().map(|pod| &**pod).filter(of_job).any(|pod| !has_ended(pod));
        let found = seen.job(job, part, index);
        match found.map(|found| (found, end_of(found))) {
            Some((_, Some(JobEnd::Succeeded))) => counts.succeeded += 1,
            Some((_, Some(JobEnd::Failed))) => counts.failed += 1,
            Some((found, None)) => {
                let active = found.status.as_ref().and_then(|status| status.active).unwrap_or(0) > 0;
                counts.ready += i32::from(all_ready(part, found));
                counts.active += i32::from(active || left);
                let suspended = found.spec.as_ref().and_then(|spec| spec.suspend) == Some(true);
                counts.suspended += i32::from(suspended);
            }
            None => counts.active += i32::from(left),
        }
    }
    counts
}

/// The counts of a job that has ended: its Jobs are deleted then, and those that had ended before still count.
fn after_end(counts: JobStatus, last: Option<&JobStatus>) -> JobStatus {
    let Some(last) = last else { return counts };
    JobStatus {
        succeeded: counts.succeeded.max(last.succeeded),
        failed: counts.failed.max(last.failed),
        ..counts
    }
}

/// The cause of a failure, where it was and what to do, as the end of a message.
fn cause(ending: &Ending) -> String {
    let Some(failure) = &ending.failure else { return ending.message.clone() };
    let mut told = failure.message.trim_end_matches('.').to_owned();
    // What the sentence says already is not said again.
    let worker = failure.worker.filter(|worker| !told.starts_with(&format!("Worker {worker} ")));
    let exit_code = failure.exit_code.filter(|code| !told.contains(&format!("exit code {code}")));
    if let Some(place) = place(&Failure { worker, exit_code, ..Failure::default() }) {
        let _ = write!(told, " ({place})");
    }
    match &failure.suggestion {
        Some(suggestion) => format!("{told}. {suggestion}"),
        None => told,
    }
}

/// Upstream's message, and the cause.
fn in_full(ending: &Ending) -> String {
    let message = match &ending.failure {
        None => ending.message.clone(),
        // Upstream's message says it all.
        Some(_) if ending.reason == DEADLINE => ending.message.clone(),
        Some(failure) => format!("{}: {}: {}", ending.message, failure.reason, cause(ending)),
    };
    shortened(&message, LONGEST_MESSAGE)
}

fn record(
    job: &ValidTrainJob,
    seen: &SeenTrainJob,
    ending: &Ending,
    applied: &Applied,
    now: Timestamp,
) -> ConfigMap {
    let none =
        Failure { reason: ending.reason.clone(), message: ending.message.clone(), ..Failure::default() };
    let failure = ending.failure.as_ref().unwrap_or(&none);
    let mut pods = seen.pods.iter().filter(|pod| pod.metadata.name == failure.pod);
    let node = pods.find_map(|pod| pod.spec.as_ref()?.node_name.as_deref());
    let run = seen.launcher_failed.as_ref().or(applied.last_words.as_ref());
    let message = in_full(ending);
    let data: BTreeMap<String, String> = record_data(&RecordedFailure {
        attempt: job.attempt,
        condition_reason: Some(&ending.reason),
        condition_message: Some(&message),
        failure,
        node,
        ended: now.to_string(),
        log: run.and_then(|run| run.log.as_deref()),
    });
    ConfigMap {
        metadata: owned(job, record_name(&job.name, job.attempt)),
        data: Some(data),
        immutable: Some(true),
        ..ConfigMap::default()
    }
}

fn creation_failed(failure: &ApplyFailure) -> Notice {
    let ApplyFailure { kind, name, foreign, creating: _, invalid: _, message } = failure;
    let why = if *foreign { "it exists and has another owner" } else { message.as_str() };
    let text = format!("TrainJob resources reconciliation failed: {} {name:?}: {why}", kind.as_str());
    notice(true, CREATION_FAILED, text)
}

fn notice(warning: bool, reason: &str, message: String) -> Notice {
    let message = shortened(&message, EVENT_MESSAGE_LIMIT_BYTES);
    Notice { warning, reason: reason.to_owned(), message }
}

/// Cuts a text to a length in bytes, but never inside a character.
fn shortened(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    format!("{}...", &text[..text.floor_char_boundary(most - "...".len())])
}
