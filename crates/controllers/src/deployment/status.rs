//! A Deployment's status: counts and conditions, with its progress. Pure.
//!
//! Rules: `pkg/controller/deployment/{progress,sync}.go` of Kubernetes 1.36.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;

use super::decide::newest;

/// Returns the new status, and when to compute it again.
pub fn status(
    deployment: &Deployment,
    sets: &[Arc<ReplicaSet>],
    now: Timestamp,
) -> (DeploymentStatus, Option<Duration>) {
    let before = deployment.status.clone().unwrap_or_default();
    let spec = deployment.spec.clone().unwrap_or_default();
    let wanted = spec.replicas.unwrap_or(1);
    let new = newest(deployment, sets);
    let of = |set: &ReplicaSet| set.status.clone().unwrap_or_default();
    let total = |of: &dyn Fn(&ReplicaSet) -> i32| sets.iter().map(|set| of(set)).fold(0, i32::saturating_add);
    let (replicas, ready, available) = (
        total(&|set| of(set).replicas),
        total(&|set| of(set).ready_replicas.unwrap_or(0)),
        total(&|set| of(set).available_replicas.unwrap_or(0)),
    );
    let updated = new.map_or(0, |set| of(set).replicas);
    let asked = total(&super::decide::size);
    let mut after = DeploymentStatus {
        observed_generation: deployment.metadata.generation,
        replicas: some(replicas),
        updated_replicas: some(updated),
        ready_replicas: some(ready),
        available_replicas: some(available),
        unavailable_replicas: some(asked.saturating_sub(available).max(0)),
        ..before.clone()
    };
    let mut conditions = before.conditions.clone().unwrap_or_default();
    let unavailable = super::decide::may_be_unavailable(&spec, wanted);
    let available_now = if available >= wanted.saturating_sub(unavailable) {
        ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.".to_owned())
    } else {
        ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.".to_owned())
    };
    put(&mut conditions, "Available", available_now, now);
    let complete = updated == wanted && replicas == wanted && available == wanted;
    let moved = (before.updated_replicas, before.ready_replicas, before.available_replicas, before.replicas)
        != (after.updated_replicas, after.ready_replicas, after.available_replicas, after.replicas);
    let name = new.map_or_else(|| deployment.name_any(), |set| set.name_any());
    let mut again = None;
    if complete {
        let text = format!("ReplicaSet \"{name}\" has successfully progressed.");
        put(&mut conditions, "Progressing", ("True", "NewReplicaSetAvailable", text), now);
    } else {
        let deadline = spec.progress_deadline_seconds.unwrap_or(600);
        again = progress(&mut conditions, &name, new.is_none(), moved, deadline, now);
    }
    after.conditions = Some(conditions);
    (after, again)
}

/// Updates the condition `Progressing` of a roll-out. Its last update time is the time of the last progress; if that is
/// too long ago, the roll-out has failed. Returns when to check again.
fn progress(
    conditions: &mut Vec<DeploymentCondition>,
    name: &str,
    is_first: bool,
    moved: bool,
    deadline: i32,
    now: Timestamp,
) -> Option<Duration> {
    let last = conditions.iter().find(|c| c.type_ == "Progressing").cloned();
    let (reason, text) = if is_first {
        ("NewReplicaSetCreated", format!("Created new replica set \"{name}\""))
    } else {
        ("ReplicaSetUpdated", format!("ReplicaSet \"{name}\" is progressing."))
    };
    let since = last.as_ref().and_then(|c| c.last_update_time.as_ref()).map(|time| time.0);
    let done = last.as_ref().is_some_and(|c| c.reason.as_deref() == Some("NewReplicaSetAvailable"));
    if moved || done || since.is_none() {
        conditions.retain(|c| c.type_ != "Progressing" || c.status == "True");
        put(conditions, "Progressing", ("True", reason, text), now);
        if let Some(condition) = conditions.iter_mut().find(|c| c.type_ == "Progressing") {
            condition.last_update_time = Some(Time(now));
        }
        return Some(Duration::from_secs(deadline.unsigned_abs().into()));
    }
    let ends = since.and_then(|at| at.checked_add(SignedDuration::from_secs(deadline.into())).ok())?;
    if now >= ends {
        let text = format!("ReplicaSet \"{name}\" has timed out progressing.");
        put(conditions, "Progressing", ("False", "ProgressDeadlineExceeded", text), now);
        return None;
    }
    Duration::try_from(ends.duration_since(now)).ok()
}

fn put(
    conditions: &mut Vec<DeploymentCondition>,
    kind: &str,
    (status, reason, message): (&str, &str, String),
    now: Timestamp,
) {
    let known = conditions.iter().position(|c| c.type_ == kind);
    if known
        .is_some_and(|at| conditions[at].status == status && conditions[at].reason.as_deref() == Some(reason))
    {
        return;
    }
    let since = known.map(|at| conditions.remove(at)).filter(|c| c.status == status);
    conditions.push(DeploymentCondition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_update_time: Some(Time(now)),
        last_transition_time: since.and_then(|c| c.last_transition_time).or(Some(Time(now))),
    });
}

fn some(number: i32) -> Option<i32> {
    Some(number).filter(|number| *number != 0)
}
