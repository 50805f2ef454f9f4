//! What a pod requests and what limits it, computed from its containers (`PodRequests` and `PodLimits` of
//! `k8s.io/component-helpers/resource/helpers.go`).
//!
//! Containers and sidecars add up. An init container counts while it runs, together with the sidecars that started
//! before it. CPU, memory and huge pages of the pod as a whole (KEP-2837) replace those sums, and the overhead of its
//! runtime class is added.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;
use serde_json::Value;

use crate::Quantity;

/// Amounts by resource name.
pub type Amounts = BTreeMap<String, Quantity>;

/// The two lists of a container's or pod's `resources`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// `requests`; the API server fills in the limit of a resource without a request.
    Requests,
    /// `limits`.
    Limits,
}

/// The parts of a pod's spec that decide what the pod requests, typed or raw.
pub trait PodResources {
    /// Returns the amounts of each container.
    fn containers(&self, list: List) -> Vec<Amounts>;
    /// Returns the amounts of each init container, and whether it is a sidecar, in their order.
    fn init_containers(&self, list: List) -> Vec<(bool, Amounts)>;
    /// Returns the amounts specified for the pod as a whole.
    fn whole(&self, list: List) -> Amounts;
    /// Returns the overhead of the pod's runtime class.
    fn overhead(&self) -> Amounts;
}

impl PodResources for PodSpec {
    fn containers(&self, list: List) -> Vec<Amounts> {
        self.containers.iter().map(|container| of(container, list)).collect()
    }

    fn init_containers(&self, list: List) -> Vec<(bool, Amounts)> {
        let containers = self.init_containers.iter().flatten();
        let is_sidecar = |container: &Container| container.restart_policy.as_deref() == Some("Always");
        containers.map(|container| (is_sidecar(container), of(container, list))).collect()
    }

    fn whole(&self, list: List) -> Amounts {
        let resources = self.resources.as_ref();
        match list {
            List::Requests => amounts(resources.and_then(|resources| resources.requests.as_ref())),
            List::Limits => amounts(resources.and_then(|resources| resources.limits.as_ref())),
        }
    }

    fn overhead(&self) -> Amounts {
        amounts(self.overhead.as_ref())
    }
}

/// The spec of a raw pod.
impl PodResources for Value {
    fn containers(&self, list: List) -> Vec<Amounts> {
        self["containers"].as_array().into_iter().flatten().map(|container| of_raw(container, list)).collect()
    }

    fn init_containers(&self, list: List) -> Vec<(bool, Amounts)> {
        let containers = self["initContainers"].as_array().into_iter().flatten();
        containers
            .map(|container| (container["restartPolicy"] == "Always", of_raw(container, list)))
            .collect()
    }

    fn whole(&self, list: List) -> Amounts {
        match list {
            List::Requests => raw_amounts(&self["resources"]["requests"]),
            List::Limits => raw_amounts(&self["resources"]["limits"]),
        }
    }

    fn overhead(&self) -> Amounts {
        raw_amounts(&self["overhead"])
    }
}

/// Returns the amounts of a map, without invalid quantities.
pub fn amounts(map: Option<&BTreeMap<String, Text>>) -> Amounts {
    let entries = map.into_iter().flatten();
    entries.filter_map(|(name, text)| Some((name.clone(), Quantity::read(&text.0)?))).collect()
}

/// Returns the amounts of a raw map, without invalid quantities.
pub fn raw_amounts(map: &Value) -> Amounts {
    let entries = map.as_object().into_iter().flatten();
    entries.filter_map(|(name, value)| Some((name.clone(), Quantity::of(value).ok()?))).collect()
}

/// Returns the requests of one container; a resource with a limit but no request requests its limit.
pub fn requests(resources: Option<&ResourceRequirements>) -> Amounts {
    let mut requests = amounts(resources.and_then(|resources| resources.limits.as_ref()));
    requests.extend(amounts(resources.and_then(|resources| resources.requests.as_ref())));
    requests
}

fn of(container: &Container, list: List) -> Amounts {
    let resources = container.resources.as_ref();
    match list {
        List::Requests => requests(resources),
        List::Limits => amounts(resources.and_then(|resources| resources.limits.as_ref())),
    }
}

fn of_raw(container: &Value, list: List) -> Amounts {
    let mut found = raw_amounts(&container["resources"]["limits"]);
    if list == List::Requests {
        found.extend(raw_amounts(&container["resources"]["requests"]));
    }
    found
}

/// Returns the total requests of a pod.
pub fn pod_requests(spec: &impl PodResources) -> Amounts {
    let mut total = requests_without_overhead(spec);
    add(&mut total, &spec.overhead());
    total
}

/// Returns the total limits of a pod, as far as it has limits. Only those that are not zero include the overhead.
pub fn pod_limits(spec: &impl PodResources) -> Amounts {
    let mut total = limits_without_overhead(spec);
    let mut overhead = spec.overhead();
    overhead.retain(|name, _| total.get(name).is_some_and(|limit| !limit.is_zero()));
    add(&mut total, &overhead);
    total
}

/// Returns the total requests of a pod's containers, as a `LimitRange` bounds them.
pub fn requests_without_overhead(spec: &impl PodResources) -> Amounts {
    let mut total = of_containers(spec, List::Requests);
    // As the API server defaults them: an explicit request, else what the containers request, else the limit.
    for (name, limit) in of_whole(spec, List::Limits) {
        total.entry(name).or_insert(limit);
    }
    total.extend(of_whole(spec, List::Requests));
    total
}

