//! `odh training …`: the verbs, their flags and their help.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use clap_complete::ArgValueCompleter;

use jiff::Timestamp;
use jobs::build::{Mount, Source};
use jobs::logs::{Level, sieve};
use jobs::pick::Order;
use k8s_openapi::api::core::v1::Toleration;
use regex::Regex;

use super::reports::{Advice, Audit, Capacity, NotificationVerb, Usage};
use super::target::{Kind, Several, Target, read_words};
use super::verbs::{
    Cancel, CloneJob, Compare, CopyFiles, Ending, Events, Exec, Explain, Export, PortForward, Preflight,
    Resume, Retry, Runtimes, Scale, SupportBundle, Suspend, TemplateVerb,
};
use super::{Output, read_duration, read_moment, read_pair};
use crate::job_names;
use crate::settings;

/// What to do with training jobs.
#[derive(Debug, Subcommand)]
pub enum TrainingVerb {
    /// Create a job from a file, standard input or flags
    Create(Box<Create>),
    /// Create what a file describes, or change what exists to match it
    Apply(Apply),
    /// Show what apply would change
    Diff(Diff),
    /// Show jobs in one line each, or as objects with -o
    Get(Get),
    /// List the jobs of a namespace
    #[command(visible_alias = "ls")]
    List(List),
    /// Show the details of a job: state, failure, pods, events
    Describe(Describe),
    /// Show a job's output
    Logs(Logs),
    /// Show the resource usage of jobs and their pods, live on a terminal
    Top(Top),
    /// Delete jobs and everything that belongs to them
    Delete(Delete),
    /// Wait until a job has ended; the exit code gives its result
    Wait(Wait),
    /// Explain why a job waits or has failed, who must act and what to do
    Explain(Explain),
    /// Show the events of a job and its pods
    Events(Events),
    /// Suspend jobs: delete their pods and keep the jobs
    Suspend(Suspend),
    /// Resume suspended jobs; they start from the beginning
    Resume(Resume),
    /// End jobs at once and keep their record and output
    Cancel(Cancel),
    /// Change the number of Workers
    Scale(Scale),
    /// Run jobs again, unchanged
    Retry(Retry),
    /// Create a job from another one, with changes
    Clone(CloneJob),
    /// Compare jobs, or the attempts of one job, side by side
    Compare(Compare),
    /// Print a job as a manifest that can be created again
    Export(Export),
    /// Run a command in one of a job's pods
    Exec(Exec),
    /// Copy files from or to one of a job's pods
    Cp(CopyFiles),
    /// Forward local ports to one of a job's pods
    PortForward(PortForward),
    /// List the runtimes that TrainJobs can name
    #[command(visible_alias = "runtime")]
    Runtimes(Runtimes),
    /// Keep job templates in the cluster and create jobs from them
    #[command(visible_alias = "template", arg_required_else_help = true)]
    Templates {
        /// What to do.
        #[command(subcommand)]
        verb: TemplateVerb,
    },
    /// Collect the state and logs of a job for support, without secrets
    SupportBundle(SupportBundle),
    /// Check permissions, quota and free resources before creating a job
    Preflight(Preflight),
    /// Diagnose a failed launch from its saved output, without a cluster
    Diagnose(Diagnose),
    /// Show what jobs used: GPU-hours, CPU-hours, memory and their costs
    Usage(Usage),
    /// Show what would fit on the nodes and in the queue, and when
    Capacity(Capacity),
    /// Show what programs should request, by what their former runs used
    Advice(Advice),
    /// Show who did what with jobs
    Audit(Audit),
    /// Notify people and programs of changes of jobs
    #[command(visible_alias = "notification", arg_required_else_help = true)]
    Notifications {
        /// What to do.
        #[command(subcommand)]
        verb: NotificationVerb,
    },
}

