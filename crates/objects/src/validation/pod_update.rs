//! Updates of pods (`ValidatePodUpdate`, `ValidatePodStatusUpdate`).

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{FieldFault, Reason, items, network, text};
use crate::names;
use crate::notation::restore_equal_quantities;
use crate::selectors::LabelSelector;

const UPDATABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Returns the forbidden changes of a pod's update: almost everything except for images, deadline and tolerations.
pub(super) fn validate(new: &Value, old: &Value) -> Vec<FieldFault> {
    let mut faults = status(&new["status"], &old["status"]);
    for list in ["containers", "initContainers"] {
        restarted(list, new, old, &mut faults);
    }
    let (new_spec, old_spec) = (&new["spec"], &old["spec"]);
    if new_spec == old_spec {
        return faults;
    }
    for list in ["containers", "initContainers"] {
        if items(new_spec, list).count() != items(old_spec, list).count() {
            let text = "pod updates may not add or remove containers";
            faults.push(FieldFault::forbidden(format!("spec.{list}"), text));
            return faults;
        }
    }
    if let Some(fault) = deadline(new_spec, old_spec) {
        faults.push(fault);
        if !new_spec["activeDeadlineSeconds"].is_null() {
            return faults;
        }
    }
    let mut munged = new_spec.clone();
    restore_equal_quantities(&mut munged, old_spec);
    for list in ["containers", "initContainers"] {
        for (index, container) in items(old_spec, list) {
            munged[list][index]["image"] = container["image"].clone();
        }
    }
    let gated = items(old_spec, "schedulingGates").next().is_some();
    if gated {
        node_selector_additions(&munged, old_spec, &mut faults);
        restore(&mut munged, old_spec, "nodeSelector");
        node_affinity_additions(&mut munged, old_spec, &mut faults);
    }
    for field in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        restore(&mut munged, old_spec, field);
    }
    only_added(new_spec, old_spec, &mut faults);
    for (index, gate) in items(new_spec, "schedulingGates") {
        if !items(old_spec, "schedulingGates").any(|(_, g)| g == gate) {
            let name = text(gate, "name");
            let text = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            faults.push(FieldFault::forbidden(format!("spec.schedulingGates[{index}].name"), text));
        }
    }
    // Only the binding subresource assigns a node, and only once.
    if munged != *old_spec {
        let changed = changed_fields(&munged, old_spec).join(", ");
        let text = format!("pod updates may not change fields other than {UPDATABLE}\nchanged: {changed}");
        faults.push(FieldFault::forbidden("spec", text));
    }
    faults
}

/// Validates conditions and addresses of a pod (`validatePodConditions`, `validatePodIPs`).
fn status(status: &Value, old: &Value) -> Vec<FieldFault> {
    let mut faults = Vec::new();
    if status == old {
        return faults;
    }
    for (index, condition) in items(status, "conditions") {
        let (at, kind) = (format!("status.conditions[{index}].Type"), text(condition, "type"));
        if !matches!(kind, "PodScheduled" | "Ready" | "Initialized") {
            faults.extend(names::qualified_name(kind).into_iter().map(|f| FieldFault::invalid(&at, kind, f)));
        }
    }
    let before = items(old, "podIPs").map(|(_, one)| text(one, "ip")).collect::<Vec<_>>();
    let all = items(status, "podIPs").map(|(_, one)| text(one, "ip")).collect::<Vec<_>>();
    for (index, one) in all.iter().enumerate() {
        faults.extend(network::address(&format!("status.podIPs[{index}]"), one, &before));
    }
    let malformed = all.iter().position(|one| !network::is_address(one));
    if let Some(index) = malformed.filter(|_| all.len() > 1) {
        let detail = format!("failed to check for dual stack with error:invalid IP[{index}]: {}", all[index]);
        faults.push(FieldFault::new("status.podIPs", Reason::Internal, None, detail));
    }
    let sixes = all.iter().filter(|one| one.contains(':')).count();
    let is_pair = all.len() == 2 && sixes == 1 && malformed.is_none();
    if all.len() > 1 && !is_pair {
        let detail = "may specify no more than one IP for each IP family";
        faults.push(FieldFault::invalid("status.podIPs", status["podIPs"].clone(), detail));
    }
    faults
}

