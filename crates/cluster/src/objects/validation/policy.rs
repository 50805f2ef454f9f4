//! Smaller kinds: quotas, limits, claims, leases, roles, priorities.

use serde_json::Value;

use super::{FieldFault, items, one_of, text};
use crate::objects::{Quantity, names};

pub(super) fn quota(quota: &Value) -> Vec<FieldFault> {
    let mut faults = Vec::new();
    for (name, amount) in quota["spec"]["hard"].as_object().into_iter().flatten() {
        let at = format!("spec.hard[{name}]");
        faults.extend(
            names::qualified_name(name).into_iter().map(|f| FieldFault::invalid(&at, name.as_str(), f)),
        );
        if Quantity::of(amount).is_ok_and(|q| q.is_negative()) {
            faults.push(FieldFault::invalid(&at, amount.clone(), "must be greater than or equal to 0"));
        }
    }
    faults
}

/// Groups of other servers are not passed on to them.
pub(super) fn api_service(service: &Value) -> Vec<FieldFault> {
    if service["spec"]["service"].is_null() {
        return Vec::new();
    }
    vec![FieldFault::forbidden("spec.service", "this cluster does not pass requests on to other API servers")]
}

pub(super) fn limit_range(range: &Value) -> Vec<FieldFault> {
    let mut faults = Vec::new();
    for (index, limit) in items(&range["spec"], "limits") {
        for (name, low) in limit["min"].as_object().into_iter().flatten() {
            let (Ok(low_amount), Ok(high)) = (Quantity::of(low), Quantity::of(&limit["max"][name])) else {
                continue;
            };
            if low_amount > high {
                let text = format!("min value {low_amount} is greater than max value {high}");
                faults.push(FieldFault::invalid(
                    format!("spec.limits[{index}].min[{name}]"),
                    low.clone(),
                    text,
                ));
            }
        }
    }
    faults
}

pub(super) fn claim(claim: &Value) -> Vec<FieldFault> {
    let (spec, mut faults) = (&claim["spec"], Vec::new());
    if items(spec, "accessModes").next().is_none() {
        faults.push(FieldFault::required("spec.accessModes", "at least 1 access mode is required"));
    }
    let modes = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
    for (_, mode) in items(spec, "accessModes").filter(|(_, m)| !modes.iter().any(|known| m == known)) {
        faults.push(FieldFault::not_supported("spec.accessModes", mode.clone(), &modes));
    }
    match Quantity::of(&spec["resources"]["requests"]["storage"]) {
        Err(_) => faults.push(FieldFault::required("spec.resources[storage]", "")),
        Ok(amount) if amount.nanos() <= 0 => {
            let text = "must be greater than zero";
            faults.push(FieldFault::invalid("spec.resources[storage]", amount.to_string(), text));
        }
        Ok(_) => {}
    }
    faults
}

pub(super) fn lease(lease: &Value) -> Vec<FieldFault> {
    let (spec, mut faults) = (&lease["spec"], Vec::new());
    if spec["leaseDurationSeconds"].as_i64().is_some_and(|s| s <= 0) {
        let value = spec["leaseDurationSeconds"].clone();
        faults.push(FieldFault::invalid("spec.leaseDurationSeconds", value, "must be greater than 0"));
    }
    if spec["leaseTransitions"].as_i64().is_some_and(|n| n < 0) {
        let value = spec["leaseTransitions"].clone();
        faults.push(FieldFault::invalid(
            "spec.leaseTransitions",
            value,
            "must be greater than or equal to 0",
        ));
    }
    if spec["holderIdentity"] == "" {
        faults.push(FieldFault::invalid("spec.holderIdentity", "", "must not be empty"));
    }
    faults
}

pub(super) fn rbac(kind: &str, object: &Value) -> Vec<FieldFault> {
    let mut faults = Vec::new();
    if kind.ends_with("Binding") {
        binding(kind, object, &mut faults);
        return faults;
    }
    for (index, rule) in items(object, "rules") {
        let at = format!("rules[{index}]");
        if items(rule, "verbs").next().is_none() {
            faults.push(FieldFault::required(format!("{at}.verbs"), "verbs must contain at least one value"));
        }
        if items(rule, "nonResourceURLs").next().is_some() {
            if kind == "Role" {
                let text = "namespaced rules cannot apply to non-resource URLs";
                faults.push(FieldFault::invalid(
                    format!("{at}.nonResourceURLs"),
                    rule["nonResourceURLs"].clone(),
                    text,
                ));
            }
            continue;
        }
        for (field, text) in [
            ("apiGroups", "resource rules must supply at least one api group"),
            ("resources", "resource rules must supply at least one resource"),
        ] {
            if items(rule, field).next().is_none() {
                faults.push(FieldFault::required(format!("{at}.{field}"), text));
            }
        }
    }
    faults
}

fn binding(kind: &str, object: &Value, faults: &mut Vec<FieldFault>) {
    let role = &object["roleRef"];
    let roles: &[&str] = if kind == "RoleBinding" { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    one_of(role, "apiGroup", &["rbac.authorization.k8s.io"], "roleRef", faults);
    one_of(role, "kind", roles, "roleRef", faults);
    if text(role, "name").is_empty() {
        faults.push(FieldFault::required("roleRef.name", ""));
    }
    for (index, subject) in items(object, "subjects") {
        let at = format!("subjects[{index}]");
        if text(subject, "name").is_empty() {
            faults.push(FieldFault::required(format!("{at}.name"), ""));
        }
        one_of(subject, "kind", &["Group", "ServiceAccount", "User"], &at, faults);
        if subject["kind"] == "ServiceAccount" && text(subject, "namespace").is_empty() {
            faults.push(FieldFault::required(format!("{at}.namespace"), ""));
        }
    }
}

pub(super) fn priority_class(class: &Value) -> Vec<FieldFault> {
    const HIGHEST: i64 = 1_000_000_000;
    let mut faults = Vec::new();
    let value = class["value"].as_i64().unwrap_or_default();
    let system = text(&class["metadata"], "name").starts_with("system-");
    if value > HIGHEST && !system {
        let text = format!("maximum allowed value of a user defined priority is {HIGHEST}");
        faults.push(FieldFault::forbidden("value", text));
    }
    one_of(class, "preemptionPolicy", &["Never", "PreemptLowerPriority"], "", &mut faults);
    faults
}
