//! What a request for a job can say. Nothing here is a default: those are the builder's.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Affinity, Toleration, TopologySpreadConstraint};
use plan::{Implementation as Mpi, Launch};

use crate::Kind;

/// What to run, in terms of model training.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// The kind of job.
    pub kind: Kind,
    /// The runtime of a TrainJob: a ClusterTrainingRuntime, or after `trainingruntime/` a TrainingRuntime of
    /// the job's namespace. Empty for other kinds.
    pub runtime: String,
    /// The job's name.
    pub name: String,
    /// The namespace; the client's own if not given.
    pub namespace: Option<String>,
    /// The number of Workers, at least 1; 0 leaves the number of a TrainJob's nodes to its runtime.
    pub workers: i32,
    /// The image of the Launcher and the Workers. A TrainJob may leave it to its runtime.
    pub image: String,
    /// What to run: on every rank, unless it starts the ranks itself or `in_launcher` is set.
    pub command: Vec<String>,
    /// The directory in which the command starts, in every pod; that of the image if not given.
    pub workdir: Option<String>,
    /// Whether to run the command once, in the Launcher, exactly as given.
    pub in_launcher: bool,
    /// Ranks on each Worker; if not given, the number of GPUs, or 1 without GPUs.
    pub slots: Option<i32>,
    /// NVIDIA GPUs of each Worker; those of others are among `worker.limits`.
    pub gpus: Option<u32>,
    /// CPUs of each Worker, as a Kubernetes quantity, e.g. `4` or `500m`.
    pub cpu: Option<String>,
    /// Memory of each Worker, as a Kubernetes quantity, e.g. `16Gi`.
    pub memory: Option<String>,
    /// CPUs of the Launcher, as a Kubernetes quantity.
    pub launcher_cpu: Option<String>,
    /// Memory of the Launcher, as a Kubernetes quantity.
    pub launcher_memory: Option<String>,
    /// The MPI implementation in the image.
    pub mpi: Mpi,
    /// How the Launcher reaches the Workers; if not given, [`DEFAULT_TRANSPORT`](super::DEFAULT_TRANSPORT).
    /// The annotation, if there is one, wins.
    pub transport: Option<Launch>,
    /// Whether the ranks' output stays without tags. With tags, lines can be chosen by rank; they are taken
    /// off when lines are shown.
    pub untagged: bool,
    /// Whether the pods meet the Pod Security Standard `restricted`. The user is the image's, which must not
    /// be root.
    pub restricted: bool,
    /// Environment of the Launcher, the Workers and their ranks.
    pub env: Vec<Variable>,
    /// Volumes of all pods, in their order. One claim may be mounted several times.
    pub volumes: Vec<Mount>,
    /// What is different for the Workers.
    pub worker: Part,
    /// What is different for the Launcher.
    pub launcher: Part,
    /// Where the pods are placed.
    pub scheduling: Placement,
    /// How many pods must fit before any starts; all if not given.
    pub min_available: Option<i32>,
    /// What failures do.
    pub failures: Failures,
    /// Labels of the job.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the job.
    pub annotations: BTreeMap<String, String>,
    /// The Kueue queue to submit to.
    pub queue: Option<String>,
    /// Priority class of the pods.
    pub priority: Option<String>,
    /// Which pods to delete at the end: `None`, `Running`, `All`; if not given, `Running`, so that a job that
    /// has ended holds nothing that others wait for.
    pub clean_pod_policy: Option<String>,
    /// The maximum run time of the Launcher, in seconds.
    pub deadline_seconds: Option<i64>,
    /// The number of retries of a failed Launcher; 0 if not given, because most failures are the program's
    /// own and would repeat.
    pub retries: Option<i32>,
    /// The time after its end at which the job is deleted, in seconds; it is kept if not given.
    pub ttl_seconds: Option<i32>,
    /// Whether to create the job suspended.
    pub suspend: bool,
}

/// What is different for one role's pods.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Part {
    /// The image; the job's if not given.
    pub image: Option<String>,
    /// Variables in addition to the job's; one of the same name replaces the job's.
    pub env: Vec<Variable>,
    /// Volumes in addition to the job's.
    pub volumes: Vec<Mount>,
    /// What the scheduler reserves, by resource; as much as the limits if not given.
    pub requests: BTreeMap<String, String>,
    /// What a pod may use at most, by resource.
    pub limits: BTreeMap<String, String>,
    /// Where the pods are placed; as the job's if not given.
    pub scheduling: Option<Placement>,
    /// Labels of the pods.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the pods.
    pub annotations: BTreeMap<String, String>,
    /// When a container that has ended is started again: `Never`, `OnFailure`, `Always`; never if not given.
    pub restart_policy: Option<String>,
}

/// Where pods are placed, in Kubernetes' terms.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Placement {
    /// Labels that nodes must have.
    pub node_selector: BTreeMap<String, String>,
    /// Taints that are tolerated.
    pub tolerations: Vec<Toleration>,
    /// Rules about nodes and other pods.
    pub affinity: Option<Affinity>,
    /// How the pods are spread.
    pub topology_spread: Vec<TopologySpreadConstraint>,
    /// The scheduler's name.
    pub scheduler: Option<String>,
}

/// What failures do; each is written as the annotation of that name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    /// What a failed Worker does: `fail`, `restart` or `tolerate`.
    pub worker_failure: Option<String>,
    /// The most restarts of all pods after an infrastructure failure.
    pub max_gang_restarts: Option<i32>,
    /// How long a Worker may take to be ready, e.g. `10m`.
    pub start_timeout: Option<String>,
    /// How long the job may be silent before it counts as stalled, e.g. `10m`.
    pub stall_timeout: Option<String>,
}

/// A variable of the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Where its value comes from.
    pub value: VariableValue,
}

/// The value of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VariableValue {
    /// This text.
    Text(String),
    /// A key of a Secret.
    SecretKey(String, String),
    /// A key of a ConfigMap.
    ConfigMapKey(String, String),
}

impl From<(String, String)> for Variable {
    fn from((name, text): (String, String)) -> Variable {
        Variable { name, value: VariableValue::Text(text) }
    }
}

/// A volume, and where it is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The path.
    pub path: String,
    /// What is mounted.
    pub source: Source,
    /// The name of the pod's volume; one by its number if not given.
    pub volume: Option<String>,
}

/// What a volume holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A PersistentVolumeClaim, for data and checkpoints.
    Claim {
        /// Its name.
        claim: String,
        /// Whether it is mounted without the right to write.
        read_only: bool,
        /// The folder in the volume; its root if not given.
        sub_path: Option<String>,
    },
    /// A Secret as files.
    Secret(String),
    /// A ConfigMap as files.
    ConfigMap(String),
    /// Space that lives as long as the pod.
    Scratch {
        /// The most that it may hold.
        size: Option<String>,
        /// Whether it is memory rather than disk, as for `/dev/shm`.
        in_memory: bool,
    },
}

impl Source {
    /// What is mounted, in the words of errors.
    pub fn name(&self) -> &str {
        match self {
            Source::Claim { claim: name, .. } | Source::Secret(name) | Source::ConfigMap(name) => name,
            Source::Scratch { .. } => "scratch space",
        }
    }
}

impl Mount {
    /// Mounts this at a path.
    pub fn new(path: impl Into<String>, source: Source) -> Mount {
        Mount { path: path.into(), source, volume: None }
    }

    /// Mounts a claim.
    pub fn claim(claim: impl Into<String>, path: impl Into<String>) -> Mount {
        let source = Source::Claim { claim: claim.into(), read_only: false, sub_path: None };
        Mount::new(path, source)
    }
}
