//! The scheduler's decision: where a pod goes, or in one sentence why nowhere. Pure and deterministic.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;

use super::affinity::{AffinityView, Namespaces};
use super::filter::{Question, Refusal, refusal};
use super::resources::requests;
use super::score::best;
use super::snapshot::{NodeView, host_ports};
use super::spread::SpreadView;

/// Where a pod goes.
#[derive(Clone, Debug, PartialEq)]
pub enum Placement {
    /// The position of the node in the snapshot.
    On(usize),
    /// Nowhere now; why, in kube-scheduler's words.
    Nowhere(String),
}

/// Finds a node for `pod`.
pub fn place(pod: &Pod, nodes: &[NodeView], namespaces: &Namespaces) -> Placement {
    let Some(spec) = &pod.spec else { return Placement::Nowhere("the pod has no spec".into()) };
    if nodes.is_empty() {
        return Placement::Nowhere("no nodes available to schedule pods".into());
    }
    let (requests, ports) = (requests(pod), host_ports(pod));
    let affinity = AffinityView::of(pod, nodes, namespaces);
    let spread = SpreadView::of(pod, nodes);
    let question =
        Question { pod, spec, requests: &requests, ports: &ports, affinity: &affinity, spread: &spread };
    let mut fitting = Vec::new();
    let mut refusals = Vec::new();
    for (position, node) in nodes.iter().enumerate() {
        match refusal(&question, node) {
            None => fitting.push(position),
            Some(refusal) => refusals.push(refusal),
        }
    }
    match best(&question, nodes, &fitting) {
        Some(position) => Placement::On(position),
        None => Placement::Nowhere(explain(&refusals, spec.preemption_policy.as_deref() == Some("Never"))),
    }
}

/// `0/3 nodes are available: 1 Insufficient cpu, …. no new claims to deallocate, preemption: …` as
/// `framework.FitError` (`pkg/scheduler/framework/types.go`) and the plug-ins after it word it.
fn explain(refusals: &[Refusal], never_preempts: bool) -> String {
    let all = refusals.len();
    let why = histogram(refusals.iter().flat_map(|r| r.reasons.iter().map(String::as_str)));
    let preemption = if never_preempts {
        "not eligible due to preemptionPolicy=Never.".to_owned()
    } else {
        let help = refusals.iter().map(|r| match r.final_ {
            true => "Preemption is not helpful for scheduling",
            false => "No preemption victims found for incoming pod",
        });
        format!("0/{all} nodes are available: {}.", histogram(help))
    };
    format!("0/{all} nodes are available: {why}. no new claims to deallocate, preemption: {preemption}")
}

/// `2 this, 3 that`, sorted as text as upstream sorts it.
fn histogram<'a>(reasons: impl Iterator<Item = &'a str>) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in reasons {
        *counts.entry(reason).or_insert(0) += 1;
    }
    let mut parts: Vec<String> =
        counts.into_iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    parts.sort();
    parts.join(", ")
}
