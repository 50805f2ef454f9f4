//! The resources that a cluster's nodes offer, and those that pods hold.
//!
//! The input is nodes and pods, in pages of any size. The output is a [`Capacity`], which keeps only what is counted,
//! so that a cluster of any size can be read page by page. Pure; the only place that decides which nodes accept a pod.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use k8s_openapi::api::core::v1::{Node, Pod, PodSpec, Taint};
use semantics::{Amounts, Quantity, add, amounts, is_gpu, node_matches, pod_requests, subtract, tolerates};

use diagnosis::Gpus;

/// The resource that counts pods.
pub(crate) const PODS: &str = "pods";

/// Nodes, and what the pods that have not ended hold on them.
#[derive(Clone, Debug, Default)]
pub struct Capacity {
    nodes: Vec<NodeShape>,
    /// By the node's name, then by the pods' priority.
    held: HashMap<String, BTreeMap<i32, Amounts>>,
    /// The pods that hold GPUs, by UID: the node, and the number of GPUs.
    gpu_pods: HashMap<String, (String, u64)>,
}

/// The parts of a node that decide which pods fit on it.
#[derive(Clone, Debug)]
struct NodeShape {
    name: String,
    labels: BTreeMap<String, String>,
    taints: Vec<Taint>,
    /// Ready, and not cordoned.
    usable: bool,
    allocatable: Amounts,
}

/// The room on one node.
#[derive(Clone, Debug)]
pub(crate) struct Room {
    /// The resources that no pod holds.
    pub free: Amounts,
    /// The resources that the node offers.
    pub whole: Amounts,
}

impl Capacity {
    /// Adds nodes.
    pub fn add_nodes(&mut self, nodes: Vec<Node>) {
        self.nodes.extend(nodes.into_iter().map(NodeShape::of));
    }

    /// Adds what pods hold. Expects the pods of all namespaces that have not ended; one without a node holds nothing.
    pub fn add_pods(&mut self, pods: &[Pod]) {
        for pod in pods {
            let Some(spec) = &pod.spec else { continue };
            let Some(node) = spec.node_name.as_ref().filter(|node| !node.is_empty()) else { continue };
            let mut requests = pod_requests(spec);
            requests.insert(PODS.to_owned(), Quantity::ONE);
            let gpus = semantics::gpus(&requests);
            if let Some(uid) = pod.metadata.uid.clone().filter(|_| gpus > 0) {
                self.gpu_pods.insert(uid, (node.clone(), gpus));
            }
            let priority = spec.priority.unwrap_or_default();
            add(self.held.entry(node.clone()).or_default().entry(priority).or_default(), &requests);
        }
    }

    /// Merges two capacities.
    #[must_use]
    pub fn with(mut self, other: Self) -> Self {
        self.nodes.extend(other.nodes);
        for (node, by_priority) in other.held {
            let ours = self.held.entry(node).or_default();
            for (priority, held) in by_priority {
                add(ours.entry(priority).or_default(), &held);
            }
        }
        self.gpu_pods.extend(other.gpu_pods);
        self
    }

