//! Decodes a body as an object of its kind: drops unknown fields, converts values to canonical form, sets defaults.
//!
//! The types are those of [`objects`]; this module decides what `fieldValidation` makes of them, and how errors are
//! worded.

use serde_json::{Map, Value, json};

use super::query::FieldValidation;
use super::status::{self, BodyError, StatusError};
use objects::Kind;

/// Returns the object's metadata, and creates it if it is absent.
pub fn metadata(value: &mut Value) -> Result<&mut Map<String, Value>, StatusError> {
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

/// Drops unknown fields and converts values to canonical form. Returns warnings about unknown and duplicate
/// fields.
///
/// # Errors
/// 400 for such fields under `Strict`, and for a value of the wrong type.
pub fn drop_unknown(
    kind: &Kind,
    value: &mut Value,
    duplicates: &[String],
    validation: FieldValidation,
) -> Result<Vec<String>, BodyError> {
    if !kind.is_builtin() {
        let metadata = check_metadata(kind, value)?;
        if !metadata.is_null() {
            value["metadata"] = metadata;
        }
        if !is_of(kind, value) {
            // There is no schema to check it against. Validation reports the wrong kind later.
            return Ok(Vec::new());
        }
        let mut whole = value.take();
        let coerced = kind.schema().coerce_embedded(&mut whole, &objects::decode_metadata);
        *value = whole;
        coerced.map_err(|why| strange(value, kind, &why))?;
    }
    let unknown = objects::decode(kind, value)
        .map_err(|error| BodyError::of(&kind.kind, &kind.version, &kind.kind, error))?;
    // A custom kind's unknown fields are known only after the body has been read, so they come last.
    tell_unknown(kind, &unknown, duplicates, kind.is_builtin(), validation)
}

/// Same as [`drop_unknown`], for the result of a strategic merge patch.
///
/// # Errors
/// Same as [`drop_unknown`].
pub fn convert_patched(
    kind: &Kind,
    value: &mut Value,
    duplicates: &[String],
    validation: FieldValidation,
) -> Result<Vec<String>, BodyError> {
    let unknown = objects::convert(kind, value).map_err(BodyError::plain)?;
    tell_unknown(kind, &unknown, duplicates, false, validation)
}

/// Reports unknown and duplicate fields, as warnings or as an error; the unknown ones first or last.
fn tell_unknown(
    kind: &Kind,
    unknown: &[String],
    duplicates: &[String],
    unknown_first: bool,
    validation: FieldValidation,
) -> Result<Vec<String>, BodyError> {
    let unknown = unknown.iter().map(|path| format!("unknown field \"{path}\""));
    let repeated = duplicates.iter().map(|path| format!("duplicate field \"{path}\""));
    let texts: Vec<String> =
        if unknown_first { unknown.chain(repeated).collect() } else { repeated.chain(unknown).collect() };
    match validation {
        FieldValidation::Ignore => Ok(Vec::new()),
        FieldValidation::Warn => Ok(texts),
        FieldValidation::Strict if texts.is_empty() => Ok(texts),
        FieldValidation::Strict => {
            let why = format!("strict decoding error: {}", texts.join(", "));
            Err(BodyError::of(&kind.kind, &kind.version, &kind.kind, why))
        }
    }
}

/// Decodes a custom object's metadata with the types of `ObjectMeta`.
///
/// # Errors
/// 400.
pub fn check_metadata(kind: &Kind, value: &Value) -> Result<Value, BodyError> {
    let mut metadata = value["metadata"].clone();
    objects::decode_metadata(&mut metadata).map_err(|why| strange(value, kind, &why))?;
    Ok(metadata)
}

/// Returns whether a custom object claims to be of this kind, in any version.
fn is_of(kind: &Kind, value: &Value) -> bool {
    let text = |field: &str| value[field].as_str().unwrap_or_default();
    let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
    group == kind.group && text("kind") == kind.kind
}

/// Sets defaults. A custom object that claims another kind or an unknown version gets none.
pub fn default(kind: &Kind, value: &mut Value) {
    let version = value["apiVersion"].as_str().and_then(|version| version.rsplit('/').next());
    if kind.is_builtin() || (version == Some(&kind.version) && is_of(kind, value)) {
        objects::default_object(kind, value);
    }
}

/// Adds the fields that Kubernetes writes for a built-in object even if nobody set them.
pub fn fill_in(kind: &Kind, value: &mut Value) {
    // Cannot fail: the object has no field of a wrong type.
    let _ = objects::decode(kind, value);
}

/// 400 for a body that cannot be read. A custom object's body may claim another kind.
fn strange(value: &Value, kind: &Kind, why: &str) -> BodyError {
    let given = value["kind"].as_str().unwrap_or(&kind.kind);
    let version = value["apiVersion"].as_str().and_then(|version| version.rsplit('/').next());
    let own = if kind.is_builtin() { kind.version.as_str() } else { "" };
    BodyError::of(given, version.unwrap_or(own), &kind.kind, why)
}
