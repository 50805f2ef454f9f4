//! How many GPUs there are and how many are free, in the cluster and in the quotas of its queues: sums without the names of
//! nodes and jobs, so that they can be shown to those who may read neither.
//!
//! It reads with the client that it is given, and reduces at once. What cannot be read completely is `None`, never zero.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DynamicObject, ListParams};
use kube::{Client, ResourceExt as _};
use paging::MOST_PAGES;
use plan::Capacity;
use semantics::{Amounts, Quantity, is_gpu};

use crate::cluster_queue::{Labels, UnknownQuota, is_held, offer};
use crate::overview::model_in;
use crate::queue::{self, Found};

/// GPUs of a resource and a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuSum {
    /// The resource.
    pub resource: String,
    /// The model; the resource's name if no label of the nodes says it.
    pub model: String,
    /// Those of all nodes.
    pub gpus: u64,
    /// Those on usable nodes that no pod holds.
    pub free: u64,
}

/// The GPUs in the quota of a LocalQueue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueSum {
    /// The namespace.
    pub namespace: String,
    /// The LocalQueue.
    pub name: String,
    /// Whether it admits nothing: it or its ClusterQueue is stopped, there is no such ClusterQueue, or that does not select the
    /// namespace.
    pub is_stopped: bool,
    /// The GPUs, by resource: of those that the quota names.
    pub gpus: Result<Vec<QuotaSum>, UnknownQuota>,
}

/// GPUs of a resource in a ClusterQueue's own quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaSum {
    /// The resource.
    pub resource: String,
    /// The quota, over all flavors.
    pub gpus: u64,
    /// What of it is not reserved.
    pub free: u64,
}

/// Sums the GPUs of the cluster, by resource and model; `None` if nodes or pods cannot all be read.
pub async fn cluster(client: &Client) -> Option<Vec<GpuSum>> {
    Some(sums(&paging::capacity(client).await?))
}

fn sums(capacity: &Capacity) -> Vec<GpuSum> {
    let sum = |((resource, model), (gpus, free)): ((&str, &str), (u64, u64))| GpuSum {
        resource: resource.to_owned(),
        model: model.to_owned(),
        gpus,
        free,
    };
    capacity.gpus_by(model_in).into_iter().map(sum).collect()
}

/// Sums the GPUs in the quotas of all LocalQueues, by namespace and name; `None` if they or the ClusterQueues cannot all be
/// read. A cluster without Kueue has no queues.
pub async fn queues(client: &Client) -> Option<Vec<QueueSum>> {
    let (local, cluster) = futures::join!(
        queue::read_all(client, None, "LocalQueue", "localqueues"),
        queue::read_all(client, None, "ClusterQueue", "clusterqueues"),
    );
    let all = |found: Found| match found {
        Found::All(objects) => Some(objects),
        Found::Unserved => Some(Vec::new()),
        Found::Hidden => None,
    };
    let (local, cluster) = (all(local)?, all(cluster)?);
    let labels = if local.is_empty() { BTreeMap::new() } else { labels(client).await };
    Some(rooms(&local, &cluster, &labels))
}

/// The labels of the namespaces that can be read.
async fn labels(client: &Client) -> BTreeMap<String, Labels> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let mut found = BTreeMap::new();
    let named = |one: Namespace| (one.name_any(), one.metadata.labels.unwrap_or_default());
    let keep = |page: Vec<Namespace>| found.extend(page.into_iter().map(named));
    // Those that are missing are unknown.
    let _ = paging::each(&namespaces, ListParams::default(), MOST_PAGES, keep).await;
    found
}

fn rooms(
    local: &[DynamicObject],
    cluster: &[DynamicObject],
    labels: &BTreeMap<String, Labels>,
) -> Vec<QueueSum> {
    let mut found: Vec<QueueSum> = local.iter().map(|queue| room(queue, cluster, labels)).collect();
    found.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    found
}

fn room(queue: &DynamicObject, cluster: &[DynamicObject], labels: &BTreeMap<String, Labels>) -> QueueSum {
    let namespace = queue.namespace().unwrap_or_default();
    let offer = offer(queue, cluster, labels.get(&namespace));
    QueueSum {
        name: queue.name_any(),
        is_stopped: is_held(queue) || offer.as_ref().is_none_or(|offer| offer.admits_nothing),
        gpus: offer.map_or(Ok(Vec::new()), |offer| offer.quota.map(|quota| gpus_of(&quota))),
        namespace,
    }
}

