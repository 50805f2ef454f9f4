//! A job's row in a list, computed from the raw object by the functions that every interface shares. Pure.

use std::collections::BTreeMap;

use api::{ANNOTATION_OWNER, ANNOTATION_VOLCANO_QUEUE, MPIJobStatus};
use jiff::Timestamp;
use jobs::{Kind, view};
use k8s_openapi::api::core::v1::PodSpec;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde_json::Value;

use crate::contract::{JobRow, Progress, WorkerCounts};

/// Returns the row of a raw object.
pub fn row(object: &DynamicObject) -> JobRow {
    let row = view::row(object);
    let status = view::status(object);
    JobRow {
        workers: Some(workers(&row, &status)),
        cause: cause(&status),
        owner: object.annotations().get(ANNOTATION_OWNER).cloned().unwrap_or_default(),
        gpus: gpus(row.kind, object),
        queue: queue(object),
        progress: progress(object),
        uid: object.uid().unwrap_or_default(),
        kind: row.kind.name().to_owned(),
        namespace: row.namespace,
        name: row.name,
        phase: view::phase_name(row.phase).to_owned(),
        phase_reason: row.reason.unwrap_or_default(),
        created: time(row.created),
        started: time(row.started),
        finished: time(row.ended),
        deleting: row.deleting,
    }
}

/// Returns a job's labels.
pub fn labels(object: &DynamicObject) -> BTreeMap<String, String> {
    object.metadata.labels.clone().unwrap_or_default()
}

/// A time in RFC 3339; empty if there is none.
pub fn time(at: Option<Timestamp>) -> String {
    at.map(|at| at.to_string()).unwrap_or_default()
}

/// A count that fits a message's number.
pub fn count(number: impl TryInto<i32>) -> i32 {
    number.try_into().unwrap_or(i32::MAX)
}

fn workers(row: &view::Row, status: &MPIJobStatus) -> WorkerCounts {
    match &status.workers {
        Some(counts) => WorkerCounts {
            running: counts.running,
            pending: counts.pending,
            failed: counts.failed,
            of: counts.of,
        },
        // Another operator counts only Workers that run.
        None => WorkerCounts {
            running: row.workers_ready,
            pending: if row.finished() { 0 } else { (row.workers - row.workers_ready).max(0) },
            failed: 0,
            of: row.workers,
        },
    }
}

fn cause(status: &MPIJobStatus) -> String {
    let failed = status.failure.as_ref().map(|failure| &failure.reason);
    failed.or(status.waiting.as_ref().map(|waiting| &waiting.reason)).cloned().unwrap_or_default()
}

fn queue(object: &DynamicObject) -> String {
    let text = |pointer: &str| object.data.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let kueue = object.labels().get(api::LABEL_QUEUE_NAME).cloned();
    kueue
        .or_else(|| text("/spec/runPolicy/schedulingPolicy/queue"))
        .or_else(|| object.annotations().get(ANNOTATION_VOLCANO_QUEUE).cloned())
        .unwrap_or_default()
}

/// The GPUs that all pods of a job request.
fn gpus(kind: Kind, object: &DynamicObject) -> i32 {
    let Some(field) = kind.replicas_field() else {
        let each = object.data.pointer("/spec/trainer/resourcesPerNode");
        let resources = each
            .cloned()
            .map(|each| serde_json::json!({ "containers": [{ "name": "", "resources": each }] }));
        let pod: Option<PodSpec> = resources.and_then(|pod| serde_json::from_value(pod).ok());
        let each = pod.map_or(0, |pod| plan::gpus_of(&pod));
        return count(each.saturating_mul(u64::try_from(kind.workers(object)).unwrap_or(0)));
    };
    let roles = object.data.pointer(&format!("/spec/{field}")).and_then(Value::as_object);
    let of = |role: &Value| {
        let pod: PodSpec = serde_json::from_value(role.pointer("/template/spec")?.clone()).ok()?;
        let replicas = role.get("replicas").map_or(Some(1), Value::as_u64)?;
        Some(plan::gpus_of(&pod).saturating_mul(replicas))
    };
    count(roles.into_iter().flat_map(serde_json::Map::values).filter_map(of).fold(0, u64::saturating_add))
}

/// What a TrainJob's program reports (KEP-2779 of Kubeflow Trainer).
fn progress(object: &DynamicObject) -> Option<Progress> {
    let number = |field: &str| {
        let value = object.data.pointer(&format!("/status/trainerStatus/{field}"))?.as_i64()?;
        i32::try_from(value).ok()
    };
    Some(Progress {
        percent: number("progressPercentage")?.clamp(0, 100),
        remaining_seconds: number("estimatedRemainingSeconds"),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(status: Value) -> DynamicObject {
        let worker = json!({ "replicas": 4, "template": { "spec": { "containers": [
            { "name": "w", "image": "i", "resources": { "limits": { "nvidia.com/gpu": 2 } } }] } } });
        serde_json::from_value(json!({
            "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
            "metadata": { "name": "resnet", "namespace": "team-cv", "uid": "0b0c2f6e-3d0f-4c29-8f4e-2f1f5f0f7a11",
                "creationTimestamp": "2026-01-01T00:00:00Z", "labels": { "kueue.x-k8s.io/queue-name": "gpus" },
                "annotations": { "training.opendatahub.io/owner": "system:serviceaccount:team-cv:pipeline" } },
            "spec": { "mpiReplicaSpecs": { "Worker": worker,
                "Launcher": { "template": { "spec": { "containers": [{ "name": "l", "image": "i" }] } } } } },
            "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn a_row_has_what_a_table_shows_in_few_bytes() {
        let status = json!({ "phase": "Failed", "phaseReason": "OutOfMemory",
            "workers": { "running": 2, "pending": 1, "failed": 1, "of": 4 },
            "startTime": "2026-01-01T00:00:10Z", "completionTime": "2026-01-01T01:00:00Z",
            "failure": { "reason": "OutOfMemory", "message": "too much" },
            "trainerStatus": { "progressPercentage": 40, "estimatedRemainingSeconds": 90 } });
        let row = row(&object(status));
        assert_eq!((row.gpus, row.queue.as_str(), row.cause.as_str()), (8, "gpus", "OutOfMemory"));
        assert_eq!(row.workers, Some(WorkerCounts { running: 2, pending: 1, failed: 1, of: 4 }));
        assert_eq!(row.progress, Some(Progress { percent: 40, remaining_seconds: Some(90) }));
        let json = serde_json::to_string(&row).unwrap();
        assert!(json.len() <= 500, "{} bytes: {json}", json.len());
    }

    #[test]
    fn another_operators_counts_give_the_same_numbers() {
        let status = json!({ "conditions": [{ "type": "Running", "status": "True" }],
            "replicaStatuses": { "Worker": { "active": 3 } } });
        let row = row(&object(status));
        assert_eq!(row.workers, Some(WorkerCounts { running: 3, pending: 1, failed: 0, of: 4 }));
        assert_eq!(row.phase, "Running");
    }
}
