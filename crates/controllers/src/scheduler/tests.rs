//! Table tests of placements: input is nodes and pods, output the node's name or the message.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::{Value, json};

use super::affinity::Namespaces;
use super::gang::{Gang, GangDecision, judge};
use super::membership::{Engine, Membership};
use super::place::{Placement, Surroundings, fit_error, place};
use super::preempt::preempt;
use super::snapshot::{NodeView, snapshot};
use super::volumes::Storage;

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

/// Returns the node's name with the victims, or the message why the pod fits nowhere.
fn outcome(nodes: &[Arc<Node>], there: &[Arc<Pod>], pod: &Pod) -> String {
    outcome_with(nodes, there, pod, &[])
}

fn outcome_with(
    nodes: &[Arc<Node>],
    there: &[Arc<Pod>],
    pod: &Pod,
    budgets: &[Arc<PodDisruptionBudget>],
) -> String {
    let views = snapshot(nodes, there, &BTreeMap::new());
    let (namespaces, storage) = (Namespaces::new(), Storage::default());
    let around = Surroundings { namespaces: &namespaces, storage: &storage };
    let rejections = match place(pod, &views, around) {
        Placement::On(position) => return views[position].name().to_owned(),
        Placement::Nowhere(rejections) => rejections,
    };
    match preempt(pod, &views, &rejections, budgets, around) {
        Err(help) => fit_error(&rejections, &help),
        Ok(candidate) => {
            let victims: Vec<&str> =
                candidate.victims.iter().map(|v| v.metadata.name.as_deref().unwrap()).collect();
            format!("{} without {}", views[candidate.position].name(), victims.join(" "))
        }
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
fn pod_affinity_and_anti_affinity_are_respected() {
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
fn pods_are_spread_over_topologies() {
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
fn the_emptier_node_wins_and_ties_are_broken_by_name() {
    let mut nodes: Vec<NodeView> =
        snapshot(&[node("c", json!({})), node("a", json!({})), node("b", json!({}))], &[], &BTreeMap::new());
    let mut order = Vec::new();
    for n in 0..6 {
        let pod = pod(&format!("w-{n}"), requests(json!({"cpu": "500m"})));
        let (namespaces, storage) = (Namespaces::new(), Storage::default());
        let around = Surroundings { namespaces: &namespaces, storage: &storage };
        let Placement::On(position) = place(&pod, &nodes, around) else { panic!() };
        order.push(nodes[position].name().to_owned());
        nodes[position].place(pod);
    }
    assert_eq!(order, ["a", "b", "c", "a", "b", "c"]);
}

/// A pod that requests `gpus` GPUs, with a priority, that started at this second.
fn ranked(name: &str, node: &str, gpus: &str, priority: i32, second: i64) -> Arc<Pod> {
    let mut spec = requests(json!({"nvidia.com/gpu": gpus}));
    spec["priority"] = json!(priority);
    if !node.is_empty() {
        spec["nodeName"] = json!(node);
    }
    let mut pod = Pod::clone(&pod(name, spec));
    let since = jiff::Timestamp::from_second(second).unwrap();
    pod.status = serde_json::from_value(json!({"phase": "Running", "startTime": since})).unwrap();
    Arc::new(pod)
}

#[test]
fn the_least_important_pods_are_preempted() {
    let nodes = [node("a", json!({})), node("b", json!({}))];
    let low_on_b = ranked("low", "b", "2", 5, 0);
    let late = ranked("late", "a", "1", 5, 9);
    for (name, there, asked, expected) in [
        (
            "lower priority",
            vec![ranked("x", "a", "2", 9, 0), low_on_b.clone()],
            ranked("p", "", "1", 6, 0),
            "b without low",
        ),
        (
            "the lowest highest victim",
            vec![ranked("x", "a", "2", 7, 0), low_on_b.clone()],
            ranked("p", "", "1", 8, 0),
            "b without low",
        ),
        (
            "as few as needed, the least important",
            vec![ranked("early", "a", "1", 5, 1), late.clone(), ranked("x", "b", "2", 9, 0)],
            ranked("p", "", "1", 6, 0),
            "a without late",
        ),
        (
            "fewer victims of one priority",
            vec![ranked("early", "a", "1", 5, 1), late, low_on_b.clone()],
            ranked("p", "", "2", 6, 0),
            "b without low",
        ),
        (
            "those that began last, of equals",
            vec![ranked("early", "a", "2", 5, 1), ranked("later", "b", "2", 5, 8)],
            ranked("p", "", "2", 6, 0),
            "b without later",
        ),
        (
            "nobody of the same priority",
            vec![ranked("x", "a", "2", 6, 0), ranked("y", "b", "1", 6, 0), ranked("z", "b", "1", 5, 0)],
            ranked("p", "", "2", 6, 0),
            "0/2 nodes are available: 2 Insufficient nvidia.com/gpu. no new claims to deallocate, preemption: 0/2 nodes \
             are available: 1 Insufficient nvidia.com/gpu, 1 No preemption victims found for incoming pod.",
        ),
    ] {
        assert_eq!(outcome(&nodes, &there, &asked), expected, "{name}");
    }
}

#[test]
fn pods_under_a_budget_are_spared_first() {
    let nodes = [node("a", json!({})), node("b", json!({}))];
    let there = [ranked("kept-0", "a", "2", 1, 0), ranked("other-0", "b", "2", 5, 0)];
    let budget = |allowed: i32| -> Arc<PodDisruptionBudget> {
        Arc::new(
            serde_json::from_value(json!({"metadata": {"name": "b", "namespace": "n"},
                "spec": {"selector": {"matchLabels": {"app": "kept"}}},
                "status": {"disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}}))
            .unwrap(),
        )
    };
    let asked = ranked("p", "", "2", 6, 0);
    assert_eq!(outcome_with(&nodes, &there, &asked, &[budget(1)]), "a without kept-0");
    assert_eq!(outcome_with(&nodes, &there, &asked, &[budget(0)]), "b without other-0");
    assert_eq!(
        outcome_with(&nodes[..1], &there[..1], &asked, &[budget(0)]),
        "a without kept-0",
        "no other way"
    );
}

#[test]
fn a_pod_waiting_for_its_victims_clears_no_other_node() {
    let nodes = [node("a", json!({})), node("b", json!({}))];
    let mut leaving = Pod::clone(&ranked("x", "a", "2", 1, 0));
    leaving.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    leaving.status.as_mut().unwrap().conditions = serde_json::from_value(
        json!([{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]),
    )
    .unwrap();
    let mut asked = Pod::clone(&ranked("p", "", "2", 6, 0));
    asked.status = serde_json::from_value(json!({"nominatedNodeName": "a"})).unwrap();
    let there = [Arc::new(leaving), ranked("y", "b", "2", 1, 0)];
    assert_eq!(
        outcome(&nodes, &there, &asked),
        "0/2 nodes are available: 2 Insufficient nvidia.com/gpu. no new claims to deallocate, preemption: not eligible \
         due to a terminating pod on the nominated node."
    );
}

/// Returns the result for a gang: `w-0@a w-1@b`, with `!` if room is only held, or the members' messages.
fn gang_outcome(
    engine: Engine,
    min_member: usize,
    nodes: &[Arc<Node>],
    there: &[Arc<Pod>],
    waiting: &[Arc<Pod>],
) -> Vec<String> {
    let views = snapshot(nodes, there, &BTreeMap::new());
    let (namespaces, storage) = (Namespaces::new(), Storage::default());
    let around = Surroundings { namespaces: &namespaces, storage: &storage };
    let of = Membership { engine, key: controller_runtime::cache::Key::new("n", "train") };
    let name = |pod: &Pod| pod.metadata.name.clone().unwrap();
    match judge(&Gang { of: &of, min_member, settled: 0, waiting }, &views, &[], around) {
        GangDecision::Bind { placed, rest } => placed
            .iter()
            .map(|(pod, position)| format!("{}@{}", name(pod), views[*position].name()))
            .chain(rest.iter().map(|pod| format!("{} not", name(pod))))
            .collect(),
        GangDecision::Clear { nominated, victims, .. } => nominated
            .iter()
            .map(|(pod, position)| format!("{}!{}", name(pod), views[*position].name()))
            .chain(victims.iter().flat_map(|c| &c.victims).map(|pod| format!("without {}", name(pod))))
            .collect(),
        GangDecision::Wait { told, why, .. } => {
            told.iter().map(|(pod, why)| format!("{}: {why}", name(pod))).chain([why]).collect()
        }
    }
}

#[test]
fn a_gang_is_placed_together_or_not_at_all() {
    let nodes = [node("a", json!({})), node("b", json!({}))];
    let members = |count: usize, priority: i32| -> Vec<Arc<Pod>> {
        (0..count).map(|n| ranked(&format!("w-{n}"), "", "2", priority, 0)).collect()
    };
    let taken = [ranked("x", "a", "2", 5, 0)];
    assert_eq!(gang_outcome(Engine::Volcano, 2, &nodes, &[], &members(2, 0)), ["w-0@a", "w-1@b"]);
    assert_eq!(gang_outcome(Engine::Volcano, 2, &nodes, &[], &members(3, 0)), ["w-0@a", "w-1@b", "w-2 not"]);
    let full = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu. no new claims to deallocate, preemption: \
                0/2 nodes are available: 2 No preemption victims found for incoming pod.";
    assert_eq!(
        gang_outcome(Engine::Volcano, 2, &nodes, &taken, &members(2, 0)),
        [
            format!("w-1: {full}"),
            "w-0: pod group is not ready, 2 Pending, 2 minAvailable; Pending: 1 Schedulable, 1 Unschedulable"
                .into(),
            "1/2 tasks in gang unschedulable: pod group is not ready, 2 Pending, 2 minAvailable; Pending: \
             1 Schedulable, 1 Unschedulable"
                .into()
        ]
    );
    let plugins = gang_outcome(Engine::Plugins, 2, &nodes, &taken, &members(2, 0));
    assert_eq!(
        plugins[1],
        "w-0: PodGroup n/train gets rejected due to Pod w-1 is unschedulable even after PostFilter"
    );
    assert_eq!(
        gang_outcome(Engine::Plugins, 3, &nodes, &[], &members(1, 0))[0],
        "w-0: 0/2 nodes are available: pre-filter pod w-0 cannot find enough sibling pods, current pods number: 1, \
         minMember of group: 3."
    );
    assert_eq!(
        gang_outcome(Engine::Volcano, 3, &nodes, &[], &members(1, 0))[0],
        "w-0: pod group is not ready, 1 Pending, 3 minAvailable"
    );
    assert_eq!(
        gang_outcome(Engine::Volcano, 2, &nodes, &taken, &members(2, 6)),
        ["w-0!b", "w-1!a", "without x"],
        "all of it is worth more than the one that is there"
    );
    let stays = [ranked("x", "a", "2", 5, 0), ranked("y", "b", "2", 9, 0)];
    let half = gang_outcome(Engine::Volcano, 2, &nodes, &stays, &members(2, 6));
    assert!(
        half.iter().all(|line| !line.contains("without")),
        "nobody is pushed aside for half a gang: {half:?}"
    );
}

#[test]
fn pods_bound_by_hand_may_ask_for_more_than_can_be_counted() {
    let huge = || on("a", requests(json!({"memory": "8Ei", "cpu": "8E"})));
    let there = [pod("x-0", huge()), pod("x-1", huge()), pod("x-2", huge())];
    let wanted = pod("p", requests(json!({"memory": "1Gi"})));
    let nodes = [node("a", json!({})), node("b", json!({}))];
    assert_eq!(outcome(&nodes, &there, &wanted), "b");
}
