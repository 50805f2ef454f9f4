//! Builds a job from the values that describe it, as flags, forms and programs supply them: [`build`] an
//! MPIJob, `trainjob` a TrainJob, `replicas` the kinds of the Training Operator, [`manifest`] any of them.
//!
//! The input is a [`Request`]. The output is a job as one would write it by hand, with only what was
//! requested and the defaults below, or all faults of the request at once. The same request gives the same
//! job in every interface, and nothing in it depends on the defaults of the operator that reconciles it.
//! [`read`] goes the other way, and [`edit`] changes a manifest that a person wrote.

mod edit;
mod faults;
mod fields;
mod mend;
mod pod;
mod read;
mod replicas;
mod request;
mod trainjob;
mod variables;

use std::collections::BTreeMap;

use api::{
    ANNOTATION_LAUNCH, ANNOTATION_MAX_GANG_RESTARTS, ANNOTATION_STALL_TIMEOUT, ANNOTATION_START_TIMEOUT,
    ANNOTATION_WORKER_FAILURE, LAUNCHER, MPIJob, MPIJobSpec, ReplicaSpec, RunPolicy, SchedulingPolicy,
    WORKER,
};
use k8s_openapi::api::core::v1::{Container, EnvVar};
use kube::api::ObjectMeta;
use plan::starts_ranks;
pub use plan::{Implementation as Mpi, Launch};
use semantics::NVIDIA_GPU;
pub(crate) use trainjob::LOCAL;

use serde_json::Value;

use crate::kind::LABEL_QUEUE;
use crate::{Error, Fault, Kind};

pub use edit::edit;
pub(crate) use faults::fault;
pub use faults::is_quantity;
pub use fields::{from_fields, to_fields};
pub(crate) use mend::mended;
pub(crate) use pod::restricted_container;
use pod::{resources, some_map, template, text_var};
pub(crate) use read::BACKOFF_LIMIT_OF_A_JOB;
pub use read::{read, read_mpijob};
pub use request::{Failures, Mount, Part, Placement, Request, Source, Variable, VariableValue};

/// What a request that does not say it means for the pods of a job that has ended.
pub const DEFAULT_CLEAN_PODS: &str = "Running";
/// What a request that does not say it means for a Launcher that failed.
pub const DEFAULT_RETRIES: i32 = 0;

/// How the Launcher reaches the Workers unless a request names another transport. It works in every image,
/// without sshd and without root.
pub const DEFAULT_TRANSPORT: Launch = Launch::Agent;
/// When the Launcher is created: a name that it asks DNS for before the Workers have one is remembered as
/// unknown for up to 30 seconds.
pub const LAUNCHER_CREATION: &str = "WaitForWorkersReady";

/// Builds the job that the request describes.
///
/// # Errors
/// [`Error::Invalid`] with every fault visible in the request itself; the paths are the names of its fields.
pub fn build(request: &Request) -> Result<MPIJob, Error> {
    let faults = faults(request);
    if !faults.is_empty() {
        return Err(Error::Invalid { faults });
    }
    Ok(assemble(request))
}

/// The manifest of the job that the request describes, of any kind, whatever is wrong with it.
pub fn manifest(request: &Request) -> Value {
    let job = match request.kind {
        Kind::MpiJob => serde_json::to_value(assemble(request)),
        Kind::TrainJob => serde_json::to_value(trainjob::assemble(request)),
        Kind::PyTorchJob | Kind::TfJob => return replicas::assemble(request),
    };
    // What is made of texts and numbers can always be written.
    job.unwrap_or_default()
}

/// Everything that is wrong with a request, of any kind, as far as the request itself shows it.
pub fn faults(request: &Request) -> Vec<Fault> {
    match request.kind {
        Kind::MpiJob => faults::without_image(request).into_iter().chain(faults::faults(request)).collect(),
        Kind::TrainJob => trainjob::faults(request),
        Kind::PyTorchJob | Kind::TfJob => replicas::faults(request),
    }
}

/// What a form begins with: empty what a person has to fill in.
pub fn blank(kind: Kind) -> Request {
    Request { kind, workers: 2, ..Request::default() }
}

