//! Limits and quotas (`ValidateLimitRange`, `ValidateResourceQuota`).

use std::collections::BTreeSet;

use serde_json::Value;

use super::{FieldFault, items, resources, text};
use semantics::Quantity;

use crate::names;

const SCOPES: [&str; 7] = [
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
];
/// Resources that a quota with the scope BestEffort can count.
const BEST_EFFORT: [&str; 1] = ["pods"];

pub(super) fn limit_range(range: &Value) -> Vec<FieldFault> {
    let (mut faults, mut types) = (Vec::new(), BTreeSet::new());
    for (index, limit) in items(&range["spec"], "limits") {
        let (at, kind) = (format!("spec.limits[{index}]"), text(limit, "type"));
        limit_type(kind, &format!("{at}.type"), &mut faults);
        if !types.insert(kind) {
            faults.push(FieldFault::duplicate(format!("{at}.type"), kind));
        }
        limit_names(limit, kind, &at, &mut faults);
        limit_amounts(limit, kind, &at, &mut faults);
    }
    faults
}

fn limit_type(kind: &str, at: &str, faults: &mut Vec<FieldFault>) {
    let judged = names::qualified_name(kind);
    if judged.is_empty()
        && !kind.contains('/')
        && !matches!(kind, "Pod" | "Container" | "PersistentVolumeClaim")
    {
        faults.push(FieldFault::invalid(at, kind, "must be a standard limit type or fully qualified"));
    }
    faults.extend(judged.into_iter().map(|f| FieldFault::invalid(at, kind, f)));
}

fn limit_names(limit: &Value, kind: &str, at: &str, faults: &mut Vec<FieldFault>) {
    let is_there = |field: &str| limit[field].as_object().is_some_and(|amounts| !amounts.is_empty());
    for field in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
        if kind == "Pod" && matches!(field, "default" | "defaultRequest") {
            if is_there(field) {
                let text = "may not be specified when `type` is 'Pod'";
                faults.push(FieldFault::forbidden(format!("{at}.{field}"), text));
            }
            continue;
        }
        for name in limit[field].as_object().into_iter().flatten().map(|(name, _)| name) {
            let at = format!("{at}.{field}[{name}]");
            faults.extend(match kind {
                "Pod" | "Container" => resources::container_name(name, &at),
                _ => resources::name(name, &at),
            });
        }
    }
    let has_storage = |field: &str| !limit[field]["storage"].is_null();
    if kind == "PersistentVolumeClaim" && !has_storage("min") && !has_storage("max") {
        let text = "either minimum or maximum storage value is required, but neither was provided";
        faults.push(FieldFault::required(format!("{at}.limits"), text));
    }
}

fn limit_amounts(limit: &Value, kind: &str, at: &str, faults: &mut Vec<FieldFault>) {
    let fields = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"];
    let named = fields.iter().flat_map(|field| limit[*field].as_object().into_iter().flatten());
    let all = named.map(|(name, _)| name).collect::<BTreeSet<_>>();
    for name in all {
        let is_default = |field: &str| kind == "Pod" && matches!(field, "default" | "defaultRequest");
        let amount = |field: &str| {
            if is_default(field) { None } else { Quantity::of(limit.get(field)?.get(name)?).ok() }
        };
        let (min, max) = (amount("min"), amount("max"));
        let (default, request) = (amount("default"), amount("defaultRequest"));
        let mut above =
            |low: Option<Quantity>, high: Option<Quantity>, field: &str, shown: &str, words: [&str; 2]| {
                let (Some(low), Some(high)) = (low, high) else { return };
                if low > high {
                    let text = format!("{} {low} is greater than {} {high}", words[0], words[1]);
                    let value = limit[shown][name].clone();
                    faults.push(FieldFault::invalid(format!("{at}.{field}[{name}]"), value, text));
                }
            };
        above(min, max, "min", "min", ["min value", "max value"]);
        above(min, request, "defaultRequest", "defaultRequest", ["min value", "default request value"]);
        above(request, max, "defaultRequest", "defaultRequest", ["default request value", "max value"]);
        above(
            request,
            default,
            "defaultRequest",
            "defaultRequest",
            ["default request value", "default limit value"],
        );
        above(min, default, "default", "min", ["min value", "default value"]);
        above(default, max, "default", "max", ["default value", "max value"]);
        ratio(limit, name, (min, max), at, faults);
        if let (false, Some(default), Some(request)) = (resources::allows_overcommit(name), default, request)
            && default != request
        {
            let text =
                format!("default value {default} must equal to defaultRequest value {request} in {name}");
            let value = limit["defaultRequest"][name].clone();
            faults.push(FieldFault::invalid(format!("{at}.defaultRequest[{name}]"), value, text));
        }
    }
}

