//! Events of the core group and of `events.k8s.io`, which are the same objects with different names of fields
//! (`pkg/apis/events/v1/conversion.go`).

use serde_json::{Value, json};

use super::kinds::Kind;

/// The fields with different names in core Events and `events.k8s.io` Events.
const EVENT_FIELDS: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

/// Converts an Event to the other group. Leaves any other object as it is.
pub fn convert_event(to: &Kind, event: &mut Value) {
    if to.kind != "Event" || to.matches(event) {
        return;
    }
    let to_core = to.group.is_empty();
    let Some(map) = event.as_object_mut() else { return };
    for (core, new) in EVENT_FIELDS {
        let (from, into) = if to_core { (new, core) } else { (core, new) };
        if let Some(value) = map.remove(*from) {
            map.insert((*into).to_owned(), value);
        }
    }
    map.insert("apiVersion".to_owned(), json!(to.api_version()));
    map.insert("kind".to_owned(), json!("Event"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin_kind;

    #[test]
    fn events_are_converted_between_groups() {
        let new = builtin_kind("events.k8s.io", "Event").unwrap();
        let core = builtin_kind("", "Event").unwrap();
        let event = json!({"apiVersion": "v1", "kind": "Event", "involvedObject": {"name": "p"}, "message": "m", "count": 2, "reason": "R"});
        let mut turned = event.clone();
        convert_event(new, &mut turned);
        assert_eq!(
            turned,
            json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "regarding": {"name": "p"}, "note": "m", "deprecatedCount": 2, "reason": "R"})
        );
        convert_event(core, &mut turned);
        assert_eq!(turned, event);
    }
}
