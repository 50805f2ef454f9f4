//! The one place where the API server reaches for what it must know of objects: kinds, defaults, validation,
//! patches, selectors, tables. Everything here is pure and thin; the knowledge is in [`crate::objects`],
//! [`crate::schema`] and [`crate::patch`].

#[cfg(test)]
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::call::Call;
use super::negotiate::PatchType;
use super::query::FieldValidation;
use super::status::{self, About, Refusal};
pub use crate::objects::{FieldFault, Kind, builtin_kinds};
use crate::patch;
use crate::schema::Schema;

/// A built-in kind by group and kind.
#[cfg(test)]
pub fn builtin_kind(group: &str, kind: &str) -> Option<Arc<Kind>> {
    crate::objects::builtin_kind(group, kind).cloned()
}

/// A time as Kubernetes writes it (`metav1.Time`): whole seconds, UTC.
pub fn timestamp(time: Timestamp) -> String {
    format!("{time:.0}")
}

/// 422 for an object's faults.
pub fn invalid(kind: &Kind, name: &str, faults: &[FieldFault]) -> Refusal {
    let causes = faults
        .iter()
        .map(|fault| (fault.reason.cause().to_owned(), fault.body(), fault.path.clone()))
        .collect::<Vec<_>>();
    status::invalid(About { group: &kind.group, resource: &kind.kind, name }, &causes)
}

/// Drops fields that the kind does not have, and brings values into canonical form.
///
/// # Errors
/// 400 when they are to be refused, or a value is not of its type; otherwise the warnings to give.
pub fn drop_unknown(
    kind: &Kind,
    value: &mut Value,
    duplicates: &[String],
    validation: FieldValidation,
) -> Result<Vec<String>, Refusal> {
    let unknown = kind.schema().prune(value);
    kind.schema().normalize(value).map_err(|error| {
        let (version, kind) = (&kind.version, &kind.kind);
        status::bad_request(format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {error}"))
    })?;
    let texts = unknown
        .iter()
        .map(|path| format!("unknown field \"{path}\""))
        .chain(duplicates.iter().map(|path| format!("duplicate field \"{path}\"")))
        .collect::<Vec<_>>();
    match validation {
        FieldValidation::Ignore => Ok(Vec::new()),
        FieldValidation::Warn => Ok(texts),
        FieldValidation::Strict if texts.is_empty() => Ok(texts),
        FieldValidation::Strict => {
            Err(status::bad_request(format!("strict decoding error: {}", texts.join(", "))))
        }
    }
}

/// Fills in what the client left out.
pub fn default(kind: &Kind, value: &mut Value) {
    kind.schema().default(value);
}

/// What a client may not set at creation.
pub fn prepare_create(kind: &Kind, value: &mut Value) {
    if kind.subresource("status").is_some()
        && let Some(object) = value.as_object_mut()
    {
        object.remove("status");
    }
    if kind.is("", "Pod") {
        value["status"] = json!({"phase": "Pending"});
    }
    if kind.is("", "Namespace") {
        value["status"] = json!({"phase": "Active"});
        value["spec"]["finalizers"] = json!(["kubernetes"]);
        let name = value["metadata"]["name"].clone();
        value["metadata"]["labels"]["kubernetes.io/metadata.name"] = name;
    }
}

/// What a client may not change by this (sub)resource, and the generation.
pub fn prepare_update(kind: &Kind, subresource: &str, new: &mut Value, old: &Value) {
    let (Some(object), Some(before)) = (new.as_object_mut(), old.as_object()) else { return };
    let has_status = kind.subresource("status").is_some();
    if subresource == "status" {
        for (field, value) in before {
            if field != "status" && field != "metadata" {
                object.insert(field.clone(), value.clone());
            }
        }
    } else if has_status && subresource.is_empty() {
        match before.get("status") {
            Some(status) => object.insert("status".into(), status.clone()),
            None => object.remove("status"),
        };
    }
    let changed = object.get("spec") != before.get("spec");
    if changed && let Some(generation) = old["metadata"]["generation"].as_i64() {
        new["metadata"]["generation"] = (generation + 1).into();
    }
}

/// Whether new objects carry `metadata.generation`.
pub fn has_generation(kind: &Kind) -> bool {
    !kind.is_builtin() || kind.is("batch", "Job") || kind.is("", "Pod")
}

/// The faults of an object that is to be created.
pub fn validate_create(kind: &Kind, value: &Value) -> Vec<FieldFault> {
    kind.schema().validate(value, None)
}

/// The faults of an object that is to replace another.
pub fn validate_update(kind: &Kind, new: &Value, old: &Value, _subresource: &str) -> Vec<FieldFault> {
    kind.schema().validate(new, Some(old))
}

/// Whether a PUT may create an object of the kind (`AllowCreateOnUpdate` of its strategy).
pub fn may_create_on_update(kind: &Kind) -> bool {
    const MAY: [&str; 9] = [
        "Endpoints",
        "Event",
        "Lease",
        "LimitRange",
        "Service",
        "Role",
        "RoleBinding",
        "ClusterRole",
        "ClusterRoleBinding",
    ];
    kind.is_builtin() && MAY.contains(&kind.kind.as_str())
}

/// Whether an update may leave out the resourceVersion (`AllowUnconditionalUpdate`).
pub fn may_update_unconditionally(kind: &Kind) -> bool {
    kind.is_builtin()
        && !matches!(kind.kind.as_str(), "Lease" | "CustomResourceDefinition" | "PodDisruptionBudget")
}

/// Whether the kind knows strategic merge patches: custom resources do not.
pub fn knows_strategic(kind: &Kind) -> bool {
    kind.is_builtin()
}

/// Applies a patch that is no server-side apply.
///
/// # Errors
/// 422 for a patch that does not apply, 400 for one that is none.
pub fn patched(kind: &Kind, patch_type: PatchType, live: &Value, change: &Value) -> Result<Value, Refusal> {
    match patch_type {
        PatchType::Json => patch::json(live, change),
        PatchType::Merge | PatchType::Apply => patch::merge(live, change),
        PatchType::Strategic => patch::strategic(kind, live, change),
    }
    .map_err(|error| Refusal::new(error.code(), error.reason(), error.to_string()))
}

/// A server-side apply's result.
///
/// # Errors
/// 409 for fields that others own.
pub fn applied(call: &Call<'_>, live: Option<&Value>, intent: &Value) -> Result<Value, Refusal> {
    let _ = call;
    let mut value = live.cloned().unwrap_or_else(|| json!({}));
    json_patch::merge(&mut value, intent);
    Ok(value)
}

/// Brings managedFields up to date after a write that was no apply.
pub fn track(
    _kind: &Kind,
    _old: Option<&Value>,
    _new: &mut Value,
    _manager: &str,
    _subresource: &str,
    _now: Timestamp,
) {
}

/// The kinds that a CustomResourceDefinition makes.
///
/// # Errors
/// The definition's faults.
pub fn kinds_of_crd(definition: &Value) -> Result<Vec<Kind>, Vec<FieldFault>> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let spec = &definition["spec"];
    let versions = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    versions
        .iter()
        .filter(|version| version["served"] == true)
        .map(|version| {
            let source = &version["schema"]["openAPIV3Schema"];
            let schema = Schema::of_crd(source).map_err(|error| {
                vec![FieldFault::invalid("spec.versions", Value::Null, error.to_string())]
            })?;
            let (group, plural) = (text(&spec["group"]), text(&spec["names"]["plural"]));
            let namespaced = spec["scope"] == "Namespaced";
            let kind = Kind::new(
                &group,
                &text(&version["name"]),
                &text(&spec["names"]["kind"]),
                &plural,
                namespaced,
            )
            .with_schema(schema);
            Ok(if version["subresources"]["status"].is_object() { kind.with_status() } else { kind })
        })
        .collect()
}

