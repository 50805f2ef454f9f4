//! A scene: a short description of a job and the state of its children, converted into what the operator would have
//! observed. The children are those that the plan itself creates, so that a scene cannot diverge from the objects.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::MPIJob;
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::{Job, JobCondition, JobStatus};
use k8s_openapi::api::core::v1::{
    ConfigMap, ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
    ContainerStatus, Pod, PodCondition, PodStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use plan::{
    Change, Child, ChildKind, Launch, LauncherRun, ObservedState, PodGroup, ProgressEndpoint, SecretSeen,
    Settings, ValidJob, kept,
};
use serde::Deserialize;

/// The content of a golden input.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scene {
    pub now: Timestamp,
    #[serde(default)]
    pub cluster_domain: String,
    #[serde(default)]
    pub default_launch: Option<String>,
    /// Whether programs can report their progress.
    #[serde(default)]
    pub progress: bool,
    pub job: MPIJob,
    /// The job's annotations when they were last valid.
    #[serde(default)]
    pub annotations_before: Option<BTreeMap<String, String>>,
    /// Whether Service, ConfigMap, Secret and Launcher exist as they were first planned.
    #[serde(default)]
    pub started: bool,
    #[serde(default)]
    pub launcher: Option<LauncherScene>,
    #[serde(default)]
    pub workers: Vec<PodScene>,
    /// The flag `--gang-scheduling`.
    #[serde(default)]
    pub gang: String,
    /// The spec of the existing PodGroup.
    #[serde(default)]
    pub pod_group: Option<serde_json::Map<String, serde_json::Value>>,
    #[serde(default)]
    pub refused: Vec<Refused>,
    /// Names of pods that others hold, as observed before.
    #[serde(default)]
    pub strangers: Vec<String>,
    /// Names of pods of a deleted job of the same name, which may still end.
    #[serde(default)]
    pub left_behind: Vec<String>,
    /// The data of the attempt's record, which a crash kept out of the status.
    #[serde(default)]
    pub record: Option<BTreeMap<String, String>>,
    /// The attempt that the objects were made for; by default, the job's own.
    #[serde(default)]
    pub made_for_attempt: Option<u32>,
    /// Lost nodes, with the message of their Ready condition.
    #[serde(default)]
    pub lost_nodes: BTreeMap<String, String>,
    /// Nodes on which earlier attempts failed.
    #[serde(default)]
    pub failed_nodes: Vec<String>,
    /// When the Launcher's output was read, and when it had last printed.
    #[serde(default)]
    pub output_looked: Option<Timestamp>,
    #[serde(default)]
    pub output_last: Option<Timestamp>,
    /// The log lines of the Workers' launch agents, by index.
    #[serde(default)]
    pub agents: BTreeMap<usize, String>,
}

/// The Launcher's Job.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LauncherScene {
    #[serde(default)]
    pub absent: bool,
    #[serde(default)]
    pub unlabelled: bool,
    #[serde(default)]
    pub suspended: bool,
    #[serde(default)]
    pub started: Option<Timestamp>,
    #[serde(default)]
    pub completed: Option<Timestamp>,
    #[serde(default)]
    pub failed: Option<JobFailed>,
    /// The failed pods that the Job has counted; all of them if not given.
    #[serde(default)]
    pub counted: Option<i32>,
    #[serde(default)]
    pub pods: Vec<PodScene>,
    /// A pod that was observed to fail and is gone.
    #[serde(default)]
    pub gone: Option<PodScene>,
    /// The output of the failed run.
    #[serde(default)]
    pub log: Option<String>,
}

#[derive(Deserialize)]
pub struct JobFailed {
    pub reason: String,
    pub message: String,
}

/// One pod.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodScene {
    #[serde(default)]
    pub index: usize,
    pub phase: String,
    #[serde(default)]
    pub ready: bool,
    #[serde(default)]
    pub scheduled: Option<Timestamp>,
    #[serde(default)]
    pub started: Option<Timestamp>,
    #[serde(default)]
    pub exit_code: Option<i32>,
    #[serde(default)]
    pub exit_reason: Option<String>,
    #[serde(default)]
    pub exit_message: Option<String>,
    /// Whether the container was restarted after it ended.
    #[serde(default)]
    pub restarted: bool,
    /// How often, if not once.
    #[serde(default)]
    pub restarts: Option<i32>,
    /// The node's mode.
    #[serde(default)]
    pub mode: Option<String>,
    #[serde(default)]
    pub exited: Option<Timestamp>,
    #[serde(default)]
    pub waiting: Option<JobFailed>,
    #[serde(default)]
    pub pod_reason: Option<String>,
    #[serde(default)]
    pub pod_message: Option<String>,
    #[serde(default)]
    pub disruption: Option<String>,
    #[serde(default)]
    pub deleting: bool,
    #[serde(default)]
    pub node: Option<String>,
}

