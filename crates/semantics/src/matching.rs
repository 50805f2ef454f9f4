//! Matching of label selectors, node selector terms and tolerations.
//!
//! Rules: `k8s.io/apimachinery/pkg/labels` and `k8s.io/component-helpers/scheduling/corev1`.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Taint, Toleration,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

type Labels = BTreeMap<String, String>;

/// How a requirement compares a value, which may be absent, with the values that it lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// The value is one of these.
    In,
    /// The value is absent, or none of these.
    NotIn,
    /// The value exists.
    Exists,
    /// The value is absent.
    DoesNotExist,
    /// The value is an integer greater than the first of these.
    Gt,
    /// The value is an integer less than the first of these.
    Lt,
}

impl Operator {
    /// Returns the operator of this name.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "In" => Self::In,
            "NotIn" => Self::NotIn,
            "Exists" => Self::Exists,
            "DoesNotExist" => Self::DoesNotExist,
            "Gt" => Self::Gt,
            "Lt" => Self::Lt,
            _ => return None,
        })
    }

    /// Returns whether the value meets the requirement.
    pub fn holds(self, value: Option<&str>, listed: &[String]) -> bool {
        let numbers = || Some((value?.parse::<i64>().ok()?, listed.first()?.parse::<i64>().ok()?));
        match self {
            Self::In => value.is_some_and(|value| listed.iter().any(|one| one == value)),
            Self::NotIn => value.is_none_or(|value| listed.iter().all(|one| one != value)),
            Self::Exists => value.is_some(),
            Self::DoesNotExist => value.is_none(),
            Self::Gt => numbers().is_some_and(|(value, bound)| value > bound),
            Self::Lt => numbers().is_some_and(|(value, bound)| value < bound),
        }
    }
}

/// Returns whether the selector matches these labels. An empty selector matches everything.
pub fn labels_match(selector: &LabelSelector, labels: &Labels) -> bool {
    let equal = selector.match_labels.iter().flatten().all(|(key, value)| labels.get(key) == Some(value));
    equal
        && selector.match_expressions.iter().flatten().all(|r| {
            let value = labels.get(&r.key).map(String::as_str);
            requirement_met(&r.operator, value, r.values.as_deref().unwrap_or_default())
        })
}

/// An unknown operator selects nothing.
fn requirement_met(operator: &str, value: Option<&str>, listed: &[String]) -> bool {
    Operator::named(operator).is_some_and(|operator| operator.holds(value, listed))
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
