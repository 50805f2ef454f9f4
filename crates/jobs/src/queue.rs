//! A job's Kueue queue, and its place there according to the Workload that Kueue keeps for it.
//!
//! The input is a client and the job. The output is a [`LocalQueue`], and a [`QueuePlace`] or `None` if there is no
//! queue, no Kueue, or no permission to read Workloads. Sources: `kubernetes-sigs/kueue`
//! `apis/kueue/v1beta2/workload_types.go`; waiting Workloads are ordered as in `pkg/workload` `GetQueueOrderTimestamp`
//! and `pkg/cache/queue`: by priority, then time.
//! that wait is that of `pkg/workload` `GetQueueOrderTimestamp` and `pkg/cache/queue`: priority, then time.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::ApiResource;
use kube::{Client, ResourceExt};
use paging::MOST_PAGES;
use plan::QueuePlace;
use serde_json::Value;

use crate::kind::LABEL_QUEUE;

/// The versions of Kueue's API, newest first.
const VERSIONS: [&str; 2] = ["v1beta2", "v1beta1"];

/// The result of looking up a LocalQueue by name.
#[derive(Debug)]
pub(crate) enum LocalQueue {
    /// It exists.
    Found(Box<DynamicObject>),
    /// The namespace has no LocalQueue of this name.
    Missing,
    /// The cluster serves no LocalQueues: it has no Kueue.
    Unserved,
}

/// Looks up the queue of this name; `None` if it may not be read.
pub(crate) async fn local_queue(client: &Client, namespace: &str, name: &str) -> Option<LocalQueue> {
    for api in apis(client, namespace, "LocalQueue", "localqueues") {
        match api.get(name).await {
            Ok(queue) => return Some(LocalQueue::Found(Box::new(queue))),
            Err(error) if is_unserved(&error) => {}
            Err(kube::Error::Api(status)) if status.is_not_found() => return Some(LocalQueue::Missing),
            Err(_) => return None,
        }
    }
    Some(LocalQueue::Unserved)
}

/// Returns the job's place.
pub(crate) async fn place(client: &Client, namespace: &str, job: &DynamicObject) -> Option<QueuePlace> {
    job.labels().get(LABEL_QUEUE)?;
    for api in apis(client, namespace, "Workload", "workloads") {
        let mut found = Vec::new();
        let keep = |workloads: Vec<DynamicObject>| found.extend(workloads);
        match paging::each(&api, ListParams::default(), MOST_PAGES, keep).await {
            Ok(true) => return place_among(job, &found),
            Ok(false) => return None,
            Err(error) if is_unserved(&error) => {}
            Err(_) => return None,
        }
    }
    None
}

/// The APIs of a Kueue kind in each version.
fn apis(
    client: &Client,
    namespace: &str,
    kind: &'static str,
    plural: &'static str,
) -> impl Iterator<Item = Api<DynamicObject>> {
    VERSIONS.into_iter().map(move |version| {
        let resource = ApiResource {
            group: "kueue.x-k8s.io".to_owned(),
            version: version.to_owned(),
            api_version: format!("kueue.x-k8s.io/{version}"),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        };
        Api::namespaced_with(client.clone(), namespace, &resource)
    })
}

/// Whether the path is not served. For a missing object, the answer would name the object.
fn is_unserved(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    status.code == 404 && status.details.as_ref().is_none_or(|details| details.name.is_empty())
}

/// The job's place among the Workloads of its namespace. Pure.
fn place_among(job: &DynamicObject, workloads: &[DynamicObject]) -> Option<QueuePlace> {
    let own = workloads.iter().find(|workload| is_of(workload, job))?;
    let mut waiting: Vec<&DynamicObject> =
        workloads.iter().filter(|workload| queue(workload) == queue(own) && waits(workload)).collect();
    waiting.sort_by_key(|workload| (-priority(workload), since(workload), workload.name_any()));
    let position = waiting.iter().position(|workload| workload.name_any() == own.name_any());
    let why = condition(own, "QuotaReserved").filter(|(status, _)| *status == "False").map(|(_, why)| why);
    Some(QueuePlace {
        workload: own.name_any(),
        position: position.map(|index| index + 1),
        waiting: waiting.len(),
        why: why.filter(|why| !why.is_empty()).map(str::to_owned),
    })
}

fn is_of(workload: &DynamicObject, job: &DynamicObject) -> bool {
    workload.owner_references().iter().any(|owner| Some(&owner.uid) == job.metadata.uid.as_ref())
}

fn queue(workload: &DynamicObject) -> Option<&str> {
    workload.data.pointer("/spec/queueName").and_then(Value::as_str)
}

fn priority(workload: &DynamicObject) -> i64 {
    workload.data.pointer("/spec/priority").and_then(Value::as_i64).unwrap_or(0)
}

fn since(workload: &DynamicObject) -> Option<Time> {
    workload.creation_timestamp()
}

/// Whether it is active, has no quota yet, and has not finished.
fn waits(workload: &DynamicObject) -> bool {
    let is = |type_: &str| condition(workload, type_).is_some_and(|(status, _)| status == "True");
    let active = workload.data.pointer("/spec/active").and_then(Value::as_bool).unwrap_or(true);
    active && !is("QuotaReserved") && !is("Finished")
}

fn condition<'w>(workload: &'w DynamicObject, type_: &str) -> Option<(&'w str, &'w str)> {
    let conditions = workload.data.pointer("/status/conditions")?.as_array()?;
    let found = conditions.iter().find(|condition| condition["type"] == type_)?;
    Some((found["status"].as_str()?, found["message"].as_str().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn workload(name: &str, second: u32, priority: i64, reserved: &str) -> DynamicObject {
        serde_json::from_value(json!({"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Workload",
            "metadata": {"name": name, "creationTimestamp": format!("2026-01-01T00:00:{second:02}Z"),
                "ownerReferences": [{"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "name": name, "uid": format!("uid-{name}")}]},
            "spec": {"queueName": "gpus", "priority": priority},
            "status": {"conditions": [{"type": "QuotaReserved", "status": reserved, "message": "insufficient quota"}]}}))
        .unwrap()
    }

    fn job(name: &str) -> DynamicObject {
        serde_json::from_value(json!({"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
            "metadata": {"name": name, "uid": format!("uid-{name}")}}))
        .unwrap()
    }

    #[test]
    fn a_queue_is_ordered_by_priority_then_time() {
        let mut held = workload("held", 0, 9, "False");
        held.data["spec"]["active"] = false.into();
        let mut elsewhere = workload("elsewhere", 0, 9, "False");
        elsewhere.data["spec"]["queueName"] = "other".into();
        let all = [
            workload("early", 1, 0, "False"),
            workload("late", 2, 0, "False"),
            workload("urgent", 3, 5, "False"),
            workload("runs", 0, 0, "True"),
            held,
            elsewhere,
        ];
        let position =
            |name: &str| place_among(&job(name), &all).map(|place| (place.position, place.waiting));
        assert_eq!(position("urgent"), Some((Some(1), 3)));
        assert_eq!(position("early"), Some((Some(2), 3)));
        assert_eq!(position("late"), Some((Some(3), 3)));
        assert_eq!(position("runs"), Some((None, 3)));
        assert_eq!(position("unknown"), None);
        assert_eq!(place_among(&job("late"), &all).unwrap().why.as_deref(), Some("insufficient quota"));
    }
}
