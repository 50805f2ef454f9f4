//! How each pod of a job is, and each Worker, whether it has a pod or not. Pure.

use std::collections::BTreeMap;

use api::{MPIJobStatus, Phase};
use plan::MOST_WORKERS;
use serde::Serialize;

use super::Row;
use crate::Kind;
use crate::describe::PodView;

/// kubectl's words for a pod that is on its way.
const STARTING: [&str; 5] = ["Pending", "ContainerCreating", "PodInitializing", "Running", "SchedulingGated"];

/// How a pod or a Worker is, in few words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PodHealth {
    /// It failed.
    Failed,
    /// It cannot start until something changes.
    Blocked,
    /// It waits with its job.
    Waiting,
    /// It is about to run.
    Starting,
    /// It runs and is ready.
    Running,
    /// It has done its work.
    Done,
    /// It was removed, or is about to be.
    Gone,
}

/// A Worker that a job has or should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerView {
    /// Its index.
    pub index: i32,
    /// How it is.
    pub health: PodHealth,
    /// Its pod's name, if it has one.
    pub pod: Option<String>,
    /// Its pod's state, or the cause if it failed and its pod is gone.
    pub state: String,
}

/// Returns how a pod is.
pub fn of_pod(pod: &PodView) -> PodHealth {
    match (pod.exit_code, pod.state.as_str()) {
        (Some(0), _) | (None, "Completed" | "Succeeded") => PodHealth::Done,
        (Some(_), _) => PodHealth::Failed,
        (None, "Running") if pod.ready => PodHealth::Running,
        (None, "Terminating") => PodHealth::Gone,
        (None, state) if STARTING.contains(&state) || is_initializing(state) => PodHealth::Starting,
        (None, _) if pod.waits_for.is_some() => PodHealth::Blocked,
        (None, _) => PodHealth::Failed,
    }
}

