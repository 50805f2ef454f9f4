//! Nodes with the pods on them, as input of a decision. Pure: built from objects, changed only by [`NodeView::place`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};

use semantics::has_ended;

use super::resources::{self, Amounts};

/// Pods per node if the node does not specify it.
const PODS_DEFAULT: i64 = 110;

/// Protocol, host address, host port.
pub type HostPort = (String, String, i32);

/// One node and the pods assigned to it.
#[derive(Clone, Debug)]
pub struct NodeView {
    /// The object.
    pub node: Arc<Node>,
    /// `status.allocatable`, else `status.capacity`.
    pub allocatable: Amounts,
    /// The sum of the pods' requests.
    pub requested: Amounts,
    /// The same for CPU and memory, with an assumed minimum for each pod; used for scoring only.
    pub assumed: (i64, i64),
    /// The pods on the node that have not ended.
    pub pods: Vec<Arc<Pod>>,
    /// Host ports in use.
    pub ports: BTreeSet<HostPort>,
}

impl NodeView {
    /// Creates a view of a node without pods.
    pub fn empty(node: Arc<Node>) -> Self {
        let status = node.status.as_ref();
        let list = status.and_then(|s| s.allocatable.as_ref().or(s.capacity.as_ref()));
        let mut allocatable = resources::amounts(list);
        allocatable.entry("pods".into()).or_insert(PODS_DEFAULT);
        Self {
            node,
            allocatable,
            requested: Amounts::new(),
            assumed: (0, 0),
            pods: Vec::new(),
            ports: BTreeSet::new(),
        }
    }

    /// Adds `pod` to this node.
    pub fn place(&mut self, pod: Arc<Pod>) {
        let requests = resources::requests(&pod);
        let or = |name: &str, assumed: i64| requests.get(name).copied().filter(|n| *n > 0).unwrap_or(assumed);
        self.assumed.0 = self.assumed.0.saturating_add(or("cpu", resources::ASSUMED_MILLICPU));
        self.assumed.1 = self.assumed.1.saturating_add(or("memory", resources::ASSUMED_MEMORY));
        resources::add(&mut self.requested, &requests);
        self.ports.extend(host_ports(&pod));
        self.pods.push(pod);
    }

    /// Returns a view of this node with only these pods.
    pub fn with_pods(&self, pods: Vec<Arc<Pod>>) -> Self {
        let mut view = Self::empty(self.node.clone());
        for pod in pods {
            view.place(pod);
        }
        view
    }

    /// `metadata.name`.
    pub fn name(&self) -> &str {
        self.node.metadata.name.as_deref().unwrap_or("")
    }

    /// Returns the value of one of the node's labels.
    pub fn label(&self, key: &str) -> Option<&str> {
        Some(self.node.metadata.labels.as_ref()?.get(key)?.as_str())
    }
}

/// Returns the node that the pod is bound to.
pub fn node_name(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref().filter(|name| !name.is_empty())
}

/// Returns the host ports that the pod requests.
pub fn host_ports(pod: &Pod) -> Vec<HostPort> {
    let Some(spec) = &pod.spec else { return Vec::new() };
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    let ports = containers.flat_map(|c| c.ports.iter().flatten());
    ports
        .filter_map(|port| {
            let number = port.host_port.filter(|n| *n > 0)?;
            let address = port.host_ip.clone().filter(|a| !a.is_empty()).unwrap_or_else(|| "0.0.0.0".into());
            Some((port.protocol.clone().unwrap_or_else(|| "TCP".into()), address, number))
        })
        .collect()
}

/// Returns nodes ordered by name, each with its pods. `assumed` are pods whose binding is in progress.
pub fn snapshot(nodes: &[Arc<Node>], pods: &[Arc<Pod>], assumed: &BTreeMap<String, String>) -> Vec<NodeView> {
    let mut views: Vec<NodeView> = nodes.iter().map(|node| NodeView::empty(node.clone())).collect();
    views.sort_by(|a, b| a.name().cmp(b.name()));
    let positions: BTreeMap<String, usize> =
        views.iter().enumerate().map(|(position, view)| (view.name().to_owned(), position)).collect();
    for pod in pods.iter().filter(|pod| !has_ended(pod)) {
        let uid = pod.metadata.uid.as_deref().unwrap_or("");
        let name = node_name(pod).or_else(|| assumed.get(uid).map(String::as_str));
        if let Some(position) = name.and_then(|name| positions.get(name)) {
            views[*position].place(pod.clone());
        }
    }
    views
}
