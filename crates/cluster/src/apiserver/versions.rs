//! Between the version in which an object is stored and the one in which it is asked for.
//!
//! Versions of a CustomResourceDefinition differ in `apiVersion` only (conversion strategy `None`). `events.k8s.io`
//! and the core group share their events; the fields are named as in `pkg/apis/events/v1/conversion.go`.

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::{Map, Value};

use super::rules::Kind;
use crate::store::Record;

/// Core field, then the same field in `events.k8s.io/v1`.
const EVENT_FIELDS: [(&str, &str); 7] = [
    ("message", "note"),
    ("involvedObject", "regarding"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

/// An object in the version of `kind`.
pub fn served<'a>(kind: &Kind, value: &'a Value) -> Cow<'a, Value> {
    if value["apiVersion"] == kind.api_version().as_str() {
        return Cow::Borrowed(value);
    }
    let mut value = value.clone();
    if kind.is("events.k8s.io", "Event") {
        rename(&mut value, |(core, other)| (core, other));
    }
    value["apiVersion"] = kind.api_version().into();
    Cow::Owned(value)
}

/// A record's JSON in the version of `kind`.
pub fn served_json(kind: &Kind, record: &Record) -> Bytes {
    match served(kind, &record.value) {
        Cow::Borrowed(_) => record.json().clone(),
        Cow::Owned(value) => value.to_string().into(),
    }
}

/// An object as it came in, in the version in which it is stored.
pub fn stored(kind: &Kind, mut value: Value) -> Value {
    if kind.is("events.k8s.io", "Event") {
        rename(&mut value, |(core, other)| (other, core));
        value["apiVersion"] = "v1".into();
    }
    value
}

fn rename(
    value: &mut Value,
    direction: impl Fn((&'static str, &'static str)) -> (&'static str, &'static str),
) {
    let Some(object) = value.as_object_mut() else { return };
    let moved = EVENT_FIELDS
        .into_iter()
        .map(direction)
        .filter_map(|(from, to)| object.remove(from).map(|value| (to.to_owned(), value)))
        .collect::<Map<_, _>>();
    object.extend(moved);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn events_are_renamed_both_ways() {
        let Some(kind) = super::super::rules::builtin_kind("events.k8s.io", "Event") else {
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
