//! What the ClusterQueue of a LocalQueue offers to the LocalQueue's namespace. Pure.
//!
//! A user who may create a LocalQueue may name any ClusterQueue in it, also that of another team. Kueue admits jobs only from
//! the namespaces that a ClusterQueue selects, so in every other namespace its quota counts as unknown.
//!
//! Source: `kubernetes-sigs/kueue` `apis/kueue/v1beta2/clusterqueue_types.go`, `namespaceSelector`.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt;
use kube::api::DynamicObject;
use semantics::{Amounts, Quantity, labels_match, subtract};
use serde::Serialize;
use serde_json::Value;

/// The labels of a namespace.
pub(crate) type Labels = BTreeMap<String, String>;

/// Why the quota of a ClusterQueue is unknown in a namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UnknownQuota {
    /// The reason in a word: `NotSelected`, or `Unreadable` if it is unknown whether the namespace is selected.
    pub reason: &'static str,
    /// The reason in words.
    pub message: String,
}

/// A ClusterQueue, as a namespace sees it.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    /// Its own nominal quota over all flavors, and what is not reserved of it.
    pub quota: Result<(Amounts, Amounts), UnknownQuota>,
    /// Whether it admits nothing from the namespace: it is stopped, or does not select the namespace.
    pub admits_nothing: bool,
}

/// Returns what the ClusterQueue of a LocalQueue offers to a namespace with these labels, `None` if they cannot be read; the
/// result is `None` if the ClusterQueue is not among these.
pub(crate) fn offer(
    local: &DynamicObject,
    cluster: &[DynamicObject],
    labels: Option<&Labels>,
) -> Option<Offer> {
    let owner = cluster.iter().find(|one| one.name_any() == cluster_queue_of(local))?;
    let (name, namespace) = (owner.name_any(), local.namespace().unwrap_or_default());
    let unknown = |reason, message| Err(UnknownQuota { reason, message });
    Some(match selects(owner, labels) {
        Some(true) => Offer { quota: Ok(quota(owner)), admits_nothing: is_held(owner) },
        Some(false) => {
            let message = format!("ClusterQueue {name} does not select namespace {namespace}");
            Offer { quota: unknown("NotSelected", message), admits_nothing: true }
        }
        None => {
            let message = format!(
                "it is unknown whether ClusterQueue {name} selects namespace {namespace}, whose labels cannot be read"
            );
            Offer { quota: unknown("Unreadable", message), admits_nothing: false }
        }
    })
}

/// Whether a ClusterQueue selects a namespace with these labels; `None` if that is unknown. Without a selector it selects none,
/// with an empty one it selects all.
fn selects(queue: &DynamicObject, labels: Option<&Labels>) -> Option<bool> {
    let Some(selector) = queue.data.pointer("/spec/namespaceSelector").filter(|one| !one.is_null()) else {
        return Some(false);
    };
    let selector: LabelSelector = serde_json::from_value(selector.clone()).ok()?;
    let is_empty = selector.match_labels.as_ref().is_none_or(BTreeMap::is_empty)
        && selector.match_expressions.as_ref().is_none_or(Vec::is_empty);
    if is_empty { Some(true) } else { Some(labels_match(&selector, labels?)) }
}

/// Returns the name of the ClusterQueue of a LocalQueue.
pub(crate) fn cluster_queue_of(local: &DynamicObject) -> &str {
    text(local, "/spec/clusterQueue").unwrap_or_default()
}

/// Whether a LocalQueue or ClusterQueue is stopped.
pub(crate) fn is_held(queue: &DynamicObject) -> bool {
    text(queue, "/spec/stopPolicy").is_some_and(|policy| policy != "None")
}

fn text<'o>(object: &'o DynamicObject, pointer: &str) -> Option<&'o str> {
    object.data.pointer(pointer).and_then(Value::as_str)
}

fn quota(queue: &DynamicObject) -> (Amounts, Amounts) {
    let items = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let sum = |flavors: Vec<Value>, field: &str| {
        let mut total = Amounts::new();
        for resource in flavors.iter().flat_map(|flavor| items(flavor.get("resources"))) {
            if let (Some(name), Ok(amount)) = (resource["name"].as_str(), Quantity::of(&resource[field])) {
                let sum = total.entry(name.to_owned()).or_insert(Quantity::ZERO);
                *sum = amount.plus(*sum);
            }
        }
        total
    };
    let groups = items(queue.data.pointer("/spec/resourceGroups"));
    let flavors = groups.iter().flat_map(|group| items(group.get("flavors"))).collect();
    let nominal = sum(flavors, "nominalQuota");
    let mut free = nominal.clone();
    subtract(&mut free, &sum(items(queue.data.pointer("/status/flavorsReservation")), "total"));
    free.values_mut().filter(|amount| amount.is_negative()).for_each(|amount| *amount = Quantity::ZERO);
    (nominal, free)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn offered(selector: Value, labels: Option<&Labels>) -> (Result<usize, &'static str>, bool) {
        let object = |kind: &str, metadata: Value, spec: Value| -> DynamicObject {
            let types = json!({ "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind });
            DynamicObject {
                types: serde_json::from_value(types).unwrap(),
                metadata: serde_json::from_value(metadata).unwrap(),
                data: json!({ "spec": spec }),
            }
        };
        let local = object(
            "LocalQueue",
            json!({ "name": "q", "namespace": "team-a" }),
            json!({ "clusterQueue": "gpus" }),
        );
        let mut spec = json!({ "resourceGroups": [{ "flavors": [
            { "name": "f", "resources": [{ "name": "nvidia.com/gpu", "nominalQuota": 8 }] }] }] });
        if !selector.is_null() {
            spec["namespaceSelector"] = selector;
        }
        let owner = object("ClusterQueue", json!({ "name": "gpus" }), spec);
        assert!(offer(&local, &[], labels).is_none());
        let offer = offer(&local, &[owner], labels).unwrap();
        if let Err(UnknownQuota { reason: "NotSelected", message }) = &offer.quota {
            assert_eq!(message, "ClusterQueue gpus does not select namespace team-a");
        }
        let quota = offer.quota.map(|(nominal, _)| nominal.len()).map_err(|unknown| unknown.reason);
        (quota, offer.admits_nothing)
    }

    #[test]
    fn a_namespace_sees_the_quota_of_cluster_queues_that_select_it_only() {
        let labels = Labels::from([("team".to_owned(), "a".to_owned())]);
        let team = |name: &str| json!({ "matchLabels": { "team": name } });
        let expression =
            json!({ "matchExpressions": [{ "key": "team", "operator": "NotIn", "values": ["a"] }] });
        let (shown, hidden) = ((Ok(1), false), (Err("NotSelected"), true));
        assert_eq!(offered(json!({}), Some(&labels)), shown);
        assert_eq!(offered(json!({}), None), shown, "it selects all, whatever their labels");
        assert_eq!(offered(team("a"), Some(&labels)), shown);
        assert_eq!(offered(team("b"), Some(&labels)), hidden);
        assert_eq!(offered(expression, Some(&labels)), hidden);
        assert_eq!(offered(Value::Null, Some(&labels)), hidden, "without a selector it selects none");
        assert_eq!(offered(Value::Null, None), hidden);
        assert_eq!(offered(team("a"), None), (Err("Unreadable"), false));
    }
}
