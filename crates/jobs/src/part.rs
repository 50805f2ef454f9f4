//! The part of its job that a pod is, by its labels: those of MPIJobs' pods, or JobSet's on a TrainJob's. Pure.

use std::collections::BTreeMap;

use api::{LABEL_COMPLETION_INDEX, LABEL_JOB_ROLE, LABEL_REPLICATED_JOB};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use crate::kind::TRAINER_JOB;

/// Returns `launcher` or `worker`; for another pod of a TrainJob, such as an initializer, the name of its replicated job;
/// empty if the labels do not say. A TrainJob's nodes are its Workers.
pub(crate) fn role(labels: &BTreeMap<String, String>) -> &str {
    let replicated = || match labels.get(LABEL_REPLICATED_JOB)?.as_str() {
        TRAINER_JOB => Some("worker"),
        other => Some(other),
    };
    labels.get(LABEL_JOB_ROLE).map(String::as_str).or_else(replicated).unwrap_or_default()
}

/// Whether the pod is a Launcher.
pub(crate) fn is_launcher(pod: &Pod) -> bool {
    role(pod.labels()) == "launcher"
}

/// The number of a Worker: at the end of the name of an MPIJob's, in a label of a TrainJob's.
pub(crate) fn worker_index(pod: &Pod) -> Option<i32> {
    if role(pod.labels()) != "worker" {
        return None;
    }
    match pod.labels().get(LABEL_JOB_ROLE) {
        Some(_) => pod.metadata.name.as_deref()?.rsplit('-').next()?.parse().ok(),
        None => pod.labels().get(LABEL_COMPLETION_INDEX)?.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pods_of_both_kinds_of_jobs_have_a_part() {
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
                "digits-dataset-initializer-0-0-x7k2p",
                json!({ LABEL_REPLICATED_JOB: "dataset-initializer", LABEL_COMPLETION_INDEX: "0" }),
                "dataset-initializer",
                None,
            ),
            ("other", json!({}), "", None),
        ];
        for (name, labels, expected, index) in table {
            let pod: Pod =
                serde_json::from_value(json!({ "metadata": { "name": name, "labels": labels } })).unwrap();
            assert_eq!((role(pod.labels()), worker_index(&pod)), (expected, index), "{name}");
        }
    }
}
