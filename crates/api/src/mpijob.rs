//! `MPIJob` of `kubeflow.org/v2beta1`, field by field as in upstream's `types.go`, with additive status.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::TrainerStatus;

/// The key of the Launcher in `spec.mpiReplicaSpecs`.
pub const LAUNCHER: &str = "Launcher";
/// The key of the Workers in `spec.mpiReplicaSpecs`.
pub const WORKER: &str = "Worker";

/// What an MPI job is to run: one Launcher, any number of Workers.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "kubeflow.org",
    version = "v2beta1",
    kind = "MPIJob",
    plural = "mpijobs",
    singular = "mpijob",
    namespaced,
    status = "MPIJobStatus",
    derive = "PartialEq",
    shortname = "mj",
    doc = "A job of MPI processes: one Launcher that runs mpirun, and Workers that run the ranks.",
    printcolumn = r#"{"name":"State","type":"string","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"Reason","type":"string","jsonPath":".status.phaseReason","priority":1}"#,
    printcolumn = r#"{"name":"Workers","type":"string","jsonPath":".status.workers.ready"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct MPIJobSpec {
    /// How many ranks a Worker runs, which is the number of slots in its hostfile line; 1 if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots_per_worker: Option<i32>,
    /// Whether the Launcher runs ranks too; its host then stands first in the hostfile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_launcher_as_worker: Option<bool>,
    /// How the job's life is bounded: clean-up, deadlines, retries, suspension, queueing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_policy: Option<RunPolicy>,
    /// The Launcher and the Workers, under the keys `Launcher` and `Worker`.
    pub mpi_replica_specs: BTreeMap<String, Box<ReplicaSpec>>,
    /// Where the job's SSH key is mounted; `/root/.ssh` if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh_auth_mount_path: Option<String>,
    /// When the Launcher is created: `AtStartup` or `WaitForWorkersReady`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launcher_creation_policy: Option<String>,
    /// Which MPI the images hold: `OpenMPI`, `Intel` or `MPICH`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mpi_implementation: Option<String>,
}

/// One kind of pod of the job: how many, from which template, restarted when.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaSpec {
    /// How many pods: 1 for the Launcher, at least 1 for Workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// The pod to make; its first container is the MPI container.
    #[serde(default)]
    pub template: PodTemplateSpec,
    /// `Never` or `OnFailure`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart_policy: Option<String>,
}

/// How the job's life is bounded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunPolicy {
    /// Which pods to delete once the job has ended: `None`, `Running` or `All`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clean_pod_policy: Option<String>,
    /// Seconds after its end at which the job may be removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_after_finished: Option<i32>,
    /// Seconds that the Launcher may be active before the job fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_deadline_seconds: Option<i64>,
    /// How often a failed Launcher is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff_limit: Option<i32>,
    /// How the job is scheduled as a gang.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling_policy: Option<SchedulingPolicy>,
    /// Whether the job's pods are held back; a queue such as Kueue sets and clears it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
    /// Who reconciles the job: `kubeflow.org/mpi-operator` or `kueue.x-k8s.io/multikueue`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managed_by: Option<String>,
}

/// How the job is scheduled as a gang.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SchedulingPolicy {
    /// How many pods must be placeable before any is; Workers + 1 if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_available: Option<i32>,
    /// The queue of the gang scheduler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The resources that must be free before the gang starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_resources: Option<BTreeMap<String, Quantity>>,
    /// The gang's priority class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class: Option<String>,
    /// Seconds after which a gang that cannot be placed is given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule_timeout_seconds: Option<i32>,
}

/// What has become of the job. Fields after `lastReconcileTime` are ours and additive.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MPIJobStatus {
    /// The job's conditions, one for each type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<JobCondition>,
    /// Pod counts under the keys `Launcher` and `Worker`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub replica_statuses: BTreeMap<String, ReplicaStatus>,
    /// When the job was first (or, after a resume, last) allowed to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When the job ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// Never set, as upstream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_reconcile_time: Option<Time>,
    /// The `metadata.generation` that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Pending`, `Running`, `Succeeded` or `Failed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// `Queued`, `Suspended`, `Initializing`, `Restarting`, `Retrying`, or the cause of a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase_reason: Option<String>,
    /// How many Workers are in which state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<WorkerCounts>,
    /// What keeps a job that is starting from going on, where something does; nothing else that it waits for is in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
    /// Why the job failed, who failed first, and what to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// When the phases of the last start were over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub startup: Option<Startup>,
    /// The attempts at the job, the last one last; at most ten.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<Attempt>,
    /// What the training program itself has reported; another writer owns it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trainer_status: Option<TrainerStatus>,
}

