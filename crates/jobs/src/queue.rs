//! A job's Kueue queue, and its place there according to the Workload that Kueue keeps for it.
//!
//! The input is a client and the job. The output is a [`LocalQueue`], and a [`QueuePlace`] or `None` if there is no
//! queue, no Kueue, or no permission to read Workloads. Sources: `kubernetes-sigs/kueue`
//! `apis/kueue/v1beta2/workload_types.go`; waiting Workloads are ordered as in `pkg/workload` `GetQueueOrderTimestamp`
//! and `pkg/cache/queue`: by priority, then time.

use std::collections::{BTreeMap, HashMap};

use diagnosis::Cause;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::ApiResource;
use kube::{Client, ResourceExt};
use paging::MOST_PAGES;
use plan::{Action, Advice, Estimate, Finding, QueuePlace, Weight};
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
    for api in apis(client, Some(namespace), "LocalQueue", "localqueues") {
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
    for api in apis(client, Some(namespace), "Workload", "workloads") {
        let mut found = Vec::new();
        let keep = |workloads: Vec<DynamicObject>| found.extend(workloads);
        match paging::each(&api, ListParams::default(), MOST_PAGES, keep).await {
            Ok(true) => return place_among(job, &found),
            Ok(false) => return None,
            Err(error) if is_unserved(&error) => {}
            Err(_) => return None,
        }
    }
    Some(QueuePlace { unserved: true, ..QueuePlace::default() })
}

/// Kueue's objects of one kind.
pub(crate) enum Found {
    /// All that may be read.
    All(Vec<DynamicObject>),
    /// The cluster does not serve the kind.
    Unserved,
    /// The caller may not read them, or there are too many.
    Hidden,
}

/// Reads all objects of a Kueue kind, in a namespace or everywhere.
pub(crate) async fn read_all(
    client: &Client,
    namespace: Option<&str>,
    kind: &'static str,
    plural: &'static str,
) -> Found {
    for api in apis(client, namespace, kind, plural) {
        let mut found = Vec::new();
        match paging::each(&api, ListParams::default(), MOST_PAGES, |objects| found.extend(objects)).await {
            Ok(true) => return Found::All(found),
            Err(error) if is_unserved(&error) => {}
            Ok(false) | Err(_) => return Found::Hidden,
        }
    }
    Found::Unserved
}

/// The APIs of a Kueue kind in each version, in a namespace or everywhere.
pub(crate) fn apis(
    client: &Client,
    namespace: Option<&str>,
    kind: &'static str,
    plural: &'static str,
) -> impl Iterator<Item = Api<DynamicObject>> {
    VERSIONS.into_iter().map(move |version| {
        let resource = resource(version, kind, plural);
        match namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        }
    })
}

/// Whether the path is not served. For a missing object, the answer would name the object.
pub(crate) fn is_unserved(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    status.code == 404 && status.details.as_ref().is_none_or(|details| details.name.is_empty())
}

/// The job's place among the Workloads of its namespace. Pure.
fn place_among(job: &DynamicObject, workloads: &[DynamicObject]) -> Option<QueuePlace> {
    let own = workloads.iter().find(|workload| is_of(workload, job))?;
    let mut waiting: Vec<&DynamicObject> =
        workloads.iter().filter(|workload| name_of(workload) == name_of(own) && waits(workload)).collect();
    waiting.sort_by_cached_key(|workload| order(workload));
    let position = waiting.iter().position(|workload| workload.name_any() == own.name_any());
    let why = condition(own, "QuotaReserved").filter(|(status, _)| *status == "False").map(|(_, why)| why);
    Some(QueuePlace {
        workload: own.name_any(),
        position: position.map(|index| index + 1),
        waiting: waiting.len(),
        unserved: false,
        why: why.filter(|why| !why.is_empty()).map(str::to_owned),
    })
}

