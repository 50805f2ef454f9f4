//! The scheduler's decision for one pod: its node, or each node's reason against it. Pure and deterministic.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;

use super::affinity::{AffinityView, Namespaces};
use super::filter::{Question, filter};
use super::resources::requests;
use super::score::best;
use super::snapshot::{NodeView, host_ports};
use super::spread::SpreadView;
use super::unschedulable::Unschedulable;
use super::volumes::{Storage, VolumeView};

/// Where to place a pod.
#[derive(Clone, Debug, PartialEq)]
pub enum Placement {
    /// The position of the node in the snapshot.
    On(usize),
    /// Nowhere now: each node's rejection, in the snapshot's order.
    Nowhere(Vec<Unschedulable>),
}

/// The result of preemption for a pod that fits nowhere.
#[derive(Clone, Debug, PartialEq)]
pub enum Help {
    /// Preemption makes room; the message ends with the reasons.
    Yes,
    /// The pod may not preempt others, with the reason.
    NotEligible(&'static str),
    /// Preemption does not help: each node's reasons, in the snapshot's order.
    None(Vec<Vec<String>>),
}

/// The objects that stay the same while pods are placed.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// Labels of namespaces.
    pub namespaces: &'a Namespaces,
    /// Claims and volumes.
    pub storage: &'a Storage,
}

/// Selects a node for `pod`.
pub fn place(pod: &Pod, nodes: &[NodeView], around: Surroundings) -> Placement {
    ask(pod, nodes, around, |question| {
        let mut fitting = Vec::new();
        let mut rejections = Vec::new();
        for (position, node) in nodes.iter().enumerate() {
            match filter(question, node) {
                None => fitting.push(position),
                Some(rejection) => rejections.push(rejection),
            }
        }
        // A node that was cleared for this pod takes precedence.
        let nominated = nominated_node(pod);
        let promised = fitting.iter().copied().find(|i| nominated == Some(nodes[*i].name()));
        match promised.or_else(|| best(question, nodes, &fitting)) {
            Some(position) => Placement::On(position),
            None => Placement::Nowhere(rejections),
        }
    })
}

/// Returns why the node at `position` cannot take `pod`; `None` if it can.
pub fn filter_at(
    pod: &Pod,
    nodes: &[NodeView],
    position: usize,
    around: Surroundings,
) -> Option<Unschedulable> {
    ask(pod, nodes, around, |question| filter(question, &nodes[position]))
}

fn ask<T>(pod: &Pod, nodes: &[NodeView], around: Surroundings, answer: impl FnOnce(&Question) -> T) -> T {
    let nothing = k8s_openapi::api::core::v1::PodSpec::default();
    let (requests, ports) = (requests(pod), host_ports(pod));
    let affinity = AffinityView::of(pod, nodes, around.namespaces);
    let spread = SpreadView::of(pod, nodes);
    let volumes = VolumeView::of(pod, around.storage);
    answer(&Question {
        pod,
        spec: pod.spec.as_ref().unwrap_or(&nothing),
        requests: &requests,
        ports: &ports,
        affinity: &affinity,
        spread: &spread,
        volumes: &volumes,
    })
}

/// Returns `status.nominatedNodeName`: the node that was cleared for the pod.
pub fn nominated_node(pod: &Pod) -> Option<&str> {
    pod.status.as_ref()?.nominated_node_name.as_deref().filter(|name| !name.is_empty())
}

/// Returns `0/3 nodes are available: 1 Insufficient cpu, …. no new claims to deallocate, preemption: …`, worded as
/// `framework.FitError` (`pkg/scheduler/framework/types.go`) and the plug-ins after it.
pub fn fit_error(rejections: &[Unschedulable], help: &Help) -> String {
    let all = rejections.len();
    if all == 0 {
        return "no nodes available to schedule pods".into();
    }
    let of_all = rejections
        .first()
        .filter(|rejection| rejection.of_all)
        .and_then(|rejection| rejection.reasons.first());
    let why = of_all.cloned().unwrap_or_else(|| histogram_of(rejections));
    let preemption = match help {
        Help::Yes => return format!("0/{all} nodes are available: {why}."),
        Help::NotEligible(reason) => (*reason).to_owned(),
        Help::None(reasons) => {
            let help = histogram(reasons.iter().flatten().map(String::as_str));
            format!("0/{all} nodes are available: {help}.")
        }
    };
    format!("0/{all} nodes are available: {why}. no new claims to deallocate, preemption: {preemption}")
}

fn histogram_of(rejections: &[Unschedulable]) -> String {
    histogram(rejections.iter().flat_map(|r| r.reasons.iter().map(String::as_str)))
}

/// Formats `2 this, 3 that`, sorted as text, as upstream does.
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