/// A container that has ended, and that its pod does not start again, stays ended (`ValidateContainerStateTransition`).
fn restarted(list: &str, new: &Value, old: &Value, faults: &mut Vec<FieldFault>) {
    let policy = text(&old["spec"], "restartPolicy");
    if policy == "Always" {
        return;
    }
    let field = if list == "containers" { "containerStatuses" } else { "initContainerStatuses" };
    for (index, before) in items(&old["status"], field) {
        let ended = &before["state"]["terminated"];
        let name = text(before, "name");
        let has_own_policy = items(&old["spec"], list)
            .any(|(_, one)| text(one, "name") == name && !one["restartPolicy"].is_null());
        if ended.is_null() || has_own_policy || (policy == "OnFailure" && ended["exitCode"] != 0) {
            continue;
        }
        if items(&new["status"], field)
            .any(|(_, now)| text(now, "name") == name && now["state"]["terminated"].is_null())
        {
            let at = format!("status.{field}[{index}].state");
            faults.push(FieldFault::forbidden(at, "may not be transitioned to non-terminated state"));
        }
    }
}

fn restore(munged: &mut Value, old: &Value, field: &str) {
    match old.get(field) {
        Some(value) => munged[field] = value.clone(),
        None => {
            munged.as_object_mut().map(|map| map.remove(field));
        }
    }
}

fn changed_fields(new: &Value, old: &Value) -> Vec<String> {
    let names: BTreeSet<&String> =
        [new, old].iter().flat_map(|v| v.as_object().into_iter().flatten().map(|(name, _)| name)).collect();
    names
        .into_iter()
        .filter(|name| new.get(*name) != old.get(*name))
        .map(|name| format!("spec.{name}"))
        .collect()
}

/// A deadline may be set and shortened; one that may not be so ends the validation of an update.
fn deadline(new: &Value, old: &Value) -> Option<FieldFault> {
    let invalid = |value: Value, text: &str| FieldFault::invalid("spec.activeDeadlineSeconds", value, text);
    match (new["activeDeadlineSeconds"].as_i64(), old["activeDeadlineSeconds"].as_i64()) {
        (Some(new), _) if !(0..=i64::from(i32::MAX)).contains(&new) => {
            Some(invalid(new.into(), "must be between 0 and 2147483647, inclusive"))
        }
        (Some(new), Some(old)) if new > old => {
            Some(invalid(new.into(), "must be less than or equal to previous value"))
        }
        (None, Some(_)) => Some(invalid(Value::Null, "must not update from a positive integer to nil value")),
        _ => None,
    }
}

fn only_added(new: &Value, old: &Value, faults: &mut Vec<FieldFault>) {
    let same = |a: &Value, b: &Value| {
        ["key", "operator", "value", "effect"].iter().all(|f| text(a, f) == text(b, f))
    };
    let gone = items(old, "tolerations").any(|(_, o)| !items(new, "tolerations").any(|(_, n)| same(n, o)));
    if gone {
        let text = "existing toleration can not be modified except its tolerationSeconds";
        faults.push(FieldFault::forbidden("spec.tolerations", text));
    }
}

/// Allows a gated pod's node affinity to become narrower (`validateNodeAffinityMutation`), and then treats it as
/// unchanged.
fn node_affinity_additions(munged: &mut Value, old: &Value, faults: &mut Vec<FieldFault>) {
    const TERMS: &str = "/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    let before = &old["affinity"]["nodeAffinity"];
    if munged["affinity"]["nodeAffinity"] == *before {
        return;
    }
    let terms =
        |affinity: &Value| affinity.pointer(TERMS).and_then(Value::as_array).cloned().unwrap_or_default();
    let (given, kept) = (terms(&munged["affinity"]["nodeAffinity"]), terms(before));
    let at = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms";
    if !kept.is_empty() && given.len() != kept.len() {
        let text = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        faults.push(FieldFault::invalid(at, Value::Array(given), text));
    } else {
        for (index, (new, old)) in given.into_iter().zip(&kept).enumerate() {
            if !only_adds(&new, old) {
                let text = "only additions are allowed (no mutations or deletions)";
                faults.push(FieldFault::invalid(format!("{at}[{index}]"), new, text));
            }
        }
    }
    let is_alone = munged["affinity"]
        .as_object()
        .is_none_or(|map| map.iter().all(|(name, value)| name == "nodeAffinity" || value.is_null()));
    if munged["affinity"].is_null() {
        munged["affinity"] = json!({"nodeAffinity": before});
    } else if old["affinity"].is_null() && is_alone {
        restore(munged, old, "affinity");
    } else {
        restore(&mut munged["affinity"], &old["affinity"], "nodeAffinity");
    }
}

