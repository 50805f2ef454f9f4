//! The list of conditions, maintained exactly as upstream does (`kubeflow/mpi-operator`,
//! `pkg/controller/mpi_job_controller_status.go`): a condition whose status and reason do not change is left alone, a
//! changed one moves to the end, and the end of a job sets Running and Failed to False. Then the condition that says how it
//! ended stays the last one.

use api::{
    CONDITION_FAILED, CONDITION_RESTARTING, CONDITION_RUNNING, CONDITION_SUCCEEDED, JobCondition,
    MPIJobStatus, REASON_RUNNING,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// Returns the condition of this type.
#[must_use]
pub fn condition<'a>(status: &'a MPIJobStatus, type_: &str) -> Option<&'a JobCondition> {
    status.conditions.iter().find(|condition| condition.type_ == type_)
}

/// Whether the condition of this type is True.
#[must_use]
pub fn is_true(status: &MPIJobStatus, type_: &str) -> bool {
    condition(status, type_).is_some_and(|condition| condition.status == "True")
}

/// Whether the job has ended, successfully or not.
pub(crate) fn is_finished(status: &MPIJobStatus) -> bool {
    is_true(status, CONDITION_SUCCEEDED) || is_true(status, CONDITION_FAILED)
}

/// Sets a condition; returns whether anything changed.
pub(crate) fn set_condition(
    status: &mut MPIJobStatus,
    type_: &str,
    value: bool,
    reason: &str,
    message: String,
    now: Timestamp,
) -> bool {
    let value = if value { "True" } else { "False" };
    let current = condition(status, type_);
    if current.is_some_and(|current| current.status == value && current.reason.as_deref() == Some(reason)) {
        return false;
    }
    let since = current
        .filter(|current| current.status == value)
        .and_then(|current| current.last_transition_time.clone())
        .unwrap_or(Time(now));
    let ends = value == "True" && (type_ == CONDITION_FAILED || type_ == CONDITION_SUCCEEDED);
    status.conditions.retain(|other| !is_replaced(&other.type_, type_));
    if ends {
        for other in &mut status.conditions {
            if [CONDITION_RUNNING, CONDITION_FAILED, CONDITION_RESTARTING].contains(&other.type_.as_str()) {
                "False".clone_into(&mut other.status);
            }
        }
    }
    status.conditions.push(JobCondition {
        type_: type_.to_owned(),
        status: value.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_update_time: Some(Time(now)),
        last_transition_time: Some(since),
    });
    true
}

/// Moves the condition that says how the job ended to the end of the list: clients for Kubeflow's jobs take the last one for
/// the current one, whatever was set after it.
pub(crate) fn end_last(status: &mut MPIJobStatus) {
    let ends = |condition: &JobCondition| {
        [CONDITION_SUCCEEDED, CONDITION_FAILED].contains(&&*condition.type_) && condition.status == "True"
    };
    if let Some(place) = status.conditions.iter().rposition(ends) {
        let end = status.conditions.remove(place);
        status.conditions.push(end);
    }
}

/// Running and Restarting exclude each other.
fn is_replaced(existing: &str, new: &str) -> bool {
    existing == new
        || (existing == CONDITION_RUNNING && new == CONDITION_RESTARTING)
        || (existing == CONDITION_RESTARTING && new == CONDITION_RUNNING)
}

/// Whether the job has been Running since it was last released, now or earlier.
pub(crate) fn has_run(status: &MPIJobStatus) -> bool {
    condition(status, CONDITION_RUNNING)
        .is_some_and(|running| running.reason.as_deref() == Some(REASON_RUNNING))
}
