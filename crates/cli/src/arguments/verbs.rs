//! `odh training …`: the verbs that act on existing jobs, their flags and their help.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand, ValueEnum};
use clap_complete::ArgValueCompleter;
use jobs::setting::Setting;

use super::target::{Kind, Several, Target};
use super::{Output, read_duration, read_pair};
use crate::job_names;
use crate::settings;

/// What to do once a job is created.
#[derive(Clone, Debug, Default, Args)]
pub struct Ending {
    /// Wait until the job has ended; the exit code gives its result
    #[arg(long)]
    pub wait: bool,
    /// Follow the job's output until it has ended; implies --wait
    #[arg(long)]
    pub follow: bool,
    /// Stop waiting after this long (exit code 8): 30s, 10m, 2h
    #[arg(long, value_parser = read_duration, value_name = "TIME")]
    pub timeout: Option<Duration>,
    /// With --wait, exit with the Launcher's exit code; with -o json, the error's reason tells it from
    /// odh's own codes
    #[arg(long)]
    pub propagate_exit_code: bool,
}

/// How to make a job from what there is of one: another job, or a template.
#[derive(Clone, Debug, Args)]
pub struct Making {
    /// Field to change; repeatable
    #[arg(long = "set", value_name = "PATH=VALUE", value_parser = Setting::read)]
    pub settings: Vec<Setting>,
    /// Have the server validate without creating anything
    #[arg(long, conflicts_with_all = ["wait", "follow"])]
    pub dry_run: bool,
    /// What to do then.
    #[command(flatten)]
    pub ending: Ending,
    /// Output format: table, wide, json, yaml, name
    #[arg(short, long, default_value_t = settings::output(), hide_default_value = true, hide_possible_values = true)]
    pub output: Output,
}

/// Suspend jobs.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  odh training suspend pi
  odh training suspend -l team=vision

Suspending deletes the job's pods and keeps the job; unsaved work is lost. A resumed job starts from
the beginning.")]
pub struct Suspend {
    /// Which jobs.
    #[command(flatten)]
    pub several: Several,
    /// Output format: table, wide, json, yaml, name
    #[arg(short, long, default_value_t = settings::output(), hide_default_value = true, hide_possible_values = true)]
    pub output: Output,
}

/// Cancel jobs.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  odh training cancel pi
  odh training cancel @latest
  odh training cancel --status pending

Cancelling ends a job at once and for good. Its record and the Launcher's output stay; odh training
wait ends with exit code 103. A suspended job can be resumed; a cancelled one can be retried.")]
pub struct Cancel {
    /// Which jobs.
    #[command(flatten)]
    pub several: Several,
    /// Output format: table, wide, json, yaml, name
    #[arg(short, long, default_value_t = settings::output(), hide_default_value = true, hide_possible_values = true)]
    pub output: Output,
}

/// Change the number of Workers.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  odh training scale pi --workers 8

Only elastic programs can use Workers that come or go while they run; others see them with the next
attempt.")]
pub struct Scale {
    /// Which job.
    #[command(flatten)]
    pub target: Target,
    /// The new number of Workers
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    pub workers: i32,
    /// Output format: table, wide, json, yaml, name
    #[arg(short, long, default_value_t = settings::output(), hide_default_value = true, hide_possible_values = true)]
    pub output: Output,
}

/// Forward local ports to a pod.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  odh training port-forward pi --port 6006               TensorBoard in the Launcher: localhost:6006
  odh training port-forward pi --worker 2 --port 8080:80")]
pub struct PortForward {
    /// Which job.
    #[command(flatten)]
    pub target: Target,
    /// Forward to this Worker; defaults to the Launcher
    #[arg(short, long, value_name = "NUMBER")]
    pub worker: Option<u16>,
    /// Port of the pod, or LOCAL:REMOTE; 0 as LOCAL takes a free port; repeatable
    #[arg(short, long = "port", required = true, value_name = "PORT", value_parser = read_ports)]
    pub ports: Vec<(u16, u16)>,
}

