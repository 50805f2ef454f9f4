//! A Job's conditions, with upstream's reasons and messages. Pure.
//!
//! Rules: `pkg/controller/job/job_controller.go` (`ensureJobConditionStatus`, `newCondition`) of Kubernetes 1.36.

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// Why a Job ends. Decided once, and kept in the condition `SuccessCriteriaMet` or `FailureTarget` while its pods stop.
#[derive(Clone, Debug, PartialEq)]
pub struct Ending {
    /// Whether the Job ends as Complete rather than Failed.
    pub success: bool,
    /// Condition reason.
    pub reason: String,
    /// Condition message.
    pub message: String,
}

impl Ending {
    /// Succeeds because enough pods succeeded.
    pub fn completions_reached() -> Self {
        Self::new(true, "CompletionsReached", "Reached expected number of succeeded pods")
    }

    /// Fails because too many pods failed.
    pub fn backoff_limit_exceeded() -> Self {
        Self::new(false, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    }

    /// Fails because it took too long.
    pub fn deadline_exceeded() -> Self {
        Self::new(false, "DeadlineExceeded", "Job was active longer than specified deadline")
    }

    /// Fails because of a rule of `podFailurePolicy`.
    pub fn pod_failure_policy(message: String) -> Self {
        Self::new(false, "PodFailurePolicy", &message)
    }

    /// Succeeds because of a rule of `successPolicy`.
    pub fn success_policy(rule: usize) -> Self {
        Self::new(true, "SuccessPolicy", &format!("Matched rules at index {rule}"))
    }

    fn new(success: bool, reason: &str, message: &str) -> Self {
        Self { success, reason: reason.to_owned(), message: message.to_owned() }
    }

    /// Returns the ending recorded in a Job's conditions.
    pub fn recorded(conditions: &[JobCondition]) -> Option<Self> {
        let of = |type_: &str, success: bool| {
            find_true(conditions, type_).map(|c| Self {
                success,
                reason: c.reason.clone().unwrap_or_default(),
                message: c.message.clone().unwrap_or_default(),
            })
        };
        of("FailureTarget", false).or_else(|| of("SuccessCriteriaMet", true))
    }
}

fn find_true<'a>(conditions: &'a [JobCondition], type_: &str) -> Option<&'a JobCondition> {
    conditions.iter().find(|c| c.type_ == type_ && c.status == "True")
}

/// Returns whether the Job is Complete or Failed.
pub fn is_finished(job: &Job) -> bool {
    finished_condition(job).is_some()
}

/// Returns the condition that marks the Job as Complete or Failed.
pub fn finished_condition(job: &Job) -> Option<&JobCondition> {
    let conditions = job.status.as_ref()?.conditions.as_deref()?;
    find_true(conditions, "Complete").or_else(|| find_true(conditions, "Failed"))
}

/// Sets a condition. Returns whether that changed anything. A missing condition is not added with status False.
pub fn set(
    conditions: &mut Vec<JobCondition>,
    type_: &str,
    status: bool,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> bool {
    let text = if status { "True" } else { "False" };
    let fresh = JobCondition {
        type_: type_.to_owned(),
        status: text.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_probe_time: Some(Time(now)),
        last_transition_time: Some(Time(now)),
    };
    match conditions.iter_mut().find(|c| c.type_ == type_) {
        Some(known) if known.status == text => false,
        Some(known) => {
            *known = fresh;
            true
        }
        None if !status => false,
        None => {
            conditions.push(fresh);
            true
        }
    }
}