impl TrainingVerb {
    /// Returns the requested format.
    pub fn output(&self) -> Output {
        match self {
            TrainingVerb::Create(create) => create.output,
            TrainingVerb::Apply(apply) => apply.output,
            TrainingVerb::Get(get) => get.output,
            TrainingVerb::List(list) => list.output,
            TrainingVerb::Describe(describe) => describe.output,
            TrainingVerb::Logs(logs) => logs.output,
            TrainingVerb::Top(top) => top.output,
            TrainingVerb::Delete(delete) => delete.output,
            TrainingVerb::Wait(wait) => wait.output,
            TrainingVerb::Explain(explain) => explain.output,
            TrainingVerb::Events(events) => events.output,
            TrainingVerb::Suspend(suspend) => suspend.output,
            TrainingVerb::Resume(resume) => resume.output,
            TrainingVerb::Retry(retry) => retry.output,
            TrainingVerb::Clone(clone) => clone.making.output,
            TrainingVerb::Compare(compare) => compare.output,
            TrainingVerb::Export(export) => Output::of_a_manifest(export.output),
            TrainingVerb::Cancel(cancel) => cancel.output,
            TrainingVerb::Scale(scale) => scale.output,
            TrainingVerb::Diff(_)
            | TrainingVerb::Exec(_)
            | TrainingVerb::Cp(_)
            | TrainingVerb::PortForward(_)
            | TrainingVerb::SupportBundle(_) => Output::Table,
            TrainingVerb::Runtimes(runtimes) => runtimes.output,
            TrainingVerb::Templates { verb } => verb.output(),
            TrainingVerb::Preflight(preflight) => preflight.output,
            TrainingVerb::Diagnose(diagnose) => diagnose.output,
            TrainingVerb::Usage(usage) => usage.output,
            TrainingVerb::Capacity(capacity) => capacity.output,
            TrainingVerb::Advice(advice) => advice.output,
            TrainingVerb::Audit(audit) => audit.output,
            TrainingVerb::Notifications { verb } => verb.output(),
        }
    }
}

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

/// Create or change.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  odh training apply -f job.yaml
  odh training apply -f everything.yaml       ConfigMaps, claims and jobs, in this order
  odh training apply -f job.yaml --dry-run    have the server validate without changing anything

Objects are applied on the server's side, under the field manager odh. Most fields of a job cannot be
changed once it exists; its number of Workers, labels and annotations can.")]
pub struct Apply {
    /// YAML or JSON file, a folder of them, or - for standard input; repeatable
    #[arg(short, long = "file", visible_alias = "filename", value_name = "FILE", required = true)]
    pub file: Vec<PathBuf>,
    /// Have the server validate without changing anything
    #[arg(long)]
    pub dry_run: bool,
    /// Take over fields that another program manages
    #[arg(long)]
    pub force_conflicts: bool,
    /// Output format: table, wide, json, yaml, name
    #[arg(short, long, default_value_t = settings::output(), hide_default_value = true, hide_possible_values = true)]
    pub output: Output,
}

/// Show what apply would change.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  odh training diff -f job.yaml
  odh training diff -f job.yaml --exit-code || echo it differs")]
pub struct Diff {
    /// YAML or JSON file, a folder of them, or - for standard input; repeatable
    #[arg(short, long = "file", visible_alias = "filename", value_name = "FILE", required = true)]
    pub file: Vec<PathBuf>,
    /// End with exit code 1 if anything differs
    #[arg(long)]
    pub exit_code: bool,
}

/// Show jobs.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  odh training get pi
  odh training get @latest
  odh training get pi -o yaml
  odh training get pi -o jsonpath='{.status.phase}'
  odh training get pi -o jq='.status.conditions[] | select(.status == \"True\") | .type'
  odh training get pi --watch")]
pub struct Get {
    /// Which jobs.
    #[command(flatten)]
    pub several: Several,
    /// Watch one job until it has ended: redrawn on a terminal, else one line per change
    #[arg(short, long)]
    pub watch: bool,
    /// Output format: table, wide, json, yaml, name, jsonpath=…, custom-columns=…, jq=…
    #[arg(short, long, default_value_t = settings::output(), hide_default_value = true, hide_possible_values = true)]
    pub output: Output,
}

/// Show the jobs of a namespace.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  odh training list
  odh training list -A -o wide
  odh training list -l team=vision -o name
  odh training list --status failed,pending --since 2d
  odh training list --sort age --watch
  odh training list -o custom-columns=NAME:.metadata.name,PHASE:.status.phase")]
pub struct List {
    /// Job kind: mpijob, trainjob, pytorchjob, tfjob; all kinds if not given
    #[arg(value_enum, ignore_case = true, hide_possible_values = true)]
    pub kind: Option<Kind>,
    /// List across all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,
    /// Only jobs with these labels, e.g. team=vision,stage!=test
    #[arg(short = 'l', long, value_name = "LABELS")]
    pub selector: Option<String>,
    /// Only jobs in these states: Pending, Running, Succeeded, Failed, Deleting, or a reason like Suspended
    #[arg(short, long, value_name = "STATES", value_delimiter = ',')]
    pub status: Vec<String>,
    /// Only jobs created since: 90m, 2d, 2026-01-31, 2026-01-31T12:00:00Z
    #[arg(long, value_name = "WHEN", value_parser = read_moment)]
    pub since: Option<Timestamp>,
    /// Only jobs created before this time
    #[arg(long, value_name = "WHEN", value_parser = read_moment)]
    pub until: Option<Timestamp>,
    /// Sort by COLUMN: name (A to Z), state (failed first), workers (most first), runtime (longest first),
    /// age (newest first); defaults to namespace and name
    #[arg(long, value_enum, value_name = "COLUMN", hide_possible_values = true)]
    pub sort: Option<Sort>,
    /// Reverse the order
    #[arg(long)]
    pub reverse: bool,
    /// Watch the jobs: redrawn on a terminal, else one line per change
    #[arg(short, long)]
    pub watch: bool,
    /// Output format: table, wide, json, yaml, name, jsonpath=…, custom-columns=…, jq=…
    #[arg(short, long, default_value_t = settings::output(), hide_default_value = true, hide_possible_values = true)]
    pub output: Output,
}

