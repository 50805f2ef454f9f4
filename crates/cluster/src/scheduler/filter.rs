//! May this pod run on this node, and if not, why: the filters of kube-scheduler that look at one node. Pure.
//!
//! Reasons are kube-scheduler's own words (`pkg/scheduler/framework/plugins/*`, Kubernetes 1.36): people and programs
//! read them. Order is upstream's; the first filter that refuses speaks.

use k8s_openapi::api::core::v1::{Pod, PodSpec, Taint};

use super::affinity::AffinityView;
use super::resources::Amounts;
use super::selectors::{node_matches, tolerates};
use super::snapshot::{HostPort, NodeView};
use super::spread::SpreadView;
use super::volumes::VolumeView;

const UNSCHEDULABLE_TAINT: &str = "node.kubernetes.io/unschedulable";

/// Why a node cannot take a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// In kube-scheduler's words.
    pub reasons: Vec<String>,
    /// Removing other pods from the node would not help (`UnschedulableAndUnresolvable`).
    pub final_: bool,
    /// It holds for every node alike and is said once (upstream's `PreFilter`).
    pub of_all: bool,
}

impl Refusal {
    /// One reason; removing other pods would not help.
    pub fn fixed(reason: &str) -> Self {
        Self { reasons: vec![reason.to_owned()], final_: true, of_all: false }
    }

    /// No node will do, whatever it is like.
    pub fn of_all(reason: &str) -> Self {
        Self { of_all: true, ..Self::fixed(reason) }
    }

    /// One reason that other pods cause.
    pub fn by_pods(reason: &str) -> Self {
        Self { reasons: vec![reason.to_owned()], final_: false, of_all: false }
    }
}

/// What all nodes are asked on behalf of one pod.
pub struct Question<'a> {
    /// The pod to place.
    pub pod: &'a Pod,
    /// Its `spec`.
    pub spec: &'a PodSpec,
    /// Its requests.
    pub requests: &'a Amounts,
    /// Its host ports.
    pub ports: &'a [HostPort],
    /// What pods elsewhere mean for it.
    pub affinity: &'a AffinityView,
    /// How its peers are spread.
    pub spread: &'a SpreadView,
    /// Where its volumes are.
    pub volumes: &'a VolumeView,
}

/// None: the node can take the pod.
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

/// The pod tolerates every taint of the node that has one of these effects.
pub fn tolerates_all(spec: &PodSpec, node: &NodeView, effects: &[&str]) -> bool {
    let taints = node.node.spec.as_ref().and_then(|s| s.taints.as_deref()).unwrap_or_default();
    taints
        .iter()
        .filter(|taint| effects.contains(&taint.effect.as_str()))
        .all(|taint| spec.tolerations.iter().flatten().any(|t| tolerates(t, taint)))
}

fn untolerated(spec: &PodSpec, node: &NodeView) -> Option<Refusal> {
    // Since 1.34 without the taint's key: a node's taints are not the pod owner's business.
    (!tolerates_all(spec, node, &["NoSchedule", "NoExecute"]))
        .then(|| Refusal::fixed("node(s) had untolerated taint(s)"))
}

/// `nodeSelector` and required node affinity allow the node.
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
