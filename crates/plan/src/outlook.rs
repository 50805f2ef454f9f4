//! The state that a job is in after a plan.

use api::Failure;
use jiff::Timestamp;

/// The state of a job.
#[derive(Clone, Debug, PartialEq)]
pub enum Outlook {
    /// It had ended before; only cleanup remains.
    Finished,
    /// It has outlived its `ttlSecondsAfterFinished` and is to be deleted.
    Expired,
    /// It is suspended.
    Suspended,
    /// Its pods are being created, or run.
    Active,
    /// The Launcher's Job has ended, successfully or not.
    LauncherEnded,
    /// It cannot go on.
    Failed(Box<AttemptFailure>),
    /// This attempt cannot go on, and another follows.
    Restarting(Box<AttemptFailure>),
    /// Remains of an earlier attempt are being deleted; then this attempt begins.
    Clearing,
}

/// Why a job, or an attempt at it, cannot go on.
#[derive(Clone, Debug, PartialEq)]
pub struct AttemptFailure {
    /// The reason of the condition Failed.
    pub reason: String,
    /// Its message.
    pub message: String,
    /// The failure as reported in `status.failure`.
    pub failure: Failure,
    /// When the failure was decided, if before this pass.
    pub since: Option<Timestamp>,
}

impl AttemptFailure {
    /// A failure decided in this pass; the condition has its message.
    pub(crate) fn now(reason: &str, failure: Failure) -> Self {
        Self { reason: reason.to_owned(), message: failure.message.clone(), failure, since: None }
    }
}
