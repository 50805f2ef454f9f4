//! Which pods wait for a node, and who comes first. Pure.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::snapshot::{has_ended, node_name};

/// `spec.schedulerName` of the pods that are ours; also what the API puts where none is given.
pub const OWN_NAME: &str = "default-scheduler";

/// The pod is ours and has no node yet.
pub fn is_waiting(pod: &Pod) -> bool {
    let ours = pod.spec.as_ref().is_some_and(|s| s.scheduler_name.as_deref().is_none_or(|n| n == OWN_NAME));
    ours && node_name(pod).is_none() && pod.metadata.deletion_timestamp.is_none() && !has_ended(pod)
}

/// Somebody holds the pod back (`spec.schedulingGates`).
pub fn is_gated(pod: &Pod) -> bool {
    pod.spec.as_ref().and_then(|s| s.scheduling_gates.as_ref()).is_some_and(|gates| !gates.is_empty())
}

/// Higher priority first, then older first, then by name.
pub fn sort(pods: &mut [Arc<Pod>]) {
    pods.sort_by_cached_key(|pod| {
        let priority = pod.spec.as_ref().and_then(|s| s.priority).unwrap_or(0);
        let meta = &pod.metadata;
        let created = meta.creation_timestamp.as_ref().map(|t| t.0);
        (std::cmp::Reverse(priority), created, meta.namespace.clone(), meta.name.clone())
    });
}
