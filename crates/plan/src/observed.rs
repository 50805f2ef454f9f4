//! The observed state of a job's children: the input of planning, which the operator gathers from its watches. It has
//! only objects that the job controls; an object of the same name that it does not control is noticed when a create is
//! refused.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::{
    ANNOTATION_LAUNCH, CONDITION_CREATED, CONDITION_SUCCEEDED, CONDITION_SUSPENDED, Failure, MPIJobStatus,
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, ContainerState, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use semantics::{has_ended, is_deleted, phase};

use crate::attempts::attempt_of;
use crate::change::ChildKind;
use crate::conditions::{condition, has_run, is_true};
use crate::kept::{Job, Pod};
use crate::objects::{PodGroup, runs_agent};
use crate::pauses::Pauses;
use crate::validate::{Fault, Launch, ValidJob};
use diagnosis::{Diagnosis, FailedRun, Gpus, failed_run};

/// The job's Secret. Only the names of its keys are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SecretSeen {
    /// It does not exist, or was never read; creating it is harmless where it exists.
    #[default]
    Absent,
    /// It exists, with both keys.
    Present,
    /// It exists, but lacks keys that pods mount.
    Incomplete,
}

/// A job's last written status and its children.
#[derive(Clone, Debug, Default)]
pub struct ObservedState {
    /// The job's current status.
    pub status: MPIJobStatus,
    /// The headless Service.
    pub service: Option<Service>,
    /// The ConfigMap with the hostfile.
    pub config_map: Option<ConfigMap>,
    /// The Secret with the key.
    pub secret: SecretSeen,
    /// The Launcher's Job.
    pub launcher: Option<Job>,
    /// The pods of the Launcher's Job.
    pub launcher_pods: Vec<Pod>,
    /// The Launcher's last failed run, whose pod may be gone.
    pub launcher_failed: Option<LauncherRun>,
    /// The Workers' pods, in any order, including those being deleted.
    pub workers: Vec<Arc<Pod>>,
    /// Workers' pods as they were when something outside of the job took them away; they may be gone by now.
    pub disrupted_workers: Vec<Pod>,
    /// The PodGroup, where jobs are scheduled as gangs.
    pub pod_group: Option<PodGroup>,
    /// The values of the priority classes that [`deciding_classes`](crate::deciding_classes) named.
    pub priorities: BTreeMap<String, i32>,
    /// Whether the NetworkPolicy is known to exist.
    pub network_policy: bool,
    /// Names that the job needs but that objects of others hold, as earlier refusals have shown.
    pub strangers: BTreeSet<(ChildKind, String)>,
    /// Objects of a deleted job of this name, which the garbage collector is removing. They hold names that the job needs,
    /// and its Service would select the pods among them.
    pub left_behind: Vec<ObjectMeta>,
    /// Pods of earlier Launchers that have not ended yet; nothing new is created before they have.
    pub former_launcher_pods: Vec<Pod>,
    /// Lost nodes of the job's pods, with the message of their Ready condition.
    pub lost_nodes: BTreeMap<String, String>,
    /// The GPUs that the job requests and those that are free, if its pods wait for some and they could be counted.
    pub gpus: Option<Gpus>,
    /// What the running Launcher's output showed when an earlier pass read it.
    pub output: Option<OutputSeen>,
    /// The running Launcher's output, if this pass read it.
    pub output_read: Option<OutputRead>,
    /// When the Launcher's output could last not be read, unless it has been read since.
    pub unreadable: Option<Timestamp>,
    /// The end of the output of a Launcher that succeeded.
    pub success_log: Option<String>,
    /// The log lines of the Workers' launch agents about that run, by Worker index, if they were read and are
    /// complete.
    pub agents: BTreeMap<usize, String>,
    /// Nodes on which earlier attempts failed, from their failure records.
    pub failed_nodes: Vec<String>,
    /// The recorded failure of this attempt, which the status may not have yet.
    pub recorded: Option<Recorded>,
    /// When the observer was paused.
    pub pauses: Pauses,
    /// The kubelet's words about what the job's pods mount and that does not exist.
    pub missing_reference: Option<String>,
    /// Why the API server refuses the Launcher's pod, if it does.
    pub launcher_refused: Option<String>,
}

