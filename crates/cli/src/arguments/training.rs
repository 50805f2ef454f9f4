//! `odh training …`: the verbs, their flags and their help.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use clap_complete::ArgValueCompleter;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use jobs::pick::{self, Order};
use regex::Regex;

use super::target::{Kind, Target};
use super::verbs::{
    CloneJob, Compare, Ending, Events, Exec, Explain, Export, Preflight, Resume, Retry, Several,
    SupportBundle, Suspend, TemplateVerb,
};
use super::{Output, read_duration};
use crate::job_names;
use crate::settings;

/// What to do with training jobs.
#[derive(Debug, Subcommand)]
pub enum TrainingVerb {
    /// Create a job from a file, from standard input, or from flags
    Create(Box<Create>),
    /// Show one job in a line, or as the object that it is
    Get(Get),
    /// Show the jobs of a namespace
    #[command(visible_alias = "ls")]
    List(List),
    /// Show all there is to know about a job: state, failure, pods, events
    Describe(Describe),
    /// Show a job's output
    Logs(Logs),
    /// Show what jobs and their pods use, live on a terminal
    Top(Top),
    /// Delete jobs and everything that belongs to them
    Delete(Delete),
    /// Wait until a job has ended, and tell by the exit code how
    Wait(Wait),
    /// Say where a job stands: what it waits for or why it failed, who must act, what to do
    Explain(Explain),
    /// Show the events of a job and its pods: what the cluster says that it did with them
    Events(Events),
    /// Hold jobs back: their pods go, the jobs stay
    Suspend(Suspend),
    /// Let suspended jobs start again, from their beginning
    Resume(Resume),
    /// Run jobs again as they were
    Retry(Retry),
    /// Make a job from another, with changes
    Clone(CloneJob),
    /// Put jobs, or the attempts at one, side by side
    Compare(Compare),
    /// Print a job as a manifest that can be created again
    Export(Export),
    /// Run a command in one of a job's pods
    Exec(Exec),
    /// Keep manifests in the cluster and make jobs from them
    #[command(visible_alias = "template", arg_required_else_help = true)]
    Templates {
        /// What to do.
        #[command(subcommand)]
        verb: TemplateVerb,
    },
    /// Collect what somebody else needs to understand a job, without secrets
    SupportBundle(SupportBundle),
    /// Check before creating: may I, is there quota, is there room
    Preflight(Preflight),
    /// Find out from a saved output why a launch failed; asks no cluster
    Diagnose(Diagnose),
}

