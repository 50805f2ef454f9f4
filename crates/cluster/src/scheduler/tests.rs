//! Placements by tables: nodes and pods in, the node's name or the sentence out.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};

use super::affinity::Namespaces;
use super::place::{Placement, place};
use super::snapshot::{NodeView, snapshot};

fn node(name: &str, more: Value) -> Arc<Node> {
    let mut whole = json!({"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {}, "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110", "nvidia.com/gpu": "2"}}});
    json_patch::merge(&mut whole, &more);
    Arc::new(serde_json::from_value(whole).unwrap())
}

fn pod(name: &str, spec: Value) -> Arc<Pod> {
    let mut whole = json!({"containers": [{"name": "c"}]});
    json_patch::merge(&mut whole, &spec);
    let labels = json!({"app": name.split('-').next().unwrap()});
    Arc::new(
        serde_json::from_value(
            json!({"metadata": {"name": name, "namespace": "n", "uid": name, "labels": labels},
            "spec": whole}),
        )
        .unwrap(),
    )
}

fn requests(resources: Value) -> Value {
    json!({"containers": [{"name": "c", "resources": {"requests": resources}}]})
}

fn on(node: &str, mut spec: Value) -> Value {
    spec["nodeName"] = json!(node);
    spec
}

fn outcome(nodes: &[Arc<Node>], there: &[Arc<Pod>], pod: &Pod) -> String {
    let views = snapshot(nodes, there, &BTreeMap::new());
    match place(pod, &views, &Namespaces::new()) {
        Placement::On(position) => views[position].name().to_owned(),
        Placement::Nowhere(why) => why,
    }
}

#[test]
fn resources_are_counted() {
    let gpu = |count: &str| requests(json!({"nvidia.com/gpu": count}));
    let nodes = [node("a", json!({})), node("b", json!({}))];
    for (name, there, asked, expected) in [
        ("it fits", vec![], gpu("2"), "a"),
        ("the other one", vec![pod("x", on("a", gpu("1")))], gpu("2"), "b"),
        (
            "taken by others",
            vec![pod("x", on("a", gpu("1"))), pod("y", on("b", gpu("1")))],
            gpu("2"),
            "0/2 nodes are available: 2 Insufficient nvidia.com/gpu. no new claims to deallocate, preemption: \
             0/2 nodes are available: 2 No preemption victims found for incoming pod.",
        ),
        (
            "more than there is",
            vec![],
            gpu("3"),
            "0/2 nodes are available: 2 Insufficient nvidia.com/gpu. no new claims to deallocate, preemption: \
             0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
        ),
        (
            "two reasons, sorted",
            vec![pod("x", on("a", requests(json!({"cpu": "3", "memory": "7Gi"}))))],
            requests(json!({"cpu": "4", "memory": "7Gi", "example.com/nic": "1"})),
            "0/2 nodes are available: 1 Insufficient cpu, 1 Insufficient memory, 2 Insufficient example.com/nic. \
             no new claims to deallocate, preemption: 0/2 nodes are available: \
             2 Preemption is not helpful for scheduling.",
        ),
        (
            "never preempts",
            vec![],
            json!({"preemptionPolicy": "Never", "containers": gpu("3")["containers"]}),
            "0/2 nodes are available: 2 Insufficient nvidia.com/gpu. no new claims to deallocate, preemption: \
             not eligible due to preemptionPolicy=Never.",
        ),
    ] {
        assert_eq!(outcome(&nodes, &there, &pod("p", asked)), expected, "{name}");
    }
    let small = [node("a", json!({"status": {"allocatable": {"pods": "1"}}}))];
    assert_eq!(
        outcome(&small, &[pod("x", on("a", json!({})))], &pod("p", json!({}))),
        "0/1 nodes are available: 1 Too many pods. no new claims to deallocate, preemption: \
         0/1 nodes are available: 1 No preemption victims found for incoming pod."
    );
    assert_eq!(outcome(&[], &[], &pod("p", json!({}))), "no nodes available to schedule pods");
}

#[test]
fn ended_pods_use_nothing() {
    let mut ended = Pod::clone(&pod("x", on("a", requests(json!({"cpu": "4"})))));
    ended.status = serde_json::from_value(json!({"phase": "Succeeded"})).unwrap();
    let nodes = [node("a", json!({}))];
    assert_eq!(outcome(&nodes, &[Arc::new(ended)], &pod("p", requests(json!({"cpu": "4"})))), "a");
}

#[test]
fn nodes_may_refuse() {
    let why = |reason: &str| {
        format!(
            "0/1 nodes are available: 1 {reason}. no new claims to deallocate, preemption: \
             0/1 nodes are available: 1 Preemption is not helpful for scheduling."
        )
    };
    let tainted = json!({"spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}});
    let zone = |values: Value| {
        json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms":
            [{"matchExpressions": [{"key": "zone", "operator": "In", "values": values}]}]}}}})
    };
    for (name, of_node, of_pod, expected) in [
        ("cordoned", json!({"spec": {"unschedulable": true}}), json!({}), why("node(s) were unschedulable")),
        ("tainted", tainted.clone(), json!({}), why("node(s) had untolerated taint(s)")),
        ("tolerated", tainted, json!({"tolerations": [{"key": "k", "operator": "Exists"}]}), "a".into()),
        (
            "selector",
            json!({}),
            json!({"nodeSelector": {"zone": "x"}}),
            why("node(s) didn't match Pod's node affinity/selector"),
        ),
        ("affinity", json!({"metadata": {"labels": {"zone": "x"}}}), zone(json!(["x"])), "a".into()),
        (
            "other zone",
            json!({"metadata": {"labels": {"zone": "x"}}}),
            zone(json!(["y"])),
            why("node(s) didn't match Pod's node affinity/selector"),
        ),
    ] {
        assert_eq!(outcome(&[node("a", of_node)], &[], &pod("p", of_pod)), expected, "{name}");
    }
}