/// How an attempt failed, from its record: reason and message of the condition Failed, and the rest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recorded {
    /// The condition's reason.
    pub condition_reason: String,
    /// The condition's message.
    pub condition_message: String,
    /// Who failed, why, and what to do.
    pub failure: Failure,
    /// When it failed.
    pub completion_time: Option<Timestamp>,
    /// The node on which it failed.
    pub node: Option<String>,
}

/// One reading of the Launcher's output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutputRead {
    /// When it was read.
    pub looked: Timestamp,
    /// When the Launcher printed its last line; `None` if it has printed none.
    pub last: Option<Timestamp>,
    /// The end of the output; `None` if nothing was printed since the reading before.
    pub log: Option<String>,
}

/// What a reading of the Launcher's output showed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutputSeen {
    /// When it was read.
    pub looked: Timestamp,
    /// When the Launcher printed its last line; `None` if it has printed none.
    pub last: Option<Timestamp>,
    /// Why the job hangs, judged by the end of the output, if it hangs.
    pub found: Option<Diagnosis>,
}

/// A container whose log is wanted.
#[derive(Clone, Debug, PartialEq)]
pub struct LogSource {
    /// Its pod.
    pub pod: Pod,
    /// Its name.
    pub container: String,
}

/// A run of the Launcher.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LauncherRun {
    /// Its pod, as last observed.
    pub pod: Pod,
    /// The end of its output, if it could be read.
    pub log: Option<String>,
    /// When it printed its first line, if the log shows that.
    pub first_output: Option<Timestamp>,
    /// The log lines of the launch agent of the Worker on which a rank was killed, if they were read.
    pub agent: Option<String>,
}

impl ObservedState {
    /// The pod of each Worker that the spec asks for, by index.
    pub(crate) fn by_index(&self, job: &ValidJob) -> Vec<Option<&Pod>> {
        let mut pods = vec![None; job.worker_count()];
        for pod in self.workers.iter().filter(|pod| attempt_of(&pod.metadata) == job.attempt) {
            let place = worker_index(&job.name, pod).and_then(|index| pods.get_mut(index));
            if let Some(place) = place.filter(|place| place.is_none()) {
                *place = Some(&**pod);
            }
        }
        pods
    }

    /// Whether a pod still ends that the job had before it was last resumed, or that was released before the job ran,
    /// because another object had the name of one of its pods. When it started and how it ends say nothing about the job
    /// as it runs now.
    pub(crate) fn was_left_over(&self, pod: &Pod) -> bool {
        let created = pod.metadata.creation_timestamp.as_ref();
        let resumed = self.status.start_time.as_ref();
        let is_older = matches!((created, resumed), (Some(created), Some(resumed)) if created.0 < resumed.0);
        let was_released = !has_run(&self.status) && !is_disrupted(pod);
        is_deleted(pod) && (is_true(&self.status, CONDITION_SUSPENDED) || is_older || was_released)
    }

    /// Whether pods of the run before the last suspension still end, or released ones. New pods get the same host names,
    /// so a new Launcher would reach the former Workers. While its Job is suspended, a Launcher's pods are former ones even if the Job
    /// controller has not deleted them yet. A pod on a lost node never reports its end, so it is not waited for.
    pub(crate) fn former_run_ends(&self) -> bool {
        let is_suspended =
            self.launcher.as_ref().and_then(|launcher| launcher.spec.as_ref()?.suspend) == Some(true);
        let mut workers = self.workers.iter().map(|pod| &**pod).filter(|pod| self.was_left_over(pod));
        let mut launchers = self
            .launcher_pods
            .iter()
            .filter(|pod| !has_ended(pod) && (is_suspended || self.was_left_over(pod)));
        let is_awaited = |pod: &Pod| self.lost_node(pod).is_none();
        workers.any(is_awaited) || launchers.any(is_awaited)
    }

    /// The pod of a Worker of this attempt that was taken away, as it was then.
    pub(crate) fn disrupted_worker(&self, job: &ValidJob, index: usize) -> Option<&Pod> {
        let of_attempt = |pod: &&Pod| attempt_of(&pod.metadata) == job.attempt;
        let mut pods = self.disrupted_workers.iter().filter(of_attempt);
        pods.find(|pod| worker_index(&job.name, pod) == Some(index))
    }

