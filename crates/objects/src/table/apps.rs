//! Rows of Deployments, ReplicaSets and ReplicationControllers.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Heading;
use super::cells::{AGE, NAME, Row, age, containers, integer, name, selector, string, wide};

/// Returns the headings of a kind, and its row function.
pub(super) fn of(kind: &str) -> (Vec<Heading>, Row) {
    let own = if kind == "Deployment" {
        vec![string("Ready"), integer("Up-to-date"), integer("Available")]
    } else {
        vec![integer("Desired"), integer("Current"), integer("Ready")]
    };
    let shared = [AGE, wide("Containers"), wide("Images"), wide("Selector")];
    let headings = [vec![NAME], own, shared.to_vec()].concat();
    (headings, if kind == "Deployment" { deployment } else { replicas })
}

fn number(part: &Value, field: &str) -> i64 {
    part[field].as_i64().unwrap_or_default()
}

fn deployment(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let own = [
        json!(format!("{}/{}", number(status, "readyReplicas"), number(spec, "replicas"))),
        json!(number(status, "updatedReplicas")),
        json!(number(status, "availableReplicas")),
    ];
    row(object, own, now)
}

fn replicas(object: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let own = [
        json!(number(spec, "replicas")),
        json!(number(status, "replicas")),
        json!(number(status, "readyReplicas")),
    ];
    row(object, own, now)
}

fn row(object: &Value, own: [Value; 3], now: Timestamp) -> Vec<Value> {
    let spec = &object["spec"];
    let [names, images] = containers(&spec["template"]["spec"]);
    let selected = if object["kind"] == "ReplicationController" {
        selector(&json!({"matchLabels": spec["selector"]}))
    } else {
        selector(&spec["selector"])
    };
    [vec![name(object)], own.to_vec(), vec![age(object, now), names, images, selected]].concat()
}
