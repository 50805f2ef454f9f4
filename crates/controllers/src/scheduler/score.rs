//! Selects the best of the nodes that can take a pod. Pure; of equal nodes the first by name wins.
//!
//! Weights are those of kube-scheduler's default profile (1.36): taints 3, node affinity 2, pod affinity 2, topology
//! spread 2, least allocated 1, balanced 1. Spreading pods of one owner adds weight 1.

use k8s_openapi::api::core::v1::Pod;

use super::filter::Question;
use super::snapshot::NodeView;
use semantics::{term_matches, tolerates};

const FULL: i64 = 100;

/// Returns the position in `nodes` of the best of `fitting`; `None` if `fitting` is empty.
pub fn best(question: &Question, nodes: &[NodeView], fitting: &[usize]) -> Option<usize> {
    let score =
        |raw: &dyn Fn(&NodeView) -> i64| -> Vec<i64> { fitting.iter().map(|i| raw(&nodes[*i])).collect() };
    let taints = reversed(&score(&|node| unwanted_taints(question, node)));
    let affinity = scaled(&score(&|node| node_preference(question, node)));
    let pods = spanned(&score(&|node| question.affinity.preference(node)));
    let spread = reversed(&score(&|node| question.spread.crowding(node).unwrap_or(0)));
    let apart = reversed(&score(&|node| siblings(question.pod, node)));
    let (least, balanced): (Vec<_>, Vec<_>) =
        fitting.iter().map(|i| allocation(question, &nodes[*i])).unzip();
    let total = |n: usize| {
        3 * taints[n] + 2 * affinity[n] + 2 * pods[n] + 2 * spread[n] + apart[n] + least[n] + balanced[n]
    };
    // max_by_key returns the last maximum. Iterate backwards, so that the first name wins.
    (0..fitting.len()).rev().max_by_key(|n| total(*n)).map(|n| fitting[n])
}

/// Scales values to 0..=100 relative to the largest.
fn scaled(raw: &[i64]) -> Vec<i64> {
    let max = raw.iter().copied().max().unwrap_or(0);
    raw.iter().map(|value| if max > 0 { value * FULL / max } else { 0 }).collect()
}

/// Scales values to 0..=100, with the largest becoming 0.
fn reversed(raw: &[i64]) -> Vec<i64> {
    scaled(raw).into_iter().map(|value| FULL - value).collect()
}

/// Scales values to 0..=100 between the smallest and the largest.
fn spanned(raw: &[i64]) -> Vec<i64> {
    let min = raw.iter().copied().min().unwrap_or(0);
    scaled(&raw.iter().map(|value| value - min).collect::<Vec<_>>())
}

fn unwanted_taints(question: &Question, node: &NodeView) -> i64 {
    let taints = node.node.spec.as_ref().and_then(|s| s.taints.as_deref()).unwrap_or_default();
    let unwanted = taints.iter().filter(|taint| {
        taint.effect == "PreferNoSchedule"
            && !question.spec.tolerations.iter().flatten().any(|t| tolerates(t, taint))
    });
    i64::try_from(unwanted.count()).unwrap_or(i64::MAX)
}

fn node_preference(question: &Question, node: &NodeView) -> i64 {
    let empty = std::collections::BTreeMap::new();
    let labels = node.node.metadata.labels.as_ref().unwrap_or(&empty);
    let affinity = question.spec.affinity.as_ref().and_then(|a| a.node_affinity.as_ref());
    let wishes = affinity.and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_deref());
    let met = wishes.unwrap_or_default().iter().filter(|w| term_matches(&w.preference, node.name(), labels));
    met.map(|wish| i64::from(wish.weight)).sum()
}

fn owner(pod: &Pod) -> Option<&str> {
    let owners = pod.metadata.owner_references.as_deref()?;
    owners.iter().find(|o| o.controller == Some(true)).map(|o| o.uid.as_str())
}

fn siblings(pod: &Pod, node: &NodeView) -> i64 {
    let Some(own) = owner(pod) else { return 0 };
    i64::try_from(node.pods.iter().filter(|other| owner(other) == Some(own)).count()).unwrap_or(i64::MAX)
}

/// Scores least allocation, and a balanced use of CPU and memory.
fn allocation(question: &Question, node: &NodeView) -> (i64, i64) {
    let part = |name: &str, assumed: i64, used: i64| -> f64 {
        let all = node.allocatable.get(name).copied().unwrap_or(0);
        let own = question.requests.get(name).copied().filter(|n| *n > 0).unwrap_or(assumed);
        if all <= 0 { 1.0 } else { (to_f64(used.saturating_add(own)) / to_f64(all)).min(1.0) }
    };
    let cpu = part("cpu", super::resources::ASSUMED_MILLICPU, node.assumed.0);
    let memory = part("memory", super::resources::ASSUMED_MEMORY, node.assumed.1);
    (percent(1.0 - f64::midpoint(cpu, memory)), percent(1.0 - (cpu - memory).abs() / 2.0))
}

#[expect(clippy::cast_precision_loss, reason = "a share in percent needs no more than 52 bits")]
fn to_f64(value: i64) -> f64 {
    value as f64
}

#[expect(clippy::cast_possible_truncation, reason = "between 0 and 100")]
fn percent(share: f64) -> i64 {
    (share * 100.0) as i64
}
