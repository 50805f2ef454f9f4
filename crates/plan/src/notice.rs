//! What came of a plan, and what a pass then reports: a status, events, the record of a failed attempt.

use api::MPIJobStatus;
use k8s_openapi::api::core::v1::ConfigMap;

use crate::change::{ChildKind, JobChange};
use crate::observed::LauncherRun;

/// What a pass reports, in the order in which it is written: a pass that is cut off in between is repeated, so each part
/// does no harm without those after it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// The record of the attempt, if it has failed in this pass.
    pub record: Option<Box<ConfigMap>>,
    /// The events to record, in order.
    pub notices: Vec<Notice>,
    /// The whole new status.
    pub status: MPIJobStatus,
    /// What then happens to the job itself.
    pub then: Option<JobChange>,
}

/// An event about the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Whether it is a Warning; else it is Normal.
    pub warning: bool,
    /// The reason, one CamelCase word.
    pub reason: String,
    /// The message for people.
    pub message: String,
}

/// What came of a plan when it was carried out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Applied {
    /// The changes that could not be made.
    pub failures: Vec<ApplyFailure>,
    /// The end of the output that [`Plan::last_words`](crate::Plan::last_words) asked for.
    pub last_words: Option<LauncherRun>,
}

/// A change that could not be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApplyFailure {
    /// The object's kind.
    pub kind: ChildKind,
    /// The object's name.
    pub name: String,
    /// Whether an object of that name exists that the job does not control.
    pub foreign: bool,
    /// Whether the object was to be created.
    pub creating: bool,
    /// Whether the server will never accept the object unless its content changes.
    pub invalid: bool,
    /// The server's message.
    pub message: String,
}
