//! Which pods wait for a node, and in which order they are placed. Pure.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::membership::{Engine, Membership};
use super::place::nominated_node;
use super::snapshot::node_name;
use semantics::has_ended;

/// The `spec.schedulerName` that this scheduler always handles; also the API's default.
pub const OWN_NAME: &str = "default-scheduler";

/// Returns the scheduler of a pod by its `spec.schedulerName`. `Ok(None)` is always this scheduler. An engine's pods
/// are handled if that engine's PodGroup is served. `Err` means another scheduler.
pub fn scheduler_of(pod: &Pod) -> Result<Option<Engine>, ()> {
    match pod.spec.as_ref().and_then(|s| s.scheduler_name.as_deref()).unwrap_or(OWN_NAME) {
        OWN_NAME => Ok(None),
        name => Engine::ALL.into_iter().find(|e| e.scheduler_names().contains(&name)).map(Some).ok_or(()),
    }
}

/// Returns whether this scheduler may handle the pod and the pod has no node yet.
pub fn is_waiting(pod: &Pod) -> bool {
    scheduler_of(pod).is_ok()
        && node_name(pod).is_none()
        && pod.metadata.deletion_timestamp.is_none()
        && !has_ended(pod)
}

/// Returns whether scheduling gates block the pod (`spec.schedulingGates`).
pub fn is_gated(pod: &Pod) -> bool {
    pod.spec.as_ref().and_then(|s| s.scheduling_gates.as_ref()).is_some_and(|gates| !gates.is_empty())
}

/// Returns `spec.priority`, which admission sets from the PriorityClass.
pub fn priority(pod: &Pod) -> i32 {
    pod.spec.as_ref().and_then(|s| s.priority).unwrap_or(0)
}

/// Sorts by priority (highest first), then pods with a nominated node first, then by age (oldest first), then by name.
pub fn sort(pods: &mut [Arc<Pod>]) {
    pods.sort_by_cached_key(|pod| {
        let meta = &pod.metadata;
        let created = meta.creation_timestamp.as_ref().map(|t| t.0);
        let rank = std::cmp::Reverse(priority(pod));
        (rank, nominated_node(pod).is_none(), created, meta.namespace.clone(), meta.name.clone())
    });
}

/// Pods that are placed together or not at all.
#[derive(Debug)]
pub struct Unit {
    /// `None` for a pod without a gang.
    pub gang: Option<Membership>,
    /// At least one pod, in order.
    pub pods: Vec<Arc<Pod>>,
}

/// Groups the pods of a gang at the position of its first pod, and otherwise keeps the order. `membership` returns a
/// pod's gang, if it counts.
pub fn units(pods: Vec<Arc<Pod>>, membership: impl Fn(&Pod) -> Option<Membership>) -> Vec<Unit> {
    let mut units: Vec<Unit> = Vec::new();
    let mut places = std::collections::BTreeMap::new();
    for pod in pods {
        let gang = membership(&pod);
        match gang.as_ref().and_then(|gang| places.get(gang)) {
            Some(&place) => {
                let unit: &mut Unit = &mut units[place];
                unit.pods.push(pod);
            }
            None => {
                if let Some(gang) = &gang {
                    places.insert(gang.clone(), units.len());
                }
                units.push(Unit { gang, pods: vec![pod] });
            }
        }
    }
    units
}
