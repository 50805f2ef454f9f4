//! Facts from Kubernetes about a job's pods, and their conversion into lines that the rules can read.
//!
//! The caller fills these structs from statuses and events, or from a [`Pod`]; nothing is fetched here.

use std::net::IpAddr;

use semantics::kept::{ContainerStatus, Pod, PodStatus};

/// The maximum number of events per object.
const MAX_EVENTS: usize = 50;

/// The start of a message with the numbers of GPUs.
pub(crate) const GPU_COUNTS: &str = "Insufficient GPUs: ";

/// Facts beside the output; all of them are optional.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// The job's pods, the Launcher and the Workers.
    pub pods: Vec<PodFacts>,
    /// Events and conditions of the job and its other children: `(reason, message)`.
    pub events: Vec<(String, String)>,
    /// The GPUs that the whole job requests and those that its nodes offer.
    pub gpus: Option<Gpus>,
    /// The Workers' names in the order of the hostfile, and the slots of each.
    pub world: Option<World>,
    /// The MPI that the job declares, as `spec.mpiImplementation` names it.
    pub mpi: Option<&'static str>,
}

impl Facts {
    /// Whether a host is none of the job's pods, as far as their names and addresses are known.
    pub(crate) fn is_foreign(&self, host: &str) -> bool {
        let Some(world) = &self.world else { return false };
        let is_address = host.parse::<IpAddr>().is_ok();
        let addresses_known = !self.pods.is_empty() && self.pods.iter().all(|pod| pod.address.is_some());
        match is_address {
            true => addresses_known && self.pods.iter().all(|pod| pod.address.as_deref() != Some(host)),
            false => {
                let name = pod_name(host);
                !world.workers.contains(&name) && self.pods.iter().all(|pod| pod.name != name)
            }
        }
    }
}

/// A pod's name is the first label of its host name; an address stays as it is.
pub(crate) fn pod_name(host: &str) -> String {
    let host = host.trim_start_matches('[');
    let host = host.split_once(']').map_or(host, |(name, _)| name);
    if host.contains(|letter: char| letter.is_ascii_alphabetic()) && !host.contains(':') {
        host.split('.').next().unwrap_or(host).to_owned()
    } else {
        host.to_owned()
    }
}

/// The numbers of requested and available GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gpus {
    /// Requested by all pods of the job together.
    pub requested: u64,
    /// Free on all nodes together.
    pub available: u64,
}

impl Gpus {
    /// Returns whether fewer are available than requested.
    #[must_use]
    pub fn are_short(self) -> bool {
        self.requested > self.available
    }
}

/// Maps ranks to Workers: ranks fill the slots of one Worker after another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct World {
    /// The Workers' names, in the hostfile's order.
    pub workers: Vec<String>,
    /// The slots of each Worker.
    pub slots: u32,
}

/// The facts about one pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodFacts {
    /// Its name.
    pub name: String,
    /// Its IP address, if it has one.
    pub address: Option<String>,
    /// Whether it is a Worker, which must not end before the job does.
    pub worker: bool,
    /// Whether it is gone, or being deleted by something other than its job.
    pub deleted: bool,
    /// `status.reason` and `status.message`, if the pod failed.
    pub failure: Option<(String, String)>,
    /// Conditions that indicate trouble: type, reason, message.
    pub conditions: Vec<(String, String, String)>,
    /// Its containers, including init containers.
    pub containers: Vec<ContainerFacts>,
    /// Its node's name and the message of the node's Ready condition, if that is not True.
    pub lost_node: Option<(String, String)>,
    /// Its events: `(reason, message)`.
    pub events: Vec<(String, String)>,
}

/// The facts about one container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContainerFacts {
    /// Its name.
    pub name: String,
    /// Whether it is an init container.
    pub is_init: bool,
    /// What it waits for: reason and message.
    pub waiting: Option<(String, String)>,
    /// How it last ended.
    pub terminated: Option<Terminated>,
    /// `resources.limits.memory`, e.g. `16Gi`.
    pub memory_limit: Option<String>,
    /// The number of processes in its control group that the kernel's OOM killer has killed.
    pub oom_kills: u64,
}