/// Returns the positions of the jobs that wait, from 1, by the jobs' UIDs: each in its namespace's queue.
pub fn positions<'w>(workloads: impl IntoIterator<Item = &'w DynamicObject>) -> HashMap<String, usize> {
    let mut queues: BTreeMap<(Option<String>, Option<&str>), Vec<&DynamicObject>> = BTreeMap::new();
    for workload in workloads.into_iter().filter(|workload| waits(workload)) {
        queues.entry((workload.namespace(), name_of(workload))).or_default().push(workload);
    }
    let mut positions = HashMap::new();
    for waiting in queues.values_mut() {
        waiting.sort_by_cached_key(|workload| order(workload));
        for (index, workload) in waiting.iter().enumerate() {
            let owners = workload.owner_references().iter();
            positions.extend(owners.map(|owner| (owner.uid.clone(), index + 1)));
        }
    }
    positions
}

/// Returns Workloads as the cluster serves them, newest version first; `None` if it has no Kueue.
///
/// # Errors
/// The server's refusal.
pub async fn served_workloads(client: &Client) -> Result<Option<ApiResource>, kube::Error> {
    for version in VERSIONS {
        let resource = resource(version, "Workload", "workloads");
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        match api.list_metadata(&ListParams::default().limit(1)).await {
            Ok(_) => return Ok(Some(resource)),
            Err(error) if is_unserved(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

fn resource(version: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource {
        group: "kueue.x-k8s.io".to_owned(),
        version: version.to_owned(),
        api_version: format!("kueue.x-k8s.io/{version}"),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    }
}

/// The sort key of a Workload that waits.
fn order(workload: &DynamicObject) -> (i64, Option<Time>, String) {
    (-priority(workload), since(workload), workload.name_any())
}

fn is_of(workload: &DynamicObject, job: &DynamicObject) -> bool {
    workload.owner_references().iter().any(|owner| Some(&owner.uid) == job.metadata.uid.as_ref())
}

pub(crate) fn name_of(workload: &DynamicObject) -> Option<&str> {
    workload.data.pointer("/spec/queueName").and_then(Value::as_str)
}

pub(crate) fn priority(workload: &DynamicObject) -> i64 {
    workload.data.pointer("/spec/priority").and_then(Value::as_i64).unwrap_or(0)
}

fn since(workload: &DynamicObject) -> Option<Time> {
    workload.creation_timestamp()
}

/// Whether it is active, has no quota yet, and has not finished.
pub(crate) fn waits(workload: &DynamicObject) -> bool {
    let is = |type_: &str| condition(workload, type_).is_some_and(|(status, _)| status == "True");
    let active = workload.data.pointer("/spec/active").and_then(Value::as_bool).unwrap_or(true);
    active && !is("QuotaReserved") && !is("Finished")
}

fn condition<'w>(workload: &'w DynamicObject, type_: &str) -> Option<(&'w str, &'w str)> {
    let conditions = workload.data.pointer("/status/conditions")?.as_array()?;
    let found = conditions.iter().find(|condition| condition["type"] == type_)?;
    Some((found["status"].as_str()?, found["message"].as_str().unwrap_or_default()))
}

/// What is wrong with a job whose queue does not exist, and how long it would wait.
pub(crate) fn missing(name: &str, namespace: &str, wait: Option<Estimate>) -> Finding {
    Finding {
        weight: Weight::Waits,
        reason: Cause::QuotaExceeded,
        wait,
        message: format!(
            "queue \"{name}\" not found in namespace \"{namespace}\": the job would wait forever"
        ),
        advice: Advice::from("choose one of the queues of the namespace")
            .with(Action::ListQueues { namespace: namespace.to_owned() }),
    }
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
        let found = positions(&all);
        let names = ["urgent", "early", "late", "runs", "elsewhere"];
        let places = names.map(|name| found.get(&format!("uid-{name}")).copied());
        assert_eq!(places, [Some(1), Some(2), Some(3), None, Some(1)]);
        assert_eq!(place_among(&job("late"), &all).unwrap().why.as_deref(), Some("insufficient quota"));
    }
}
