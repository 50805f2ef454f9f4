//! Whether a pod may run on a node, and if not, why: kube-scheduler's filters that look at a single node. Pure.
//!
//! The reasons are kube-scheduler's own (`pkg/scheduler/framework/plugins/*`, Kubernetes 1.36), because people and
//! programs read them. The order of the filters is upstream's; the first refusal is reported.

use k8s_openapi::api::core::v1::{Pod, PodSpec, Taint};

use super::affinity::AffinityView;
use super::resources::Amounts;
use super::snapshot::{HostPort, NodeView};
use super::spread::SpreadView;
use super::volumes::VolumeView;
use semantics::{node_matches, tolerates};

const UNSCHEDULABLE_TAINT: &str = "node.kubernetes.io/unschedulable";

/// Why a node cannot take a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// The reasons, in kube-scheduler's words.
    pub reasons: Vec<String>,
    /// Whether removing other pods from the node would not help (`UnschedulableAndUnresolvable`).
    pub final_: bool,
    /// Whether it applies to all nodes and is reported once (upstream's `PreFilter`).
    pub of_all: bool,
}

impl Refusal {
    /// Creates a refusal with one reason that removing other pods would not resolve.
    pub fn fixed(reason: &str) -> Self {
        Self { reasons: vec![reason.to_owned()], final_: true, of_all: false }
    }

    /// Creates a refusal that applies to all nodes.
    pub fn of_all(reason: &str) -> Self {
        Self { of_all: true, ..Self::fixed(reason) }
    }

    /// Creates a refusal with one reason that other pods cause.
    pub fn by_pods(reason: &str) -> Self {
        Self { reasons: vec![reason.to_owned()], final_: false, of_all: false }
    }
}

/// A pod to place, with the data that filters and scores need.
pub struct Question<'a> {
    /// The pod to place.
    pub pod: &'a Pod,
    /// Its `spec`.
    pub spec: &'a PodSpec,
    /// Its requests.
    pub requests: &'a Amounts,
    /// Its host ports.
    pub ports: &'a [HostPort],
    /// The constraints from other pods.
    pub affinity: &'a AffinityView,
    /// The distribution of its peers.
    pub spread: &'a SpreadView,
    /// The constraints from its volumes.
    pub volumes: &'a VolumeView,
}

/// Returns why the node cannot take the pod; `None` if it can.
pub fn refusal(question: &Question, node: &NodeView) -> Option<Refusal> {
    let of_all = question.volumes.nowhere.clone();
    of_all
        .or_else(|| unschedulable(question.spec, node))
        .or_else(|| untolerated(question.spec, node))
        .or_else(|| other_affinity(question.spec, node))
        .or_else(|| ports_taken(question.ports, node))
        .or_else(|| insufficient(question.requests, node))
        .or_else(|| question.volumes.refusal(node))
        .or_else(|| question.spread.refusal(node))
        .or_else(|| question.affinity.refusal(node))
}

fn unschedulable(spec: &PodSpec, node: &NodeView) -> Option<Refusal> {
    let closed = node.node.spec.as_ref().is_some_and(|s| s.unschedulable == Some(true));
    let taint =
        Taint { key: UNSCHEDULABLE_TAINT.into(), effect: "NoSchedule".into(), value: None, time_added: None };
    let tolerated = spec.tolerations.iter().flatten().any(|t| tolerates(t, &taint));
    (closed && !tolerated).then(|| Refusal::fixed("node(s) were unschedulable"))
}

/// Returns whether the pod tolerates every taint of the node with one of these effects.
pub fn tolerates_all(spec: &PodSpec, node: &NodeView, effects: &[&str]) -> bool {
    let taints = node.node.spec.as_ref().and_then(|s| s.taints.as_deref()).unwrap_or_default();
    taints
        .iter()
        .filter(|taint| effects.contains(&taint.effect.as_str()))
        .all(|taint| spec.tolerations.iter().flatten().any(|t| tolerates(t, taint)))
}

fn untolerated(spec: &PodSpec, node: &NodeView) -> Option<Refusal> {
    // Since 1.34 without the taint's key, so that a node's taints are not disclosed to the pod's owner.
    (!tolerates_all(spec, node, &["NoSchedule", "NoExecute"]))
        .then(|| Refusal::fixed("node(s) had untolerated taint(s)"))
}

/// Returns whether `nodeSelector` and required node affinity allow the node.
pub fn selects(spec: &PodSpec, node: &NodeView) -> bool {
    let empty = std::collections::BTreeMap::new();
    let labels = node.node.metadata.labels.as_ref().unwrap_or(&empty);
    let selector = spec.node_selector.iter().flatten().all(|(key, value)| labels.get(key) == Some(value));
    let required = spec
        .affinity
        .as_ref()
        .and_then(|a| a.node_affinity.as_ref())
        .and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
    selector && required.is_none_or(|required| node_matches(required, node.name(), labels))
}

fn other_affinity(spec: &PodSpec, node: &NodeView) -> Option<Refusal> {
    (!selects(spec, node)).then(|| Refusal::fixed("node(s) didn't match Pod's node affinity/selector"))
}

fn ports_taken(ports: &[HostPort], node: &NodeView) -> Option<Refusal> {
    let clash = |(protocol, address, number): &HostPort| {
        node.ports.iter().any(|(other_protocol, other_address, other_number)| {
            let any = address == "0.0.0.0" || other_address == "0.0.0.0";
            protocol == other_protocol && number == other_number && (any || address == other_address)
        })
    };
    ports
        .iter()
        .any(clash)
        .then(|| Refusal::by_pods("node(s) didn't have free ports for the requested pod ports"))
}

fn insufficient(requests: &Amounts, node: &NodeView) -> Option<Refusal> {
    let mut reasons = Vec::new();
    let mut final_ = false;
    let all = |name: &str| node.allocatable.get(name).copied().unwrap_or(0);
    if i64::try_from(node.pods.len()).unwrap_or(i64::MAX) + 1 > all("pods") {
        reasons.push("Too many pods".to_owned());
    }
    for (name, wanted) in requests.iter().filter(|(_, wanted)| **wanted > 0) {
        let used = node.requested.get(name).copied().unwrap_or(0);
        if *wanted > all(name).saturating_sub(used) {
            reasons.push(format!("Insufficient {name}"));
            final_ |= *wanted > all(name);
        }
    }
    (!reasons.is_empty()).then_some(Refusal { reasons, final_, of_all: false })
}
