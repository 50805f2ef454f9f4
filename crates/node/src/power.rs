//! Simulated power outages: an annotation on a Node cuts its power, as if the machine had been unplugged.
//!
//! A node without power sends no heartbeat and reports nothing. Its pods' processes are killed at once, and the API
//! keeps their last reported state until the node lifecycle controller acts. With power again, the node starts the pods
//! still bound to it, as a kubelet does after a reboot. Nothing about the pods of a node without power may be reported
//! to the API.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use futures::future::join_all;
use k8s_openapi::api::core::v1::{Node, Pod};
use semantics::local_nodes;

use super::{LocalNode, lock};

/// Pods of nodes without power, by uid, as last seen.
pub type Parked = HashMap<String, Arc<Pod>>;

/// Returns whether the annotation asks for the power to be off.
pub fn is_off(node: &Node) -> bool {
    let annotations = node.metadata.annotations.as_ref();
    annotations
        .and_then(|all| all.get(local_nodes::ANNOTATION_NODE_POWER))
        .is_some_and(|power| power == local_nodes::POWER_OFF)
}

/// The names of the nodes without power.
#[derive(Debug, Default)]
pub struct Dark(BTreeSet<String>);

/// A change of a node's power.
#[derive(Debug, PartialEq, Eq)]
pub enum Switch {
    /// Its power is cut.
    Off,
    /// It has power again.
    On,
}

impl Dark {
    /// Returns whether the node has no power.
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains(name)
    }

    /// Forgets the nodes of other names than these.
    pub fn keep(&mut self, names: &[String]) {
        self.0.retain(|name| names.contains(name));
    }

    /// Applies the Node's annotation. Returns `None` if nothing changes.
    pub fn obey(&mut self, name: &str, node: &Node) -> Option<Switch> {
        match is_off(node) {
            true => self.0.insert(name.to_owned()).then_some(Switch::Off),
            false => self.0.remove(name).then_some(Switch::On),
        }
    }
}

/// Kills everything that runs for these pods, without reporting it to the API.
pub async fn kill(node: &LocalNode, uids: &[String]) {
    join_all(uids.iter().map(|uid| async move {
        let _ = node.sandbox.remove_pod(uid).await;
        lock(&node.devices).release(uid);
    }))
    .await;
}

/// Returns the node that a pod is bound to.
pub fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}
