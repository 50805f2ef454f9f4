//! The row of a pod: how many containers are ready, and its state in one word (`printPod`).

use jiff::Timestamp;
use semantics::summary;
use serde_json::{Value, json};

use super::super::age::since;
use super::cells::{age, list, name, none, text};

/// Returns the cells of a pod.
pub(super) fn row(pod: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let summary = summary(pod);
    let restarts = match &summary.last_restart {
        Some(last) if summary.restarts != 0 => {
            format!("{} ({} ago)", summary.restarts, since(Some(last), now))
        }
        _ => summary.restarts.to_string(),
    };
    // A bookmark has a row, too: of a pod without a phase.
    let state = if status["phase"].is_null() { "" } else { &summary.status };
    vec![
        name(pod),
        json!(format!("{}/{}", summary.ready, summary.containers)),
        json!(state),
        json!(restarts),
        age(pod, now),
        none(text(&status["podIPs"][0], "ip")),
        none(text(spec, "nodeName")),
        none(text(status, "nominatedNodeName")),
        readiness_gates(spec, status),
    ]
}

fn readiness_gates(spec: &Value, status: &Value) -> Value {
    let gates = list(spec, "readinessGates").count();
    if gates == 0 {
        return json!("<none>");
    }
    let held = |gate: &&Value| {
        list(status, "conditions").any(|c| c["type"] == gate["conditionType"] && c["status"] == "True")
    };
    json!(format!("{}/{gates}", list(spec, "readinessGates").filter(held).count()))
}
