//! JSON patch as in kube-apiserver: RFC 6902 with the peculiarities of its library (`evanphx/json-patch` v4), and its
//! limits on operations and copied bytes. In addition, no operation may exceed the depth limit of objects
//! ([`MAX_DEPTH`]), so a deep object is never built, and the work of a patch is bounded.
//!
//! Peculiarities: an absent field reads as `null`, so it can be replaced, copied and compared with `null`; negative
//! positions count from a list's end, starting at -1; anything before the first `/` of a path is ignored.

use serde_json::{Map, Value};

use super::PatchError;
use crate::extent::{Extent, MAX_DEPTH};
use crate::json_kind;

/// The most operations of one patch (`apiserver/pkg/endpoints/handlers/patch.go`).
pub const MAX_OPERATIONS: usize = 10_000;
/// The most bytes that all `copy` operations of one patch add, so that repeated doubling cannot inflate an object.
pub const MAX_COPIED_BYTES: usize = 3 << 20;
/// The most values that all operations of one patch visit to measure them, or shift within lists.
const MAX_WORK: usize = 1 << 26;

/// The resources that the operations of one patch have used.
#[derive(Default)]
struct Spent {
    copied_bytes: usize,
    work: usize,
}

impl Spent {
    fn copy(&mut self, bytes: usize) -> Result<(), PatchError> {
        self.copied_bytes += bytes;
        if self.copied_bytes <= MAX_COPIED_BYTES {
            return Ok(());
        }
        Err(PatchError::TooLarge(format!(
            "the copy operations of the JSON patch add more than {MAX_COPIED_BYTES} bytes"
        )))
    }

    fn work(&mut self, values: usize) -> Result<(), PatchError> {
        self.work += values;
        if self.work <= MAX_WORK {
            return Ok(());
        }
        Err(PatchError::TooLarge("the operations of the JSON patch take too long".to_owned()))
    }

    /// Measures a value to be put at a path; each step of the path is one level of depth.
    fn put(&mut self, value: &Value, path: &str) -> Result<Extent, PatchError> {
        let extent = Extent::of(value);
        self.work(extent.nodes)?;
        if path.matches('/').count() + extent.depth <= MAX_DEPTH {
            return Ok(extent);
        }
        Err(PatchError::TooLarge(format!(
            "the operations of the JSON patch nest the object deeper than {MAX_DEPTH} levels"
        )))
    }
}

/// Applies the operations of `patch`, a JSON array, in order; all or none.
///
/// # Errors
/// When the patch is malformed or too large, or an operation does not fit the object.
pub fn json(object: &Value, patch: &Value) -> Result<Value, PatchError> {
    let Some(operations) = patch.as_array() else {
        return Err(PatchError::Malformed(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type []handlers.jsonPatchOp",
            json_kind(patch)
        )));
    };
    if operations.len() > MAX_OPERATIONS {
        return Err(PatchError::TooLarge(format!(
            "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
            operations.len()
        )));
    }
    let operations = operations.iter().map(fields).collect::<Result<Vec<_>, _>>()?;
    let mut patched = object.clone();
    let mut spent = Spent::default();
    for operation in operations {
        operate(&mut patched, operation, &mut spent)?;
    }
    Ok(patched)
}

/// Returns an operation's fields, after checking that those that must be texts are.
fn fields(operation: &Value) -> Result<&Map<String, Value>, PatchError> {
    let malformed = |found: &str, into: &str| {
        PatchError::Malformed(format!("error decoding patch: json: cannot unmarshal {found} into Go {into}"))
    };
    let Some(fields) = operation.as_object() else {
        return Err(malformed(json_kind(operation), "value of type handlers.jsonPatchOp"));
    };
    for name in ["op", "path", "from"] {
        match fields.get(name) {
            None | Some(Value::Null | Value::String(_)) => {}
            Some(other) => {
                let into = format!("struct field jsonPatchOp.{name} of type string");
                return Err(malformed(json_kind(other), &into));
            }
        }
    }
    Ok(fields)
}

fn misfit(text: impl Into<String>) -> PatchError {
    PatchError::Inapplicable(text.into())
}

