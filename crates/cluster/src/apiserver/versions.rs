//! Between the version in which an object is stored and the one in which it is asked for.
//!
//! Versions of a CustomResourceDefinition differ in `apiVersion` only (conversion strategy `None`). `events.k8s.io`
//! and the core group share their events; the fields are named otherwise. Autoscalers are stored as `v2`. Defaults that
//! came into a definition after an object was stored are filled in as it is read, and so is what Kubernetes itself leaves
//! out of what it writes: whoever then writes the same again does write.

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::Value;

use super::rules::{self, Kind};
use crate::store::Record;

/// An object in the version of `kind`.
pub fn served<'a>(kind: &Kind, value: &'a Value) -> Cow<'a, Value> {
    let read = read(kind, value);
    if read["apiVersion"] == kind.api_version().as_str() {
        return read;
    }
    let mut value = read.into_owned();
    rules::convert_event(kind, &mut value);
    rules::convert_autoscaler(kind, &mut value);
    value["apiVersion"] = kind.api_version().into();
    Cow::Owned(value)
}

/// An object as it is read, in the version in which it is stored, with that version's defaults.
pub fn read<'a>(kind: &Kind, value: &'a Value) -> Cow<'a, Value> {
    let mut read = rules::read_back(kind, value).map_or(Cow::Borrowed(value), Cow::Owned);
    let schema = kind.stored_schema().unwrap_or_else(|| kind.schema());
    if !kind.is_builtin() && schema.lacks_default(&read) {
        schema.default(read.to_mut());
    }
    read
}

/// A record's JSON in the version of `kind`.
pub fn served_json(kind: &Kind, record: &Record) -> Bytes {
    match served(kind, &record.value) {
        Cow::Borrowed(_) => record.json().clone(),
        Cow::Owned(value) => value.to_string().into(),
    }
}

/// An object as it came in, in the version in which it is stored and the form in which it is read back from there; a dry
/// run's is brought into both, too (`DryRunnableStorage.copyInto`).
pub fn stored(kind: &Kind, mut value: Value) -> Value {
    if kind.is("events.k8s.io", "Event")
        && let Some(core) = rules::builtin_kind("", "Event")
    {
        rules::convert_event(&core, &mut value);
    }
    if kind.is("autoscaling", "HorizontalPodAutoscaler")
        && let Some(second) = rules::builtin_kind("autoscaling", "HorizontalPodAutoscaler")
    {
        rules::convert_autoscaler(&second, &mut value);
    }
    if kind.is_builtin() {
        kind.schema().settle(&mut value);
    } else {
        rules::settle(kind, &mut value);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_left_out_of_the_store_is_filled_in_as_it_is_read() {
        let claim = rules::builtin_kind("", "PersistentVolumeClaim").unwrap();
        let mut new = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": {}});
        rules::prepare_create(&claim, &mut new);
        assert_eq!(new["status"], json!({}));
        let read = served(&claim, &new).into_owned();
        assert_eq!(read["status"], json!({"phase": "Pending"}));
        assert!(matches!(served(&claim, &read), Cow::Borrowed(_)));
        let secret = rules::builtin_kind("", "Secret").unwrap();
        let mut new = json!({"apiVersion": "v1", "kind": "Secret", "data": {"a": null, "b": "AA=="}});
        rules::fill_in(&secret, &mut new);
        assert_eq!(new["data"], json!({"a": null, "b": "AA=="}));
        assert_eq!(served(&secret, &new)["data"], json!({"a": "", "b": "AA=="}));
    }

    #[test]
    fn events_are_renamed_both_ways() {
        let Some(kind) = rules::builtin_kind("events.k8s.io", "Event") else {
            panic!("events.k8s.io is not served")
        };
        let new = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "note": "n", "regarding": {"name": "p"}});
        let core = stored(&kind, new.clone());
        assert_eq!(
            core,
            json!({"apiVersion": "v1", "kind": "Event", "message": "n", "involvedObject": {"name": "p"}})
        );
        assert_eq!(*served(&kind, &core), new);
    }
}
