//! Whether rules cover other rules: nobody may grant permissions that they do not have.
//!
//! Rules: `component-helpers/auth/rbac/validation/policy_comparator.go` (Covers),
//! `pkg/registry/rbac/validation/rule.go` (ConfirmNoEscalation), `pkg/registry/rbac/validation/policy_compact.go`.

use std::collections::{BTreeMap, BTreeSet};

use super::rule::{ALL, Rule, url_covers};

/// Returns the parts of `wanted` that `own` does not cover, each with one verb and one resource or path.
pub fn missing(own: &[Rule], wanted: &[Rule]) -> Vec<Rule> {
    wanted.iter().flat_map(broken_down).filter(|part| !own.iter().any(|rule| covers(rule, part))).collect()
}

/// Formats missing rules, one line per rule, sorted; verbs of the same resource or path share a line.
pub fn described(missing: &[Rule]) -> Vec<String> {
    let mut verbs = BTreeMap::<Rule, BTreeSet<String>>::new();
    for rule in missing {
        let about = Rule { verbs: Vec::new(), ..rule.clone() };
        verbs.entry(about).or_default().extend(rule.verbs.iter().cloned());
    }
    let lines =
        verbs.into_iter().map(|(about, verbs)| text(&Rule { verbs: verbs.into_iter().collect(), ..about }));
    lines.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Formats a rule as in upstream's messages (`rbacv1helpers.CompactString`).
fn text(rule: &Rule) -> String {
    let Rule { api_groups, resources, non_resource_urls, resource_names, verbs } = rule;
    let parts = [
        ("APIGroups", api_groups),
        ("Resources", resources),
        ("NonResourceURLs", non_resource_urls),
        ("ResourceNames", resource_names),
        ("Verbs", verbs),
    ];
    let parts = parts.into_iter().filter(|(_, list)| !list.is_empty());
    let parts = parts.map(|(name, list)| format!("{name}:{}", quoted(list))).collect::<Vec<_>>();
    format!("{{{}}}", parts.join(", "))
}

/// Formats a list as Go's `%q` does.
pub fn quoted(list: &[String]) -> String {
    let items = list.iter().map(|item| format!("{item:?}")).collect::<Vec<_>>();
    format!("[{}]", items.join(" "))
}

fn broken_down(rule: &Rule) -> Vec<Rule> {
    let one = |item: &String| vec![item.clone()];
    let mut parts = Vec::new();
    for verb in &rule.verbs {
        for url in &rule.non_resource_urls {
            parts.push(Rule { verbs: one(verb), non_resource_urls: one(url), ..Rule::default() });
        }
        for group in &rule.api_groups {
            for resource in &rule.resources {
                let part = Rule {
                    verbs: one(verb),
                    api_groups: one(group),
                    resources: one(resource),
                    ..Rule::default()
                };
                if rule.resource_names.is_empty() {
                    parts.push(part);
                    continue;
                }
                for name in &rule.resource_names {
                    parts.push(Rule { resource_names: one(name), ..part.clone() });
                }
            }
        }
    }
    parts
}

/// Returns whether `own` covers `part`, which has one verb and one resource or path.
fn covers(own: &Rule, part: &Rule) -> bool {
    let has = |list: &[String], wanted: &[String]| {
        wanted.iter().all(|item| list.iter().any(|own| own == ALL || own == item))
    };
    let has_resource = |resource: &String| {
        own.resources.iter().any(|own| {
            own == ALL
                || own == resource
                || own.strip_prefix("*/").is_some_and(|of| {
                    resource.split_once('/').is_some_and(|(_, subresource)| subresource == of)
                })
        })
    };
    let names = own.resource_names.is_empty()
        || !part.resource_names.is_empty()
            && part.resource_names.iter().all(|name| own.resource_names.contains(name));
    let urls = part
        .non_resource_urls
        .iter()
        .all(|path| own.non_resource_urls.iter().any(|url| url_covers(url, path)));
    has(&own.verbs, &part.verbs)
        && has(&own.api_groups, &part.api_groups)
        && part.resources.iter().all(has_resource)
        && names
        && urls
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rules(value: serde_json::Value) -> Vec<Rule> {
        Rule::of_role(&json!({ "rules": value }))
    }

    /// The substance of the cases of `policy_comparator_test.go`.
    #[test]
    fn uncovered_permissions_are_returned() {
        let rule = |verbs: &[&str], groups: &[&str], resources: &[&str]| json!({"verbs": verbs, "apiGroups": groups, "resources": resources});
        let named = |verbs: &[&str], names: &[&str]| json!({"verbs": verbs, "apiGroups": [""], "resources": ["pods"], "resourceNames": names});
        let url = |verbs: &[&str], urls: &[&str]| json!({"verbs": verbs, "nonResourceURLs": urls});
        let table = [
            (json!([rule(&["get"], &[""], &["pods"])]), json!([rule(&["get"], &[""], &["pods"])]), 0),
            (json!([rule(&["get"], &[""], &["pods"])]), json!([rule(&["get", "list"], &[""], &["pods"])]), 1),
            // Two rules cover it together.
            (
                json!([rule(&["get"], &[""], &["pods"]), rule(&["list"], &[""], &["pods"])]),
                json!([rule(&["get", "list"], &[""], &["pods"])]),
                0,
            ),
            (
                json!([rule(&["*"], &["*"], &["*"])]),
                json!([rule(&["get", "list"], &["", "a"], &["p", "q/r"])]),
                0,
            ),
            // A star covers more than all known names.
            (json!([rule(&["get", "list"], &[""], &["pods"])]), json!([rule(&["*"], &[""], &["pods"])]), 1),
            (
                json!([rule(&["get"], &[""], &["*/scale"])]),
                json!([rule(&["get"], &[""], &["pods/scale"])]),
                0,
            ),
            (
                json!([rule(&["get"], &[""], &["*/scale"])]),
                json!([rule(&["get"], &[""], &["pods/status"])]),
                1,
            ),
            (json!([rule(&["get"], &[""], &["pods"])]), json!([rule(&["get"], &[""], &["pods/log"])]), 1),
            (json!([named(&["get"], &["a"])]), json!([named(&["get"], &["a", "b"])]), 1),
            (json!([named(&["get"], &["a"])]), json!([rule(&["get"], &[""], &["pods"])]), 1),
            (json!([rule(&["get"], &[""], &["pods"])]), json!([named(&["get"], &["a"])]), 0),
            (json!([url(&["get"], &["/apis/*"])]), json!([url(&["get"], &["/apis/a", "/apis/*"])]), 0),
            (json!([url(&["get"], &["/apis"])]), json!([url(&["get"], &["/apis", "/api"])]), 1),
            (json!([url(&["get"], &["/a"])]), json!([url(&["get"], &["*"])]), 1),
            (json!([]), json!([rule(&["a", "b"], &["c", "d"], &["e", "f"])]), 8),
            (json!([rule(&["*"], &["*"], &["*"])]), json!([url(&["get"], &["/"])]), 1),
        ];
        for (own, wanted, count) in table {
            let missing = missing(&rules(own.clone()), &rules(wanted.clone()));
            assert_eq!(missing.len(), count, "{own} {wanted}: {missing:?}");
        }
    }

    #[test]
    fn missing_permissions_are_described_as_upstream() {
        let wanted = json!([{"verbs": ["list", "get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]},
            {"verbs": ["get"], "nonResourceURLs": ["/x"]}]);
        assert_eq!(
            described(&missing(&[], &rules(wanted))),
            [
                r#"{APIGroups:[""], Resources:["pods"], ResourceNames:["a"], Verbs:["get" "list"]}"#,
                r#"{NonResourceURLs:["/x"], Verbs:["get"]}"#
            ]
        );
    }
}
