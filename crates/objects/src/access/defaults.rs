//! The default roles and bindings, and how they are reconciled at later starts.
//!
//! Rule: `plugin/pkg/auth/authorizer/rbac/bootstrappolicy`, `pkg/registry/rbac/rest/storage_rbac.go`; the table is
//! `default_roles.txt`, and `own_roles.txt` for what this cluster needs beyond it. Additions by users are kept, and
//! what is missing is restored, unless the object's annotation
//! `rbac.authorization.kubernetes.io/autoupdate` is `false`.

use serde_json::{Value, json};

use super::index::Kind;
use super::{GROUP, Rule, aggregate, covers};

const TABLE: &str = concat!(include_str!("default_roles.txt"), include_str!("own_roles.txt"));
const AUTO_UPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";
const AGGREGATE: &str = "rbac.authorization.k8s.io/aggregate-to-";

/// Returns the default objects, with the rules of aggregated roles filled in.
pub fn objects() -> Vec<(Kind, Value)> {
    let mut objects = read(TABLE);
    let roles = objects.iter().filter(|(kind, _)| *kind == Kind::ClusterRole).map(|(_, role)| role.clone());
    let mut roles = roles.collect::<Vec<_>>();
    // `admin` aggregates `edit`, which aggregates `view`: one round per level.
    for _ in 0..3 {
        let before = roles.clone();
        for role in &mut roles {
            if let Some(rules) = aggregate::gathered(role, before.iter()) {
                role["rules"] = json!(rules);
            }
        }
    }
    let mut roles = roles.into_iter();
    for (_, object) in objects.iter_mut().filter(|(kind, _)| *kind == Kind::ClusterRole) {
        if let Some(role) = roles.next() {
            *object = role;
        }
    }
    objects
}

/// Returns the reconciled state of an existing default object; `None` if nothing changes.
pub fn kept_up(present: &Value, wanted: &Value) -> Option<Value> {
    if present["metadata"]["annotations"][AUTO_UPDATE] == "false" {
        return None;
    }
    let mut next = present.clone();
    if wanted["aggregationRule"].is_object() {
        next["aggregationRule"] = wanted["aggregationRule"].clone();
    } else if wanted["rules"].is_array() {
        let missing = covers::missing(&Rule::of_role(present), &Rule::of_role(wanted));
        extend(&mut next["rules"], missing.into_iter().map(|rule| json!(rule)));
    }
    if let Some(subjects) = wanted["subjects"].as_array() {
        let own = present["subjects"].as_array().cloned().unwrap_or_default();
        extend(&mut next["subjects"], subjects.iter().filter(|subject| !own.contains(subject)).cloned());
    }
    (next != *present).then_some(next)
}

fn extend(list: &mut Value, more: impl Iterator<Item = Value>) {
    let more = more.collect::<Vec<_>>();
    match list.as_array_mut() {
        Some(list) => list.extend(more),
        None if more.is_empty() => {}
        None => *list = more.into(),
    }
}

/// Parses the table.
fn read(table: &str) -> Vec<(Kind, Value)> {
    let mut objects: Vec<(Kind, Value)> = Vec::new();
    for line in table.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let words = line.split_whitespace().collect::<Vec<_>>();
        match (words.as_slice(), objects.last_mut()) {
            (["bind", name, role, subjects @ ..], _) => objects.push(binding(name, role, subjects)),
            (words, Some((_, role))) if line.starts_with(' ') => {
                extend(&mut role["rules"], std::iter::once(json!(rule(words))));
            }
            ([name, words @ ..], _) => objects.push(role(name, words)),
            ([], _) => {}
        }
    }
    objects
}

fn list(text: &str) -> Vec<String> {
    text.split(',').map(|item| if item == "core" { String::new() } else { item.to_owned() }).collect()
}

