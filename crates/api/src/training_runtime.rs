//! `TrainingRuntime` and `ClusterTrainingRuntime` of `trainer.kubeflow.org/v1alpha1`, field by field as in upstream's
//! types (`kubeflow/trainer`, `pkg/apis/trainer/v1alpha1/trainingruntime_types.go`), and the `JobSet` template in them
//! (`kubernetes-sigs/jobset`, `api/jobset/v1alpha2/jobset_types.go`).

use k8s_openapi::api::batch::v1::JobTemplateSpec;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How TrainJobs of this runtime run.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "trainer.kubeflow.org",
    version = "v1alpha1",
    kind = "TrainingRuntime",
    plural = "trainingruntimes",
    singular = "trainingruntime",
    namespaced,
    derive = "PartialEq",
    doc = "A runtime for TrainJobs of the same namespace."
)]
#[serde(rename_all = "camelCase")]
pub struct TrainingRuntimeSpec {
    /// The framework and its parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ml_policy: Option<MlPolicy>,
    /// How the job's pods are scheduled as a gang.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_group_policy: Option<PodGroupPolicy>,
    /// The template of the JobSet.
    #[serde(default)]
    pub template: JobSetTemplate,
}

/// How TrainJobs of any namespace run that refer to this runtime.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "trainer.kubeflow.org",
    version = "v1alpha1",
    kind = "ClusterTrainingRuntime",
    plural = "clustertrainingruntimes",
    singular = "clustertrainingruntime",
    derive = "PartialEq",
    doc = "A runtime for TrainJobs of every namespace."
)]
#[serde(transparent)]
pub struct ClusterTrainingRuntimeSpec {
    /// The runtime, as for one namespace.
    pub runtime: TrainingRuntimeSpec,
}

/// The template of a JobSet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobSetTemplate {
    /// Labels and annotations of the JobSet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<ObjectMeta>,
    /// Its spec.
    #[serde(default)]
    pub spec: JobSetSpec,
}

/// How the job's pods are scheduled as a gang.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PodGroupPolicy {
    /// By the coscheduling plug-in of scheduler-plugins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coscheduling: Option<Coscheduling>,
    /// By Volcano.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volcano: Option<VolcanoPolicy>,
}

/// Parameters of the coscheduling plug-in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Coscheduling {
    /// Seconds that scheduling the gang may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule_timeout_seconds: Option<i32>,
}

/// Parameters of Volcano.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolcanoPolicy {
    /// How close in the network the pods must be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_topology: Option<NetworkTopology>,
}

/// How close in the network pods must be (`volcano.sh/apis`, `scheduling/v1beta1`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkTopology {
    /// `hard` or `soft`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// The highest tier that a hard topology may span.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub highest_tier_allowed: Option<i64>,
}

/// The framework of a runtime; at most one is given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MlPolicy {
    /// The number of training nodes of jobs that do not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub num_nodes: Option<i32>,
    /// PyTorch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub torch: Option<TorchPolicy>,
    /// MPI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mpi: Option<MpiPolicy>,
    /// Flux.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flux: Option<FluxPolicy>,
    /// JAX.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jax: Option<NoParameters>,
    /// XGBoost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub xgboost: Option<NoParameters>,
}

/// A framework without parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NoParameters {}

/// Parameters of PyTorch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TorchPolicy {
    /// Further containers that receive `PET_*` variables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub env_injection: Option<EnvInjection>,
}

/// Containers that receive a framework's variables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EnvInjection {
    /// The containers, by replicated job.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<EnvInjectionTarget>,
}

/// Containers of one replicated job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnvInjectionTarget {
    /// The replicated job's name.
    pub job_name: String,
    /// The containers' names.
    pub container_names: Vec<String>,
}

/// Parameters of Flux.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FluxPolicy {
    /// The number of processes on each node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub num_proc_per_node: Option<i32>,
}

