//! How many Workers of a job are in which state.
//!
//! In a list, where pods are not known, these are the counts that our operator publishes (`status.workers`), or those of
//! `status.replicaStatuses` for other operators. Where pods of Workers are known, the Workers are counted as the list of them
//! shows them ([`super::health`]). Either way, a Worker that the job's failure names has failed, though its pod may run on. Pure.

use std::fmt;

use api::{MPIJobStatus, Phase};
use kube::api::DynamicObject;
use serde::Serialize;

use super::health::{PodHealth, WorkerView};
use crate::Kind;

/// The number of a job's Workers in each state. As text, `7/8 Running, 1 Pending`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Workers {
    /// Workers that run and are ready.
    pub running: i32,
    /// Workers that do not exist yet, or are not ready.
    pub pending: i32,
    /// Workers that failed.
    pub failed: i32,
    /// Workers that the job asks for.
    pub of: i32,
}

impl fmt::Display for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{} Running", self.running, self.of)?;
        for (count, state) in [(self.pending, "Pending"), (self.failed, "Failed")] {
            if count > 0 {
                write!(f, ", {count} {state}")?;
            }
        }
        Ok(())
    }
}

impl Workers {
    /// Sets the number of Workers that a TrainJob's runtime determines. Its child Job reports only whether all of them
    /// are ready.
    pub(crate) fn set_nodes(&mut self, nodes: i32) {
        self.running = if self.running > 0 { nodes - self.failed } else { 0 };
        self.pending = if self.pending > 0 { nodes - self.running } else { 0 };
        self.of = nodes;
    }

    /// Returns the counts of Workers whose pods are known, as a list of them shows them. `ended` says whether the job has
    /// ended, `suspended` whether it is to have no Workers.
    pub(crate) fn recounted(self, workers: &[WorkerView], ended: bool, suspended: bool) -> Workers {
        let count = |healths: &[PodHealth]| {
            let found = workers.iter().filter(|worker| healths.contains(&worker.health)).count();
            i32::try_from(found).unwrap_or(i32::MAX)
        };
        let waiting = [PodHealth::Blocked, PodHealth::Waiting, PodHealth::Starting, PodHealth::Gone];
        let failed = count(&[PodHealth::Failed]);
        Workers {
            running: count(&[PodHealth::Running]),
            pending: if ended || suspended { 0 } else { count(&waiting) },
            // Of those whose pods the end removed, only the operator knows that they failed.
            failed: if ended { failed.max(self.failed) } else { failed },
            of: self.of,
        }
    }
}

/// Returns the counts for a job as far as the job itself has them.
pub(super) fn of(kind: Kind, object: &DynamicObject, status: &MPIJobStatus, phase: Phase) -> Workers {
    let ended = matches!(phase, Phase::Succeeded | Phase::Failed);
    let counted = counted(kind, object, status);
    let failure = status.failure.as_ref().filter(|_| phase == Phase::Failed);
    let named = i32::from(failure.is_some_and(|failure| failure.worker.is_some()));
    let failed = counted.failed.max(named);
    // A Worker that failed does not run.
    let running = counted.running.min(counted.of - failed).max(0);
    Workers {
        // What the operator counted last may have been removed since.
        running: if ended && removes_pods(object) { 0 } else { running },
        // Missing Workers of a job that has ended are not pending, and a suspended one is to have none.
        pending: if ended || kind.suspended(object) { 0 } else { counted.pending },
        failed,
        of: counted.of,
    }
}

/// Whether the Workers that still run are removed when the job ends (`RunPolicy.CleanPodPolicy` of
/// `kubeflow/mpi-operator` `pkg/apis/kubeflow/v2beta1/types.go`).
fn removes_pods(object: &DynamicObject) -> bool {
    let policy = object.data.pointer("/spec/runPolicy/cleanPodPolicy").and_then(serde_json::Value::as_str);
    matches!(policy, Some("Running" | "All"))
}

