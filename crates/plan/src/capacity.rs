//! The resources that a cluster's nodes offer, and those that pods hold.
//!
//! The input is nodes and pods, in pages of any size. The output is a [`Capacity`], which keeps only what is counted,
//! so that a cluster of any size can be read page by page. Pure; the only place that decides how much a pod takes and
//! which nodes accept it.

use std::collections::{BTreeMap, HashMap};

use k8s_openapi::api::core::v1::{
    Container, Node, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec, ResourceRequirements, Taint,
    Toleration,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::diagnosis::Gpus;
use crate::quantity::Amount;

/// The suffix of GPU resources, after the vendor's name (`nvidia.com/gpu`, `amd.com/gpu`).
pub(crate) const GPU_SUFFIX: &str = "/gpu";
/// The resource that counts pods.
pub(crate) const PODS: &str = "pods";

pub(crate) type Amounts = BTreeMap<String, Amount>;

/// Nodes, and what the pods that have not ended hold on them.
#[derive(Clone, Debug, Default)]
pub struct Capacity {
    nodes: Vec<NodeShape>,
    /// By the node's name.
    held: HashMap<String, Amounts>,
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
            let mut requests = requests(spec);
            requests.insert(PODS.to_owned(), Amount::ONE);
            let gpus = gpu_count(&requests);
            if let Some(uid) = pod.metadata.uid.clone().filter(|_| gpus > 0) {
                self.gpu_pods.insert(uid, (node.clone(), gpus));
            }
            add(self.held.entry(node.clone()).or_default(), &requests);
        }
    }

    /// Merges two capacities.
    #[must_use]
    pub fn with(mut self, other: Self) -> Self {
        self.nodes.extend(other.nodes);
        for (node, held) in other.held {
            add(self.held.entry(node).or_default(), &held);
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
            let held = self.held.get(&node.name).map_or(0, gpu_count);
            let others = held.saturating_sub(ours.get(node.name.as_str()).copied().unwrap_or(0));
            gpu_count(&node.allocatable).saturating_sub(others)
        };
        Gpus { requested, available: self.nodes.iter().filter(|node| node.usable).map(free).sum() }
    }

    /// The room on every node.
    pub(crate) fn rooms(&self) -> Vec<Room> {
        let room = |node: &NodeShape| {
            let mut free = node.allocatable.clone();
            if let Some(held) = self.held.get(&node.name) {
                take(&mut free, held);
            }
            Room { free, whole: node.allocatable.clone() }
        };
        self.nodes.iter().map(room).collect()
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
            allocatable: amounts(status.allocatable.iter().flatten()),
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
        let attracted = required
            .is_none_or(|required| required.node_selector_terms.iter().any(|term| self.matches(term)));
        let tolerations = pod.and_then(|pod| pod.tolerations.as_deref()).unwrap_or_default();
        let tolerated = |taint: &Taint| {
            taint.effect == "PreferNoSchedule"
                || tolerations.iter().any(|toleration| is_tolerated(taint, toleration))
        };
        self.usable && selected && attracted && self.taints.iter().all(tolerated)
    }

    /// A term matches if all its requirements do; one without any matches nothing.
    fn matches(&self, term: &NodeSelectorTerm) -> bool {
        let (labels, fields) = (term.match_expressions.as_deref(), term.match_fields.as_deref());
        let (labels, fields) = (labels.unwrap_or_default(), fields.unwrap_or_default());
        let named = |field: &NodeSelectorRequirement| {
            meets(field, (field.key == "metadata.name").then_some(self.name.as_str()))
        };
        (!labels.is_empty() || !fields.is_empty())
            && labels.iter().all(|label| meets(label, self.labels.get(&label.key).map(String::as_str)))
            && fields.iter().all(named)
    }
}

/// Whether a value meets a requirement (`k8s.io/component-helpers/scheduling/corev1/nodeaffinity`).
fn meets(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let is_in = value.is_some_and(|value| values.iter().any(|wanted| wanted == value));
    let numbers = || Some((value?.parse::<i64>().ok()?, values.first()?.parse::<i64>().ok()?));
    match requirement.operator.as_str() {
        "In" => is_in,
        "NotIn" => !is_in,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => numbers().is_some_and(|(value, bound)| value > bound),
        "Lt" => numbers().is_some_and(|(value, bound)| value < bound),
        _ => false,
    }
}

fn is_tolerated(taint: &Taint, toleration: &Toleration) -> bool {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let (key, effect) = (text(&toleration.key), text(&toleration.effect));
    let same_value = match toleration.operator.as_deref() {
        Some("Exists") => true,
        _ => text(&toleration.value) == text(&taint.value),
    };
    (key.is_empty() || key == taint.key) && same_value && (effect.is_empty() || effect == taint.effect)
}

/// A pod's requests, as the scheduler counts them.
fn requests(pod: &PodSpec) -> Amounts {
    of_pod(pod, requested(pod.resources.as_ref()), |container| requested(container.resources.as_ref()))
}