/// Parameters of MPI.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MpiPolicy {
    /// The number of processes on each node: its slots in the hostfile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub num_proc_per_node: Option<i32>,
    /// Which MPI the images hold: `OpenMPI`, or with this definition installed also `Intel` or `MPICH`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mpi_implementation: Option<String>,
    /// Where the job's SSH key is mounted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh_auth_mount_path: Option<String>,
    /// Whether the Launcher runs ranks too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_launcher_as_node: Option<bool>,
}

/// What a JobSet runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobSetSpec {
    /// The groups of equal Jobs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replicated_jobs: Vec<ReplicatedJob>,
    /// The pods' host names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// When the JobSet has succeeded; once all its Jobs have if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub success_policy: Option<SuccessPolicy>,
    /// What a failed Job does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_policy: Option<FailurePolicy>,
    /// In which order Jobs start. Deprecated upstream in favour of `dependsOn`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub startup_policy: Option<StartupPolicy>,
    /// Overridden by the TrainJob's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
    /// A pod whose address all others get.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coordinator: Option<Coordinator>,
    /// Who reconciles the JobSet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub managed_by: Option<String>,
    /// Seconds after its end at which the JobSet is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_after_finished: Option<i32>,
    /// Claims that are made for the pods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volume_claim_policies: Vec<VolumeClaimPolicy>,
}

/// A group of equal Jobs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplicatedJob {
    /// Its name, which is part of the names of its Jobs.
    pub name: String,
    /// The group that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_name: Option<String>,
    /// The template of its Jobs.
    pub template: JobTemplateSpec,
    /// The number of its Jobs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// What its Jobs wait for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<DependsOn>,
}

/// A replicated job that another one waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DependsOn {
    /// Its name.
    pub name: String,
    /// `Ready` or `Complete`.
    pub status: String,
}

/// The pods' host names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Network {
    /// Whether pods can be reached by their host names.
    #[serde(default, rename = "enableDNSHostnames", skip_serializing_if = "Option::is_none")]
    pub enable_dns_hostnames: Option<bool>,
    /// The subdomain of the names; the JobSet's name if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subdomain: Option<String>,
    /// Whether names resolve before pods are ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publish_not_ready_addresses: Option<bool>,
}

/// When a JobSet has succeeded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SuccessPolicy {
    /// `All` or `Any`.
    pub operator: String,
    /// The replicated jobs that count; all if none is given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub target_replicated_jobs: Vec<String>,
}

/// What a failed Job does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailurePolicy {
    /// How many times the JobSet may be restarted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_restarts: Option<i32>,
    /// `Recreate`, `BlockingRecreate` or `InPlaceRestart`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart_strategy: Option<String>,
    /// Exceptions, the first match of which applies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<FailurePolicyRule>,
}

/// What certain failures of Jobs do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailurePolicyRule {
    /// The rule's name.
    pub name: String,
    /// `FailJobSet`, `RestartJobSet`, `RestartJobSetAndIgnoreMaxRestarts`, `RestartJob` or
    /// `RestartJobAndIgnoreMaxRestarts`.
    pub action: String,
    /// The reasons of the Job's failure that it is for; any if none is given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on_job_failure_reasons: Vec<String>,
    /// Regular expressions for the message of the Job's failure; any if none is given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on_job_failure_message_patterns: Vec<String>,
    /// The replicated jobs that it is for; all if none is given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub target_replicated_jobs: Vec<String>,
}

/// In which order Jobs start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StartupPolicy {
    /// `AnyOrder` or `InOrder`.
    pub startup_policy_order: String,
}

/// A pod whose address all others get.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Coordinator {
    /// Its replicated job.
    pub replicated_job: String,
    /// The index of its Job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_index: Option<i64>,
    /// Its index in the Job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_index: Option<i64>,
}

/// Claims that are made for a JobSet's pods.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolumeClaimPolicy {
    /// The claims.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub templates: Vec<PersistentVolumeClaim>,
    /// What happens to them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention_policy: Option<RetentionPolicy>,
}

/// What happens to the claims of a JobSet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RetentionPolicy {
    /// `Delete` or `Retain`: their fate when the JobSet is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when_deleted: Option<String>,
}
