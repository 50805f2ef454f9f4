//! Builds an MPIJob from the few values that the common case needs, as flags, forms and programs supply them;
//! [`trainjob`] builds a TrainJob.
//!
//! The input is a [`Request`]. The output is an MPIJob as one would write it by hand, with only what was requested, or
//! all faults of the request at once. The same request gives the same job in every interface.

pub mod trainjob;

use std::collections::BTreeMap;

use api::{ANNOTATION_LAUNCH, LAUNCHER, MPIJob, MPIJobSpec, ReplicaSpec, RunPolicy, WORKER};
use k8s_openapi::api::core::v1::{
    Capabilities, Container, EnvVar, PersistentVolumeClaimVolumeSource, PodSecurityContext, PodSpec,
    PodTemplateSpec, ResourceRequirements, SeccompProfile, SecurityContext, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::ObjectMeta;
use plan::starts_ranks;
pub use plan::{Implementation as Mpi, Launch};
use semantics::NVIDIA_GPU;

use crate::kind::LABEL_QUEUE;
use crate::{Error, Fault};

/// What a request that does not say it means for the pods of a job that has ended.
pub const DEFAULT_CLEAN_PODS: &str = "Running";
/// What a request that does not say it means for a Launcher that failed.
pub const DEFAULT_RETRIES: i32 = 0;

/// How the Launcher reaches the Workers unless a request names another transport. It works in every image, without sshd and
/// without root.
pub const DEFAULT_TRANSPORT: Launch = Launch::Agent;
/// When the Launcher is created: a name that it asks DNS for before the Workers have one is remembered as unknown for up to
/// 30 seconds.
pub const LAUNCHER_CREATION: &str = "WaitForWorkersReady";

/// What to run, in terms of model training.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Request {
    /// The job's name.
    pub name: String,
    /// The namespace; the client's own if not given.
    pub namespace: Option<String>,
    /// The number of Workers, at least 1.
    pub workers: i32,
    /// The image of the Launcher and the Workers.
    pub image: String,
    /// What to run: on every rank, unless it starts the ranks itself or `in_launcher` is set.
    pub command: Vec<String>,
    /// The directory in which the command starts, in every pod; that of the image if not given.
    pub workdir: Option<String>,
    /// Whether to run the command once, in the Launcher, exactly as given.
    pub in_launcher: bool,
    /// Ranks on each Worker; if not given, the number of GPUs, or 1 without GPUs.
    pub slots: Option<i32>,
    /// GPUs of each Worker.
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
    /// How the Launcher reaches the Workers; if not given, [`DEFAULT_TRANSPORT`]. The annotation, if there is one, wins.
    pub transport: Option<Launch>,
    /// Whether the ranks' output stays without tags. With tags, lines can be chosen by rank; they are taken off when lines
    /// are shown.
    pub untagged: bool,
    /// Whether the pods meet the Pod Security Standard `restricted`. The user is the image's, which must not be root.
    pub restricted: bool,
    /// Environment of the Launcher, the Workers and their ranks.
    pub env: Vec<(String, String)>,
    /// PersistentVolumeClaims to mount: name and path.
    pub volumes: Vec<(String, String)>,
    /// Labels of the job.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the job.
    pub annotations: BTreeMap<String, String>,
    /// The Kueue queue to submit to.
    pub queue: Option<String>,
    /// Priority class of the pods.
    pub priority: Option<String>,
    /// Which pods to delete at the end: `None`, `Running`, `All`; if not given, `Running`, so that a job that has ended
    /// holds nothing that others wait for.
    pub clean_pod_policy: Option<String>,
    /// The maximum run time of the Launcher, in seconds.
    pub deadline_seconds: Option<i64>,
    /// The number of retries of a failed Launcher; 0 if not given, because most failures are the program's own and would
    /// repeat.
    pub retries: Option<i32>,
    /// The time after its end at which the job is deleted, in seconds; it is kept if not given.
    pub ttl_seconds: Option<i32>,
    /// Whether to create the job suspended.
    pub suspend: bool,
}