/// By what a list is sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// By name, whatever the namespace
    Name,
    /// In this order: failed, pending, running, succeeded
    State,
    /// Most Workers first
    Workers,
    /// Longest first
    Runtime,
    /// Newest first
    #[value(alias = "created")]
    Age,
}

impl From<Sort> for Order {
    fn from(sort: Sort) -> Order {
        match sort {
            Sort::Name => Order::Name,
            Sort::State => Order::State,
            Sort::Workers => Order::Workers,
            Sort::Runtime => Order::Runtime,
            Sort::Age => Order::Age,
        }
    }
}

/// Show all about a job.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  odh training describe pi

For why it waits or has failed, and what to do: odh training explain pi")]
pub struct Describe {
    /// Which jobs.
    #[command(flatten)]
    pub several: Several,
    /// Output format: table, wide, json, yaml, name, jsonpath=…, custom-columns=…, jq=…; json and yaml print a List of the job and its pods
    #[arg(short, long, default_value_t = settings::output(), hide_default_value = true, hide_possible_values = true)]
    pub output: Output,
}

/// Show a job's output.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  odh training logs pi                 the Launcher's output, which includes all ranks
  odh training logs pi -f              follow it until the job has ended
  odh training logs pi --worker 0-3,7  the output of these Workers, merged by time
  odh training logs pi --all --tail 20 --timestamps
  odh training logs pi --grep 'loss=|Error' --exclude DEBUG -C 2
  odh training logs pi --rank 3        the output of rank 3
  odh training logs pi --fold          what ranks write alike, once
  odh training logs pi --all --level warning -C 3
  odh training logs pi --all --state Failed
  odh training logs pi --failed        the last lines of what failed
  odh training logs pi --attempt 1     the end of an earlier attempt, even when its pods are gone
  odh training logs pi --all -o json   one object per line: {\"pod\", \"time\", \"line\", …}

The server applies --tail and --since before --grep, --exclude and --level filter the lines.")]
#[command(group(ArgGroup::new("search").args(["grep", "level"]).multiple(true)))]
pub struct Logs {
    /// Which job.
    #[command(flatten)]
    pub target: Target,
    /// Show what these Workers wrote themselves, instead of the Launcher's output, which has the output of
    /// all ranks: 2, or 0-3,7
    #[arg(short, long, value_name = "NUMBERS", value_parser = read_indices)]
    pub worker: Option<Indices>,
    /// Show the Launcher and all Workers
    #[arg(short, long, conflicts_with = "worker")]
    pub all: bool,
    /// Only lines of these ranks: 3, or 0-3,7. An mpirun of your own must tag lines with their rank:
    /// --tag-output, or -prepend-rank with MPICH and Intel MPI
    #[arg(short, long, value_name = "NUMBERS", value_parser = read_indices, conflicts_with_all = ["worker", "all"])]
    pub rank: Option<Indices>,
    /// Only pods in these states now: Running, Failed, Error, Pending, …
    #[arg(long, value_name = "STATES", value_delimiter = ',')]
    pub state: Vec<String>,
    /// Show lines that several ranks or pods write alike at about the same time once
    #[arg(long)]
    pub fold: bool,
    /// Follow the output, and wait for pods that have not started
    #[arg(short, long)]
    pub follow: bool,
    /// Only lines newer than this: 30s, 10m
    #[arg(long, value_parser = read_duration, value_name = "TIME")]
    pub since: Option<Duration>,
    /// Only the last N lines of each pod; with --rank or --worker, of those that these ranks wrote
    #[arg(long, value_name = "N")]
    pub tail: Option<u32>,
    /// Print a timestamp before each line
    #[arg(long)]
    pub timestamps: bool,
    /// Show the previous run of a restarted container
    #[arg(short, long)]
    pub previous: bool,
    /// Show the end of the Launcher's output of this attempt; its record outlives its pods
    #[arg(long, value_name = "N", conflicts_with_all = ["worker", "all", "follow", "previous"])]
    pub attempt: Option<u32>,
    /// Show only the last lines of the rank or the Launcher that failed
    #[arg(long, conflicts_with_all = ["worker", "all", "follow", "previous", "attempt", "rank"])]
    pub failed: bool,
    /// Show the lines that launch agents and MPI's starters write themselves, too
    #[arg(long)]
    pub agent: bool,
    /// Container; defaults to the first
    #[arg(short, long, value_name = "NAME")]
    pub container: Option<String>,
    /// Only lines that match this regular expression, highlighted on a terminal
    #[arg(short, long, value_name = "PATTERN", value_parser = read_pattern)]
    pub grep: Option<Regex>,
    /// Omit lines that match this regular expression
    #[arg(long, value_name = "PATTERN", value_parser = read_pattern)]
    pub exclude: Option<Regex>,
    /// Only lines that are marked with this level or a higher one: debug, info, warning, error
    #[arg(long, value_name = "LEVEL")]
    pub level: Option<Level>,
    /// Highlight what matches this regular expression, without filtering lines
    #[arg(long, value_name = "PATTERN", value_parser = read_pattern)]
    pub highlight: Option<Regex>,
    /// Show N lines of the same pod before and after each match of --grep and --level
    #[arg(short = 'C', long, value_name = "N", requires = "search")]
    pub around: Option<usize>,
    /// Output format: table, or json for one object per line
    #[arg(short, long, default_value_t = settings::output(), hide_default_value = true, hide_possible_values = true)]
    pub output: Output,
}

/// Parses a regular expression in the syntax of the regex crate; a leading `(?i)` ignores case.
fn read_pattern(text: &str) -> Result<Regex, String> {
    sieve::pattern(text, false)
}

/// Indices of Workers or ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Indices(pub Vec<i32>);

/// The maximum number of indices in a range; a larger one is taken for a typing error.
const MAX_INDICES: usize = 10_000;

/// Parses `0-3,7`.
fn read_indices(text: &str) -> Result<Indices, String> {
    let wrong = || "expected a number, or ranges like 0-3,7".to_owned();
    let number = |part: &str| part.trim().parse::<u16>().map(i32::from).map_err(|_| wrong());
    let mut found = Vec::new();
    for part in text.split(',') {
        match part.split_once('-') {
            Some((from, to)) => {
                let (from, to) = (number(from)?, number(to)?);
                if from > to {
                    return Err(wrong());
                }
                found.extend(from..=to);
            }
            None => found.push(number(part)?),
        }
        if found.len() > MAX_INDICES {
            return Err(format!("selects more than {MAX_INDICES} Workers or ranks"));
        }
    }
    found.sort_unstable();
    found.dedup();
    Ok(Indices(found))
}

/// Show what jobs use.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  odh training top                         live: jobs, and pods and output of the selected one
  odh training top digits --once    print a table of its pods once
  odh training top -o json | jq '.items[] | select(.gpus > 0) | .name'

CPU and memory come from the metrics API (metrics.k8s.io); without it, they are shown as -.
GPUs are those allocated to the pods, whether they use them or not.")]
pub struct Top {
    /// Show only these jobs, with their pods: NAME, KIND NAME or KIND/NAME; a KIND alone shows its jobs
    #[arg(value_name = "JOB", add = ArgValueCompleter::new(job_names::candidates))]
    pub words: Vec<String>,
    /// Show jobs of all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,
    /// Only jobs with these labels, e.g. team=vision,stage!=test
    #[arg(short = 'l', long, value_name = "LABELS")]
    pub selector: Option<String>,
    /// Sort by COLUMN: name, cpu, memory, gpus
    #[arg(long, value_enum, default_value_t = TopSort::Name, value_name = "COLUMN", hide_possible_values = true)]
    pub sort: TopSort,
    /// Print one table and exit, even on a terminal
    #[arg(long)]
    pub once: bool,
    /// Refresh interval
    #[arg(long, value_parser = read_duration, value_name = "TIME", default_value = "2s")]
    pub interval: Duration,
    /// Output format: table, json, yaml, name, jsonpath=…, custom-columns=…, jq=…
    #[arg(short, long, default_value_t = settings::output(), hide_default_value = true, hide_possible_values = true)]
    pub output: Output,
}

impl Top {
    /// The kind of the jobs to show; all kinds if not given.
    pub fn kind(&self) -> Option<jobs::Kind> {
        let (kind, named) = read_words(&self.words);
        kind.or_else(|| named.first()?.kind)
    }

    /// The names of the jobs to show; all jobs if empty.
    pub fn names(&self) -> Vec<String> {
        read_words(&self.words).1.into_iter().map(|job| job.name).collect()
    }
}

/// By what `top` sorts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TopSort {
    /// By namespace and name
    Name,
    /// Highest CPU usage first
    Cpu,
    /// Highest memory usage first
    Memory,
    /// Most GPUs first
    Gpus,
}

