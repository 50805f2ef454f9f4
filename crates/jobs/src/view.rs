//! A job as a person sees it: one row of a list, computed from the raw object and nothing else.
//!
//! The phase comes from `status.phase` where the operator writes one and is derived from upstream's conditions where
//! it does not, so that the same words stand in every list, whoever reconciles the job.

use std::time::Duration;

use api::{LAUNCHER, MPIJobSpec, MPIJobStatus, Phase, WORKER};
use jiff::Timestamp;
use kube::api::DynamicObject;
use serde::Serialize;

/// What a list shows of a job.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    /// The job's namespace.
    pub namespace: String,
    /// The job's name.
    pub name: String,
    /// Where it stands.
    pub phase: Phase,
    /// Why it stands there, one CamelCase word.
    pub reason: Option<String>,
    /// Workers that run and are ready.
    pub workers_ready: i32,
    /// Workers asked for.
    pub workers: i32,
    /// Ranks that a Worker runs.
    pub slots_per_worker: i32,
    /// Which MPI: `OpenMPI`, `Intel` or `MPICH`.
    pub mpi: String,
    /// The image of the Workers' first container.
    pub image: String,
    /// When the job was created.
    pub created: Option<Timestamp>,
    /// When it was first, or after a resume last, allowed to run.
    pub started: Option<Timestamp>,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// Whether it is being deleted.
    pub deleting: bool,
}

impl Row {
    /// Whether nothing more will happen to the job by itself.
    pub fn finished(&self) -> bool {
        matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }

    /// From the start to the end, or to `now` while it runs; nothing before it runs.
    pub fn runtime(&self, now: Timestamp) -> Option<Duration> {
        if self.phase == Phase::Pending {
            return None;
        }
        since(self.started?, self.ended.unwrap_or(now))
    }

    /// From creation to `now`.
    pub fn age(&self, now: Timestamp) -> Option<Duration> {
        since(self.created?, now)
    }
}

/// The row of a raw object; what is missing in it counts as not set.
pub fn row(object: &DynamicObject) -> Row {
    let spec = spec(object);
    let status = status(object);
    let workers = spec.mpi_replica_specs.get(WORKER).map_or(0, |worker| worker.replicas.unwrap_or(0));
    let (phase, reason) = phase(&spec, &status);
    let image = [WORKER, LAUNCHER]
        .iter()
        .filter_map(|key| spec.mpi_replica_specs.get(*key)?.template.spec.as_ref()?.containers.first())
        .find_map(|container| container.image.clone());
    Row {
        namespace: object.metadata.namespace.clone().unwrap_or_default(),
        name: object.metadata.name.clone().unwrap_or_default(),
        phase,
        reason,
        workers_ready: workers_ready(&status),
        workers,
        slots_per_worker: spec.slots_per_worker.unwrap_or(1),
        mpi: spec.mpi_implementation.clone().unwrap_or_else(|| "OpenMPI".to_owned()),
        image: image.unwrap_or_default(),
        created: object.metadata.creation_timestamp.as_ref().map(|time| time.0),
        started: status.start_time.as_ref().map(|time| time.0),
        ended: status.completion_time.as_ref().map(|time| time.0),
        deleting: object.metadata.deletion_timestamp.is_some(),
    }
}

/// The job's spec; empty where the object has none that can be read.
pub fn spec(object: &DynamicObject) -> MPIJobSpec {
    object.data.get("spec").and_then(|spec| serde_json::from_value(spec.clone()).ok()).unwrap_or_default()
}

/// The job's status; empty where the object has none that can be read.
pub fn status(object: &DynamicObject) -> MPIJobStatus {
    object
        .data
        .get("status")
        .and_then(|status| serde_json::from_value(status.clone()).ok())
        .unwrap_or_default()
}

fn workers_ready(status: &MPIJobStatus) -> i32 {
    match (&status.workers, status.replica_statuses.get(WORKER)) {
        (Some(counts), _) => counts.running,
        (None, Some(replicas)) => replicas.active.unwrap_or(0),
        (None, None) => 0,
    }
}

