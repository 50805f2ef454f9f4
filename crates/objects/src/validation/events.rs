//! Events (`pkg/apis/core/validation/events.go`). Those of the older API are validated less strictly than those of
//! `events.k8s.io`.

use serde_json::Value;

use super::{FieldFault, immutable_field, text};
use crate::names;

const MAX_SHORT: usize = 128;
const MAX_NOTE: usize = 1024;

/// `legacyValidateEvent`, for an Event in the form of the core group. `reporter` is the field with the reporting
/// component.
pub(super) fn legacy(event: &Value, reporter: &str) -> Vec<FieldFault> {
    let (own, about) = (text(&event["metadata"], "namespace"), text(&event["involvedObject"], "namespace"));
    let mut faults = Vec::new();
    let is_new = !event["eventTime"].is_null();
    let fits = match own {
        _ if !about.is_empty() => is_new || own == about,
        "" | "default" => !is_new || own == "default",
        _ => is_new && own == "kube-system",
    };
    if !fits {
        let text = "does not match event.namespace";
        faults.push(FieldFault::invalid("involvedObject.namespace", about, text));
    }
    if is_new {
        let controller = text(event, "reportingComponent");
        if controller.is_empty() {
            faults.push(FieldFault::required(reporter, ""));
        }
        let judged = names::qualified_name(controller).into_iter();
        faults.extend(judged.map(|f| FieldFault::invalid(reporter, controller, f)));
        for (field, most) in [("reportingInstance", MAX_SHORT), ("action", MAX_SHORT), ("reason", MAX_SHORT)]
        {
            if text(event, field).is_empty() {
                faults.push(FieldFault::required(field, ""));
            }
            too_long(event, field, most, &mut faults);
        }
        too_long(event, "message", MAX_NOTE, &mut faults);
    }
    faults
}

fn too_long(event: &Value, field: &str, most: usize, faults: &mut Vec<FieldFault>) {
    if text(event, field).len() > most {
        faults.push(FieldFault::invalid(field, "", format!("can have at most {most} characters")));
    }
}

/// Further rules for a new Event of `events.k8s.io` (`ValidateEventCreate`).
pub(super) fn strict(event: &Value) -> Vec<FieldFault> {
    let mut faults = series(event);
    if event["eventTime"].is_null() {
        faults.push(FieldFault::required("eventTime", ""));
    }
    let kind = text(event, "type");
    if !matches!(kind, "Normal" | "Warning") {
        faults.push(FieldFault::invalid("type", "", format!("has invalid value: {kind}")));
    }
    let source = &event["source"];
    let is_set = [
        ("firstTimestamp", !event["firstTimestamp"].is_null()),
        ("lastTimestamp", !event["lastTimestamp"].is_null()),
        ("count", event["count"].as_i64().unwrap_or_default() != 0),
        ("source", !text(source, "component").is_empty() || !text(source, "host").is_empty()),
    ];
    let set = is_set.iter().filter(|(_, is_set)| *is_set);
    faults.extend(set.map(|(field, _)| FieldFault::invalid(*field, "", "needs to be unset")));
    faults
}

fn series(event: &Value) -> Vec<FieldFault> {
    let (series, mut faults) = (&event["series"], Vec::new());
    if series.is_null() {
        return faults;
    }
    if series["count"].as_i64().unwrap_or_default() < 2 {
        faults.push(FieldFault::invalid("series.count", "", "should be at least 2"));
    }
    if series["lastObservedTime"].is_null() {
        faults.push(FieldFault::required("series.lastObservedTime", ""));
    }
    faults
}

/// Checks the immutable fields of an Event of `events.k8s.io` (`ValidateEventUpdate`).
pub(super) fn update(new: &Value, old: &Value) -> Vec<FieldFault> {
    let mut faults = if new["series"] == old["series"] { Vec::new() } else { series(new) };
    for field in [
        "involvedObject",
        "reason",
        "message",
        "source",
        "firstTimestamp",
        "lastTimestamp",
        "count",
        "type",
        "eventTime",
        "action",
        "related",
        "reportingInstance",
    ] {
        let is_empty = |value: &Value| value.is_null() || value == "" || value == 0;
        if !(is_empty(&new[field]) && is_empty(&old[field])) {
            let fault = immutable_field(new, old, field).into_iter();
            faults.extend(fault.map(|fault| with_text(fault, new, field)));
        }
    }
    if text(new, "reportingComponent") != text(old, "reportingComponent") {
        let value = text(new, "reportingComponent");
        faults.push(FieldFault::invalid("reportingController", value, "field is immutable"));
    }
    faults
}

/// Adjusts the fault's value: Go has no absent strings or numbers.
fn with_text(mut fault: FieldFault, new: &Value, field: &str) -> FieldFault {
    if new[field].is_null() && matches!(field, "reason" | "message" | "type" | "action" | "reportingInstance")
    {
        fault.value = Some("".into());
    } else if new[field].is_null() && field == "count" {
        fault.value = Some(0.into());
    }
    fault
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_namespace_of_an_event_is_checked_against_its_object() {
        let time = json!("2026-01-01T00:00:00.000000Z");
        let table = [
            ("a", "a", Value::Null, true),
            ("a", "b", Value::Null, false),
            ("a", "b", time.clone(), true),
            ("a", "", Value::Null, false),
            ("default", "", Value::Null, true),
            ("kube-system", "", Value::Null, false),
            ("kube-system", "", time, true),
        ];
        for (own, about, time, fits) in table {
            let object = json!({"metadata": {"namespace": own}, "involvedObject": {"namespace": about}, "eventTime": time,
                "reportingComponent": "c", "reportingInstance": "i", "action": "A", "reason": "R"});
            assert_eq!(legacy(&object, "reportingComponent").is_empty(), fits, "{object}");
        }
    }

    #[test]
    fn new_events_need_more_fields_which_are_immutable() {
        let event = json!({"type": "Other", "count": 1});
        let said = strict(&event).iter().map(|fault| fault.path.clone()).collect::<Vec<_>>();
        assert_eq!(said, ["eventTime", "type", "count"]);
        let changed = update(&json!({"action": "A"}), &json!({"action": "B"}));
        assert_eq!(changed[0].to_string(), "action: Invalid value: \"A\": field is immutable");
    }

    #[test]
    fn only_the_newer_api_asks_for_qualified_finalizers() {
        let faults = |group: &str| {
            let event = json!({"metadata": {"namespace": "default", "finalizers": ["plain"]}});
            let kind = crate::builtin_kind(group, "Event").unwrap();
            let faults = super::super::validate_update(kind, "", &event, &event);
            faults.into_iter().filter(|fault| fault.path == "metadata.finalizers[0]").count()
        };
        assert_eq!((faults(""), faults("events.k8s.io")), (0, 1));
    }
}
