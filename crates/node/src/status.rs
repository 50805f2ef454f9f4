//! Computes a pod's status from the state of its containers. Pure: the caller passes the time.
//!
//! Phases and conditions follow kubelet (`pkg/kubelet/kubelet_pods.go` `getPhase`, `pkg/kubelet/status/generate.go`).

use std::net::Ipv4Addr;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
    ContainerStatus, HostIP, Pod, PodCondition, PodIP, PodSpec, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::environment::nanos;

/// The condition of pods whose resource limits are not enforced.
pub const LIMITS_NOT_ENFORCED: &str = "LimitsNotEnforced";

/// The state of a container.
#[derive(Debug, Clone, PartialEq)]
pub enum State {
    /// Not running: reason and message.
    Waiting(&'static str, Option<String>),
    /// Running since the given time.
    Running(Timestamp),
    /// Ended.
    Terminated(Box<ContainerStateTerminated>),
}

/// The record of one container.
#[derive(Debug, Clone, PartialEq)]
pub struct ContainerRecord {
    /// Its name.
    pub name: String,
    /// The image in its spec.
    pub image: String,
    /// The local meaning of that image name.
    pub image_id: String,
    /// Its current state.
    pub state: State,
    /// How the previous run ended.
    pub last: Option<ContainerStateTerminated>,
    /// The number of restarts.
    pub restarts: i32,
    /// Whether it runs and its readiness probe, if any, has succeeded.
    pub ready: bool,
    /// Whether it runs and its startup probe and postStart hook, if any, have passed.
    pub started: bool,
    /// The id of the current or last run.
    pub id: Option<String>,
    /// Whether it is an init container that keeps running.
    pub sidecar: bool,
}

impl ContainerRecord {
    /// Creates the record of a container that has not started.
    pub fn new(container: &Container, image_id: String, waiting: &'static str) -> ContainerRecord {
        ContainerRecord {
            name: container.name.clone(),
            image: container.image.clone().unwrap_or_default(),
            image_id,
            state: State::Waiting(waiting, None),
            last: None,
            restarts: 0,
            ready: false,
            started: false,
            id: None,
            sidecar: container.restart_policy.as_deref() == Some("Always"),
        }
    }

    fn exit_code(&self) -> Option<i32> {
        match (&self.state, &self.last) {
            (State::Terminated(ended), _) => Some(ended.exit_code),
            (State::Waiting(..), Some(last)) => Some(last.exit_code),
            _ => None,
        }
    }

    fn status(&self) -> ContainerStatus {
        let mut state = ContainerState::default();
        match &self.state {
            State::Waiting(reason, message) => {
                state.waiting = Some(ContainerStateWaiting {
                    reason: Some((*reason).to_owned()),
                    message: message.clone(),
                });
            }
            State::Running(since) => {
                state.running = Some(ContainerStateRunning { started_at: Some(Time(*since)) });
            }
            State::Terminated(ended) => state.terminated = Some((**ended).clone()),
        }
        let last = ContainerState { terminated: self.last.clone(), ..ContainerState::default() };
        ContainerStatus {
            name: self.name.clone(),
            image: self.image.clone(),
            image_id: if self.id.is_some() { self.image_id.clone() } else { String::new() },
            state: Some(state),
            last_state: Some(last),
            restart_count: self.restarts,
            ready: self.ready,
            started: Some(self.started),
            container_id: self.id.clone(),
            ..ContainerStatus::default()
        }
    }
}

/// The record of a pod.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PodRecord {
    /// Init containers, in order.
    pub init: Vec<ContainerRecord>,
    /// Regular containers.
    pub main: Vec<ContainerRecord>,
    /// Its address, once its sandbox exists.
    pub address: Option<Ipv4Addr>,
    /// The node's address.
    pub host_ip: String,
    /// When the node accepted it.
    pub start_time: Option<Timestamp>,
    /// Whether its sandbox exists.
    pub sandbox: bool,
    /// Whether it is over: nothing will be started again.
    pub over: bool,
    /// Why the pod as a whole failed (reason, message), whatever its containers did.
    pub verdict: Option<(String, String)>,
    /// Why limits are not enforced.
    pub limits_missing: Option<String>,
    /// The conditions last reported. Transition times change only with the condition's status.
    pub conditions: Vec<PodCondition>,
}

