//! The Scale of an object (`autoscaling`): the number of its replicas, read from and written to the fields that its
//! kind names (apiextensions `pkg/registry/customresource/etcd.go`).

use serde_json::{Map, Value, json};

use super::request_context::RequestContext;
use super::status::{self, About, StatusError};
use objects::LabelSelector;

/// Returns the object with the number of replicas from a Scale.
///
/// # Errors
/// 422 for a negative number, 500 if its path leads through a value that isn't an object.
pub fn scaled(context: &RequestContext<'_>, present: &Value, scale: &Value) -> Result<Value, StatusError> {
    let about = About { group: "autoscaling", resource: "Scale", name: context.action.name };
    let replicas = match &scale["spec"]["replicas"] {
        Value::Null => 0,
        value => value.as_i64().filter(|replicas| *replicas >= 0).ok_or_else(|| {
            let detail = format!("Invalid value: {value}: should be a non-negative integer");
            status::invalid(about, &[("FieldValueInvalid".into(), detail, "spec.replicas".into())])
        })?,
    };
    let mut next = present.clone();
    if let Some(version) = scale["metadata"]["resourceVersion"].as_str().filter(|version| !version.is_empty())
    {
        next["metadata"]["resourceVersion"] = version.into();
    }
    let path =
        context.entry.kind.scale.as_ref().map_or(".spec.replicas", |paths| paths.spec_replicas.as_str());
    let mut place = &mut next;
    for part in path.trim_start_matches('.').split('.') {
        if place.is_null() {
            *place = Value::Object(Map::new());
        }
        let object = place
            .as_object_mut()
            .ok_or_else(|| status::internal(format!("{path} leads through no object")))?;
        place = object.entry(part).or_insert(Value::Null);
    }
    *place = replicas.into();
    Ok(next)
}

/// Returns the Scale of an object.
pub fn scale_of(context: &RequestContext<'_>, value: &Value) -> Value {
    let paths = context.entry.kind.scale.as_ref();
    let at = |path: Option<&str>, default: &str| {
        let path = path.unwrap_or(default);
        path.trim_start_matches('.').split('.').fold(value, |value, part| &value[part]).clone()
    };
    let replicas = |path: Value| path.as_i64().unwrap_or(0);
    let metadata = &value["metadata"];
    let mut scale = json!({"kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"], "creationTimestamp": metadata["creationTimestamp"]},
        "spec": {},
        "status": {"replicas": replicas(at(paths.map(|paths| paths.status_replicas.as_str()), ".status.replicas"))}});
    let wanted = replicas(at(paths.map(|paths| paths.spec_replicas.as_str()), ".spec.replicas"));
    if wanted != 0 {
        scale["spec"]["replicas"] = wanted.into();
    }
    let selector = paths.and_then(|paths| paths.label_selector.as_deref()).map(|path| at(Some(path), ""));
    if let Some(selector) = selector.as_ref().and_then(selector_text).filter(|text| !text.is_empty()) {
        scale["status"]["selector"] = selector.into();
    }
    scale
}

/// Formats a selector as text, as in `scale`: from a text, a map of labels, or a `LabelSelector`.
fn selector_text(selector: &Value) -> Option<String> {
    match selector {
        Value::String(text) => Some(text.clone()),
        Value::Object(map) if map.values().all(Value::is_string) => {
            Some(LabelSelector::of_map(selector).to_string())
        }
        _ => LabelSelector::of(selector).ok().map(|selector| selector.to_string()),
    }
}
