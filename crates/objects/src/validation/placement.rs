//! Placement of pods: affinity, tolerations, topology spread, scheduling gates (`validateAffinity` and related
//! functions).

use std::collections::BTreeSet;

use serde_json::Value;

use super::{FieldFault, items, label_selector, one_of, text};
use crate::names;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const MAX_WEIGHT: i64 = 100;

pub(super) fn placement(spec: &Value, path: &str, faults: &mut Vec<FieldFault>) {
    tolerations(spec, path, faults);
    gates(spec, path, faults);
    spreading(spec, path, faults);
    let affinity = &spec["affinity"];
    let nodes = format!("{path}.affinity.nodeAffinity");
    if affinity["nodeAffinity"][REQUIRED].is_object() {
        node_selector(&affinity["nodeAffinity"][REQUIRED], &format!("{nodes}.{REQUIRED}"), faults);
    }
    for (index, term) in items(&affinity["nodeAffinity"], PREFERRED) {
        let at = format!("{nodes}.{PREFERRED}[{index}]");
        weight(term, &at, faults);
        node_term(&term["preference"], false, &format!("{at}.preference"), faults);
    }
    for which in ["podAffinity", "podAntiAffinity"] {
        let at = format!("{path}.affinity.{which}");
        for (index, term) in items(&affinity[which], REQUIRED) {
            pod_term(term, &format!("{at}.{REQUIRED}[{index}]"), faults);
        }
        for (index, term) in items(&affinity[which], PREFERRED) {
            let at = format!("{at}.{PREFERRED}[{index}]");
            weight(term, &at, faults);
            pod_term(&term["podAffinityTerm"], &format!("{at}.podAffinityTerm"), faults);
        }
    }
}

fn weight(term: &Value, at: &str, faults: &mut Vec<FieldFault>) {
    let weight = term["weight"].as_i64().unwrap_or_default();
    if !(1..=MAX_WEIGHT).contains(&weight) {
        faults.push(FieldFault::invalid(format!("{at}.weight"), weight, "must be in the range 1-100"));
    }
}

/// `ValidateNodeSelector`.
pub(super) fn node_selector(selector: &Value, at: &str, faults: &mut Vec<FieldFault>) {
    let at = format!("{at}.nodeSelectorTerms");
    if items(selector, "nodeSelectorTerms").next().is_none() {
        faults.push(FieldFault::required(&at, "must have at least one node selector term"));
    }
    for (index, term) in items(selector, "nodeSelectorTerms") {
        node_term(term, true, &format!("{at}[{index}]"), faults);
    }
}

fn node_term(term: &Value, judges_values: bool, at: &str, faults: &mut Vec<FieldFault>) {
    for (index, one) in items(term, "matchExpressions") {
        let at = format!("{at}.matchExpressions[{index}]");
        let values = items(one, "values").count();
        match text(one, "operator") {
            "In" | "NotIn" if values == 0 => {
                let text = "must be specified when `operator` is 'In' or 'NotIn'";
                faults.push(FieldFault::required(format!("{at}.values"), text));
            }
            "Exists" | "DoesNotExist" if values > 0 => {
                let text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                faults.push(FieldFault::forbidden(format!("{at}.values"), text));
            }
            "Gt" | "Lt" if values != 1 => {
                let text = "must be specified single value when `operator` is 'Lt' or 'Gt'";
                faults.push(FieldFault::required(format!("{at}.values"), text));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
            other => {
                let text = "not a valid selector operator";
                faults.push(FieldFault::invalid(format!("{at}.operator"), other, text));
            }
        }
        key(text(one, "key"), &format!("{at}.key"), faults);
        for (index, value) in items(one, "values").filter(|_| judges_values) {
            let value = value.as_str().unwrap_or_default();
            let judged = names::label_value(value).into_iter();
            faults.extend(judged.map(|f| FieldFault::invalid(format!("{at}.values[{index}]"), value, f)));
        }
    }
    for (index, one) in items(term, "matchFields") {
        let at = format!("{at}.matchFields[{index}]");
        match text(one, "operator") {
            "In" | "NotIn" if items(one, "values").count() != 1 => {
                let text =
                    "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
                faults.push(FieldFault::required(format!("{at}.values"), text));
            }
            "In" | "NotIn" => {}
            other => {
                let text = "not a valid selector operator";
                faults.push(FieldFault::invalid(format!("{at}.operator"), other, text));
            }
        }
        if text(one, "key") != "metadata.name" {
            let text_of = text(one, "key");
            faults.push(FieldFault::invalid(format!("{at}.key"), text_of, "not a valid field selector key"));
        }
    }
}

fn key(key: &str, at: &str, faults: &mut Vec<FieldFault>) {
    faults.extend(names::qualified_name(key).into_iter().map(|f| FieldFault::invalid(at, key, f)));
}

fn pod_term(term: &Value, at: &str, faults: &mut Vec<FieldFault>) {
    label_selector(&term["labelSelector"], &format!("{at}.labelSelector"), faults);
    label_selector(&term["namespaceSelector"], &format!("{at}.namespaceSelector"), faults);
    for (_, name) in items(term, "namespaces") {
        let name = name.as_str().unwrap_or_default();
        let judged = names::label(name).into_iter();
        faults.extend(judged.map(|f| FieldFault::invalid(format!("{at}.namespace"), name, f)));
    }
    let (at, topology) = (format!("{at}.topologyKey"), text(term, "topologyKey"));
    if topology.is_empty() {
        faults.push(FieldFault::required(&at, "can not be empty"));
    }
    key(topology, &at, faults);
}

fn spreading(spec: &Value, path: &str, faults: &mut Vec<FieldFault>) {
    let all = items(spec, "topologySpreadConstraints").collect::<Vec<_>>();
    for (index, one) in &all {
        let at = format!("{path}.topologySpreadConstraints[{index}]");
        let skew = one["maxSkew"].as_i64().unwrap_or_default();
        if skew <= 0 {
            faults.push(FieldFault::invalid(format!("{at}.maxSkew"), skew, "must be greater than zero"));
        }
        let (topology, action) = (text(one, "topologyKey"), text(one, "whenUnsatisfiable"));
        if topology.is_empty() {
            faults.push(FieldFault::required(format!("{at}.topologyKey"), "can not be empty"));
        }
        if !matches!(action, "DoNotSchedule" | "ScheduleAnyway") {
            let known = ["DoNotSchedule", "ScheduleAnyway"];
            faults.push(FieldFault::not_supported(format!("{at}.whenUnsatisfiable"), action, &known));
        }
        let is_repeated = all[index + 1..].iter().any(|(_, other)| {
            text(other, "topologyKey") == topology && text(other, "whenUnsatisfiable") == action
        });
        if is_repeated {
            let at = format!("{at}.{{topologyKey, whenUnsatisfiable}}");
            faults.push(FieldFault::duplicate(at, format!("{{{topology}, {action}}}")));
        }
        domains(one, action, &at, faults);
        for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            one_of(one, field, &["Honor", "Ignore"], &at, faults);
        }
        label_selector(&one["labelSelector"], &format!("{at}.labelSelector"), faults);
    }
}

