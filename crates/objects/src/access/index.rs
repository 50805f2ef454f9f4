//! An index of roles and bindings: bindings by their subjects, roles by name.
//!
//! Objects are added and removed one by one ([`Index::put`], [`Index::remove`]) and parsed once. A query looks only at
//! the bindings with the user or one of the user's groups as subject. Rules: `pkg/registry/rbac/validation/rule.go`,
//! `plugin/pkg/auth/authorizer/rbac/rbac.go`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::Value;

use super::{AccessAttributes, Rule, UserInfo, account_name};

/// The kinds of RBAC objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A ClusterRole.
    ClusterRole,
    /// A Role in a namespace.
    Role,
    /// A ClusterRoleBinding.
    ClusterRoleBinding,
    /// A RoleBinding in a namespace.
    RoleBinding,
}

impl Kind {
    /// Returns the kind of a resource's plural.
    pub fn of_plural(plural: &str) -> Option<Self> {
        Some(match plural {
            "clusterroles" => Self::ClusterRole,
            "roles" => Self::Role,
            "clusterrolebindings" => Self::ClusterRoleBinding,
            "rolebindings" => Self::RoleBinding,
            _ => return None,
        })
    }
}

/// A subject of a binding.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Subject {
    User(String),
    Group(String),
}

/// A binding, reduced to what queries need.
#[derive(Debug)]
struct Binding {
    /// Whether it refers to a ClusterRole.
    of_cluster: bool,
    role: String,
    subjects: Vec<Subject>,
}

/// The bindings of one namespace, or of the cluster.
#[derive(Debug, Default)]
struct Scope {
    bindings: BTreeMap<String, Binding>,
    by_subject: HashMap<Subject, BTreeSet<String>>,
}

/// An index of roles and bindings.
#[derive(Debug, Default)]
pub struct Index {
    cluster_roles: HashMap<String, Arc<[Rule]>>,
    /// By namespace, then name.
    roles: HashMap<String, HashMap<String, Arc<[Rule]>>>,
    cluster: Scope,
    namespaces: HashMap<String, Scope>,
}

/// The decision about a request, with upstream's reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessDecision {
    /// Whether the request is allowed.
    pub allowed: bool,
    /// The binding that allows it, or errors on the way; may be empty.
    pub reason: String,
}

/// The rules that apply to a user in a scope, and errors such as missing roles.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ResolvedRules {
    /// Every rule.
    pub rules: Vec<Rule>,
    /// The errors.
    pub errors: Vec<String>,
}

impl Scope {
    fn put(&mut self, name: &str, binding: Binding) {
        self.remove(name);
        for subject in &binding.subjects {
            self.by_subject.entry(subject.clone()).or_default().insert(name.to_owned());
        }
        self.bindings.insert(name.to_owned(), binding);
    }

    fn remove(&mut self, name: &str) {
        for subject in self.bindings.remove(name).into_iter().flat_map(|binding| binding.subjects) {
            if let Some(names) = self.by_subject.get_mut(&subject) {
                names.remove(name);
                if names.is_empty() {
                    self.by_subject.remove(&subject);
                }
            }
        }
    }

    /// Returns the bindings with the user as a subject, ordered by name, each with the matching subject.
    fn of<'a>(&'a self, user: &UserInfo) -> impl Iterator<Item = (&'a str, &'a Binding, &'a Subject)> {
        let groups = user.groups.iter().map(|group| Subject::Group(group.clone()));
        let subjects = std::iter::once(Subject::User(user.name.clone())).chain(groups);
        let names = subjects
            .filter_map(|subject| self.by_subject.get_key_value(&subject))
            .flat_map(|(subject, names)| names.iter().map(move |name| (name.as_str(), subject)))
            .collect::<BTreeMap<_, _>>();
        names.into_iter().filter_map(|(name, subject)| Some((name, self.bindings.get(name)?, subject)))
    }
}

impl Index {
    /// Adds an object, or replaces the one of this name.
    pub fn put(&mut self, kind: Kind, object: &Value) {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
        let (namespace, name) = (text("namespace"), text("name"));
        match kind {
            Kind::ClusterRole => {
                self.cluster_roles.insert(name.to_owned(), Rule::of_role(object).into());
            }
            Kind::Role => {
                let roles = self.roles.entry(namespace.to_owned()).or_default();
                roles.insert(name.to_owned(), Rule::of_role(object).into());
            }
            Kind::ClusterRoleBinding => self.cluster.put(name, Binding::of(object, "")),
            Kind::RoleBinding => {
                let scope = self.namespaces.entry(namespace.to_owned()).or_default();
                scope.put(name, Binding::of(object, namespace));
            }
        }
    }

