//! What exists of a TrainJob: the input of planning. It has only objects that the job controls, and pods of its Jobs,
//! former ones included.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::{
    LABEL_COMPLETION_INDEX, LABEL_JOB_INDEX, LABEL_REPLICATED_JOB, LABEL_RESTART_ATTEMPT, TrainJobStatus,
};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::JobCondition;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use semantics::{has_ended, is_deleted};

use super::job_set::{LAUNCHER, NODE, Replicated};
use super::objects::job_name;
use super::valid::ValidTrainJob;
use crate::kept::{Job, Pod};
use crate::observed::{
    LauncherRun, LogSource, OutputRead, OutputSeen, is_failed, is_running, runs, started_at,
};
use crate::pauses::Pauses;
use crate::stall::Listening;
use diagnosis::failed_run;

/// A TrainJob's status and what it owns.
#[derive(Clone, Debug, Default)]
pub struct SeenTrainJob {
    /// The job's current status.
    pub status: TrainJobStatus,
    /// Whether the snapshot of the runtime exists.
    pub snapshot: bool,
    /// The headless Service.
    pub service: Option<Service>,
    /// The ConfigMap with the hostfile.
    pub hostfile: Option<ConfigMap>,
    /// The ConfigMap with the authorities of the endpoint for progress.
    pub authority: Option<ConfigMap>,
    /// Its Jobs, including those that are being deleted.
    pub jobs: Vec<Arc<Job>>,
    /// The pods of its Jobs, including those of Jobs that are gone.
    pub pods: Vec<Arc<Pod>>,
    /// The Launcher's last failed run, if its output was read.
    pub launcher_failed: Option<LauncherRun>,
    /// What the running Launcher's output showed when an earlier pass read it.
    pub output: Option<OutputSeen>,
    /// The running Launcher's output, if this pass read it.
    pub output_read: Option<OutputRead>,
    /// When the Launcher's output could last not be read, unless it has been read since.
    pub unreadable: Option<Timestamp>,
    /// Lost nodes of its pods, with the message of their Ready condition.
    pub lost_nodes: BTreeMap<String, String>,
    /// When the observer was paused.
    pub pauses: Pauses,
}

/// How a Job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JobEnd {
    Succeeded,
    Failed,
}

impl SeenTrainJob {
    /// The Job of this name and attempt, unless it is being deleted.
    pub(super) fn job(&self, job: &ValidTrainJob, part: &Replicated, index: usize) -> Option<&Job> {
        let name = job_name(&job.name, &part.name, index);
        let mut jobs = self.jobs.iter().filter(|it| it.metadata.deletion_timestamp.is_none());
        let found = jobs.find(|it| it.metadata.name.as_deref() == Some(name.as_str()))?;
        (attempt(&found.metadata) == job.attempt).then_some(&**found)
    }

    /// The pods of a replicated job that belong to Jobs that exist.
    pub(super) fn pods_of<'a>(&'a self, part: &'a str) -> impl Iterator<Item = &'a Pod> {
        let of_part = move |pod: &&Pod| label(&pod.metadata, LABEL_REPLICATED_JOB) == Some(part);
        self.pods.iter().map(|pod| &**pod).filter(of_part).filter(|pod| self.has_owner(pod))
    }

    /// Whether the Job of a pod exists and is not being deleted.
    pub(super) fn has_owner(&self, pod: &Pod) -> bool {
        let owners = pod.metadata.owner_references.iter().flatten();
        let uids: Vec<&str> = owners.filter(|it| it.kind == "Job").map(|it| it.uid.as_str()).collect();
        let mut jobs = self.jobs.iter().filter(|job| job.metadata.deletion_timestamp.is_none());
        jobs.any(|job| job.metadata.uid.as_deref().is_some_and(|uid| uids.contains(&uid)))
    }

    /// Pods that have not ended and whose Job is gone, or going.
    pub(super) fn orphans(&self) -> impl Iterator<Item = &Pod> {
        self.pods.iter().map(|pod| &**pod).filter(|pod| !has_ended(pod) && !self.has_owner(pod))
    }

