//! `odh training …`: the verbs, their flags and their help.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use clap_complete::ArgValueCompleter;

use jiff::Timestamp;
use jobs::pick::Order;

use super::create::Create;
use super::logs::Logs;
use super::reports::{Advice, Audit, Capacity, NotificationVerb, Usage};
use super::target::{Kind, Several, read_words};
use super::verbs::{
    Cancel, CloneJob, Compare, CopyFiles, Events, Exec, Explain, Export, PortForward, Preflight, Resume,
    Retry, Runtimes, Scale, SupportBundle, Suspend, TemplateVerb,
};
use super::{Output, read_duration, read_moment};
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
