//! Matching of label selectors, node selector terms and tolerations. Pure.
//!
//! Rules: `k8s.io/component-helpers/scheduling/corev1` of Kubernetes 1.36.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Taint, Toleration,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

type Labels = BTreeMap<String, String>;

/// Returns whether the selector matches these labels. An empty selector matches everything.
pub fn labels_match(selector: &LabelSelector, labels: &Labels) -> bool {
    let equal = selector.match_labels.iter().flatten().all(|(key, value)| labels.get(key) == Some(value));
    equal
        && selector.match_expressions.iter().flatten().all(|r| {
            let value = labels.get(&r.key).map(String::as_str);
            requirement_met(&r.operator, value, r.values.as_deref().unwrap_or_default())
        })
}

fn requirement_met(operator: &str, value: Option<&str>, wanted: &[String]) -> bool {
    match operator {
        "In" => value.is_some_and(|v| wanted.iter().any(|w| w == v)),
        "NotIn" => value.is_none_or(|v| wanted.iter().all(|w| w != v)),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" | "Lt" => {
            let number = value.and_then(|v| v.parse::<i64>().ok());
            let limit = wanted.first().and_then(|w| w.parse::<i64>().ok());
            match (number, limit) {
                (Some(number), Some(limit)) if operator == "Gt" => number > limit,
                (Some(number), Some(limit)) => number < limit,
                _ => false,
            }
        }
        // An unknown operator selects nothing.
        _ => false,
    }
}

/// Returns whether any term of the selector matches the node. A selector without terms matches nothing.
pub fn node_matches(selector: &NodeSelector, name: &str, labels: &Labels) -> bool {
    selector.node_selector_terms.iter().any(|term| term_matches(term, name, labels))
}

/// Returns whether every requirement of the term matches the node. An empty term matches nothing.
pub fn term_matches(term: &NodeSelectorTerm, name: &str, labels: &Labels) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    let met = |r: &NodeSelectorRequirement, value: Option<&str>| {
        requirement_met(&r.operator, value, r.values.as_deref().unwrap_or_default())
    };
    !(expressions.is_empty() && fields.is_empty())
        && expressions.iter().all(|r| met(r, labels.get(&r.key).map(String::as_str)))
        && fields.iter().all(|r| met(r, (r.key == "metadata.name").then_some(name)))
}

/// Returns whether the toleration covers the taint.
pub fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let (effect, key) = (text(&toleration.effect), text(&toleration.key));
    if !effect.is_empty() && effect != taint.effect {
        return false;
    }
    if !key.is_empty() && key != taint.key {
        return false;
    }
    match toleration.operator.as_deref().unwrap_or("Equal") {
        "Exists" => true,
        "Equal" | "" => text(&toleration.value) == text(&taint.value),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn requirements() {
        let labels: Labels = [("zone".to_owned(), "a".to_owned()), ("n".to_owned(), "5".to_owned())].into();
        for (requirement, expected) in [
            (json!({"key": "zone", "operator": "In", "values": ["a", "b"]}), true),
            (json!({"key": "zone", "operator": "NotIn", "values": ["a"]}), false),
            (json!({"key": "gone", "operator": "NotIn", "values": ["a"]}), true),
            (json!({"key": "zone", "operator": "Exists"}), true),
            (json!({"key": "gone", "operator": "DoesNotExist"}), true),
            (json!({"key": "n", "operator": "Gt", "values": ["4"]}), true),
            (json!({"key": "n", "operator": "Lt", "values": ["4"]}), false),
            (json!({"key": "zone", "operator": "Gt", "values": ["4"]}), false),
        ] {
            let term = serde_json::from_value(json!({"matchExpressions": [requirement]})).unwrap();
            assert_eq!(term_matches(&term, "x", &labels), expected, "{requirement}");
        }
        let by_name = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["x"]}]});
        assert!(term_matches(&serde_json::from_value(by_name).unwrap(), "x", &labels));
        assert!(!term_matches(&NodeSelectorTerm::default(), "x", &labels));
    }

    #[test]
    fn tolerations() {
        let taint =
            Taint { key: "k".into(), value: Some("v".into()), effect: "NoSchedule".into(), time_added: None };
        for (toleration, expected) in [
            (json!({}), false),
            (json!({"operator": "Exists"}), true),
            (json!({"key": "k", "operator": "Exists"}), true),
            (json!({"key": "k", "value": "v"}), true),
            (json!({"key": "k", "value": "w"}), false),
            (json!({"key": "k", "value": "v", "effect": "NoExecute"}), false),
            (json!({"key": "other", "operator": "Exists"}), false),
        ] {
            let parsed = serde_json::from_value(toleration.clone()).unwrap();
            assert_eq!(tolerates(&parsed, &taint), expected, "{toleration}");
        }
    }
}