/// Validates the ratio of limit to request.
fn ratio(
    limit: &Value,
    name: &str,
    (min, max): (Option<Quantity>, Option<Quantity>),
    at: &str,
    faults: &mut Vec<FieldFault>,
) {
    let given = &limit["maxLimitRequestRatio"][name];
    let Ok(ratio) = Quantity::of(given) else { return };
    let at = format!("{at}.maxLimitRequestRatio[{name}]");
    if ratio.millis() < 1000 {
        faults.push(FieldFault::invalid(&at, given.clone(), format!("ratio {ratio} is less than 1")));
    }
    if let (Some(min), Some(max)) = (min, max)
        && min.millis() > 0
        && ratio.millis() * min.millis() > 1000 * max.millis()
    {
        #[expect(clippy::cast_precision_loss, reason = "it is printed with six digits")]
        let most = max.millis() as f64 / min.millis() as f64;
        let text = format!("ratio {ratio} is greater than max/min = {most:.6}");
        faults.push(FieldFault::invalid(at, given.clone(), text));
    }
}

pub(super) fn quota(quota: &Value) -> Vec<FieldFault> {
    let mut faults = Vec::new();
    amounts(&quota["spec"]["hard"], "spec.hard", &mut faults);
    scopes(&quota["spec"], &mut faults);
    faults
}

/// Validates resource names and amounts (`ValidateResourceQuotaResourceName`, `ValidateResourceQuantityValue`).
pub(super) fn amounts(amounts: &Value, path: &str, faults: &mut Vec<FieldFault>) {
    for (name, amount) in amounts.as_object().into_iter().flatten() {
        let at = format!("{path}[{name}]");
        faults.extend(resources::name(name, &at));
        if !resources::is_quota_name(name) {
            faults.push(FieldFault::invalid(&at, name.as_str(), "must be a standard resource for quota"));
        }
        if let Ok(quantity) = Quantity::of(amount) {
            resources::amount(name, amount, &quantity, &at, faults);
        }
    }
}

/// `validateResourceQuotaScopes`.
fn scopes(spec: &Value, faults: &mut Vec<FieldFault>) {
    let scopes =
        items(spec, "scopes").map(|(_, scope)| scope.as_str().unwrap_or_default()).collect::<Vec<_>>();
    let mut refuse =
        |text: &str| faults.push(FieldFault::invalid("spec.scopes", spec["scopes"].clone(), text));
    for scope in &scopes {
        if !SCOPES.contains(scope) {
            refuse("unsupported scope");
        }
        for name in spec["hard"].as_object().into_iter().flatten().map(|(name, _)| name.as_str()) {
            if resources::QUOTA_RESOURCES.contains(&name) && !fits(scope, name) {
                refuse("unsupported scope applied to resource");
            }
        }
    }
    for pair in [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]] {
        if pair.iter().all(|scope| scopes.contains(scope)) {
            refuse("conflicting scopes");
        }
    }
}

/// Returns whether a scope applies to a resource (`IsResourceQuotaScopeValidForResource`).
fn fits(scope: &str, name: &str) -> bool {
    let is_compute = matches!(
        name,
        "pods"
            | "cpu"
            | "memory"
            | "ephemeral-storage"
            | "requests.cpu"
            | "requests.memory"
            | "requests.ephemeral-storage"
            | "limits.cpu"
            | "limits.memory"
            | "limits.ephemeral-storage"
    );
    match scope {
        "BestEffort" => BEST_EFFORT.contains(&name),
        "VolumeAttributesClass" => matches!(name, "persistentvolumeclaims" | "requests.storage"),
        "Terminating"
        | "NotTerminating"
        | "NotBestEffort"
        | "PriorityClass"
        | "CrossNamespacePodAffinity" => is_compute,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn limits_do_not_contradict_each_other() {
        let said = |limit: Value| {
            let faults = limit_range(&json!({"spec": {"limits": [limit]}}));
            faults.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(
            said(json!({"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}})),
            ["spec.limits[0].min[cpu]: Invalid value: \"2\": min value 2 is greater than max value 1"]
        );
        assert_eq!(
            said(json!({"type": "Pod", "default": {"cpu": "1"}})),
            ["spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'"]
        );
        assert_eq!(
            said(json!({"type": "Crate"})),
            [
                "spec.limits[0].type: Invalid value: \"Crate\": must be a standard limit type or fully qualified"
            ]
        );
        assert_eq!(
            said(
                json!({"type": "Container", "max": {"cpu": "4"}, "min": {"cpu": "1"}, "maxLimitRequestRatio": {"cpu": "3"}})
            ),
            [""; 0]
        );
    }

    #[test]
    fn quotas_count_what_can_be_counted() {
        let count = |spec: Value| quota(&json!({"spec": spec})).len();
        assert_eq!(
            count(json!({"hard": {"pods": "10", "requests.nvidia.com/gpu": "4", "count/configmaps": "5"}})),
            0
        );
        assert_eq!(count(json!({"hard": {"pods": "1500m"}})), 1);
        assert_eq!(count(json!({"hard": {"secrets": "1"}, "scopes": ["BestEffort", "NotBestEffort"]})), 3);
    }
}