impl TrainingVerb {
    /// Returns the requested format.
    pub fn output(&self) -> Output {
        match self {
            TrainingVerb::Create(create) => create.output,
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
            TrainingVerb::Exec(_) | TrainingVerb::SupportBundle(_) => Output::Table,
            TrainingVerb::Templates { verb } => verb.output(),
            TrainingVerb::Preflight(preflight) => preflight.output,
            TrainingVerb::Diagnose(diagnose) => diagnose.output,
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
    /// MPICH and its kin
    #[value(aliases = ["MPICH"])]
    Mpich,
}

/// Whether to create for real.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DryRun {
    /// Check here, print what would be created, ask no server
    Client,
    /// Let the server check and create nothing
    Server,
}

/// Create a job.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  odh training create -f job.yaml                    from a file; several jobs in one file are fine
  odh training create -f jobs/                       from every .yaml, .yml and .json of a folder
  cat job.yaml | odh training create -f -            from standard input
  odh training create -f job.yaml --dry-run          say all that is wrong, create nothing
  odh training create mpijob digits --workers 4 --image IMAGE -- python train.py --epochs 10
  odh training create mpijob big --workers 8 --gpus 4 --image IMAGE --wait -- python train.py

The command after -- runs on every rank: mpirun is put before it, unless it names mpirun or
mpiexec itself or --in-launcher is given.")]
pub struct Create {
    /// The kind of job: mpijob; not needed with --file
    #[arg(value_enum, required_unless_present = "file", hide_possible_values = true)]
    pub kind: Option<Kind>,
    /// The job's name
    #[arg(value_name = "NAME", conflicts_with = "file")]
    pub positional_name: Option<String>,
    /// A YAML or JSON file, a folder of them, or - for standard input; may be given more than once
    #[arg(short, long = "file", visible_alias = "filename", value_name = "FILE")]
    pub file: Vec<PathBuf>,
    /// Only check, and create nothing; --dry-run=server has the cluster check too
    #[arg(long, value_enum, value_name = "WHERE", hide_possible_values = true, num_args = 0..=1, require_equals = true, default_missing_value = "client")]
    pub dry_run: Option<DryRun>,
    /// Do not ask first whether you may, and whether there is quota and room; the server decides anyway
    #[arg(long)]
    pub no_preflight: bool,
    /// What to do then.
    #[command(flatten)]
    pub ending: Ending,
    /// The format: table, wide, json, yaml, name, jsonpath=…, custom-columns=…, jq=…
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
    /// The job's name, if not given behind the kind
    #[arg(long, conflicts_with_all = ["file", "positional_name"])]
    pub name: Option<String>,
    /// How many workers
    #[arg(long, conflicts_with = "file", value_name = "N", allow_negative_numbers = true)]
    pub workers: Option<i32>,
    /// The image of launcher and workers; on a local cluster a name given to odh local up --image, or any
    /// other, e.g. local, for this machine's own programs
    #[arg(long, conflicts_with = "file")]
    pub image: Option<String>,
    /// The command as one text, split as a shell would; or put it after --
    #[arg(long, conflicts_with_all = ["file", "args"], value_name = "TEXT")]
    pub command: Option<String>,
    /// Run the command once in the launcher, as it stands, without mpirun before it
    #[arg(long, conflicts_with = "file")]
    pub in_launcher: bool,
    /// GPUs of each worker
    #[arg(long, conflicts_with = "file", value_name = "N")]
    pub gpus: Option<u32>,
    /// CPUs of each worker: 4, 0.5, 500m
    #[arg(long, conflicts_with = "file", value_name = "AMOUNT")]
    pub cpu: Option<String>,
    /// Memory of each worker: 512Mi, 16Gi
    #[arg(long, conflicts_with = "file", value_name = "AMOUNT")]
    pub memory: Option<String>,
    /// Ranks on each worker; as many as GPUs, else 1
    #[arg(long, conflicts_with = "file", value_name = "N", allow_negative_numbers = true)]
    pub slots: Option<i32>,
    /// Which MPI the image holds: openmpi, intel, mpich
    #[arg(long, conflicts_with = "file", value_enum, hide_possible_values = true)]
    pub mpi: Option<MpiFlavour>,
    /// A variable for launcher, workers and ranks; may be given more than once
    #[arg(short, long, conflicts_with = "file", value_name = "NAME=VALUE", value_parser = read_pair)]
    pub env: Vec<(String, String)>,
    /// A volume claim and where to mount it; may be given more than once
    #[arg(long, conflicts_with = "file", value_name = "CLAIM:PATH", value_parser = read_claim)]
    pub pvc: Vec<(String, String)>,
    /// A label; may be given more than once
    #[arg(short, long, conflicts_with = "file", value_name = "NAME=VALUE", value_parser = read_pair)]
    pub label: Vec<(String, String)>,
    /// An annotation; may be given more than once
    #[arg(long, conflicts_with = "file", value_name = "NAME=VALUE", value_parser = read_pair)]
    pub annotation: Vec<(String, String)>,
    /// The Kueue queue to wait in
    #[arg(long, conflicts_with = "file", value_name = "NAME")]
    pub queue: Option<String>,
    /// The priority class of the pods
    #[arg(long, conflicts_with = "file", value_name = "NAME")]
    pub priority: Option<String>,
    /// Which pods to delete at the end: None, Running, All
    #[arg(long, conflicts_with = "file", value_name = "WHICH")]
    pub clean_pods: Option<String>,
    /// Fail the job if it runs longer than this: 30m, 8h
    #[arg(long, conflicts_with = "file", value_parser = read_duration, value_name = "TIME")]
    pub deadline: Option<Duration>,
    /// How often a failed launcher is tried again
    #[arg(long, conflicts_with = "file", value_name = "N")]
    pub retries: Option<i32>,
    /// Create it held back; it starts when it is resumed
    #[arg(long, conflicts_with = "file")]
    pub suspend: bool,
    /// What to run on every rank
    #[arg(last = true, conflicts_with = "file", value_name = "COMMAND")]
    pub args: Vec<String>,
}

fn read_pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

fn read_claim(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((claim, path)) if !claim.is_empty() && path.starts_with('/') => {
            Ok((claim.to_owned(), path.to_owned()))
        }
        _ => Err("write CLAIM:/PATH".to_owned()),
    }
}

