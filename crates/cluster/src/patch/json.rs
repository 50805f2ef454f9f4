//! JSON patch (RFC 6902) with the bounds of kube-apiserver: a number of operations, and how much `copy` may add up to.

use json_patch::{PatchErrorKind, PatchOperation};
use serde_json::Value;

use super::PatchError;

/// How many operations one patch may have (`apiserver/pkg/endpoints/handlers/patch.go`).
pub const MAX_OPERATIONS: usize = 10_000;
/// How many bytes all `copy` operations of one patch may add, so that doubling cannot blow an object up.
pub const MAX_COPIED_BYTES: usize = 3 << 20;

/// Applies the operations of `patch`, a JSON array, in order; all or none.
///
/// # Errors
/// Where the patch is malformed, too large, or an operation does not fit the object.
pub fn json(object: &Value, patch: &Value) -> Result<Value, PatchError> {
    let Some(operations) = patch.as_array() else {
        return Err(PatchError::Malformed(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type []handlers.jsonPatchOp",
            if patch.is_object() { "object" } else { "value" }
        )));
    };
    if operations.len() > MAX_OPERATIONS {
        return Err(PatchError::TooLarge(format!(
            "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
            operations.len()
        )));
    }
    let mut patched = object.clone();
    let mut copied_bytes = 0;
    for (index, operation) in operations.iter().enumerate() {
        let operation: PatchOperation = serde_json::from_value(operation.clone())
            .map_err(|e| PatchError::Malformed(format!("operation {index} of the JSON patch: {e}")))?;
        if let PatchOperation::Copy(copy) = &operation {
            copied_bytes += patched.pointer(copy.from.as_str()).map_or(0, |v| v.to_string().len());
            if copied_bytes > MAX_COPIED_BYTES {
                return Err(PatchError::TooLarge(format!(
                    "the copy operations of the JSON patch add more than {MAX_COPIED_BYTES} bytes"
                )));
            }
        }
        let Some(operation) = lenient(&patched, operation) else { continue };
        json_patch::patch_unsafe(&mut patched, std::slice::from_ref(&operation))
            .map_err(|e| inapplicable(&operation, index, &e.kind))?;
    }
    Ok(patched)
}

/// What the library of kube-apiserver lets pass: a field that is not there can be replaced, and equals `null`.
fn lenient(object: &Value, operation: PatchOperation) -> Option<PatchOperation> {
    let is_missing = |path: &str| {
        let parent = path.rsplit_once('/').and_then(|(parent, _)| object.pointer(parent));
        parent.is_some_and(Value::is_object) && object.pointer(path).is_none()
    };
    match operation {
        PatchOperation::Replace(replace) if is_missing(replace.path.as_str()) => {
            Some(PatchOperation::Add(json_patch::AddOperation { path: replace.path, value: replace.value }))
        }
        PatchOperation::Test(test) if test.value.is_null() && is_missing(test.path.as_str()) => None,
        other => Some(other),
    }
}

fn inapplicable(operation: &PatchOperation, index: usize, kind: &PatchErrorKind) -> PatchError {
    let path = operation.path().as_str();
    PatchError::Inapplicable(match kind {
        PatchErrorKind::TestFailed => format!("testing value {path} failed (operation {index})"),
        other => format!("operation {index} at {path:?}: {other}"),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn operations_apply_in_order() {
        let cases = [
            (json!([{"op": "add", "path": "/a/-", "value": 3}]), json!({"a": [1, 2, 3], "b": {"c": "d"}})),
            (json!([{"op": "remove", "path": "/b"}]), json!({"a": [1, 2]})),
            (json!([{"op": "move", "from": "/b/c", "path": "/e"}]), json!({"a": [1, 2], "b": {}, "e": "d"})),
            (
                json!([{"op": "test", "path": "/a/0", "value": 1}, {"op": "replace", "path": "/a", "value": 0}]),
                json!({"a": 0, "b": {"c": "d"}}),
            ),
        ];
        let object = json!({"a": [1, 2], "b": {"c": "d"}});
        for (patch, after) in cases {
            assert_eq!(json(&object, &patch), Ok(after), "{patch}");
        }
    }

    #[test]
    fn misfits_are_refused() {
        let object = json!({"a": [1, 2]});
        let cases = [
            (json!({}), 400),
            (json!([{"op": "fly"}]), 400),
            (json!([{"op": "remove", "path": "/x"}]), 422),
            (json!([{"op": "replace", "path": "/x/y", "value": 1}]), 422),
            (json!([{"op": "replace", "path": "/a/7", "value": 1}]), 422),
            (json!([{"op": "test", "path": "/a", "value": 1}]), 422),
            (json!([{"op": "add", "path": "/x/y", "value": 1}]), 422),
            (
                Value::Array(vec![json!({"op": "test", "path": "/a", "value": [1, 2]}); MAX_OPERATIONS + 1]),
                413,
            ),
        ];
        for (patch, code) in cases {
            assert_eq!(json(&object, &patch).unwrap_err().code(), code);
        }
    }

    #[test]
    fn copies_cannot_blow_an_object_up() {
        let mut operations = vec![json!({"op": "add", "path": "/a", "value": ["x".repeat(1000)]})];
        for _ in 0..40 {
            operations.push(json!({"op": "copy", "from": "/a", "path": "/a/-"}));
        }
        assert_eq!(json(&json!({}), &Value::Array(operations)).unwrap_err().code(), 413);
    }
}
