//! kubectl's summary of a pod: how many containers are ready, its state in one word, its restarts (`printPod` in
//! `pkg/printers/internalversion/printers.go`).

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use serde_json::Value;

use crate::pods::{PodState, has_ended, is_deleted, is_ready, phase};

/// The summary of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodSummary {
    /// The number of ready containers, including sidecars.
    pub ready: usize,
    /// The number of containers, including sidecars.
    pub containers: usize,
    /// kubectl's STATUS, e.g. `Running`, `Completed`, `Init:0/1`, `CrashLoopBackOff`.
    pub status: String,
    /// The restarts of its containers and sidecars; while it initializes, those of its init containers.
    pub restarts: i64,
    /// When a container last ended before a restart, as RFC 3339.
    pub last_restart: Option<String>,
}

/// What the summary is computed from, so that typed and raw pods have the same.
pub trait Summarized: PodState {
    /// Returns `status.reason`; empty if there is none.
    fn reason(&self) -> &str;
    /// Returns whether a scheduling gate holds the pod, by its condition `PodScheduled`.
    fn is_gated(&self) -> bool;
    /// Returns the number of containers in the spec.
    fn containers(&self) -> usize;
    /// Returns the init containers in the spec: the name of each, and whether it is a sidecar.
    fn init_containers(&self) -> Vec<(&str, bool)>;
    /// Returns the states of the init containers.
    fn init_states(&self) -> Vec<ContainerView<'_>>;
    /// Returns the states of the containers.
    fn states(&self) -> Vec<ContainerView<'_>>;
}

/// A container in a pod's status.
#[derive(Debug)]
pub struct ContainerView<'a> {
    name: &'a str,
    ready: bool,
    started: bool,
    restarts: i64,
    /// When its previous run ended.
    last_end: Option<String>,
    state: State<'a>,
}

#[derive(Debug)]
enum State<'a> {
    /// Not reported yet.
    None,
    /// Waiting for this reason, which may be empty.
    Waiting(&'a str),
    Running,
    Ended {
        reason: &'a str,
        signal: i64,
        code: i64,
    },
}

impl State<'_> {
    /// How a container ended, in one word.
    fn end(reason: &str, signal: i64, code: i64) -> String {
        match (reason, signal) {
            ("", 0) => format!("ExitCode:{code}"),
            ("", signal) => format!("Signal:{signal}"),
            (reason, _) => reason.to_owned(),
        }
    }
}

impl<'a> From<&'a ContainerStatus> for ContainerView<'a> {
    fn from(status: &'a ContainerStatus) -> Self {
        let state = status.state.as_ref();
        let last = status.last_state.as_ref().and_then(|last| last.terminated.as_ref());
        let state = if let Some(waiting) = state.and_then(|state| state.waiting.as_ref()) {
            State::Waiting(waiting.reason.as_deref().unwrap_or_default())
        } else if let Some(ended) = state.and_then(|state| state.terminated.as_ref()) {
            State::Ended {
                reason: ended.reason.as_deref().unwrap_or_default(),
                signal: ended.signal.unwrap_or_default().into(),
                code: ended.exit_code.into(),
            }
        } else if state.is_some_and(|state| state.running.is_some()) {
            State::Running
        } else {
            State::None
        };
        Self {
            name: &status.name,
            ready: status.ready,
            started: status.started == Some(true),
            restarts: status.restart_count.into(),
            last_end: last.and_then(|last| last.finished_at.as_ref()).map(|time| time.0.to_string()),
            state,
        }
    }
}

impl<'a> From<&'a Value> for ContainerView<'a> {
    fn from(status: &'a Value) -> Self {
        let state = &status["state"];
        let (waiting, ended) = (&state["waiting"], &state["terminated"]);
        let state = if waiting.is_object() {
            State::Waiting(text(&waiting["reason"]))
        } else if ended.is_object() {
            State::Ended {
                reason: text(&ended["reason"]),
                signal: ended["signal"].as_i64().unwrap_or_default(),
                code: ended["exitCode"].as_i64().unwrap_or_default(),
            }
        } else if state["running"].is_object() {
            State::Running
        } else {
            State::None
        };
        Self {
            name: text(&status["name"]),
            ready: status["ready"] == true,
            started: status["started"] == true,
            restarts: status["restartCount"].as_i64().unwrap_or_default(),
            last_end: status["lastState"]["terminated"]["finishedAt"].as_str().map(str::to_owned),
            state,
        }
    }
}