fn operate(object: &mut Value, operation: &Map<String, Value>, spent: &mut Spent) -> Result<(), PatchError> {
    let text = |name: &str| {
        let given = operation.get(name).and_then(Value::as_str);
        given.ok_or_else(|| misfit(format!("the operation has no {name}")))
    };
    let value = operation.get("value").unwrap_or(&Value::Null);
    match operation.get("op").and_then(Value::as_str).unwrap_or_default() {
        "add" => {
            spent.put(value, text("path")?)?;
            add(object, text("path")?, value.clone(), spent)
        }
        "remove" => take(object, text("path")?, spent).map(drop),
        "replace" => {
            spent.put(value, text("path")?)?;
            replace(object, text("path")?, value)
        }
        "move" => {
            let (from, path) = (text("from")?, text("path"));
            let moved = take(object, from, spent)?;
            spent.put(&moved, path.as_deref().unwrap_or_default())?;
            add(object, path?, moved, spent)
        }
        "test" => test(object, text("path")?, value),
        "copy" => {
            let (from, path) = (text("from")?, text("path")?);
            let extent = spent.put(read(object, from)?, path)?;
            holder(object, path)?;
            spent.copy(extent.bytes)?;
            let copied = read(object, from)?.clone();
            add(object, path, copied, spent)
        }
        other => Err(misfit(format!("Unexpected kind: {other}"))),
    }
}

/// Returns the map or list at the end of a path, and the path's last step (`findObject`).
fn holder<'v>(object: &'v mut Value, path: &str) -> Result<(&'v mut Value, String), PatchError> {
    let missing = || misfit(format!("the object has no {path}"));
    let steps = path.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~"));
    let mut steps = steps.collect::<Vec<_>>();
    let last = steps.pop().ok_or_else(missing)?;
    let mut at = object;
    for step in &steps {
        at = match at {
            Value::Object(fields) => fields.get_mut(step),
            Value::Array(items) => position(step, items.len()).and_then(|index| items.get_mut(index)),
            _ => None,
        }
        .ok_or_else(missing)?;
    }
    if at.is_object() || at.is_array() { Ok((at, last)) } else { Err(missing()) }
}

/// Returns a position in a list of this length; it may be the one after the last item.
fn position(step: &str, length: usize) -> Option<usize> {
    let index = step.parse::<i64>().ok()?;
    let from_end = i64::try_from(length).ok()?.checked_add(index)?;
    usize::try_from(if index < 0 { from_end } else { index }).ok().filter(|at| *at <= length)
}

fn add(object: &mut Value, path: &str, value: Value, spent: &mut Spent) -> Result<(), PatchError> {
    let (holder, last) = holder(object, path)?;
    match holder {
        Value::Object(fields) => {
            fields.insert(last, value);
        }
        Value::Array(items) if last == "-" => items.push(value),
        Value::Array(items) => {
            // For `add`, -1 is the position after the last item.
            let length = items.len() + usize::from(last.starts_with('-'));
            let at = position(&last, length).filter(|at| *at <= items.len());
            let at = at.ok_or_else(|| misfit(format!("error in add for path: '{path}'")))?;
            spent.work(items.len() - at)?;
            items.insert(at, value);
        }
        _ => {}
    }
    Ok(())
}

fn take(object: &mut Value, path: &str, spent: &mut Spent) -> Result<Value, PatchError> {
    let (holder, last) = holder(object, path)?;
    let taken = match holder {
        Value::Object(fields) => fields.remove(&last),
        Value::Array(items) => match position(&last, items.len()).filter(|at| *at < items.len()) {
            Some(at) => {
                spent.work(items.len() - at)?;
                Some(items.remove(at))
            }
            None => None,
        },
        _ => None,
    };
    taken.ok_or_else(|| misfit(format!("error in remove for path: '{path}'")))
}

/// Returns the value at a path; `null` for an absent field.
fn read<'v>(object: &'v mut Value, path: &str) -> Result<&'v Value, PatchError> {
    let (holder, last) = holder(object, path)?;
    match holder {
        Value::Object(fields) => Ok(fields.get(&last).unwrap_or(&Value::Null)),
        Value::Array(items) => {
            let item = position(&last, items.len()).and_then(|at| items.get(at));
            item.ok_or_else(|| misfit(format!("no item at {path}")))
        }
        _ => Ok(&Value::Null),
    }
}

