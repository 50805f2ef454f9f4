//! The number of an attempt, on the job and on what is made for it, and `status.attempts`: the outcome of each attempt. The number is the annotation's; suspending and resuming
//! a job does not start a new attempt.

use api::{ANNOTATION_ATTEMPT, Attempt, AttemptOutcome, Failure, MPIJobStatus, Phase};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use crate::validate::ValidJob;

/// The maximum number of attempts listed; the records `<job>-attempt-<n>` outlive the list.
const MOST_ATTEMPTS: usize = 10;

/// Updates the entry of the current attempt from the rest of the status, which is complete at this point.
pub(crate) fn report_attempt(job: &ValidJob, status: &mut MPIJobStatus) {
    let Some(start_time) = status.start_time.clone() else { return };
    let number = i32::try_from(job.attempt).unwrap_or(i32::MAX);
    if number > 1 && status.attempts.iter().all(|known| known.number != number) {
        // What the program of the previous attempt reported says nothing about this one.
        status.trainer_status = None;
    }
    let outcome = match status.phase {
        _ if status.completion_time.is_none() => AttemptOutcome::Active,
        Some(Phase::Succeeded) => AttemptOutcome::Succeeded,
        Some(Phase::Failed) => AttemptOutcome::Failed,
        Some(Phase::Pending | Phase::Running) | None => AttemptOutcome::Active,
    };
    let failure = status.failure.as_ref().filter(|_| outcome == AttemptOutcome::Failed);
    let launcher = status.replica_statuses.get(api::LAUNCHER);
    let attempt = Attempt {
        number,
        outcome,
        reason: failure.map(|failure| failure.reason.clone()),
        message: failure.map(|failure| failure.message.clone()),
        exit_code: failure.and_then(|failure| failure.exit_code),
        launcher_failures: launcher.and_then(|launcher| launcher.failed),
        start_time: Some(start_time),
        completion_time: status.completion_time.clone(),
    };
    keep(status, attempt);
}

/// Closes the entry of the current attempt before the next one. An entry that is closed already stays as it is.
pub(crate) fn end_attempt(job: &ValidJob, failure: &Failure, ended: Time, status: &mut MPIJobStatus) {
    let number = i32::try_from(job.attempt).unwrap_or(i32::MAX);
    let known = status.attempts.iter().find(|attempt| attempt.number == number);
    if known.is_some_and(|known| known.outcome == AttemptOutcome::Failed) {
        return;
    }
    let attempt = Attempt {
        number,
        outcome: AttemptOutcome::Failed,
        reason: Some(failure.reason.clone()),
        message: Some(failure.message.clone()),
        exit_code: failure.exit_code,
        launcher_failures: known.and_then(|known| known.launcher_failures),
        start_time: known.and_then(|known| known.start_time.clone()).or_else(|| status.start_time.clone()),
        completion_time: Some(ended),
    };
    keep(status, attempt);
}

fn keep(status: &mut MPIJobStatus, mut attempt: Attempt) {
    let number = attempt.number;
    if let Some(known) = status.attempts.iter_mut().find(|attempt| attempt.number == number) {
        // A Job that was removed after its end no longer has its count.
        attempt.launcher_failures = attempt.launcher_failures.max(known.launcher_failures);
        *known = attempt;
        return;
    }
    status.attempts.push(attempt);
    let surplus = status.attempts.len().saturating_sub(MOST_ATTEMPTS);
    status.attempts.drain(..surplus);
}

/// Returns the attempt that an object was made for.
#[must_use]
pub fn attempt_of(metadata: &ObjectMeta) -> u32 {
    let annotations = metadata.annotations.as_ref();
    let number = annotations.and_then(|all| all.get(ANNOTATION_ATTEMPT)?.parse::<u32>().ok());
    number.unwrap_or_default().max(1)
}

/// Marks an object as made for the job's attempt.
pub(crate) fn mark(job: &ValidJob, metadata: &mut ObjectMeta) {
    if job.attempt > 1 {
        let annotations = metadata.annotations.get_or_insert_default();
        annotations.insert(ANNOTATION_ATTEMPT.to_owned(), job.attempt.to_string());
    }
}
