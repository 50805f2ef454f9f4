//! managedFields: updates the ownership of fields with every write.
//!
//! [`super::rules`] computes the field sets; this module decides when. Server-side apply updates its own
//! entries.

use serde_json::Value;

use super::call::Call;
use super::rules;

/// Records the owner of a new object's fields.
pub fn track_create(call: &Call<'_>, value: &mut Value) {
    if call.is_apply() {
        return;
    }
    rules::track(call, None, value);
}

/// Records the owner of changed fields.
pub fn track_update(call: &Call<'_>, old: &Value, new: &mut Value) {
    if call.is_apply() {
        return;
    }
    rules::track(call, Some(old), new);
}

/// Returns whether managedFields are absent or can be decoded.
pub fn is_valid(value: &Value) -> bool {
    rules::has_readable_managers(value)
}

/// Returns whether two states differ at most in the times of their managedFields.
pub fn is_unchanged(old: &Value, new: &Value) -> bool {
    let (Some(before), Some(after)) = (old.as_object(), new.as_object()) else { return old == new };
    let others = |object: &serde_json::Map<String, Value>| {
        object.iter().filter(|(name, _)| *name != "metadata").count()
    };
    others(before) == others(after)
        && before
            .iter()
            .filter(|(name, _)| *name != "metadata")
            .all(|(name, value)| after.get(name) == Some(value))
        && timeless(&old["metadata"]) == timeless(&new["metadata"])
}

fn timeless(metadata: &Value) -> Value {
    let mut metadata = metadata.clone();
    if let Some(entries) = metadata.get_mut("managedFields").and_then(Value::as_array_mut) {
        for entry in entries.iter_mut().filter_map(Value::as_object_mut) {
            entry.remove("time");
        }
    }
    metadata
}
