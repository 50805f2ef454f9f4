//! Reads the request back out of a job: the reverse of [`manifest`](super::manifest).
//!
//! Fields of the job for which a request has no place are left out, so the request may build a smaller job.
//! Whether it does is for the caller to compare; [`edit`](super::edit()) carries the rest along.

use std::collections::BTreeMap;

use api::{
    ANNOTATION_LAUNCH, ANNOTATION_MAX_GANG_RESTARTS, ANNOTATION_STALL_TIMEOUT, ANNOTATION_START_TIMEOUT,
    ANNOTATION_WORKER_FAILURE, LAUNCHER, MPIJob, ReplicaSpec, RunPolicy, TrainJob, WORKER,
};
use k8s_openapi::api::core::v1::{
    Container, EnvVar, PodSpec, PodTemplateSpec, ResourceRequirements, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::ObjectMeta;
use plan::is_starter;
use semantics::NVIDIA_GPU;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::pod::{restricted_container, restricted_pod};
use super::{
    DEFAULT_CLEAN_PODS, DEFAULT_RETRIES, Failures, Launch, Mount, Mpi, Part, Placement, Request, Source,
    Variable, VariableValue, as_root, gpus, launcher_command, ranks, replicas, trainjob, transport_name,
};
use crate::Kind;
use crate::kind::LABEL_QUEUE;

/// The retries of a Kubernetes Job that does not set `backoffLimit`.
pub(crate) const BACKOFF_LIMIT_OF_A_JOB: i32 = 6;
/// The clean-up of a job that does not set `cleanPodPolicy`.
const CLEAN_PODS_IF_UNSET: &str = "None";
/// The restart policy that the builder writes.
const NEVER: &str = "Never";

/// Returns what a request can say of a manifest; nothing if it cannot be read as a job of its kind.
pub fn read(kind: Kind, manifest: &Value) -> Option<Request> {
    match kind {
        Kind::MpiJob => read_mpijob(&typed(manifest)?),
        Kind::TrainJob => Some(of_trainjob(&typed(manifest)?)),
        Kind::PyTorchJob | Kind::TfJob => of_replicas(kind, manifest),
    }
}

fn typed<T: DeserializeOwned>(value: &Value) -> Option<T> {
    serde_json::from_value(value.clone()).ok()
}

/// The same for an MPIJob.
pub fn read_mpijob(job: &MPIJob) -> Option<Request> {
    let role = |name: &str| job.spec.mpi_replica_specs.get(name).map(|replicas| &**replicas);
    let (launcher, worker) = (role(LAUNCHER)?, role(WORKER)?);
    let mpi = match job.spec.mpi_implementation.as_deref() {
        Some("Intel") => Mpi::Intel,
        Some("MPICH") => Mpi::Mpich,
        _ => Mpi::OpenMpi,
    };
    let of_worker = Role::of(worker, &[])?;
    let of_launcher = Role::of(launcher, &as_root(mpi))?;
    let command = of_launcher.container.command.clone().unwrap_or_default();
    let request = with_policy(job.spec.run_policy.as_ref(), common(of_worker, Some(of_launcher)));
    let request = Request { mpi, workers: worker.replicas.unwrap_or(0), ..request };
    let request = with_metadata(&job.metadata, request);
    let slots = job.spec.slots_per_worker;
    let request = Request { slots: slots.filter(|slots| *slots != gpus(&request).max(1)), ..request };
    Some(with_command(command, request, &[]))
}

/// The same for the kinds of the Training Operator. Their Workers stand for all roles.
fn of_replicas(kind: Kind, manifest: &Value) -> Option<Request> {
    let spec = manifest.get("spec")?;
    let worker: ReplicaSpec = typed(spec.get(replicas::specs(kind))?.get(WORKER)?)?;
    let role = Role::of(&worker, &[])?;
    let words = [&role.container.command, &role.container.args];
    let command = words.into_iter().flatten().flatten().cloned().collect();
    let policy: Option<RunPolicy> = spec.get("runPolicy").and_then(typed);
    let metadata: ObjectMeta = typed(manifest.get("metadata")?)?;
    let request = with_policy(policy.as_ref(), common(role, None));
    let request = Request { kind, workers: worker.replicas.unwrap_or(1), command, ..request };
    Some(with_metadata(&metadata, request))
}

fn of_trainjob(job: &TrainJob) -> Request {
    let trainer = job.spec.trainer.clone().unwrap_or_default();
    let local = job.spec.runtime_ref.kind.as_deref() == Some("TrainingRuntime");
    let words = [trainer.command.as_ref(), trainer.args.as_ref()];
    let command: Vec<String> = words.into_iter().flatten().flatten().cloned().collect();
    let mpi = [Mpi::OpenMpi, Mpi::Mpich].into_iter().find(|mpi| {
        command.first().is_some_and(|word| is_starter(word))
            && command.iter().any(|word| word == mpi.tag_option())
    });
    let request = Request {
        kind: Kind::TrainJob,
        runtime: format!("{}{}", if local { trainjob::LOCAL } else { "" }, job.spec.runtime_ref.name),
        workers: trainer.num_nodes.unwrap_or(0),
        image: trainer.image.clone().unwrap_or_default(),
        slots: trainer.num_proc_per_node,
        mpi: mpi.unwrap_or_default(),
        env: variables(&trainer.env, &as_root(Mpi::OpenMpi)),
        volumes: trainjob::mounted(job)
            .map(|(volumes, mounts)| mounts_of(&volumes, &mounts))
            .unwrap_or_default(),
        deadline_seconds: job.spec.active_deadline_seconds,
        suspend: job.spec.suspend == Some(true),
        ..Request::default()
    };
    let request = with_metadata(&job.metadata, with_amounts(trainer.resources_per_node.as_ref(), request));
    with_command(command, request, &[Mpi::OpenMpi.directory_option(), Mpi::Mpich.directory_option()])
}

/// What a pod template says.
struct Role {
    container: Container,
    part: Part,
    restricted: bool,
    priority: Option<String>,
}

impl Role {
    /// Reads a role's template; variables that the builder sets by itself are left out.
    fn of(replicas: &ReplicaSpec, preset: &[EnvVar]) -> Option<Role> {
        let PodTemplateSpec { metadata, spec } = &replicas.template;
        let pod = spec.as_ref()?;
        let container = pod.containers.first()?.clone();
        let metadata = metadata.clone().unwrap_or_default();
        let resources = container.resources.clone().unwrap_or_default();
        let part = Part {
            image: container.image.clone(),
            env: variables(container.env.as_deref().unwrap_or_default(), preset),
            volumes: mounts_of(
                pod.volumes.as_deref().unwrap_or_default(),
                container.volume_mounts.as_deref().unwrap_or_default(),
            ),
            requests: amounts(resources.requests.as_ref()),
            limits: amounts(resources.limits.as_ref()),
            scheduling: Some(placement(pod)),
            labels: metadata.labels.unwrap_or_default(),
            annotations: metadata.annotations.unwrap_or_default(),
            restart_policy: replicas.restart_policy.clone().filter(|policy| policy != NEVER),
        };
        let restricted = pod.security_context.as_ref() == Some(&restricted_pod())
            && container.security_context.as_ref() == Some(&restricted_container());
        Some(Role { restricted, priority: pod.priority_class_name.clone(), part, container })
    }
}

/// What both roles have is the job's; what one has alone is that role's.
fn common(worker: Role, launcher: Option<Role>) -> Request {
    let (restricted, priority) = (worker.restricted, worker.priority);
    let workdir = worker.container.working_dir.clone();
    let mut own = worker.part;
    let other = launcher.as_ref().map(|launcher| &launcher.part);
    let is_shared = |variable: &Variable| other.is_none_or(|other| other.env.contains(variable));
    let (env, of_worker): (Vec<_>, Vec<_>) = own.env.drain(..).partition(is_shared);
    own.env = of_worker;
    let shared = match other {
        Some(other) => own.volumes.iter().zip(&other.volumes).take_while(|(a, b)| a == b).count(),
        None => own.volumes.len(),
    };
    let rest = own.volumes.split_off(shared);
    let volumes = std::mem::replace(&mut own.volumes, rest);
    let scheduling = own.scheduling.take().unwrap_or_default();
    let image = own.image.take().unwrap_or_default();
    let restricted = restricted && launcher.as_ref().is_none_or(|launcher| launcher.restricted);
    let mut request =
        Request { image, env, volumes, scheduling, restricted, priority, workdir, ..Request::default() };
    if let Some(Role { mut part, .. }) = launcher {
        part.env.retain(|variable| !request.env.contains(variable));
        part.volumes = part.volumes.split_off(shared.min(part.volumes.len()));
        part.image = part.image.filter(|image| *image != request.image);
        part.scheduling = part.scheduling.filter(|scheduling| *scheduling != request.scheduling);
        request.launcher_cpu = part.limits.remove("cpu");
        request.launcher_memory = part.limits.remove("memory");
        request.launcher = part;
    }
    let limits = std::mem::take(&mut own.limits);
    request.worker = own;
    with_limits(limits, request)
}

/// The Workers' limits: those with fields of their own, and the others.
fn with_limits(mut limits: BTreeMap<String, String>, mut request: Request) -> Request {
    request.cpu = limits.remove("cpu");
    request.memory = limits.remove("memory");
    if let Some(gpus) = limits.get(NVIDIA_GPU).and_then(|gpus| gpus.parse().ok()) {
        request.gpus = Some(gpus);
        limits.remove(NVIDIA_GPU);
    }
    request.worker.limits = limits;
    request
}

fn with_amounts(resources: Option<&ResourceRequirements>, mut request: Request) -> Request {
    let Some(resources) = resources else { return request };
    request.worker.requests = amounts(resources.requests.as_ref());
    with_limits(amounts(resources.limits.as_ref()), request)
}

fn with_policy(policy: Option<&RunPolicy>, request: Request) -> Request {
    let policy = policy.cloned().unwrap_or_default();
    let clean_pods = policy.clean_pod_policy.unwrap_or_else(|| CLEAN_PODS_IF_UNSET.to_owned());
    let retries = policy.backoff_limit.unwrap_or(BACKOFF_LIMIT_OF_A_JOB);
    Request {
        clean_pod_policy: Some(clean_pods).filter(|pods| pods != DEFAULT_CLEAN_PODS),
        deadline_seconds: policy.active_deadline_seconds,
        retries: Some(retries).filter(|retries| *retries != DEFAULT_RETRIES),
        ttl_seconds: policy.ttl_seconds_after_finished,
        suspend: policy.suspend == Some(true),
        min_available: policy.scheduling_policy.and_then(|policy| policy.min_available),
        ..request
    }
}

/// The names, and what labels and annotations say that has a field.
fn with_metadata(metadata: &ObjectMeta, request: Request) -> Request {
    let mut labels = metadata.labels.clone().unwrap_or_default();
    let queue = labels.remove(LABEL_QUEUE);
    let mut annotations = metadata.annotations.clone().unwrap_or_default();
    let (mut transport, mut failures) = (None, Failures::default());
    if request.kind == Kind::MpiJob {
        transport = annotations.remove(ANNOTATION_LAUNCH);
        failures = Failures {
            worker_failure: annotations.remove(ANNOTATION_WORKER_FAILURE),
            max_gang_restarts: number(&mut annotations, ANNOTATION_MAX_GANG_RESTARTS),
            start_timeout: annotations.remove(ANNOTATION_START_TIMEOUT),
            stall_timeout: annotations.remove(ANNOTATION_STALL_TIMEOUT),
        };
    }
    let ssh = transport_name(Launch::Ssh);
    if let Some(other) = transport.clone().filter(|name| name != ssh && name != transport_name(Launch::Agent))
    {
        annotations.insert(ANNOTATION_LAUNCH.to_owned(), other);
    }
    Request {
        name: metadata.name.clone().unwrap_or_default(),
        namespace: metadata.namespace.clone(),
        transport: (transport.as_deref() == Some(ssh)).then_some(Launch::Ssh),
        failures,
        labels,
        annotations,
        queue,
        ..request
    }
}

/// Takes a number out of annotations; a text that is not one stays.
fn number(annotations: &mut BTreeMap<String, String>, name: &str) -> Option<i32> {
    let number = annotations.get(name)?.parse().ok()?;
    annotations.remove(name);
    Some(number)
}

fn amounts(amounts: Option<&BTreeMap<String, Quantity>>) -> BTreeMap<String, String> {
    amounts.into_iter().flatten().map(|(name, amount)| (name.clone(), amount.0.clone())).collect()
}

/// The variables, those of texts first, as a request has them.
fn variables(env: &[EnvVar], preset: &[EnvVar]) -> Vec<Variable> {
    let (texts, others): (Vec<_>, Vec<_>) = env
        .iter()
        .filter(|variable| !preset.contains(variable))
        .partition(|variable| variable.value_from.is_none());
    let text = texts
        .into_iter()
        .map(|variable| Variable::from((variable.name.clone(), variable.value.clone().unwrap_or_default())));
    let other = others.into_iter().filter_map(|variable| {
        let from = variable.value_from.as_ref()?;
        let value = match (&from.secret_key_ref, &from.config_map_key_ref) {
            (Some(secret), None) => VariableValue::SecretKey(secret.name.clone(), secret.key.clone()),
            (None, Some(map)) => VariableValue::ConfigMapKey(map.name.clone(), map.key.clone()),
            _ => return None,
        };
        Some(Variable { name: variable.name.clone(), value })
    });
    text.chain(other).collect()
}

/// The volumes of a pod, each with the path at which the container mounts it.
fn mounts_of(volumes: &[Volume], mounts: &[VolumeMount]) -> Vec<Mount> {
    let mounted = |name: &str| mounts.iter().find(|mount| mount.name == name);
    volumes.iter().filter_map(|volume| mount(volume, mounted(&volume.name)?)).collect()
}

fn mount(volume: &Volume, mount: &VolumeMount) -> Option<Mount> {
    let source = if let Some(claim) = &volume.persistent_volume_claim {
        let (read_only, sub_path) = (mount.read_only == Some(true), mount.sub_path.clone());
        Source::Claim { claim: claim.claim_name.clone(), read_only, sub_path }
    } else if let Some(secret) = &volume.secret {
        Source::Secret(secret.secret_name.clone()?)
    } else if let Some(map) = &volume.config_map {
        Source::ConfigMap(map.name.clone())
    } else {
        let space = volume.empty_dir.as_ref()?;
        let size = space.size_limit.as_ref().map(|size| size.0.clone());
        Source::Scratch { size, in_memory: space.medium.as_deref() == Some("Memory") }
    };
    Some(Mount { path: mount.mount_path.clone(), source, volume: Some(volume.name.clone()) })
}

fn placement(pod: &PodSpec) -> Placement {
    Placement {
        node_selector: pod.node_selector.clone().unwrap_or_default(),
        tolerations: pod.tolerations.clone().unwrap_or_default(),
        affinity: pod.affinity.clone(),
        topology_spread: pod.topology_spread_constraints.clone().unwrap_or_default(),
        scheduler: pod.scheduler_name.clone(),
    }
}

/// The request whose command the builder turns into this one: without the `mpirun` that it puts before it, as it is
/// because it starts ranks itself, or as one that is to be left as it is.
fn with_command(command: Vec<String>, request: Request, directories: &[&str]) -> Request {
    let rest = after_options(&command, &request, directories);
    let bare = rest.map(|(rest, directory)| Request {
        command: rest.to_vec(),
        workdir: directory.or_else(|| request.workdir.clone()),
        ..request.clone()
    });
    // After an option that the builder does not write, the person wrote the `mpirun`.
    let bare = bare.filter(|bare| bare.command.first().is_none_or(|word| !word.starts_with('-')));
    // Without a tag and a program, nothing shows that the builder wrote it.
    let untagged = bare.clone().filter(|bare| !bare.command.is_empty());
    let untagged = untagged.map(|bare| Request { untagged: true, ..bare });
    let whole = Request { command: command.clone(), ..request };
    let in_launcher = Request { in_launcher: true, ..whole.clone() };
    let candidates = [bare, untagged, Some(whole)].into_iter().flatten();
    let makes_it = |candidate: &Request| {
        let (ranks, directory) = match candidate.kind {
            Kind::TrainJob => (trainjob::ranks(candidate), trainjob::directory(candidate)),
            _ => (Some(ranks(candidate)), Vec::new()),
        };
        launcher_command(candidate, ranks, &directory) == command
    };
    candidates.into_iter().find(makes_it).unwrap_or(in_launcher)
}

/// The words after `mpirun` and the options that the builder writes, and the directory among them.
fn after_options<'a>(
    command: &'a [String],
    request: &Request,
    directories: &[&str],
) -> Option<(&'a [String], Option<String>)> {
    let (first, mut rest) = command.split_first()?;
    if first != "mpirun" {
        return None;
    }
    let mut directory = None;
    let with_value = [request.mpi.forward_option(), request.mpi.count_option()];
    loop {
        match rest {
            [tag, after @ ..] if tag == request.mpi.tag_option() => rest = after,
            [option, value, after @ ..] if directories.contains(&option.as_str()) => {
                directory = Some(value.clone());
                rest = after;
            }
            [option, _, after @ ..] if with_value.contains(&Some(option.as_str())) => rest = after,
            _ => return Some((rest, directory)),
        }
    }
}