impl TopSort {
    /// Returns the option's spelling.
    pub fn word(self) -> &'static str {
        match self {
            TopSort::Name => "name",
            TopSort::Cpu => "cpu",
            TopSort::Memory => "memory",
            TopSort::Gpus => "gpus",
        }
    }
}

/// Delete jobs.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  odh training delete pi               asks for confirmation on a terminal
  odh training delete pi pi-2 --yes
  odh training delete -l sweep=7 --yes
  odh training delete --status succeeded,failed --older-than 7d --yes
  odh training delete stuck --yes --force")]
pub struct Delete {
    /// Which jobs.
    #[command(flatten)]
    pub several: Several,
    /// Don't ask for confirmation; required without a terminal
    #[arg(short, long)]
    pub yes: bool,
    /// Kill the pods without a grace period; unsaved work is lost
    #[arg(long)]
    pub force: bool,
    /// Don't wait until everything is deleted
    #[arg(long)]
    pub no_wait: bool,
    /// How long to wait until everything is deleted
    #[arg(long, value_parser = read_duration, value_name = "TIME", default_value = "60s")]
    pub timeout: Duration,
    /// Output format: table, wide, json, yaml, name, jsonpath=…, custom-columns=…, jq=…
    #[arg(short, long, default_value_t = settings::output(), hide_default_value = true, hide_possible_values = true)]
    pub output: Output,
}