/// Where a job stands, in the words that every interface uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum Phase {
    /// Not all pods run yet; `phaseReason` says what it waits for.
    Pending,
    /// The Launcher and all Workers run.
    Running,
    /// The Launcher ended with exit code 0.
    Succeeded,
    /// The job ended otherwise; `status.failure` says why.
    Failed,
}

/// One condition of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobCondition {
    /// `Created`, `Running`, `Restarting`, `Suspended`, `Succeeded`, `Failed`, or one of ours.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// One CamelCase word for the last transition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The same for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When this condition was last written with new content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
    /// When `status` last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
}

/// How many pods of one kind are in which state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaStatus {
    /// Pods in phase Running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<i32>,
    /// Pods in phase Succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub succeeded: Option<i32>,
    /// Pods in phase Failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<i32>,
    /// Never set, as upstream; deprecated there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<LabelSelector>,
    /// Never set, as upstream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
}

/// How many Workers are in which state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkerCounts {
    /// Workers in phase Running and ready.
    pub running: i32,
    /// Workers not there yet, not scheduled, or not ready.
    pub pending: i32,
    /// Workers in phase Failed.
    pub failed: i32,
    /// How many Workers the spec asks for.
    pub of: i32,
    /// `running/of`, e.g. `3/4`: what `kubectl get` shows.
    #[serde(default)]
    pub ready: String,
}

/// Why a job failed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// The cause, one of those that the troubleshooting guide lists, e.g. `WorkerLost`.
    pub reason: String,
    /// What happened, in one sentence.
    pub message: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<String>,
    /// Where to read more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// The pod that failed first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// Its container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// The Worker's index, if it was a Worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<i32>,
    /// The container's exit code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Whether the job was ended before its Launcher was: then what still ran is released.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_early: Option<bool>,
    /// The lines of the Launcher's output, statuses and events that this rests on, the strongest first; at most six.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<String>,
}

/// What keeps a job that is starting from going on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    /// The cause, one of those that the troubleshooting guide lists, e.g. `Unschedulable`.
    pub reason: String,
    /// What is the matter, in one sentence.
    pub message: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<String>,
    /// Where to read more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// Since when this was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// How many GPUs the job lacks, if it waits for some and they could be counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<GpuCounts>,
}

/// Numbers of GPUs, counted when the job began to wait for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GpuCounts {
    /// Requested by all pods of the job together.
    pub requested: i64,
    /// Free on all nodes together.
    pub available: i64,
}

/// When the phases of a start were over, each for the last pod that it concerns; what is not known yet is left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Startup {
    /// The job was let go: until then a queue or a suspension held it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued: Option<Time>,
    /// Every Worker had a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduled: Option<Time>,
    /// The MPI container of every Worker had started, so its images were there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pulled: Option<Time>,
    /// Every Worker was ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<Time>,
    /// The Launcher's MPI container had started for the first time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launched: Option<Time>,
    /// The Launcher had printed its first line. Known of a Launcher that failed, whose log is read anyway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_rank: Option<Time>,
}

/// One attempt at the job: from when its pods were let go until it ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    /// Its number, from 1, as in the name of its record `<job>-attempt-<number>`.
    pub number: i32,
    /// What became of it.
    pub outcome: AttemptOutcome,
    /// The cause of a failure, one of those that the troubleshooting guide lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What happened, in one sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The exit code that made it fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// How often its Launcher failed, the retries of `backoffLimit` among them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launcher_failures: Option<i32>,
    /// When its pods were let go, for the last time if it was suspended meanwhile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
}

/// What became of an attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum AttemptOutcome {
    /// Nothing yet.
    #[default]
    Active,
    /// The Launcher ended with exit code 0.
    Succeeded,
    /// It ended otherwise.
    Failed,
}