/// A change that the API server refused.
#[derive(Deserialize)]
pub struct Refused {
    pub kind: String,
    pub name: String,
    #[serde(default)]
    pub foreign: bool,
    #[serde(default)]
    pub invalid: bool,
    pub message: String,
}

pub fn settings(scene: &Scene) -> Settings {
    Settings {
        cluster_domain: scene.cluster_domain.clone(),
        default_launch: match scene.default_launch.as_deref() {
            Some("agent") => Launch::Agent,
            _ => Launch::Ssh,
        },
        launch_image: "launch:test".to_owned(),
        gang: plan::Gang::named(&scene.gang),
        progress: scene.progress.then(endpoint),
    }
}

/// An endpoint for the progress of jobs.
pub fn endpoint() -> ProgressEndpoint {
    ProgressEndpoint {
        url: "https://operator.test:10443".to_owned(),
        authorities: "the authority".to_owned(),
    }
}

/// The scene as the operator would have observed it.
pub fn seen(scene: &Scene, job: &ValidJob) -> ObservedState {
    let status = scene.job.status.clone().unwrap_or_default();
    let mut seen = ObservedState::default();
    let mut fresh = job.clone();
    fresh.suspended = false;
    fresh.faults.clear();
    fresh.attempt = scene.made_for_attempt.unwrap_or(job.attempt);
    fresh.launcher_creation = plan::LauncherCreation::AtStartup;
    let first = plan::plan(&fresh, &seen, &settings(scene), Timestamp::UNIX_EPOCH);
    for change in first.changes.into_iter().flatten() {
        let Change::Create(child) = change else { panic!("a first plan creates only: {change:?}") };
        match child {
            Child::Service(service) if scene.started => seen.service = Some(*service),
            Child::ConfigMap(config_map) if scene.started => seen.config_map = Some(*config_map),
            Child::PodGroup(group) if scene.started => {
                let spec = scene.pod_group.clone().unwrap_or_else(|| group.spec.clone());
                seen.pod_group = Some(PodGroup { spec, ..*group });
            }
            Child::NetworkPolicy(_) if scene.started => seen.network_policy = true,
            Child::Secret(_) if scene.started => seen.secret = SecretSeen::Present,
            Child::Job(launcher) if scene.started => {
                add_launcher(&mut seen, *launcher, scene.launcher.as_ref())
            }
            Child::Pod(pod) => {
                let name = pod.metadata.name.clone().unwrap();
                let of_scene =
                    scene.workers.iter().find(|worker| name == plan::worker_name(&job.name, worker.index));
                seen.workers.extend(of_scene.map(|worker| Arc::new(pod_of(&pod, worker))));
            }
            _ => {}
        }
    }
    seen.status = status;
    seen.lost_nodes = scene.lost_nodes.clone();
    let kind = |name: &str| if name.ends_with("-launcher") { ChildKind::Job } else { ChildKind::Pod };
    seen.strangers = scene.strangers.iter().map(|name| (kind(name), name.clone())).collect();
    seen.left_behind = scene.left_behind.iter().map(|name| left_behind(name)).collect();
    seen.failed_nodes = scene.failed_nodes.clone();
    seen.output =
        scene.output_looked.map(|looked| plan::OutputSeen { looked, last: scene.output_last, found: None });
    seen.success_log =
        scene.launcher.as_ref().filter(|it| it.completed.is_some()).and_then(|it| it.log.clone());
    seen.agents = scene.agents.clone();
    seen.recorded = scene
        .record
        .clone()
        .and_then(|data| plan::recorded(&ConfigMap { data: Some(data), ..ConfigMap::default() }));
    for worker in scene.workers.iter().filter(|worker| worker.index >= job.worker_count()) {
        let mut pod = Pod::default();
        pod.metadata.name = Some(plan::worker_name(&job.name, worker.index));
        seen.workers.push(Arc::new(pod_of(&pod, worker)));
    }
    seen
}

fn left_behind(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        deletion_timestamp: Some(Time("2026-01-01T00:00:59Z".parse().unwrap())),
        ..ObjectMeta::default()
    }
}

