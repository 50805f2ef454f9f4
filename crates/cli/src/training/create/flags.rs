//! The job that the flags of `create` describe, and what they leave to the cluster.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jobs::Error;
use jobs::build::{
    Launch, Mount, Mpi, Part, Placement, Request, Variable, VariableValue, from_fields, to_fields,
};
use jobs::manifest::Step;
use jobs::reference::Reference;
use jobs::submit::{self, Draft};
use plan::starts_ranks;
use serde_json::Value;

use super::shell::words;
use crate::arguments::{Create, Flags, MpiFlavour, Transport, read_words};
use crate::connect::Connection;
use crate::console::Console;
use crate::failure::Failure;
use crate::training::sync;

/// What a job from flags depends on besides them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Surroundings {
    /// The directory in which the command starts.
    workdir: Option<String>,
    /// Whether the pods have to meet the Pod Security Standard `restricted`.
    restricted: bool,
    /// The MPI whose mpirun starts the ranks, if it is known.
    mpi: Option<Mpi>,
}

impl Surroundings {
    pub(super) fn of_flags(create: &Create) -> Surroundings {
        let mpi = create.flags.mpi.map(|mpi| match mpi {
            MpiFlavour::OpenMpi => Mpi::OpenMpi,
            MpiFlavour::Intel => Mpi::Intel,
            MpiFlavour::Mpich => Mpi::Mpich,
        });
        Surroundings { workdir: create.flags.workdir.clone(), restricted: create.flags.restricted, mpi }
    }
}

/// What the flags leave to the cluster: a local one sees this machine's files, a namespace may enforce `restricted`, and
/// a TrainJob's runtime has an MPI of its own.
pub(super) async fn surroundings(
    console: &Console,
    connection: &Connection,
    create: &Create,
) -> Result<Surroundings, Failure> {
    let flags = Surroundings::of_flags(create);
    let here = connection.local.as_ref().and_then(|_| own_program(console, create));
    let asks = !flags.restricted && create.flags.runtime.is_none();
    let enforced = asks && jobs::standard::is_restricted(&connection.client, &connection.namespace).await;
    let mpi = match (&flags.mpi, &create.flags.runtime) {
        (None, Some(runtime)) => {
            let asked = jobs::runtime::implementation(&connection.client, &connection.namespace, runtime);
            match asked.await {
                Ok(mpi) => mpi,
                Err(error @ jobs::Error::Invalid { .. }) => return Err(by_flag(error).into()),
                Err(error) => {
                    console.warn(&format!(
                        "the MPI of runtime {runtime} cannot be read ({error}), so ranks are started with Open MPI's options; \
                         choose others with --mpi"
                    ));
                    None
                }
            }
        }
        _ => flags.mpi,
    };
    Ok(Surroundings { workdir: flags.workdir.or(here), restricted: flags.restricted || enforced, mpi })
}

/// The current directory, if the command names a file in it and pods of the local cluster can see it.
fn own_program(console: &Console, create: &Create) -> Option<String> {
    let flags = &create.flags;
    if flags.workdir.is_some() || !flags.sync.is_empty() {
        return None;
    }
    let command = flags.command.as_deref().and_then(shlex::split).unwrap_or_else(|| flags.args.clone());
    let is_here = |word: &&String| {
        let path = Path::new(word.as_str());
        path.is_relative() && path.extension().is_some() && path.is_file()
    };
    let file = command.iter().find(is_here)?;
    let here = std::env::current_dir().ok()?;
    if PODS_OWN.iter().any(|own| here.starts_with(own)) {
        console.warn(&format!(
            "pods have a {} of their own and cannot see {file} in {}; move it elsewhere, or into a volume",
            here.components().take(2).collect::<PathBuf>().display(),
            here.display()
        ));
        return None;
    }
    console.note(&format!(
        "{file} is in {}, so the command starts there; choose another with --workdir",
        here.display()
    ));
    Some(here.display().to_string())
}

/// Directories of which every pod of a local cluster has its own.
const PODS_OWN: [&str; 2] = ["/tmp", "/var/run"];

