//! Tracks which of a node's simulated GPUs each pod has. The numbers refer to no real device: they only make the
//! accounting visible to programs (`CUDA_VISIBLE_DEVICES`).

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Container, PodSpec};
use semantics::NVIDIA_GPU;

/// The assigned devices, by node, then by pod uid.
#[derive(Debug, Default)]
pub struct Devices(BTreeMap<String, BTreeMap<String, Vec<u32>>>);

/// Returns the number of GPUs that the container requests.
pub fn wanted(container: &Container) -> u32 {
    let limits = container.resources.as_ref().and_then(|r| r.limits.as_ref());
    limits.and_then(|limits| limits.get(NVIDIA_GPU)).and_then(|count| count.0.parse().ok()).unwrap_or(0)
}

fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

impl Devices {
    /// Returns the device numbers, out of the node's `all`, of the container named `name`; empty if it requests none.
    /// Containers that run at the same time share no device. Init containers use devices that the other containers get
    /// later, as with a kubelet.
    pub fn of(&mut self, node: &str, all: u32, uid: &str, spec: &PodSpec, name: &str) -> Vec<u32> {
        let init = || spec.init_containers.iter().flatten();
        let lasting: Vec<&Container> = init().filter(|c| is_sidecar(c)).chain(&spec.containers).collect();
        let together: u32 = lasting.iter().map(|c| wanted(c)).fold(0, u32::saturating_add);
        let first = init().map(wanted).max().unwrap_or(0);
        let pool = self.pool(node, all, uid, together.max(first));
        let mut start = 0_usize;
        for container in &lasting {
            let count = wanted(container) as usize;
            if container.name == name {
                return pool.iter().skip(start).take(count).copied().collect();
            }
            start = start.saturating_add(count);
        }
        let count = init().find(|c| c.name == name).map_or(0, wanted) as usize;
        pool.into_iter().take(count).collect()
    }

    /// Returns the pod's devices; the first call assigns the lowest free ones. The scheduler ensures that there are
    /// enough; a pod bound by hand gets what is left.
    fn pool(&mut self, node: &str, all: u32, uid: &str, count: u32) -> Vec<u32> {
        let pods = self.0.entry(node.to_owned()).or_default();
        if let Some(pool) = pods.get(uid) {
            return pool.clone();
        }
        let used: BTreeSet<u32> = pods.values().flatten().copied().collect();
        let pool: Vec<u32> = (0..all).filter(|n| !used.contains(n)).take(count as usize).collect();
        pods.insert(uid.to_owned(), pool.clone());
        pool
    }

    /// Frees the pod's devices.
    pub fn release(&mut self, uid: &str) {
        for pods in self.0.values_mut() {
            pods.remove(uid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn spec(init: &[(&str, u32)], main: &[(&str, u32)]) -> PodSpec {
        let list = |all: &[(&str, u32)]| -> Vec<serde_json::Value> {
            let one = |(name, count): &(&str, u32)| json!({"name": name, "resources": {"limits": {NVIDIA_GPU: count.to_string()}}});
            all.iter().map(one).collect()
        };
        serde_json::from_value(json!({"initContainers": list(init), "containers": list(main)})).unwrap()
    }

    #[test]
    fn a_pod_bound_by_hand_may_ask_for_more_devices_than_can_be_counted() {
        let mut devices = Devices::default();
        let greedy = spec(&[], &[("a", u32::MAX), ("b", u32::MAX)]);
        assert_eq!(devices.of("n", 2, "u", &greedy, "a"), [0, 1]);
        assert_eq!(devices.of("n", 2, "u", &greedy, "b"), [0_u32; 0]);
    }

    #[test]
    fn devices_are_assigned_once_and_released() {
        let mut devices = Devices::default();
        let two = spec(&[("prepare", 1)], &[("a", 1), ("b", 2), ("plain", 0)]);
        assert_eq!(devices.of("n", 8, "u1", &two, "prepare"), [0]);
        assert_eq!(devices.of("n", 8, "u1", &two, "a"), [0]);
        assert_eq!(devices.of("n", 8, "u1", &two, "b"), [1, 2]);
        assert_eq!(devices.of("n", 8, "u1", &two, "plain"), [0_u32; 0]);
        let one = spec(&[], &[("c", 1)]);
        assert_eq!(devices.of("n", 8, "u2", &one, "c"), [3]);
        assert_eq!(devices.of("other", 8, "u3", &one, "c"), [0], "another node has its own");
        devices.release("u1");
        assert_eq!(devices.of("n", 8, "u4", &one, "c"), [0]);
        assert_eq!(devices.of("n", 8, "u2", &one, "c"), [3], "a restart keeps it");
    }
}