fn rule(words: &[&str]) -> Rule {
    match *words {
        [verbs, urls] => Rule { verbs: list(verbs), non_resource_urls: list(urls), ..Rule::default() },
        [verbs, groups, resources, ref names @ ..] => Rule {
            verbs: list(verbs),
            api_groups: list(groups),
            resources: list(resources),
            resource_names: names.first().map(|names| list(names)).unwrap_or_default(),
            ..Rule::default()
        },
        _ => Rule::default(),
    }
}

/// Returns the metadata of an object whose name may have a namespace prefix, and whether it has one.
fn metadata(name: &str) -> (Value, bool) {
    let mut metadata = json!({"annotations": {AUTO_UPDATE: "true"}, "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"}});
    let (namespace, name) =
        name.split_once('/').map_or((None, name), |(namespace, name)| (Some(namespace), name));
    metadata["name"] = name.into();
    if let Some(namespace) = namespace {
        metadata["namespace"] = namespace.into();
    }
    (metadata, namespace.is_some())
}

fn role(name: &str, words: &[&str]) -> (Kind, Value) {
    let (mut metadata, is_namespaced) = metadata(name);
    for to in words.iter().filter_map(|word| word.strip_prefix('+')) {
        metadata["labels"][format!("{AGGREGATE}{to}")] = "true".into();
    }
    let (kind, text) = if is_namespaced { (Kind::Role, "Role") } else { (Kind::ClusterRole, "ClusterRole") };
    let mut role =
        json!({"apiVersion": format!("{GROUP}/v1"), "kind": text, "metadata": metadata, "rules": []});
    if let Some([_, from]) =
        words.iter().position(|word| *word == "from").and_then(|at| words.get(at..at + 2))
    {
        let select = |to: String| json!({"matchLabels": {(format!("{AGGREGATE}{to}")): "true"}});
        let selectors = list(from).into_iter().map(select).collect::<Vec<_>>();
        role["aggregationRule"] = json!({"clusterRoleSelectors": selectors});
    }
    (kind, role)
}

fn binding(name: &str, role: &str, subjects: &[&str]) -> (Kind, Value) {
    let (metadata, is_namespaced) = metadata(name);
    let (kind, text, of) = if is_namespaced {
        (Kind::RoleBinding, "RoleBinding", "Role")
    } else {
        (Kind::ClusterRoleBinding, "ClusterRoleBinding", "ClusterRole")
    };
    let mut binding = json!({"apiVersion": format!("{GROUP}/v1"), "kind": text, "metadata": metadata,
        "roleRef": {"apiGroup": GROUP, "kind": of, "name": role}});
    let subjects = subjects.iter().filter_map(|subject| self::subject(subject)).collect::<Vec<_>>();
    if !subjects.is_empty() {
        binding["subjects"] = subjects.into();
    }
    (kind, binding)
}