pub(super) fn from_flags(create: &Create, around: &Surroundings) -> Result<Draft, Failure> {
    let (flags, workdir) = (&create.flags, around.workdir.clone());
    let (kind, mut named) = read_words(&create.words);
    named.extend(flags.name.iter().map(|name| Reference { kind, name: name.clone() }));
    if let Some(surplus) = named.get(1) {
        return Err(Failure::usage(
            format!("one name is expected, but \"{}\" follows it", surplus.name),
            "put the command after two dashes: -- python -m mpi4py train.py",
        ));
    }
    let job = named.pop();
    let kind = job.as_ref().and_then(|job| job.kind).or(kind);
    let name = job.map(|job| job.name);
    let needs_runtime = needs_runtime(kind, flags)?;
    let (second, example) = match needs_runtime {
        true => (
            (flags.runtime.is_none(), "--runtime"),
            "odh training create trainjob NAME --runtime openmpi --workers 4 -- python -m mpi4py train.py, or -f FILE",
        ),
        false => (
            (flags.image.is_none(), "--image"),
            "odh training create NAME --workers 4 --image IMAGE -- python -m mpi4py train.py, or -f FILE",
        ),
    };
    let missing: Vec<&str> = [(name.is_none(), "a name"), second]
        .iter()
        .filter_map(|(missing, what)| missing.then_some(*what))
        .collect();
    if !missing.is_empty() {
        return Err(Failure::usage(format!("a job needs {}", missing.join(" and ")), example));
    }
    let kind = match (kind, needs_runtime) {
        (_, true) => jobs::Kind::TrainJob,
        (kind, false) => kind.unwrap_or_default(),
    };
    let request = request(flags, kind, name.unwrap_or_default())?;
    let request = Request { mpi: around.mpi.unwrap_or_default(), ..request };
    // A directory that nobody asked for is no reason to refuse a command that starts the ranks itself.
    let as_given = flags.in_launcher || starts_ranks(&request.command);
    let workdir = workdir.filter(|_| flags.workdir.is_some() || !needs_runtime || !as_given);
    let request = sync::ship(&flags.sync, Request { workdir, restricted: around.restricted, ..request })?;
    submit::of_request(&with_settings(request, &flags.set)?).map_err(|error| by_flag(error).into())
}

/// The request with the fields of `--set`.
fn with_settings(request: Request, settings: &[(String, String)]) -> Result<Request, Failure> {
    if settings.is_empty() {
        return Ok(request);
    }
    let mut fields = to_fields(&request);
    for (path, text) in settings {
        // A text is what most fields take; numbers, switches and whole parts are YAML.
        let parsed = serde_saphyr::from_str(text).ok();
        let with = |value: Value| put(fields.clone(), path, value);
        let candidates: Vec<Value> =
            [Some(Value::from(text.as_str())), parsed].into_iter().flatten().map(with).collect();
        let found = candidates.iter().find(|fields| from_fields(fields).is_ok());
        let Some(found) = found.or(candidates.last()).cloned() else { continue };
        fields = found;
    }
    let read = from_fields(&fields).map_err(|fault| by_flag(Error::Invalid { faults: vec![fault] }));
    let (read, faults) = read?;
    if !faults.is_empty() {
        return Err(by_flag(Error::Invalid { faults }).into());
    }
    Ok(Request { namespace: request.namespace, ..read })
}

/// Puts a value at a path such as `worker.limits[amd.com/gpu]`.
fn put(mut fields: Value, path: &str, value: Value) -> Value {
    let mut at = &mut fields;
    for step in jobs::manifest::steps(path) {
        at = match step {
            Step::Index(index) if at.get(index).is_some() => &mut at[index],
            Step::Index(index) => &mut at[index.to_string()],
            Step::Key(key) => &mut at[key],
        };
    }
    *at = value;
    fields
}

/// Whether the flags describe a TrainJob, which needs a runtime.
fn needs_runtime(kind: Option<jobs::Kind>, flags: &Flags) -> Result<bool, Failure> {
    match kind {
        Some(jobs::Kind::TrainJob) => Ok(true),
        Some(_) if flags.runtime.is_some() => Err(Failure::usage(
            "--runtime is for a TrainJob",
            "use odh training create trainjob NAME --runtime …, or omit --runtime",
        )),
        Some(_) => Ok(false),
        None => Ok(flags.runtime.is_some()),
    }
}

