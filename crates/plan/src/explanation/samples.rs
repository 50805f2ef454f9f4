//! Jobs and pods for the tests of explanations.

use api::MPIJob;
use serde_json::{Value, json};

use super::{Explanation, Situation, Told, explain};
use crate::kept::Pod;
use diagnosis::Gpus;

pub(super) fn job(status: Value, policy: Value) -> MPIJob {
    let template = json!({ "template": { "spec": { "containers": [{ "name": "main" }] } } });
    let mut worker = template.clone();
    worker["replicas"] = json!(2);
    let job = json!({ "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
        "metadata": { "name": "pi", "labels": { "kueue.x-k8s.io/queue-name": "gpus" } },
        "spec": { "runPolicy": policy, "mpiReplicaSpecs": { "Launcher": template, "Worker": worker } },
        "status": status });
    serde_json::from_value(job).unwrap()
}

pub(super) fn pod(name: &str, status: Value) -> Pod {
    serde_json::from_value(json!({ "metadata": { "name": name, "creationTimestamp": "2026-01-01T00:00:00Z" },
        "spec": { "containers": [{ "name": "main" }] }, "status": status }))
    .unwrap()
}

pub(super) fn unscheduled(message: &str) -> Value {
    json!({ "phase": "Pending", "conditions": [{ "type": "PodScheduled", "status": "False",
        "reason": "Unschedulable", "message": message }] })
}

pub(super) fn waiting(reason: &str, message: &str) -> Value {
    json!({ "phase": "Pending",
        "conditions": [{ "type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:03Z" }],
        "containerStatuses": [{ "name": "main", "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": { "waiting": { "reason": reason, "message": message } } }] })
}

pub(super) fn up(ready: &str) -> Value {
    json!({ "phase": "Running",
        "conditions": [{ "type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:03Z" },
            { "type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:09Z" }],
        "containerStatuses": [{ "name": "main", "image": "", "imageID": "", "ready": true, "restartCount": 0,
            "state": { "running": { "startedAt": "2026-01-01T00:00:07Z" } } }] })
}

pub(super) fn told(
    pods: &[Pod],
    events: &[Told],
    gpus: Option<Gpus>,
    has_printed: Option<bool>,
) -> Explanation {
    let job = job(json!({ "phase": "Pending", "phaseReason": "Initializing" }), json!({}));
    explain(&Situation { pods, events, gpus, has_printed, ..alone(&job) })
}

/// A job about which nothing else is known.
pub(super) fn alone(job: &MPIJob) -> Situation<'_> {
    Situation {
        job,
        kind: "MPIJob",
        pods: &[],
        events: &[],
        gpus: None,
        has_printed: None,
        unmapped_images: &[],
        crash_log: None,
        place: None,
    }
}