/// Computes the status to report.
pub fn compute(pod: &Pod, record: &PodRecord, now: Timestamp) -> PodStatus {
    let empty = PodSpec::default();
    let spec = pod.spec.as_ref().unwrap_or(&empty);
    let policy = spec.restart_policy.as_deref().unwrap_or("Always");
    let phase = if record.verdict.is_some() { "Failed" } else { phase(record, policy) };
    let ips = record.address.map(|address| address.to_string());
    PodStatus {
        phase: Some(phase.to_owned()),
        reason: record.verdict.as_ref().map(|(reason, _)| reason.clone()),
        message: record.verdict.as_ref().map(|(_, message)| message.clone()),
        conditions: Some(conditions(pod, record, phase, now)),
        container_statuses: Some(record.main.iter().map(ContainerRecord::status).collect()),
        init_container_statuses: (!record.init.is_empty())
            .then(|| record.init.iter().map(ContainerRecord::status).collect()),
        host_ip: Some(record.host_ip.clone()),
        host_ips: Some(vec![HostIP { ip: record.host_ip.clone() }]),
        pod_ips: ips.clone().map(|ip| vec![PodIP { ip }]),
        pod_ip: ips,
        start_time: record.start_time.map(Time),
        qos_class: Some(qos_class(spec).to_owned()),
        observed_generation: pod.metadata.generation,
        ..PodStatus::default()
    }
}

fn initialized(record: &ContainerRecord) -> bool {
    if record.sidecar { record.started } else { record.exit_code() == Some(0) }
}

fn phase(record: &PodRecord, policy: &str) -> &'static str {
    let failed_init = record.init.iter().any(|container| {
        !container.sidecar && matches!(&container.state, State::Terminated(ended) if ended.exit_code != 0)
    });
    if failed_init && policy == "Never" {
        return "Failed";
    }
    let begun = record.main.iter().any(|c| c.id.is_some() || c.exit_code().is_some());
    if !record.over && !begun && !record.init.iter().all(initialized) {
        return "Pending";
    }
    let running = record.main.iter().filter(|c| matches!(c.state, State::Running(_))).count();
    let waiting =
        record.main.iter().filter(|c| matches!(c.state, State::Waiting(..)) && c.last.is_none()).count();
    let succeeded = record.main.iter().filter(|c| c.exit_code() == Some(0)).count();
    let stopped = record.main.len() - running - waiting;
    if record.over {
        return if stopped == succeeded && waiting == 0 && running == 0 { "Succeeded" } else { "Failed" };
    }
    match (waiting, running) {
        (1.., _) => "Pending",
        (0, 1..) => "Running",
        (0, 0) if policy == "Always" => "Running",
        (0, 0) if stopped == succeeded => "Succeeded",
        (0, 0) if policy == "Never" => "Failed",
        (0, 0) => "Running",
    }
}

