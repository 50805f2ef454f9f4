//! The rules of a ClusterRole that aggregates others.
//!
//! Rule: `pkg/controller/clusterroleaggregation/clusterroleaggregation_controller.go`.

use serde_json::Value;

use super::Rule;
use crate::LabelSelector;

/// Returns the rules that a ClusterRole with an `aggregationRule` gets from all ClusterRoles, in the order of their
/// names and without duplicates; `None` for a role without one.
pub fn gathered<'a>(role: &Value, all: impl Iterator<Item = &'a Value> + Clone) -> Option<Vec<Rule>> {
    let selectors = role["aggregationRule"]["clusterRoleSelectors"].as_array()?;
    let own = &role["metadata"]["name"];
    let mut rules = Vec::new();
    for selector in selectors {
        let Ok(selector) = LabelSelector::of(selector) else { continue };
        let is_selected = |other: &&Value| other["metadata"]["name"] != *own && selector.matches(other);
        let mut selected = all.clone().filter(is_selected).collect::<Vec<_>>();
        selected.sort_by_key(|other| other["metadata"]["name"].as_str());
        for rule in selected.into_iter().flat_map(Rule::of_role) {
            if !rules.contains(&rule) {
                rules.push(rule);
            }
        }
    }
    Some(rules)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rules_are_aggregated_by_label_in_the_order_of_names() {
        let rule = |verb: &str| json!({"verbs": [verb], "apiGroups": [""], "resources": ["pods"]});
        let role = |name: &str, label: &str, rules: Value| json!({"metadata": {"name": name, "labels": {(label): "true"}}, "rules": rules});
        let own = json!({"metadata": {"name": "own", "labels": {"to-own": "true"}}, "rules": [rule("old")],
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"to-own": "true"}}, {"matchLabels": {"more": "true"}}]}});
        let all = [
            role("b", "to-own", json!([rule("get"), rule("list")])),
            role("a", "to-own", json!([rule("watch"), rule("get")])),
            role("c", "more", json!([rule("list"), rule("patch")])),
            role("d", "other", json!([rule("delete")])),
            own.clone(),
        ];
        let verbs = |role: &Value| {
            gathered(role, all.iter())
                .map(|rules| rules.into_iter().flat_map(|rule| rule.verbs).collect::<Vec<_>>())
        };
        assert_eq!(verbs(&own), Some(["watch", "get", "list", "patch"].map(String::from).to_vec()));
        assert_eq!(verbs(&all[0]), None);
    }
}