pub(crate) fn assemble(request: &Request) -> MPIJob {
    let replicas = BTreeMap::from([
        (
            LAUNCHER.to_owned(),
            Box::new(ReplicaSpec {
                replicas: Some(1),
                template: template(request, &request.launcher, launcher(request)),
                // With OnFailure, Kubernetes deletes the pod and its output when the Job gives up.
                restart_policy: request.launcher.restart_policy.clone().or_else(|| Some("Never".to_owned())),
            }),
        ),
        (
            WORKER.to_owned(),
            Box::new(ReplicaSpec {
                replicas: Some(request.workers),
                template: template(request, &request.worker, worker(request)),
                restart_policy: request.worker.restart_policy.clone(),
            }),
        ),
    ]);
    let spec = MPIJobSpec {
        slots_per_worker: Some(slots(request)),
        mpi_implementation: Some(request.mpi.name().to_owned()),
        run_policy: Some(run_policy(request)),
        launcher_creation_policy: Some(LAUNCHER_CREATION.to_owned()),
        mpi_replica_specs: replicas,
        ..MPIJobSpec::default()
    };
    let mut metadata = metadata(request);
    let annotations = metadata.annotations.get_or_insert_default();
    for (name, value) in policies(request) {
        annotations.entry(name.to_owned()).or_insert(value);
    }
    MPIJob { metadata, spec, status: None }
}

/// The annotations that fields of a request are written as. An annotation that the request has itself wins.
fn policies(request: &Request) -> Vec<(&'static str, String)> {
    let Failures { worker_failure, max_gang_restarts, start_timeout, stall_timeout } = &request.failures;
    let transport = transport_name(request.transport.unwrap_or(DEFAULT_TRANSPORT));
    let policies = [
        (ANNOTATION_LAUNCH, Some(transport.to_owned())),
        (ANNOTATION_WORKER_FAILURE, worker_failure.clone()),
        (ANNOTATION_MAX_GANG_RESTARTS, max_gang_restarts.map(|restarts| restarts.to_string())),
        (ANNOTATION_START_TIMEOUT, start_timeout.clone()),
        (ANNOTATION_STALL_TIMEOUT, stall_timeout.clone()),
    ];
    policies.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// The GPUs of each Worker, of any vendor.
fn gpus(request: &Request) -> i32 {
    let of_others = request.worker.limits.iter().filter(|(name, _)| semantics::is_gpu(name));
    let counted = of_others.filter_map(|(_, amount)| amount.parse::<i32>().ok());
    let nvidia = request.gpus.and_then(|gpus| i32::try_from(gpus).ok());
    counted.chain(nvidia).fold(0, i32::saturating_add)
}

/// The value of the annotation for a transport.
pub fn transport_name(transport: Launch) -> &'static str {
    match transport {
        Launch::Ssh => "ssh",
        Launch::Agent => "agent",
    }
}

pub(crate) fn metadata(request: &Request) -> ObjectMeta {
    let mut labels = request.labels.clone();
    labels.extend(request.queue.iter().map(|queue| (LABEL_QUEUE.to_owned(), queue.clone())));
    ObjectMeta {
        name: Some(request.name.clone()),
        namespace: request.namespace.clone(),
        labels: some_map(&labels),
        annotations: some_map(&request.annotations),
        ..ObjectMeta::default()
    }
}

fn run_policy(request: &Request) -> RunPolicy {
    let clean_pods = request.clean_pod_policy.as_deref().unwrap_or(DEFAULT_CLEAN_PODS);
    RunPolicy {
        clean_pod_policy: Some(clean_pods.to_owned()),
        active_deadline_seconds: request.deadline_seconds,
        backoff_limit: Some(request.retries.unwrap_or(DEFAULT_RETRIES)),
        suspend: request.suspend.then_some(true),
        ttl_seconds_after_finished: request.ttl_seconds,
        scheduling_policy: request
            .min_available
            .map(|pods| SchedulingPolicy { min_available: Some(pods), ..SchedulingPolicy::default() }),
        ..RunPolicy::default()
    }
}

/// The slots of each Worker.
fn slots(request: &Request) -> i32 {
    request.slots.unwrap_or_else(|| gpus(request).max(1))
}

fn ranks(request: &Request) -> i64 {
    i64::from(slots(request)) * i64::from(request.workers)
}

fn launcher(request: &Request) -> Container {
    let amounts = [("cpu", request.launcher_cpu.clone()), ("memory", request.launcher_memory.clone())];
    Container {
        name: "launcher".to_owned(),
        command: Some(launcher_command(request, Some(ranks(request)), &[])),
        env: Some(as_root(request.mpi)),
        resources: resources(&amounts, &request.launcher),
        ..Container::default()
    }
}