/// Show one job.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  odh training get mpijob pi
  odh training get mpijob pi -o yaml
  odh training get mpijob pi -o jsonpath='{.status.phase}'
  odh training get mpijob pi -o jq='.status.conditions[] | select(.status == \"True\") | .type'
  odh training get mpijob pi --watch")]
pub struct Get {
    /// Which job.
    #[command(flatten)]
    pub target: Target,
    /// Go on showing it until it has ended: redrawn on a terminal, a line for each change elsewhere
    #[arg(short, long)]
    pub watch: bool,
    /// The format: table, wide, json, yaml, name, jsonpath=…, custom-columns=…, jq=…
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
    /// The kind of job: mpijob, trainjob, pytorchjob, tfjob; all kinds if not given
    #[arg(value_enum, hide_possible_values = true)]
    pub kind: Option<Kind>,
    /// Of all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,
    /// Only those with these labels, e.g. team=vision,stage!=test
    #[arg(short = 'l', long, value_name = "LABELS")]
    pub selector: Option<String>,
    /// Only those in these states: Pending, Running, Succeeded, Failed, Deleting, or a reason like Suspended
    #[arg(short, long, value_name = "STATES", value_delimiter = ',')]
    pub status: Vec<String>,
    /// Only those created since: 90m, 2d, 2026-01-31, 2026-01-31T12:00:00Z
    #[arg(long, value_name = "WHEN", value_parser = read_moment)]
    pub since: Option<Timestamp>,
    /// Only those created before
    #[arg(long, value_name = "WHEN", value_parser = read_moment)]
    pub until: Option<Timestamp>,
    /// By what to sort: name, state, workers, runtime, age; by namespace and name if not given
    #[arg(long, value_enum, value_name = "COLUMN", hide_possible_values = true)]
    pub sort: Option<Sort>,
    /// The other way round
    #[arg(long)]
    pub reverse: bool,
    /// Go on showing them: redrawn on a terminal, a line for each change elsewhere
    #[arg(short, long)]
    pub watch: bool,
    /// The format: table, wide, json, yaml, name, jsonpath=…, custom-columns=…, jq=…
    #[arg(short, long, default_value_t = settings::output(), hide_default_value = true, hide_possible_values = true)]
    pub output: Output,
}

/// By what a list is sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// By name, whatever the namespace
    Name,
    /// What needs a look first: failed, pending, running, succeeded
    State,
    /// The most workers first
    Workers,
    /// The longest first
    Runtime,
    /// The newest first
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

/// Parses a point in time, in this machine's time zone.
fn read_moment(text: &str) -> Result<Timestamp, String> {
    pick::moment(text, Timestamp::now(), &TimeZone::system())
}

/// Show all about a job.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  odh training describe mpijob pi

Why it waits or has failed, and what to do, in a few lines: odh training explain mpijob pi")]
pub struct Describe {
    /// Which job.
    #[command(flatten)]
    pub target: Target,
    /// The format: table, wide, json, yaml, name, jsonpath=…, custom-columns=…, jq=…; json and yaml print a List of the job and its pods
    #[arg(short, long, default_value_t = settings::output(), hide_default_value = true, hide_possible_values = true)]
    pub output: Output,
}