/// Returns the total limits of a pod's containers, as a `LimitRange` bounds them.
pub fn limits_without_overhead(spec: &impl PodResources) -> Amounts {
    let mut total = of_containers(spec, List::Limits);
    total.extend(of_whole(spec, List::Limits));
    total
}

/// Adds `more` to `to`.
pub fn add(to: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        let sum = to.get(name).map_or(*amount, |known| known.plus(*amount));
        to.insert(name.clone(), sum);
    }
}

/// Subtracts `used` from `free`, down to zero; resources that are not in `free` are ignored.
pub fn subtract(free: &mut Amounts, used: &Amounts) {
    for (name, amount) in used {
        if let Some(left) = free.get_mut(name) {
            *left = left.less(*amount).max(Quantity::ZERO);
        }
    }
}

fn raise(to: &mut Amounts, at_least: &Amounts) {
    for (name, amount) in at_least {
        if to.get(name).is_none_or(|known| known < amount) {
            to.insert(name.clone(), *amount);
        }
    }
}

fn of_containers(spec: &impl PodResources, list: List) -> Amounts {
    let mut sum = Amounts::new();
    for container in spec.containers(list) {
        add(&mut sum, &container);
    }
    let (mut sidecars, mut starting) = (Amounts::new(), Amounts::new());
    for (is_sidecar, own) in spec.init_containers(list) {
        let mut at_once = sidecars.clone();
        add(&mut at_once, &own);
        raise(&mut starting, &at_once);
        if is_sidecar {
            add(&mut sum, &own);
            sidecars = at_once;
        }
    }
    raise(&mut sum, &starting);
    sum
}

/// The pod-level amounts of the resources that can be specified for the pod as a whole.
fn of_whole(spec: &impl PodResources, list: List) -> Amounts {
    let mut whole = spec.whole(list);
    whole.retain(|name, _| matches!(name.as_str(), "cpu" | "memory") || name.starts_with("hugepages-"));
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// What `PodRequests` and `PodLimits` of Kubernetes 1.36 return for such pods, after the API server's defaults.
    #[test]
    fn a_pod_requests_what_kubernetes_counts() {
        let [one, half, two, three, four] = ["1", "500m", "2", "3", "4"]
            .map(|cpu| json!({"name": "c", "resources": {"requests": {"cpu": cpu}}}));
        let mut sidecar = two.clone();
        sidecar["restartPolicy"] = json!("Always");
        let limited = |cpu: &str| json!({"name": "c", "resources": {"limits": {"cpu": cpu}}});
        let tiny = json!({"name": "c", "resources": {"requests": {"cpu": "500u", "memory": "many"}}});
        let pod = |main: &[&Value], init: &[&Value]| json!({"containers": main, "initContainers": init});
        let whole = |resources: Value| json!({"containers": [one], "resources": resources});
        let above = |main: Value| json!({"containers": [main], "overhead": {"cpu": "100m", "memory": "1Mi"}});
        for (name, spec, requests, limits) in [
            ("sum", pod(&[&one, &half], &[]), "cpu=1500m", ""),
            ("exact sum of fractions, without invalid amounts", pod(&[&tiny, &tiny], &[]), "cpu=1m", ""),
            ("large init container", pod(&[&one], &[&four, &two]), "cpu=4", ""),
            ("sidecar", pod(&[&three], &[&one, &sidecar]), "cpu=5", ""),
            ("sidecar before a large init container", pod(&[&one], &[&sidecar, &four]), "cpu=6", ""),
            ("sidecar after a large init container", pod(&[&one], &[&four, &sidecar]), "cpu=4", ""),
            ("limits only", pod(&[&limited("2")], &[]), "cpu=2", "cpu=2"),
            ("whole pod", whole(json!({"requests": {"cpu": "7"}})), "cpu=7", ""),
            ("limit of the whole pod", whole(json!({"limits": {"cpu": "7"}})), "cpu=1", "cpu=7"),
            (
                "only a limit of the whole pod",
                whole(json!({"limits": {"memory": "1Gi"}})),
                "cpu=1,memory=1Gi",
                "memory=1Gi",
            ),
            (
                "huge pages",
                whole(json!({"requests": {"hugepages-2Mi": "4Mi"}})),
                "cpu=1,hugepages-2Mi=4Mi",
                "",
            ),
            ("GPUs of the whole pod", whole(json!({"requests": {"nvidia.com/gpu": "7"}})), "cpu=1", ""),
            ("overhead", above(one.clone()), "cpu=1100m,memory=1Mi", ""),
            ("overhead and limit", above(limited("1")), "cpu=1100m,memory=1Mi", "cpu=1100m"),
            ("overhead and a limit of zero", above(limited("0")), "cpu=100m,memory=1Mi", "cpu=0"),
        ] {
            let typed: PodSpec = serde_json::from_value(spec.clone()).unwrap();
            assert_eq!(written(&pod_requests(&typed)), requests, "requests, typed: {name}");
            assert_eq!(written(&pod_requests(&spec)), requests, "requests, raw: {name}");
            assert_eq!(written(&pod_limits(&typed)), limits, "limits, typed: {name}");
            assert_eq!(written(&pod_limits(&spec)), limits, "limits, raw: {name}");
        }
        let spec = json!({"containers": [limited("1")], "overhead": {"cpu": "100m"}});
        assert_eq!(written(&requests_without_overhead(&spec)), "cpu=1");
        assert_eq!(written(&limits_without_overhead(&spec)), "cpu=1");
    }

    fn written(amounts: &Amounts) -> String {
        amounts.iter().map(|(name, amount)| format!("{name}={amount}")).collect::<Vec<_>>().join(",")
    }
}