    /// The pod's node and the message of its Ready condition, if the node is lost.
    #[must_use]
    pub fn lost_node<'a>(&'a self, pod: &'a Pod) -> Option<(&'a str, &'a str)> {
        let node = pod.spec.as_ref()?.node_name.as_deref()?;
        Some((node, self.lost_nodes.get(node)?))
    }

    /// The Launcher's pod whose last run failed: the newest one that exists, else the one whose output was read.
    #[must_use]
    pub fn failed_launcher_pod(&self) -> Option<&Pod> {
        let created = |pod: &&Pod| pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let failed = |pod: &&Pod| is_failed(pod) || failed_run(pod).is_some();
        let there = self.pods_of(LAUNCHER).filter(failed).max_by_key(created);
        there.or_else(|| self.launcher_failed.as_ref().map(|run| &run.pod))
    }

    /// The MPI container of the Launcher's newest pod, unless the pod's node is lost.
    #[must_use]
    pub fn launcher_log(&self) -> Option<LogSource> {
        let pod = self.newest_launcher_pod().filter(|pod| self.lost_node(pod).is_none())?;
        let containers = &pod.spec.as_ref()?.containers;
        let main = containers.iter().find(|container| container.name == NODE)?;
        Some(LogSource { pod: pod.clone(), container: main.name.clone() })
    }

    /// The Launcher's newest pod.
    pub(super) fn newest_launcher_pod(&self) -> Option<&Pod> {
        let created = |pod: &&Pod| pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
        self.pods_of(LAUNCHER).max_by_key(created)
    }

    /// The job as the check for a stall sees it. It runs while its Launcher and all its nodes do.
    #[must_use]
    pub fn listening(&self, job: &ValidTrainJob) -> Listening<'_> {
        let launcher = self.newest_launcher_pod();
        Listening {
            timeout: job.stall_timeout,
            since: launcher.and_then(|launcher| self.running_since(job, launcher)),
            has_ended: launcher.is_some_and(has_ended),
            output: self.output.as_ref(),
            read: self.output_read.as_ref(),
            unreadable: self.unreadable,
            pauses: &self.pauses,
        }
    }

    fn running_since(&self, job: &ValidTrainJob, launcher: &Pod) -> Option<Timestamp> {
        let is_up = |pod: &Pod| is_running(pod) && !is_deleted(pod);
        let nodes: Vec<&Pod> = self.pods_of(NODE).filter(|pod| is_up(pod)).collect();
        let wanted = job.nodes().map_or(0, |part| part.replicas.saturating_mul(part.pods));
        if job.suspended || self.finished().is_some() || nodes.len() < wanted || !is_up(launcher) {
            return None;
        }
        // A Launcher that is started again in place has not printed anything yet.
        let since = started_at(launcher).filter(|_| runs(launcher))?;
        Some(nodes.into_iter().filter_map(started_at).fold(since, Timestamp::max))
    }

    /// The condition of this type.
    #[must_use]
    pub fn condition(&self, type_: &str) -> Option<&Condition> {
        self.status.conditions.iter().find(|condition| condition.type_ == type_)
    }

    /// Whether the job has ended, and since when.
    #[must_use]
    pub fn finished(&self) -> Option<Timestamp> {
        let ended = [COMPLETE, FAILED].into_iter().filter_map(|type_| self.condition(type_));
        let mut ended = ended.filter(|condition| condition.status == "True");
        ended.next().map(|condition| condition.last_transition_time.0)
    }
}

/// Upstream's condition of a job that succeeded.
pub(super) const COMPLETE: &str = "Complete";
/// Upstream's condition of a job that failed.
pub(super) const FAILED: &str = "Failed";
/// Upstream's condition of a job that is suspended, or was.
pub(super) const SUSPENDED: &str = "Suspended";

/// The attempt that an object was made for.
pub(super) fn attempt(metadata: &ObjectMeta) -> u32 {
    let restarts = label(metadata, LABEL_RESTART_ATTEMPT).and_then(|number| number.parse::<u32>().ok());
    restarts.unwrap_or(0).saturating_add(1)
}

pub(super) fn label<'a>(metadata: &'a ObjectMeta, name: &str) -> Option<&'a str> {
    metadata.labels.as_ref()?.get(name).map(String::as_str)
}

fn ended_condition(job: &Job) -> Option<&JobCondition> {
    let conditions = job.status.as_ref()?.conditions.as_ref()?;
    let mut ended = conditions.iter().filter(|condition| condition.status == "True");
    ended.find(|condition| [COMPLETE, FAILED].contains(&condition.type_.as_str()))
}

/// Whether a Job has ended, and how.
pub(super) fn end_of(job: &Job) -> Option<JobEnd> {
    let condition = ended_condition(job)?;
    Some(if condition.type_ == COMPLETE { JobEnd::Succeeded } else { JobEnd::Failed })
}

/// Reason, message and time of a Job's end.
pub(super) fn end_words(job: &Job) -> (String, String, Option<Timestamp>) {
    let condition = ended_condition(job);
    let text = |of: fn(&JobCondition) -> Option<&String>| condition.and_then(of).cloned().unwrap_or_default();
    let since = condition.and_then(|condition| condition.last_transition_time.as_ref()).map(|time| time.0);
    (text(|it| it.reason.as_ref()), text(|it| it.message.as_ref()), since)
}

/// The number of a node among the nodes, from 0, as in the hostfile.
pub(super) fn node_index(part: &Replicated, pod: &Pod) -> Option<usize> {
    let job: usize = label(&pod.metadata, LABEL_JOB_INDEX)?.parse().ok()?;
    let annotations = pod.metadata.annotations.as_ref();
    let index = label(&pod.metadata, LABEL_COMPLETION_INDEX)
        .or_else(|| annotations?.get(LABEL_COMPLETION_INDEX).map(String::as_str));
    Some(job.saturating_mul(part.pods).saturating_add(index?.parse().ok()?))
}

/// The host name of a pod: the name of its Job and its index, without the suffix of the pod's own name.
pub(super) fn host_of(job: &ValidTrainJob, part: &Replicated, index: usize) -> String {
    let pods = part.pods.max(1);
    format!("{}-{}", job_name(&job.name, &part.name, index / pods), index % pods)
}

/// Pods that are there and not being deleted.
pub(super) fn is_there(pod: &&Pod) -> bool {
    !is_deleted(pod)
}
