//! Defaults of Jobs and CronJobs (`pkg/apis/batch/v1/defaults.go`).

use serde_json::{Map, Value, json};

use super::pods::pod_spec;
use super::{items, set, set_absent};

pub(super) fn job(object: &mut Value) {
    let spec = &mut object["spec"];
    if !spec.is_object() {
        *spec = Value::Object(Map::new());
    }
    if spec["completions"].is_null() && spec["parallelism"].is_null() {
        spec["completions"] = json!(1);
    }
    set(spec, "parallelism", json!(1));
    let unlimited = !spec["backoffLimitPerIndex"].is_null();
    set(spec, "backoffLimit", json!(if unlimited { i32::MAX } else { 6 }));
    set_absent(spec, "completionMode", json!("NonIndexed"));
    set(spec, "suspend", json!(false));
    set(spec, "manualSelector", json!(false));
    let failed = spec["podFailurePolicy"].is_object();
    set_absent(spec, "podReplacementPolicy", json!(if failed { "Failed" } else { "TerminatingOrFailed" }));
    pods_of_job(spec);
    let labels = spec["template"]["metadata"]["labels"].clone();
    let unlabelled = object["metadata"]["labels"].as_object().is_none_or(Map::is_empty);
    if unlabelled && labels.as_object().is_some_and(|l| !l.is_empty()) {
        object["metadata"]["labels"] = labels;
    }
}

/// Sets the defaults of a Job's pods, in a Job or a template of one.
fn pods_of_job(spec: &mut Value) {
    for rule in items(spec, "/podFailurePolicy/rules") {
        for pattern in items(rule, "/onPodConditions") {
            set(pattern, "status", json!("True"));
        }
    }
    let template = &mut spec["template"];
    if !template.is_object() {
        *template = Value::Object(Map::new());
    }
    if !template["spec"].is_object() {
        template["spec"] = Value::Object(Map::new());
    }
    pod_spec(&mut template["spec"]);
    if template["metadata"].is_null() {
        template["metadata"] = json!({});
    }
}

/// The Job's own fields are left to each Job that is created: upstream sets no defaults for those of a template.
pub(super) fn cron_job(object: &mut Value) {
    let spec = &mut object["spec"];
    if !spec.is_object() {
        *spec = Value::Object(Map::new());
    }
    set(spec, "concurrencyPolicy", json!("Allow"));
    set(spec, "suspend", json!(false));
    set(spec, "successfulJobsHistoryLimit", json!(3));
    set(spec, "failedJobsHistoryLimit", json!(1));
    let template = &mut spec["jobTemplate"];
    if !template.is_object() {
        *template = Value::Object(Map::new());
    }
    for part in ["metadata", "spec"] {
        if !template[part].is_object() {
            template[part] = Value::Object(Map::new());
        }
    }
    pods_of_job(&mut template["spec"]);
}
