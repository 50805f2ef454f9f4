//! What a pod says about the nodes that it may run on: its node selector, node affinity and tolerations. Pure.

use k8s_openapi::api::core::v1::PodSpec;

use super::snapshot::NodeView;
use semantics::{node_matches, tolerates};

/// Returns whether the pod tolerates every taint of the node with one of these effects.
pub fn tolerates_all(spec: &PodSpec, node: &NodeView, effects: &[&str]) -> bool {
    let taints = node.node.spec.as_ref().and_then(|s| s.taints.as_deref()).unwrap_or_default();
    taints
        .iter()
        .filter(|taint| effects.contains(&taint.effect.as_str()))
        .all(|taint| spec.tolerations.iter().flatten().any(|t| tolerates(t, taint)))
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