/// Show a job's output.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  odh training logs mpijob pi                 the launcher's, which has every rank's output
  odh training logs mpijob pi -f              as it comes, until the job has ended
  odh training logs mpijob pi --worker 0-3,7  those workers' own, merged by time
  odh training logs mpijob pi --all --tail 20 --timestamps
  odh training logs mpijob pi --grep 'loss=|Error' --exclude DEBUG -C 2
  odh training logs mpijob pi --rank 3        what rank 3 wrote, if mpirun was told --tag-output
  odh training logs mpijob pi --all -o json   {\"pod\", \"time\", \"line\"}, an object a line

--tail and --since are the server's: they count before --grep and --exclude leave lines out.")]
pub struct Logs {
    /// Which job.
    #[command(flatten)]
    pub target: Target,
    /// Some workers instead of the launcher: 2, or 0-3,7
    #[arg(short, long, value_name = "NUMBERS", value_parser = read_indices)]
    pub worker: Option<Indices>,
    /// The launcher and all workers
    #[arg(short, long, conflicts_with = "worker")]
    pub all: bool,
    /// Only lines of these ranks: 3, or 0-3,7; mpirun must say which rank wrote a line (--tag-output)
    #[arg(short, long, value_name = "NUMBERS", value_parser = read_indices, conflicts_with_all = ["worker", "all"])]
    pub rank: Option<Indices>,
    /// Go on as lines are written, and wait for pods that have not started
    #[arg(short, long)]
    pub follow: bool,
    /// Only lines not older than this: 30s, 10m
    #[arg(long, value_parser = read_duration, value_name = "TIME")]
    pub since: Option<Duration>,
    /// Only so many lines from the end, of each pod
    #[arg(long, value_name = "N")]
    pub tail: Option<u32>,
    /// Put the time before each line
    #[arg(long)]
    pub timestamps: bool,
    /// The run before this one, of a container that was restarted
    #[arg(short, long)]
    pub previous: bool,
    /// The container, if not the first
    #[arg(short, long, value_name = "NAME")]
    pub container: Option<String>,
    /// Only lines in which this regular expression is found, marked on a terminal
    #[arg(short, long, value_name = "PATTERN", value_parser = read_pattern)]
    pub grep: Option<Regex>,
    /// No lines in which this regular expression is found
    #[arg(long, value_name = "PATTERN", value_parser = read_pattern)]
    pub exclude: Option<Regex>,
    /// Mark what this regular expression finds, and leave no line out
    #[arg(long, value_name = "PATTERN", value_parser = read_pattern)]
    pub highlight: Option<Regex>,
    /// So many lines of the same pod before and after each that --grep finds
    #[arg(short = 'C', long, value_name = "N", requires = "grep")]
    pub around: Option<usize>,
    /// The format: table, or json for an object a line
    #[arg(short, long, default_value_t = settings::output(), hide_default_value = true, hide_possible_values = true)]
    pub output: Output,
}

/// Parses a regular expression in the syntax of the regex crate; a leading `(?i)` ignores case.
fn read_pattern(text: &str) -> Result<Regex, String> {
    Regex::new(text).map_err(|error| match error {
        regex::Error::Syntax(told) => {
            told.lines().last().unwrap_or(&told).trim_start_matches("error: ").to_owned()
        }
        other => other.to_string(),
    })
}

/// Indices of Workers or ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Indices(pub Vec<i32>);

/// The maximum number of indices in a range; a larger one is taken for a typing error.
const MAX_INDICES: usize = 10_000;

/// Parses `0-3,7`.
fn read_indices(text: &str) -> Result<Indices, String> {
    let wrong = || "write a number, or ranges like 0-3,7".to_owned();
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
            return Err(format!("names more than {MAX_INDICES} workers"));
        }
    }
    found.sort_unstable();
    found.dedup();
    Ok(Indices(found))
}

/// Show what jobs use.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  odh training top                         live: jobs, the chosen one's pods, its launcher's output
  odh training top mpijob digits --once    a table of its pods, once
  odh training top -o json | jq '.items[] | select(.gpus > 0) | .name'

