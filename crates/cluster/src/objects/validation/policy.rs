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

/// An event of the older form, which has no `eventTime`, stands in the namespace of what it is about; those of what
/// has none stand in `default`, or in `kube-system` with an `eventTime` (`legacyValidateEvent`).
pub(super) fn event(event: &Value) -> Vec<FieldFault> {
    let (own, about) = (text(&event["metadata"], "namespace"), text(&event["involvedObject"], "namespace"));
    let is_new = !event["eventTime"].is_null();
    let fits = match own {
        _ if !about.is_empty() => is_new || own == about,
        "" | "default" => true,
        _ => is_new && own == "kube-system",
    };
    if fits {
        return Vec::new();
    }
    vec![FieldFault::invalid("involvedObject.namespace", about, "does not match event.namespace")]
}

/// Peers of a NetworkPolicy (`ValidateNetworkPolicyPeer`): a selector or a block of addresses, never both.
pub(super) fn network_policy(policy: &Value) -> Vec<FieldFault> {
    let mut faults = Vec::new();
    for (list, side) in [("ingress", "from"), ("egress", "to")] {
        for (index, rule) in items(&policy["spec"], list) {
            for (number, peer) in items(rule, side) {
                let at = format!("spec.{list}[{index}].{side}[{number}]");
                let has = |field: &str| !peer[field].is_null();
                let selects = has("podSelector") || has("namespaceSelector");
                if !selects && !has("ipBlock") {
                    faults.push(FieldFault::required(&at, "must specify a peer"));
                } else if selects && has("ipBlock") {
                    let text = "may not specify both ipBlock and another peer";
                    faults.push(FieldFault::forbidden(&at, text));
                }
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_stands_where_its_object_does() {
        let time = json!("2026-01-01T00:00:00.000000Z");
        let table = [
            ("a", "a", Value::Null, true),
            ("a", "b", Value::Null, false),
            ("a", "b", time.clone(), true),
            ("a", "", Value::Null, false),
            ("default", "", Value::Null, true),
            ("kube-system", "", Value::Null, false),
            ("kube-system", "", time, true),
        ];
        for (own, about, time, fits) in table {
            let object = json!({"metadata": {"namespace": own}, "involvedObject": {"namespace": about}, "eventTime": time});
            assert_eq!(event(&object).is_empty(), fits, "{object}");
        }
    }

    #[test]
    fn a_peer_is_a_selector_or_a_block() {
        let peers = json!([{}, {"podSelector": {}}, {"ipBlock": {"cidr": "10.0.0.0/8"}},
            {"ipBlock": {"cidr": "10.0.0.0/8"}, "namespaceSelector": {}}]);
        let faults = network_policy(&json!({"spec": {"egress": [{"to": peers}]}}));
        let texts = faults.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(
            texts,
            [
                "spec.egress[0].to[0]: Required value: must specify a peer",
                "spec.egress[0].to[3]: Forbidden: may not specify both ipBlock and another peer"
            ]
        );
    }
}
