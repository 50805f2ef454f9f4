//! Decides whether a job can be run, and turns it into a [`ValidJob`]; later steps cannot fail because of a user's
//! mistake. The rules are upstream's (`kubeflow/mpi-operator`, `pkg/apis/kubeflow/validation/validation.go`) and those
//! of our annotations. Every fault is reported, each with its path, what is wrong and what to do.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use api::{
    ANNOTATION_ATTEMPT, ANNOTATION_AVOID_FAILED_NODES, ANNOTATION_LAUNCH, ANNOTATION_MAX_GANG_RESTARTS,
    ANNOTATION_NETWORK_POLICY, ANNOTATION_PROGRESS, ANNOTATION_STALL_TIMEOUT, ANNOTATION_START_TIMEOUT,
    ANNOTATION_VOLCANO_QUEUE, ANNOTATION_WORKER_FAILURE, LAUNCHER, MANAGED_BY_MULTIKUEUE, MANAGED_BY_US,
    MPIJob, ReplicaSpec, RunPolicy, SchedulingPolicy, WORKER,
};
use k8s_openapi::api::core::v1::PodTemplateSpec;

use crate::capacity::gpus_of;
use crate::defaults::{DEFAULT_SSH_MOUNT_PATH, defaulted};
use crate::duration::parse_duration;

/// A Worker that is not ready this long after it was scheduled fails the job, unless an annotation says otherwise.
pub(crate) const DEFAULT_START_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// A running job that prints nothing for this long counts as stalled, unless an annotation says otherwise.
pub(crate) const DEFAULT_STALL_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// The longest DNS label (RFC 1035), and so the longest host name of a Worker.
pub(crate) const LONGEST_LABEL: usize = 63;
/// A larger number of gang restarts is taken for a mistake in the annotation.
const MOST_GANG_RESTARTS: u32 = 1000;

const CREATION_POLICY_PATH: &str = "spec.launcherCreationPolicy";

/// One thing that is wrong with a job.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    /// The field's path, e.g. `spec.mpiReplicaSpecs[Worker].replicas`.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub advice: String,
}

impl Fault {
    /// Whether the fault leaves open what the job's objects should be. An unreadable annotation does not: its last
    /// value or the default applies. Nor does an unknown creation policy: it waits for the Workers, as upstream does.
    fn holds_changes(&self) -> bool {
        !self.path.starts_with("metadata.annotations[") && self.path != CREATION_POLICY_PATH
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.path, self.message, self.advice)
    }
}

/// How the Launcher reaches the Workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launch {
    /// sshd in the Workers, ssh in the Launcher, as upstream.
    Ssh,
    /// The launch agent in both; needs no sshd, no root and no passwd entry.
    Agent,
}

/// The MPI implementation of the images.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Implementation {
    /// Open MPI, releases 4 and 5.
    #[default]
    OpenMpi,
    /// Intel MPI.
    Intel,
    /// MPICH.
    Mpich,
}

/// When the Launcher is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LauncherCreation {
    /// Together with the Workers.
    AtStartup,
    /// Once every Worker is Ready.
    WaitForWorkersReady,
}

/// Which Workers are deleted once the job has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CleanPods {
    /// None of them.
    None,
    /// Those that still run or are pending.
    Running,
    /// All of them.
    All,
}

/// One kind of pod, ready to be created.
#[derive(Clone, Debug, PartialEq)]
pub struct Replica {
    /// The number of pods.
    pub count: usize,
    /// The template; it has at least one container.
    pub template: PodTemplateSpec,
    /// `Never` or `OnFailure`.
    pub restart_policy: String,
}

