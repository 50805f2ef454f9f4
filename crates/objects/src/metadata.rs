//! Validation of `metadata` on create and update.
//!
//! Rules and messages of `apimachinery/pkg/api/validation/objectmeta.go`.

use serde_json::Value;

use super::fault::FieldFault;
use super::kinds::{Kind, NameRule};
use super::names;

const MAX_MANAGER_BYTES: usize = 128;
/// Finalizers defined by Kubernetes itself.
pub(super) const STANDARD_FINALIZERS: &[&str] = &["orphan", "foregroundDeletion", "kubernetes"];
/// Fields that an update may not change.
const IMMUTABLE: &[&str] = &["name", "namespace", "uid", "creationTimestamp"];
/// Fields that keep their value if an update omits them.
const KEPT: &[&str] = &["namespace", "uid", "creationTimestamp", "selfLink"];

/// Returns the faults of `object`'s metadata.
pub fn validate(kind: &Kind, object: &Value) -> Vec<FieldFault> {
    let meta = &object["metadata"];
    let text = |field: &str| meta[field].as_str().unwrap_or_default();
    let mut faults = Vec::new();
    let (name, generate) = (text("name"), text("generateName"));
    if name.is_empty() && generate.is_empty() {
        faults.push(FieldFault::required("metadata.name", "name or generateName is required"));
    }
    if !generate.is_empty() {
        // A prefix may end in characters that a name may not: append a letter in place of the generated part.
        let sample = format!("{}a", generate.trim_end_matches(['-', '.']));
        let judged = names::by_rule(kind.name_rule, &sample);
        faults.extend(judged.into_iter().map(|f| FieldFault::invalid("metadata.generateName", generate, f)));
    }
    if !name.is_empty() {
        let judged = names::by_rule(kind.name_rule, name);
        faults.extend(judged.into_iter().map(|f| FieldFault::invalid("metadata.name", name, f)));
    }
    match (kind.namespaced, text("namespace")) {
        (true, "") => faults.push(FieldFault::required("metadata.namespace", "")),
        (true, namespace) => {
            let judged = names::label(namespace);
            faults
                .extend(judged.into_iter().map(|f| FieldFault::invalid("metadata.namespace", namespace, f)));
        }
        (false, "") => {}
        (false, _) => faults.push(FieldFault::forbidden("metadata.namespace", "not allowed on this type")),
    }
    if meta["generation"].as_i64().is_some_and(|g| g < 0) {
        faults.push(FieldFault::invalid(
            "metadata.generation",
            meta["generation"].clone(),
            "must be greater than or equal to 0",
        ));
    }
    faults.extend(names::labels(&meta["labels"], "metadata.labels"));
    faults.extend(names::annotations(&meta["annotations"], "metadata.annotations"));
    owners(&meta["ownerReferences"], &mut faults);
    finalizers(kind, &meta["finalizers"], &mut faults);
    managers(&meta["managedFields"], &mut faults);
    faults
}

/// Returns the faults of the metadata of an embedded object, which need not have a name.
pub fn validate_embedded(metadata: &Value, path: &str) -> Vec<FieldFault> {
    let mut meta = if metadata.is_object() { metadata.clone() } else { serde_json::json!({}) };
    if meta["name"].as_str().unwrap_or_default().is_empty() {
        meta["name"] = "fakename".into();
    }
    let is_namespaced = meta["namespace"].as_str().is_some_and(|namespace| !namespace.is_empty());
    let kind = Kind::new("", "", "", "", is_namespaced).named(NameRule::PathSegment);
    let mut faults = validate(&kind, &serde_json::json!({"metadata": meta}));
    for fault in &mut faults {
        fault.path = fault.path.replacen("metadata", path, 1);
    }
    faults
}

