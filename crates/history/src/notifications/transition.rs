//! What notifications are about: transitions of jobs, and which of them a rule is about.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::alerts::Condition;

/// The kind and the phase of a test delivery.
pub const TEST: &str = "Test";

/// Which transitions a rule is about. An empty list matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Transitions {
    /// The new phase is one of these.
    #[serde(default)]
    pub phases: Vec<String>,
    /// The new reason is one of these.
    #[serde(default)]
    pub reasons: Vec<String>,
    /// The new cause is one of these.
    #[serde(default)]
    pub causes: Vec<String>,
}

impl Transitions {
    /// Whether they include a transition.
    #[must_use]
    pub fn include(&self, transition: &Transition) -> bool {
        let one_of = |list: &[String], value: Option<&str>| {
            list.is_empty() || value.is_some_and(|value| list.iter().any(|other| other == value))
        };
        one_of(&self.phases, Some(&transition.phase))
            && one_of(&self.reasons, transition.reason.as_deref())
            && one_of(&self.causes, transition.cause.as_deref())
    }
}

/// A job has entered another phase, reason or cause, or a rule's condition has begun to hold for a job or a quota. Its JSON
/// is the body of a webhook.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Transition {
    /// The job's uid.
    pub uid: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The resourceVersion.
    pub version: i64,
    /// When.
    pub at: Timestamp,
    /// The phase before, if there was one.
    pub from: Option<String>,
    /// The state as every interface shows it; empty in deliveries of an earlier version.
    #[serde(default)]
    pub state: String,
    /// The phase.
    pub phase: String,
    /// The reason.
    pub reason: Option<String>,
    /// The cause.
    pub cause: Option<String>,
    /// The message for people.
    pub message: Option<String>,
    /// The number of the attempt.
    pub attempt: u32,
    /// The condition that has begun to hold, if this is not a transition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<Condition>,
}
