//! How many Workers of a job are in which state.
//!
//! Our operator publishes the counts (`status.workers`), and they are used as they are. For other operators, they are
//! counted from the job's pods if there are any, else from `status.replicaStatuses`. Pure.

use std::fmt;

use api::{LABEL_REPLICA_TYPE, MPIJobStatus};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde::Serialize;

use crate::Kind;
use crate::part::role;

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
        self.running = if self.running > 0 { nodes } else { 0 };
        self.pending = if self.pending > 0 { nodes - self.running } else { 0 };
        self.of = nodes;
    }
}

/// Returns the counts for a job. `ended` says whether the job has ended, so that missing Workers are not pending, and those that
/// its end removes do not run.
pub(super) fn of(
    kind: Kind,
    object: &DynamicObject,
    status: &MPIJobStatus,
    pods: &[Pod],
    ended: bool,
) -> Workers {
    let counted = counted(kind, object, status, pods);
    // What the operator counted last may have been removed since, and a suspended job is to have no Workers.
    Workers {
        running: if ended && removes_pods(object) { 0 } else { counted.running },
        pending: if ended || kind.suspended(object) { 0 } else { counted.pending },
        ..counted
    }
}

/// Whether the Workers that still run are removed when the job ends (`RunPolicy.CleanPodPolicy` of
/// `kubeflow/mpi-operator` `pkg/apis/kubeflow/v2beta1/types.go`).
fn removes_pods(object: &DynamicObject) -> bool {
    let policy = object.data.pointer("/spec/runPolicy/cleanPodPolicy").and_then(serde_json::Value::as_str);
    matches!(policy, Some("Running" | "All"))
}

fn counted(kind: Kind, object: &DynamicObject, status: &MPIJobStatus, pods: &[Pod]) -> Workers {
    let of = kind.workers(object);
    if let Some(counts) = &status.workers {
        return Workers { running: counts.running, pending: counts.pending, failed: counts.failed, of };
    }
    let (running, failed, succeeded) = match pods {
        [] => {
            let sum = |count: fn(&api::ReplicaStatus) -> Option<i32>| -> i32 {
                let roles = kind.working_roles().iter();
                roles.filter_map(|role| count(status.replica_statuses.get(*role)?)).sum()
            };
            (kind.workers_active(object), sum(|role| role.failed), sum(|role| role.succeeded))
        }
        pods => in_states(kind, pods),
    };
    Workers { running, pending: (of - running - failed - succeeded).max(0), failed, of }
}

/// Counts the Workers among these pods: running and ready, failed, succeeded.
fn in_states(kind: Kind, pods: &[Pod]) -> (i32, i32, i32) {
    pods.iter().filter(|pod| is_worker(kind, pod)).fold((0, 0, 0), |(running, failed, succeeded), pod| {
        match semantics::phase(pod) {
            "Failed" => (running, failed + 1, succeeded),
            "Succeeded" => (running, failed, succeeded + 1),
            "Running" if semantics::is_ready(pod) => (running + 1, failed, succeeded),
            _ => (running, failed, succeeded),
        }
    })
}

fn is_worker(kind: Kind, pod: &Pod) -> bool {
    match kind {
        Kind::MpiJob | Kind::TrainJob => role(pod.labels()) == "worker",
        // Each of their pods is a rank.
        Kind::PyTorchJob | Kind::TfJob => pod.labels().contains_key(LABEL_REPLICA_TYPE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::LABEL_JOB_ROLE;
    use serde_json::{Value, json};

    fn job(status: Value) -> DynamicObject {
        serde_json::from_value(
            json!({"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": "pi"},
            "spec": {"mpiReplicaSpecs": {"Worker": {"replicas": 8}}}, "status": status}),
        )
        .unwrap()
    }

    fn pod(role: &str, phase: &str, ready: &str) -> Pod {
        serde_json::from_value(json!({"metadata": {"labels": {LABEL_JOB_ROLE: role}},
            "status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready}]}}))
        .unwrap()
    }

    #[test]
    fn a_job_that_is_suspended_or_has_ended_has_no_workers_that_wait_or_run() {
        let of = |policy: &str, suspend: bool, ended: bool| {
            let mut object = job(json!({"workers": {"running": 2, "pending": 1, "failed": 1, "of": 8}}));
            object.data["spec"]["runPolicy"] = json!({ "cleanPodPolicy": policy, "suspend": suspend });
            of(Kind::MpiJob, &object, &super::super::status(&object), &[], ended).to_string()
        };
        assert_eq!(of("Running", false, false), "2/8 Running, 1 Pending, 1 Failed");
        assert_eq!(of("Running", false, true), "0/8 Running, 1 Failed");
        assert_eq!(of("None", false, true), "2/8 Running, 1 Failed", "they are left alone");
        assert_eq!(of("Running", true, false), "2/8 Running, 1 Failed");
    }

    fn counted(status: Value, pods: &[Pod], ended: bool) -> String {
        let object = job(status);
        of(Kind::MpiJob, &object, &super::super::status(&object), pods, ended).to_string()
    }

    #[test]
    fn published_counts_are_used_as_they_are() {
        let status = json!({"workers": {"running": 7, "pending": 1, "failed": 0, "of": 8}, "replicaStatuses": {"Worker": {"active": 2}}});
        assert_eq!(counted(status.clone(), &[], false), "7/8 Running, 1 Pending");
        assert_eq!(counted(status, &[pod("worker", "Failed", "False")], false), "7/8 Running, 1 Pending");
    }

    #[test]
    fn without_published_counts_pods_are_counted_and_else_replica_statuses() {
        let upstream =
            json!({"replicaStatuses": {"Worker": {"active": 5, "failed": 1}, "Launcher": {"active": 1}}});
        assert_eq!(counted(upstream.clone(), &[], false), "5/8 Running, 2 Pending, 1 Failed");
        assert_eq!(counted(upstream.clone(), &[], true), "5/8 Running, 1 Failed");
        let pods = [
            pod("worker", "Running", "True"),
            pod("worker", "Running", "False"),
            pod("worker", "Failed", "False"),
            pod("launcher", "Running", "True"),
        ];
        assert_eq!(counted(upstream, &pods, false), "1/8 Running, 6 Pending, 1 Failed");
        assert_eq!(counted(json!({}), &[], false), "0/8 Running, 8 Pending");
    }
}
