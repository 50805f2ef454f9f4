//! Defaults of Deployments, ReplicaSets and ReplicationControllers (`pkg/apis/apps/v1/defaults.go`,
//! `pkg/apis/core/v1/defaults.go`).

use serde_json::{Map, Value, json};

use super::super::kinds::Kind;
use super::pods::pod_spec;
use super::set;

/// Old ReplicaSets to keep, and the seconds after which a roll-out has failed.
const DEPLOYMENT: [(&str, i64); 2] = [("revisionHistoryLimit", 10), ("progressDeadlineSeconds", 600)];

pub(super) fn fill(kind: &Kind, object: &mut Value) {
    if kind.kind == "PodTemplate" {
        template(&mut object["template"]);
        return;
    }
    if !object["spec"].is_object() {
        object["spec"] = Value::Object(Map::new());
    }
    let spec = &mut object["spec"];
    set(spec, "replicas", json!(1));
    if spec["template"].is_object() {
        template(&mut spec["template"]);
    }
    match kind.kind.as_str() {
        "Deployment" => deployment(spec),
        "ReplicationController" => labels_of_template(object),
        _ => {}
    }
}

fn template(template: &mut Value) {
    if !template.is_object() {
        *template = Value::Object(Map::new());
    }
    for part in ["metadata", "spec"] {
        if !template[part].is_object() {
            template[part] = Value::Object(Map::new());
        }
    }
    pod_spec(&mut template["spec"]);
}

fn deployment(spec: &mut Value) {
    for (field, value) in DEPLOYMENT {
        set(spec, field, json!(value));
    }
    if !spec["strategy"].is_object() {
        spec["strategy"] = Value::Object(Map::new());
    }
    let strategy = &mut spec["strategy"];
    set(strategy, "type", json!("RollingUpdate"));
    if strategy["type"] == "RollingUpdate" {
        if !strategy["rollingUpdate"].is_object() {
            strategy["rollingUpdate"] = Value::Object(Map::new());
        }
        for field in ["maxUnavailable", "maxSurge"] {
            set(&mut strategy["rollingUpdate"], field, json!("25%"));
        }
    }
}

/// Copies the template's labels to a ReplicationController without selector or labels.
fn labels_of_template(object: &mut Value) {
    let labels = object["spec"]["template"]["metadata"]["labels"].clone();
    let is_empty = |value: &Value| value.as_object().is_none_or(Map::is_empty);
    if is_empty(&labels) {
        return;
    }
    if is_empty(&object["spec"]["selector"]) {
        object["spec"]["selector"] = labels.clone();
    }
    if is_empty(&object["metadata"]["labels"]) {
        object["metadata"]["labels"] = labels;
    }
}
