//! Converts a job to what creates it again: a manifest with what a user wrote and without what a cluster added, and if
//! the job is simple enough, the command line or the Python code for it. Pure.

mod code;
mod command;
mod request;

use kube::api::DynamicObject;
use serde_json::{Map, Value};

pub use code::python;
pub use command::{command, shell};
pub use request::{Inexpressible, request};

/// Fields of `metadata` that only the server writes.
const SERVERS_OWN: [&str; 11] = [
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "ownerReferences",
    "finalizers",
    "selfLink",
    "generateName",
];
/// Annotations that refer to this very object and would be wrong on another.
const OF_THIS_OBJECT: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    api::ANNOTATION_ATTEMPT,
    api::ANNOTATION_CANCEL,
    api::ANNOTATION_CREATION,
    api::ANNOTATION_OWNER,
    api::ANNOTATION_REQUEST,
];

/// Returns the manifest: kind, version, name, namespace, labels, annotations and spec, in that order.
pub fn manifest(object: &DynamicObject) -> Value {
    let written = serde_json::to_value(object).unwrap_or_default();
    let mut metadata = written.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
    for field in SERVERS_OWN {
        metadata.remove(field);
    }
    if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
        for name in OF_THIS_OBJECT {
            annotations.remove(name);
        }
    }
    for field in ["annotations", "labels"] {
        if metadata.get(field).and_then(Value::as_object).is_some_and(Map::is_empty) {
            metadata.remove(field);
        }
    }
    let mut spec = written.get("spec").cloned().unwrap_or_default();
    without_empty_times(&mut spec);
    let of = |field: &str| written.get(field).cloned().unwrap_or_default();
    Value::Object(Map::from_iter([
        ("apiVersion".to_owned(), of("apiVersion")),
        ("kind".to_owned(), of("kind")),
        ("metadata".to_owned(), Value::Object(metadata)),
        ("spec".to_owned(), spec),
    ]))
}

/// Only Go clients write a template's missing creation time as `null`.
fn without_empty_times(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, field| !(name == "creationTimestamp" && field.is_null()));
            fields.values_mut().for_each(without_empty_times);
        }
        Value::Array(items) => items.iter_mut().for_each(without_empty_times),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_the_user_wrote_is_exported() {
        let annotations: Map<String, Value> =
            OF_THIS_OBJECT.iter().map(|name| ((*name).to_owned(), json!("{}"))).collect();
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
            "metadata": {"name": "pi", "namespace": "team", "uid": "u", "resourceVersion": "7", "generation": 1,
                "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"a": "b"},
                "annotations": annotations,
                "managedFields": [{"manager": "odh"}]},
            "spec": {"mpiReplicaSpecs": {"Worker": {"template": {"metadata": {"creationTimestamp": null}}}}},
            "status": {"phase": "Failed"}}))
        .unwrap();
        assert_eq!(
            manifest(&object),
            json!({"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
                "metadata": {"name": "pi", "namespace": "team", "labels": {"a": "b"}},
                "spec": {"mpiReplicaSpecs": {"Worker": {"template": {"metadata": {}}}}}})
        );
    }
}
