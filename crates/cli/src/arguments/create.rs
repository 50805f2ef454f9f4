//! `odh training create`: its flags, among them those that describe a job without a file.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use clap_complete::ArgValueCompleter;
use jobs::build::{Mount, Source};
use k8s_openapi::api::core::v1::Toleration;

use super::verbs::Ending;
use super::{Output, read_duration, read_pair};
use crate::job_names;
use crate::settings;

/// Which MPI an image holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum MpiFlavour {
    /// Open MPI 4 or 5
    #[default]
    #[value(name = "openmpi", aliases = ["OpenMPI", "open-mpi"])]
    OpenMpi,
    /// Intel MPI
    #[value(aliases = ["Intel", "impi"])]
    Intel,
    /// MPICH and its derivatives
    #[value(aliases = ["MPICH"])]
    Mpich,
}

/// How the Launcher reaches the Workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Transport {
    /// The launch agent
    Agent,
    /// ssh and sshd
    Ssh,
}

/// Whether to create for real.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DryRun {
    /// Validate locally and print what would be created
    Client,
    /// Have the server validate without creating anything
    Server,
}

/// Create a job.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  odh training create -f job.yaml                    from a file, which may hold several jobs
  odh training create -f jobs/                       from .yaml, .yml and .json files in a folder
  cat job.yaml | odh training create -f -            from standard input
  odh training create -f job.yaml --dry-run          report all errors, create nothing
  odh training create digits --workers 4 --image IMAGE -- python -m mpi4py train.py --epochs 10
  odh training create big --workers 8 --gpus 4 --image IMAGE --wait -- python -m mpi4py train.py
  odh training create trainjob digits --runtime openmpi --workers 4 -- python -m mpi4py train.py

odh runs the command after -- on every rank with mpirun, unless the command itself names mpirun or
mpiexec, or --in-launcher is given. With mpi4py, start the program with python -m mpi4py: an exception
in one rank then ends the job, while plain python would leave the other ranks waiting for it.

A TrainJob takes from its runtime what is not given here: the Workers' image and number, resources,
retries, clean-up. Its --image is that of the Launcher. In the runtimes that are shipped, the Launcher
is one of the Workers, and --cpu, --memory, --gpus and --env reach all of them; a runtime without
runLauncherAsNode gives them to the Launcher alone.")]
pub struct Create {
    /// Job name, for a job from flags; the kind mpijob or trainjob may stand before it
    #[arg(value_name = "NAME", conflicts_with = "file")]
    pub words: Vec<String>,
    /// YAML or JSON file, a folder of them, or - for standard input; repeatable
    #[arg(short, long = "file", visible_alias = "filename", value_name = "FILE")]
    pub file: Vec<PathBuf>,
    /// Validate without creating anything; --dry-run=server also asks the server
    #[arg(long, value_enum, value_name = "WHERE", hide_possible_values = true, num_args = 0..=1, require_equals = true, default_missing_value = "client")]
    pub dry_run: Option<DryRun>,
    /// Skip the checks of permissions, quota and free resources; the server still decides
    #[arg(long)]
    pub no_preflight: bool,
    /// What to do then.
    #[command(flatten)]
    pub ending: Ending,
    /// Output format: table, wide, json, yaml, name, jsonpath=…, custom-columns=…, jq=…
    #[arg(short, long, default_value_t = settings::output(), hide_default_value = true, hide_possible_values = true)]
    pub output: Output,
    /// The job, from flags.
    #[command(flatten)]
    pub flags: Flags,
}

