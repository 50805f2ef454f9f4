//! Jobs and pods for the tests of progress.

use api::LABEL_JOB_ROLE;
use k8s_openapi::api::core::v1::Pod;
use kube::api::DynamicObject;
use serde_json::json;

pub(super) fn job(status: serde_json::Value) -> DynamicObject {
    serde_json::from_value(
        json!({"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": "pi"},
        "spec": {"mpiReplicaSpecs": {"Worker": {"replicas": 2, "template": {"spec": {"containers": []}}}}},
        "status": status}),
    )
    .unwrap()
}

pub(super) fn pod(name: &str, role: &str, status: serde_json::Value) -> (String, Pod) {
    let pod = json!({"metadata": {"name": name, "labels": {LABEL_JOB_ROLE: role}},
        "spec": {"containers": [], "nodeName": status.get("phase").map(|_| "node")}, "status": status});
    (name.to_owned(), serde_json::from_value(pod).unwrap())
}

pub(super) fn ready() -> serde_json::Value {
    json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{"name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 0, "state": {"running": {}}}]})
}
