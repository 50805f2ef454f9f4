//! The total resources of a pod, computed from its containers (`component-helpers/resource/helpers.go`).
//!
//! Containers add up. An init container counts while it runs, together with the sidecars that started before it. CPU
//! and memory of the pod itself (KEP-2837) override both.

use std::collections::BTreeMap;

use serde_json::Value;

use super::quantity::Quantity;

/// Amounts by resource name.
pub type Amounts = BTreeMap<String, Quantity>;

/// Resources that can be specified for the pod as a whole.
const OF_PODS: [&str; 2] = ["cpu", "memory"];

/// Returns the total requests of a pod.
pub fn pod_requests(pod: &Value) -> Amounts {
    total(pod, "requests")
}

/// Returns the total limits of a pod, as far as its containers have limits.
pub fn pod_limits(pod: &Value) -> Amounts {
    total(pod, "limits")
}

/// Returns the amounts of a JSON map, without invalid quantities.
pub fn amounts(map: &Value) -> Amounts {
    let entries = map.as_object().into_iter().flatten();
    entries.filter_map(|(name, value)| Some((name.clone(), Quantity::of(value).ok()?))).collect()
}

/// Adds `more` to `to`.
pub fn add(to: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let sum = to.get(name).map_or(*amount, |known| known.plus(*amount));
        to.insert(name.clone(), sum);
    }
}

fn total(pod: &Value, which: &str) -> Amounts {
    let spec = &pod["spec"];
    let of = |container: &Value| amounts(&container["resources"][which]);
    let list = |field: &str| spec[field].as_array().into_iter().flatten();
    let mut sum = Amounts::new();
    for container in list("containers") {
        add(&mut sum, &of(container));
    }
    let (mut sidecars, mut highest) = (Amounts::new(), Amounts::new());
    for container in list("initContainers") {
        let own = of(container);
        let mut at_once = sidecars.clone();
        add(&mut at_once, &own);
        if container["restartPolicy"] == "Always" {
            add(&mut sum, &own);
            sidecars = at_once.clone();
        }
        raise(&mut highest, &at_once);
    }
    raise(&mut sum, &highest);
    for (name, amount) in amounts(&spec["resources"][which]) {
        if OF_PODS.contains(&name.as_str()) {
            sum.insert(name, amount);
        }
    }
    sum
}

fn raise(to: &mut Amounts, at_least: &Amounts) {
    for (name, amount) in at_least {
        if to.get(name).is_none_or(|known| known < amount) {
            to.insert(name.clone(), *amount);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn containers_add_up_and_init_containers_count_while_they_run() {
        let container = |cpu: &str| json!({"resources": {"requests": {"cpu": cpu}}});
        let sidecar = |cpu: &str| json!({"restartPolicy": "Always", "resources": {"requests": {"cpu": cpu}}});
        let table = [
            (json!({"containers": [container("1"), container("500m")]}), "1500m"),
            (json!({"containers": [container("1")], "initContainers": [container("3")]}), "3"),
            (json!({"containers": [container("1")], "initContainers": [sidecar("2"), container("2")]}), "4"),
            (json!({"containers": [container("1")], "initContainers": [container("2"), sidecar("2")]}), "3"),
            (json!({"containers": [container("1")], "resources": {"requests": {"cpu": "9"}}}), "9"),
        ];
        for (spec, expected) in table {
            assert_eq!(pod_requests(&json!({"spec": spec}))["cpu"].to_string(), expected, "{spec}");
        }
    }
}