/// A job that can be run: every field has a value, and nothing is wrong, except for the [`faults`](ValidJob::faults)
/// of a job that had begun before they appeared.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidJob {
    /// The job's name.
    pub name: String,
    /// Its namespace; empty if a manifest does not give one.
    pub namespace: String,
    /// Its UID; empty before the job is created.
    pub uid: String,
    /// Its `metadata.generation`, if it exists.
    pub generation: Option<i64>,
    /// Whether it belongs to a queue, by the label `kueue.x-k8s.io/queue-name`.
    pub queued: bool,
    /// Ranks on each host.
    pub slots: i32,
    /// Whether the Launcher's host takes ranks too.
    pub launcher_as_worker: bool,
    /// Where the SSH key is mounted.
    pub ssh_mount_path: String,
    /// When the Launcher is created.
    pub launcher_creation: LauncherCreation,
    /// The MPI implementation.
    pub implementation: Implementation,
    /// Which Workers are deleted once the job has ended.
    pub clean_pods: CleanPods,
    /// For the Launcher's Job: seconds after its end until it is removed.
    pub ttl_seconds: Option<i32>,
    /// For the Launcher's Job: seconds that it may be active.
    pub active_deadline_seconds: Option<i64>,
    /// For the Launcher's Job: the number of retries.
    pub backoff_limit: Option<i32>,
    /// The gang scheduling policy; empty if the job has none.
    pub scheduling: SchedulingPolicy,
    /// Volcano's queue, from Volcano's own annotation.
    pub volcano_queue: Option<String>,
    /// Whether its pods accept connections only from one another.
    pub isolated: bool,
    /// Whether the job is suspended.
    pub suspended: bool,
    /// Whether a person has cancelled the job.
    pub cancelled: bool,
    /// The Launcher; its count is 1.
    pub launcher: Replica,
    /// The Workers; `None` if the job has no `Worker`.
    pub workers: Option<Replica>,
    /// The transport that the job asks for, if any.
    pub launch: Option<Launch>,
    /// How long a scheduled Worker may take to become ready.
    pub start_timeout: Duration,
    /// How long a running job may print nothing before it counts as stalled.
    pub stall_timeout: Duration,
    /// The number of this attempt, from 1.
    pub attempt: u32,
    /// How many times the gang may be restarted after an infrastructure failure.
    pub max_gang_restarts: u32,
    /// Whether further attempts avoid nodes on which an earlier one failed.
    pub avoid_nodes: Option<Avoidance>,
    /// What a failed or deleted Worker does to the job, if the job specifies it.
    pub worker_failure: Option<WorkerFailure>,
    /// Whether its programs can report their progress, if the job specifies it.
    pub reports: Option<bool>,
    /// Faults of a job that goes on nevertheless; see [`tolerate`]. Empty if [`validate`] accepted the job.
    pub faults: Vec<Fault>,
}

/// How strictly a further attempt avoids nodes on which an earlier one failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Avoidance {
    /// Only if another node is available.
    Prefer,
    /// Always, even if the pods then have to wait.
    Require,
}

/// What a failed or deleted Worker of a running job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerFailure {
    /// It fails the job, or restarts the gang if the infrastructure failed and the job allows restarts. The default.
    Fail,
    /// It restarts the gang, up to the job's limit.
    Restart,
    /// A deleted Worker is created again, a failed one is counted, and the job goes on, as upstream does.
    Tolerate,
}

impl ValidJob {
    /// Whether the job goes on when a Worker fails.
    #[must_use]
    pub fn tolerates_failures(&self) -> bool {
        self.worker_failure == Some(WorkerFailure::Tolerate)
    }

    /// The number of Workers that the job asks for.
    #[must_use]
    pub fn worker_count(&self) -> usize {
        self.workers.as_ref().map_or(0, |workers| workers.count)
    }

    /// Whether its objects stay as they are until the spec is corrected, because their desired state is unknown. The
    /// job is still supervised, suspended and cleaned up.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.faults.iter().any(Fault::holds_changes)
    }

    /// The values of its annotations.
    #[must_use]
    pub fn annotations(&self) -> Annotations {
        Annotations {
            launch: self.launch,
            start_timeout: Some(self.start_timeout),
            stall_timeout: Some(self.stall_timeout),
            volcano_queue: self.volcano_queue.clone(),
            isolated: self.isolated,
            attempt: self.attempt,
            max_gang_restarts: self.max_gang_restarts,
            avoid_nodes: self.avoid_nodes,
            worker_failure: self.worker_failure,
            reports: self.reports,
        }
    }

    /// The number of GPUs that all its pods request together.
    #[must_use]
    pub fn gpus(&self) -> u64 {
        let of = |replica: &Replica| {
            let each = replica.template.spec.as_ref().map_or(0, gpus_of);
            each.saturating_mul(u64::try_from(replica.count).unwrap_or(u64::MAX))
        };
        of(&self.launcher).saturating_add(self.workers.as_ref().map_or(0, of))
    }
}