    /// Removes an object.
    pub fn remove(&mut self, kind: Kind, object: &Value) {
        let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
        let (namespace, name) = (text("namespace"), text("name"));
        match kind {
            Kind::ClusterRole => {
                self.cluster_roles.remove(name);
            }
            Kind::Role => {
                if let Some(roles) = self.roles.get_mut(namespace) {
                    roles.remove(name);
                    if roles.is_empty() {
                        self.roles.remove(namespace);
                    }
                }
            }
            Kind::ClusterRoleBinding => self.cluster.remove(name),
            Kind::RoleBinding => {
                if let Some(scope) = self.namespaces.get_mut(namespace) {
                    scope.remove(name);
                    if scope.bindings.is_empty() {
                        self.namespaces.remove(namespace);
                    }
                }
            }
        }
    }

    /// Decides whether the user is authorized.
    pub fn decide(&self, user: &UserInfo, ask: &AccessAttributes<'_>) -> AccessDecision {
        let mut errors = Vec::new();
        for (scope, namespace) in self.scopes(ask.namespace()) {
            for (name, binding, subject) in scope.of(user) {
                match self.rules_of(binding, namespace) {
                    Ok(rules) if rules.iter().any(|rule| rule.allows(ask)) => {
                        return AccessDecision {
                            allowed: true,
                            reason: reason(name, binding, subject, user, namespace),
                        };
                    }
                    Ok(_) => {}
                    Err(error) => errors.push(error),
                }
            }
        }
        let reason = match errors.as_slice() {
            [] => String::new(),
            [one] => format!("RBAC: {one}"),
            several => format!("RBAC: [{}]", several.join(", ")),
        };
        AccessDecision { allowed: false, reason }
    }

    /// Returns every rule that applies to the user in a namespace, or in the whole cluster if it is empty.
    pub fn held(&self, user: &UserInfo, namespace: &str) -> ResolvedRules {
        let mut held = ResolvedRules::default();
        for (scope, namespace) in self.scopes(namespace) {
            for (_, binding, _) in scope.of(user) {
                match self.rules_of(binding, namespace) {
                    Ok(rules) => held.rules.extend(rules.iter().cloned()),
                    Err(error) => held.errors.push(error),
                }
            }
        }
        held
    }

    /// Returns the rules of a role, or of a ClusterRole without a namespace; `None` if it does not exist.
    pub fn role(&self, namespace: Option<&str>, name: &str) -> Option<&Arc<[Rule]>> {
        match namespace {
            Some(namespace) => self.roles.get(namespace)?.get(name),
            None => self.cluster_roles.get(name),
        }
    }

    fn scopes<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = (&'a Scope, &'a str)> {
        let own = (!namespace.is_empty()).then(|| self.namespaces.get(namespace)).flatten();
        std::iter::once((&self.cluster, "")).chain(own.map(|scope| (scope, namespace)))
    }

    fn rules_of(&self, binding: &Binding, namespace: &str) -> Result<&Arc<[Rule]>, String> {
        let kind = if binding.of_cluster { "clusterrole" } else { "role" };
        self.role((!binding.of_cluster).then_some(namespace), &binding.role)
            .ok_or_else(|| format!("{kind}.{} {:?} not found", super::GROUP, binding.role))
    }
}

impl Binding {
    fn of(object: &Value, namespace: &str) -> Self {
        let subjects = object["subjects"].as_array().map(Vec::as_slice).unwrap_or_default();
        Self {
            of_cluster: object["roleRef"]["kind"] == "ClusterRole",
            role: object["roleRef"]["name"].as_str().unwrap_or_default().to_owned(),
            subjects: subjects.iter().filter_map(|subject| Subject::of(subject, namespace)).collect(),
        }
    }
}

impl Subject {
    fn of(subject: &Value, namespace: &str) -> Option<Self> {
        let name = subject["name"].as_str()?;
        match subject["kind"].as_str()? {
            "User" => Some(Self::User(name.to_owned())),
            "Group" => Some(Self::Group(name.to_owned())),
            "ServiceAccount" => {
                let own = subject["namespace"].as_str().filter(|own| !own.is_empty()).unwrap_or(namespace);
                (!own.is_empty()).then(|| Self::User(account_name(own, name)))
            }
            _ => None,
        }
    }
}

