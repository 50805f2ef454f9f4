//! The effects of a node's silence on the node and its pods. Pure.
//!
//! Rules: `pkg/controller/nodelifecycle` and `pkg/controller/tainteviction` of Kubernetes 1.36.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition, Pod, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use semantics::tolerates;

const PREFIX: &str = "node.kubernetes.io/";
/// The conditions that become Unknown when a node is lost.
const WATCHED: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];
/// The taints that this controller adds and removes.
const OWN_TAINTS: [&str; 6] =
    ["not-ready", "unreachable", "memory-pressure", "disk-pressure", "pid-pressure", "unschedulable"];

/// Returns the conditions of a lost node; `None` if it has them already.
pub fn lost_conditions(node: &Node, now: Timestamp) -> Option<Vec<NodeCondition>> {
    let mut conditions = node.status.as_ref().and_then(|s| s.conditions.clone()).unwrap_or_default();
    let before = conditions.clone();
    for type_ in WATCHED {
        match conditions.iter_mut().find(|c| c.type_ == type_) {
            Some(known) if known.status == "Unknown" => {}
            Some(known) => {
                known.status = "Unknown".into();
                known.reason = Some("NodeStatusUnknown".into());
                known.message = Some("Kubelet stopped posting node status.".into());
                known.last_transition_time = Some(Time(now));
            }
            None => conditions.push(NodeCondition {
                type_: type_.into(),
                status: "Unknown".into(),
                reason: Some("NodeStatusNeverUpdated".into()),
                message: Some("Kubelet never posted node status.".into()),
                last_heartbeat_time: node.metadata.creation_timestamp.clone(),
                last_transition_time: Some(Time(now)),
            }),
        }
    }
    (conditions != before).then_some(conditions)
}

/// Returns the node's taints: those that its conditions and `unschedulable` require, and those of other owners. Returns
/// `None` if nothing changes.
pub fn taints(node: &Node, now: Timestamp) -> Option<Vec<Taint>> {
    let spec = node.spec.clone().unwrap_or_default();
    let known = spec.taints.unwrap_or_default();
    let condition = |type_: &str| {
        let list = node.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
        list.iter().find(|c| c.type_ == type_).map_or("", |c| c.status.as_str())
    };
    let mut wanted: Vec<(&str, &str)> = Vec::new();
    match condition("Ready") {
        "Unknown" => wanted.extend([("unreachable", "NoSchedule"), ("unreachable", "NoExecute")]),
        "False" => wanted.extend([("not-ready", "NoSchedule"), ("not-ready", "NoExecute")]),
        _ => {}
    }
    for (type_, key) in [
        ("MemoryPressure", "memory-pressure"),
        ("DiskPressure", "disk-pressure"),
        ("PIDPressure", "pid-pressure"),
    ] {
        if condition(type_) == "True" {
            wanted.push((key, "NoSchedule"));
        }
    }
    if spec.unschedulable == Some(true) {
        wanted.push(("unschedulable", "NoSchedule"));
    }
    let is_own = |t: &Taint| t.key.strip_prefix(PREFIX).is_some_and(|key| OWN_TAINTS.contains(&key));
    let mut next: Vec<Taint> = known.iter().filter(|t| !is_own(t)).cloned().collect();
    for (key, effect) in wanted {
        let key = format!("{PREFIX}{key}");
        let there = known.iter().find(|t| t.key == key && t.effect == effect);
        next.push(there.cloned().unwrap_or_else(|| Taint {
            key,
            effect: effect.into(),
            value: None,
            time_added: Some(Time(now)),
        }));
    }
    let same = next.len() == known.len() && next.iter().all(|t| known.contains(t));
    (!same).then_some(next)
}