/// How a container ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Terminated {
    /// Its exit code.
    pub exit_code: i32,
    /// `OOMKilled`, `Error`, `StartError`, ….
    pub reason: String,
    /// The kubelet's message.
    pub message: String,
}

impl PodFacts {
    /// Extracts the facts from a pod's status; the caller adds events and the node.
    #[must_use]
    pub fn of(pod: &Pod, worker: bool) -> Self {
        let status = pod.status.clone().unwrap_or_default();
        let failed = status.phase.as_deref() == Some("Failed");
        let reason = status.reason.clone().unwrap_or_default();
        Self {
            name: pod.metadata.name.clone().unwrap_or_default(),
            address: status.pod_ip.clone(),
            worker,
            deleted: false,
            failure: (failed && !reason.is_empty())
                .then(|| (reason, status.message.clone().unwrap_or_default())),
            conditions: troubles(&status),
            containers: containers(pod, &status),
            lost_node: None,
            events: Vec::new(),
        }
    }

    /// Leaves out that the kubelet waits before it starts a container again, which says nothing about the run that failed.
    pub fn ignore_back_off(&mut self) {
        self.containers.iter_mut().for_each(|container| {
            container.waiting.take_if(|(reason, _)| reason == "CrashLoopBackOff");
        });
    }
}

/// Conditions that indicate trouble: the pod is not scheduled, or about to be disrupted.
fn troubles(status: &PodStatus) -> Vec<(String, String, String)> {
    let told = |text: &Option<String>| text.clone().unwrap_or_default();
    let wrong = |kind: &str, value: &str| {
        matches!((kind, value), ("PodScheduled", "False") | ("DisruptionTarget", "True"))
    };
    let conditions = status.conditions.iter().flatten();
    conditions
        .filter(|condition| wrong(&condition.type_, &condition.status))
        .map(|condition| (condition.type_.clone(), told(&condition.reason), told(&condition.message)))
        .collect()
}

fn containers(pod: &Pod, status: &PodStatus) -> Vec<ContainerFacts> {
    let of = |statuses: &Option<Vec<ContainerStatus>>, is_init: bool| -> Vec<ContainerFacts> {
        let statuses = statuses.iter().flatten();
        statuses.map(|status| container(status, is_init, memory_limit(pod, &status.name))).collect()
    };
    let mut all = of(&status.init_container_statuses, true);
    all.extend(of(&status.container_statuses, false));
    all
}

fn container(status: &ContainerStatus, is_init: bool, memory_limit: Option<String>) -> ContainerFacts {
    let state = status.state.as_ref();
    let waiting = state.and_then(|state| state.waiting.as_ref());
    let ended = state
        .and_then(|state| state.terminated.as_ref())
        .or_else(|| status.last_state.as_ref().and_then(|state| state.terminated.as_ref()));
    ContainerFacts {
        name: status.name.clone(),
        is_init,
        waiting: waiting.map(|waiting| {
            (waiting.reason.clone().unwrap_or_default(), waiting.message.clone().unwrap_or_default())
        }),
        terminated: ended.map(|ended| Terminated {
            exit_code: ended.exit_code,
            reason: ended.reason.clone().unwrap_or_default(),
            message: ended.message.clone().unwrap_or_default(),
        }),
        memory_limit,
        oom_kills: 0,
    }
}

fn memory_limit(pod: &Pod, container: &str) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let all = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let found = all.into_iter().find(|candidate| candidate.name == container)?;
    Some(found.resources.as_ref()?.limits.as_ref()?.memory.as_ref()?.0.clone())
}