fn add_launcher(seen: &mut ObservedState, mut launcher: Job, scene: Option<&LauncherScene>) {
    let none = LauncherScene::default();
    let scene = scene.unwrap_or(&none);
    if scene.absent {
        return;
    }
    if scene.unlabelled {
        launcher.metadata.labels.as_mut().unwrap().retain(|key, _| key == "app");
    }
    let condition = |type_: &str, failed: Option<&JobFailed>| JobCondition {
        type_: type_.to_owned(),
        status: "True".to_owned(),
        reason: failed.map(|failed| failed.reason.clone()),
        message: failed.map(|failed| failed.message.clone()),
        ..JobCondition::default()
    };
    let complete = scene.completed.map(|_| condition("Complete", None));
    let failed = scene.failed.as_ref().map(|failed| condition("Failed", Some(failed)));
    launcher.spec.as_mut().unwrap().suspend = scene.suspended.then_some(true);
    let failures = scene.pods.iter().filter(|pod| pod.phase == "Failed").count();
    launcher.status = Some(JobStatus {
        start_time: scene.started.map(Time),
        completion_time: scene.completed.map(Time),
        conditions: Some(complete.into_iter().chain(failed).collect()),
        failed: Some(scene.counted.unwrap_or(i32::try_from(failures).unwrap())),
        ..JobStatus::default()
    });
    let template = launcher.spec.as_ref().unwrap().template.clone();
    let pod_number = |number: usize, scene: &PodScene| {
        let mut pod =
            Pod { metadata: template.metadata.clone().unwrap(), spec: template.spec.clone(), status: None };
        pod.metadata.name = Some(format!("{}-{number}", launcher.metadata.name.as_ref().unwrap()));
        pod_of(&pod, scene)
    };
    seen.launcher_pods.extend(scene.pods.iter().enumerate().map(|(number, scene)| pod_number(number, scene)));
    let failed = seen.failed_launcher_pod().cloned().or(scene.gone.as_ref().map(|gone| pod_number(9, gone)));
    seen.launcher_failed =
        failed.map(|pod| LauncherRun { pod, log: scene.log.clone(), ..LauncherRun::default() });
    seen.launcher = Some(launcher.into());
}

/// The pod as the operator's watches keep it.
pub fn pod_of(pod: &Pod, scene: &PodScene) -> kept::Pod {
    let mut pod = pod.clone();
    pod.metadata.uid = Some(format!("uid-of-{}", pod.metadata.name.as_ref().unwrap()));
    if let Some(mode) = &scene.mode {
        let annotations = pod.metadata.annotations.get_or_insert_default();
        annotations.insert(semantics::local_nodes::ANNOTATION_NODE_MODE.to_owned(), mode.clone());
    }
    if let Some(node) = &scene.node {
        pod.spec.get_or_insert_default().node_name = Some(node.clone());
    }
    pod.metadata.creation_timestamp = scene.started.map(Time);
    pod.metadata.deletion_timestamp = scene.deleting.then_some(Time(Timestamp::UNIX_EPOCH));
    let condition = |type_: &str, since: Timestamp, reason: Option<String>| PodCondition {
        type_: type_.to_owned(),
        status: "True".to_owned(),
        last_transition_time: Some(Time(since)),
        reason,
        ..PodCondition::default()
    };
    let mut conditions = Vec::new();
    conditions.extend(scene.scheduled.map(|since| condition("PodScheduled", since, None)));
    if scene.ready {
        conditions.push(condition("Ready", scene.started.unwrap_or(Timestamp::UNIX_EPOCH), None));
    }
    let disruption = scene.disruption.clone();
    conditions
        .extend(disruption.map(|reason| condition("DisruptionTarget", Timestamp::UNIX_EPOCH, Some(reason))));
    let containers = pod.spec.as_ref().map(|spec| spec.containers.clone()).unwrap_or_default();
    let statuses = containers.first().map(|main| ContainerStatus {
        name: main.name.clone(),
        state: Some(match scene {
            _ if scene.restarted => running_since(scene),
            // It ended, and waits to be started again.
            PodScene { waiting: Some(_), exit_code: Some(_), .. } => {
                ContainerState { terminated: None, ..container_state(scene) }
            }
            _ => container_state(scene),
        }),
        last_state: (scene.restarted || (scene.waiting.is_some() && scene.exit_code.is_some()))
            .then(|| ContainerState { waiting: None, ..container_state(scene) }),
        restart_count: scene.restarts.unwrap_or(i32::from(scene.restarted)),
        ..ContainerStatus::default()
    });
    pod.status = Some(PodStatus {
        phase: Some(scene.phase.clone()),
        reason: scene.pod_reason.clone(),
        message: scene.pod_message.clone(),
        conditions: Some(conditions),
        container_statuses: Some(statuses.into_iter().collect()),
        ..PodStatus::default()
    });
    pod.into()
}

fn running_since(scene: &PodScene) -> ContainerState {
    let running = ContainerStateRunning { started_at: scene.exited.map(Time) };
    ContainerState { running: Some(running), ..ContainerState::default() }
}

fn container_state(scene: &PodScene) -> ContainerState {
    ContainerState {
        running: (scene.phase == "Running" && scene.exit_code.is_none())
            .then(|| ContainerStateRunning { started_at: scene.started.map(Time) }),
        terminated: scene.exit_code.map(|exit_code| ContainerStateTerminated {
            exit_code,
            reason: scene.exit_reason.clone(),
            message: scene.exit_message.clone(),
            started_at: scene.started.map(Time),
            finished_at: scene.exited.map(Time),
            ..ContainerStateTerminated::default()
        }),
        waiting: scene.waiting.as_ref().map(|waiting| ContainerStateWaiting {
            reason: Some(waiting.reason.clone()),
            message: Some(waiting.message.clone()),
        }),
    }
}

/// A wait in seconds with fractions, for a golden file.
pub fn seconds(wait: Duration) -> f64 {
    wait.as_secs_f64()
}