/// Names the flags where the error names the fields of the request, which come from them.
fn by_flag(error: Error) -> Error {
    let Error::Invalid { mut faults } = error else { return error };
    for fault in &mut faults {
        match fault.path.as_str() {
            "command" => {
                fault.advice =
                    Some("put it after two dashes: -- python -m mpi4py train.py --epochs 10".to_owned());
            }
            "env" => fault.advice = Some("use --env NAME=VALUE".to_owned()),
            "volumes" | "volumes.size" => "mount".clone_into(&mut fault.path),
            "cleanPodPolicy" => "clean-pods".clone_into(&mut fault.path),
            "ttlSeconds" => "ttl".clone_into(&mut fault.path),
            "inLauncher" => "in-launcher".clone_into(&mut fault.path),
            path if path.starts_with("worker.limits.") => "limit".clone_into(&mut fault.path),
            path if path.contains(['.', '[']) => fault.path = format!("set {path}"),
            _ => {}
        }
        fault.path = format!("--{}", fault.path.replace('_', "-"));
    }
    Error::Invalid { faults }
}

fn request(flags: &Flags, kind: jobs::Kind, name: String) -> Result<Request, Failure> {
    let command = match &flags.command {
        Some(line) => words(line)?,
        None => flags.args.clone(),
    };
    let pairs = |pairs: &[(String, String)]| pairs.iter().cloned().collect::<BTreeMap<_, _>>();
    let claims = flags.pvc.iter().map(|(claim, path)| Mount::claim(claim, path));
    Ok(Request {
        kind,
        runtime: flags.runtime.clone().unwrap_or_default(),
        name,
        namespace: None,
        // A TrainJob's runtime has a number of its own.
        workers: flags.workers.unwrap_or(if kind == jobs::Kind::TrainJob { 0 } else { 1 }),
        image: flags.image.clone().unwrap_or_default(),
        command,
        workdir: flags.workdir.clone(),
        in_launcher: flags.in_launcher,
        slots: flags.slots,
        gpus: flags.gpus,
        cpu: flags.cpu.clone(),
        memory: flags.memory.clone(),
        launcher_cpu: flags.launcher_cpu.clone(),
        launcher_memory: flags.launcher_memory.clone(),
        transport: flags.transport.map(|transport| match transport {
            Transport::Ssh => Launch::Ssh,
            Transport::Agent => Launch::Agent,
        }),
        untagged: flags.untagged,
        env: environment(flags),
        volumes: claims.chain(flags.mount.iter().cloned()).collect(),
        worker: Part { limits: pairs(&flags.limit), ..Part::default() },
        scheduling: Placement {
            node_selector: pairs(&flags.node_selector),
            tolerations: flags.toleration.clone(),
            ..Placement::default()
        },
        labels: pairs(&flags.label),
        annotations: pairs(&flags.annotation),
        queue: flags.queue.clone(),
        priority: flags.priority.clone(),
        clean_pod_policy: flags.clean_pods.clone(),
        deadline_seconds: flags.deadline.and_then(|deadline| i64::try_from(deadline.as_secs()).ok()),
        retries: flags.retries,
        ttl_seconds: flags.ttl.and_then(|ttl| i32::try_from(ttl.as_secs()).ok()),
        suspend: flags.suspend,
        ..Request::default()
    })
}