/// Whether this operator reconciles the job. Upstream ignores any other `managedBy` before it validates.
#[must_use]
pub fn is_ours(job: &MPIJob) -> bool {
    let manager = job.spec.run_policy.as_ref().and_then(|policy| policy.managed_by.as_deref());
    manager.is_none_or(|manager| manager == MANAGED_BY_US)
}

/// Applies the defaults and checks every rule.
///
/// # Errors
/// All faults, in the order of the fields.
pub fn validate(job: &MPIJob) -> Result<ValidJob, Vec<Fault>> {
    let read = tolerate(job, &Annotations::default());
    if read.faults.is_empty() { Ok(read) } else { Err(read.faults) }
}

/// Reads a job regardless of its faults: a job that has begun goes on when somebody makes a mistake in it. An
/// annotation that cannot be read keeps its value from `last`; for fields, see each one's reader.
#[must_use]
pub fn tolerate(job: &MPIJob, last: &Annotations) -> ValidJob {
    let job = defaulted(job);
    let mut faults = Faults::default();
    check_name(&job, &mut faults);
    let annotations = read_annotations(job.metadata.annotations.as_ref(), last, &mut faults);
    let slots = job.spec.slots_per_worker.unwrap_or(1);
    if slots < 0 {
        faults.add("spec.slotsPerWorker", format!("is {slots}"), "use 0 or more; the default is 1");
    }
    let implementation = read_implementation(&job, &mut faults);
    let launcher_creation = read_launcher_creation(&job, &mut faults);
    let policy = job.spec.run_policy.clone().unwrap_or_default();
    let clean_pods = read_run_policy(&policy, &mut faults);
    let launcher = read_launcher(&job, &mut faults);
    let workers = read_workers(&job, &mut faults);
    let labels = job.metadata.labels.clone().unwrap_or_default();
    ValidJob {
        name: job.metadata.name.clone().unwrap_or_default(),
        namespace: job.metadata.namespace.clone().unwrap_or_default(),
        uid: job.metadata.uid.clone().unwrap_or_default(),
        generation: job.metadata.generation,
        queued: labels.contains_key(api::LABEL_QUEUE_NAME),
        slots: slots.max(0),
        launcher_as_worker: job.spec.run_launcher_as_worker.unwrap_or(false),
        ssh_mount_path: job.spec.ssh_auth_mount_path.unwrap_or_else(|| DEFAULT_SSH_MOUNT_PATH.to_owned()),
        launcher_creation,
        implementation,
        clean_pods,
        ttl_seconds: policy.ttl_seconds_after_finished.filter(|seconds| *seconds >= 0),
        active_deadline_seconds: policy.active_deadline_seconds.filter(|seconds| *seconds >= 0),
        backoff_limit: policy.backoff_limit.filter(|limit| *limit >= 0),
        scheduling: policy.scheduling_policy.unwrap_or_default(),
        volcano_queue: annotations.volcano_queue,
        isolated: annotations.isolated,
        suspended: policy.suspend.unwrap_or(false),
        cancelled: job
            .metadata
            .annotations
            .as_ref()
            .and_then(|annotations| annotations.get(api::ANNOTATION_CANCEL))
            .is_some_and(|value| value == "true"),
        launcher,
        workers,
        launch: annotations.launch,
        start_timeout: annotations.start_timeout.unwrap_or(DEFAULT_START_TIMEOUT),
        stall_timeout: annotations.stall_timeout.unwrap_or(DEFAULT_STALL_TIMEOUT),
        attempt: annotations.attempt.max(1),
        max_gang_restarts: annotations.max_gang_restarts,
        avoid_nodes: annotations.avoid_nodes,
        worker_failure: annotations.worker_failure,
        reports: annotations.reports,
        faults: faults.0,
    }
}

/// Collects faults in the order in which they are found.
#[derive(Default)]
pub(crate) struct Faults(pub(crate) Vec<Fault>);

impl Faults {
    pub(crate) fn add(
        &mut self,
        path: impl Into<String>,
        message: impl Into<String>,
        advice: impl Into<String>,
    ) {
        self.0.push(Fault { path: path.into(), message: message.into(), advice: advice.into() });
    }
}