/// Formats `RBAC: allowed by …`, worded as `clusterRoleBindingDescriber` and `roleBindingDescriber`.
fn reason(name: &str, binding: &Binding, subject: &Subject, user: &UserInfo, namespace: &str) -> String {
    let by = if namespace.is_empty() {
        format!("ClusterRoleBinding {name:?}")
    } else {
        format!("RoleBinding \"{name}/{namespace}\"")
    };
    let kind = if binding.of_cluster { "ClusterRole" } else { "Role" };
    let to = match subject {
        Subject::Group(group) => format!("Group {group:?}"),
        Subject::User(_) => match super::account_of(&user.name) {
            Some((namespace, name)) => format!("ServiceAccount \"{name}/{namespace}\""),
            None => format!("User {:?}", user.name),
        },
    };
    format!("RBAC: allowed by {by} of {kind} {:?} to {to}", binding.role)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn index() -> Index {
        let mut index = Index::default();
        let rules = |verbs: &[&str]| json!([{"verbs": verbs, "apiGroups": [""], "resources": ["pods"]}]);
        let meta = |namespace: &str, name: &str| json!({"namespace": namespace, "name": name});
        index.put(Kind::ClusterRole, &json!({"metadata": meta("", "reader"), "rules": rules(&["get"])}));
        index.put(Kind::Role, &json!({"metadata": meta("a", "writer"), "rules": rules(&["update"])}));
        let group = json!([{"kind": "Group", "name": "people"}]);
        let bind = |namespace: &str, name: &str, kind: &str, role: &str, subjects: &Value| {
            json!({"metadata": meta(namespace, name),
            "roleRef": {"kind": kind, "name": role}, "subjects": subjects})
        };
        index.put(Kind::ClusterRoleBinding, &bind("", "all", "ClusterRole", "reader", &group));
        let own = json!([{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "robot"}]);
        index.put(Kind::RoleBinding, &bind("a", "own", "Role", "writer", &own));
        let far = json!([{"kind": "ServiceAccount", "namespace": "b", "name": "robot"}]);
        index.put(Kind::RoleBinding, &bind("a", "far", "ClusterRole", "reader", &far));
        let lost = json!([{"kind": "User", "name": "lost"}]);
        index.put(Kind::RoleBinding, &bind("a", "lost", "Role", "gone", &lost));
        index
    }

    fn ask<'a>(verb: &'a str, namespace: &'a str) -> AccessAttributes<'a> {
        AccessAttributes::Resource { verb, group: "", resource: "pods", subresource: "", namespace, name: "" }
    }

    #[test]
    fn bindings_grant_roles_to_their_subjects_in_their_scope() {
        let index = index();
        let user = |name: &str, groups: &[&str]| UserInfo::known(name, groups);
        let table = [
            (user("x", &["people"]), ask("get", "b"), true),
            (user("x", &["people"]), ask("get", ""), true),
            (user("x", &["people"]), ask("update", "a"), false),
            (user("people", &[]), ask("get", "b"), false),
            (user("u", &[]), ask("update", "a"), true),
            (user("u", &[]), ask("update", "b"), false),
            (user("u", &[]), ask("update", ""), false),
            // A service account in a binding is of the binding's namespace unless the subject names another.
            (UserInfo::account("a", "robot"), ask("update", "a"), true),
            (UserInfo::account("b", "robot"), ask("update", "a"), false),
            (UserInfo::account("b", "robot"), ask("get", "a"), true),
            (UserInfo::account("b", "robot"), ask("get", "b"), false),
        ];
        for (user, ask, allowed) in table {
            assert_eq!(index.decide(&user, &ask).allowed, allowed, "{user:?} {ask:?}");
        }
    }

    #[test]
    fn reasons_match_upstream() {
        let index = index();
        let reason = |user: UserInfo, ask: AccessAttributes<'_>| index.decide(&user, &ask).reason;
        assert_eq!(
            reason(UserInfo::known("x", &["people"]), ask("get", "b")),
            r#"RBAC: allowed by ClusterRoleBinding "all" of ClusterRole "reader" to Group "people""#
        );
        assert_eq!(
            reason(UserInfo::account("b", "robot"), ask("get", "a")),
            r#"RBAC: allowed by RoleBinding "far/a" of ClusterRole "reader" to ServiceAccount "robot/b""#
        );
        assert_eq!(
            reason(UserInfo::known("lost", &[]), ask("get", "a")),
            r#"RBAC: role.rbac.authorization.k8s.io "gone" not found"#
        );
        assert_eq!(index.held(&UserInfo::known("lost", &[]), "a").errors.len(), 1);
        assert_eq!(index.held(&UserInfo::known("u", &["people"]), "a").rules.len(), 2);
    }

    #[test]
    fn removed_objects_grant_nothing() {
        let mut index = index();
        let user = UserInfo::known("u", &[]);
        let named = |name: &str| json!({"metadata": {"namespace": "a", "name": name}});
        index.remove(Kind::Role, &named("writer"));
        assert!(!index.decide(&user, &ask("update", "a")).allowed);
        for name in ["own", "far", "lost"] {
            index.remove(Kind::RoleBinding, &named(name));
        }
        assert!(index.namespaces.is_empty() && index.roles.is_empty());
        // A replaced binding leaves nothing of its old subjects behind.
        let bind = |subject: &str| {
            json!({"metadata": {"name": "all"}, "roleRef": {"kind": "ClusterRole", "name": "reader"},
            "subjects": [{"kind": "User", "name": subject}]})
        };
        index.put(Kind::ClusterRoleBinding, &bind("v"));
        index.put(Kind::ClusterRoleBinding, &bind("w"));
        let may = |name: &str| index.decide(&UserInfo::known(name, &[]), &ask("get", "b")).allowed;
        assert_eq!((may("v"), may("w")), (false, true));
        assert_eq!(index.cluster.by_subject.len(), 1);
    }
}