/// Parses `REMOTE` or `LOCAL:REMOTE`.
fn read_ports(text: &str) -> Result<(u16, u16), String> {
    let port = |text: &str| text.parse::<u16>().map_err(|_| "expected PORT or LOCAL:REMOTE".to_owned());
    let (local, remote) = match text.split_once(':') {
        Some((local, remote)) => (port(local)?, port(remote)?),
        None => (port(text)?, port(text)?),
    };
    if remote == 0 { Err("a pod has no port 0".to_owned()) } else { Ok((local, remote)) }
}

/// Copy files between this machine and a pod.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  odh training cp pi:/output/model.npz .               from the Launcher
  odh training cp pi:/output results --worker 0        a folder of Worker 0
  odh training cp train.py pi:/work --worker 0

The image must have tar. What is copied from a job that has ended is read in a small pod that mounts its claims, read-only;
it is started for that and ends by itself.")]
pub struct CopyFiles {
    /// What to copy: a path here, or JOB:PATH in a pod
    #[arg(value_name = "FROM")]
    pub from: String,
    /// Where to put it: a path here, or JOB:PATH in a pod; a folder that exists receives it under its name
    #[arg(value_name = "TO")]
    pub to: String,
    /// Copy from or to this Worker; defaults to the Launcher
    #[arg(short, long, value_name = "NUMBER")]
    pub worker: Option<u16>,
    /// Container; defaults to the first
    #[arg(short, long, value_name = "NAME")]
    pub container: Option<String>,
}

/// Resume jobs.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  odh training resume pi
  odh training resume -l team=vision")]
pub struct Resume {
    /// Which jobs.
    #[command(flatten)]
    pub several: Several,
    /// Output format: table, wide, json, yaml, name
    #[arg(short, long, default_value_t = settings::output(), hide_default_value = true, hide_possible_values = true)]
    pub output: Output,
}

/// Run jobs again as they were.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  odh training retry pi                 as pi-retry-2; keeps pi and its record
  odh training retry pi --replace       deletes pi first and reuses its name
  odh training retry -l sweep=7         all of them that have ended

To change something, use odh training clone pi --set worker.memory=32Gi")]
pub struct Retry {
    /// Which jobs.
    #[command(flatten)]
    pub several: Several,
    /// Name of the new job; defaults to NAME-retry-2, -3, …
    #[arg(long, value_name = "NAME", conflicts_with_all = ["replace", "selector", "all", "status", "older_than"])]
    pub name: Option<String>,
    /// Delete the old job first and reuse its name; its logs and its record are lost
    #[arg(long)]
    pub replace: bool,
    /// Have the server validate without creating anything
    #[arg(long, conflicts_with_all = ["replace", "wait", "follow"])]
    pub dry_run: bool,
    /// What to do then.
    #[command(flatten)]
    pub ending: Ending,
    /// Output format: table, wide, json, yaml, name
    #[arg(short, long, default_value_t = settings::output(), hide_default_value = true, hide_possible_values = true)]
    pub output: Output,
}

/// Make a job from another, with changes.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  odh training clone pi --set worker.memory=32Gi
  odh training clone pi --name pi-wide --set workers=8 --set env.LR=0.2 --wait
  odh training clone pi --set spec.runPolicy.backoffLimit=3 --dry-run -o yaml

Fields for --set: image, workers, slots, queue, priority, mpi, suspend, retries, deadline; env.NAME;
worker.memory, worker.cpu, worker.gpus, worker.image, worker.command, and the same for launcher; or
any field by its path: spec.…")]
pub struct CloneJob {
    /// Which job.
    #[command(flatten)]
    pub target: Target,
    /// Name of the new job; defaults to NAME-clone-1, -2, …
    #[arg(long = "name", value_name = "NAME")]
    pub new_name: Option<String>,
    /// How to make it.
    #[command(flatten)]
    pub making: Making,
}

/// Compare jobs.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  odh training compare pi pi-clone-1    how both ended, and where they differ
  odh training compare pi               the job and its retries, or else its attempts")]
pub struct Compare {
    /// Jobs: NAME, KIND NAME or KIND/NAME; of a single job, its retries or attempts are compared
    #[arg(required = true, value_name = "JOB", add = ArgValueCompleter::new(job_names::candidates))]
    pub words: Vec<String>,
    /// Output format: table, wide, json, yaml
    #[arg(short, long, default_value_t = settings::output(), hide_default_value = true, hide_possible_values = true)]
    pub output: Output,
}

