//! The row of a pod: how many containers are ready, and its state in one word (`printPod`).

use jiff::Timestamp;
use semantics::is_ended_phase;
use serde_json::{Value, json};

use super::super::age::since;
use super::rows::{age, list, name, none, text};

/// The state gathered from the containers.
struct State {
    reason: String,
    ready: usize,
    restarts: i64,
    last_restart: Option<String>,
}

impl State {
    fn count(&mut self, status: &Value) {
        self.restarts += status["restartCount"].as_i64().unwrap_or_default();
        let finished = status["lastState"]["terminated"]["finishedAt"].as_str();
        if let Some(finished) = finished
            && self.last_restart.as_deref().is_none_or(|last| last < finished)
        {
            self.last_restart = Some(finished.to_owned());
        }
    }
}

/// Returns the cells of a pod.
pub(super) fn row(pod: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let phase = text(status, "phase");
    let mut state = State {
        reason: if text(status, "reason").is_empty() { phase } else { text(status, "reason") }.to_owned(),
        ready: 0,
        restarts: 0,
        last_restart: None,
    };
    if list(status, "conditions").any(|c| c["type"] == "PodScheduled" && c["reason"] == "SchedulingGated") {
        "SchedulingGated".clone_into(&mut state.reason);
    }
    let sidecars = |name: &Value| {
        list(spec, "initContainers").any(|c| c["name"] == *name && c["restartPolicy"] == "Always")
    };
    let total = list(spec, "containers").count()
        + list(spec, "initContainers").filter(|c| c["restartPolicy"] == "Always").count();
    let initializing = init_containers(pod, &mut state, sidecars);
    let initialized = list(status, "conditions").any(|c| c["type"] == "Initialized" && c["status"] == "True");
    if !initializing || initialized {
        main_containers(pod, &mut state, sidecars);
    }
    let deleted = !pod["metadata"]["deletionTimestamp"].is_null();
    if deleted && status["reason"] == "NodeLost" {
        "Unknown".clone_into(&mut state.reason);
    } else if deleted && !is_ended_phase(phase) {
        "Terminating".clone_into(&mut state.reason);
    }
    let restarts = match &state.last_restart {
        Some(last) if state.restarts != 0 => format!("{} ({} ago)", state.restarts, since(Some(last), now)),
        _ => state.restarts.to_string(),
    };
    vec![
        name(pod),
        json!(format!("{}/{total}", state.ready)),
        json!(state.reason),
        json!(restarts),
        age(pod, now),
        none(text(&status["podIPs"][0], "ip")),
        none(text(spec, "nodeName")),
        none(text(status, "nominatedNodeName")),
        readiness_gates(spec, status),
    ]
}

/// Returns whether the pod is still running its init containers.
fn init_containers(pod: &Value, state: &mut State, sidecar: impl Fn(&Value) -> bool) -> bool {
    let of = list(&pod["spec"], "initContainers").count();
    for (index, container) in list(&pod["status"], "initContainerStatuses").enumerate() {
        state.count(container);
        let (terminated, waiting) = (&container["state"]["terminated"], &container["state"]["waiting"]);
        if terminated.is_object() && terminated["exitCode"].as_i64().unwrap_or_default() == 0 {
            continue;
        }
        if sidecar(&container["name"]) && container["started"] == true {
            state.ready += usize::from(container["ready"] == true);
            continue;
        }
        state.reason = if terminated.is_object() {
            format!("Init:{}", ended(terminated))
        } else if !matches!(text(waiting, "reason"), "" | "PodInitializing") {
            format!("Init:{}", text(waiting, "reason"))
        } else {
            format!("Init:{index}/{of}")
        };
        return true;
    }
    false
}

fn ended(terminated: &Value) -> String {
    let signal = terminated["signal"].as_i64().unwrap_or_default();
    match (text(terminated, "reason"), signal) {
        ("", 0) => format!("ExitCode:{}", terminated["exitCode"].as_i64().unwrap_or_default()),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn main_containers(pod: &Value, state: &mut State, sidecar: impl Fn(&Value) -> bool) {
    let status = &pod["status"];
    (state.restarts, state.last_restart) = (0, None);
    list(status, "initContainerStatuses").filter(|c| sidecar(&c["name"])).for_each(|c| state.count(c));
    let (mut running, mut error) = (false, String::new());
    let containers: Vec<&Value> = list(status, "containerStatuses").collect();
    for container in containers.into_iter().rev() {
        state.count(container);
        let (waiting, terminated) = (&container["state"]["waiting"], &container["state"]["terminated"]);
        if !text(waiting, "reason").is_empty() {
            text(waiting, "reason").clone_into(&mut state.reason);
        } else if terminated.is_object() {
            state.reason = ended(terminated);
            if terminated["exitCode"].as_i64().unwrap_or_default() != 0 {
                error.clone_from(&state.reason);
            }
        } else if container["ready"] == true && container["state"]["running"].is_object() {
            running = true;
            state.ready += 1;
        }
    }
    if state.reason == "Completed" {
        let ready = list(status, "conditions").any(|c| c["type"] == "Ready" && c["status"] == "True");
        if running && ready {
            "Running".clone_into(&mut state.reason);
        } else if !error.is_empty() {
            state.reason = error;
        } else if running {
            "NotReady".clone_into(&mut state.reason);
        }
    }
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