fn conditions(pod: &Pod, record: &PodRecord, phase: &str, now: Timestamp) -> Vec<PodCondition> {
    let names = |list: &[&ContainerRecord]| {
        let names: Vec<_> = list.iter().map(|container| container.name.as_str()).collect();
        format!("[{}]", names.join(" "))
    };
    let pending: Vec<_> = record.init.iter().filter(|container| !initialized(container)).collect();
    let unready: Vec<_> =
        record.main.iter().chain(record.init.iter().filter(|c| c.sidecar)).filter(|c| !c.ready).collect();
    let done = match phase {
        "Succeeded" => Some("PodCompleted"),
        "Failed" => Some("PodFailed"),
        _ => None,
    };
    let begun = record.main.iter().any(|container| container.id.is_some());
    let initialized = if phase == "Succeeded" {
        (true, Some("PodCompleted"), None)
    } else if begun || pending.is_empty() {
        (true, None, None)
    } else {
        let message = format!("containers with incomplete status: {}", names(&pending));
        (false, Some("ContainersNotInitialized"), Some(message))
    };
    let ready = match done {
        Some(reason) => (false, Some(reason), None),
        None if unready.is_empty() => (true, None, None),
        None => {
            let message = format!("containers with unready status: {}", names(&unready));
            (false, Some("ContainersNotReady"), Some(message))
        }
    };
    let mut wanted = vec![
        ("PodReadyToStartContainers", (record.sandbox && !record.over, None, None)),
        ("Initialized", initialized),
        ("Ready", ready.clone()),
        ("ContainersReady", ready),
    ];
    if let Some(why) = &record.limits_missing {
        wanted.push((LIMITS_NOT_ENFORCED, (true, Some("CgroupsNotPermitted"), Some(why.clone()))));
    }
    let own: Vec<&str> = wanted.iter().map(|(kind, _)| *kind).collect();
    let others = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut result: Vec<PodCondition> = wanted
        .iter()
        .map(|(kind, (status, reason, message))| {
            let condition = PodCondition {
                type_: (*kind).to_owned(),
                status: if *status { "True" } else { "False" }.to_owned(),
                reason: reason.map(str::to_owned),
                message: message.clone(),
                observed_generation: pod.metadata.generation,
                ..PodCondition::default()
            };
            since(condition, &record.conditions, now)
        })
        .collect();
    // Keep conditions of the scheduler and of controllers as they are.
    result.extend(others.filter(|condition| !own.contains(&condition.type_.as_str())).cloned());
    result
}

/// Keeps the transition time of a condition whose status has not changed.
fn since(mut condition: PodCondition, before: &[PodCondition], now: Timestamp) -> PodCondition {
    let old = before.iter().find(|old| old.type_ == condition.type_ && old.status == condition.status);
    condition.last_transition_time = old.and_then(|old| old.last_transition_time.clone()).or(Some(Time(now)));
    condition
}

