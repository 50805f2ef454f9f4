//! Raw Kubernetes objects on stdout: as JSON, as YAML, by name; a `List` if there are several. Pure.

use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::arguments::Output;
use crate::failure::Failure;

/// One object alone, several as a `List`.
pub fn together(mut values: Vec<Value>, always_list: bool) -> Value {
    if values.len() == 1 && !always_list {
        return values.remove(0);
    }
    json!({ "apiVersion": "v1", "kind": "List", "metadata": { "resourceVersion": "" }, "items": values })
}

/// A value as JSON or YAML, with a line end.
pub fn text(value: &Value, output: Output) -> Result<String, Failure> {
    let failed = |error: String| {
        Failure::new(jobs::Class::Error, "Output", format!("cannot write the object: {error}"))
    };
    match output {
        Output::Yaml => serde_saphyr::to_string(value).map_err(|error| failed(error.to_string())),
        _ => serde_json::to_string_pretty(value)
            .map(|text| text + "\n")
            .map_err(|error| failed(error.to_string())),
    }
}

/// An object as a value.
pub fn value(object: &DynamicObject) -> Value {
    let mut value = serde_json::to_value(object).unwrap_or_default();
    // As kubectl: who last wrote which field is noise to everyone but a debugger of operators.
    if let Some(metadata) = value.pointer_mut("/metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    value
}

/// `mpijob/NAME`
pub fn name(object: &DynamicObject) -> String {
    format!("mpijob/{}", object.name_any())
}