/// The last Worker's name must be a DNS-1035 label, as it becomes a host name; the job's own becomes a Service's.
fn check_name(job: &MPIJob, faults: &mut Faults) {
    let name = job.metadata.name.as_deref().unwrap_or_default();
    if name.is_empty() {
        // The API server adds a suffix to a generated name; without either there is nothing to name pods after.
        if job.metadata.generate_name.is_none() {
            faults.add("metadata.name", "is missing", "give the job a name");
        }
        return;
    }
    let replicas =
        job.spec.mpi_replica_specs.get(WORKER).and_then(|worker| worker.replicas).unwrap_or(1).max(1);
    let longest = format!("{name}-worker-{}", replicas - 1);
    if longest.len() > LONGEST_LABEL {
        let most = LONGEST_LABEL - (longest.len() - name.len()).min(LONGEST_LABEL);
        faults.add(
            "metadata.name",
            format!(
                "{name:?} results in the host name {longest:?} with {} characters; at most {LONGEST_LABEL} are allowed",
                longest.len()
            ),
            format!("use a name of at most {most} characters"),
        );
    }
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let well_formed =
        name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(plain) && !name.ends_with('-');
    if !well_formed {
        faults.add(
            "metadata.name",
            format!("{name:?} is not a valid host name"),
            "begin with a lower-case letter and use only lower-case letters, digits and '-' (no dots)",
        );
    }
}

/// The values of a job's annotations; the default is a job without any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Annotations {
    pub(crate) launch: Option<Launch>,
    pub(crate) start_timeout: Option<Duration>,
    pub(crate) stall_timeout: Option<Duration>,
    volcano_queue: Option<String>,
    isolated: bool,
    pub(crate) attempt: u32,
    max_gang_restarts: u32,
    avoid_nodes: Option<Avoidance>,
    pub(crate) worker_failure: Option<WorkerFailure>,
    pub(crate) reports: Option<bool>,
}

/// Reads our annotations; one that cannot be read keeps its last valid value.
pub(crate) fn read_annotations(
    annotations: Option<&BTreeMap<String, String>>,
    last: &Annotations,
    faults: &mut Faults,
) -> Annotations {
    let none = BTreeMap::new();
    let annotations = annotations.unwrap_or(&none);
    let mut read = Annotations::default();
    let launch = (ANNOTATION_LAUNCH, "use \"ssh\" or \"agent\"");
    let launches = [("ssh", Launch::Ssh), ("agent", Launch::Agent)];
    read.launch = read_word(annotations, launch, &launches, last.launch, faults);
    for (name, timeout, former) in [
        (ANNOTATION_START_TIMEOUT, &mut read.start_timeout, last.start_timeout),
        (ANNOTATION_STALL_TIMEOUT, &mut read.stall_timeout, last.stall_timeout),
    ] {
        let Some(text) = annotations.get(name) else { continue };
        let parsed = parse_duration(text);
        *timeout = parsed.or(former);
        if parsed.is_none() {
            let advice = "use a duration like 90s, 10m or 1h30m";
            faults.add(annotation_path(name), format!("{text:?} is not a duration"), advice);
        }
    }
    read.volcano_queue = annotations.get(ANNOTATION_VOLCANO_QUEUE).filter(|queue| !queue.is_empty()).cloned();
    let policy = (ANNOTATION_NETWORK_POLICY, "use \"isolated\", or omit it");
    let policies = [("isolated", true)];
    read.isolated =
        read_word(annotations, policy, &policies, Some(last.isolated), faults).unwrap_or_default();
    if let Some(text) = annotations.get(ANNOTATION_MAX_GANG_RESTARTS) {
        match text.parse::<u32>() {
            Ok(count) if count <= MOST_GANG_RESTARTS => read.max_gang_restarts = count,
            _ => {
                read.max_gang_restarts = last.max_gang_restarts;
                let advice = format!("use a whole number from 0 to {MOST_GANG_RESTARTS}");
                let path = annotation_path(ANNOTATION_MAX_GANG_RESTARTS);
                faults.add(path, format!("is {text:?}"), advice);
            }
        }
    }
    let avoid = (ANNOTATION_AVOID_FAILED_NODES, "use \"prefer\" or \"require\", or omit it");
    let avoidances = [("prefer", Avoidance::Prefer), ("require", Avoidance::Require)];
    read.avoid_nodes = read_word(annotations, avoid, &avoidances, last.avoid_nodes, faults);
    let failure = (ANNOTATION_WORKER_FAILURE, "use \"fail\", \"restart\" or \"tolerate\", or omit it");
    let failures = [
        ("fail", WorkerFailure::Fail),
        ("restart", WorkerFailure::Restart),
        ("tolerate", WorkerFailure::Tolerate),
    ];
    read.worker_failure = read_word(annotations, failure, &failures, last.worker_failure, faults);
    let progress = (ANNOTATION_PROGRESS, "use \"on\" or \"off\", or omit it");
    read.reports = read_word(annotations, progress, &[("on", true), ("off", false)], last.reports, faults);
    // The operator writes this annotation; a value that it cannot have written counts as the first attempt.
    let attempt = annotations.get(ANNOTATION_ATTEMPT).and_then(|number| number.parse().ok());
    read.attempt = attempt.unwrap_or_default();
    read
}

