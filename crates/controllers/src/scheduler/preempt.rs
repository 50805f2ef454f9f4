//! Selects the node where preemption costs least, and the pods to preempt. Pure.
//!
//! Rules: `pkg/scheduler/framework/plugins/defaultpreemption` and `pkg/scheduler/framework/preemption` of Kubernetes
//! 1.36. Only pods of lower priority are victims. Pods whose disruption budget would be violated are spared first, then
//! the more important ones. The node is chosen by the criteria of `pickOneNodeForPreemption`.

use std::cmp::Reverse;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;

use super::order::priority;
use super::place::{Help, Surroundings, filter_at, nominated_node};
use super::snapshot::NodeView;
use super::unschedulable::Unschedulable;
use semantics::labels_match;

/// The `reason` of the condition `DisruptionTarget` on a preempted pod.
pub const BY_SCHEDULER: &str = "PreemptionByScheduler";
/// The reason for a pod whose victims are terminating; its room is held.
pub const TERMINATING: &str = "not eligible due to a terminating pod on the nominated node.";
const NOT_HELPFUL: &str = "Preemption is not helpful for scheduling";
const NO_VICTIMS: &str = "No preemption victims found for incoming pod";

/// A node and the pods that must leave it.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The node's position in the snapshot.
    pub position: usize,
    /// The victims, most important first; never empty.
    pub victims: Vec<Arc<Pod>>,
    /// The number of victims whose disruption budget is violated.
    violations: usize,
}

/// Selects the node where preemption for `pod` costs least, or returns why preemption does not help. `rejections` are the
/// nodes' rejections.
pub fn preempt(
    pod: &Pod,
    nodes: &[NodeView],
    rejections: &[Unschedulable],
    budgets: &[Arc<PodDisruptionBudget>],
    around: Surroundings,
) -> Result<Candidate, Help> {
    if let Some(reason) = ineligible(pod, nodes) {
        return Err(Help::NotEligible(reason));
    }
    let mut trial = nodes.to_vec();
    let mut candidates = Vec::new();
    let mut reasons = Vec::new();
    for (position, rejection) in rejections.iter().enumerate() {
        if rejection.unresolvable {
            reasons.push(vec![NOT_HELPFUL.to_owned()]);
            continue;
        }
        match victims_on(pod, &mut trial, position, budgets, around) {
            Ok(candidate) => candidates.push(candidate),
            Err(why) => reasons.push(why),
        }
        trial[position].clone_from(&nodes[position]);
    }
    candidates.into_iter().min_by_key(cost).ok_or(Help::None(reasons))
}

/// Returns why the pod may not preempt others (`PodEligibleToPreemptOthers`).
fn ineligible(pod: &Pod, nodes: &[NodeView]) -> Option<&'static str> {
    if pod.spec.as_ref().and_then(|s| s.preemption_policy.as_deref()) == Some("Never") {
        return Some("not eligible due to preemptionPolicy=Never.");
    }
    let nominated = nominated_node(pod)?;
    let node = nodes.iter().find(|node| node.name() == nominated)?;
    node.pods
        .iter()
        .any(|other| priority(other) < priority(pod) && is_leaving_for_another(other))
        .then_some(TERMINATING)
}

fn is_leaving_for_another(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
    pod.metadata.deletion_timestamp.is_some()
        && conditions.iter().any(|c| {
            c.type_ == "DisruptionTarget" && c.status == "True" && c.reason.as_deref() == Some(BY_SCHEDULER)
        })
}

