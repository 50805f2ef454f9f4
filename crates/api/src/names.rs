//! Labels, annotations, keys and paths that several parts of the system must spell the same way.
//!
//! Those under `training.kubeflow.org/` are upstream's (`pkg/apis/kubeflow/v2beta1/constants.go`); those under
//! `training.opendatahub.io/` are ours.

/// Upstream's label for the operator that owns a pod; its value is [`OPERATOR_NAME`].
pub const LABEL_OPERATOR_NAME: &str = "training.kubeflow.org/operator-name";
/// Upstream's label for the MPIJob that a pod belongs to.
pub const LABEL_JOB_NAME: &str = "training.kubeflow.org/job-name";
/// Upstream's label for a pod's part in the job: `launcher` or `worker`.
pub const LABEL_JOB_ROLE: &str = "training.kubeflow.org/job-role";
/// Upstream's label for a pod's index within the job; Kueue ranks by it.
pub const LABEL_REPLICA_INDEX: &str = "training.kubeflow.org/replica-index";
/// The Training Operator's label for a pod's key in the map of replica specs, in lower case: `master`, `worker`, `chief`, `ps`.
pub const LABEL_REPLICA_TYPE: &str = "training.kubeflow.org/replica-type";
/// The value of [`LABEL_OPERATOR_NAME`].
pub const OPERATOR_NAME: &str = "mpi-operator";
/// `runPolicy.managedBy` of jobs that this operator reconciles.
pub const MANAGED_BY_US: &str = "kubeflow.org/mpi-operator";
/// `runPolicy.managedBy` of jobs that Kueue hands to another cluster.
pub const MANAGED_BY_MULTIKUEUE: &str = "kueue.x-k8s.io/multikueue";

/// How the Launcher reaches the Workers: `ssh` or `agent`.
pub const ANNOTATION_LAUNCH: &str = "training.opendatahub.io/launch";
/// A Worker that is not ready this long after it was scheduled fails the job, e.g. `10m`.
pub const ANNOTATION_START_TIMEOUT: &str = "training.opendatahub.io/start-timeout";
/// No output and no progress for this long sets the condition `Stalled`, e.g. `10m`.
pub const ANNOTATION_STALL_TIMEOUT: &str = "training.opendatahub.io/stall-timeout";
/// How often the whole gang may be restarted after an infrastructure failure.
pub const ANNOTATION_MAX_GANG_RESTARTS: &str = "training.opendatahub.io/max-gang-restarts";
/// `fail`, `restart` or `tolerate`: the effect of a failed or deleted Worker on a running job.
pub const ANNOTATION_WORKER_FAILURE: &str = "training.opendatahub.io/worker-failure";
/// `prefer` or `require`: the pods of a further attempt stay away from nodes on which an earlier one failed.
pub const ANNOTATION_AVOID_FAILED_NODES: &str = "training.opendatahub.io/avoid-failed-nodes";
/// On a job, its pods and its Launcher: the number of the current attempt, except for the first. It survives where
/// upstream's CRD prunes unknown status fields.
pub const ANNOTATION_ATTEMPT: &str = "training.opendatahub.io/attempt";
/// Ends the job at once and for good where its value is `true`: its Workers are deleted, its record and its Launcher's output
/// stay.
pub const ANNOTATION_CANCEL: &str = "training.opendatahub.io/cancel";
/// `on` or `off`: whether the job's programs can report their progress, where the operator has an endpoint for it.
pub const ANNOTATION_PROGRESS: &str = "training.opendatahub.io/progress";
/// The Open Data Hub's annotation that lets the operator ask the job's program for its progress: `true`.
pub const ANNOTATION_PROGRESSION_TRACKING: &str = "trainer.opendatahub.io/progression-tracking";
/// The Open Data Hub's annotation for the port of the program's metrics.
pub const ANNOTATION_METRICS_PORT: &str = "trainer.opendatahub.io/metrics-port";
/// The Open Data Hub's annotation for how often the program is asked, e.g. `30s`.
pub const ANNOTATION_METRICS_POLL_INTERVAL: &str = "trainer.opendatahub.io/metrics-poll-interval";
/// The Open Data Hub's annotation with the program's progress, as JSON; the operator writes it.
pub const ANNOTATION_TRAINER_STATUS: &str = "trainer.opendatahub.io/trainerStatus";
/// `isolated`: the job's pods accept connections only from one another.
pub const ANNOTATION_NETWORK_POLICY: &str = "training.opendatahub.io/network-policy";
/// On a job: the user who created it, written by whatever creates it on the user's behalf, else by the operator's webhook.
/// It is information, not evidence: anyone who may write the job may write it too.
pub const ANNOTATION_OWNER: &str = "training.opendatahub.io/owner";
/// The annotation in which the Open Data Hub's dashboard records the user who created something.
pub const ANNOTATION_DASHBOARD_USER: &str = "opendatahub.io/username";
/// The label in which the Open Data Hub's dashboard records the user who created something.
pub const LABEL_DASHBOARD_USER: &str = "opendatahub.io/user";
/// Volcano's annotation for the queue of a job whose scheduling policy names none.
pub const ANNOTATION_VOLCANO_QUEUE: &str = "scheduling.volcano.sh/queue-name";
/// On a Namespace: how many jobs may run in it at once.
pub const ANNOTATION_MAX_CONCURRENT_JOBS: &str = "training.opendatahub.io/max-concurrent-jobs";