    /// Returns the GPUs that a job requests and those available to it: what usable nodes offer minus what other pods
    /// hold. `own` has the UIDs of the job's own pods.
    #[must_use]
    pub fn gpus<'a>(&self, requested: u64, own: impl IntoIterator<Item = &'a str>) -> Gpus {
        let mut ours: HashMap<&str, u64> = HashMap::new();
        for (node, gpus) in own.into_iter().filter_map(|uid| self.gpu_pods.get(uid)) {
            *ours.entry(node).or_default() += gpus;
        }
        let free = |node: &NodeShape| {
            let held: u64 = self.held_on(node).map(semantics::gpus).sum();
            let others = held.saturating_sub(ours.get(node.name.as_str()).copied().unwrap_or(0));
            semantics::gpus(&node.allocatable).saturating_sub(others)
        };
        Gpus { requested, available: self.nodes.iter().filter(|node| node.usable).map(free).sum() }
    }

    /// Returns what no pod holds of the usable nodes, in total; `None` if no node is visible.
    #[must_use]
    pub fn free(&self) -> Option<Amounts> {
        let mut total = Amounts::new();
        for (room, _) in self.rooms().iter().zip(&self.nodes).filter(|(_, node)| node.usable) {
            add(&mut total, &room.free);
        }
        (!self.nodes.is_empty()).then_some(total)
    }

    /// Returns the names of the GPU resources that usable nodes offer.
    #[must_use]
    pub fn gpu_resources(&self) -> BTreeSet<&str> {
        let offered = self.nodes.iter().filter(|node| node.usable).flat_map(|node| &node.allocatable);
        offered
            .filter(|(name, amount)| is_gpu(name) && !amount.is_zero())
            .map(|(name, _)| name.as_str())
            .collect()
    }

    /// Returns the GPUs of all nodes, and those of usable nodes that no pod holds, by resource and by what `model` reads from a
    /// node's labels; the name of the resource if it reads nothing.
    #[must_use]
    pub fn gpus_by<'c>(
        &'c self,
        model: impl Fn(&'c BTreeMap<String, String>) -> Option<&'c str>,
    ) -> BTreeMap<(&'c str, &'c str), (u64, u64)> {
        let number = |amount: &Quantity| {
            amount.count_of(Quantity::ONE).and_then(|number| u64::try_from(number).ok()).unwrap_or(0)
        };
        let mut sums: BTreeMap<(&str, &str), (u64, u64)> = BTreeMap::new();
        for (room, node) in self.rooms().iter().zip(&self.nodes) {
            for (resource, amount) in node.allocatable.iter().filter(|(name, _)| is_gpu(name)) {
                let free = room.free.get(resource).filter(|_| node.usable).map_or(0, number);
                let model = model(&node.labels).unwrap_or(resource);
                let sum = sums.entry((resource.as_str(), model)).or_default();
                *sum = (sum.0 + number(amount), sum.1 + free);
            }
        }
        sums.retain(|_, (gpus, _)| *gpus > 0);
        sums
    }

    fn held_on(&self, node: &NodeShape) -> impl Iterator<Item = &Amounts> {
        self.held.get(&node.name).into_iter().flat_map(BTreeMap::values)
    }

    /// The room on every node.
    pub(crate) fn rooms(&self) -> Vec<Room> {
        self.rooms_beside(i32::MIN)
    }

    /// The room on every node beside the pods of at least this priority: what is left to a pod that preempts the others.
    pub(crate) fn rooms_beside(&self, priority: i32) -> Vec<Room> {
        let room = |node: &NodeShape| {
            let mut free = node.allocatable.clone();
            for (_, held) in self.held.get(&node.name).into_iter().flat_map(|held| held.range(priority..)) {
                subtract(&mut free, held);
            }
            Room { free, whole: node.allocatable.clone() }
        };
        self.nodes.iter().map(room).collect()
    }

    /// The name of a node, by its index in [`Capacity::rooms`].
    pub(crate) fn name(&self, at: usize) -> Option<&str> {
        self.nodes.get(at).map(|node| node.name.as_str())
    }

    /// The nodes that would accept such a pod if they had room, as indices into [`Capacity::rooms`].
    pub(crate) fn taking(&self, pod: Option<&PodSpec>) -> Vec<usize> {
        let nodes = self.nodes.iter().enumerate();
        nodes.filter(|(_, node)| node.takes(pod)).map(|(at, _)| at).collect()
    }
}

impl NodeShape {
    fn of(node: Node) -> Self {
        let spec = node.spec.unwrap_or_default();
        let status = node.status.unwrap_or_default();
        let is_ready = |condition: &k8s_openapi::api::core::v1::NodeCondition| {
            condition.type_ == "Ready" && condition.status == "True"
        };
        Self {
            name: node.metadata.name.unwrap_or_default(),
            labels: node.metadata.labels.unwrap_or_default(),
            taints: spec.taints.unwrap_or_default(),
            usable: spec.unschedulable != Some(true) && status.conditions.iter().flatten().any(is_ready),
            allocatable: amounts(status.allocatable.as_ref()),
        }
    }

    /// Whether the node would accept such a pod if it had room, by the pod's node selector, required node affinity and
    /// tolerations.
    fn takes(&self, pod: Option<&PodSpec>) -> bool {
        let selector = pod.and_then(|pod| pod.node_selector.as_ref());
        let selected = selector
            .is_none_or(|wanted| wanted.iter().all(|(name, value)| self.labels.get(name) == Some(value)));
        let affinity = pod.and_then(|pod| pod.affinity.as_ref()?.node_affinity.as_ref());
        let required = affinity
            .and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
        let attracted = required.is_none_or(|required| node_matches(required, &self.name, &self.labels));
        let tolerations = pod.and_then(|pod| pod.tolerations.as_deref()).unwrap_or_default();
        let tolerated = |taint: &Taint| {
            taint.effect == "PreferNoSchedule"
                || tolerations.iter().any(|toleration| tolerates(toleration, taint))
        };
        self.usable && selected && attracted && self.taints.iter().all(tolerated)
    }
}

/// Returns the number of GPUs that a pod requests.
#[must_use]
pub fn gpus_of(pod: &PodSpec) -> u64 {
    semantics::gpus(&pod_requests(pod))
}

