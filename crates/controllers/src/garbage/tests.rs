//! Which objects to check after a change.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ApiResource;
use serde_json::{Value, json};

use super::graph::{Graph, Item};
use controller_runtime::kinds::Served;

fn item(name: &str, owners: &[(&str, bool)], more: Value) -> Item {
    let served = Arc::new(Served {
        resource: ApiResource::erase::<k8s_openapi::api::core::v1::ConfigMap>(&()),
        namespaced: true,
    });
    let owners: Vec<Value> = owners
        .iter()
        .map(|(uid, blocks)| {
            json!({"apiVersion": "v1", "kind": "ConfigMap", "name": uid, "uid": uid, "blockOwnerDeletion": blocks})
        })
        .collect();
    let mut whole = json!({"name": name, "namespace": "n", "uid": name, "ownerReferences": owners});
    json_patch::merge(&mut whole, &more);
    let meta: ObjectMeta = serde_json::from_value(whole).unwrap();
    Item::of(&served, &meta)
}

fn ending(finalizer: &str) -> Value {
    json!({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [finalizer]})
}

#[test]
fn removing_an_owner_leads_to_checks_of_its_dependents() {
    let mut graph = Graph::default();
    assert_eq!(graph.put("owner", item("owner", &[], json!({}))), Vec::<String>::new());
    assert_eq!(graph.put("a", item("a", &[("owner", true)], json!({}))), Vec::<String>::new());
    assert_eq!(graph.put("b", item("b", &[("owner", false)], json!({}))), Vec::<String>::new());
    assert_eq!(graph.blocking("owner"), ["a"]);
    assert_eq!(graph.remove("owner"), ["a", "b"]);
    assert_eq!(graph.put("c", item("c", &[("owner", false)], json!({}))), ["c"], "born without its owner");
    let mut fatherless = graph.fatherless();
    fatherless.sort();
    assert_eq!(fatherless, ["a", "b", "c"]);
}

#[test]
fn a_cycle_is_suspected_if_a_dependent_also_waits() {
    let mut graph = Graph::default();
    graph.put("a", item("a", &[("c", true)], ending("foregroundDeletion")));
    graph.put("b", item("b", &[("a", true)], json!({})));
    graph.put("c", item("c", &[("b", true)], json!({})));
    assert!(graph.may_be_in_circle("c"), "a waits, and is c's dependent");
    assert!(!graph.may_be_in_circle("b"));
}

#[test]
fn an_owner_in_foreground_deletion_is_checked_when_dependents_go() {
    let mut graph = Graph::default();
    graph.put("owner", item("owner", &[], json!({})));
    graph.put("a", item("a", &[("owner", true)], json!({})));
    assert_eq!(graph.put("owner", item("owner", &[], ending("foregroundDeletion"))), ["owner"]);
    assert_eq!(graph.put("owner", item("owner", &[], ending("foregroundDeletion"))), Vec::<String>::new());
    assert_eq!(graph.put("late", item("late", &[("owner", true)], json!({}))), ["late"]);
    assert_eq!(graph.remove("a"), ["owner"]);
    assert_eq!(graph.put("late", item("late", &[], json!({}))), ["owner"], "no longer names it");
    assert_eq!(graph.blocking("owner"), Vec::<String>::new());
}