/// Reads an annotation that has one of a few values. For any other the `former` value applies.
fn read_word<T: Copy>(
    annotations: &BTreeMap<String, String>,
    (name, advice): (&str, &str),
    words: &[(&str, T)],
    former: Option<T>,
    faults: &mut Faults,
) -> Option<T> {
    let text = annotations.get(name)?;
    let found = words.iter().find(|(word, _)| word == text).map(|(_, value)| *value);
    if found.is_none() {
        faults.add(annotation_path(name), format!("is {text:?}"), advice);
    }
    found.or(former)
}

fn annotation_path(name: &str) -> String {
    format!("metadata.annotations[{name}]")
}

fn read_implementation(job: &MPIJob, faults: &mut Faults) -> Implementation {
    match job.spec.mpi_implementation.as_deref() {
        Some("OpenMPI") | None => Implementation::OpenMpi,
        Some("Intel") => Implementation::Intel,
        Some("MPICH") => Implementation::Mpich,
        Some(other) => {
            faults.add(
                "spec.mpiImplementation",
                format!("{other:?} is not supported"),
                "use OpenMPI, Intel or MPICH",
            );
            Implementation::OpenMpi
        }
    }
}

/// Upstream's CRD is meant to allow only these two but by mistake allows any value; there, any other value waits.
fn read_launcher_creation(job: &MPIJob, faults: &mut Faults) -> LauncherCreation {
    match job.spec.launcher_creation_policy.as_deref() {
        Some("AtStartup") | None => LauncherCreation::AtStartup,
        Some("WaitForWorkersReady") => LauncherCreation::WaitForWorkersReady,
        Some(other) => {
            let message = format!("{other:?} is not supported");
            faults.add(CREATION_POLICY_PATH, message, "use AtStartup or WaitForWorkersReady");
            LauncherCreation::WaitForWorkersReady
        }
    }
}

fn read_run_policy(policy: &RunPolicy, faults: &mut Faults) -> CleanPods {
    let counted = [
        ("ttlSecondsAfterFinished", policy.ttl_seconds_after_finished.map(i64::from)),
        ("activeDeadlineSeconds", policy.active_deadline_seconds),
        ("backoffLimit", policy.backoff_limit.map(i64::from)),
    ];
    for (field, value) in counted {
        if let Some(value) = value.filter(|value| *value < 0) {
            faults.add(format!("spec.runPolicy.{field}"), format!("is {value}"), "use 0 or more, or omit it");
        }
    }
    if let Some(manager) = policy.managed_by.as_deref()
        && ![MANAGED_BY_US, MANAGED_BY_MULTIKUEUE].contains(&manager)
    {
        let advice = format!("omit it, or use {MANAGED_BY_US} or {MANAGED_BY_MULTIKUEUE}");
        faults.add("spec.runPolicy.managedBy", format!("{manager:?} is not supported"), advice);
    }
    match policy.clean_pod_policy.as_deref() {
        Some("None") | None => CleanPods::None,
        Some("Running") => CleanPods::Running,
        Some("All") => CleanPods::All,
        Some(other) => {
            let message = format!("{other:?} is not supported");
            faults.add("spec.runPolicy.cleanPodPolicy", message, "use None, Running or All");
            CleanPods::None
        }
    }
}

