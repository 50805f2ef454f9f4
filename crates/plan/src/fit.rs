//! How many identical pods fit on a cluster's nodes, and on which.
//!
//! The input is a pod with what it requests, and a [`Capacity`]; the output is a [`Fit`]. Pure. Each pod is on one node, and
//! only nodes that accept it count.

use k8s_openapi::api::core::v1::PodSpec;
use semantics::{Amounts, Quantity};

use crate::capacity::{Capacity, PODS};

/// The most pods that are counted on one node. Kubernetes' own limit is 110, and OpenShift's 2500.
const MOST_ON_A_NODE: usize = 10_000;

/// How many pods fit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fit {
    /// The nodes with room now, and for how many pods: the most first, then by name.
    pub nodes: Vec<(String, usize)>,
    /// How many would fit if nothing else ran.
    pub at_most: usize,
}

impl Fit {
    /// How many fit now.
    #[must_use]
    pub fn now(&self) -> usize {
        self.nodes.iter().map(|(_, count)| count).sum()
    }
}

/// Returns how many such pods fit; `None` if no node is visible.
#[must_use]
pub fn fit(pod: &PodSpec, requests: &Amounts, capacity: &Capacity) -> Option<Fit> {
    let mut one = requests.clone();
    one.insert(PODS.to_owned(), Quantity::ONE);
    let rooms = capacity.rooms();
    if rooms.is_empty() {
        return None;
    }
    let mut found = Fit::default();
    for at in capacity.taking(Some(pod)) {
        let (Some(room), Some(name)) = (rooms.get(at), capacity.name(at)) else { continue };
        found.at_most += count_on(&room.whole, &one);
        match count_on(&room.free, &one) {
            0 => {}
            count => found.nodes.push((name.to_owned(), count)),
        }
    }
    found.nodes.sort_by(|(a_name, a), (b_name, b)| b.cmp(a).then_with(|| a_name.cmp(b_name)));
    Some(found)
}

/// How many pods fit into these amounts. A node that does not say how many pods it takes is not limited by that.
fn count_on(amounts: &Amounts, one: &Amounts) -> usize {
    let needed = one.iter().filter(|(name, _)| name.as_str() != PODS || amounts.contains_key(name.as_str()));
    let counts = needed.filter_map(|(name, each)| {
        let whole = amounts.get(name).copied().unwrap_or(Quantity::ZERO);
        whole.count_of(*each)
    });
    let least = counts.min().map_or(MOST_ON_A_NODE, |count| usize::try_from(count).unwrap_or(0));
    least.min(MOST_ON_A_NODE)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Node, Pod};
    use semantics::pod_requests;
    use serde_json::{Value, json};

    use super::*;

    fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    fn node(name: &str, gpus: &str, ready: &str) -> Node {
        read(json!({"metadata": {"name": name}, "status": {
            "allocatable": {"nvidia.com/gpu": gpus, "memory": "64Gi", "pods": "3"},
            "conditions": [{"type": "Ready", "status": ready}]}}))
    }

    fn pod(gpus: &str, memory: &str, node: Option<&str>) -> Pod {
        let resources = json!({"requests": {"nvidia.com/gpu": gpus, "memory": memory}});
        read(json!({"metadata": {"name": "p"}, "spec": {"nodeName": node, "containers": [
            {"name": "c", "resources": resources}]}}))
    }

    fn fitting(gpus: &str, memory: &str, nodes: Vec<Node>, pods: &[Pod]) -> Option<Fit> {
        let mut capacity = Capacity::default();
        capacity.add_nodes(nodes);
        capacity.add_pods(pods);
        let spec = pod(gpus, memory, None).spec.unwrap();
        fit(&spec, &pod_requests(&spec), &capacity)
    }

    #[test]
    fn pods_are_counted_on_each_node_by_what_is_scarcest_there() {
        let nodes = || vec![node("a", "8", "True"), node("b", "8", "True"), node("c", "8", "Unknown")];
        let held = [pod("6", "0", Some("a"))];
        let found = fitting("2", "1Gi", nodes(), &held).unwrap();
        let names =
            |found: &Fit| found.nodes.iter().map(|(name, n)| format!("{name} {n}")).collect::<Vec<_>>();
        assert_eq!(names(&found), ["b 3", "a 1"], "b takes no more than three pods");
        assert_eq!((found.now(), found.at_most), (4, 6));
        let large = fitting("1", "40Gi", nodes(), &held).unwrap();
        assert_eq!(names(&large), ["a 1", "b 1"]);
        assert_eq!(fitting("16", "1Gi", nodes(), &held), Some(Fit::default()));
    }

    #[test]
    fn a_node_that_lacks_a_resource_takes_nothing_and_an_invisible_cluster_is_unknown() {
        let mut plain = node("a", "8", "True");
        plain.status.as_mut().unwrap().allocatable.as_mut().unwrap().remove("nvidia.com/gpu");
        assert_eq!(fitting("1", "1Gi", vec![plain], &[]), Some(Fit::default()));
        assert_eq!(fitting("1", "1Gi", Vec::new(), &[]), None);
    }

    #[test]
    fn a_count_is_bounded_where_nothing_bounds_it() {
        assert_eq!(
            count_on(&Amounts::new(), &Amounts::from([(PODS.to_owned(), Quantity::ONE)])),
            MOST_ON_A_NODE
        );
    }
}