/// Many training images run as root, and Open MPI would refuse to start as root.
fn as_root(mpi: Mpi) -> Vec<EnvVar> {
    match mpi {
        Mpi::OpenMpi => {
            vec![text_var("OMPI_ALLOW_RUN_AS_ROOT", "1"), text_var("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]
        }
        Mpi::Intel | Mpi::Mpich => Vec::new(),
    }
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
        command.extend(request.env.iter().flat_map(|variable| [option.to_owned(), variable.name.clone()]));
    }
    if let (Some(option), Some(ranks)) = (request.mpi.count_option(), ranks) {
        command.extend([option.to_owned(), ranks.to_string()]);
    }
    command.extend(request.command.iter().cloned());
    command
}

fn worker(request: &Request) -> Container {
    Container {
        name: "worker".to_owned(),
        resources: resources(&worker_amounts(request), &request.worker),
        ..Container::default()
    }
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
        let env = vec![("A".to_owned(), "1".to_owned()).into()];
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
    fn a_role_has_what_is_different_for_it() {
        let text = |name: &str, value: &str| Variable::from((name.to_owned(), value.to_owned()));
        let map = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
        let secret = |secret: &str, key: &str| VariableValue::SecretKey(secret.to_owned(), key.to_owned());
        let anywhere = Placement { node_selector: map("pool", "cpu"), ..Placement::default() };
        let job = build(&Request {
            env: vec![text("A", "1"), Variable { name: "TOKEN".to_owned(), value: secret("hub", "token") }],
            volumes: vec![Mount::claim("data", "/data"), Mount::claim("data", "/again")],
            worker: Part {
                image: Some("gpu:1".to_owned()),
                env: vec![text("A", "2")],
                volumes: vec![Mount::new(
                    "/dev/shm",
                    Source::Scratch { size: Some("1Gi".to_owned()), in_memory: true },
                )],
                limits: map("amd.com/gpu", "2"),
                requests: map("cpu", "1"),
                labels: map("tier", "gpu"),
                scheduling: Some(Placement { node_selector: map("pool", "gpu"), ..Placement::default() }),
                ..Part::default()
            },
            scheduling: anywhere,
            min_available: Some(3),
            failures: Failures { max_gang_restarts: Some(2), ..Failures::default() },
            ..request()
        })
        .unwrap();
        assert_eq!(job.spec.slots_per_worker, Some(2), "a rank for each GPU of any vendor");
        assert_eq!(job.metadata.annotations.unwrap()[ANNOTATION_MAX_GANG_RESTARTS], "2");
        let policy = job.spec.run_policy.unwrap().scheduling_policy.unwrap();
        assert_eq!(policy.min_available, Some(3));
        let pod = |role: &str| serde_json::to_value(&job.spec.mpi_replica_specs[role].template).unwrap();
        let (launcher, worker) = (pod(LAUNCHER), pod(WORKER));
        assert_eq!(launcher["spec"]["nodeSelector"]["pool"], "cpu");
        assert_eq!(launcher["spec"]["volumes"].as_array().unwrap().len(), 2, "a claim may be mounted twice");
        assert_eq!(
            worker,
            serde_json::json!({
                "metadata": { "labels": { "tier": "gpu" } },
                "spec": {
                    "nodeSelector": { "pool": "gpu" },
                    "containers": [{
                        "name": "worker",
                        "image": "gpu:1",
                        "env": [
                            { "name": "TOKEN", "valueFrom": { "secretKeyRef": { "name": "hub", "key": "token" } } },
                            { "name": "A", "value": "2" },
                        ],
                        "resources": { "limits": { "amd.com/gpu": "2" }, "requests": { "cpu": "1" } },
                        "volumeMounts": [
                            { "name": "data-0", "mountPath": "/data" },
                            { "name": "data-1", "mountPath": "/again" },
                            { "name": "data-2", "mountPath": "/dev/shm" },
                        ],
                    }],
                    "volumes": [
                        { "name": "data-0", "persistentVolumeClaim": { "claimName": "data" } },
                        { "name": "data-1", "persistentVolumeClaim": { "claimName": "data" } },
                        { "name": "data-2", "emptyDir": { "medium": "Memory", "sizeLimit": "1Gi" } },
                    ],
                },
            })
        );
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
            env: vec![("1A".to_owned(), String::new()).into()],
            image: String::new(),
            volumes: vec![Mount::claim("data", "data")],
            ..request()
        };
        let Err(Error::Invalid { faults }) = build(&bad) else { panic!("it has faults") };
        let flags: Vec<_> = faults.iter().map(|fault| fault.path.as_str()).collect();
        assert_eq!(flags, ["image", "command", "workers", "slots", "cpu", "memory", "env", "volumes"]);
    }

    #[test]
    fn a_variable_that_is_asked_for_replaces_the_one_of_the_same_name() {
        let root = ("OMPI_ALLOW_RUN_AS_ROOT".to_owned(), "0".to_owned()).into();
        let job = build(&Request { env: vec![root], ..request() }).unwrap();
        let launcher = &job.spec.mpi_replica_specs[LAUNCHER].template.spec.as_ref().unwrap().containers[0];
        let env: Vec<_> =
            launcher.env.iter().flatten().map(|v| (v.name.as_str(), v.value.as_deref())).collect();
        assert_eq!(
            env,
            [("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", Some("1")), ("OMPI_ALLOW_RUN_AS_ROOT", Some("0"))]
        );
    }
}