/// Returns the fewest and least important pods to remove from the node (`SelectVictimsOnNode`). Leaves
/// `nodes[position]` in an unspecified state.
fn victims_on(
    pod: &Pod,
    nodes: &mut [NodeView],
    position: usize,
    budgets: &[Arc<PodDisruptionBudget>],
    around: Surroundings,
) -> Result<Candidate, Vec<String>> {
    let own = priority(pod);
    let (mut lower, stay): (Vec<_>, Vec<_>) =
        nodes[position].pods.iter().cloned().partition(|other| priority(other) < own);
    if lower.is_empty() {
        return Err(vec![NO_VICTIMS.to_owned()]);
    }
    nodes[position] = nodes[position].with_pods(stay);
    if let Some(rejection) = filter_at(pod, nodes, position, around) {
        return Err(rejection.reasons);
    }
    lower.sort_by_key(|other| (Reverse(priority(other)), start_time(other)));
    let (violating, others) = by_budget(lower, budgets);
    let (mut victims, mut violations) = (Vec::new(), 0);
    let kept_by_budget = violating.len();
    for (index, other) in violating.into_iter().chain(others).enumerate() {
        let without = nodes[position].clone();
        nodes[position].place(other.clone());
        if filter_at(pod, nodes, position, around).is_some() {
            nodes[position] = without;
            victims.push(other);
            violations += usize::from(index < kept_by_budget);
        }
    }
    if victims.is_empty() {
        // No victim is needed: the pod fits once this cycle's other placements are done.
        return Err(vec![NO_VICTIMS.to_owned()]);
    }
    victims.sort_by_key(|victim| (Reverse(priority(victim)), start_time(victim)));
    Ok(Candidate { position, victims, violations })
}

/// Returns when the pod started; a pod that has not started counts as the youngest.
fn start_time(pod: &Pod) -> Timestamp {
    pod.status.as_ref().and_then(|s| s.start_time.as_ref()).map_or(Timestamp::MAX, |t| t.0)
}

/// Splits pods into those whose removal would violate a budget, and the others. Keeps the order
/// (`filterPodsWithPDBViolation`).
fn by_budget(pods: Vec<Arc<Pod>>, budgets: &[Arc<PodDisruptionBudget>]) -> (Vec<Arc<Pod>>, Vec<Arc<Pod>>) {
    let allowed = |budget: &PodDisruptionBudget| {
        budget.status.as_ref().and_then(|s| s.disruptions_allowed).unwrap_or(0)
    };
    let mut left: Vec<i32> = budgets.iter().map(|budget| allowed(budget)).collect();
    pods.into_iter().partition(|pod| {
        let mut violated = false;
        for (index, budget) in budgets.iter().enumerate() {
            if covers(budget, pod) && !is_counted_already(budget, pod) {
                left[index] = left[index].saturating_sub(1);
                violated |= left[index] < 0;
            }
        }
        violated
    })
}

/// Returns whether the budget's selector, which must not be empty, matches the pod.
pub fn covers(budget: &PodDisruptionBudget, pod: &Pod) -> bool {
    let selector = budget.spec.as_ref().and_then(|s| s.selector.as_ref());
    let labels = pod.metadata.labels.as_ref().filter(|labels| !labels.is_empty());
    let (Some(selector), Some(labels)) = (selector, labels) else { return false };
    let empty = selector.match_labels.as_ref().is_none_or(std::collections::BTreeMap::is_empty)
        && selector.match_expressions.as_ref().is_none_or(Vec::is_empty);
    budget.metadata.namespace == pod.metadata.namespace && !empty && labels_match(selector, labels)
}

fn is_counted_already(budget: &PodDisruptionBudget, pod: &Pod) -> bool {
    let disrupted = budget.status.as_ref().and_then(|s| s.disrupted_pods.as_ref());
    disrupted.is_some_and(|pods| pods.contains_key(pod.metadata.name.as_deref().unwrap_or("")))
}

/// Returns the cost of a candidate, by the criteria of `pickOneNodeForPreemption`. Ties are broken by the order of
/// nodes.
fn cost(candidate: &Candidate) -> (usize, i32, i64, usize, Reverse<Timestamp>, usize) {
    let highest = candidate.victims.first().map_or(0, |victim| priority(victim));
    // Shifted, so that a few pods of negative priority do not cost more than many.
    let sum = candidate.victims.iter().map(|v| i64::from(priority(v)) + i64::from(i32::MAX) + 1).sum();
    let first = candidate.victims.iter().filter(|v| priority(v) == highest).map(|v| start_time(v)).min();
    let earliest = first.unwrap_or(Timestamp::MIN);
    (candidate.violations, highest, sum, candidate.victims.len(), Reverse(earliest), candidate.position)
}