    /// The pod of the Launcher's last failed run: the newest one that still exists, else the one that was observed
    /// before its deletion.
    #[must_use]
    pub fn failed_launcher_pod(&self) -> Option<&Pod> {
        let created = |pod: &&Pod| pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let failed = |pod: &&Pod| is_failed(pod) || failed_run(pod).is_some();
        let there = self.launcher_pods.iter().filter(failed).max_by_key(created);
        there.or_else(|| self.launcher_failed.as_ref().map(|run| &run.pod))
    }

    /// The node of the job's pod of this name.
    pub(crate) fn node_of(&self, name: &str) -> Option<&str> {
        let mut pods = self.workers.iter().map(|pod| &**pod).chain(&self.launcher_pods);
        pods.find(|pod| pod.metadata.name.as_deref() == Some(name))?.spec.as_ref()?.node_name.as_deref()
    }

    /// The Launcher's newest pod.
    pub(crate) fn newest_launcher_pod(&self) -> Option<&Pod> {
        let created = |pod: &&Pod| pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
        self.launcher_pods.iter().max_by_key(created)
    }

    /// The MPI container of the Launcher's newest pod, unless the pod's node is lost: then nobody can return its log.
    #[must_use]
    pub fn launcher_log(&self) -> Option<LogSource> {
        let pod = self.newest_launcher_pod()?;
        let container = pod.spec.as_ref()?.containers.first()?.name.clone();
        if self.lost_node(pod).is_some() {
            return None;
        }
        Some(LogSource { pod: pod.clone(), container })
    }

    /// The pod's node and the message of its Ready condition, if the node is lost.
    #[must_use]
    pub fn lost_node<'a>(&'a self, pod: &'a Pod) -> Option<(&'a str, &'a str)> {
        let node = pod.spec.as_ref()?.node_name.as_deref()?;
        Some((node, self.lost_nodes.get(node)?))
    }

    /// Whether the Launcher's Job has failed.
    #[must_use]
    pub fn has_launcher_failed(&self) -> bool {
        matches!(self.launcher_end(), Some(LauncherEnd::Failed { .. }))
    }

    /// Whether the Launcher's Job has succeeded.
    #[must_use]
    pub fn has_launcher_succeeded(&self) -> bool {
        matches!(self.launcher_end(), Some(LauncherEnd::Succeeded))
    }

    /// Whether the Launcher's Job has ended, and how.
    pub(crate) fn launcher_end(&self) -> Option<LauncherEnd<'_>> {
        let conditions = self.launcher.as_ref()?.status.as_ref()?.conditions.as_ref()?;
        conditions.iter().filter(|condition| condition.status == "True").find_map(|condition| match condition
            .type_
            .as_str()
        {
            "Complete" => Some(LauncherEnd::Succeeded),
            "Failed" => Some(LauncherEnd::Failed {
                reason: condition.reason.as_deref().unwrap_or_default(),
                message: condition.message.as_deref().unwrap_or_default(),
            }),
            _ => None,
        })
    }
}

/// Returns the job to plan for, now that it is known how far it has come.
///
/// # Errors
/// The job's faults, if it has not begun.
pub fn accept(read: ValidJob, seen: &ObservedState) -> Result<ValidJob, Vec<Fault>> {
    if read.faults.is_empty() || has_begun(seen) { Ok(recall(read, seen)) } else { Err(read.faults) }
}

/// Whether the job has begun: the operator has acknowledged it or created something for it, or it has ended. From then
/// on, no mistake in its spec or annotations fails it.
fn has_begun(seen: &ObservedState) -> bool {
    let ObservedState { status, service, config_map, launcher, workers, pod_group, .. } = seen;
    condition(status, CONDITION_CREATED).is_some()
        || is_true(status, CONDITION_SUCCEEDED)
        || status.completion_time.is_some()
        || service.is_some()
        || config_map.is_some()
        || launcher.is_some()
        || pod_group.is_some()
        || !workers.is_empty()
}