fn owners(owners: &Value, faults: &mut Vec<FieldFault>) {
    let mut controller: Option<String> = None;
    // Kubernetes reports the list, not the item.
    let path = "metadata.ownerReferences";
    for owner in owners.as_array().into_iter().flatten() {
        for (field, text) in [
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ] {
            let given = owner[field].as_str().unwrap_or_default();
            // An invalid group and version has no version (`schema.FromAPIVersionAndKind`).
            if given.is_empty() || (field == "apiVersion" && given.matches('/').count() > 1) {
                faults.push(FieldFault::invalid(format!("{path}.{field}"), given, text));
            }
        }
        if owner["apiVersion"] == "v1" && owner["kind"] == "Event" {
            faults.push(FieldFault::invalid(
                path,
                owner.clone(),
                "/v1, Kind=Event is disallowed from being an owner",
            ));
        }
        if owner["controller"] == true {
            let name = owner["name"].as_str().unwrap_or_default().to_owned();
            if let Some(first) = &controller {
                faults.push(FieldFault::invalid(
                    "metadata.ownerReferences",
                    owners.clone(),
                    format!("Only one reference can have Controller set to true. Found \"true\" in references for {first} and {name}"),
                ));
            }
            controller.get_or_insert(name);
        }
    }
}

fn finalizers(kind: &Kind, finalizers: &Value, faults: &mut Vec<FieldFault>) {
    let path = "metadata.finalizers";
    let all: Vec<&str> = finalizers.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for name in &all {
        faults.extend(names::qualified_name(name).into_iter().map(|f| FieldFault::invalid(path, *name, f)));
    }
    // Custom kinds only get a warning. Events, and kinds that are not validated by the core group's rules, are exempt.
    let must_be_qualified = kind.is_builtin()
        && kind.kind != "Event"
        && !matches!(
            kind.group.as_str(),
            "coordination.k8s.io" | "admissionregistration.k8s.io" | "apiextensions.k8s.io" | "policy"
        );
    if must_be_qualified {
        qualified_finalizers(finalizers, faults);
    }
    if all.contains(&"orphan") && all.contains(&"foregroundDeletion") {
        let text = "finalizer orphan and foregroundDeletion cannot be both set";
        faults.push(FieldFault::invalid(path, finalizers.clone(), text));
    }
}

/// Validates that finalizers have a domain, except for those of Kubernetes (`validateKubeFinalizerName`).
pub fn qualified_finalizers(finalizers: &Value, faults: &mut Vec<FieldFault>) {
    for (index, name) in finalizers.as_array().into_iter().flatten().filter_map(Value::as_str).enumerate() {
        if !name.contains('/') && !STANDARD_FINALIZERS.contains(&name) {
            let text = "name is neither a standard finalizer name nor is it fully qualified";
            faults.push(FieldFault::invalid(format!("metadata.finalizers[{index}]"), name, text));
        }
    }
}

fn managers(fields: &Value, faults: &mut Vec<FieldFault>) {
    for (index, entry) in fields.as_array().into_iter().flatten().enumerate() {
        let path = format!("metadata.managedFields[{index}]");
        if !matches!(entry["operation"].as_str(), Some("Apply" | "Update")) {
            let text = "must be `Apply` or `Update`";
            faults.push(FieldFault::invalid(format!("{path}.operation"), entry["operation"].clone(), text));
        }
        if !matches!(entry["fieldsType"].as_str(), None | Some("" | "FieldsV1")) {
            let text = "must be `FieldsV1`";
            faults.push(FieldFault::invalid(format!("{path}.fieldsType"), entry["fieldsType"].clone(), text));
        }
        let manager = entry["manager"].as_str().unwrap_or_default();
        if manager.len() > MAX_MANAGER_BYTES {
            faults.push(FieldFault::too_long(format!("{path}.manager"), MAX_MANAGER_BYTES));
        }
    }
}

/// Returns the faults of an update's changes to metadata. Call [`carry_over`] first.
pub fn validate_update(new: &Value, old: &Value) -> Vec<FieldFault> {
    let (new, old) = (&new["metadata"], &old["metadata"]);
    let mut faults = Vec::new();
    for field in IMMUTABLE {
        if new[field] != old[field] {
            let path = format!("metadata.{field}");
            faults.push(FieldFault::invalid(path, new[field].clone(), "field is immutable"));
        }
    }
    if !old["deletionTimestamp"].is_null() {
        let before: Vec<&Value> = old["finalizers"].as_array().into_iter().flatten().collect();
        let mut added: Vec<String> = new["finalizers"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|f| !before.contains(f))
            .map(Value::to_string)
            .collect();
        added.sort();
        if !added.is_empty() {
            let text = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                added.join(", ")
            );
            faults.push(FieldFault::forbidden("metadata.finalizers", text));
        }
    }
    let generation = |meta: &Value| meta["generation"].as_i64().unwrap_or_default();
    if generation(new) < generation(old) {
        let text = "must not be decremented";
        faults.push(FieldFault::invalid("metadata.generation", new["generation"].clone(), text));
    }
    faults
}

