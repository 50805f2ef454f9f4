//! The API server's knowledge of objects, as pure functions: kinds, names, defaults, validation, selectors, tables,
//! CustomResourceDefinitions, OpenAPI.
//!
//! Input is JSON values (and the current time if needed), output is JSON values, texts or [`FieldFault`]s. Nothing here
//! does IO, reads the clock or keeps state.
//!
//! A write passes through [`decode`] (types, canonical values, unknown fields) → [`default_object`] →
//! [`prepare_create`] or [`prepare_update`] → [`validate_create`] or [`validate_update`].

pub mod access;
mod age;
mod autoscaler;
mod crd;
mod defaults;
mod events;
pub mod expressions;
pub mod extent;
mod fault;
mod kinds;
mod lifecycle;
mod metadata;
mod names;
mod notation;
mod openapi;
pub mod patch;
pub mod pod_security;
mod qos;
mod quota;
pub mod schema;
mod selectors;
pub mod services;
mod table;
mod validation;
mod warnings;

use serde_json::Value;

use crate::schema::DecodeError;

pub use age::{human_duration, since, timestamp};
pub use autoscaler::convert_autoscaler;
pub use crd::{established_status, kinds_of_crd, validate_crd, validate_crd_update, version_rank};
pub use defaults::{default_object, null_labels, read_back, tolerate_unreachable_nodes};
pub use events::convert_event;
pub use fault::{FieldFault, MAX_FAULTS, Reason, invalid_status, json_kind, printed};
pub use kinds::{
    ALL_VERBS, Column, Kind, NameRule, ScalePaths, Subresource, accepted_kind, builtin_kind, builtin_kinds,
    subresource_kinds,
};
pub use lifecycle::{JOB_UID_LABEL, prepare_create, prepare_update};
pub use names::path_segment as path_segment_faults;
pub use openapi::{schema_name, v2_definitions, v3_schemas};
pub use quota::Counted;
pub use selectors::{FieldSelector, LabelSelector, SelectorError};
pub use table::{IncludeObject, table};
pub use validation::{validate_create, validate_update};
pub use warnings::warnings;

/// Decodes the metadata of a custom kind's object, which has the same type as that of built-in kinds. Leaves unknown
/// fields for the kind's own schema to drop.
///
/// # Errors
/// When a value has the wrong type.
pub fn decode_metadata(metadata: &mut Value) -> Result<(), String> {
    if metadata.is_null() {
        return Ok(());
    }
    if !metadata.is_object() {
        let found = json_kind(metadata);
        return Err(format!("json: cannot unmarshal {found} into Go value of type v1.ObjectMeta"));
    }
    let Some(kind) = builtin_kind("", "ConfigMap") else { return Ok(()) };
    let mut holder = serde_json::json!({"metadata": metadata.take()});
    let decoded = kind.schema().normalize(&mut holder);
    if let Some(made) = holder.get_mut("metadata") {
        *metadata = made.take();
    }
    decoded.map_err(|error| error.to_string().replace(".metadata.", "."))
}

/// Returns the faults of the type and metadata of an embedded object (`objectmeta.validateEmbeddedResource`).
pub fn embedded_faults(object: &Value, path: &str) -> Vec<FieldFault> {
    let at = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    let mut faults = Vec::new();
    for name in ["apiVersion", "kind"] {
        let at = at(name);
        match object.get(name) {
            None => faults.push(FieldFault::required(at, "")),
            Some(Value::String(text)) if text.is_empty() => {
                faults.push(FieldFault::invalid(at, "", "must not be empty"));
            }
            Some(Value::String(text)) if name == "apiVersion" => {
                if text.matches('/').count() > 1 {
                    let detail = format!("unexpected GroupVersion string: {text}");
                    faults.push(FieldFault::invalid(at, text.as_str(), detail));
                }
            }
            Some(Value::String(text)) => {
                let judged = names::label_1035(&text.to_lowercase());
                if !judged.is_empty() {
                    let detail =
                        format!("may have mixed case, but should otherwise match: {}", judged.join(","));
                    faults.push(FieldFault::invalid(at, text.as_str(), detail));
                }
            }
            Some(other) => faults.push(FieldFault::invalid(at, other.clone(), "must be a string")),
        }
    }
    if let Some(metadata) = object.get("metadata") {
        // It has not been decoded if the object that holds it claims another kind.
        match decode_metadata(&mut metadata.clone()) {
            Ok(()) => faults.extend(metadata::validate_embedded(metadata, &at("metadata"))),
            Err(why) => faults.push(FieldFault::invalid(at("metadata"), metadata.clone(), why)),
        }
    }
    faults
}

/// Decodes a client's object: drops unknown fields, and for built-in kinds checks types and makes values canonical, as
/// decoding into Go types does.
///
/// Returns the paths of unknown fields, for `fieldValidation` Warn (`unknown field "spec.foo"`) and Strict.
///
/// # Errors
/// When a built-in kind's object cannot be decoded: bad request, 400.
pub fn decode(kind: &Kind, object: &mut Value) -> Result<Vec<String>, DecodeError> {
    let unknown = kind.schema().prune(object);
    if kind.is_builtin() {
        kind.schema().normalize(object)?;
    } else {
        kind.schema().drop_nulls(object);
    }
    Ok(unknown)
}

/// As [`decode`], for the result of a server-side apply or a strategic merge patch. Kubernetes converts those to Go
/// types in another way, with other messages, where integers overflow.
///
/// # Errors
/// As [`decode`], as a text.
pub fn convert(kind: &Kind, object: &mut Value) -> Result<Vec<String>, String> {
    let unknown = kind.schema().prune(object);
    if kind.is_builtin() {
        kind.schema().convert(object)?;
        kind.schema().normalize(object).map_err(|error| error.to_string())?;
    }
    Ok(unknown)
}