/// On a job: identifies the request that created it, so that a repeated request finds it.
pub const ANNOTATION_CREATION: &str = "training.opendatahub.io/creation";

/// On a job: the id of the training service's request that created it, which joins what the admission webhook saw with
/// the service's own record.
pub const ANNOTATION_REQUEST: &str = "training.opendatahub.io/request";

/// Where the hostfile and `discover_hosts.sh` are mounted in the Launcher.
pub const HOSTFILE_DIRECTORY: &str = "/etc/mpi";
/// Where the launch agent is installed in every pod that uses the `agent` transport.
pub const LAUNCH_DIRECTORY: &str = "/opt/odh/launch";
/// The launch agent's program, in its image's `PATH` and in [`LAUNCH_DIRECTORY`].
pub const LAUNCH_PROGRAM: &str = "odh-launch";
/// The image with [`LAUNCH_PROGRAM`]; `odh local` maps this name to the program beside `odh`.
pub const LAUNCH_IMAGE: &str = concat!("quay.io/opendatahub/odh-launch:v", env!("CARGO_PKG_VERSION"));
/// The TCP port on which a Worker's launch agent listens.
pub const LAUNCH_PORT: u16 = 7222;
/// Kueue's label for the queue of a job.
pub const LABEL_QUEUE_NAME: &str = "kueue.x-k8s.io/queue-name";
/// Where the job's key is mounted in pods that use the `agent` transport: not below `/root`, which a pod with an
/// arbitrary user may not enter.
pub const LAUNCH_KEY_DIRECTORY: &str = "/opt/odh/key";

/// Upstream's label that says which part of a TrainJob changes a replicated job: `trainer`, `dataset-initializer` or
/// `model-initializer`.
pub const LABEL_ANCESTOR: &str = "trainer.kubeflow.org/trainjob-ancestor-step";
/// Upstream's label of a runtime that will be removed; its value is `deprecated`.
pub const LABEL_SUPPORT: &str = "trainer.kubeflow.org/support";
/// `managedBy` of TrainJobs that this operator reconciles where Trainer does not run.
pub const TRAINJOB_MANAGED_BY_US: &str = "trainer.kubeflow.org/trainjob-controller";
/// On everything that is made for a TrainJob: the TrainJob's name. The operator's watches select by it.
pub const LABEL_TRAINJOB: &str = "training.opendatahub.io/trainjob";
/// On the pod of a TrainJob's Launcher that is one of the nodes: its number among them, after all others.
pub const LABEL_WORKER_INDEX: &str = "training.opendatahub.io/worker-index";
/// JobSet's label for the JobSet, here the TrainJob, that a pod belongs to; Kueue and Trainer's SDK select by it.
pub const LABEL_JOB_SET_NAME: &str = "jobset.sigs.k8s.io/jobset-name";
/// JobSet's label for the replicated job that a pod belongs to.
pub const LABEL_REPLICATED_JOB: &str = "jobset.sigs.k8s.io/replicatedjob-name";
/// JobSet's label for the index of a Job within its replicated job.
pub const LABEL_JOB_INDEX: &str = "jobset.sigs.k8s.io/job-index";
/// JobSet's label for the number of restarts before this one.
pub const LABEL_RESTART_ATTEMPT: &str = "jobset.sigs.k8s.io/restart-attempt";
/// Kubernetes' label and annotation for a pod's index within its Job.
pub const LABEL_COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";