/// Returns how much longer the pod may stay on the node; `None` if forever.
pub fn eviction(pod: &Pod, node: &Node, now: Timestamp) -> Option<Duration> {
    let taints = node.spec.as_ref().and_then(|s| s.taints.as_deref()).unwrap_or_default();
    let tolerations = pod.spec.as_ref().and_then(|s| s.tolerations.as_deref()).unwrap_or_default();
    let mut stay: Option<Duration> = None;
    for taint in taints.iter().filter(|t| t.effect == "NoExecute") {
        let fitting: Vec<_> = tolerations.iter().filter(|t| tolerates(t, taint)).collect();
        if fitting.is_empty() {
            return Some(Duration::ZERO);
        }
        let Some(seconds) = fitting.iter().filter_map(|t| t.toleration_seconds).min() else { continue };
        let limit = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        let since = taint.time_added.as_ref().map_or(now, |t| t.0);
        let passed = Duration::try_from(now.duration_since(since)).unwrap_or_default();
        let left = limit.saturating_sub(passed);
        stay = Some(stay.map_or(left, |known| known.min(left)));
    }
    stay
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn node(ready: &str, more: Value) -> Node {
        let mut whole = json!({"metadata": {"name": "n"}, "spec": {},
            "status": {"conditions": [{"type": "Ready", "status": ready}]}});
        json_patch::merge(&mut whole, &more);
        serde_json::from_value(whole).unwrap()
    }

    fn names(taints: Option<Vec<Taint>>) -> String {
        taints.map_or_else(
            || "same".into(),
            |list| list.iter().map(|t| format!("{}:{}", t.key, t.effect)).collect::<Vec<_>>().join(" "),
        )
    }

    #[test]
    fn a_lost_node_is_marked_once() {
        let mut lost = node("True", json!({}));
        let conditions = lost_conditions(&lost, at(9)).unwrap();
        let text: Vec<String> = conditions
            .iter()
            .map(|c| format!("{}={} {}", c.type_, c.status, c.reason.as_deref().unwrap()))
            .collect();
        assert_eq!(text[0], "Ready=Unknown NodeStatusUnknown");
        assert_eq!(text[1], "MemoryPressure=Unknown NodeStatusNeverUpdated");
        lost.status.as_mut().unwrap().conditions = Some(conditions);
        assert_eq!(lost_conditions(&lost, at(10)), None);
    }

    #[test]
    fn taints_follow_conditions() {
        let foreign = json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}});
        let stale =
            json!({"spec": {"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]}});
        for (node, expected) in [
            (node("True", json!({})), "same"),
            (node("True", foreign.clone()), "same"),
            (node("True", stale), ""),
            (
                node("Unknown", foreign),
                "k:NoSchedule node.kubernetes.io/unreachable:NoSchedule node.kubernetes.io/unreachable:NoExecute",
            ),
            (
                node("False", json!({})),
                "node.kubernetes.io/not-ready:NoSchedule node.kubernetes.io/not-ready:NoExecute",
            ),
            (
                node("True", json!({"spec": {"unschedulable": true}})),
                "node.kubernetes.io/unschedulable:NoSchedule",
            ),
        ] {
            assert_eq!(names(taints(&node, at(9))), expected);
        }
    }

    #[test]
    fn pods_stay_as_long_as_they_tolerate_it() {
        let tainted = node(
            "Unknown",
            json!({"spec": {"taints": [{"key": "node.kubernetes.io/unreachable",
            "effect": "NoExecute", "timeAdded": "1970-01-01T00:01:40Z"}]}}),
        );
        let pod = |tolerations: Value| -> Pod {
            serde_json::from_value(
                json!({"metadata": {}, "spec": {"containers": [], "tolerations": tolerations}}),
            )
            .unwrap()
        };
        let toleration = |seconds: Value| {
            json!([{"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute",
                "tolerationSeconds": seconds}])
        };
        let left = |pod: Pod, node: &Node| eviction(&pod, node, at(110)).map(|d| d.as_secs());
        assert_eq!(left(pod(json!([])), &tainted), Some(0));
        assert_eq!(left(pod(toleration(json!(30))), &tainted), Some(20));
        assert_eq!(left(pod(toleration(json!(5))), &tainted), Some(0));
        assert_eq!(left(pod(toleration(json!(null))), &tainted), None);
        assert_eq!(left(pod(json!([])), &node("True", json!({}))), None);
    }
}
