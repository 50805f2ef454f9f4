//! Nodes and namespaces (`ValidateNode`, `ValidateNamespace`).

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::Value;

use super::network::range;
use super::{FieldFault, items, text};
use crate::{metadata, names};

/// `ValidateNode`. Faults of taints are reported as faults of metadata.
pub(super) fn node(node: &Value) -> Vec<FieldFault> {
    let mut faults = Vec::new();
    taints(node, &mut faults);
    let ranges = items(&node["spec"], "podCIDRs").map(|(_, one)| one.as_str().unwrap_or_default());
    let ranges = ranges.collect::<Vec<_>>();
    let at = "spec.podCIDRs";
    for (index, one) in ranges.iter().enumerate() {
        faults.extend(range(&format!("{at}[{index}]"), one, &[]));
    }
    if ranges.len() > 1 {
        let families = ranges.iter().filter_map(|one| one.split('/').next()?.parse::<IpAddr>().ok());
        let families = families.map(|address| address.is_ipv4()).collect::<Vec<_>>();
        // Whether a text is a range is checked less strictly here.
        let is_none =
            |one: &str| range("", one, &[]).iter().any(|fault| fault.detail.contains("valid CIDR value"));
        let bad = ranges.iter().enumerate().find(|(_, one)| is_none(one));
        if let Some((index, bad)) = bad {
            let text = format!(
                "invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR[{index}]: <nil> (invalid CIDR address: {bad})"
            );
            faults.push(FieldFault::new(at, super::Reason::Internal, None, text));
        }
        let is_pair = families.contains(&true) && families.contains(&false);
        if !is_pair || bad.is_some() || ranges.len() > 2 {
            let text = "may specify no more than one CIDR for each IP family";
            faults.push(FieldFault::invalid(at, node["spec"]["podCIDRs"].clone(), text));
        }
    }
    faults
}

fn taints(node: &Value, faults: &mut Vec<FieldFault>) {
    let mut seen = BTreeSet::new();
    for (index, taint) in items(&node["spec"], "taints") {
        let at = format!("metadata.taints[{index}]");
        let (key, value, effect) = (text(taint, "key"), text(taint, "value"), text(taint, "effect"));
        let judged = names::qualified_name(key).into_iter();
        faults.extend(judged.map(|f| FieldFault::invalid(format!("{at}.key"), key, f)));
        if let Some(fault) = names::label_value(value) {
            faults.push(FieldFault::invalid(format!("{at}.value"), value, fault));
        }
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        if effect.is_empty() {
            faults.push(FieldFault::required(format!("{at}.effect"), ""));
        } else if !effects.contains(&effect) {
            faults.push(FieldFault::not_supported(format!("{at}.effect"), effect, &effects));
        }
        if !seen.insert((key, effect)) {
            let time = &taint["timeAdded"];
            let shown = printed(&[
                ("Key", &key.into()),
                ("Value", &value.into()),
                ("Effect", &effect.into()),
                ("TimeAdded", time),
            ]);
            let text = format!("{shown}: taints must be unique by key and effect pair");
            faults.push(FieldFault::new(at, super::Reason::Duplicate, None, text));
        }
    }
}

/// Returns the text of a struct as Kubernetes prints it: with the fields in the order of their declaration.
fn printed(fields: &[(&str, &Value)]) -> String {
    let fields = fields.iter().map(|(name, value)| format!("\"{name}\":{value}"));
    format!("{{{}}}", fields.collect::<Vec<_>>().join(","))
}

/// `ValidateNodeUpdate`, without the rules that apply to new nodes, too.
pub(super) fn node_update(new: &Value, old: &Value) -> Vec<FieldFault> {
    let mut faults = Vec::new();
    taints(new, &mut faults);
    let mut seen = BTreeSet::new();
    for (index, address) in items(&new["status"], "addresses") {
        if !seen.insert((text(address, "type"), text(address, "address"))) {
            let shown = printed(&[("Type", &address["type"]), ("Address", &address["address"])]);
            let at = format!("status.addresses[{index}]");
            faults.push(FieldFault::new(at, super::Reason::Duplicate, None, shown));
        }
    }
    let ranges = |node: &Value| node["spec"]["podCIDRs"].as_array().cloned().unwrap_or_default();
    let (given, before) = (ranges(new), ranges(old));
    let text_of = "node updates may not change podCIDR except from \"\" to valid";
    let changed = if given.len() == before.len() {
        given.iter().zip(&before).filter(|(new, old)| new != old).count()
    } else {
        usize::from(!before.is_empty())
    };
    faults.extend((0..changed).map(|_| FieldFault::forbidden("spec.podCIDRs", text_of)));
    let (given, before) = (text(&new["spec"], "providerID"), text(&old["spec"], "providerID"));
    if !before.is_empty() && given != before {
        let text = "node updates may not change providerID except from \"\" to valid";
        faults.push(FieldFault::forbidden("spec.providerID", text));
    }
    faults
}

/// `ValidateNamespace`.
pub(super) fn namespace(namespace: &Value) -> Vec<FieldFault> {
    let (at, mut faults) = ("spec.finalizers", Vec::new());
    for (_, name) in items(&namespace["spec"], "finalizers") {
        let name = name.as_str().unwrap_or_default();
        faults.extend(names::qualified_name(name).into_iter().map(|f| FieldFault::invalid(at, name, f)));
        if !name.contains('/') && !metadata::STANDARD_FINALIZERS.contains(&name) {
            let text = "name is neither a standard finalizer name nor is it fully qualified";
            faults.push(FieldFault::invalid(at, name, text));
        }
    }
    faults
}

/// `ValidateNamespaceStatusUpdate`.
pub(super) fn namespace_update(new: &Value, old: &Value) -> Vec<FieldFault> {
    if new["status"] == old["status"] {
        return Vec::new();
    }
    let phase = text(&new["status"], "phase");
    let (wanted, word) =
        if new["metadata"]["deletionTimestamp"].is_null() { ("Active", "") } else { ("Terminating", "not ") };
    if phase == wanted {
        return Vec::new();
    }
    let text = format!("may only be '{wanted}' if `deletionTimestamp` is {word}empty");
    vec![FieldFault::invalid("status.Phase", phase, text)]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn duplicate_taints_are_rejected() {
        let taint = json!({"key": "a", "effect": "NoSchedule"});
        let said = node(&json!({"spec": {"taints": [taint, taint, {"key": "b", "effect": "Never"}]}}));
        assert_eq!(
            said.iter().map(|f| f.path.as_str()).collect::<Vec<_>>(),
            ["metadata.taints[1]", "metadata.taints[2].effect"]
        );
    }

    #[test]
    fn the_pod_cidr_of_a_node_is_immutable() {
        let with = |ranges: &[&str]| json!({"spec": {"podCIDRs": ranges}});
        assert_eq!(node_update(&with(&["10.0.0.0/24"]), &with(&[])), []);
        assert_eq!(node_update(&with(&["10.0.1.0/24"]), &with(&["10.0.0.0/24"])).len(), 1);
        assert_eq!(node(&with(&["10.0.0.0/24", "10.0.1.0/24"])).len(), 1);
    }
}
