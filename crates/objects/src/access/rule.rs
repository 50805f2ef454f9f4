//! A rule of a role, and whether it allows a request.
//!
//! Rules: `pkg/apis/rbac/v1/evaluation_helpers.go`, `plugin/pkg/auth/authorizer/rbac/rbac.go` (RuleAllows).

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The wildcard for verbs, groups, resources and paths.
pub const ALL: &str = "*";

/// A `PolicyRule` of `rbac.authorization.k8s.io/v1`.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rule {
    /// API groups; the core group is empty.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "list")]
    pub api_groups: Vec<String>,
    /// Resources, `pods` or `pods/log`.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "list")]
    pub resources: Vec<String>,
    /// Paths that are not resources.
    #[serde(rename = "nonResourceURLs", skip_serializing_if = "Vec::is_empty", deserialize_with = "list")]
    pub non_resource_urls: Vec<String>,
    /// Names of objects; empty for all objects.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "list")]
    pub resource_names: Vec<String>,
    /// Verbs.
    #[serde(deserialize_with = "list")]
    pub verbs: Vec<String>,
}

/// Deserializes a list that may be `null`, as Go writes an empty one.
fn list<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    Ok(Option::<Vec<String>>::deserialize(from)?.unwrap_or_default())
}

/// The attributes of a request (`authorizer.Attributes`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessAttributes<'a> {
    /// A request for a resource.
    Resource {
        /// get, list, watch, create, update, patch, delete, deletecollection, or a verb that occurs only in access
        /// reviews.
        verb: &'a str,
        /// The API group, empty for the core group.
        group: &'a str,
        /// The resource's plural.
        resource: &'a str,
        /// The subresource, or empty.
        subresource: &'a str,
        /// The namespace; empty for all namespaces and for cluster-scoped resources.
        namespace: &'a str,
        /// The object's name, or empty.
        name: &'a str,
    },
    /// A request for a path that is not a resource.
    Path {
        /// The HTTP method, in lower case.
        verb: &'a str,
        /// The path.
        path: &'a str,
    },
}

impl AccessAttributes<'_> {
    /// Returns the namespace of the request, or an empty text.
    pub fn namespace(&self) -> &str {
        match self {
            Self::Resource { namespace, .. } => namespace,
            Self::Path { .. } => "",
        }
    }
}

impl Rule {
    /// Returns the rules of a Role or ClusterRole, without invalid ones.
    pub fn of_role(role: &Value) -> Vec<Self> {
        let rules = role["rules"].as_array().map(Vec::as_slice).unwrap_or_default();
        rules.iter().filter_map(|rule| Self::deserialize(rule).ok()).collect()
    }

    /// Returns whether the rule allows the request.
    pub fn allows(&self, ask: &AccessAttributes<'_>) -> bool {
        match *ask {
            AccessAttributes::Resource { verb, group, resource, subresource, name, .. } => {
                has(&self.verbs, verb)
                    && has(&self.api_groups, group)
                    && self.names_resource(resource, subresource)
                    && (self.resource_names.is_empty() || self.resource_names.iter().any(|own| own == name))
            }
            AccessAttributes::Path { verb, path } => {
                has(&self.verbs, verb) && self.non_resource_urls.iter().any(|own| url_covers(own, path))
            }
        }
    }

    fn names_resource(&self, resource: &str, subresource: &str) -> bool {
        self.resources.iter().any(|own| {
            own == ALL
                || match own.split_once('/') {
                    None => subresource.is_empty() && own == resource,
                    // `*/scale` is the scale subresource of every resource.
                    Some((of, part)) => {
                        !subresource.is_empty() && part == subresource && (of == ALL || of == resource)
                    }
                }
        })
    }
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|own| own == ALL || own == wanted)
}