/// Objects as a Table.
pub fn table(_kind: &Kind, objects: &[&Value], _include: &str) -> Value {
    let columns = json!([
        {"name": "Name", "type": "string", "format": "name", "description": "Name", "priority": 0},
        {"name": "Created At", "type": "date", "format": "", "description": "Created", "priority": 0}]);
    let rows = objects
        .iter()
        .map(|object| {
            json!({"cells": [object["metadata"]["name"], object["metadata"]["creationTimestamp"]],
                "object": super::reply::partial(object, "PartialObjectMetadata")})
        })
        .collect::<Vec<_>>();
    json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {}, "columnDefinitions": columns, "rows": rows})
}

/// Which objects a list or watch is about.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    labels: Vec<(String, String)>,
    fields: Vec<(String, String)>,
}

impl Selection {
    /// Reads both selectors.
    ///
    /// # Errors
    /// 400 for a selector that is none, or a field that cannot be selected by.
    pub fn parse(_kind: &Kind, labels: &str, fields: &str) -> Result<Self, Refusal> {
        Ok(Self { labels: equalities(labels)?, fields: equalities(fields)? })
    }

    /// Whether every object is selected.
    pub fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether an object is selected.
    pub fn matches(&self, value: &Value) -> bool {
        self.labels.iter().all(|(key, wanted)| value["metadata"]["labels"][key] == wanted.as_str())
            && self.fields.iter().all(|(path, wanted)| {
                let found = path.split('.').fold(value, |value, part| &value[part]);
                found.as_str().unwrap_or_default() == wanted
            })
    }
}

fn equalities(text: &str) -> Result<Vec<(String, String)>, Refusal> {
    text.split(',')
        .filter(|part| !part.is_empty())
        .map(|part| {
            let (key, value) = part
                .split_once("==")
                .or_else(|| part.split_once('='))
                .ok_or_else(|| status::bad_request(format!("unable to parse requirement: {part}")))?;
            Ok((key.to_owned(), value.to_owned()))
        })
        .collect()
}

/// The object's metadata, made if need be.
pub fn metadata(value: &mut Value) -> Result<&mut Map<String, Value>, Refusal> {
    let metadata = value
        .as_object_mut()
        .ok_or_else(|| status::bad_request("the request's body is no object"))?
        .entry("metadata")
        .or_insert_with(|| json!({}));
    if metadata.is_null() {
        *metadata = json!({});
    }
    metadata.as_object_mut().ok_or_else(|| status::bad_request("metadata is no object"))
}