/// Builds the job that the request describes.
///
/// # Errors
/// [`Error::Invalid`] with every fault visible in the request itself; the paths are the names of its fields.
pub fn build(request: &Request) -> Result<MPIJob, Error> {
    let faults: Vec<Fault> = without_image(request).into_iter().chain(faults(request)).collect();
    if !faults.is_empty() {
        return Err(Error::Invalid { faults });
    }
    let slots = request
        .slots
        .unwrap_or_else(|| request.gpus.and_then(|n| i32::try_from(n).ok()).filter(|n| *n > 0).unwrap_or(1));
    let replicas = BTreeMap::from([
        (
            LAUNCHER.to_owned(),
            Box::new(ReplicaSpec {
                replicas: Some(1),
                template: template(request, launcher(request, slots)),
                // With OnFailure, Kubernetes deletes the pod and its output when the Job gives up.
                restart_policy: Some("Never".to_owned()),
            }),
        ),
        (
            WORKER.to_owned(),
            Box::new(ReplicaSpec {
                replicas: Some(request.workers),
                template: template(request, worker(request)),
                ..ReplicaSpec::default()
            }),
        ),
    ]);
    let spec = MPIJobSpec {
        slots_per_worker: Some(slots),
        mpi_implementation: Some(request.mpi.name().to_owned()),
        run_policy: Some(run_policy(request)),
        launcher_creation_policy: Some(LAUNCHER_CREATION.to_owned()),
        mpi_replica_specs: replicas,
        ..MPIJobSpec::default()
    };
    let mut metadata = metadata(request);
    let transport = transport_name(request.transport.unwrap_or(DEFAULT_TRANSPORT));
    let annotations = metadata.annotations.get_or_insert_default();
    annotations.entry(ANNOTATION_LAUNCH.to_owned()).or_insert_with(|| transport.to_owned());
    Ok(MPIJob { metadata, spec, status: None })
}

/// The value of the annotation for a transport.
pub fn transport_name(transport: Launch) -> &'static str {
    match transport {
        Launch::Ssh => "ssh",
        Launch::Agent => "agent",
    }
}

fn metadata(request: &Request) -> ObjectMeta {
    let mut labels = request.labels.clone();
    labels.extend(request.queue.iter().map(|queue| (LABEL_QUEUE.to_owned(), queue.clone())));
    ObjectMeta {
        name: Some(request.name.clone()),
        namespace: request.namespace.clone(),
        labels: some_unless_empty(labels),
        annotations: some_unless_empty(request.annotations.clone()),
        ..ObjectMeta::default()
    }
}

fn some_unless_empty(map: BTreeMap<String, String>) -> Option<BTreeMap<String, String>> {
    Some(map).filter(|map| !map.is_empty())
}

/// The fault of a request without an image. A TrainJob may leave the image to its runtime.
fn without_image(request: &Request) -> Option<Fault> {
    request.image.is_empty().then(|| Fault {
        source: String::new(),
        position: None,
        path: "image".to_owned(),
        message: "is required".to_owned(),
        advice: Some("name the image that has the program".to_owned()),
    })
}

fn faults(request: &Request) -> Vec<Fault> {
    let mut found = Vec::new();
    let mut fault = |field: &str, message: String, advice: &str| {
        found.push(Fault {
            source: String::new(),
            position: None,
            path: field.to_owned(),
            message,
            advice: Some(advice.to_owned()).filter(|advice| !advice.is_empty()),
        });
    };
    if request.command.is_empty() {
        fault("command", "is required".to_owned(), "give a program and its arguments");
    }
    if request.workers < 1 {
        fault("workers", format!("must be at least 1, but is {}", request.workers), "");
    }
    if request.slots.is_some_and(|slots| slots < 1) {
        fault("slots", "must be at least 1".to_owned(), "it is the number of ranks per Worker");
    }
    let quantities = [
        ("cpu", &request.cpu),
        ("memory", &request.memory),
        ("launcher_cpu", &request.launcher_cpu),
        ("launcher_memory", &request.launcher_memory),
    ];
    for (field, quantity) in quantities {
        if let Some(text) = quantity
            && !is_quantity(text)
        {
            let advice =
                if field.ends_with("cpu") { "use 4, 0.5 or 500m" } else { "use 512Mi, 16Gi or 1.5G" };
            fault(field, format!("\"{text}\" is not a quantity"), advice);
        }
    }
    for (field, quantity) in quantities.into_iter().filter(|(field, _)| field.ends_with("memory")) {
        if quantity.as_deref().is_some_and(|text| text.ends_with('m')) {
            fault(field, "is in thousandths of a byte".to_owned(), "use Mi for mebibytes");
        }
        if let Some(bytes) = quantity.as_deref().filter(|text| is_without_unit(text)) {
            fault(field, format!("is {bytes} bytes"), "use Mi for mebibytes, Gi for gibibytes");
        }
    }
    if request.workdir.as_deref().is_some_and(|directory| !directory.starts_with('/')) {
        fault("workdir", "is not an absolute path".to_owned(), "begin it with /");
    }
    for (name, _) in &request.env {
        if name.is_empty() || name.contains(['=', '\0']) || name.starts_with(|c: char| c.is_ascii_digit()) {
            fault("env", format!("\"{name}\" is not a valid variable name"), "use NAME=VALUE");
        }
    }
    for (claim, path) in &request.volumes {
        if !path.starts_with('/') || path.contains(':') {
            fault("volumes", format!("mounts {claim} at \"{path}\""), "use an absolute path without a colon");
        }
    }
    found
}

