//! The request that builds an MPIJob, recovered from the job: the reverse of [`build`](crate::build::build).
//!
//! A request is only returned if it builds this very job, with the same defaults. A job with more in it than a request
//! can say is [`Inexpressible`], with the fields that are too much.

use std::collections::BTreeMap;
use std::fmt;

use api::{ANNOTATION_LAUNCH, LAUNCHER, MPIJob, WORKER};
use k8s_openapi::api::core::v1::{Container, PodSpec, Volume, VolumeMount};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::DynamicObject;
use semantics::NVIDIA_GPU;
use serde_json::Value;

use super::manifest;
use crate::Kind;
use crate::build::{
    DEFAULT_CLEAN_PODS, DEFAULT_RETRIES, Launch, Mount, Mpi, Part, Placement, Request, Source, Variable,
    VariableValue, build, transport_name,
};
use crate::flat::flatten;
use crate::kind::LABEL_QUEUE;

/// The retries of a Kubernetes Job that does not set `backoffLimit`.
const BACKOFF_LIMIT_OF_A_JOB: i32 = 6;
/// The resources of a Worker that a request has fields for.
const OWN_FIELDS: [&str; 3] = ["cpu", "memory", NVIDIA_GPU];
/// The maximum number of fields named.
const MAX_FIELDS: usize = 20;

/// The fields of a job for which a request has no place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inexpressible {
    /// Their paths, or the job's kind if it is not an MPIJob.
    pub fields: Vec<String>,
}

impl fmt::Display for Inexpressible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "only a manifest can express {}", self.fields.join(", "))
    }
}

/// Returns the request that builds a job with the same spec, name, namespace, labels and annotations.
///
/// # Errors
/// [`Inexpressible`] if there is none.
pub fn request(object: &DynamicObject) -> Result<Request, Inexpressible> {
    let inexpressible = |field: &str| Inexpressible { fields: vec![field.to_owned()] };
    let kind = Kind::of(object);
    if kind != Kind::MpiJob {
        return Err(inexpressible(kind.name()));
    }
    let job: MPIJob = serde_json::from_value(manifest(object)).map_err(|_| inexpressible("spec"))?;
    let plain = plain(&job).ok_or_else(|| inexpressible("spec.mpiReplicaSpecs"))?;
    let wanted = flat(&job);
    let mut found = Err(Inexpressible { fields: Vec::new() });
    for request in with_commands(plain) {
        // Faults of a request are fields that it cannot have, such as a number of Workers below 1.
        let built = build(&request).map(|built| flat(&built)).unwrap_or_default();
        if built == wanted {
            return Ok(request);
        }
        let all = wanted.iter().chain(&built).map(|(path, _)| path);
        let mut fields: Vec<String> =
            all.filter(|path| built.get(*path) != wanted.get(*path)).cloned().collect();
        fields.sort_unstable();
        fields.dedup();
        fields.truncate(MAX_FIELDS);
        if found.as_ref().is_err_and(|known| known.fields.is_empty() || fields.len() < known.fields.len()) {
            found = Err(Inexpressible { fields });
        }
    }
    found
}

/// All fields of a job by their paths, with every default filled in.
fn flat(job: &MPIJob) -> BTreeMap<String, String> {
    let mut job = plan::defaulted(job);
    job.spec.run_policy.get_or_insert_default().backoff_limit.get_or_insert(BACKOFF_LIMIT_OF_A_JOB);
    let value = serde_json::to_value(job).unwrap_or_default();
    let mut fields = BTreeMap::new();
    for part in ["metadata", "spec"] {
        flatten(value.get(part).unwrap_or(&Value::Null), part, Kind::MpiJob, &mut fields);
    }
    fields
}