/// The requests; a resource with a limit but no request requests its limit.
pub(crate) fn requested(resources: Option<&ResourceRequirements>) -> Amounts {
    let limits = resources.and_then(|resources| resources.limits.as_ref());
    let requests = resources.and_then(|resources| resources.requests.as_ref());
    amounts(limits.into_iter().flatten().chain(requests.into_iter().flatten()))
}

/// Returns the number of GPUs that a pod requests.
#[must_use]
pub fn gpus_of(pod: &PodSpec) -> u64 {
    gpu_count(&requests(pod))
}

/// What a pod takes (`k8s.io/component-helpers/resource` `PodRequests`): the sum of its containers and sidecars, or
/// what an init container and the sidecars before it take, if that is more. Pod-level resources (`whole`) replace that
/// sum, and the overhead is added.
pub(crate) fn of_pod(pod: &PodSpec, whole: Amounts, of: impl Fn(&Container) -> Amounts) -> Amounts {
    let mut sum = Amounts::new();
    for container in &pod.containers {
        add(&mut sum, &of(container));
    }
    let (mut sidecars, mut most) = (Amounts::new(), Amounts::new());
    for container in pod.init_containers.iter().flatten() {
        let each = of(container);
        if container.restart_policy.as_deref() == Some("Always") {
            add(&mut sum, &each);
            add(&mut sidecars, &each);
            raise(&mut most, &sidecars);
        } else {
            let mut now = sidecars.clone();
            add(&mut now, &each);
            raise(&mut most, &now);
        }
    }
    raise(&mut sum, &most);
    sum.extend(whole);
    add(&mut sum, &amounts(pod.overhead.iter().flatten()));
    sum
}

/// The amounts that can be parsed; a later entry of the same name replaces an earlier one.
pub(crate) fn amounts<'a>(quantities: impl Iterator<Item = (&'a String, &'a Quantity)>) -> Amounts {
    quantities.filter_map(|(name, quantity)| Some((name.clone(), Amount::read(&quantity.0)?))).collect()
}

pub(crate) fn add(sum: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let known = sum.get(name).copied();
        sum.insert(name.clone(), known.map_or(*amount, |known| amount.plus(known)));
    }
}

fn raise(most: &mut Amounts, other: &Amounts) {
    for (name, amount) in other {
        if most.get(name).is_none_or(|known| amount.exceeds(*known)) {
            most.insert(name.clone(), *amount);
        }
    }
}

/// Subtracts what is used from what is free; resources that are not in `free` are ignored.
pub(crate) fn take(free: &mut Amounts, used: &Amounts) {
    for (name, amount) in used {
        if let Some(left) = free.get_mut(name) {
            *left = left.minus(*amount);
        }
    }
}

fn gpu_count(amounts: &Amounts) -> u64 {
    let gpus = amounts.iter().filter(|(name, _)| name.ends_with(GPU_SUFFIX));
    gpus.filter_map(|(_, amount)| u64::try_from(amount.count_of(Amount::ONE)?).ok()).sum()
}

/// Whether a pod's condition reports that the scheduler found too few GPUs, of any vendor.
#[must_use]
pub fn reports_too_few_gpus(type_: &str, status: &str, message: Option<&str>) -> bool {
    (type_, status) == ("PodScheduled", "False") && message.is_some_and(|message| message.contains("/gpu"))
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
    }

    #[test]
    fn gpus_that_a_node_lacks_are_not_taken_from_another() {
        let mut all = Capacity::default();
        all.add_nodes(vec![node("a", "True"), node("b", "True")]);
        all.add_pods(&[pod("x", "8", Some("a")), pod("y", "8", Some("a"))]);
        assert_eq!(all.gpus(8, []).available, 8);
    }

    #[test]
    fn a_pod_takes_what_the_scheduler_counts() {
        let container = |cpu: &str| json!({ "name": "c", "resources": { "requests": { "cpu": cpu } } });
        let sidecar = |cpu: &str| {
            let mut sidecar = container(cpu);
            sidecar["restartPolicy"] = json!("Always");
            sidecar
        };
        let cases = [
            (json!({ "containers": [container("1"), container("2")] }), "3"),
            (
                json!({ "containers": [container("1")], "initContainers": [container("4"), container("2")] }),
                "4",
            ),
            (
                json!({ "containers": [container("1")], "initContainers": [sidecar("2"), container("4")] }),
                "6",
            ),
            (
                json!({ "containers": [container("3")], "initContainers": [container("1"), sidecar("2")] }),
                "5",
            ),
            (json!({ "containers": [container("1")], "overhead": { "cpu": "500m" } }), "1500m"),
            (json!({ "containers": [container("1")], "resources": { "requests": { "cpu": "7" } } }), "7"),
        ];
        for (spec, cpu) in cases {
            let taken = requests(&read(spec.clone()));
            assert_eq!(taken["cpu"].write(), cpu, "{spec}");
        }
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
