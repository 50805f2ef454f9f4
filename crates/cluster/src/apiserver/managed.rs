//! managedFields: who owns which field, brought up to date with every write.
//!
//! The sets themselves are made by [`super::rules`]; here it is decided when. Server-side apply keeps its own.

use serde_json::Value;

use super::call::Call;
use super::rules;

/// Notes the creator of an object.
pub fn track_create(call: &Call<'_>, value: &mut Value) {
    if call.is_apply() {
        return;
    }
    rules::track(call, None, value);
}

/// Notes who changed an object.
pub fn track_update(call: &Call<'_>, old: &Value, new: &mut Value) {
    if call.is_apply() {
        return;
    }
    rules::track(call, Some(old), new);
}

/// Whether the record of managers can be read; one that is not there can.
pub fn is_valid(value: &Value) -> bool {
    rules::has_readable_managers(value)
}

/// Whether two states differ in nothing but the times of their managedFields.
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
