//! A manifest as one flat map from the path of each field to its value as text, to find where two differ. Pure.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::Kind;

/// Collects every leaf by its path. A list's items are keyed by name if they have one; a list of strings becomes one
/// text.
pub(crate) fn flatten(value: &Value, path: &str, kind: Kind, into: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(fields) => {
            for (key, field) in fields {
                let inner = match kind.replicas_field() {
                    Some(replicas) if path.ends_with(replicas) => format!("{path}[{key}]"),
                    _ => format!("{path}.{key}"),
                };
                flatten(field, &inner, kind, into);
            }
        }
        Value::Array(items) if items.iter().all(Value::is_string) => {
            let words: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
            into.insert(path.to_owned(), words.join(" "));
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                match item.get("name").and_then(Value::as_str) {
                    // The name is already in the path.
                    Some(name) => flatten(&without_name(item), &format!("{path}[{name}]"), kind, into),
                    None => flatten(item, &format!("{path}[{index}]"), kind, into),
                }
            }
        }
        Value::String(text) => {
            into.insert(path.to_owned(), text.clone());
        }
        other => {
            into.insert(path.to_owned(), other.to_string());
        }
    }
}

fn without_name(item: &Value) -> Value {
    let mut item = item.clone();
    if let Some(fields) = item.as_object_mut().filter(|fields| fields.len() > 1) {
        fields.remove("name");
    }
    item
}