#[test]
fn host_ports_do_not_clash() {
    let port = |number: i32| json!({"containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": number}]}]});
    let nodes = [node("a", json!({}))];
    let there = [pod("x", on("a", port(8080)))];
    assert_eq!(outcome(&nodes, &there, &pod("p", port(8081))), "a");
    assert_eq!(
        outcome(&nodes, &there, &pod("p", port(8080))),
        "0/1 nodes are available: 1 node(s) didn't have free ports for the requested pod ports. no new claims to \
         deallocate, preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    );
}

fn pod_affinity(kind: &str, app: &str) -> Value {
    json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}}]}}})
}

#[test]
fn pods_seek_and_avoid_each_other() {
    let nodes = [node("a", json!({})), node("b", json!({}))];
    let there = [pod("db-0", on("b", json!({})))];
    let refused = |first: &str, help: &str| {
        format!(
            "0/1 nodes are available: 1 {first}. no new claims to deallocate, preemption: 0/1 nodes are available: 1 {help}."
        )
    };
    assert_eq!(outcome(&nodes, &there, &pod("p", pod_affinity("podAffinity", "db"))), "b");
    assert_eq!(outcome(&nodes, &there, &pod("p", pod_affinity("podAntiAffinity", "db"))), "a");
    assert_eq!(
        outcome(&nodes, &[], &pod("web-0", pod_affinity("podAffinity", "web"))),
        "a",
        "first of its group"
    );
    assert_eq!(
        outcome(&nodes[..1], &there, &pod("p", pod_affinity("podAffinity", "db"))),
        refused("node(s) didn't match pod affinity rules", "Preemption is not helpful for scheduling")
    );
    assert_eq!(
        outcome(&nodes[1..], &there, &pod("p", pod_affinity("podAntiAffinity", "db"))),
        refused(
            "node(s) didn't match pod anti-affinity rules",
            "No preemption victims found for incoming pod"
        )
    );
    let shy = [pod("db-0", on("b", pod_affinity("podAntiAffinity", "web")))];
    assert_eq!(
        outcome(&nodes[1..], &shy, &pod("web-0", json!({}))),
        refused(
            "node(s) didn't satisfy existing pods anti-affinity rules",
            "No preemption victims found for incoming pod"
        )
    );
}

#[test]
fn topology_is_kept_even() {
    let spread = |skew: i32| {
        json!({"topologySpreadConstraints": [{"maxSkew": skew, "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "w"}}}]})
    };
    let nodes = [node("a", json!({})), node("b", json!({"spec": {"unschedulable": true}}))];
    let there = [pod("w-0", on("a", json!({})))];
    assert_eq!(outcome(&nodes, &there, &pod("w-1", spread(2))), "a");
    assert_eq!(
        outcome(&nodes, &there, &pod("w-1", spread(1))),
        "0/2 nodes are available: 1 node(s) didn't match pod topology spread constraints, 1 node(s) were \
         unschedulable. no new claims to deallocate, preemption: 0/2 nodes are available: 1 No preemption victims \
         found for incoming pod, 1 Preemption is not helpful for scheduling."
    );
    let bare = Arc::new(Node {
        metadata: kube::api::ObjectMeta { name: Some("c".into()), ..Default::default() },
        ..Node::default()
    });
    assert!(outcome(&[bare], &[], &pod("w-1", spread(1))).contains("constraints (missing required label)"));
}

#[test]
fn the_emptier_node_is_taken_and_equal_ones_by_name() {
    let mut nodes: Vec<NodeView> =
        snapshot(&[node("c", json!({})), node("a", json!({})), node("b", json!({}))], &[], &BTreeMap::new());
    let mut order = Vec::new();
    for n in 0..6 {
        let pod = pod(&format!("w-{n}"), requests(json!({"cpu": "500m"})));
        let Placement::On(position) = place(&pod, &nodes, &Namespaces::new()) else { panic!() };
        order.push(nodes[position].name().to_owned());
        nodes[position].place(pod);
    }
    assert_eq!(order, ["a", "b", "c", "a", "b", "c"]);
}