/// Say where a job stands and why.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  odh training explain pi               state, cause, evidence, who must act, what to do
  odh training explain pi -o name       only the cause, for scripts")]
pub struct Explain {
    /// Which job.
    #[command(flatten)]
    pub target: Target,
    /// Output format: table, wide, json, yaml, name
    #[arg(short, long, default_value_t = settings::output(), hide_default_value = true, hide_possible_values = true)]
    pub output: Output,
}

/// Print a job as a manifest that can be created again.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  odh training export pi > pi.yaml
  odh training export pi -o json
  odh training export pi --to command   the odh training create that makes the same job
  odh training export pi --to python    the same with the Python SDK

A job with more in it than the flags of create can say is only exported as a manifest.")]
pub struct Export {
    /// Which job.
    #[command(flatten)]
    pub target: Target,
    /// What to print: manifest, command or python
    #[arg(long = "to", value_enum, value_name = "FORM", default_value_t = ExportForm::Manifest, hide_default_value = true, hide_possible_values = true)]
    pub form: ExportForm,
    /// Output format of a manifest: yaml, json
    #[arg(short, long, default_value_t = Output::Yaml, hide_default_value = true, hide_possible_values = true)]
    pub output: Output,
}

/// In which form to export a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportForm {
    /// A manifest
    Manifest,
    /// A command line of odh
    Command,
    /// A Python program
    Python,
}

/// Show the events of a job and its pods.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  odh training events pi
  odh training events pi --watch        follow them until the job has ended")]
pub struct Events {
    /// Which job.
    #[command(flatten)]
    pub target: Target,
    /// Follow new events until the job has ended
    #[arg(short, long)]
    pub watch: bool,
    /// Output format: table, wide, or json for one object per line
    #[arg(short, long, default_value_t = settings::output(), hide_default_value = true, hide_possible_values = true)]
    pub output: Output,
}

/// The runtimes of TrainJobs.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  odh training runtimes                        what create trainjob --runtime takes
  odh training runtimes -o name                only that")]
pub struct Runtimes {
    /// Output format: table, wide, json, yaml, name
    #[arg(short, long, default_value_t = settings::output(), hide_default_value = true, hide_possible_values = true)]
    pub output: Output,
}

/// Check before creating: may I, is there quota, is there room.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  odh training preflight                       what you may do in the namespace
  odh training preflight -f job.yaml           what would block the job; creates nothing")]
pub struct Preflight {
    /// Job kind; defaults to mpijob
    #[arg(value_enum, ignore_case = true, hide_possible_values = true, conflicts_with = "file")]
    pub kind: Option<Kind>,
    /// YAML or JSON file, a folder of them, or - for standard input; repeatable
    #[arg(short, long = "file", visible_alias = "filename", value_name = "FILE")]
    pub file: Vec<PathBuf>,
    /// Output format: table, wide, json, yaml
    #[arg(short, long, default_value_t = settings::output(), hide_default_value = true, hide_possible_values = true)]
    pub output: Output,
}

/// Run a command in one of a job's pods.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  odh training exec pi --worker 2 -- nvidia-smi
  odh training exec pi -it -- bash      in the Launcher