/// Whether an amount of memory lacks its unit: no container runs in less than a mebibyte.
fn is_without_unit(text: &str) -> bool {
    text.bytes().all(|letter| letter.is_ascii_digit())
        && text.parse().is_ok_and(|bytes: u64| (1..1 << 20).contains(&bytes))
}

/// Whether the text is a Kubernetes quantity that is not negative (`k8s.io/apimachinery/pkg/api/resource`).
pub fn is_quantity(text: &str) -> bool {
    // Kubernetes takes a suffix alone for zero.
    let has_number = text.trim_start_matches('.').starts_with(|c: char| c.is_ascii_digit());
    has_number && text.parse::<semantics::Quantity>().is_ok()
}

fn run_policy(request: &Request) -> RunPolicy {
    let clean_pods = request.clean_pod_policy.as_deref().unwrap_or(DEFAULT_CLEAN_PODS);
    RunPolicy {
        clean_pod_policy: Some(clean_pods.to_owned()),
        active_deadline_seconds: request.deadline_seconds,
        backoff_limit: Some(request.retries.unwrap_or(DEFAULT_RETRIES)),
        suspend: request.suspend.then_some(true),
        ttl_seconds_after_finished: request.ttl_seconds,
        ..RunPolicy::default()
    }
}

fn template(request: &Request, container: Container) -> PodTemplateSpec {
    PodTemplateSpec {
        metadata: None,
        spec: Some(PodSpec {
            containers: vec![container],
            volumes: Some(volumes(request)).filter(|volumes| !volumes.is_empty()),
            priority_class_name: request.priority.clone(),
            security_context: request.restricted.then(restricted_pod),
            ..PodSpec::default()
        }),
    }
}

/// What `restricted` requires of a pod (<https://kubernetes.io/docs/concepts/security/pod-security-standards/>).
fn restricted_pod() -> PodSecurityContext {
    let seccomp = SeccompProfile { type_: "RuntimeDefault".to_owned(), localhost_profile: None };
    PodSecurityContext {
        run_as_non_root: Some(true),
        seccomp_profile: Some(seccomp),
        ..PodSecurityContext::default()
    }
}

/// What `restricted` requires of each container.
fn restricted_container() -> SecurityContext {
    SecurityContext {
        allow_privilege_escalation: Some(false),
        capabilities: Some(Capabilities { add: None, drop: Some(vec!["ALL".to_owned()]) }),
        ..SecurityContext::default()
    }
}

fn volumes(request: &Request) -> Vec<Volume> {
    let claims = request.volumes.iter().enumerate().map(|(index, (claim, _))| Volume {
        name: format!("data-{index}"),
        persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
            claim_name: claim.clone(),
            read_only: None,
        }),
        ..Volume::default()
    });
    claims.collect()
}

fn mounts(request: &Request) -> Vec<VolumeMount> {
    let mounts = request.volumes.iter().enumerate().map(|(index, (_, path))| VolumeMount {
        name: format!("data-{index}"),
        mount_path: path.clone(),
        ..VolumeMount::default()
    });
    mounts.collect()
}

fn container(request: &Request, name: &str, mut env: Vec<EnvVar>) -> Container {
    env.retain(|preset| request.env.iter().all(|(name, _)| *name != preset.name));
    env.extend(request.env.iter().map(|(name, value)| variable(name, value)));
    Container {
        name: name.to_owned(),
        image: Some(request.image.clone()),
        // mpirun starts the ranks in the directory that it was started in.
        working_dir: request.workdir.clone(),
        env: Some(env).filter(|env| !env.is_empty()),
        volume_mounts: Some(mounts(request)).filter(|mounts| !mounts.is_empty()),
        security_context: request.restricted.then(restricted_container),
        ..Container::default()
    }
}

fn variable(name: &str, value: &str) -> EnvVar {
    EnvVar { name: name.to_owned(), value: Some(value.to_owned()), value_from: None }
}

