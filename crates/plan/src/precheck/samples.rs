//! Jobs, nodes and pods for the tests of what would block a job.

use api::MPIJob;
use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};

use super::{Room, precheck};
use crate::asked::Asked;
use crate::capacity::Capacity;

pub(super) const NOW: &str = "2026-01-01T12:00:00Z";

pub(super) fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

pub(super) fn job(workers: i32, gpus: &str, status: Value) -> MPIJob {
    read(json!({"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
        "metadata": {"name": "a", "namespace": "team-cv"},
        "spec": {"mpiReplicaSpecs": {
            "Launcher": {"template": {"spec": {"containers": [{"name": "l", "image": "i"}]}}},
            "Worker": {"replicas": workers, "template": {"spec": {"containers": [{"name": "w", "image": "i",
                "resources": {"limits": {"nvidia.com/gpu": gpus, "memory": "8Gi"}}}]}}}}},
        "status": status}))
}

pub(super) fn node(name: &str, gpus: &str) -> Node {
    read(json!({"metadata": {"name": name}, "status": {
        "allocatable": {"nvidia.com/gpu": gpus, "memory": "64Gi", "cpu": "16", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}]}}))
}

pub(super) fn holder(node: &str, gpus: &str) -> Pod {
    read(json!({"metadata": {"name": "p"}, "spec": {"nodeName": node, "containers": [
        {"name": "c", "resources": {"limits": {"nvidia.com/gpu": gpus}}}]}}))
}

/// Two nodes of eight GPUs each, with these pods on them.
pub(super) fn capacity(pods: &[Pod]) -> Option<Capacity> {
    let mut capacity = Capacity::default();
    capacity.add_nodes(vec![node("a", "8"), node("b", "8")]);
    capacity.add_pods(pods);
    Some(capacity)
}

pub(super) fn told(job: &MPIJob, room: &Room) -> Vec<String> {
    let found = precheck(&Asked::of(job), "team-cv", room, NOW.parse().unwrap());
    found.into_iter().map(|finding| finding.message).collect()
}