The exit code is that of the command.")]
pub struct Exec {
    /// Which job.
    #[command(flatten)]
    pub target: Target,
    /// Run in this Worker; defaults to the Launcher
    #[arg(short, long, value_name = "NUMBER")]
    pub worker: Option<u16>,
    /// Container; defaults to the first
    #[arg(short, long, value_name = "NAME")]
    pub container: Option<String>,
    /// Pass standard input to the command
    #[arg(short = 'i', long)]
    pub stdin: bool,
    /// Give the command a terminal
    #[arg(short = 't', long)]
    pub tty: bool,
    /// Command to run
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// What to do with templates.
#[derive(Debug, Subcommand)]
pub enum TemplateVerb {
    /// Save a job's manifest as a template, or as the next version of one
    #[command(after_help = "Example:
  odh training templates save digits --name baseline --description \"four Workers, one epoch\"")]
    Save {
        /// Which job.
        #[command(flatten)]
        target: Target,
        /// Template name; defaults to the job's name
        #[arg(long = "name", value_name = "NAME")]
        template_name: Option<String>,
        /// Description, one sentence; that of the version before if not given
        #[arg(long, value_name = "TEXT")]
        description: Option<String>,
        /// YAML or JSON file with the template's parameters: a list of name, type, default, description, allowed
        /// and sets; those of the version before if not given
        #[arg(long, value_name = "FILE")]
        parameters: Option<PathBuf>,
        /// Share it with everybody, in the namespace odh-training-templates
        #[arg(long)]
        shared: bool,
        /// Output format: table, wide, json, yaml, name
        #[arg(short, long, default_value_t = settings::output(), hide_default_value = true, hide_possible_values = true)]
        output: Output,
    },
    /// List the templates of the namespace and the shared ones
    #[command(visible_alias = "ls")]
    List {
        /// Output format: table, wide, json, yaml, name
        #[arg(short, long, default_value_t = settings::output(), hide_default_value = true, hide_possible_values = true)]
        output: Output,
    },
    /// Print a template's manifest
    Show {
        /// Template name; shared/NAME is the shared one, also if the namespace has one of that name
        name: String,
        /// Version; defaults to the newest
        #[arg(long, value_name = "NUMBER")]
        version: Option<u32>,
        /// Output format: yaml, json
        #[arg(short, long, default_value_t = Output::Yaml, hide_default_value = true, hide_possible_values = true)]
        output: Output,
    },
    /// Create a job from a template
    Use(TemplateUse),
    /// Delete a template
    Delete {
        /// Template name
        name: String,
        /// Delete a shared template
        #[arg(long)]
        shared: bool,
    },
}

impl TemplateVerb {
    /// Returns the requested format.
    pub fn output(&self) -> Output {
        match self {
            TemplateVerb::Save { output, .. } | TemplateVerb::List { output } => *output,
            TemplateVerb::Use(asked) => asked.making.output,
            TemplateVerb::Show { output, .. } => Output::of_a_manifest(*output),
            TemplateVerb::Delete { .. } => Output::Table,
        }
    }
}

/// Make a job from a template.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  odh training templates use baseline --name run-7 --set workers=8 --wait
  odh training templates use tuning --name run-8 --param rate=0.05 --param memory=32Gi")]
pub struct TemplateUse {
    /// Template name; shared/NAME is the shared one, also if the namespace has one of that name
    pub template: String,
    /// Job name
    #[arg(long, value_name = "NAME")]
    pub name: String,
    /// Version of the template; defaults to the newest
    #[arg(long, value_name = "NUMBER")]
    pub version: Option<u32>,
    /// Value of one of the template's parameters; repeatable
    #[arg(long = "param", value_name = "NAME=VALUE", value_parser = read_pair)]
    pub parameters: Vec<(String, String)>,
    /// How to make it.
    #[command(flatten)]
    pub making: Making,
}

/// Collect what somebody else needs to understand a job, or a cluster.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  odh training support-bundle pi            writes pi-support.tar.gz
  odh training support-bundle --cluster     writes cluster-support.tar.gz

The archive of a job holds the job, its pods and events, the output of explain and the ends of the
logs. That of a cluster holds its nodes, queues, all jobs and pods in a line each, warnings, the log of
the operator, and for the cluster of this machine its state and its log; what you may not read is left
out and named in unread.txt.
Secrets are not read. Values of environment variables and annotations are removed unless known to be
harmless. Text after words such as password, token or key, credentials in URLs, and private keys are
redacted. Other secrets cannot be recognized: review the file before you share it.")]
pub struct SupportBundle {
    /// Job: NAME, KIND NAME or KIND/NAME, with the kinds mpijob, trainjob, pytorchjob and tfjob; @latest is
    /// the newest job
    #[arg(value_name = "JOB", required_unless_present = "cluster", conflicts_with = "cluster", num_args = 1..=2, value_parser = NonEmptyStringValueParser::new(), add = ArgValueCompleter::new(job_names::candidates))]
    pub words: Vec<String>,
    /// Collect the state of the whole cluster instead of a job
    #[arg(long)]
    pub cluster: bool,
    /// File to write; defaults to NAME-support.tar.gz
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
}
