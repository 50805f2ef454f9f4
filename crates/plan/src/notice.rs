//! What a pass reports: a status, events, and the changes that failed.

use api::MPIJobStatus;

use crate::change::ChildKind;

/// A status to write and events to record.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// The whole new status.
    pub status: MPIJobStatus,
    /// The events to record, in order.
    pub notices: Vec<Notice>,
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