/// The variables of texts, then those of Secrets and ConfigMaps.
fn environment(flags: &Flags) -> Vec<Variable> {
    let secrets = flags
        .env_secret
        .iter()
        .map(|(name, secret, key)| (name, VariableValue::SecretKey(secret.clone(), key.clone())));
    let maps = flags
        .env_config_map
        .iter()
        .map(|(name, map, key)| (name, VariableValue::ConfigMapKey(map.clone(), key.clone())));
    let others = secrets.chain(maps).map(|(name, value)| Variable { name: name.clone(), value });
    flags.env.iter().cloned().map(Variable::from).chain(others).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use jobs::build::Source;
    use k8s_openapi::api::core::v1::Toleration;

    use super::*;
    use crate::arguments::{Arguments, Command, TrainingVerb};

    #[test]
    fn an_exported_command_creates_the_same_job() {
        let plain = Request {
            name: "pi".to_owned(),
            workers: 4,
            image: "registry:5000/train:1".to_owned(),
            command: ["python", "it's", "", "a \"b\" c", "--", "-n"].map(str::to_owned).to_vec(),
            ..Request::default()
        };
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let of_key = |name: &str, value: VariableValue| Variable { name: name.to_owned(), value };
        let at = |path: &str, source: Source| Mount::new(path, source);
        let taint = |key: &str, value: Option<&str>, effect: Option<&str>| Toleration {
            key: Some(key.to_owned()),
            operator: Some(if value.is_some() { "Equal" } else { "Exists" }.to_owned()),
            value: value.map(str::to_owned),
            effect: effect.map(str::to_owned),
            toleration_seconds: None,
        };
        let full = Request {
            namespace: Some("team".to_owned()),
            workdir: Some("/work".to_owned()),
            slots: Some(3),
            gpus: Some(2),
            cpu: Some("500m".to_owned()),
            memory: Some("16Gi".to_owned()),
            launcher_cpu: Some("1".to_owned()),
            launcher_memory: Some("1Gi".to_owned()),
            mpi: Mpi::Mpich,
            transport: Some(Launch::Ssh),
            untagged: true,
            restricted: true,
            env: [pair("LR", "0.1"), pair("EMPTY", ""), pair("X", "a=b c")]
                .map(Variable::from)
                .into_iter()
                .chain([of_key("TOKEN", VariableValue::SecretKey("hub".into(), "token".into()))])
                .chain([of_key("MODE", VariableValue::ConfigMapKey("settings".into(), "mode".into()))])
                .collect(),
            volumes: vec![
                Mount::claim("data", "/data"),
                Mount::claim("models", "/a=b"),
                at("/keys", Source::Secret("keys".into())),
                at("/code", Source::ConfigMap("code".into())),
                at("/dev/shm", Source::Scratch { size: Some("1Gi".into()), in_memory: true }),
                at("/scratch", Source::Scratch { size: None, in_memory: false }),
                at(
                    "/old",
                    Source::Claim { claim: "data".into(), read_only: true, sub_path: Some("a/b".into()) },
                ),
            ],
            worker: Part { limits: BTreeMap::from([pair("amd.com/gpu", "2")]), ..Part::default() },
            scheduling: Placement {
                node_selector: BTreeMap::from([pair("pool", "gpu")]),
                tolerations: vec![taint("gpu", None, None), taint("gpu", Some("a"), Some("NoSchedule"))],
                ..Placement::default()
            },
            labels: BTreeMap::from([pair("team", "nlp"), pair("example.com/x", "")]),
            annotations: BTreeMap::from([pair("note", "two\nlines, 'quoted'")]),
            queue: Some("gpus".to_owned()),
            priority: Some("high".to_owned()),
            clean_pod_policy: Some("All".to_owned()),
            deadline_seconds: Some(5400),
            retries: Some(3),
            ttl_seconds: Some(3600),
            suspend: true,
            ..plain.clone()
        };
        let once = Request { in_launcher: true, ..plain.clone() };
        for wanted in [plain, full, once] {
            let job = jobs::build::build(&wanted).unwrap();
            let value = serde_json::to_value(&job).unwrap();
            let exported = jobs::export::request(&serde_json::from_value(value).unwrap()).unwrap();
            let line = jobs::export::shell(&jobs::export::command(&exported));
            let words = shlex::split(&line).unwrap();
            let arguments = Arguments::try_parse_from(words).unwrap();
            let Command::Training { verb: TrainingVerb::Create(create) } = arguments.command else {
                panic!("{line}")
            };
            let mut made = from_flags(&create, &Surroundings::of_flags(&create)).unwrap().job;
            made.metadata.namespace = arguments.global.namespace;
            assert_eq!(plan::defaulted(&made), plan::defaulted(&job), "{line}");
        }
    }
}
