//! managedFields: updates the ownership of fields with every write.
//!
//! [`apply`] computes the field sets; this module decides when. Server-side apply updates its own
//! entries.

use serde_json::Value;

use super::request_context::RequestContext;
use objects::patch::apply;

/// Records the owner of a new object's fields.
pub fn track_create(context: &RequestContext<'_>, value: &mut Value) {
    if context.is_apply() {
        return;
    }
    track(context, None, value);
}

/// Records the owner of changed fields.
pub fn track_update(context: &RequestContext<'_>, old: &Value, new: &mut Value) {
    if context.is_apply() {
        return;
    }
    track(context, Some(old), new);
}

fn track(context: &RequestContext<'_>, old: Option<&Value>, new: &mut Value) {
    let manager = context.manager();
    apply::update_managed_fields(&context.entry.kind, old, new, writer(context, &manager));
}

/// Returns who writes the fields of a request.
pub fn writer<'a>(context: &'a RequestContext<'_>, manager: &'a str) -> apply::Writer<'a> {
    let subresource = context.action.subresource;
    apply::Writer { manager, subresource: (!subresource.is_empty()).then_some(subresource), now: context.now }
}

/// Returns whether managedFields are absent or can be decoded.
pub fn is_valid(value: &Value) -> bool {
    apply::is_readable(value)
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
