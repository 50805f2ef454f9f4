//! Headings and cells that the rows of several kinds have.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::age::since;
use super::super::selectors::LabelSelector;
use super::Heading;

/// Computes the cells of an object at a time.
pub(super) type Row = fn(&Value, Timestamp) -> Vec<Value>;

pub(super) const NAME: Heading = ("Name", "string", "name", 0);
pub(super) const AGE: Heading = ("Age", "string", "", 0);

pub(super) const fn string(name: &'static str) -> Heading {
    (name, "string", "", 0)
}

pub(super) const fn wide(name: &'static str) -> Heading {
    (name, "string", "", 1)
}

pub(super) const fn integer(name: &'static str) -> Heading {
    (name, "integer", "", 0)
}

pub(super) fn text<'v>(object: &'v Value, field: &str) -> &'v str {
    object[field].as_str().unwrap_or_default()
}

pub(super) fn list<'v>(object: &'v Value, field: &str) -> impl Iterator<Item = &'v Value> {
    object[field].as_array().into_iter().flatten()
}

pub(super) fn age(object: &Value, now: Timestamp) -> Value {
    json!(since(object["metadata"]["creationTimestamp"].as_str(), now))
}

pub(super) fn none(text: &str) -> Value {
    json!(if text.is_empty() { "<none>" } else { text })
}

/// Returns the creation time. An object without one, such as a bookmark's, has Go's zero time.
pub(super) fn created(object: &Value) -> Value {
    match &object["metadata"]["creationTimestamp"] {
        Value::Null => json!("0001-01-01T00:00:00Z"),
        time => time.clone(),
    }
}

pub(super) fn name(object: &Value) -> Value {
    json!(text(&object["metadata"], "name"))
}

pub(super) fn count(map: &Value) -> usize {
    map.as_object().map_or(0, serde_json::Map::len)
}

pub(super) fn selector(selector: &Value) -> Value {
    match LabelSelector::of(selector) {
        Ok(selector) => none(&selector.to_string()),
        Err(_) => json!("<error>"),
    }
}

pub(super) fn labels(map: &Value) -> Value {
    none(&LabelSelector::of_map(map).to_string())
}

pub(super) fn joined<'v>(texts: impl Iterator<Item = &'v str>) -> String {
    texts.collect::<Vec<_>>().join(",")
}

/// Returns the names and the images of a pod's containers.
pub(super) fn containers(spec: &Value) -> [Value; 2] {
    ["name", "image"].map(|field| json!(joined(list(spec, "containers").map(|c| text(c, field)))))
}
