//! Whether a pod may run on a node, and if not, why: kube-scheduler's filters that look at a single node. Pure.
//!
//! The reasons are kube-scheduler's own (`pkg/scheduler/framework/plugins/*`, Kubernetes 1.36), because people and
//! programs read them. The order of the filters is upstream's; the first rejection is reported.

use k8s_openapi::api::core::v1::{Pod, PodSpec, Taint};

use super::affinity::AffinityView;
use super::node_rules::{selects, tolerates_all};
use super::resources::Amounts;
use super::snapshot::{HostPort, NodeView};
use super::spread::SpreadView;
use super::unschedulable::Unschedulable;
use super::volumes::VolumeView;
use semantics::tolerates;

const UNSCHEDULABLE_TAINT: &str = "node.kubernetes.io/unschedulable";

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
pub fn filter(question: &Question, node: &NodeView) -> Option<Unschedulable> {
    let of_all = question.volumes.nowhere.clone();
    of_all
        .or_else(|| unschedulable(question.spec, node))
        .or_else(|| untolerated(question.spec, node))
        .or_else(|| other_affinity(question.spec, node))
        .or_else(|| ports_taken(question.ports, node))
        .or_else(|| insufficient(question.requests, node))
        .or_else(|| question.volumes.filter(node))
        .or_else(|| question.spread.filter(node))
        .or_else(|| question.affinity.filter(node))
}

fn unschedulable(spec: &PodSpec, node: &NodeView) -> Option<Unschedulable> {
    let closed = node.node.spec.as_ref().is_some_and(|s| s.unschedulable == Some(true));
    let taint =
        Taint { key: UNSCHEDULABLE_TAINT.into(), effect: "NoSchedule".into(), value: None, time_added: None };
    let tolerated = spec.tolerations.iter().flatten().any(|t| tolerates(t, &taint));
    (closed && !tolerated).then(|| Unschedulable::unresolvable("node(s) were unschedulable"))
}

fn untolerated(spec: &PodSpec, node: &NodeView) -> Option<Unschedulable> {
    // Since 1.34 without the taint's key, so that a node's taints are not disclosed to the pod's owner.
    (!tolerates_all(spec, node, &["NoSchedule", "NoExecute"]))
        .then(|| Unschedulable::unresolvable("node(s) had untolerated taint(s)"))
}

fn other_affinity(spec: &PodSpec, node: &NodeView) -> Option<Unschedulable> {
    (!selects(spec, node))
        .then(|| Unschedulable::unresolvable("node(s) didn't match Pod's node affinity/selector"))
}

fn ports_taken(ports: &[HostPort], node: &NodeView) -> Option<Unschedulable> {
    let clash = |(protocol, address, number): &HostPort| {
        node.ports.iter().any(|(other_protocol, other_address, other_number)| {
            let any = address == "0.0.0.0" || other_address == "0.0.0.0";
            protocol == other_protocol && number == other_number && (any || address == other_address)
        })
    };
    ports
        .iter()
        .any(clash)
        .then(|| Unschedulable::resolvable("node(s) didn't have free ports for the requested pod ports"))
}

fn insufficient(requests: &Amounts, node: &NodeView) -> Option<Unschedulable> {
    let mut reasons = Vec::new();
    let mut unresolvable = false;
    let all = |name: &str| node.allocatable.get(name).copied().unwrap_or(0);
    if i64::try_from(node.pods.len()).unwrap_or(i64::MAX) + 1 > all("pods") {
        reasons.push("Too many pods".to_owned());
    }
    for (name, wanted) in requests.iter().filter(|(_, wanted)| **wanted > 0) {
        let used = node.requested.get(name).copied().unwrap_or(0);
        if *wanted > all(name).saturating_sub(used) {
            reasons.push(format!("Insufficient {name}"));
            unresolvable |= *wanted > all(name);
        }
    }
    (!reasons.is_empty()).then_some(Unschedulable { reasons, unresolvable, of_all: false })
}