/// The Launcher. A job without one gets an empty one, from which nothing is created.
fn read_launcher(job: &MPIJob, faults: &mut Faults) -> Replica {
    let Some(spec) = job.spec.mpi_replica_specs.get(LAUNCHER) else {
        let known: Vec<&str> = job.spec.mpi_replica_specs.keys().map(String::as_str).collect();
        let message = if known.is_empty() {
            "is missing".to_owned()
        } else {
            format!("is missing; found {}", known.join(", "))
        };
        let advice = "add the pod that runs mpirun, under the key Launcher (with a capital L)";
        faults.add("spec.mpiReplicaSpecs[Launcher]", message, advice);
        return Replica {
            count: 1,
            template: PodTemplateSpec::default(),
            restart_policy: "Never".to_owned(),
        };
    };
    let count = spec.replicas.unwrap_or(1);
    if count != 1 {
        let advice = "use 1; for more ranks, increase Worker.replicas";
        faults.add("spec.mpiReplicaSpecs[Launcher].replicas", format!("is {count}"), advice);
    }
    read_replica(LAUNCHER, spec, 1, faults)
}

/// The most Workers of a job: the hostfile of more would not fit into a ConfigMap of 1 MiB with its longest names, and every
/// Worker costs the operator memory.
pub const MOST_WORKERS: i32 = 10_000;

/// The Workers. If the spec does not give a count, the status's count applies.
fn read_workers(job: &MPIJob, faults: &mut Faults) -> Option<Replica> {
    let spec = job.spec.mpi_replica_specs.get(WORKER)?;
    let count = spec.replicas.unwrap_or(0);
    if count < 1 {
        let advice = "use 1 or more, or omit Worker for a job with only a Launcher";
        faults.add("spec.mpiReplicaSpecs[Worker].replicas", format!("is {count} (0 if omitted)"), advice);
    }
    if count > MOST_WORKERS {
        let advice = format!("use {MOST_WORKERS} or fewer, with more slots each");
        faults.add("spec.mpiReplicaSpecs[Worker].replicas", format!("is {count}"), &advice);
    }
    let count = usize::try_from(count.min(MOST_WORKERS)).ok().filter(|count| *count > 0);
    Some(read_replica(WORKER, spec, count.unwrap_or_else(|| counted_workers(job)), faults))
}

/// The number of Workers that the job's status has counted.
fn counted_workers(job: &MPIJob) -> usize {
    let status = job.status.as_ref();
    let asked_for = status.and_then(|status| status.workers.as_ref()).map(|workers| workers.of);
    let seen = || {
        let counts = status?.replica_statuses.get(WORKER)?;
        let of = |count: Option<i32>| count.unwrap_or(0);
        Some(of(counts.active) + of(counts.succeeded) + of(counts.failed))
    };
    asked_for.or_else(seen).and_then(|count| usize::try_from(count).ok()).unwrap_or(0)
}

fn read_replica(role: &str, spec: &ReplicaSpec, count: usize, faults: &mut Faults) -> Replica {
    let path = format!("spec.mpiReplicaSpecs[{role}]");
    let restart_policy = spec.restart_policy.clone().unwrap_or_default();
    if !["Never", "OnFailure"].contains(&restart_policy.as_str()) {
        let message = format!("{restart_policy:?} is not supported");
        faults.add(format!("{path}.restartPolicy"), message, "use Never or OnFailure");
    }
    if spec.template.spec.as_ref().is_none_or(|pod| pod.containers.is_empty()) {
        let advice = "add a container with the MPI program; the first one is the MPI container";
        faults.add(format!("{path}.template.spec.containers"), "is empty", advice);
    }
    let pod = spec.template.spec.as_ref();
    let inits = pod.and_then(|pod| pod.init_containers.as_ref()).into_iter().flatten();
    let containers = pod.into_iter().flat_map(|pod| &pod.containers).enumerate();
    let all =
        containers.map(|it| ("containers", it)).chain(inits.enumerate().map(|it| ("initContainers", it)));
    for (list, (at, container)) in all {
        if container.image.as_ref().is_some_and(|image| image.contains(char::is_whitespace)) {
            let path = format!("{path}.template.spec.{list}[{at}].image");
            let image = container.image.as_deref().unwrap_or_default();
            faults.add(
                path,
                format!("{image:?} has white space"),
                "remove it: the name of an image has none",
            );
        }
    }
    Replica { count, template: spec.template.clone(), restart_policy }
}