fn subject(text: &str) -> Option<Value> {
    let (kind, name) = text.split_once(':')?;
    Some(match kind {
        "user" => json!({"apiGroup": GROUP, "kind": "User", "name": name}),
        "group" => json!({"apiGroup": GROUP, "kind": "Group", "name": name}),
        _ => {
            let (namespace, name) = name.split_once(':')?;
            json!({"kind": "ServiceAccount", "namespace": namespace, "name": name})
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::{AUTHENTICATED, AccessAttributes, Index, UserInfo};

    fn named<'a>(objects: &'a [(Kind, Value)], kind: Kind, name: &str) -> &'a Value {
        let found = objects.iter().find(|(own, object)| *own == kind && object["metadata"]["name"] == name);
        &found.unwrap_or_else(|| panic!("{name} is missing")).1
    }

    #[test]
    fn the_whole_table_is_parsed() {
        let objects = objects();
        let count = |kind| objects.iter().filter(|(own, _)| *own == kind).count();
        assert_eq!(count(Kind::ClusterRole), 73);
        assert_eq!(count(Kind::ClusterRoleBinding), 54);
        assert_eq!((count(Kind::Role), count(Kind::RoleBinding)), (7, 7));
        for (kind, object) in &objects {
            let role = named(
                &objects,
                if *kind == Kind::Role || *kind == Kind::RoleBinding {
                    Kind::Role
                } else {
                    Kind::ClusterRole
                },
                match kind {
                    Kind::Role | Kind::ClusterRole => object["metadata"]["name"].as_str().unwrap(),
                    Kind::RoleBinding | Kind::ClusterRoleBinding => {
                        object["roleRef"]["name"].as_str().unwrap()
                    }
                },
            );
            let rules = Rule::of_role(role);
            assert!(!rules.is_empty() && rules.iter().all(|rule| !rule.verbs.is_empty()), "{object}");
        }
    }

    #[test]
    fn admin_includes_edit_and_edit_includes_view() {
        let objects = objects();
        let rules = |name: &str| Rule::of_role(named(&objects, Kind::ClusterRole, name));
        let all_but_own = |more: &str, less: &str| covers::missing(&rules(more), &rules(less));
        assert_eq!(all_but_own("edit", "view"), []);
        assert_eq!(all_but_own("admin", "edit"), []);
        assert_eq!(all_but_own("cluster-admin", "admin"), []);
        assert!(!all_but_own("edit", "admin").is_empty() && !all_but_own("view", "edit").is_empty());
    }

    /// CVE-2025-10725 and CVE-2025-12103 were caused by a role bound to all authenticated users.
    #[test]
    fn authenticated_users_have_only_the_permissions_of_kubernetes() {
        let objects = objects();
        let mut found = Vec::new();
        for (_, object) in &objects {
            for subject in object["subjects"].as_array().into_iter().flatten() {
                let name = subject["name"].as_str().unwrap();
                if [AUTHENTICATED, "system:unauthenticated", "system:anonymous"].contains(&name) {
                    found.push((name, object["roleRef"]["name"].as_str().unwrap()));
                }
            }
        }
        found.sort_unstable();
        let expected = [
            (AUTHENTICATED, "system:basic-user"),
            (AUTHENTICATED, "system:discovery"),
            (AUTHENTICATED, "system:public-info-viewer"),
            ("system:unauthenticated", "system:public-info-viewer"),
        ];
        assert_eq!(found, expected);
        let mut index = Index::default();
        objects.iter().for_each(|(kind, object)| index.put(*kind, object));
        let verbs = index.held(&UserInfo::known("anybody", &[]), "default").rules;
        let resources = verbs.iter().flat_map(|rule| &rule.resources).map(String::as_str).collect::<Vec<_>>();
        assert_eq!(resources, ["selfsubjectaccessreviews", "selfsubjectrulesreviews", "selfsubjectreviews"]);
        let path = AccessAttributes::Path { verb: "get", path: "/metrics" };
        assert!(!index.decide(&UserInfo::known("anybody", &[]), &path).allowed);
    }

    #[test]
    fn missing_rules_are_restored_and_added_ones_kept() {
        let objects = objects();
        let wanted = named(&objects, Kind::ClusterRole, "system:basic-user");
        assert_eq!(kept_up(wanted, wanted), None);
        let mut present = wanted.clone();
        present["rules"] = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]);
        let next = kept_up(&present, wanted).unwrap();
        assert_eq!(next["rules"][0]["resources"], json!(["pods"]));
        assert_eq!(covers::missing(&Rule::of_role(&next), &Rule::of_role(wanted)), []);
        present["metadata"]["annotations"][AUTO_UPDATE] = "false".into();
        assert_eq!(kept_up(&present, wanted), None);
        let wanted = named(&objects, Kind::ClusterRoleBinding, "cluster-admin");
        let mut present = wanted.clone();
        present["subjects"] = json!([]);
        assert_eq!(kept_up(&present, wanted).unwrap()["subjects"], wanted["subjects"]);
    }
}
