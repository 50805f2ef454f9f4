//! Patches: compute the new object when a client sends a change instead of a whole object.
//!
//! JSON patch (RFC 6902), JSON merge patch (RFC 7396), strategic merge patch (`apimachinery/pkg/util/strategicpatch`)
//! and server-side apply ([`apply`], KEP-555). Input is the old object and the patch, output the new object. The caller
//! applies defaults, pruning and validation to the result.

pub mod apply;
mod json;
mod strategic;

use serde_json::Value;

pub use json::{MAX_COPIED_BYTES, MAX_OPERATIONS, json};
pub use strategic::strategic;

/// Why a patch was not applied; [`PatchError::code`] is the HTTP status.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PatchError {
    /// The patch is not valid for its type.
    #[error("{0}")]
    Malformed(String),
    /// The configuration does not fit the kind's schema.
    #[error("{0}")]
    Untyped(String),
    /// The patch contradicts itself or the kind's schema. Kubernetes reports this as an internal error.
    #[error("{0}")]
    Confused(String),
    /// The patch does not fit the object; says where.
    #[error("the server rejected our request due to an error in our request")]
    Inapplicable(String),
    /// A `test` operation of a JSON patch failed; says which.
    #[error("the server rejected our request due to an error in our request")]
    TestFailed(String),
    /// The patch is too large, or makes the object too large.
    #[error("{0}")]
    TooLarge(String),
    /// This kind does not support this type of patch.
    #[error(
        "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
    )]
    Unsupported,
}

impl PatchError {
    /// Returns the HTTP status code of the error.
    pub fn code(&self) -> u16 {
        match self {
            PatchError::Malformed(_) => 400,
            PatchError::Untyped(_) | PatchError::Confused(_) => 500,
            PatchError::Inapplicable(_) | PatchError::TestFailed(_) => 422,
            PatchError::TooLarge(_) => 413,
            PatchError::Unsupported => 415,
        }
    }

    /// Returns the `reason` of the `Status`.
    pub fn reason(&self) -> &'static str {
        match self {
            PatchError::Malformed(_) => "BadRequest",
            PatchError::Untyped(_) | PatchError::Confused(_) => "",
            PatchError::Inapplicable(_) | PatchError::TestFailed(_) => "Invalid",
            PatchError::TooLarge(_) => "RequestEntityTooLarge",
            PatchError::Unsupported => "UnsupportedMediaType",
        }
    }
}

/// Applies a JSON merge patch (RFC 7396): maps are merged, `null` deletes, everything else replaces.
///
/// As in Kubernetes, and unlike in the RFC, the maps in a list that replaces something lose their `null`s, too, unless
/// it replaces a map (`evanphx/json-patch` v4, `merge.go`).
///
/// # Errors
/// When the patch is not an object, because then the result would not be one either.
pub fn merge(object: &Value, patch: &Value) -> Result<Value, PatchError> {
    if !patch.is_object() {
        return Err(PatchError::Malformed("a merge patch must be a JSON object".to_owned()));
    }
    let mut patched = object.clone();
    merge_into(&mut patched, patch);
    Ok(patched)
}

fn merge_into(place: &mut Value, patch: &Value) {
    let Value::Object(patches) = patch else {
        *place = if place.is_object() { patch.clone() } else { without_nulls(patch) };
        return;
    };
    let Value::Object(fields) = place else {
        *place = without_nulls(patch);
        return;
    };
    for (name, patch) in patches {
        if patch.is_null() {
            fields.remove(name);
        } else {
            merge_into(fields.entry(name).or_insert(Value::Null), patch);
        }
    }
}

/// Removes the `null`s of all maps. Those in lists stay.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(_, value)| !value.is_null());
            Value::Object(kept.map(|(name, value)| (name.clone(), without_nulls(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_nulls).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nulls_in_what_replaces_something_are_dropped() {
        for (object, patch, merged) in [
            (json!({"a": {"b": 1, "c": 2}}), json!({"a": {"b": null}}), json!({"a": {"c": 2}})),
            (json!({}), json!({"a": {"b": null, "c": [{"d": null}, null]}}), json!({"a": {"c": [{}, null]}})),
            (json!({"a": [1]}), json!({"a": [{"b": null, "c": 1}]}), json!({"a": [{"c": 1}]})),
            (json!({"a": 1}), json!({"a": {"b": null}}), json!({"a": {}})),
            // Only a list in place of a map keeps them.
            (json!({"a": {"b": 1}}), json!({"a": [{"b": null}]}), json!({"a": [{"b": null}]})),
        ] {
            assert_eq!(merge(&object, &patch).unwrap(), merged, "{object} with {patch}");
        }
        assert!(merge(&json!({}), &json!([])).is_err());
    }
}
