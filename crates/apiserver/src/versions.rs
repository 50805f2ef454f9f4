//! Converts objects between the stored version and the requested one.
//!
//! Versions of a CustomResourceDefinition differ in `apiVersion` only (conversion strategy `None`).
//! `events.k8s.io` and the core group share their events, with different field names. Autoscalers are stored
//! as `v2`. Reading fills in defaults that a definition gained after an object was stored, and fields that
//! Kubernetes omits from what it stores. Writing the result back therefore is a change.

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::Value;

use crate::store::Record;
use objects::Kind;

/// Returns an object in the version of `kind`.
pub fn served<'a>(kind: &Kind, value: &'a Value) -> Cow<'a, Value> {
    let read = read(kind, value);
    if read["apiVersion"] == kind.api_version().as_str() {
        return read;
    }
    let mut value = read.into_owned();
    objects::convert_event(kind, &mut value);
    objects::convert_autoscaler(kind, &mut value);
    value["apiVersion"] = kind.api_version().into();
    Cow::Owned(value)
}

/// Returns an object as read from the store: in the stored version, with that version's defaults.
pub fn read<'a>(kind: &Kind, value: &'a Value) -> Cow<'a, Value> {
    let mut read = objects::read_back(kind, value).map_or(Cow::Borrowed(value), Cow::Owned);
    let schema = kind.stored_schema().unwrap_or_else(|| kind.schema());
    if !kind.is_builtin() && schema.lacks_default(&read) {
        schema.default(read.to_mut());
    }
    read
}

/// Returns a record's JSON in the version of `kind`.
pub fn served_json(kind: &Kind, record: &Record) -> Bytes {
    if record.is_served_as(kind.serial()) {
        return record.json().clone();
    }
    match served(kind, &record.value()) {
        Cow::Borrowed(_) => {
            record.note_served_as(kind.serial());
            record.json().clone()
        }
        Cow::Owned(value) => value.to_string().into(),
    }
}

/// Returns whether a record's JSON is what is served in the version of `kind`.
pub fn is_served_as_stored(kind: &Kind, record: &Record) -> bool {
    if !record.is_served_as(kind.serial()) && matches!(served(kind, &record.value()), Cow::Borrowed(_)) {
        record.note_served_as(kind.serial());
    }
    record.is_served_as(kind.serial())
}

/// Converts an object to the stored version, in the form in which the store returns it. Dry runs are
/// converted, too (`DryRunnableStorage.copyInto`).
pub fn stored(kind: &Kind, mut value: Value) -> Value {
    if kind.is("events.k8s.io", "Event")
        && let Some(core) = objects::builtin_kind("", "Event")
    {
        objects::convert_event(core, &mut value);
    }
    if kind.is("autoscaling", "HorizontalPodAutoscaler")
        && let Some(second) = objects::builtin_kind("autoscaling", "HorizontalPodAutoscaler")
    {
        objects::convert_autoscaler(second, &mut value);
    }
    if kind.is_builtin() {
        kind.schema().settle(&mut value);
    } else {
        settle(kind, &mut value);
    }
    value
}

/// Converts a custom object to the form in which the store returns it: only fields of the stored version's
/// schema, no `null`s that mean absence, and metadata (its own and that of embedded objects) as of any
/// object.
fn settle(kind: &Kind, value: &mut Value) {
    let schema = kind.stored_schema().unwrap_or_else(|| kind.schema());
    schema.prune(value);
    schema.drop_nulls(value);
    // A label whose value is null is written as null, and becomes an empty string only when read back.
    let nulls = objects::null_labels(value);
    // Admission accepted what cannot be decoded; it stays as it is.
    let _ = objects::decode_metadata(&mut value["metadata"]);
    let _ = schema.coerce_embedded(value, &objects::decode_metadata);
    for (field, name) in nulls {
        value["metadata"][field][name] = Value::Null;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_that_are_not_stored_are_filled_in_on_read() {
        let claim = objects::builtin_kind("", "PersistentVolumeClaim").unwrap();
        let mut new = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": {}});
        objects::prepare_create(claim, &mut new);
        assert_eq!(new["status"], json!({}));
        let read = served(claim, &new).into_owned();
        assert_eq!(read["status"], json!({"phase": "Pending"}));
        assert!(matches!(served(claim, &read), Cow::Borrowed(_)));
        let secret = objects::builtin_kind("", "Secret").unwrap();
        let mut new = json!({"apiVersion": "v1", "kind": "Secret", "data": {"a": null, "b": "AA=="}});
        crate::decoding::fill_in(secret, &mut new);
        assert_eq!(new["data"], json!({"a": null, "b": "AA=="}));
        assert_eq!(served(secret, &new)["data"], json!({"a": "", "b": "AA=="}));
    }

    #[test]
    fn event_fields_are_renamed_in_both_directions() {
        let Some(kind) = objects::builtin_kind("events.k8s.io", "Event") else {
            panic!("events.k8s.io is not served")
        };
        let new = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "note": "n", "regarding": {"name": "p"}});
        let core = stored(kind, new.clone());
        assert_eq!(
            core,
            json!({"apiVersion": "v1", "kind": "Event", "message": "n", "involvedObject": {"name": "p"}})
        );
        assert_eq!(*served(kind, &core), new);
    }
}
