//! Smaller kinds: Leases, RBAC, budgets, PriorityClasses, APIServices.

use serde_json::Value;

use super::{FieldFault, items, one_of, text};
use crate::names;

/// Rejects API groups of other servers, because requests are not forwarded.
pub(super) fn api_service(service: &Value) -> Vec<FieldFault> {
    if service["spec"]["service"].is_null() {
        return Vec::new();
    }
    vec![FieldFault::forbidden("spec.service", "this cluster does not pass requests on to other API servers")]
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
    const GROUP: &str = crate::access::GROUP;
    let role = &object["roleRef"];
    let roles: &[&str] = if kind == "RoleBinding" { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    for (field, known) in [("apiGroup", &[GROUP][..]), ("kind", roles)] {
        if !known.contains(&text(role, field)) {
            faults.push(FieldFault::not_supported(format!("roleRef.{field}"), text(role, field), known));
        }
    }
    let name = text(role, "name");
    if name.is_empty() {
        faults.push(FieldFault::required("roleRef.name", ""));
    }
    faults
        .extend(names::path_segment(name).into_iter().map(|f| FieldFault::invalid("roleRef.name", name, f)));
    for (index, subject) in items(object, "subjects") {
        self::subject(subject, kind == "RoleBinding", &format!("subjects[{index}]"), faults);
    }
}

/// `ValidateRoleBindingSubject`.
fn subject(subject: &Value, is_namespaced: bool, at: &str, faults: &mut Vec<FieldFault>) {
    let (name, group) = (text(subject, "name"), text(subject, "apiGroup"));
    if name.is_empty() {
        faults.push(FieldFault::required(format!("{at}.name"), ""));
    }
    let group_at = format!("{at}.apiGroup");
    match text(subject, "kind") {
        "ServiceAccount" => {
            let judged = if name.is_empty() { vec![] } else { names::subdomain(name) };
            faults.extend(judged.into_iter().map(|f| FieldFault::invalid(format!("{at}.name"), name, f)));
            if !group.is_empty() {
                faults.push(FieldFault::not_supported(group_at, group, &[""]));
            }
            if !is_namespaced && text(subject, "namespace").is_empty() {
                faults.push(FieldFault::required(format!("{at}.namespace"), ""));
            }
        }
        "User" | "Group" if group != crate::access::GROUP => {
            faults.push(FieldFault::not_supported(group_at, group, &[crate::access::GROUP]));
        }
        "User" | "Group" => {}
        other => {
            let known = ["ServiceAccount", "User", "Group"];
            faults.push(FieldFault::not_supported(format!("{at}.kind"), other, &known));
        }
    }
}

/// `ValidatePodDisruptionBudgetSpec`.
pub(super) fn disruption_budget(budget: &Value) -> Vec<FieldFault> {
    let (spec, mut faults) = (&budget["spec"], Vec::new());
    if !spec["minAvailable"].is_null() && !spec["maxUnavailable"].is_null() {
        let text = "minAvailable and maxUnavailable cannot be both set";
        faults.push(FieldFault::invalid("spec", spec.clone(), text));
    }
    for field in ["minAvailable", "maxUnavailable"] {
        let at = format!("spec.{field}");
        match &spec[field] {
            Value::String(share) => {
                let digits = share
                    .strip_suffix('%')
                    .filter(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()));
                let detail = match digits.map(|digits| digits.parse::<u64>().unwrap_or(u64::MAX)) {
                    None => {
                        "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
                    }
                    Some(101..) => "must not be greater than 100%",
                    Some(_) => continue,
                };
                faults.push(FieldFault::invalid(at, share.as_str(), detail));
            }
            Value::Number(_) => super::not_negative(spec, field, "spec", &mut faults),
            _ => {}
        }
    }
    super::label_selector(&spec["selector"], "spec.selector", &mut faults);
    one_of(spec, "unhealthyPodEvictionPolicy", &["AlwaysAllow", "IfHealthyBudget"], "spec", &mut faults);
    faults
}

/// `ValidatePodDisruptionBudgetStatusUpdate`.
pub(super) fn disruption_budget_update(new: &Value, old: &Value) -> Vec<FieldFault> {
    let mut faults = Vec::new();
    if new["status"] != old["status"] {
        for field in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
            super::not_negative(&new["status"], field, "status", &mut faults);
        }
    }
    faults
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
    if text(class, "preemptionPolicy").is_empty() {
        faults.push(FieldFault::required("preemptionPolicy", ""));
    } else {
        one_of(class, "preemptionPolicy", &["PreemptLowerPriority", "Never"], "", &mut faults);
    }
    faults
}
