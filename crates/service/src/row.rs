//! A job's row in a list, computed from the raw object by the functions that every interface shares. Pure.

use jiff::Timestamp;
use jobs::view;
use kube::api::DynamicObject;
use serde::Serialize;

use crate::contract::{JobRow, Progress, WorkerCounts};

/// The most characters of a row's message: a list has many rows.
const LONGEST_MESSAGE: usize = 400;

/// Returns the row of a raw object.
pub fn row(object: &DynamicObject) -> JobRow {
    of(view::row(object))
}

/// Returns a row as the contract has it.
pub fn of(row: view::Row) -> JobRow {
    let view::Workers { running, pending, failed, of } = row.workers;
    let progress = row.progress.filter(|progress| progress.percent.is_some());
    JobRow {
        kind: row.kind.name().to_owned(),
        namespace: row.namespace,
        name: row.name,
        uid: row.uid,
        phase: view::phase_name(row.phase).to_owned(),
        phase_reason: row.phase_reason.unwrap_or_default(),
        cause: row.cause.unwrap_or_default(),
        state: row.state.to_string(),
        health: word(row.health),
        message: row.message.map(shortened).unwrap_or_default(),
        ended: row.ended,
        actions: row.actions.iter().map(|action| action.word().to_owned()).collect(),
        workers: Some(WorkerCounts { running, pending, failed, of }),
        owner: row.owner.unwrap_or_default(),
        created: time(row.created),
        started: time(row.started),
        running_since: time(row.running_since),
        finished: time(row.finished),
        gpus: count(row.gpus),
        queue_position: row.queue.as_ref().and_then(|queue| queue.position).map(count),
        queue: row.queue.map(|queue| queue.name).unwrap_or_default(),
        progress: progress.map(|progress| Progress {
            percent: progress.percent.map_or(0, i32::from),
            remaining_seconds: progress.time_left_seconds.map(count),
        }),
        deleting: row.deleting,
    }
}

/// Cuts a message that is too long for a row.
fn shortened(message: String) -> String {
    match message.char_indices().nth(LONGEST_MESSAGE - 1) {
        Some((end, last)) if end + last.len_utf8() < message.len() => format!("{}…", &message[..end]),
        _ => message,
    }
}

/// The word of an enumeration's value, as in JSON.
pub fn word(value: impl Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|word| Some(word.as_str()?.to_owned())).unwrap_or_default()
}

/// Who can remove a cause; empty if there is none.
pub fn actor(cause: &str) -> String {
    if cause.is_empty() { String::new() } else { word(view::actor(cause)) }
}

/// A time in RFC 3339; empty if there is none.
pub fn time(at: Option<Timestamp>) -> String {
    at.map(|at| at.to_string()).unwrap_or_default()
}

/// A count that fits a message's number.
pub fn count(number: impl TryInto<i32>) -> i32 {
    number.try_into().unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::{Value, json};

    use super::*;

    /// Clients show the rows of the same cases.
    const CASES: &str = include_str!("../../../openapi/states.yaml");

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Case {
        case: String,
        kind: String,
        #[serde(default)]
        deleting: bool,
        #[serde(default)]
        cancelled: bool,
        #[serde(default)]
        suspended: bool,
        /// What the operator reports; none if the row is that of a newer service.
        status: Option<Value>,
        row: serde_json::Map<String, Value>,
    }

    impl Case {
        fn object(&self, status: &Value) -> DynamicObject {
            let group = if self.kind == "TrainJob" {
                "trainer.kubeflow.org/v1alpha1"
            } else {
                "kubeflow.org/v2beta1"
            };
            let deleted = self.deleting.then_some("2026-01-01T00:00:00Z");
            serde_json::from_value(json!({ "apiVersion": group, "kind": self.kind,
                "metadata": { "name": "pi", "namespace": "team", "deletionTimestamp": deleted,
                    "annotations": { (api::ANNOTATION_CANCEL): self.cancelled.to_string() } },
                "spec": { "suspend": self.suspended, "runPolicy": { "suspend": self.suspended },
                    "mpiReplicaSpecs": { "Worker": { "replicas": 4 } } },
                "status": status }))
            .unwrap()
        }
    }

    #[test]
    fn a_job_has_the_state_that_clients_show() {
        let cases: Vec<Case> = serde_saphyr::from_str(CASES).unwrap();
        let mut compared = 0;
        for case in &cases {
            let Some(status) = &case.status else { continue };
            let row = serde_json::to_value(row(&case.object(status))).unwrap();
            for (field, expected) in &case.row {
                assert_eq!(row.get(field), Some(expected), "{}: {field}", case.case);
            }
            compared += 1;
        }
        assert!(compared >= 20, "{compared} cases");
    }

    #[test]
    fn a_long_message_is_cut_at_a_character() {
        assert_eq!(shortened("ä".repeat(400)), "ä".repeat(400));
        assert_eq!(shortened("ä".repeat(401)), "ä".repeat(399) + "…");
    }

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
        assert_eq!(row.workers, Some(WorkerCounts { running: 2, pending: 0, failed: 1, of: 4 }));
        assert_eq!(row.progress, Some(Progress { percent: 40, remaining_seconds: Some(90) }));
        let json = serde_json::to_string(&row).unwrap();
        assert!(json.len() <= 640, "{} bytes: {json}", json.len());
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