/// `pkg/apis/core/v1/helper/qos`: Guaranteed if every container's limits equal its requests, for both resources.
fn qos_class(spec: &PodSpec) -> &'static str {
    let containers: Vec<&Container> =
        spec.containers.iter().chain(spec.init_containers.iter().flatten()).collect();
    let amount = |container: &Container, limits: bool, name: &str| {
        let resources = container.resources.as_ref()?;
        let table = if limits { resources.limits.as_ref() } else { resources.requests.as_ref() };
        table?.get(name).map(nanos).filter(|amount| *amount > 0)
    };
    let pairs = || {
        containers.iter().flat_map(|container| {
            ["cpu", "memory"].map(|name| (amount(container, false, name), amount(container, true, name)))
        })
    };
    if pairs().all(|(request, limit)| request.is_none() && limit.is_none()) {
        "BestEffort"
    } else if pairs().all(|(request, limit)| {
        limit.is_some() && request.unwrap_or(limit.unwrap_or(0)) == limit.unwrap_or(0)
    }) {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(policy: &str) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "p", "generation": 3},
            "spec": {"restartPolicy": policy, "containers": [{"name": "a"}, {"name": "b"}]},
            "status": {"conditions": [{"type": "PodScheduled", "status": "True"}]},
        }))
        .unwrap()
    }

    fn record(states: &[State]) -> PodRecord {
        let container = |(state, name): (&State, &str)| ContainerRecord {
            state: state.clone(),
            ready: matches!(state, State::Running(_)),
            id: Some("odh://x".into()),
            ..ContainerRecord::new(
                &Container { name: name.into(), ..Container::default() },
                String::new(),
                "ContainerCreating",
            )
        };
        PodRecord { main: states.iter().zip(["a", "b"]).map(container).collect(), ..PodRecord::default() }
    }

    fn ended(code: i32) -> State {
        State::Terminated(Box::new(ContainerStateTerminated { exit_code: code, ..Default::default() }))
    }

    #[test]
    fn phases_follow_kubelet() {
        let running = State::Running(Timestamp::UNIX_EPOCH);
        let waiting = State::Waiting("ContainerCreating", None);
        for (policy, states, over, wanted) in [
            ("Never", [waiting.clone(), running.clone()], false, "Pending"),
            ("Never", [running.clone(), running.clone()], false, "Running"),
            ("Never", [running.clone(), ended(1)], false, "Running"),
            ("Never", [ended(0), ended(0)], false, "Succeeded"),
            ("Never", [ended(0), ended(1)], false, "Failed"),
            ("OnFailure", [ended(0), ended(1)], false, "Running"),
            ("OnFailure", [ended(0), ended(0)], false, "Succeeded"),
            ("Always", [ended(0), ended(0)], false, "Running"),
            ("Always", [ended(0), ended(0)], true, "Succeeded"),
            ("Always", [ended(0), ended(137)], true, "Failed"),
        ] {
            let record = PodRecord { over, ..record(&states) };
            let status = compute(&pod(policy), &record, Timestamp::UNIX_EPOCH);
            assert_eq!(status.phase.as_deref(), Some(wanted), "{policy} {states:?}");
        }
    }

    #[test]
    fn a_failed_init_container_fails_a_pod_that_does_not_restart() {
        let mut record =
            record(&[State::Waiting("PodInitializing", None), State::Waiting("PodInitializing", None)]);
        record.main.iter_mut().for_each(|container| container.id = None);
        let mut init = record.main[0].clone();
        init.state = ended(2);
        record.init = vec![init];
        for (policy, wanted) in [("Never", "Failed"), ("OnFailure", "Pending")] {
            let status = compute(&pod(policy), &record, Timestamp::UNIX_EPOCH);
            assert_eq!(status.phase.as_deref(), Some(wanted));
            let condition =
                status.conditions.unwrap().into_iter().find(|c| c.type_ == "Initialized").unwrap();
            assert_eq!(condition.status, "False");
        }
    }

    #[test]
    fn unchanged_and_foreign_conditions_are_kept() {
        let running = State::Running(Timestamp::UNIX_EPOCH);
        let mut record = record(&[running.clone(), running]);
        let first = compute(&pod("Never"), &record, Timestamp::UNIX_EPOCH).conditions.unwrap();
        record.conditions = first.clone();
        record.main[1].ready = false;
        let later = Timestamp::from_second(60).unwrap();
        let second = compute(&pod("Never"), &record, later).conditions.unwrap();
        let find = |list: &[PodCondition], kind: &str| list.iter().find(|c| c.type_ == kind).unwrap().clone();
        assert_eq!(find(&first, "Ready").status, "True");
        assert_eq!(find(&second, "Ready").message.as_deref(), Some("containers with unready status: [b]"));
        assert_eq!(find(&second, "Ready").last_transition_time, Some(Time(later)));
        assert_eq!(find(&second, "Initialized").last_transition_time, Some(Time(Timestamp::UNIX_EPOCH)));
        assert_eq!(find(&second, "PodScheduled").status, "True");
    }

    #[test]
    fn qos_classes_follow_upstream() {
        for (resources, wanted) in [
            (json!({}), "BestEffort"),
            (json!({"requests": {"cpu": "1"}}), "Burstable"),
            (json!({"limits": {"cpu": "1", "memory": "1Gi"}}), "Guaranteed"),
            (json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}), "Burstable"),
        ] {
            let spec = json!({"containers": [{"name": "a", "resources": resources}]});
            assert_eq!(qos_class(&serde_json::from_value(spec).unwrap()), wanted);
        }
    }
}