fn replace(object: &mut Value, path: &str, value: &Value) -> Result<(), PatchError> {
    if path.is_empty() {
        if !value.is_object() && !value.is_array() {
            return Err(misfit("replace operation value must be object or array"));
        }
        object.clone_from(value);
        return Ok(());
    }
    read(object, path)?;
    let (holder, last) = holder(object, path)?;
    match holder {
        Value::Object(fields) => {
            fields.insert(last, value.clone());
        }
        Value::Array(items) => {
            if let Some(item) = position(&last, items.len()).and_then(|at| items.get_mut(at)) {
                item.clone_from(value);
            }
        }
        _ => {}
    }
    Ok(())
}

fn test(object: &mut Value, path: &str, wanted: &Value) -> Result<(), PatchError> {
    let found = if path.is_empty() { &*object } else { read(object, path)? };
    if found == wanted {
        return Ok(());
    }
    Err(PatchError::TestFailed(format!("testing value {path} failed")))
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
    fn operations_that_do_not_fit_are_rejected() {
        let object = json!({"a": [1, 2]});
        let cases = [
            (json!({}), 400),
            (json!([{"op": "fly"}]), 422),
            (json!(["fly"]), 400),
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
    fn copies_cannot_inflate_an_object() {
        let mut operations = vec![json!({"op": "add", "path": "/a", "value": ["x".repeat(1000)]})];
        for _ in 0..40 {
            operations.push(json!({"op": "copy", "from": "/a", "path": "/a/-"}));
        }
        assert_eq!(json(&json!({}), &Value::Array(operations)).unwrap_err().code(), 413);
    }

    fn deep(levels: usize) -> Value {
        (0..levels).fold(json!(1), |value, _| json!({"a": value}))
    }

    #[test]
    fn no_operation_nests_deeper_than_an_object_may_be() {
        let object = json!({"x": deep(MAX_DEPTH - 1), "y": deep(60)});
        let below = format!("/y{}", "/a".repeat(60));
        let at = |path: &str, levels: usize| json!([{"op": "add", "path": path, "value": deep(levels)}]);
        let within = [
            at("/z", MAX_DEPTH - 1),
            at(&below, MAX_DEPTH - 61),
            json!([{"op": "move", "from": "/y/a", "path": "/x/a"}]),
            json!([{"op": "replace", "path": "", "value": deep(MAX_DEPTH)}]),
        ];
        for patch in within {
            let patched = json(&object, &patch).unwrap();
            assert!(Extent::of(&patched).depth <= MAX_DEPTH);
        }
        let beyond = [
            at("/z", MAX_DEPTH),
            at(&below, MAX_DEPTH - 60),
            json!([{"op": "replace", "path": "/y/a", "value": deep(MAX_DEPTH - 1)}]),
            json!([{"op": "replace", "path": "", "value": deep(MAX_DEPTH + 1)}]),
            json!([{"op": "copy", "from": "/x", "path": "/y/a"}]),
            json!([{"op": "move", "from": "/x", "path": "/y/a"}]),
        ];
        for patch in beyond {
            assert_eq!(json(&object, &patch).map_err(|error| error.code()), Err(413), "{patch}");
        }
    }

    #[test]
    fn a_patch_with_too_much_work_is_rejected() {
        let object = json!({"a": vec![0; 100_000], "b": {}});
        let back_and_forth = [
            json!({"op": "move", "from": "/a", "path": "/b/a"}),
            json!({"op": "move", "from": "/b/a", "path": "/a"}),
        ];
        let moves = back_and_forth.iter().cycle().take(MAX_OPERATIONS).cloned().collect();
        assert_eq!(json(&object, &Value::Array(moves)).map_err(|error| error.code()), Err(413));
        let removals = vec![json!({"op": "remove", "path": "/a/0"}); MAX_OPERATIONS];
        assert_eq!(json(&object, &Value::Array(removals)).map_err(|error| error.code()), Err(413));
        let short = json!({"a": vec![0; MAX_OPERATIONS]});
        let removals = vec![json!({"op": "remove", "path": "/a/0"}); MAX_OPERATIONS];
        assert_eq!(json(&short, &Value::Array(removals)), Ok(json!({"a": []})));
    }
}
