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
/// # Errors
/// When the patch is not an object, because then the result would not be one either.
pub fn merge(object: &Value, patch: &Value) -> Result<Value, PatchError> {
    if !patch.is_object() {
        return Err(PatchError::Malformed("a merge patch must be a JSON object".to_owned()));
    }
    let mut patched = object.clone();
    json_patch::merge(&mut patched, patch);
    Ok(patched)
}