/// The common case without a file.
#[derive(Debug, Args)]
#[command(next_help_heading = "The job, without a file")]
pub struct Flags {
    /// Job name, if not given as the first argument
    #[arg(long, conflicts_with = "file")]
    pub name: Option<String>,
    /// Runtime of a TrainJob: a ClusterTrainingRuntime, or trainingruntime/NAME for one of the namespace
    #[arg(long, conflicts_with = "file", value_name = "RUNTIME", add = ArgValueCompleter::new(job_names::runtimes))]
    pub runtime: Option<String>,
    /// Number of Workers
    #[arg(long, conflicts_with = "file", value_name = "N", allow_negative_numbers = true)]
    pub workers: Option<i32>,
    /// Image of Launcher and Workers; on a local cluster a name mapped with odh local up --image, or any
    /// other, e.g. local, to use this machine's programs
    #[arg(long, conflicts_with = "file")]
    pub image: Option<String>,
    /// Command as one string, split like a shell does; or put it after --
    #[arg(long, conflicts_with_all = ["file", "args"], value_name = "TEXT")]
    pub command: Option<String>,
    /// Directory in which the command starts, in every pod. On a local cluster, where pods see this
    /// machine's files, it defaults to the current directory if the command names a file in it
    #[arg(long, conflicts_with = "file", value_name = "DIR")]
    pub workdir: Option<String>,
    /// File or folder of this machine that travels with the job; the command starts beside it; repeatable.
    /// Of a folder, .env*, *.pem, .aws, .kube, .netrc and .ssh are left out
    #[arg(long, conflicts_with_all = ["file", "workdir"], value_name = "PATH")]
    pub sync: Vec<PathBuf>,
    /// Run the command unchanged and only in the Launcher, without mpirun
    #[arg(long, conflicts_with = "file")]
    pub in_launcher: bool,
    /// GPUs per Worker
    #[arg(long, conflicts_with = "file", value_name = "N")]
    pub gpus: Option<u32>,
    /// CPUs per Worker: 4, 0.5, 500m
    #[arg(long, conflicts_with = "file", value_name = "AMOUNT")]
    pub cpu: Option<String>,
    /// Memory per Worker: 512Mi, 16Gi
    #[arg(long, conflicts_with = "file", value_name = "AMOUNT")]
    pub memory: Option<String>,
    /// CPUs of the Launcher, which starts the ranks and runs none
    #[arg(long, conflicts_with = "file", value_name = "AMOUNT")]
    pub launcher_cpu: Option<String>,
    /// Memory of the Launcher
    #[arg(long, conflicts_with = "file", value_name = "AMOUNT")]
    pub launcher_memory: Option<String>,
    /// Ranks per Worker; defaults to the number of GPUs, or else 1
    #[arg(long, conflicts_with = "file", value_name = "N", allow_negative_numbers = true)]
    pub slots: Option<i32>,
    /// MPI implementation in the image: openmpi, intel, mpich
    #[arg(long, conflicts_with = "file", value_enum, hide_possible_values = true)]
    pub mpi: Option<MpiFlavour>,
    /// How the Launcher reaches the Workers: agent (the default; works in every image), or ssh, for
    /// which the image needs ssh and sshd
    #[arg(long, conflicts_with = "file", value_enum, hide_possible_values = true)]
    pub transport: Option<Transport>,
    /// Do not tag the ranks' output; without tags, odh training logs --rank finds no lines. Open MPI 4 loses a part of
    /// many lines that are printed at once and are shorter than its tag
    #[arg(long, conflicts_with = "file")]
    pub untagged: bool,
    /// Write the security context that the Pod Security Standard restricted requires; the default in a
    /// namespace that enforces it. The image's user must not be root
    #[arg(long, conflicts_with = "file")]
    pub restricted: bool,
    /// Environment variable for Launcher, Workers and ranks; repeatable
    #[arg(short, long, conflicts_with = "file", value_name = "NAME=VALUE", value_parser = read_pair)]
    pub env: Vec<(String, String)>,
    /// Persistent volume claim and its mount path; repeatable
    #[arg(long, conflicts_with = "file", value_name = "CLAIM:PATH", value_parser = read_claim)]
    pub pvc: Vec<(String, String)>,
    /// Environment variable with the value of a Secret's key: NAME=SECRET:KEY; repeatable
    #[arg(long, conflicts_with = "file", value_name = "KEY", value_parser = read_key)]
    pub env_secret: Vec<(String, String, String)>,
    /// Environment variable with the value of a ConfigMap's key: NAME=MAP:KEY; repeatable
    #[arg(long, conflicts_with = "file", value_name = "KEY", value_parser = read_key)]
    pub env_config_map: Vec<(String, String, String)>,
    /// Volume and its mount path, after those of --pvc: pvc/NAME[/FOLDER]:PATH[:ro],
    /// secret/NAME:PATH, configmap/NAME:PATH, scratch[/SIZE]:PATH, memory[/SIZE]:PATH (as for
    /// /dev/shm); repeatable
    #[arg(long, conflicts_with = "file", value_name = "WHAT:PATH", value_parser = read_mount)]
    pub mount: Vec<Mount>,
    /// Limit of any resource per Worker, e.g. amd.com/gpu=2; repeatable
    #[arg(long, conflicts_with = "file", value_name = "RESOURCE=AMOUNT", value_parser = read_pair)]
    pub limit: Vec<(String, String)>,
    /// Label that nodes must have: NAME=VALUE; repeatable
    #[arg(long, conflicts_with = "file", value_name = "LABEL", value_parser = read_pair)]
    pub node_selector: Vec<(String, String)>,
    /// Taint that the pods tolerate: KEY[=VALUE][:EFFECT]; repeatable
    #[arg(long, conflicts_with = "file", value_name = "TAINT", value_parser = read_toleration)]
    pub toleration: Vec<Toleration>,
    /// Any other field of the service's specification, e.g. launcher.image=IMAGE, worker.env.A=1,
    /// failures.workerFailure=restart or scheduling={...} as YAML; repeatable
    #[arg(long, conflicts_with = "file", value_name = "FIELD=VALUE", value_parser = read_pair)]
    pub set: Vec<(String, String)>,
    /// Label; repeatable
    #[arg(short, long, conflicts_with = "file", value_name = "NAME=VALUE", value_parser = read_pair)]
    pub label: Vec<(String, String)>,
    /// Annotation; repeatable
    #[arg(long, conflicts_with = "file", value_name = "NAME=VALUE", value_parser = read_pair)]
    pub annotation: Vec<(String, String)>,
    /// Kueue queue to submit to
    #[arg(long, conflicts_with = "file", value_name = "NAME")]
    pub queue: Option<String>,
    /// Priority class of the pods
    #[arg(long, conflicts_with = "file", value_name = "NAME")]
    pub priority: Option<String>,
    /// Pods to delete when the job has ended: None, Running, All; defaults to Running
    #[arg(long, conflicts_with = "file", value_name = "POLICY")]
    pub clean_pods: Option<String>,
    /// Fail the job if it runs longer than this: 30m, 8h
    #[arg(long, conflicts_with = "file", value_parser = read_duration, value_name = "TIME")]
    pub deadline: Option<Duration>,
    /// Number of retries of a failed Launcher; defaults to 0
    #[arg(long, conflicts_with = "file", value_name = "N")]
    pub retries: Option<i32>,
    /// Delete the job this long after its end: 30m, 8h; it is kept if not given
    #[arg(long, conflicts_with = "file", value_parser = read_duration, value_name = "TIME")]
    pub ttl: Option<Duration>,
    /// Create the job suspended; it starts when it is resumed
    #[arg(long, conflicts_with = "file")]
    pub suspend: bool,
    /// Command to run on every rank
    #[arg(last = true, conflicts_with = "file", value_name = "COMMAND")]
    pub args: Vec<String>,
}