/// Where a job stands and why, from `status.phase` or else from upstream's conditions.
pub fn phase(spec: &MPIJobSpec, status: &MPIJobStatus) -> (Phase, Option<String>) {
    if let Some(phase) = status.phase {
        return (phase, status.phase_reason.clone());
    }
    let holds = |type_: &str| status.conditions.iter().find(|c| c.type_ == type_ && c.status == "True");
    if let Some(condition) = holds("Succeeded") {
        return (Phase::Succeeded, condition.reason.clone());
    }
    if let Some(condition) = holds("Failed") {
        return (Phase::Failed, condition.reason.clone());
    }
    if holds("Suspended").is_some()
        || spec.run_policy.as_ref().is_some_and(|policy| policy.suspend == Some(true))
    {
        return (Phase::Pending, Some("Suspended".to_owned()));
    }
    if holds("Running").is_some() {
        return (Phase::Running, None);
    }
    let reason = if status.conditions.is_empty() { "Queued" } else { "Initializing" };
    (Phase::Pending, Some(reason.to_owned()))
}

/// The phase's name as everyone spells it.
pub fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Pending => "Pending",
        Phase::Running => "Running",
        Phase::Succeeded => "Succeeded",
        Phase::Failed => "Failed",
    }
}

fn since(from: Timestamp, to: Timestamp) -> Option<Duration> {
    u64::try_from(to.as_millisecond() - from.as_millisecond()).ok().map(Duration::from_millis)
}

/// How long, in at most two units, as kubectl writes ages: `7s`, `3m12s`, `2h5m`, `4d3h`.
pub fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600, seconds / 60);
    let pair = |big: u64, big_unit: &str, small: u64, small_unit: &str| match small {
        0 => format!("{big}{big_unit}"),
        _ => format!("{big}{big_unit}{small}{small_unit}"),
    };
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => pair(minutes, "m", seconds % 60, "s"),
        3_600..86_400 => pair(hours, "h", minutes % 60, "m"),
        _ => pair(days, "d", hours % 24, "h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(status: serde_json::Value) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
            "metadata": {"name": "pi", "namespace": "team", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"slotsPerWorker": 2, "mpiReplicaSpecs": {"Worker": {"replicas": 4, "template": {
                "spec": {"containers": [{"name": "w", "image": "img"}]}}}}},
            "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn upstreams_conditions_give_the_same_words() {
        let condition = |type_: &str, status: &str, reason: &str| json!({"type": type_, "status": status, "reason": reason});
        let created = condition("Created", "True", "MPIJobCreated");
        let table = [
            (json!({}), Phase::Pending, Some("Queued")),
            (json!({"conditions": [created]}), Phase::Pending, Some("Initializing")),
            (
                json!({"conditions": [created, condition("Suspended", "True", "MPIJobSuspended")]}),
                Phase::Pending,
                Some("Suspended"),
            ),
            (
                json!({"conditions": [created, condition("Running", "True", "MPIJobRunning")]}),
                Phase::Running,
                None,
            ),
            (
                json!({"conditions": [condition("Running", "False", "x"), condition("Succeeded", "True", "MPIJobSucceeded")]}),
                Phase::Succeeded,
                Some("MPIJobSucceeded"),
            ),
            (
                json!({"conditions": [condition("Failed", "True", "BackoffLimitExceeded")]}),
                Phase::Failed,
                Some("BackoffLimitExceeded"),
            ),
            (
                json!({"phase": "Failed", "phaseReason": "WorkerLost", "conditions": [created]}),
                Phase::Failed,
                Some("WorkerLost"),
            ),
        ];
        for (status, phase, reason) in table {
            let row = row(&object(status.clone()));
            assert_eq!((row.phase, row.reason.as_deref()), (phase, reason), "{status}");
        }
    }

    #[test]
    fn a_row_counts_workers_and_time() {
        let status = json!({"phase": "Running", "workers": {"running": 3, "pending": 1, "failed": 0, "of": 4}, "startTime": "2026-01-01T00:00:10Z"});
        let row = row(&object(status));
        assert_eq!((row.workers_ready, row.workers, row.slots_per_worker), (3, 4, 2));
        assert_eq!(row.image, "img");
        let now: Timestamp = "2026-01-01T00:02:00Z".parse().unwrap();
        assert_eq!(row.age(now).map(duration).as_deref(), Some("2m"));
        assert_eq!(row.runtime(now).map(duration).as_deref(), Some("1m50s"));
    }

    #[test]
    fn durations_have_at_most_two_units() {
        for (seconds, text) in
            [(0, "0s"), (59, "59s"), (60, "1m"), (192, "3m12s"), (7500, "2h5m"), (356_400, "4d3h")]
        {
            assert_eq!(duration(Duration::from_secs(seconds)), text);
        }
    }
}