Processor and memory come from the cluster's metrics (metrics.k8s.io); where it has none, they are shown as -.
GPUs are those that the pods have, whatever they do with them.")]
pub struct Top {
    /// The kind of job: mpijob, trainjob, pytorchjob, tfjob; all kinds if not given
    #[arg(value_enum, hide_possible_values = true)]
    pub kind: Option<Kind>,
    /// Only these jobs, with their pods
    #[arg(value_name = "NAME", add = ArgValueCompleter::new(job_names::candidates))]
    pub names: Vec<String>,
    /// Of all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,
    /// Only those with these labels, e.g. team=vision,stage!=test
    #[arg(short = 'l', long, value_name = "LABELS")]
    pub selector: Option<String>,
    /// By what to sort: name, cpu, memory, gpus
    #[arg(long, value_enum, default_value_t = TopSort::Name, value_name = "COLUMN", hide_possible_values = true)]
    pub sort: TopSort,
    /// Print a table and end, also on a terminal
    #[arg(long)]
    pub once: bool,
    /// How often to look anew
    #[arg(long, value_parser = read_duration, value_name = "TIME", default_value = "2s")]
    pub interval: Duration,
    /// The format: table, json, yaml, name, jsonpath=…, custom-columns=…, jq=…
    #[arg(short, long, default_value_t = settings::output(), hide_default_value = true, hide_possible_values = true)]
    pub output: Output,
}

/// By what `top` sorts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TopSort {
    /// By namespace and name
    Name,
    /// The most processors first
    Cpu,
    /// The most memory first
    Memory,
    /// The most GPUs first
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
  odh training delete mpijob pi               asks first, on a terminal
  odh training delete mpijob pi pi-2 --yes
  odh training delete mpijob -l sweep=7 --yes
  odh training delete mpijob stuck --yes --force")]
pub struct Delete {
    /// Which jobs.
    #[command(flatten)]
    pub several: Several,
    /// Do not ask; needed where there is no terminal
    #[arg(short, long)]
    pub yes: bool,
    /// Give the pods no time to end by themselves; what they have not saved is lost
    #[arg(long)]
    pub force: bool,
    /// Do not wait until everything is gone
    #[arg(long)]
    pub no_wait: bool,
    /// How long to wait until everything is gone
    #[arg(long, value_parser = read_duration, value_name = "TIME", default_value = "60s")]
    pub timeout: Duration,
    /// The format: table, wide, json, yaml, name, jsonpath=…, custom-columns=…, jq=…
    #[arg(short, long, default_value_t = settings::output(), hide_default_value = true, hide_possible_values = true)]
    pub output: Output,
}

/// Wait until a job has ended.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  odh training wait mpijob pi && echo it worked
  odh training wait mpijob pi --timeout 10m || echo \"ended with $?\"

Exit codes: 0 succeeded, 100 failed, 103 deleted meanwhile, 8 still running at the timeout.")]
pub struct Wait {
    /// Which job.
    #[command(flatten)]
    pub target: Target,
    /// Stop waiting after this long (exit code 8): 30s, 10m, 2h
    #[arg(long, value_parser = read_duration, value_name = "TIME")]
    pub timeout: Option<Duration>,
    /// Exit with the launcher's own exit code
    #[arg(long)]
    pub propagate_exit_code: bool,
    /// The format: table, wide, json, yaml, name, jsonpath=…, custom-columns=…, jq=…
    #[arg(short, long, default_value_t = settings::output(), hide_default_value = true, hide_possible_values = true)]
    pub output: Output,
}

/// Diagnose a saved output.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  odh training diagnose launcher.log --exit-code 137
  kubectl logs pi-launcher-x7k2p | odh training diagnose - --exit-code 1 -o json
  odh training diagnose launcher.log --still-running --silent-for 300

With -o json it prints one object; its cause is null where nothing failed. The exit code is 0 whenever
the file could be read.")]
pub struct Diagnose {
    /// What mpirun or mpiexec printed, stdout and stderr together, or - for standard input
    pub file: PathBuf,
    /// The launcher's exit code
    #[arg(long, value_name = "N", conflicts_with = "still_running", allow_negative_numbers = true)]
    pub exit_code: Option<i32>,
    /// The launcher has not ended
    #[arg(long)]
    pub still_running: bool,
    /// How long it has printed nothing: 90, 5m
    #[arg(long, value_parser = read_duration, value_name = "SECONDS", requires = "still_running")]
    pub silent_for: Option<Duration>,
    /// The format: table, json, yaml, name, jsonpath=…, jq=…
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
