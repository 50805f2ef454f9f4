//! Requests of pods and resources of nodes, as integers: CPU in millicores, everything else in its own unit. Pure.
//!
//! Rules: `k8s.io/component-helpers/resource` (`PodRequests`) and `pkg/scheduler/framework/types.go` of Kubernetes
//! 1.36: the larger of the sum of all containers and the largest init container, with sidecars included in both, plus
//! overhead. Fractions are rounded up.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use objects;

/// Amounts by resource name.
pub type Amounts = BTreeMap<String, i64>;

/// The CPU request that scoring assumes for a pod without one (`DefaultMilliCPURequest`).
pub const ASSUMED_MILLICPU: i64 = 100;
/// The memory request in bytes that scoring assumes for a pod without one (`DefaultMemoryRequest`).
pub const ASSUMED_MEMORY: i64 = 200 * 1024 * 1024;

/// Returns the amount of a resource: millicores for CPU, otherwise whole units; 0 for an invalid quantity.
pub fn amount(resource: &str, quantity: &Quantity) -> i64 {
    let parsed = quantity.0.trim().parse().unwrap_or_else(|_| objects::Quantity::zero());
    let value = if resource == "cpu" { parsed.millis() } else { parsed.units() };
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Returns the amounts of a map of quantities.
pub fn amounts(list: Option<&BTreeMap<String, Quantity>>) -> Amounts {
    list.into_iter().flatten().map(|(name, quantity)| (name.clone(), amount(name, quantity))).collect()
}

/// Adds `more` to `to`.
pub fn add(to: &mut Amounts, more: &Amounts) {
    for (name, value) in more {
        let slot = to.entry(name.clone()).or_insert(0);
        *slot = slot.saturating_add(*value);
    }
}

/// Raises `to` to at least `floor`.
fn at_least(to: &mut Amounts, floor: &Amounts) {
    for (name, value) in floor {
        let slot = to.entry(name.clone()).or_insert(0);
        *slot = (*slot).max(*value);
    }
}

fn container_requests(container: &Container) -> Amounts {
    let resources = container.resources.as_ref();
    let mut requests = amounts(resources.and_then(|r| r.requests.as_ref()));
    // The API defaults requests to limits. Apply the same to a pod that was stored without that default.
    for (name, value) in amounts(resources.and_then(|r| r.limits.as_ref())) {
        requests.entry(name).or_insert(value);
    }
    requests
}

/// Returns the pod's total requests.
pub fn requests(pod: &Pod) -> Amounts {
    let Some(spec) = &pod.spec else { return Amounts::new() };
    let mut total = Amounts::new();
    for container in &spec.containers {
        add(&mut total, &container_requests(container));
    }
    let mut sidecars = Amounts::new();
    let mut starting = Amounts::new();
    for container in spec.init_containers.iter().flatten() {
        let mut needs = container_requests(container);
        if container.restart_policy.as_deref() == Some("Always") {
            add(&mut total, &needs);
            add(&mut sidecars, &needs);
            needs.clone_from(&sidecars);
        } else {
            add(&mut needs, &sidecars);
        }
        at_least(&mut starting, &needs);
    }
    at_least(&mut total, &starting);
    // Pod-level requests override those of containers (KEP-2837).
    total.extend(amounts(spec.resources.as_ref().and_then(|r| r.requests.as_ref())));
    add(&mut total, &amounts(spec.overhead.as_ref()));
    total
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn quantities() {
        for (resource, text, expected) in [
            ("cpu", "1", 1000),
            ("cpu", "250m", 250),
            ("cpu", "0.5", 500),
            ("cpu", "1.0005", 1001),
            ("cpu", "100u", 1),
            ("cpu", "2e3", 2_000_000),
            ("memory", "1Gi", 1 << 30),
            ("memory", "1.5Gi", 3 << 29),
            ("memory", "500M", 500_000_000),
            ("memory", "1E", 1_000_000_000_000_000_000),
            ("memory", "100m", 1),
            ("memory", "12e6", 12_000_000),
            ("memory", "5E-1", 1),
            ("nvidia.com/gpu", "8", 8),
            ("memory", "nonsense", 0),
        ] {
            assert_eq!(amount(resource, &Quantity(text.into())), expected, "{resource} {text}");
        }
    }

    #[test]
    fn a_pod_requests_the_larger_of_init_and_main_containers() {
        let container = |cpu: &str| json!({"name": "c", "resources": {"requests": {"cpu": cpu}}});
        let sidecar = |cpu: &str| json!({"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": cpu}}});
        for (name, spec, expected) in [
            ("sum", json!({"containers": [container("1"), container("2")]}), 3000),
            ("large init", json!({"containers": [container("1")], "initContainers": [container("4")]}), 4000),
            ("sidecar", json!({"containers": [container("1")], "initContainers": [sidecar("2")]}), 3000),
            (
                "sidecar before a large init",
                json!({"containers": [container("1")], "initContainers": [sidecar("2"), container("4")]}),
                6000,
            ),
            (
                "sidecar after a large init",
                json!({"containers": [container("1")], "initContainers": [container("4"), sidecar("2")]}),
                4000,
            ),
            ("overhead", json!({"containers": [container("1")], "overhead": {"cpu": "100m"}}), 1100),
            (
                "limits only",
                json!({"containers": [{"name": "c", "resources": {"limits": {"cpu": "2"}}}]}),
                2000,
            ),
            (
                "whole pod",
                json!({"containers": [container("1")], "resources": {"requests": {"cpu": "5"}}}),
                5000,
            ),
        ] {
            let pod: Pod = serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap();
            assert_eq!(requests(&pod)["cpu"], expected, "{name}");
        }
    }
}