fn domains(one: &Value, action: &str, at: &str, faults: &mut Vec<FieldFault>) {
    let Some(least) = one["minDomains"].as_i64() else { return };
    let at = format!("{at}.minDomains");
    if least <= 0 {
        faults.push(FieldFault::invalid(&at, least, "must be greater than zero"));
    }
    if action != "DoNotSchedule" {
        let text = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
        faults.push(FieldFault::invalid(at, least, text));
    }
}

fn tolerations(spec: &Value, path: &str, faults: &mut Vec<FieldFault>) {
    for (index, toleration) in items(spec, "tolerations") {
        let at = format!("{path}.tolerations[{index}]");
        let (key, value) = (text(toleration, "key"), text(toleration, "value"));
        if !key.is_empty() {
            faults.extend(
                names::qualified_name(key)
                    .into_iter()
                    .map(|f| FieldFault::invalid(format!("{at}.key"), key, f)),
            );
        }
        match toleration["operator"].as_str().unwrap_or("Equal") {
            "Equal" | "" => {
                if key.is_empty() {
                    let text = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
                    faults.push(FieldFault::invalid(
                        format!("{at}.operator"),
                        text_of(toleration, "operator"),
                        text,
                    ));
                }
                faults.extend(
                    names::label_value(value)
                        .map(|f| FieldFault::invalid(format!("{at}.operator"), value, f)),
                );
            }
            "Exists" if !value.is_empty() => {
                let text = "value must be empty when `operator` is 'Exists'";
                faults.push(FieldFault::invalid(format!("{at}.operator"), toleration.clone(), text));
            }
            "Exists" => {}
            other => {
                faults.push(FieldFault::not_supported(format!("{at}.operator"), other, &["Equal", "Exists"]))
            }
        }
        if !toleration["tolerationSeconds"].is_null() && text(toleration, "effect") != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            faults.push(FieldFault::invalid(format!("{at}.effect"), text_of(toleration, "effect"), detail));
        }
        if !text(toleration, "effect").is_empty() {
            one_of(toleration, "effect", &["NoSchedule", "PreferNoSchedule", "NoExecute"], &at, faults);
        }
    }
}

fn text_of(object: &Value, field: &str) -> String {
    text(object, field).to_owned()
}

fn gates(spec: &Value, path: &str, faults: &mut Vec<FieldFault>) {
    let mut seen = BTreeSet::new();
    for (index, gate) in items(spec, "schedulingGates") {
        let (at, name) = (format!("{path}.schedulingGates[{index}]"), text(gate, "name"));
        faults.extend(names::qualified_name(name).into_iter().map(|f| FieldFault::invalid(&at, name, f)));
        if !seen.insert(name) {
            faults.push(FieldFault::duplicate(at, name));
        }
    }
}
