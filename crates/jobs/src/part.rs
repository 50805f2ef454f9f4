//! The part of its job that a pod is, by its labels: those of MPIJobs' pods, the Training Operator's on those of its jobs, or
//! JobSet's on a TrainJob's. Pure.

use std::collections::BTreeMap;

use api::{
    LABEL_COMPLETION_INDEX, LABEL_JOB_ROLE, LABEL_REPLICA_INDEX, LABEL_REPLICA_TYPE, LABEL_REPLICATED_JOB,
    LABEL_WORKER_INDEX,
};
use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod};
use kube::ResourceExt;

use crate::kind::TRAINER_JOB;

/// Returns `launcher` or `worker`; of a PyTorchJob or TFJob, the key of the replica spec in lower case; for another pod of a
/// TrainJob, such as an initializer, the name of its replicated job; empty if the labels do not say. A TrainJob's nodes are its
/// Workers.
pub(crate) fn role(labels: &BTreeMap<String, String>) -> &str {
    let replicated = || match labels.get(LABEL_REPLICATED_JOB)?.as_str() {
        TRAINER_JOB => Some("worker"),
        other => Some(other),
    };
    // The Training Operator gives the first pod of each job the role `master`, a Worker too.
    let labelled = labels.get(LABEL_REPLICA_TYPE).or_else(|| labels.get(LABEL_JOB_ROLE));
    labelled.map(String::as_str).or_else(replicated).unwrap_or_default()
}

/// Whether the pod is a Launcher.
pub(crate) fn is_launcher(pod: &Pod) -> bool {
    role(pod.labels()) == "launcher"
}

/// The number of a Worker: at the end of the name of an MPIJob's, in a label of a TrainJob's, of which the Launcher may be the
/// last. The number of any pod of a PyTorchJob or TFJob among those of its role, in a label too.
pub(crate) fn index(pod: &Pod) -> Option<i32> {
    let label = |name: &str| pod.labels().get(name)?.parse().ok();
    if pod.labels().contains_key(LABEL_REPLICA_TYPE) {
        return label(LABEL_REPLICA_INDEX);
    }
    if role(pod.labels()) != "worker" {
        return label(LABEL_WORKER_INDEX);
    }
    match pod.labels().get(LABEL_JOB_ROLE) {
        Some(_) => pod.metadata.name.as_deref()?.rsplit('-').next()?.parse().ok(),
        None => label(LABEL_COMPLETION_INDEX),
    }
}

/// Whether a command can be run in the pod's MPI container.
pub(crate) fn runs(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let states = status.and_then(|status| status.container_statuses.as_deref()).unwrap_or_default();
    semantics::main_container(pod).is_some_and(|main| {
        let own = states.iter().find(|state| state.name == main.name);
        own.and_then(|own| own.state.as_ref()).is_some_and(|state| state.running.is_some())
    })
}

/// Whether an init container of the pod has something to say, and keeps the one that runs MPI from starting.
pub(crate) fn is_being_prepared(pod: &Pod) -> bool {
    speaking_container(pod) != semantics::main_container(pod).map(|main| main.name.clone())
}

/// The container of a pod whose output tells most: the one that runs MPI, unless an init container keeps it from starting.
/// Then it is that one: it failed, or runs, or waits to be tried again.
pub(crate) fn speaking_container(pod: &Pod) -> Option<String> {
    let main = semantics::main_container(pod).map(|main| main.name.clone());
    let status = pod.status.as_ref();
    let of_main = status.and_then(|status| status.container_statuses.as_ref()).into_iter().flatten();
    let has_started = of_main.filter(|state| Some(&state.name) == main.as_ref()).any(|state| {
        let state_of = |state: &ContainerState| state.running.is_some() || state.terminated.is_some();
        [&state.state, &state.last_state].into_iter().flatten().any(state_of)
    });
    if has_started {
        return main;
    }
    let inits = status.and_then(|status| status.init_container_statuses.as_ref()).into_iter().flatten();
    let specs = pod.spec.as_ref().and_then(|spec| spec.init_containers.as_ref());
    // A sidecar keeps nothing from starting once it is up.
    let is_sidecar = |name: &str| {
        let mut own = specs.into_iter().flatten().filter(|container| container.name == name);
        own.any(|container| container.restart_policy.as_deref() == Some("Always"))
    };
    let speaks = |state: &ContainerStatus| {
        let now = state.state.as_ref();
        let is_done = now.and_then(|now| now.terminated.as_ref()).is_some_and(|ended| ended.exit_code == 0);
        let has_run = now.is_some_and(|now| now.running.is_some() || now.terminated.is_some())
            || state.restart_count > 0;
        let is_up = is_sidecar(&state.name) && now.is_some_and(|now| now.running.is_some());
        has_run && !is_done && !is_up
    };
    inits.into_iter().rfind(|state| speaks(state)).map(|state| state.name.clone()).or(main)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pods_of_all_kinds_of_jobs_have_a_part() {
        let table = [
            ("pi-worker-3", json!({ LABEL_JOB_ROLE: "worker" }), "worker", Some(3)),
            ("pi-launcher-x7k2p", json!({ LABEL_JOB_ROLE: "launcher" }), "launcher", None),
            (
                "digits-node-0-3-x7k2p",
                json!({ LABEL_REPLICATED_JOB: "node", LABEL_COMPLETION_INDEX: "3" }),
                "worker",
                Some(3),
            ),
            (
                "digits-launcher-0-0-x7k2p",
                json!({ LABEL_REPLICATED_JOB: "launcher", LABEL_COMPLETION_INDEX: "0" }),
                "launcher",
                None,
            ),
            (
                "digits-launcher-0-0-as-node",
                json!({ LABEL_REPLICATED_JOB: "launcher", LABEL_COMPLETION_INDEX: "0", LABEL_WORKER_INDEX: "3" }),
                "launcher",
                Some(3),
            ),
            (
                "digits-dataset-initializer-0-0-x7k2p",
                json!({ LABEL_REPLICATED_JOB: "dataset-initializer", LABEL_COMPLETION_INDEX: "0" }),
                "dataset-initializer",
                None,
            ),
            (
                "resnet-master-0",
                json!({ LABEL_REPLICA_TYPE: "master", LABEL_REPLICA_INDEX: "0", LABEL_JOB_ROLE: "master" }),
                "master",
                Some(0),
            ),
            (
                "mnist-worker-0",
                json!({ LABEL_REPLICA_TYPE: "worker", LABEL_REPLICA_INDEX: "0", LABEL_JOB_ROLE: "master" }),
                "worker",
                Some(0),
            ),
            ("mnist-ps-1", json!({ LABEL_REPLICA_TYPE: "ps", LABEL_REPLICA_INDEX: "1" }), "ps", Some(1)),
            ("other", json!({}), "", None),
        ];
        for (name, labels, expected, number) in table {
            let pod: Pod =
                serde_json::from_value(json!({ "metadata": { "name": name, "labels": labels } })).unwrap();
            assert_eq!((role(pod.labels()), index(&pod)), (expected, number), "{name}");
        }
    }
}
