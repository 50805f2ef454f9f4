//! Affinity and anti-affinity between pods. Pure.
//!
//! Rules: `pkg/scheduler/framework/plugins/interpodaffinity` of Kubernetes 1.36. Topology pairs (label key, value) are
//! counted once per pod to place; after that, each node needs only a lookup.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Pod, PodAffinityTerm, WeightedPodAffinityTerm};

use super::snapshot::NodeView;
use super::unschedulable::Unschedulable;
use semantics::labels_match;

/// The labels of each namespace, for `namespaceSelector`.
pub type Namespaces = BTreeMap<String, BTreeMap<String, String>>;

type Pair = (String, String);

/// The constraints that placed pods impose on a pod to place.
#[derive(Debug, Default)]
pub struct AffinityView {
    /// Topology keys of required affinity, each with the values of the topologies where matching pods run.
    near: Vec<(String, BTreeSet<String>)>,
    /// Whether no placed pod matches the affinity but the pod itself does: the first pod of a group may go anywhere.
    first_of_group: bool,
    /// Pairs that the pod's own anti-affinity excludes.
    away: BTreeSet<Pair>,
    /// Pairs that the anti-affinity of placed pods excludes.
    unwelcome: BTreeSet<Pair>,
    /// The preference for each pair.
    preferred: BTreeMap<Pair, i64>,
}

fn required(pod: &Pod, anti: bool) -> impl Iterator<Item = &PodAffinityTerm> {
    let affinity = pod.spec.as_ref().and_then(|s| s.affinity.as_ref());
    let near = affinity.and_then(|a| a.pod_affinity.as_ref()).filter(|_| !anti);
    let away = affinity.and_then(|a| a.pod_anti_affinity.as_ref()).filter(|_| anti);
    let near = near.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
    let away = away.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
    near.into_iter().chain(away).flatten()
}

fn preferred(pod: &Pod, anti: bool) -> impl Iterator<Item = &WeightedPodAffinityTerm> {
    let affinity = pod.spec.as_ref().and_then(|s| s.affinity.as_ref());
    let near = affinity.and_then(|a| a.pod_affinity.as_ref()).filter(|_| !anti);
    let away = affinity.and_then(|a| a.pod_anti_affinity.as_ref()).filter(|_| anti);
    let near = near.and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_ref());
    let away = away.and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_ref());
    near.into_iter().chain(away).flatten()
}

/// Returns whether `other` matches the term of `owner`.
fn fits(term: &PodAffinityTerm, owner: &Pod, other: &Pod, namespaces: &Namespaces) -> bool {
    let empty = BTreeMap::new();
    let own = owner.metadata.namespace.as_deref().unwrap_or("");
    let theirs = other.metadata.namespace.as_deref().unwrap_or("");
    let named = term.namespaces.as_deref().unwrap_or_default();
    let selected = term
        .namespace_selector
        .as_ref()
        .is_some_and(|selector| labels_match(selector, namespaces.get(theirs).unwrap_or(&empty)));
    let default = named.is_empty() && term.namespace_selector.is_none() && own == theirs;
    (default || selected || named.iter().any(|name| name == theirs))
        && term
            .label_selector
            .as_ref()
            .is_some_and(|selector| labels_match(selector, other.metadata.labels.as_ref().unwrap_or(&empty)))
}

fn pair(node: &NodeView, key: &str) -> Option<Pair> {
    Some((key.to_owned(), node.label(key)?.to_owned()))
}

impl AffinityView {
    /// Evaluates every placed pod with respect to `pod`.
    pub fn of(pod: &Pod, nodes: &[NodeView], namespaces: &Namespaces) -> Self {
        let mut view = Self::default();
        let near: Vec<_> = required(pod, false).collect();
        view.near = near.iter().map(|term| (term.topology_key.clone(), BTreeSet::new())).collect();
        for (node, other) in nodes.iter().flat_map(|node| node.pods.iter().map(move |other| (node, other))) {
            if !near.is_empty() && near.iter().all(|term| fits(term, pod, other, namespaces)) {
                for (key, values) in &mut view.near {
                    values.extend(node.label(key).map(str::to_owned));
                }
            }
            let away = required(pod, true).filter(|term| fits(term, pod, other, namespaces));
            view.away.extend(away.filter_map(|term| pair(node, &term.topology_key)));
            let unwelcome = required(other, true).filter(|term| fits(term, other, pod, namespaces));
            view.unwelcome.extend(unwelcome.filter_map(|term| pair(node, &term.topology_key)));
            view.prefer(pod, other, node, namespaces);
        }
        view.first_of_group = !near.is_empty()
            && view.near.iter().all(|(_, values)| values.is_empty())
            && near.iter().all(|term| fits(term, pod, pod, namespaces));
        view
    }

    fn prefer(&mut self, pod: &Pod, other: &Pod, node: &NodeView, namespaces: &Namespaces) {
        for (anti, sign) in [(false, 1), (true, -1)] {
            // Preferences of both pods count.
            for (owner, target) in [(pod, other), (other, pod)] {
                for wish in preferred(owner, anti) {
                    let term = &wish.pod_affinity_term;
                    if fits(term, owner, target, namespaces)
                        && let Some(pair) = pair(node, &term.topology_key)
                    {
                        *self.preferred.entry(pair).or_insert(0) += sign * i64::from(wish.weight);
                    }
                }
            }
        }
    }

    /// Returns why placed pods exclude this node; `None` if they allow it.
    pub fn filter(&self, node: &NodeView) -> Option<Unschedulable> {
        let near = self.near.iter().all(|(key, values)| {
            node.label(key).is_some_and(|value| self.first_of_group || values.contains(value))
        });
        if !near {
            return Some(Unschedulable::unresolvable("node(s) didn't match pod affinity rules"));
        }
        let on =
            |pairs: &BTreeSet<Pair>| pairs.iter().any(|(key, value)| node.label(key) == Some(value.as_str()));
        if on(&self.away) {
            return Some(Unschedulable::resolvable("node(s) didn't match pod anti-affinity rules"));
        }
        on(&self.unwelcome)
            .then(|| Unschedulable::resolvable("node(s) didn't satisfy existing pods anti-affinity rules"))
    }

    /// Returns the sum of the preferences for this node; higher is better.
    pub fn preference(&self, node: &NodeView) -> i64 {
        let here = self.preferred.iter().filter(|((key, value), _)| node.label(key) == Some(value.as_str()));
        here.map(|(_, weight)| weight).sum()
    }
}
