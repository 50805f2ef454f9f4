//! What ReplicaSets and ReplicationControllers have in common: replicas, selector, template and counts.

use std::fmt::Debug;

use jiff::Timestamp;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetStatus};
use k8s_openapi::api::core::v1::{
    PodTemplateSpec, ReplicationController, ReplicationControllerCondition, ReplicationControllerStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use kube::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The condition of a set whose pods could not be created or deleted.
const FAILURE: &str = "ReplicaFailure";

/// The desired state of a set.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// The number of pods.
    pub replicas: i32,
    /// Selects its pods; if `None`, it has no pods.
    pub selector: Option<LabelSelector>,
    /// The template of new pods.
    pub template: PodTemplateSpec,
    /// Seconds for which a pod must be ready before it counts as available.
    pub min_ready_seconds: i32,
}

/// The observed state of a set, as its status reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Pods that have not ended and are not being deleted.
    pub replicas: i32,
    /// Of these, pods with every label of the template.
    pub fully_labeled: i32,
    /// Of these, ready pods.
    pub ready: i32,
    /// Of these, pods that have been ready for long enough.
    pub available: i32,
    /// Why the last creation or deletion failed: reason and message.
    pub failure: Option<(&'static str, String)>,
}

/// A kind that maintains a number of pods.
pub trait Replicated:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + Debug
    + DeserializeOwned
    + Serialize
    + Send
    + Sync
    + 'static
{
    /// Its `kind` in an owner reference.
    const KIND: &str;

    /// Returns its desired state.
    fn wanted(&self) -> Wanted;

    /// Returns the object with its status updated; `None` if the status does not change.
    fn with(&self, counts: &Counts, now: Timestamp) -> Option<Self>;
}

impl Replicated for ReplicaSet {
    const KIND: &str = "ReplicaSet";

    fn wanted(&self) -> Wanted {
        let Some(spec) = &self.spec else { return Wanted::default() };
        Wanted {
            replicas: spec.replicas.unwrap_or(1),
            selector: Some(spec.selector.clone()),
            template: spec.template.clone().unwrap_or_default(),
            min_ready_seconds: spec.min_ready_seconds.unwrap_or(0),
        }
    }

    fn with(&self, counts: &Counts, now: Timestamp) -> Option<Self> {
        let before = self.status.clone().unwrap_or_default();
        let conditions = with_failure(
            before.conditions.clone(),
            counts,
            |condition| &condition.type_,
            |reason, message| ReplicaSetCondition {
                type_: FAILURE.to_owned(),
                status: "True".to_owned(),
                reason: Some(reason),
                message: Some(message),
                last_transition_time: Some(Time(now)),
            },
        );
        let after = ReplicaSetStatus {
            replicas: counts.replicas,
            fully_labeled_replicas: some(counts.fully_labeled),
            ready_replicas: some(counts.ready),
            available_replicas: some(counts.available),
            observed_generation: self.metadata.generation,
            conditions,
            ..before.clone()
        };
        (Some(&after) != self.status.as_ref()).then(|| Self { status: Some(after), ..self.clone() })
    }
}

impl Replicated for ReplicationController {
    const KIND: &str = "ReplicationController";

    fn wanted(&self) -> Wanted {
        let Some(spec) = &self.spec else { return Wanted::default() };
        let labels = spec.selector.clone().filter(|labels| !labels.is_empty());
        Wanted {
            replicas: spec.replicas.unwrap_or(1),
            selector: labels
                .map(|labels| LabelSelector { match_labels: Some(labels), match_expressions: None }),
            template: spec.template.clone().unwrap_or_default(),
            min_ready_seconds: spec.min_ready_seconds.unwrap_or(0),
        }
    }

    fn with(&self, counts: &Counts, now: Timestamp) -> Option<Self> {
        let before = self.status.clone().unwrap_or_default();
        let conditions = with_failure(
            before.conditions.clone(),
            counts,
            |condition| &condition.type_,
            |reason, message| ReplicationControllerCondition {
                type_: FAILURE.to_owned(),
                status: "True".to_owned(),
                reason: Some(reason),
                message: Some(message),
                last_transition_time: Some(Time(now)),
            },
        );
        let after = ReplicationControllerStatus {
            replicas: counts.replicas,
            fully_labeled_replicas: some(counts.fully_labeled),
            ready_replicas: some(counts.ready),
            available_replicas: some(counts.available),
            observed_generation: self.metadata.generation,
            conditions,
        };
        (Some(&after) != self.status.as_ref()).then(|| Self { status: Some(after), ..self.clone() })
    }
}

/// Returns the conditions with ReplicaFailure as in the counts. An existing one keeps its time. Returns `None` if there
/// are none.
fn with_failure<C>(
    before: Option<Vec<C>>,
    counts: &Counts,
    type_of: impl Fn(&C) -> &str,
    make: impl FnOnce(String, String) -> C,
) -> Option<Vec<C>> {
    let mut conditions = before.unwrap_or_default();
    let known = conditions.iter().any(|condition| type_of(condition) == FAILURE && counts.failure.is_some());
    if !known {
        conditions.retain(|condition| type_of(condition) != FAILURE);
        let failure = counts.failure.as_ref();
        conditions.extend(failure.map(|(reason, message)| make((*reason).to_owned(), message.clone())));
    }
    Some(conditions).filter(|all| !all.is_empty())
}

/// Returns `None` for zero.
fn some(number: i32) -> Option<i32> {
    Some(number).filter(|number| *number != 0)
}
