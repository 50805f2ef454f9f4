//! Resources: their names, their amounts, and what a container asks for (`pkg/apis/core/helper/helpers.go`,
//! `validateResourceRequirements`).

use serde_json::Value;

use super::FieldFault;
use semantics::Quantity;

use crate::names;

const HUGE_PAGES: &str = "hugepages-";
/// Resources without a group that a quota can count.
pub(super) const QUOTA_RESOURCES: [&str; 19] = [
    "configmaps",
    "cpu",
    "ephemeral-storage",
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "memory",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
    "requests.storage",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
];
/// Resources that are counted in whole objects.
const WHOLE_RESOURCES: [&str; 9] = [
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
];

/// Validates a resource's name (`validateResourceName`).
pub(super) fn name(name: &str, at: &str) -> Vec<FieldFault> {
    let faults = names::qualified_name(name).into_iter().map(|f| FieldFault::invalid(at, name, f));
    let mut faults = faults.collect::<Vec<_>>();
    if faults.is_empty() && !is_quota_name(name) && name != "storage" {
        faults.push(FieldFault::invalid(at, name, "must be a standard resource type or fully qualified"));
    }
    faults
}

/// Validates the name of a container's resource (`validateContainerResourceName`).
pub(super) fn container_name(name: &str, at: &str) -> Vec<FieldFault> {
    let mut faults = self::name(name, at);
    if !name.contains('/') {
        if !matches!(name, "cpu" | "memory" | "ephemeral-storage") && !name.starts_with(HUGE_PAGES) {
            faults.push(FieldFault::invalid(at, name, "must be a standard resource for containers"));
        }
    } else if !is_native(name) && !is_extended(name) {
        faults.push(FieldFault::invalid(at, name, "doesn't follow extended resource name standard"));
    }
    faults
}

/// Returns whether a quota can count the resource (`IsStandardQuotaResourceName`). A name with a group is judged
/// elsewhere.
pub(super) fn is_quota_name(name: &str) -> bool {
    let is_of_huge_pages = name.strip_prefix("requests.").unwrap_or(name).starts_with(HUGE_PAGES);
    name.contains('/') || QUOTA_RESOURCES.contains(&name) || is_of_huge_pages
}

/// Returns whether the sum of all requests may be below the sum of all limits (`IsOvercommitAllowed`).
pub(super) fn allows_overcommit(name: &str) -> bool {
    is_native(name) && !name.starts_with(HUGE_PAGES)
}

/// `IsNativeResource`.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// `IsExtendedResourceName`.
fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && names::qualified_name(&format!("requests.{name}")).is_empty()
}

/// Validates an amount (`ValidateResourceQuantityValue`).
pub(super) fn amount(name: &str, given: &Value, quantity: &Quantity, at: &str, faults: &mut Vec<FieldFault>) {
    if quantity.is_negative() {
        faults.push(FieldFault::invalid(at, given.clone(), "must be greater than or equal to 0"));
    }
    if (WHOLE_RESOURCES.contains(&name) || is_extended(name)) && quantity.millis() % 1000 != 0 {
        faults.push(FieldFault::invalid(at, given.clone(), "must be an integer"));
    }
}

