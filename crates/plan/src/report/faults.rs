//! Reports what is invalid: of a job that cannot be run, of one that is held back anyway, and of one that has begun.

use api::{
    CONDITION_FAILED, CONDITION_INVALID, Failure, LABEL_QUEUE_NAME, MPIJob, Phase, REASON_CORRECTED,
    REASON_VALIDATION, Waiting,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{pending_reason, shortened, warning};
use crate::conditions::{condition, is_finished, is_true, set_condition};
use crate::notice::Report;
use crate::time::whole_seconds;
use crate::validate::{Fault, ValidJob};

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
pub(super) fn invalid(faults: &[Fault], now: Timestamp) -> Waiting {
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
pub(super) fn report_faults(job: &ValidJob, report: &mut Report, now: Timestamp) {
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