/// Fills in what unreadable annotations leave open: the transport is that of the existing Workers, as new ones must
/// match them.
fn recall(mut job: ValidJob, seen: &ObservedState) -> ValidJob {
    let unreadable = job.faults.iter().any(|fault| fault.path.contains(ANNOTATION_LAUNCH));
    if unreadable && job.launch.is_none() && !seen.workers.is_empty() {
        let agent = seen.workers.iter().any(|pod| runs_agent(pod));
        job.launch = Some(if agent { Launch::Agent } else { Launch::Ssh });
    }
    job
}

/// How the Launcher's Job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LauncherEnd<'a> {
    /// Its pod ended with exit code 0.
    Succeeded,
    /// It gave up; has the Job condition's reason and message.
    Failed { reason: &'a str, message: &'a str },
}

/// The index in a Worker's name; its label may be one higher (with `runLauncherAsWorker`).
pub(crate) fn worker_index(job: &str, pod: &Pod) -> Option<usize> {
    let digits = pod.metadata.name.as_deref()?.strip_prefix(job)?.strip_prefix("-worker-")?;
    let is_plain = digits == "0" || digits.starts_with(|first: char| ('1'..='9').contains(&first));
    digits.parse().ok().filter(|_| is_plain)
}

/// Whether an eviction, a preemption or the loss of its node takes a pod away (KEP-3329).
#[must_use]
pub fn is_disrupted(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions
        .into_iter()
        .any(|condition| condition.type_ == "DisruptionTarget" && condition.status == "True")
}

pub(crate) fn is_running(pod: &Pod) -> bool {
    phase(pod) == "Running"
}

pub(crate) fn is_failed(pod: &Pod) -> bool {
    phase(pod) == "Failed"
}

/// The state of the pod's MPI container, the first one in the spec.
pub(crate) fn mpi_container(pod: &Pod) -> Option<(&str, &ContainerState)> {
    let name = &pod.spec.as_ref()?.containers.first()?.name;
    let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
    let status = statuses.iter().find(|status| status.name == *name)?;
    Some((name, status.state.as_ref()?))
}

/// The state of a container of the pod, init containers included.
pub(crate) fn container_state<'p>(pod: &'p Pod, name: &str) -> Option<&'p ContainerState> {
    let status = pod.status.as_ref()?;
    let statuses = [&status.container_statuses, &status.init_container_statuses];
    let mut statuses = statuses.into_iter().flatten().flatten();
    statuses.find(|status| status.name == name)?.state.as_ref()
}

/// When the kubelet starts a container in this state again, according to its back-off message.
pub(crate) fn next_start(state: &ContainerState, failed: &FailedRun) -> Option<Timestamp> {
    let waiting = state.waiting.as_ref()?;
    let wait = back_off(waiting.message.as_deref()?)?;
    failed.ended.finished_at.as_ref()?.0.checked_add(wait).ok()
}

/// The time in the kubelet's `back-off 1m20s restarting failed container=…`.
fn back_off(message: &str) -> Option<Duration> {
    let text = message.strip_prefix("back-off ")?.split(' ').next()?;
    let mut seconds = 0;
    let mut number = 0;
    for letter in text.chars() {
        match (letter.to_digit(10), letter) {
            (Some(digit), _) => number = number * 10 + u64::from(digit),
            (None, 'm') => (seconds, number) = (seconds + number * 60, 0),
            (None, 's') => (seconds, number) = (seconds + number, 0),
            (None, _) => return None,
        }
    }
    Some(Duration::from_secs(seconds))
}

/// Whether the MPI container runs.
pub(crate) fn runs(pod: &Pod) -> bool {
    mpi_container(pod).is_some_and(|(_, state)| state.running.is_some())
}

/// When the pod's MPI container started.
pub(crate) fn started_at(pod: &Pod) -> Option<Timestamp> {
    let (_, state) = mpi_container(pod)?;
    let running = state.running.as_ref().and_then(|running| running.started_at.as_ref());
    let ended = state.terminated.as_ref().and_then(|ended| ended.started_at.as_ref());
    start(running.or(ended))
}

/// A container's start as its runtime reports it. One that could not be started is reported as ended, with the zero of the
/// runtime's clock, 1970, for its start: that is no time.
pub(crate) fn start(reported: Option<&Time>) -> Option<Timestamp> {
    reported.map(|time| time.0).filter(|time| *time > Timestamp::UNIX_EPOCH)
}