/// The request with the launcher's whole command.
fn plain(job: &MPIJob) -> Option<Request> {
    let pod = |role: &str| job.spec.mpi_replica_specs.get(role)?.template.spec.as_ref();
    let container = |role: &str| pod(role)?.containers.first();
    let worker = container(WORKER)?;
    let limits = worker.resources.as_ref().and_then(|resources| resources.limits.as_ref());
    let limit = |name: &str| limits.and_then(|limits| limits.get(name)).map(|amount| amount.0.clone());
    let launcher = container(LAUNCHER)?.resources.as_ref().and_then(|resources| resources.limits.as_ref());
    let of_launcher =
        |name: &str| launcher.and_then(|limits| limits.get(name)).map(|amount| amount.0.clone());
    let policy = job.spec.run_policy.clone().unwrap_or_default();
    let mut labels = job.metadata.labels.clone().unwrap_or_default();
    let queue = labels.remove(LABEL_QUEUE);
    let mut annotations = job.metadata.annotations.clone().unwrap_or_default();
    let transport = annotations.remove(ANNOTATION_LAUNCH);
    Some(Request {
        name: job.metadata.name.clone()?,
        namespace: job.metadata.namespace.clone(),
        workers: job.spec.mpi_replica_specs.get(WORKER)?.replicas.unwrap_or(0),
        image: worker.image.clone().unwrap_or_default(),
        command: container(LAUNCHER)?.command.clone().unwrap_or_default(),
        workdir: worker.working_dir.clone(),
        in_launcher: false,
        slots: job.spec.slots_per_worker,
        gpus: limit(NVIDIA_GPU).and_then(|gpus| gpus.parse().ok()),
        cpu: limit("cpu"),
        memory: limit("memory"),
        launcher_cpu: of_launcher("cpu"),
        launcher_memory: of_launcher("memory"),
        mpi: match job.spec.mpi_implementation.as_deref() {
            Some("Intel") => Mpi::Intel,
            Some("MPICH") => Mpi::Mpich,
            _ => Mpi::OpenMpi,
        },
        transport: (transport.as_deref() == Some(transport_name(Launch::Ssh))).then_some(Launch::Ssh),
        untagged: false,
        restricted: pod(WORKER)?.security_context.is_some(),
        env: env(worker),
        volumes: volumes(pod(WORKER)?, worker),
        worker: Part { limits: others(limits), ..Part::default() },
        scheduling: placement(pod(WORKER)?),
        labels,
        annotations,
        queue,
        priority: pod(WORKER)?.priority_class_name.clone(),
        clean_pod_policy: Some(policy.clean_pod_policy.unwrap_or_else(|| "None".to_owned()))
            .filter(|pods| pods != DEFAULT_CLEAN_PODS),
        deadline_seconds: policy.active_deadline_seconds,
        retries: Some(policy.backoff_limit.unwrap_or(BACKOFF_LIMIT_OF_A_JOB))
            .filter(|retries| *retries != DEFAULT_RETRIES),
        ttl_seconds: policy.ttl_seconds_after_finished,
        suspend: policy.suspend == Some(true),
        ..Request::default()
    })
}

/// The amounts that have no field of their own.
fn others(amounts: Option<&BTreeMap<String, Quantity>>) -> BTreeMap<String, String> {
    let amounts = amounts.into_iter().flatten();
    let others = amounts.filter(|(name, _)| !OWN_FIELDS.contains(&name.as_str()));
    others.map(|(name, amount)| (name.clone(), amount.0.clone())).collect()
}

/// The variables, those of texts first, as a request has them.
fn env(container: &Container) -> Vec<Variable> {
    let (texts, others): (Vec<_>, Vec<_>) =
        container.env.iter().flatten().partition(|variable| variable.value_from.is_none());
    let text = texts
        .into_iter()
        .filter_map(|variable| Some(Variable::from((variable.name.clone(), variable.value.clone()?))));
    let other = others.into_iter().filter_map(|variable| {
        let from = variable.value_from.as_ref()?;
        let secret = from.secret_key_ref.as_ref();
        let map = from.config_map_key_ref.as_ref();
        let value = match (secret, map) {
            (Some(secret), None) => VariableValue::SecretKey(secret.name.clone(), secret.key.clone()),
            (None, Some(map)) => VariableValue::ConfigMapKey(map.name.clone(), map.key.clone()),
            _ => return None,
        };
        Some(Variable { name: variable.name.clone(), value })
    });
    text.chain(other).collect()
}

