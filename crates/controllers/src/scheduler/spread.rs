//! `topologySpreadConstraints`. Pure.
//!
//! Rules: `pkg/scheduler/framework/plugins/podtopologyspread` of Kubernetes 1.36.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Pod, TopologySpreadConstraint};

use super::node_rules::{selects, tolerates_all};
use super::snapshot::NodeView;
use super::unschedulable::Unschedulable;
use semantics::labels_match;

/// The distribution of a pod's peers over the topologies in its constraints.
#[derive(Debug, Default)]
pub struct SpreadView {
    hard: Vec<Constraint>,
    soft: Vec<Constraint>,
}

#[derive(Debug)]
struct Constraint {
    key: String,
    max_skew: i64,
    /// 1 if the pod itself counts where it is placed, otherwise 0.
    own: i64,
    least: i64,
    peers: BTreeMap<String, i64>,
}

impl SpreadView {
    /// Counts the peers of `pod`.
    pub fn of(pod: &Pod, nodes: &[NodeView]) -> Self {
        let constraints = pod.spec.as_ref().and_then(|s| s.topology_spread_constraints.as_deref());
        let mut view = Self::default();
        for constraint in constraints.unwrap_or_default() {
            let hard = constraint.when_unsatisfiable != "ScheduleAnyway";
            let counted = count(constraint, pod, nodes);
            if hard { view.hard.push(counted) } else { view.soft.push(counted) }
        }
        view
    }

    /// Returns which hard constraint the node violates; `None` if it violates none.
    pub fn filter(&self, node: &NodeView) -> Option<Unschedulable> {
        self.hard.iter().find_map(|constraint| {
            let Some(value) = node.label(&constraint.key) else {
                return Some(Unschedulable::unresolvable(
                    "node(s) didn't match pod topology spread constraints (missing required label)",
                ));
            };
            let here = constraint.peers.get(value).copied().unwrap_or(0);
            let skew = here + constraint.own - constraint.least;
            (skew > constraint.max_skew)
                .then(|| Unschedulable::resolvable("node(s) didn't match pod topology spread constraints"))
        })
    }

    /// Returns how many peers the soft constraints count around this node; lower is better. Returns `None` without soft
    /// constraints.
    pub fn crowding(&self, node: &NodeView) -> Option<i64> {
        let here =
            |c: &Constraint| node.label(&c.key).and_then(|value| c.peers.get(value)).copied().unwrap_or(0);
        (!self.soft.is_empty()).then(|| self.soft.iter().map(here).sum())
    }
}

fn count(constraint: &TopologySpreadConstraint, pod: &Pod, nodes: &[NodeView]) -> Constraint {
    let empty = BTreeMap::new();
    let own_labels = pod.metadata.labels.as_ref().unwrap_or(&empty);
    let same = constraint.match_label_keys.as_deref().unwrap_or_default();
    let is_peer = |labels: &BTreeMap<String, String>| {
        constraint.label_selector.as_ref().is_some_and(|selector| labels_match(selector, labels))
            && same.iter().all(|key| labels.get(key) == own_labels.get(key))
    };
    let mut peers: BTreeMap<String, i64> = BTreeMap::new();
    let mut domains = BTreeSet::new();
    for node in nodes.iter().filter(|node| is_eligible(constraint, pod, node)) {
        let Some(value) = node.label(&constraint.topology_key) else { continue };
        domains.insert(value.to_owned());
        let here = node.pods.iter().filter(|other| {
            other.metadata.namespace == pod.metadata.namespace
                && other.metadata.deletion_timestamp.is_none()
                && is_peer(other.metadata.labels.as_ref().unwrap_or(&empty))
        });
        *peers.entry(value.to_owned()).or_insert(0) += i64::try_from(here.count()).unwrap_or(i64::MAX);
    }
    let wanted = usize::try_from(constraint.min_domains.unwrap_or(1)).unwrap_or(1);
    let least = if domains.len() < wanted { 0 } else { peers.values().copied().min().unwrap_or(0) };
    Constraint {
        key: constraint.topology_key.clone(),
        max_skew: i64::from(constraint.max_skew),
        own: i64::from(is_peer(own_labels)),
        least,
        peers,
    }
}

fn is_eligible(constraint: &TopologySpreadConstraint, pod: &Pod, node: &NodeView) -> bool {
    let Some(spec) = &pod.spec else { return true };
    let by_affinity = constraint.node_affinity_policy.as_deref() != Some("Ignore");
    let by_taints = constraint.node_taints_policy.as_deref() == Some("Honor");
    (!by_affinity || selects(spec, node))
        && (!by_taints || tolerates_all(spec, node, &["NoSchedule", "NoExecute"]))
}