/// Whether a pod's condition reports that the scheduler found too few GPUs, of any vendor.
#[must_use]
pub fn reports_too_few_gpus(type_: &str, status: &str, message: Option<&str>) -> bool {
    (type_, status) == ("PodScheduled", "False") && message.is_some_and(semantics::names_gpu)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    fn pod(uid: &str, count: &str, node: Option<&str>) -> Pod {
        read(json!({ "metadata": { "uid": uid }, "spec": { "nodeName": node, "containers": [
            { "name": "main", "resources": { "limits": { "nvidia.com/gpu": count } } }] } }))
    }

    fn node(name: &str, ready: &str) -> Node {
        read(json!({ "metadata": { "name": name }, "status": {
            "allocatable": { "nvidia.com/gpu": "8", "cpu": "4" }, "conditions": [{ "type": "Ready", "status": ready }] } }))
    }

    #[test]
    fn held_and_unusable_resources_are_not_available() {
        let mut all = Capacity::default();
        all.add_nodes(vec![node("a", "True"), node("b", "True"), node("c", "Unknown")]);
        all.add_pods(&[pod("0", "8", Some("a")), pod("1", "8", None)]);
        all.add_pods(&[pod("x", "4", Some("b")), pod("y", "8", Some("c"))]);
        assert_eq!(all.gpus(32, ["0", "1", "2"]), Gpus { requested: 32, available: 12 });
        assert_eq!(semantics::gpus(&all.free().unwrap()), 4);
        assert_eq!(Capacity::default().free(), None);
    }

    #[test]
    fn gpus_are_summed_by_resource_and_model() {
        let mut all = Capacity::default();
        let labelled = |name: &str, ready: &str| {
            let mut node = node(name, ready);
            node.metadata.labels = Some(BTreeMap::from([("model".to_owned(), "H100".to_owned())]));
            node
        };
        let without =
            read(json!({ "metadata": { "name": "e" }, "status": { "allocatable": { "cpu": "4" } } }));
        all.add_nodes(vec![labelled("a", "True"), labelled("b", "Unknown")]);
        all.add_nodes(vec![node("c", "True"), node("d", "True"), without]);
        all.add_pods(&[pod("0", "5", Some("a")), pod("1", "8", Some("d")), pod("2", "4", None)]);
        let sums = all.gpus_by(|labels| labels.get("model").map(String::as_str));
        let gpu = "nvidia.com/gpu";
        let expected = [((gpu, "H100"), (16, 3)), ((gpu, gpu), (16, 8))];
        assert_eq!(sums, BTreeMap::from(expected), "nothing is free on a node that is not ready");
    }

    #[test]
    fn gpus_that_a_node_lacks_are_not_taken_from_another() {
        let mut all = Capacity::default();
        all.add_nodes(vec![node("a", "True"), node("b", "True")]);
        all.add_pods(&[pod("x", "8", Some("a")), pod("y", "8", Some("a"))]);
        assert_eq!(all.gpus(8, []).available, 8);
    }

    #[test]
    fn a_node_takes_the_pods_that_select_and_tolerate_it() {
        let node = NodeShape::of(read(
            json!({ "metadata": { "name": "gpu-1", "labels": { "zone": "a", "rank": "7" } },
            "spec": { "taints": [{ "key": "gpu", "value": "", "effect": "NoSchedule" }] },
            "status": { "conditions": [{ "type": "Ready", "status": "True" }] } }),
        ));
        let affine = |requirement: Value| {
            json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [requirement] } } })
        };
        let label = |operator: &str, key: &str, values: Value| {
            affine(json!({ "matchExpressions": [{ "key": key, "operator": operator, "values": values }] }))
        };
        let cases = [
            (json!({}), true),
            (label("In", "zone", json!(["a", "b"])), true),
            (label("NotIn", "zone", json!(["a"])), false),
            (label("Exists", "zone", json!([])), true),
            (label("DoesNotExist", "disk", json!([])), true),
            (label("Gt", "rank", json!(["6"])), true),
            (label("Lt", "rank", json!(["6"])), false),
            (
                affine(
                    json!({ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["gpu-2"] }] }),
                ),
                false,
            ),
            (affine(json!({})), false),
        ];
        for (affinity, takes) in cases {
            // A toleration without a value tolerates a taint whose value is empty.
            let pod: PodSpec = read(json!({ "containers": [], "affinity": affinity,
                "tolerations": [{ "key": "gpu", "operator": "Equal", "effect": "NoSchedule" }] }));
            assert_eq!(node.takes(Some(&pod)), takes, "{affinity}");
        }
        assert!(!node.takes(None), "nobody tolerates the taint");
    }
}