/// Validates the limits and requests of a container (`ValidateContainerResourceRequirements`).
pub(super) fn of_container(resources: &Value, at: &str, faults: &mut Vec<FieldFault>) {
    let amounts = |which: &str| resources[which].as_object().into_iter().flatten();
    for which in ["limits", "requests"] {
        for (name, given) in amounts(which) {
            let at = format!("{at}.{which}[{name}]");
            faults.extend(container_name(name, &at));
            match Quantity::of(given) {
                Err(error) => faults.push(FieldFault::invalid(&at, given.clone(), error.to_string())),
                Ok(quantity) => {
                    amount(name, given, &quantity, &at, faults);
                    if !is_whole_pages(name, &quantity) {
                        let text = format!("{quantity} is not positive integer multiple of {name}");
                        faults.push(FieldFault::invalid(&at, given.clone(), text));
                    }
                }
            }
        }
    }
    for (name, request) in amounts("requests") {
        let limit = &resources["limits"][name];
        if limit.is_null() {
            if !allows_overcommit(name) {
                let text = "Limit must be set for non overcommitable resources";
                faults.push(FieldFault::required(format!("{at}.limits"), text));
            }
            continue;
        }
        let (Ok(amount), Ok(limit)) = (Quantity::of(request), Quantity::of(limit)) else { continue };
        let rule = match allows_overcommit(name) {
            false if amount != limit => "must be equal to",
            _ if amount > limit => "must be less than or equal to",
            _ => continue,
        };
        let text = format!("{rule} {name} limit of {limit}");
        faults.push(FieldFault::invalid(format!("{at}.requests"), request.clone(), text));
    }
    let mut all = amounts("limits").chain(amounts("requests")).map(|(name, _)| name.as_str());
    let has_huge_pages = all.clone().any(|name| name.starts_with(HUGE_PAGES));
    if has_huge_pages && !all.any(|name| matches!(name, "cpu" | "memory")) {
        faults.push(FieldFault::forbidden(at, "HugePages require cpu or memory"));
    }
}

/// Returns whether an amount of huge pages is made up of pages of the size that the resource's name ends in
/// (`IsHugePageResourceValueDivisible`).
fn is_whole_pages(name: &str, quantity: &Quantity) -> bool {
    let Some(size) = name.strip_prefix(HUGE_PAGES) else { return true };
    Quantity::read(size)
        .is_some_and(|size| size.is_whole() && size.units() > 0 && quantity.units() % size.units() == 0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn faults(resources: &Value) -> Vec<String> {
        let mut faults = Vec::new();
        of_container(resources, "r", &mut faults);
        faults.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_container_can_ask_for_resources_of_its_own_and_of_devices() {
        let all = json!({"limits": {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": 1, "hugepages-2Mi": "4Mi"},
            "requests": {"cpu": "1", "ephemeral-storage": "1Gi", "nvidia.com/gpu": "1", "hugepages-2Mi": "4Mi"}});
        assert_eq!(faults(&all), Vec::<String>::new());
    }

    #[test]
    fn other_names_are_refused() {
        let of_type = "must be a standard resource type or fully qualified";
        let of_container = "must be a standard resource for containers";
        let invalid = |name: &str, text: &str| format!("r.limits[{name}]: Invalid value: \"{name}\": {text}");
        let limits = |name: &str| json!({"limits": {name: "1"}});
        assert_eq!(faults(&limits("port")), [invalid("port", of_type), invalid("port", of_container)]);
        assert_eq!(faults(&limits("pods")), [invalid("pods", of_container)]);
        let text = "doesn't follow extended resource name standard";
        assert_eq!(faults(&limits("requests.a/b")), [invalid("requests.a/b", text)]);
    }

    #[test]
    fn requests_are_judged_beside_their_limits() {
        for (resources, text) in [
            (json!({"requests": {"a.b/c": "1"}}), "r.limits: Required value: Limit must be set"),
            (
                json!({"limits": {"a.b/c": "2"}, "requests": {"a.b/c": "1"}}),
                "r.requests: Invalid value: \"1\": must be equal to a.b/c limit of 2",
            ),
            (
                json!({"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}),
                "r.requests: Invalid value: \"2\": must be less than or equal to cpu limit of 1",
            ),
            (json!({"limits": {"a.b/c": "1500m"}}), "must be an integer"),
            (json!({"limits": {"hugepages-2Mi": "2Mi"}}), "r: Forbidden: HugePages require cpu or memory"),
            (
                json!({"limits": {"cpu": "1", "hugepages-2Mi": "3Mi"}}),
                "3Mi is not positive integer multiple of hugepages-2Mi",
            ),
        ] {
            let found = faults(&resources);
            assert!(matches!(found.as_slice(), [one] if one.contains(text)), "{found:?} without {text}");
        }
    }
}