impl Summarized for Pod {
    fn reason(&self) -> &str {
        self.status.as_ref().and_then(|status| status.reason.as_deref()).unwrap_or_default()
    }

    fn is_gated(&self) -> bool {
        let conditions = self.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let gated = |reason: Option<&str>| reason == Some("SchedulingGated");
        conditions.into_iter().any(|it| it.type_ == "PodScheduled" && gated(it.reason.as_deref()))
    }

    fn containers(&self) -> usize {
        self.spec.as_ref().map_or(0, |spec| spec.containers.len())
    }

    fn init_containers(&self) -> Vec<(&str, bool)> {
        let containers = self.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
        containers.map(|it| (it.name.as_str(), it.restart_policy.as_deref() == Some("Always"))).collect()
    }

    fn init_states(&self) -> Vec<ContainerView<'_>> {
        let statuses = self.status.iter().flat_map(|status| status.init_container_statuses.iter().flatten());
        statuses.map(ContainerView::from).collect()
    }

    fn states(&self) -> Vec<ContainerView<'_>> {
        let statuses = self.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
        statuses.map(ContainerView::from).collect()
    }
}

impl Summarized for Value {
    fn reason(&self) -> &str {
        text(&self["status"]["reason"])
    }

    fn is_gated(&self) -> bool {
        let mut conditions = items(&self["status"]["conditions"]);
        conditions.any(|it| it["type"] == "PodScheduled" && it["reason"] == "SchedulingGated")
    }

    fn containers(&self) -> usize {
        items(&self["spec"]["containers"]).count()
    }

    fn init_containers(&self) -> Vec<(&str, bool)> {
        let containers = items(&self["spec"]["initContainers"]);
        containers.map(|it| (text(&it["name"]), it["restartPolicy"] == "Always")).collect()
    }

    fn init_states(&self) -> Vec<ContainerView<'_>> {
        items(&self["status"]["initContainerStatuses"]).map(ContainerView::from).collect()
    }

    fn states(&self) -> Vec<ContainerView<'_>> {
        items(&self["status"]["containerStatuses"]).map(ContainerView::from).collect()
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// Returns the summary of a pod.
pub fn summary(pod: &impl Summarized) -> PodSummary {
    let init = pod.init_containers();
    let mut summary = PodSummary {
        containers: pod.containers() + init.iter().filter(|(_, is_sidecar)| *is_sidecar).count(),
        status: if pod.reason().is_empty() { phase(pod) } else { pod.reason() }.to_owned(),
        ..PodSummary::default()
    };
    if pod.is_gated() {
        "SchedulingGated".clone_into(&mut summary.status);
    }
    let initializing = summary.initialize(pod, &init);
    if !initializing || pod.has_condition("Initialized") {
        summary.run(pod, &init);
    }
    if is_deleted(pod) && pod.reason() == "NodeLost" {
        "Unknown".clone_into(&mut summary.status);
    } else if is_deleted(pod) && !has_ended(pod) {
        "Terminating".clone_into(&mut summary.status);
    }
    summary
}

impl PodSummary {
    /// Adds the init containers. Returns whether the pod is still initializing.
    fn initialize(&mut self, pod: &impl Summarized, init: &[(&str, bool)]) -> bool {
        for (index, container) in pod.init_states().iter().enumerate() {
            self.count(container);
            self.status = match container.state {
                State::Ended { code: 0, .. } => continue,
                _ if is_sidecar(init, container.name) && container.started => {
                    self.ready += usize::from(container.ready);
                    continue;
                }
                State::Ended { reason, signal, code } => {
                    format!("Init:{}", State::end(reason, signal, code))
                }
                State::Waiting(reason) if !matches!(reason, "" | "PodInitializing") => {
                    format!("Init:{reason}")
                }
                _ => format!("Init:{index}/{}", init.len()),
            };
            return true;
        }
        false
    }