/// `Init:1/2` of a pod that is being prepared, but not `Init:Error`.
fn is_initializing(state: &str) -> bool {
    state.strip_prefix("Init:").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// Returns every Worker that the job has or should have. Where its pod is gone, the job's own report says what became of it.
pub fn workers(row: &Row, status: &MPIJobStatus, pods: &[PodView]) -> Vec<WorkerView> {
    // A TrainJob's Launcher may be one of the nodes; what prepares its data is none.
    let own = pods.iter().filter(|pod| pod.role == "worker" || pod.index.is_some()).enumerate();
    // Pods of the other kinds have numbers of their roles, of which there are several.
    let is_numbered = matches!(row.kind, Kind::MpiJob | Kind::TrainJob);
    let index = |place: usize, pod: &PodView| {
        let number = pod.index.filter(|_| is_numbered);
        number.unwrap_or_else(|| i32::try_from(place).unwrap_or(i32::MAX))
    };
    let by_index: BTreeMap<i32, &PodView> = own.map(|(place, pod)| (index(place, pod), pod)).collect();
    let beyond = by_index.keys().next_back().map_or(0, |last| last.saturating_add(1));
    let failure = status.failure.as_ref().filter(|_| row.phase == Phase::Failed);
    let worker = |index: i32| {
        let pod = by_index.get(&index);
        let failed = failure.filter(|failure| failure.worker == Some(index));
        let health = match (failed, pod) {
            (Some(_), _) => PodHealth::Failed,
            (None, Some(pod)) => of_pod(pod),
            (None, None) => without_pod(row.phase),
        };
        // A Worker whose rank failed may still run.
        let state = failed.map(|failed| failed.reason.clone()).or_else(|| pod.map(|pod| pod.state.clone()));
        WorkerView { index, health, pod: pod.map(|pod| pod.name.clone()), state: state.unwrap_or_default() }
    };
    (0..row.workers.of.max(beyond).min(MOST_WORKERS)).map(worker).collect()
}

/// How a Worker without a pod is: removed at the end, on its way, or waiting with the job.
fn without_pod(phase: Phase) -> PodHealth {
    match phase {
        Phase::Succeeded | Phase::Failed => PodHealth::Gone,
        Phase::Running => PodHealth::Starting,
        Phase::Pending => PodHealth::Waiting,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(state: &str, ready: bool, exit_code: Option<i32>, waits_for: Option<&str>) -> PodView {
        PodView {
            name: "pi-worker-1".to_owned(),
            role: "worker".to_owned(),
            index: Some(1),
            state: state.to_owned(),
            waits_for: waits_for.map(str::to_owned),
            ready,
            gpus: 0,
            node: None,
            mode: None,
            restarts: 0,
            exit_code,
            created: None,
        }
    }

    #[test]
    fn the_health_of_a_pod_is_one_of_few_whatever_its_state_is_called() {
        let table = [
            (pod("Running", true, None, None), PodHealth::Running),
            (pod("Running", false, None, None), PodHealth::Starting),
            (pod("ContainerCreating", false, None, None), PodHealth::Starting),
            (pod("Init:0/1", false, None, None), PodHealth::Starting),
            (pod("Unschedulable", false, None, Some("a node")), PodHealth::Blocked),
            (pod("ErrImagePull", false, None, Some("container w")), PodHealth::Blocked),
            (pod("Init:CrashLoopBackOff", false, None, Some("container w")), PodHealth::Blocked),
            (pod("OOMKilled", false, Some(137), None), PodHealth::Failed),
            (pod("Evicted", false, None, None), PodHealth::Failed),
            (pod("Completed", false, Some(0), None), PodHealth::Done),
            (pod("Succeeded", false, None, None), PodHealth::Done),
            (pod("Terminating", true, None, None), PodHealth::Gone),
        ];
        for (pod, health) in table {
            assert_eq!(of_pod(&pod), health, "{}", pod.state);
        }
    }

    #[test]
    fn all_workers_are_listed_those_without_a_pod_too() {
        let listed = |phase: &str, failed: Option<i32>, pods: &[PodView]| {
            let object =
                serde_json::from_value(json!({"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
                "metadata": {"name": "pi"}, "spec": {"mpiReplicaSpecs": {"Worker": {"replicas": 3}}},
                "status": {"phase": phase, "failure": failed.map(|worker| json!({
                    "reason": "OutOfMemory", "message": "", "worker": worker}))}}))
                .unwrap();
            let found = workers(&super::super::row(&object), &super::super::status(&object), pods);
            found.into_iter().map(|worker| (worker.health, worker.state)).collect::<Vec<_>>()
        };
        let of = |health: PodHealth, state: &str| (health, state.to_owned());
        let running = pod("Running", true, None, None);
        let starting = of(PodHealth::Starting, "");
        assert_eq!(
            listed("Running", None, &[running]),
            [starting.clone(), of(PodHealth::Running, "Running"), starting]
        );
        assert_eq!(
            listed("Pending", None, &[]),
            vec![of(PodHealth::Waiting, ""); 3],
            "they wait with the job"
        );
        let gone = of(PodHealth::Gone, "");
        assert_eq!(
            listed("Failed", Some(1), &[]),
            [gone.clone(), of(PodHealth::Failed, "OutOfMemory"), gone]
        );
        let role = "dataset-initializer".to_owned();
        let initializer = PodView { role, index: None, ..pod("Completed", false, Some(0), None) };
        assert_eq!(listed("Running", None, &[initializer]), vec![of(PodHealth::Starting, ""); 3]);
    }

    #[test]
    fn pods_of_several_roles_are_listed_each() {
        let object = serde_json::from_value(json!({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob",
            "metadata": {"name": "pi"}, "spec": {"pytorchReplicaSpecs": {"Master": {"replicas": 1},
                "Worker": {"replicas": 2}}}}))
        .unwrap();
        let of_role = |role: &str, index: i32| PodView {
            name: format!("pi-{role}-{index}"),
            role: role.to_owned(),
            index: Some(index),
            ..pod("Running", true, None, None)
        };
        let pods = [of_role("master", 0), of_role("worker", 0), of_role("worker", 1)];
        let found = workers(&super::super::row(&object), &super::super::status(&object), &pods);
        let names: Vec<&str> = found.iter().filter_map(|worker| worker.pod.as_deref()).collect();
        assert_eq!(names, ["pi-master-0", "pi-worker-0", "pi-worker-1"]);
    }
}