/// Returns whether a rule's path covers a path, which may itself end in `*`.
pub fn url_covers(own: &str, path: &str) -> bool {
    own == ALL || own == path || own.ends_with('*') && path.starts_with(own.trim_end_matches('*'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(verbs: &str, groups: &str, resources: &str, names: &str) -> Rule {
        let list = |text: &str| {
            if text.is_empty() {
                Vec::new()
            } else {
                text.split(',').map(|t| if t == "core" { String::new() } else { t.to_owned() }).collect()
            }
        };
        Rule {
            verbs: list(verbs),
            api_groups: list(groups),
            resources: list(resources),
            resource_names: list(names),
            non_resource_urls: Vec::new(),
        }
    }

    fn ask<'a>(verb: &'a str, group: &'a str, resource: &'a str, name: &'a str) -> AccessAttributes<'a> {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        AccessAttributes::Resource { verb, group, resource, subresource, namespace: "ns", name }
    }

    /// The substance of the cases of `TestRuleMatches` and `TestAuthorizer`.
    #[test]
    fn rules_allow_what_they_name() {
        let table = [
            (rule("*", "core", "pods", ""), ask("get", "", "pods", "x"), true),
            (rule("get", "core", "pods", ""), ask("list", "", "pods", ""), false),
            (rule("get", "*", "pods", ""), ask("get", "apps", "pods", ""), true),
            (rule("get", "apps", "pods", ""), ask("get", "", "pods", ""), false),
            (rule("get", "*", "*", ""), ask("get", "", "pods/log", ""), true),
            (rule("get", "core", "pods", ""), ask("get", "", "pods/log", ""), false),
            (rule("get", "core", "pods/log", ""), ask("get", "", "pods/log", ""), true),
            (rule("get", "core", "pods/log", ""), ask("get", "", "pods", ""), false),
            (rule("update", "*", "*/scale", ""), ask("update", "apps", "jobs/scale", ""), true),
            (rule("update", "*", "*/scale", ""), ask("update", "apps", "jobs/status", ""), false),
            (rule("update", "*", "*/scale", ""), ask("update", "apps", "scale", ""), false),
            (rule("update", "*", "pods/*", ""), ask("update", "", "pods/log", ""), false),
            (rule("get", "core", "pods", "a,b"), ask("get", "", "pods", "b"), true),
            (rule("get", "core", "pods", "a,b"), ask("get", "", "pods", "c"), false),
            // A request without a name, as for create and list, does not match a rule with names.
            (rule("create,list", "core", "pods", "a"), ask("create", "", "pods", ""), false),
            (rule("create,list", "core", "pods", "a"), ask("list", "", "pods", ""), false),
        ];
        for (rule, ask, allowed) in table {
            assert_eq!(rule.allows(&ask), allowed, "{rule:?} {ask:?}");
        }
    }

    #[test]
    fn paths_are_matched_by_prefix() {
        let rule = |urls: &[&str]| Rule {
            verbs: vec!["get".into()],
            non_resource_urls: urls.iter().map(|url| (*url).to_owned()).collect(),
            ..Rule::default()
        };
        let ask = |path| AccessAttributes::Path { verb: "get", path };
        let table = [
            ("/version", "/version", true),
            ("/version", "/version/", false),
            ("/version/", "/version/", true),
            ("/apis/*", "/apis/batch/v1", true),
            ("/apis/*", "/apis", false),
            ("*", "/anything", true),
            ("/foo*", "/foobar", true),
        ];
        for (url, path, allowed) in table {
            assert_eq!(rule(&[url]).allows(&ask(path)), allowed, "{url} {path}");
        }
        assert!(!rule(&["*"]).allows(&AccessAttributes::Path { verb: "post", path: "/x" }));
        // Rules for resources do not apply to paths, nor the other way round.
        let resource = AccessAttributes::Resource {
            verb: "get",
            group: "",
            resource: "pods",
            subresource: "",
            namespace: "",
            name: "",
        };
        assert!(!rule(&["*"]).allows(&resource));
        let everything = Rule {
            verbs: vec!["*".into()],
            api_groups: vec!["*".into()],
            resources: vec!["*".into()],
            ..Rule::default()
        };
        assert!(!everything.allows(&ask("/version")));
    }
}
