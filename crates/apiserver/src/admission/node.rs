//! NodeRestriction: a node's identity may only write its own Node, its Lease, and the pods that run on it.
//!
//! Source: `plugin/pkg/admission/noderestriction`, reduced to this cluster's kinds. Applies to users of the
//! group `system:nodes` named `system:node:NAME`.

use serde_json::Value;

use super::{Attributes, Operation};
use crate::status::StatusError;

const GROUP: &str = "system:nodes";
const PREFIX: &str = "system:node:";
/// The namespace of the nodes' leases.
const LEASES: &str = "kube-node-lease";
/// The annotation of mirror pods.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// Rejects writes to objects of other nodes.
///
/// # Errors
/// 403.
pub fn restrict(at: &Attributes<'_>, object: Option<&Value>, old: Option<&Value>) -> Result<(), StatusError> {
    let user = &at.context.user;
    let Some(node) = user.name.strip_prefix(PREFIX).filter(|_| user.is_in(GROUP)) else { return Ok(()) };
    let kind = at.kind();
    let refusal = match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Node") => own_node(node, at.name),
        ("", "Pod") => own_pod(at, node, object, old),
        ("coordination.k8s.io", "Lease") => own_lease(at, node),
        _ => None,
    };
    refusal.map_or(Ok(()), |why| Err(at.forbidden(object, &why)))
}

fn own_node(node: &str, name: &str) -> Option<String> {
    (node != name).then(|| format!("node {node:?} is not allowed to modify node {name:?}"))
}

fn own_lease(at: &Attributes<'_>, node: &str) -> Option<String> {
    if at.namespace() != Some(LEASES) {
        return Some(format!("can only access leases in the {LEASES:?} system namespace"));
    }
    (at.name != node)
        .then(|| "can only access node lease with the same name as the requesting node".to_owned())
}

fn own_pod(at: &Attributes<'_>, node: &str, object: Option<&Value>, old: Option<&Value>) -> Option<String> {
    let is_own = |pod: Option<&Value>| pod.is_some_and(|pod| pod["spec"]["nodeName"] == node);
    match (at.subresource(), at.operation) {
        ("", Operation::Create) => {
            let pod = object?;
            if pod["metadata"]["annotations"][MIRROR].is_null() {
                return Some(format!(
                    "pod does not have {MIRROR:?} annotation, node {node:?} can only create mirror pods"
                ));
            }
            (!is_own(object))
                .then(|| format!("node {node:?} can only create pods with spec.nodeName set to itself"))
        }
        ("", Operation::Delete) => (!is_own(old))
            .then(|| format!("node {node:?} can only delete pods with spec.nodeName set to itself")),
        ("status", Operation::Update) => (!is_own(old)).then(|| {
            format!("node {node:?} can only update pod status for pods with spec.nodeName set to itself")
        }),
        // An eviction only names the pod; the resulting deletion is the server's.
        ("eviction", Operation::Create) => None,
        (part, operation) => Some(format!("unexpected operation {:?} on pods/{part}", operation.name())),
    }
}