/// Restores what the server controls: identity if the update omits it, deletion and generation always.
pub fn carry_over(new: &mut Value, old: &Value) {
    let old = &old["metadata"];
    let Some(object) = new.as_object_mut() else { return };
    let meta = object.entry("metadata").or_insert_with(|| Value::Object(serde_json::Map::new()));
    let Some(meta) = meta.as_object_mut() else { return };
    for field in KEPT {
        let absent = meta.get(*field).is_none_or(|v| v.is_null() || v == "");
        if absent && !old[field].is_null() {
            meta.insert((*field).to_owned(), old[field].clone());
        }
    }
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "generation"] {
        match &old[field] {
            Value::Null => {
                meta.remove(field);
            }
            value => {
                meta.insert(field.to_owned(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::builtin_kind;

    fn faults(meta: Value) -> Vec<String> {
        let kind = builtin_kind("", "ConfigMap").unwrap();
        validate(kind, &json!({"metadata": meta})).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn metadata_is_validated() {
        assert!(
            faults(json!({"name": "a.b", "namespace": "n", "labels": {"a/b": "c"}, "finalizers": ["x.y/z"]}))
                .is_empty()
        );
        assert!(faults(json!({"generateName": "a-", "namespace": "n"})).is_empty());
        assert_eq!(
            faults(json!({})),
            [
                "metadata.name: Required value: name or generateName is required",
                "metadata.namespace: Required value"
            ]
        );
        let cases = [
            (json!({"name": "A"}), "metadata.name: Invalid value: \"A\": a lowercase RFC 1123 subdomain"),
            (json!({"finalizers": ["z"]}), "metadata.finalizers[0]: Invalid value: \"z\": name is neither"),
            (
                json!({"ownerReferences": [{"kind": "K", "name": "n", "uid": "u"}]}),
                "metadata.ownerReferences.apiVersion: Invalid value: \"\": version must not be empty",
            ),
            (
                json!({"ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "n", "uid": "u", "controller": true},
                    {"apiVersion": "v1", "kind": "K", "name": "m", "uid": "v", "controller": true}]}),
                "Only one reference can have Controller set to true. Found \"true\" in references for n and m",
            ),
            (
                json!({"labels": {"a b": "c"}}),
                "metadata.labels: Invalid value: \"a b\": name part must consist of",
            ),
            (
                json!({"annotations": {"a": "x".repeat(300_000)}}),
                "metadata.annotations: Too long: may not be more than 262144 bytes",
            ),
        ];
        for (mut meta, text) in cases {
            for (field, value) in [("name", "n"), ("namespace", "n")] {
                let map = meta.as_object_mut().unwrap();
                map.entry(field).or_insert_with(|| value.into());
            }
            let found = faults(meta);
            assert!(found.len() == 1 && found[0].contains(text), "{found:?}");
        }
    }

    #[test]
    fn updates_keep_identity() {
        let old = json!({"metadata": {"name": "n", "uid": "u", "creationTimestamp": "t", "deletionTimestamp": "d", "generation": 2}});
        let mut new = json!({"metadata": {"name": "n", "finalizers": ["a/b"], "generation": 7}});
        carry_over(&mut new, &old);
        assert_eq!(new["metadata"]["uid"], "u");
        assert_eq!(new["metadata"]["generation"], 2);
        let found: Vec<String> = validate_update(&new, &old).iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                r#"metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{"a/b"}"#
            ]
        );
        new["metadata"]["uid"] = json!("w");
        assert!(
            validate_update(&new, &old)[0]
                .to_string()
                .starts_with("metadata.uid: Invalid value: \"w\": field is immutable")
        );
    }
}