fn counted(kind: Kind, object: &DynamicObject, status: &MPIJobStatus) -> Workers {
    let of = kind.workers(object);
    if let Some(counts) = &status.workers {
        return Workers { running: counts.running, pending: counts.pending, failed: counts.failed, of };
    }
    let sum = |count: fn(&api::ReplicaStatus) -> Option<i32>| -> i32 {
        kind.working_roles().iter().filter_map(|role| count(status.replica_statuses.get(*role)?)).sum()
    };
    let (running, failed) = (kind.workers_active(object), sum(|role| role.failed));
    let pending = (of - running - failed - sum(|role| role.succeeded)).max(0);
    Workers { running, pending, failed, of }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::status;
    use serde_json::{Value, json};

    fn job(status: Value) -> DynamicObject {
        serde_json::from_value(
            json!({"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": "pi"},
            "spec": {"mpiReplicaSpecs": {"Worker": {"replicas": 8}}}, "status": status}),
        )
        .unwrap()
    }

    fn counts(object: &DynamicObject, phase: Phase) -> String {
        of(Kind::MpiJob, object, &status(object), phase).to_string()
    }

    #[test]
    fn a_job_that_is_suspended_or_has_ended_has_no_workers_that_wait_or_run() {
        let shown = |policy: &str, suspend: bool, phase: Phase| {
            let mut object = job(json!({"workers": {"running": 2, "pending": 1, "failed": 1, "of": 8}}));
            object.data["spec"]["runPolicy"] = json!({ "cleanPodPolicy": policy, "suspend": suspend });
            counts(&object, phase)
        };
        assert_eq!(shown("Running", false, Phase::Running), "2/8 Running, 1 Pending, 1 Failed");
        assert_eq!(shown("Running", false, Phase::Failed), "0/8 Running, 1 Failed");
        assert_eq!(shown("None", false, Phase::Failed), "2/8 Running, 1 Failed", "they are left alone");
        assert_eq!(shown("Running", true, Phase::Pending), "2/8 Running, 1 Failed");
    }

    #[test]
    fn published_counts_come_before_those_of_replica_statuses() {
        let published = json!({"workers": {"running": 7, "pending": 1, "failed": 0, "of": 8},
            "replicaStatuses": {"Worker": {"active": 2}}});
        assert_eq!(counts(&job(published), Phase::Running), "7/8 Running, 1 Pending");
        let upstream =
            json!({"replicaStatuses": {"Worker": {"active": 5, "failed": 1}, "Launcher": {"active": 1}}});
        assert_eq!(counts(&job(upstream.clone()), Phase::Running), "5/8 Running, 2 Pending, 1 Failed");
        assert_eq!(counts(&job(upstream), Phase::Failed), "5/8 Running, 1 Failed");
        assert_eq!(counts(&job(json!({})), Phase::Pending), "0/8 Running, 8 Pending");
    }

    #[test]
    fn the_worker_that_a_failure_names_has_failed_though_its_pod_runs_on() {
        let failed = |running: i32, failed: i32| {
            counts(
                &job(json!({"workers": {"running": running, "pending": 0, "failed": failed, "of": 8},
                    "failure": {"reason": "OutOfMemory", "message": "", "worker": 5}})),
                Phase::Failed,
            )
        };
        assert_eq!(failed(8, 0), "7/8 Running, 1 Failed");
        assert_eq!(failed(0, 0), "0/8 Running, 1 Failed");
        assert_eq!(failed(6, 2), "6/8 Running, 2 Failed", "it is among them");
        let running = job(json!({"workers": {"running": 8, "pending": 0, "failed": 0, "of": 8},
            "failure": {"reason": "OutOfMemory", "message": "", "worker": 5}}));
        assert_eq!(counts(&running, Phase::Running), "8/8 Running", "the failure of a former attempt");
    }

    #[test]
    fn workers_whose_pods_are_known_are_counted_as_their_list_shows_them() {
        use PodHealth::{Blocked, Done, Failed, Gone, Running, Starting, Waiting};
        let published = Workers { running: 0, pending: 5, failed: 2, of: 8 };
        let recounted = |healths: &[PodHealth], ended: bool, suspended: bool| {
            let view = |(index, health): (i32, &PodHealth)| {
                let (pod, state) = (None, String::new());
                WorkerView { index, health: *health, pod, state }
            };
            let listed: Vec<WorkerView> = (0..).zip(healths).map(view).collect();
            published.recounted(&listed, ended, suspended).to_string()
        };
        let all = [Running, Running, Starting, Blocked, Waiting, Gone, Failed, Done];
        assert_eq!(recounted(&all, false, false), "2/8 Running, 4 Pending, 1 Failed");
        assert_eq!(recounted(&[Waiting; 8], false, true), "0/8 Running");
        assert_eq!(recounted(&all, true, false), "2/8 Running, 2 Failed", "the pod of one was removed");
    }
}