/// Wait until a job has ended.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  odh training wait pi && echo it worked
  odh training wait pi --timeout 10m || echo \"ended with $?\"
  odh training wait pi tau                   both; the exit code is that of the worst end
  odh training wait -l sweep=7 --any         the first of them

Exit codes: 0 succeeded, 100 failed, 103 cancelled or deleted, 8 still running at the timeout,
5 refused by the cluster for two minutes.")]
pub struct Wait {
    /// Which jobs.
    #[command(flatten)]
    pub several: Several,
    /// End with the first of several jobs that ends, instead of the last
    #[arg(long)]
    pub any: bool,
    /// Stop waiting after this long (exit code 8): 30s, 10m, 2h
    #[arg(long, value_parser = read_duration, value_name = "TIME")]
    pub timeout: Option<Duration>,
    /// Exit with the Launcher's exit code; with -o json, the error's reason tells it from odh's own codes
    #[arg(long)]
    pub propagate_exit_code: bool,
    /// Output format: table, wide, json, yaml, name, jsonpath=…, custom-columns=…, jq=…
    #[arg(short, long, default_value_t = settings::output(), hide_default_value = true, hide_possible_values = true)]
    pub output: Output,
}

/// Diagnose a saved output.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  odh training diagnose launcher.log --exit-code 137
  kubectl logs pi-launcher-x7k2p | odh training diagnose - --exit-code 1 -o json
  odh training diagnose launcher.log --still-running --silent-for 300

-o json prints one object; its cause is null if nothing failed. The exit code is 0 whenever the file
could be read.")]
pub struct Diagnose {
    /// File with the output of mpirun or mpiexec, both stdout and stderr, or - for standard input
    pub file: PathBuf,
    /// Exit code of the Launcher
    #[arg(long, value_name = "N", conflicts_with = "still_running", allow_negative_numbers = true)]
    pub exit_code: Option<i32>,
    /// The Launcher is still running
    #[arg(long)]
    pub still_running: bool,
    /// How long it has printed nothing: 90, 5m
    #[arg(long, value_parser = read_duration, value_name = "SECONDS", requires = "still_running")]
    pub silent_for: Option<Duration>,
    /// Output format: table, json, yaml, name, jsonpath=…, jq=…
    #[arg(short, long, default_value_t = settings::output(), hide_default_value = true, hide_possible_values = true)]
    pub output: Output,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_workers_are_parsed() {
        assert_eq!(read_indices("0-3,7"), Ok(Indices(vec![0, 1, 2, 3, 7])));
        assert_eq!(read_indices("2,2,1"), Ok(Indices(vec![1, 2])));
        for wrong in ["", "a", "3-1", "1-", "-1"] {
            assert!(read_indices(wrong).is_err(), "{wrong}");
        }
    }
}