    /// Adds the containers of a pod that has initialized.
    fn run(&mut self, pod: &impl Summarized, init: &[(&str, bool)]) {
        (self.restarts, self.last_restart) = (0, None);
        pod.init_states().iter().filter(|it| is_sidecar(init, it.name)).for_each(|it| self.count(it));
        let (mut running, mut error) = (false, String::new());
        for container in pod.states().iter().rev() {
            self.count(container);
            match container.state {
                State::Waiting(reason) if !reason.is_empty() => reason.clone_into(&mut self.status),
                State::Ended { reason, signal, code } => {
                    self.status = State::end(reason, signal, code);
                    if code != 0 {
                        error.clone_from(&self.status);
                    }
                }
                State::Running if container.ready => {
                    running = true;
                    self.ready += 1;
                }
                _ => {}
            }
        }
        if self.status == "Completed" {
            if running && is_ready(pod) {
                "Running".clone_into(&mut self.status);
            } else if !error.is_empty() {
                self.status = error;
            } else if running {
                "NotReady".clone_into(&mut self.status);
            }
        }
    }

    fn count(&mut self, container: &ContainerView<'_>) {
        self.restarts += container.restarts;
        if self.last_restart < container.last_end {
            self.last_restart.clone_from(&container.last_end);
        }
    }
}

fn is_sidecar(init: &[(&str, bool)], name: &str) -> bool {
    init.iter().any(|(known, is_sidecar)| *known == name && *is_sidecar)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn typed_and_raw_pods_are_summarized_as_kubectl_does() {
        let waiting = |reason: &str| json!({"name": "a", "state": {"waiting": {"reason": reason}}});
        let ended = |code: i32, reason: &str| json!({"name": "a", "state": {"terminated": {"exitCode": code, "reason": reason}}});
        let running = json!({"name": "b", "ready": true, "restartCount": 2, "state": {"running": {}},
            "lastState": {"terminated": {"exitCode": 1, "finishedAt": "2026-01-01T00:00:00Z"}}});
        let spec = json!({"containers": [{"name": "a"}, {"name": "b"}]});
        let with_init = json!({"containers": [{"name": "a"}],
            "initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}]});
        let init = |code: i32| json!({"name": "i", "state": {"terminated": {"exitCode": code}}});
        let sidecar = json!({"name": "s", "started": true, "ready": true, "state": {"running": {}}});
        let plain = json!({});
        let deleted = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        let gated = json!([{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]);
        for (metadata, spec, status, expected) in [
            (&plain, &spec, json!({"phase": "Pending"}), "0/2 Pending 0"),
            (&plain, &spec, json!({"phase": "Pending", "conditions": gated}), "0/2 SchedulingGated 0"),
            (&plain, &spec, json!({"phase": "Failed", "reason": "Evicted"}), "0/2 Evicted 0"),
            (
                &plain,
                &spec,
                json!({"phase": "Running", "containerStatuses": [waiting("CrashLoopBackOff"), running]}),
                "1/2 CrashLoopBackOff 2",
            ),
            (
                &plain,
                &spec,
                json!({"phase": "Running", "containerStatuses": [ended(0, "Completed"), running]}),
                "1/2 NotReady 2",
            ),
            (
                &plain,
                &spec,
                json!({"phase": "Failed", "containerStatuses": [ended(0, "Completed"), ended(3, "")]}),
                "0/2 ExitCode:3 0",
            ),
            (
                &plain,
                &with_init,
                json!({"phase": "Pending", "initContainerStatuses": [init(1)]}),
                "0/2 Init:ExitCode:1 0",
            ),
            (
                &plain,
                &with_init,
                json!({"phase": "Pending", "initContainerStatuses": [init(0), sidecar], "containerStatuses": [waiting("PodInitializing")]}),
                "1/2 PodInitializing 0",
            ),
            (&deleted, &spec, json!({"phase": "Running"}), "0/2 Terminating 0"),
            (
                &deleted,
                &spec,
                json!({"phase": "Succeeded", "containerStatuses": [ended(0, "Completed")]}),
                "0/2 Completed 0",
            ),
            (&deleted, &spec, json!({"phase": "Running", "reason": "NodeLost"}), "0/2 Unknown 0"),
        ] {
            let pod = json!({"metadata": metadata, "spec": spec, "status": status});
            let typed: Pod = serde_json::from_value(pod.clone()).unwrap();
            let raw = summary(&pod);
            let shown = format!("{}/{} {} {}", raw.ready, raw.containers, raw.status, raw.restarts);
            assert_eq!(shown, expected, "{pod}");
            assert_eq!(summary(&typed), raw, "{pod}");
        }
    }
}