/// The volumes of the pod, each with the path at which the container mounts it.
fn volumes(pod: &PodSpec, container: &Container) -> Vec<Mount> {
    let mounted = |name: &str| container.volume_mounts.iter().flatten().find(|mount| mount.name == name);
    let volumes = pod.volumes.iter().flatten();
    volumes.filter_map(|volume| mount(volume, mounted(&volume.name)?)).collect()
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
    Some(Mount { path: mount.mount_path.clone(), source })
}

/// What can be said of placement in a few words.
fn placement(pod: &PodSpec) -> Placement {
    let tolerations = pod.tolerations.iter().flatten();
    Placement {
        node_selector: pod.node_selector.clone().unwrap_or_default(),
        tolerations: tolerations.filter(|one| one.toleration_seconds.is_none()).cloned().collect(),
        ..Placement::default()
    }
}

/// The ways to request the same Launcher command: without the `mpirun` that is put before it, as it is because it
/// starts ranks itself, or as one that is to be left as it is.
fn with_commands(plain: Request) -> Vec<Request> {
    let bare = (0..plain.command.len()).rev().map(|skip| {
        let command = plain.command.iter().skip(skip + 1).cloned().collect();
        Request { command, ..plain.clone() }
    });
    // Only a command that begins with mpirun and its options can have got them put before it.
    let with_options = plain.command.first().is_some_and(|first| first == "mpirun");
    let options = 2 + plain.env.len() * 2 + 2;
    let bare: Vec<Request> = bare
        .filter(|request| with_options && plain.command.len() - request.command.len() <= options)
        .filter(|request| !request.command.is_empty())
        .flat_map(|request| [request.clone(), Request { untagged: true, ..request }])
        .collect();
    let whole = Request { in_launcher: true, ..plain.clone() };
    bare.into_iter().chain([plain, whole]).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    fn object(job: &MPIJob) -> DynamicObject {
        serde_json::from_value(serde_json::to_value(job).unwrap()).unwrap()
    }

    fn mounts() -> Vec<Mount> {
        let at = |path: &str, source: Source| Mount { path: path.to_owned(), source };
        let claim = Source::Claim { claim: "data".into(), read_only: true, sub_path: Some("run".to_owned()) };
        vec![
            Mount::claim("data", "/data"),
            Mount::claim("models", "/models"),
            at("/old", claim),
            at("/keys", Source::Secret("keys".to_owned())),
            at("/code", Source::ConfigMap("code".to_owned())),
            at("/dev/shm", Source::Scratch { size: Some("1Gi".to_owned()), in_memory: true }),
            at("/scratch", Source::Scratch { size: None, in_memory: false }),
        ]
    }

    fn requests() -> impl Strategy<Value = Request> {
        let word = select(vec!["python", "train.py", "--lr=0.1", "-n", "4", "", "a b", "it's", "-x", "A"]);
        let command = proptest::collection::vec(word.prop_map(str::to_owned), 1..5);
        let starter = select(vec!["", "mpirun", "/opt/mpiexec"]);
        let env =
            proptest::collection::vec((select(vec!["A", "LR", "-B"]), select(vec!["", "0.1", "x=y"])), 0..3);
        let amounts = (
            proptest::option::of(1..9_u32),
            proptest::option::of(select(vec!["500m", "4"])),
            proptest::option::of(select(vec!["16Gi", "1.5G"])),
        );
        let mpi = select(vec![Mpi::OpenMpi, Mpi::Intel, Mpi::Mpich]);
        let volumes = proptest::collection::vec(select(mounts()), 0..4);
        let references = select(vec![None, Some(("T", "s", "k"))]);
        let numbers = (
            proptest::option::of(1..5_i32),
            proptest::option::of(1..9999_i64),
            proptest::option::of(0..3_i32),
        );
        let texts = proptest::option::of(select(vec!["All", "Running", "None"]));
        let own = |pairs: Vec<(&str, &str)>| -> Vec<Variable> {
            pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()).into()).collect()
        };
        let map = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
        let lists = (env, references, volumes);
        (command, starter, lists, amounts, mpi, numbers, texts, any::<[bool; 4]>()).prop_map(
            move |(mut command, starter, lists, (gpus, cpu, memory), mpi, numbers, clean, flags)| {
                let (env, reference, volumes) = lists;
                let reference = reference.map(|(name, secret, key): (&str, &str, &str)| Variable {
                    name: name.to_owned(),
                    value: VariableValue::SecretKey(secret.to_owned(), key.to_owned()),
                });
                if !starter.is_empty() {
                    command.insert(0, starter.to_owned());
                }
                let (slots, deadline_seconds, retries) = numbers;
                Request {
                    name: "pi".to_owned(),
                    namespace: flags[0].then(|| "team".to_owned()),
                    workers: 4,
                    image: "registry:5000/train:1".to_owned(),
                    command,
                    workdir: flags[3].then(|| "/work".to_owned()),
                    in_launcher: flags[1],
                    slots,
                    gpus,
                    cpu: cpu.map(str::to_owned),
                    memory: memory.map(str::to_owned),
                    launcher_cpu: cpu.filter(|_| flags[1]).map(str::to_owned),
                    launcher_memory: memory.filter(|_| flags[2]).map(str::to_owned),
                    mpi,
                    transport: flags[0].then_some(Launch::Ssh),
                    untagged: flags[3],
                    restricted: flags[2],
                    env: own(env).into_iter().chain(reference).collect(),
                    volumes,
                    worker: Part {
                        limits: if flags[1] { map("amd.com/gpu", "2") } else { BTreeMap::new() },
                        ..Part::default()
                    },
                    scheduling: Placement {
                        node_selector: if flags[2] { map("pool", "gpu") } else { BTreeMap::new() },
                        ..Placement::default()
                    },
                    labels: BTreeMap::from([("team".to_owned(), "nlp".to_owned())]),
                    annotations: BTreeMap::new(),
                    queue: flags[2].then(|| "gpus".to_owned()),
                    priority: flags[2].then(|| "high".to_owned()),
                    clean_pod_policy: clean.map(str::to_owned),
                    deadline_seconds,
                    retries,
                    ttl_seconds: retries.filter(|_| flags[3]),
                    suspend: flags[3],
                    ..Request::default()
                }
            },
        )
    }

    proptest! {
        #[test]
        fn every_job_that_a_request_built_has_a_request_that_builds_it(wanted in requests()) {
            let job = build(&wanted).unwrap();
            // Mounting one claim twice gives two volumes of one claim that differ only in their names.
            let found = request(&object(&job)).unwrap();
            prop_assert_eq!(flat(&build(&found).unwrap()), flat(&job));
        }
    }

    #[test]
    fn what_a_request_cannot_say_is_named() {
        let wanted = Request {
            name: "pi".to_owned(),
            workers: 2,
            image: "i".to_owned(),
            command: vec!["train".to_owned()],
            ..Request::default()
        };
        let mut job = build(&wanted).unwrap();
        job.spec.launcher_creation_policy = None;
        let worker = job.spec.mpi_replica_specs.get_mut(WORKER).unwrap();
        worker.template.spec.as_mut().unwrap().host_network = Some(true);
        let error = request(&object(&job)).unwrap_err();
        assert_eq!(
            error.fields,
            ["spec.launcherCreationPolicy", "spec.mpiReplicaSpecs[Worker].template.spec.hostNetwork"]
        );
        let train: DynamicObject = serde_json::from_value(serde_json::json!({
            "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": {"name": "a"}}))
        .unwrap();
        assert_eq!(request(&train).unwrap_err().to_string(), "only a manifest can express TrainJob");
    }
}