fn read_claim(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((claim, path)) if !claim.is_empty() && path.starts_with('/') => {
            Ok((claim.to_owned(), path.to_owned()))
        }
        _ => Err("expected CLAIM:/PATH".to_owned()),
    }
}

fn read_key(text: &str) -> Result<(String, String, String), String> {
    let parts = text.split_once('=').and_then(|(name, rest)| Some((name, rest.split_once(':')?)));
    match parts {
        Some((name, (object, key))) if !name.is_empty() && !object.is_empty() && !key.is_empty() => {
            Ok((name.to_owned(), object.to_owned(), key.to_owned()))
        }
        _ => Err("expected NAME=OBJECT:KEY".to_owned()),
    }
}

fn read_mount(text: &str) -> Result<Mount, String> {
    let (what, path) = text.split_once(':').ok_or("expected WHAT:/PATH")?;
    if !path.starts_with('/') {
        return Err("expected WHAT:/PATH".to_owned());
    }
    let (path, read_only) = path.strip_suffix(":ro").map_or((path, false), |path| (path, true));
    let (kind, name) = what.split_once('/').map_or((what, None), |(kind, name)| (kind, Some(name)));
    let name = name.filter(|name| !name.is_empty()).map(str::to_owned);
    let source = match (kind, name) {
        ("pvc", Some(name)) => {
            let (claim, folder) =
                name.split_once('/').map_or((&*name, None), |(name, rest)| (name, Some(rest)));
            Source::Claim { claim: claim.to_owned(), read_only, sub_path: folder.map(str::to_owned) }
        }
        _ if read_only => {
            return Err(":ro is for a pvc; Secrets and ConfigMaps are read-only anyway".to_owned());
        }
        ("secret", Some(name)) => Source::Secret(name),
        ("configmap", Some(name)) => Source::ConfigMap(name),
        ("scratch", size) => Source::Scratch { size, in_memory: false },
        ("memory", size) => Source::Scratch { size, in_memory: true },
        ("pvc" | "secret" | "configmap", None) => return Err(format!("expected {kind}/NAME:/PATH")),
        _ => return Err(format!("\"{kind}\" is not one of pvc, secret, configmap, scratch and memory")),
    };
    Ok(Mount::new(path, source))
}

/// As in a taint: with a value it must be equal, without one any will do.
fn read_toleration(text: &str) -> Result<Toleration, String> {
    let (taint, effect) = text.rsplit_once(':').map_or((text, None), |(taint, effect)| (taint, Some(effect)));
    if effect.is_some_and(|effect| !EFFECTS.contains(&effect)) {
        return Err(format!("expected KEY[=VALUE][:EFFECT] with an effect among {}", EFFECTS.join(", ")));
    }
    let (key, value) = taint.split_once('=').map_or((taint, None), |(key, value)| (key, Some(value)));
    Ok(Toleration {
        key: Some(key.to_owned()).filter(|key| !key.is_empty()),
        operator: Some(if value.is_some() { "Equal" } else { "Exists" }.to_owned()),
        value: value.map(str::to_owned),
        effect: effect.map(str::to_owned),
        toleration_seconds: None,
    })
}

/// The effects of a taint.
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
