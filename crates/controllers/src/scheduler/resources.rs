//! Requests of pods and resources of nodes, as integers: CPU in millicores, everything else in its own unit. Pure.
//!
//! Rules: `pkg/scheduler/framework/types.go` of Kubernetes 1.36. Fractions of a sum are rounded up.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use semantics::pod_requests;

/// Amounts by resource name.
pub type Amounts = BTreeMap<String, i64>;

/// The CPU request that scoring assumes for a pod without one (`DefaultMilliCPURequest`).
pub const ASSUMED_MILLICPU: i64 = 100;
/// The memory request in bytes that scoring assumes for a pod without one (`DefaultMemoryRequest`).
pub const ASSUMED_MEMORY: i64 = 200 * 1024 * 1024;

/// Returns the amount of a resource: millicores for CPU, otherwise whole units; 0 for an invalid quantity.
pub fn amount(resource: &str, quantity: &Quantity) -> i64 {
    rounded(resource, semantics::Quantity::read(&quantity.0).unwrap_or(semantics::Quantity::ZERO))
}

fn rounded(resource: &str, quantity: semantics::Quantity) -> i64 {
    let value = if resource == "cpu" { quantity.millis() } else { quantity.units() };
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

/// Returns the pod's total requests.
pub fn requests(pod: &Pod) -> Amounts {
    let requests = pod.spec.as_ref().map(pod_requests).unwrap_or_default();
    requests.into_iter().map(|(name, quantity)| (name.clone(), rounded(&name, quantity))).collect()
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
    fn requests_of_several_containers_are_rounded_as_a_sum() {
        let container = || json!({"name": "c", "resources": {"requests": {"cpu": "500u", "memory": "1Ki"}}});
        let pod = json!({"metadata": {}, "spec": {"containers": [container(), container()]}});
        let requests = requests(&serde_json::from_value(pod).unwrap());
        assert_eq!((requests["cpu"], requests["memory"]), (1, 2048));
    }
}