fn launcher(request: &Request, slots: i32) -> Container {
    let ranks = i64::from(slots) * i64::from(request.workers);
    let command = launcher_command(request, Some(ranks), &[]);
    let resources =
        limited(&[("cpu", request.launcher_cpu.clone()), ("memory", request.launcher_memory.clone())]);
    Container { command: Some(command), resources, ..container(request, "launcher", as_root(request.mpi)) }
}

/// Many training images run as root, and Open MPI would refuse to start as root.
fn as_root(mpi: Mpi) -> Vec<EnvVar> {
    match mpi {
        Mpi::OpenMpi => {
            vec![variable("OMPI_ALLOW_RUN_AS_ROOT", "1"), variable("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]
        }
        Mpi::Intel | Mpi::Mpich => Vec::new(),
    }
}

/// The limits of a container. Only limits: requests default to them, and a container that can use more than it requested
/// harms its neighbours.
fn limited(amounts: &[(&str, Option<String>)]) -> Option<ResourceRequirements> {
    let given =
        amounts.iter().filter_map(|(name, amount)| Some(((*name).to_owned(), Quantity(amount.clone()?))));
    let limits: BTreeMap<String, Quantity> = given.collect();
    (!limits.is_empty())
        .then(|| ResourceRequirements { limits: Some(limits), ..ResourceRequirements::default() })
}

/// Whether the command is run as it is: once in the Launcher, or because it starts the ranks itself.
fn is_as_given(request: &Request) -> bool {
    request.in_launcher || starts_ranks(&request.command)
}

/// Puts `mpirun` and these options of its own before the command, unless the command is run as it is.
fn launcher_command(request: &Request, ranks: Option<i64>, options: &[String]) -> Vec<String> {
    if is_as_given(request) {
        return request.command.clone();
    }
    let mut command = vec!["mpirun".to_owned()];
    command.extend((!request.untagged).then(|| request.mpi.tag_option().to_owned()));
    command.extend(options.iter().cloned());
    if let Some(option) = request.mpi.forward_option() {
        command.extend(request.env.iter().flat_map(|(name, _)| [option.to_owned(), name.clone()]));
    }
    if let (Some(option), Some(ranks)) = (request.mpi.count_option(), ranks) {
        command.extend([option.to_owned(), ranks.to_string()]);
    }
    command.extend(request.command.iter().cloned());
    command
}

fn worker(request: &Request) -> Container {
    Container { resources: limited(&worker_amounts(request)), ..container(request, "worker", Vec::new()) }
}

fn worker_amounts(request: &Request) -> [(&'static str, Option<String>); 3] {
    let gpus = request.gpus.filter(|gpus| *gpus > 0).map(|gpus| gpus.to_string());
    [("cpu", request.cpu.clone()), ("memory", request.memory.clone()), (NVIDIA_GPU, gpus)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Request {
        Request {
            name: "digits".to_owned(),
            workers: 4,
            image: "img".to_owned(),
            command: ["python", "/train.py"].map(str::to_owned).to_vec(),
            ..Request::default()
        }
    }

    fn command_of(request: &Request) -> String {
        let job = build(request).unwrap();
        job.spec.mpi_replica_specs[LAUNCHER].template.spec.as_ref().unwrap().containers[0]
            .command
            .clone()
            .unwrap()
            .join(" ")
    }

    #[test]
    fn every_rank_runs_the_command() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let env = vec![("A".to_owned(), "1".to_owned())];
        let table = [
            (request(), "mpirun --tag-output python /train.py"),
            (Request { untagged: true, ..request() }, "mpirun python /train.py"),
            (Request { env: env.clone(), ..request() }, "mpirun --tag-output -x A python /train.py"),
            (
                Request { mpi: Mpi::Mpich, gpus: Some(2), ..request() },
                "mpirun -prepend-rank -n 8 python /train.py",
            ),
            (Request { command: words("/opt/bin/mpirun -np 2 a"), ..request() }, "/opt/bin/mpirun -np 2 a"),
            (
                Request {
                    command: vec!["bash".into(), "-c".into(), "cd /x && mpiexec a".into()],
                    ..request()
                },
                "bash -c cd /x && mpiexec a",
            ),
            (Request { in_launcher: true, ..request() }, "python /train.py"),
        ];
        for (request, command) in table {
            assert_eq!(command_of(&request), command);
        }
    }

    #[test]
    fn resources_and_slots_follow_the_flags() {
        let job = build(&Request {
            gpus: Some(2),
            memory: Some("16Gi".into()),
            queue: Some("q".into()),
            ..request()
        })
        .unwrap();
        assert_eq!(job.spec.slots_per_worker, Some(2));
        let worker = &job.spec.mpi_replica_specs[WORKER].template.spec.as_ref().unwrap().containers[0];
        let limits = worker.resources.as_ref().unwrap().limits.as_ref().unwrap();
        assert_eq!(limits[NVIDIA_GPU].0, "2");
        assert_eq!(limits["memory"].0, "16Gi");
        assert_eq!(job.metadata.labels.unwrap()[LABEL_QUEUE], "q");
    }

    #[test]
    fn a_failure_is_not_repeated_and_an_ended_job_holds_nothing_unless_asked_for() {
        let policy = |request: &Request| build(request).unwrap().spec.run_policy.unwrap();
        let plain = policy(&request());
        assert_eq!((plain.clean_pod_policy.as_deref(), plain.backoff_limit), (Some("Running"), Some(0)));
        let asked = policy(&Request { clean_pod_policy: Some("None".into()), retries: Some(6), ..request() });
        assert_eq!((asked.clean_pod_policy.as_deref(), asked.backoff_limit), (Some("None"), Some(6)));
    }

    #[test]
    fn a_job_depends_on_no_default_of_the_operator() {
        let launch = |request: &Request| {
            build(request).unwrap().metadata.annotations.unwrap().remove(ANNOTATION_LAUNCH).unwrap()
        };
        let job = build(&request()).unwrap();
        assert_eq!(job.spec.launcher_creation_policy.as_deref(), Some("WaitForWorkersReady"));
        assert_eq!(launch(&request()), "agent");
        let ssh = Request { transport: Some(Launch::Ssh), ..request() };
        assert_eq!(launch(&ssh), "ssh");
        let annotations = BTreeMap::from([(ANNOTATION_LAUNCH.to_owned(), "agent".to_owned())]);
        assert_eq!(launch(&Request { annotations, ..ssh }), "agent", "the annotation wins");
    }

    #[test]
    fn pods_meet_the_standard_restricted_only_where_that_is_asked_for() {
        let job = build(&Request { restricted: true, ..request() }).unwrap();
        for role in [LAUNCHER, WORKER] {
            let pod = serde_json::to_value(&job.spec.mpi_replica_specs[role].template.spec).unwrap();
            assert_eq!(
                pod["securityContext"],
                serde_json::json!({ "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } })
            );
            assert_eq!(
                pod["containers"][0]["securityContext"],
                serde_json::json!({ "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } })
            );
        }
        assert!(!serde_json::to_string(&build(&request()).unwrap()).unwrap().contains("securityContext"));
    }

    #[test]
    fn all_faults_of_a_request_are_reported_at_once() {
        let bad = Request {
            workers: 0,
            command: vec![],
            cpu: Some("four".into()),
            memory: Some("16m".into()),
            slots: Some(0),
            env: vec![("1A".into(), String::new())],
            image: String::new(),
            volumes: vec![("data".into(), "data".into())],
            ..request()
        };
        let Err(Error::Invalid { faults }) = build(&bad) else { panic!("it has faults") };
        let flags: Vec<_> = faults.iter().map(|fault| fault.path.as_str()).collect();
        assert_eq!(flags, ["image", "command", "workers", "slots", "cpu", "memory", "env", "volumes"]);
    }

    #[test]
    fn a_variable_that_is_asked_for_replaces_the_one_of_the_same_name() {
        let root = ("OMPI_ALLOW_RUN_AS_ROOT".to_owned(), "0".to_owned());
        let job = build(&Request { env: vec![root], ..request() }).unwrap();
        let launcher = &job.spec.mpi_replica_specs[LAUNCHER].template.spec.as_ref().unwrap().containers[0];
        let env: Vec<_> =
            launcher.env.iter().flatten().map(|v| (v.name.as_str(), v.value.as_deref())).collect();
        assert_eq!(
            env,
            [("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", Some("1")), ("OMPI_ALLOW_RUN_AS_ROOT", Some("0"))]
        );
    }

    #[test]
    fn quantities_are_distinguished_from_other_text() {
        for good in ["1", "0.5", "500m", "16Gi", "1e3", "2G", "1."] {
            assert!(is_quantity(good), "{good}");
        }
        for bad in ["", "four", "16GB", "1.2.3", "-1", "Gi", "."] {
            assert!(!is_quantity(bad), "{bad}");
        }
    }
}
