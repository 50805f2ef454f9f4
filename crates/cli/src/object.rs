//! Raw Kubernetes objects for stdout: as values, by name, as a `List` if there are several. Pure.

use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::{Value, json};

pub use crate::output::text;

/// Returns a single object as it is, several as a `List`.
pub fn together(mut values: Vec<Value>, always_list: bool) -> Value {
    if values.len() == 1 && !always_list {
        return values.remove(0);
    }
    json!({ "apiVersion": "v1", "kind": "List", "metadata": { "resourceVersion": "" }, "items": values })
}

/// Converts an object to a value.
pub fn value(object: &DynamicObject) -> Value {
    let mut value = serde_json::to_value(object).unwrap_or_default();
    // Omits managed fields, as kubectl does: they matter only to those who debug operators.
    if let Some(metadata) = value.pointer_mut("/metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    value
}

/// `mpijob/NAME`
pub fn name(object: &DynamicObject) -> String {
    format!("{}/{}", jobs::Kind::of(object).word(), object.name_any())
}