/// Converts the facts into lines, in the forms that the rules of [`super::rules`] read.
pub(crate) fn lines(facts: &Facts) -> Vec<String> {
    let mut lines: Vec<String> = facts.pods.iter().flat_map(pod_lines).collect();
    lines.extend(
        facts
            .events
            .iter()
            .take(MAX_EVENTS)
            .map(|(reason, message)| one_line(&format!("event {reason}: {message}"))),
    );
    let short_of_gpus =
        lines.iter().any(|line| line.contains("nodes are available") && semantics::names_gpu(line));
    if let Some(gpus) = facts.gpus.filter(|gpus| short_of_gpus && gpus.are_short()) {
        lines.push(format!("{GPU_COUNTS}requested {}, available {}", gpus.requested, gpus.available));
    }
    lines
}

fn pod_lines(pod: &PodFacts) -> Vec<String> {
    let name = &pod.name;
    let mut lines = Vec::new();
    if let Some((reason, message)) = &pod.failure {
        lines.push(format!("pod {name}: Failed: {reason}: {message}"));
    }
    lines.extend(
        pod.conditions
            .iter()
            .map(|(kind, reason, message)| format!("pod {name}: condition {kind} {reason}: {message}")),
    );
    if let Some((node, message)) = &pod.lost_node {
        lines.push(format!("node {node} of pod {name}: Ready=Unknown: {message}"));
    }
    if pod.deleted {
        lines.push(format!("pod {name}: deleted"));
    }
    lines.extend(pod.containers.iter().flat_map(|container| container_lines(pod, container)));
    lines.extend(
        pod.events
            .iter()
            .take(MAX_EVENTS)
            .map(|(reason, message)| format!("pod {name}: event {reason}: {message}")),
    );
    lines.iter().map(|line| one_line(line)).collect()
}

fn container_lines(pod: &PodFacts, container: &ContainerFacts) -> Vec<String> {
    let (pod_name, name) = (&pod.name, &container.name);
    let limit = container
        .memory_limit
        .as_deref()
        .map(|limit| format!(", memory limit ({})", quantity_text(limit)))
        .unwrap_or_default();
    let mut lines = Vec::new();
    if let Some((reason, message)) = &container.waiting {
        lines.push(format!("pod {pod_name}: container {name} waiting: {reason}: {message}"));
    }
    let failed = container.terminated.as_ref().filter(|ended| ended.exit_code != 0);
    if let Some(ended) = failed.filter(|ended| container.is_init && ended.reason != "OOMKilled") {
        lines.push(format!(
            "pod {pod_name}: init container {name} ended with exit code {}, terminated: {}",
            ended.exit_code, ended.reason
        ));
    }
    if container.oom_kills > 0 {
        lines.push(format!(
            "pod {pod_name}: container {name}: {} out-of-memory kills{limit}",
            container.oom_kills
        ));
    }
    if let Some(ended) = container.terminated.as_ref().filter(|ended| ended.exit_code != 0) {
        let tail = match ended.reason.as_str() {
            "OOMKilled" => limit,
            _ if ended.message.is_empty() => String::new(),
            _ => format!(": {}", ended.message),
        };
        lines.push(format!(
            "pod {pod_name}: container {name} terminated: {}, exit code {}{tail}",
            ended.reason, ended.exit_code
        ));
        if pod.worker && !container.is_init {
            lines.push(format!(
                "worker {pod_name}: container {name} ended with exit code {}, terminated: {}",
                ended.exit_code, ended.reason
            ));
        }
    }
    lines
}

/// Writes `16Gi` the way people do, `16 GB`; other text stays as it is.
fn quantity_text(quantity: &str) -> String {
    let digits = quantity.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match &quantity[digits.len()..] {
        "Ki" | "k" => "kB",
        "Mi" | "M" => "MB",
        "Gi" | "G" => "GB",
        "Ti" | "T" => "TB",
        _ => return quantity.to_owned(),
    };
    format!("{digits} {unit}")
}

fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}
