//! The request that builds an MPIJob, recovered from the job: the reverse of [`build`](crate::build::build).
//!
//! A request is only returned if it builds this very job, with the same defaults. A job with more in it than a request
//! can say is [`Inexpressible`], with the fields that are too much.

use std::collections::BTreeMap;
use std::fmt;

use api::MPIJob;
use kube::api::DynamicObject;
use serde_json::Value;

use super::manifest;
use crate::Kind;
use crate::build::{BACKOFF_LIMIT_OF_A_JOB, Request, build, read_mpijob};
use crate::flat::flatten;
use crate::redaction::SHIPPED;

/// The maximum number of fields named.
const MAX_FIELDS: usize = 20;

/// What a request does not express of a job whose code was shipped by the Python SDK (`code=`) or by `odh` (`--sync`):
/// packed files would be unreadable in a command or a program.
const SHIPPED_CODE: &str = "the code that was shipped with it (ship its files again with code= in Python, or --sync on the command line)";

/// The fields of a job for which a request has no place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inexpressible {
    /// Their paths; or the job's kind if it is not an MPIJob; or its code if that was shipped with it.
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
    let found = read_mpijob(&job).ok_or_else(|| inexpressible("spec.mpiReplicaSpecs"))?;
    let env = [&found.env, &found.worker.env, &found.launcher.env];
    if env.into_iter().flatten().any(|variable| variable.name.starts_with(SHIPPED)) {
        return Err(inexpressible(SHIPPED_CODE));
    }
    let wanted = flat(&job);
    // Faults of a request are fields that it cannot have, such as a number of Workers below 1.
    let built = build(&found).map(|built| flat(&built)).unwrap_or_default();
    if built == wanted {
        return Ok(found);
    }
    let all = wanted.iter().chain(&built).map(|(path, _)| path);
    let mut fields: Vec<String> = all.filter(|path| built.get(*path) != wanted.get(*path)).cloned().collect();
    fields.sort_unstable();
    fields.dedup();
    fields.truncate(MAX_FIELDS);
    Err(Inexpressible { fields })
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;
    use crate::build::{Launch, Mount, Mpi, Part, Placement, Source, Variable, VariableValue};
    use api::WORKER;

    fn object(job: &MPIJob) -> DynamicObject {
        serde_json::from_value(serde_json::to_value(job).unwrap()).unwrap()
    }

    fn mounts() -> Vec<Mount> {
        let at = |path: &str, source: Source| Mount::new(path, source);
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
        let packed = Variable::from(("ODH_CODE_0".to_owned(), "H4sIAAAA".to_owned()));
        let shipped = build(&Request { env: vec![packed], ..wanted.clone() }).unwrap();
        let error = request(&object(&shipped)).unwrap_err().to_string();
        assert!(
            error.starts_with("only a manifest can express the code that was shipped with it"),
            "{error}"
        );
        assert!(error.contains("code=") && error.contains("--sync") && !error.contains("H4sI"), "{error}");
        assert!(request(&object(&build(&wanted).unwrap())).is_ok());
        let train: DynamicObject = serde_json::from_value(serde_json::json!({
            "apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": {"name": "a"}}))
        .unwrap();
        assert_eq!(request(&train).unwrap_err().to_string(), "only a manifest can express TrainJob");
    }
}