/// Returns whether a node selector term only gained requirements.
fn only_adds(new: &Value, old: &Value) -> bool {
    let list = |term: &Value, field: &str| term[field].as_array().cloned().unwrap_or_default();
    let fields = ["matchExpressions", "matchFields"];
    let is_empty = |term: &Value| fields.iter().all(|field| list(term, field).is_empty());
    (!is_empty(old) || is_empty(new))
        && fields.iter().all(|field| list(new, field).starts_with(&list(old, field)))
}

fn node_selector_additions(new: &Value, old: &Value, faults: &mut Vec<FieldFault>) {
    let kept = LabelSelector::of_map(&old["nodeSelector"]).matches_labels(&new["nodeSelector"]);
    if !kept {
        let text = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        faults.push(FieldFault::new(
            "spec.nodeSelector",
            Reason::Invalid,
            Some(new["nodeSelector"].clone()),
            text,
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(new: &Value, old: &Value) -> Vec<String> {
        validate(new, old).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_update_may_write_a_quantity_in_another_notation() {
        let pod = |limit: &str| {
            let resources = json!({ "limits": { "memory": limit }, "requests": { "memory": "1Gi" } });
            json!({ "spec": { "containers": [{ "name": "main", "image": "i", "resources": resources }],
                "volumes": [{ "name": "v", "emptyDir": { "sizeLimit": limit } }] } })
        };
        assert_eq!(faults(&pod("64Mi"), &pod("67108864")), Vec::<String>::new());
        assert!(faults(&pod("65Mi"), &pod("67108864"))[0].contains("changed: spec.containers, spec.volumes"));
    }

    #[test]
    fn a_deadline_that_may_not_be_set_ends_the_validation_of_an_update() {
        let pod = |deadline: Value, host: &str| json!({ "spec": { "activeDeadlineSeconds": deadline, "hostname": host } });
        let before = pod(json!(60), "a");
        for (deadline, fault) in
            [(-1, "must be between 0 and 2147483647"), (61, "must be less than or equal")]
        {
            let found = faults(&pod(json!(deadline), "b"), &before);
            assert!(found.len() == 1 && found[0].contains(fault), "{found:?}");
        }
        let found = faults(&pod(Value::Null, "b"), &before);
        assert!(found.len() == 2 && found[0].contains("from a positive integer to nil"), "{found:?}");
    }

    #[test]
    fn a_container_that_has_ended_stays_ended_unless_its_pod_starts_it_again() {
        let pod = |policy: &str, state: Value| {
            json!({ "spec": { "restartPolicy": policy, "containers": [{ "name": "main" }] },
                "status": { "containerStatuses": [{ "name": "main", "state": state }] } })
        };
        let ended = |code: i64| json!({ "terminated": { "exitCode": code } });
        for (policy, code, is_allowed) in
            [("Never", 3, false), ("OnFailure", 0, false), ("OnFailure", 3, true), ("Always", 0, true)]
        {
            let found = faults(&pod(policy, json!({ "running": {} })), &pod(policy, ended(code)));
            assert_eq!(found.is_empty(), is_allowed, "{policy} {code}: {found:?}");
            assert_eq!(faults(&pod(policy, ended(1)), &pod(policy, ended(code))), Vec::<String>::new());
        }
    }

    #[test]
    fn an_address_that_is_none_leaves_the_families_unknown() {
        let pod = |second: &str| json!({ "status": { "podIPs": [{ "ip": "10.1.1.1" }, { "ip": second }] } });
        let causes = |second: &str| {
            let found = validate(&pod(second), &json!({ "status": {} }));
            found.iter().map(|fault| fault.reason.cause()).collect::<Vec<_>>()
        };
        assert_eq!(causes(""), ["FieldValueInvalid", "InternalError", "FieldValueInvalid"]);
        assert_eq!(causes("10.1.1.2"), ["FieldValueInvalid"]);
        assert_eq!(causes("fd00::1"), Vec::<&str>::new());
    }
}
