//! Removes pods that no kubelet will remove: pods of a node that does not exist, and pods deleted before they were
//! scheduled.
//!
//! Rules: `pkg/controller/podgc` of Kubernetes 1.36: a node must be missing for a while, and is read live before its
//! pods are removed. The pod is first marked Failed, so that observers see it end.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use super::cache::{Cache, Key};
use super::queue::{Queue, work};
use super::{Error, allow};
use crate::scheduler::snapshot::node_name;
use controller_runtime::supervision::Scope;
use semantics::has_ended;

/// Responses that need no retry: the object is gone, or another has its name.
const SETTLED: [u16; 2] = [404, 409];
/// Pods processed concurrently.
const CONCURRENCY: usize = 8;

/// The controller's dependencies.
#[derive(Clone)]
pub struct Context {
    /// The API.
    pub client: Client,
    /// Every node.
    pub nodes: Cache<Node>,
    /// Every pod.
    pub pods: Cache<Pod>,
    /// How long a node must be missing.
    pub quarantine: Duration,
}

/// Why a pod is removed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Waif {
    /// It was deleted before it was scheduled.
    Unscheduled,
    /// Its node does not exist.
    Homeless,
}

/// Returns why the pod must be removed; `None` if a kubelet will do it.
fn waif(pod: &Pod, node_exists: impl Fn(&str) -> bool) -> Option<Waif> {
    match node_name(pod) {
        None => pod.metadata.deletion_timestamp.is_some().then_some(Waif::Unscheduled),
        Some(node) => (!node_exists(node)).then_some(Waif::Homeless),
    }
}

/// Runs until the scope ends.
pub async fn run(context: Context, scope: Scope) {
    let queue: Arc<Queue<(Key, String)>> = Arc::default();
    let (to, nodes, quarantine) = (queue.clone(), context.nodes.clone(), context.quarantine);
    let consider = move |pod: &Pod| {
        let item = (Key::of(pod), pod.uid().unwrap_or_default());
        match waif(pod, |node| nodes.get(&Key::new("", node)).is_some()) {
            Some(Waif::Unscheduled) => to.add(item),
            Some(Waif::Homeless) => to.add_after(item, quarantine),
            None => {}
        }
    };
    let consider = Arc::new(consider);
    let each = consider.clone();
    context.pods.on_change(&scope.stop, move |change| {
        if let Some(pod) = &change.new {
            each(pod);
        }
    });
    let (each, pods) = (consider.clone(), context.pods.clone());
    context.nodes.on_change(&scope.stop, move |change| {
        if let (Some(node), None) = (&change.old, &change.new) {
            let name = node.name_any();
            pods.list().iter().filter(|pod| node_name(pod) == Some(&name)).for_each(|pod| each(pod));
        }
    });
    context.nodes.filled().await;
    context.pods.filled().await;
    context.pods.list().iter().for_each(|pod| consider(pod));
    work(queue, CONCURRENCY, scope, |(key, uid)| step(&context, key, uid)).await;
}

async fn step(context: &Context, key: Key, uid: String) -> Result<Option<Duration>, Error> {
    let Some(pod) = context.pods.get(&key).filter(|pod| pod.uid().as_ref() == Some(&uid)) else {
        return Ok(None);
    };
    let waif = waif(&pod, |node| context.nodes.get(&Key::new("", node)).is_some());
    if waif == Some(Waif::Homeless) {
        let nodes: Api<Node> = Api::all(context.client.clone());
        if nodes.get_opt(node_name(&pod).unwrap_or_default()).await?.is_some() {
            return Ok(None);
        }
    }
    let Some(waif) = waif else { return Ok(None) };
    let api: Api<Pod> = Api::namespaced(context.client.clone(), &key.namespace);
    if !has_ended(&pod) {
        let patch = Patch::Strategic(failed(&pod, waif));
        allow(&SETTLED, api.patch_status(&key.name, &PatchParams::default(), &patch).await)?;
    }
    let precondition = Preconditions { uid: Some(uid), resource_version: None };
    let parameters = DeleteParams::default().grace_period(0).preconditions(precondition);
    allow(&SETTLED, api.delete(&key.name, &parameters).await)?;
    Ok(None)
}

fn failed(pod: &Pod, waif: Waif) -> Value {
    let conditions = match waif {
        Waif::Unscheduled => json!([]),
        Waif::Homeless => json!([{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC",
            "message": "PodGC: node no longer exists", "lastTransitionTime": Timestamp::now().to_string()}]),
    };
    json!({"metadata": {"uid": pod.uid()}, "status": {"phase": "Failed", "conditions": conditions}})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pods_without_a_kubelet_are_removed() {
        let pod = |spec: Value, deleted: bool| -> Pod {
            let at = deleted.then_some("1970-01-01T00:00:00Z");
            let mut spec = spec;
            spec["containers"] = json!([]);
            serde_json::from_value(json!({"metadata": {"deletionTimestamp": at}, "spec": spec})).unwrap()
        };
        let exists = |node: &str| node == "here";
        assert_eq!(waif(&pod(json!({}), false), exists), None);
        assert_eq!(waif(&pod(json!({}), true), exists), Some(Waif::Unscheduled));
        assert_eq!(waif(&pod(json!({"nodeName": "here"}), true), exists), None);
        assert_eq!(waif(&pod(json!({"nodeName": "gone"}), false), exists), Some(Waif::Homeless));
    }
}