fn gpus_of((nominal, free): &(Amounts, Amounts)) -> Vec<QuotaSum> {
    let number = |amounts: &Amounts, resource: &str| {
        let amount = amounts.get(resource).and_then(|amount| amount.count_of(Quantity::ONE));
        amount.and_then(|amount| u64::try_from(amount).ok()).unwrap_or(0)
    };
    let gpus = nominal.keys().filter(|resource| is_gpu(resource)).map(|resource| QuotaSum {
        resource: resource.clone(),
        gpus: number(nominal, resource),
        free: number(free, resource),
    });
    gpus.collect()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Node, Pod};
    use serde_json::{Value, json};

    use super::*;

    fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn a_node_without_a_label_for_its_model_counts_under_its_resource() {
        let node = |name: &str, labels: Value, resource: &str| -> Node {
            read(json!({ "metadata": { "name": name, "labels": labels }, "status": {
                "allocatable": { resource: "8" }, "conditions": [{ "type": "Ready", "status": "True" }] } }))
        };
        let mut capacity = Capacity::default();
        capacity.add_nodes(vec![
            node("a", json!({ "nvidia.com/gpu.product": "H100" }), "nvidia.com/gpu"),
            node("b", json!({}), "amd.com/gpu"),
        ]);
        let pod: Pod = read(json!({ "metadata": { "name": "p" }, "spec": { "nodeName": "a", "containers": [
            { "name": "c", "resources": { "limits": { "nvidia.com/gpu": "3" } } }] } }));
        capacity.add_pods(&[pod]);
        let found = sums(&capacity);
        let shown: Vec<_> =
            found.iter().map(|sum| (sum.resource.as_str(), sum.model.as_str(), sum.gpus, sum.free)).collect();
        assert_eq!(shown, [("amd.com/gpu", "amd.com/gpu", 8, 8), ("nvidia.com/gpu", "H100", 8, 5)]);
    }

    #[test]
    fn a_queue_has_the_room_in_its_own_quota() {
        let object = |kind: &str, name: &str, spec: Value, status: Value| -> DynamicObject {
            read(json!({ "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind,
                "metadata": { "name": name, "namespace": "team" }, "spec": spec, "status": status }))
        };
        let flavors = |field: &str, amount: u32| {
            let gpus = json!({ "name": "nvidia.com/gpu", field: amount });
            json!([{ "name": "f", "resources": [gpus, { "name": "cpu", field: 64 }] }])
        };
        let all = object(
            "ClusterQueue",
            "all",
            json!({ "namespaceSelector": { "matchLabels": { "team": "a" } },
                "resourceGroups": [{ "flavors": flavors("nominalQuota", 16) }] }),
            json!({ "flavorsReservation": flavors("total", 6) }),
        );
        let local = |name: &str, owner: &str, policy: &str| {
            let spec = json!({ "clusterQueue": owner, "stopPolicy": policy });
            object("LocalQueue", name, spec, json!({}))
        };
        let local = [local("b", "all", "Hold"), local("a", "all", "None"), local("c", "missing", "None")];
        let labels = |team: &str| {
            let own = Labels::from([("team".to_owned(), team.to_owned())]);
            BTreeMap::from([("team".to_owned(), own)])
        };
        let cluster = [all];
        let found = rooms(&local, &cluster, &labels("a"));
        let shown: Vec<_> = found.iter().map(|queue| (queue.name.as_str(), queue.is_stopped)).collect();
        assert_eq!(shown, [("a", false), ("b", true), ("c", true)]);
        let sum = QuotaSum { resource: "nvidia.com/gpu".to_owned(), gpus: 16, free: 10 };
        assert_eq!((&found[0].gpus, &found[2].gpus), (&Ok(vec![sum]), &Ok(Vec::new())));
        let reason = |labels: &BTreeMap<String, Labels>| {
            let first = rooms(&local, &cluster, labels).swap_remove(0);
            (first.is_stopped, first.gpus.map_err(|unknown| unknown.reason))
        };
        assert_eq!(reason(&labels("b")), (true, Err("NotSelected")));
        assert_eq!(reason(&BTreeMap::new()), (false, Err("Unreadable")));
    }
}
