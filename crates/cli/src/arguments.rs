//! The command tree: the definition of every verb, flag and help text, without any behaviour.

mod create;
#[cfg(feature = "local")]
mod local;
mod logs;
mod reports;
mod target;
mod training;
mod verbs;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

pub use crate::console::Color;
pub use crate::global::Global;
pub use crate::output::Output;
use crate::settings;
pub use create::{Create, DryRun, Flags, MpiFlavour, Transport};
#[cfg(feature = "local")]
pub use local::{
    ClusterOptions, Dashboard, Doctor, Down, ImageVerb, Kubeconfig, LocalVerb, Mode, NodeDrain, NodeList,
    NodeVerb, Role, Run, Status, Switch, Up, User,
};
pub use logs::Logs;
pub use reports::{Advice, Audit, Capacity, NotificationVerb, PutRule, SumBy, Usage};
pub use target::{Several, Target, read_words};
pub use training::{Apply, Delete, Describe, Diagnose, Diff, Get, List, Top, TopSort, TrainingVerb, Wait};
pub use verbs::{
    Cancel, CloneJob, Compare, CopyFiles, Ending, Events, Exec, Explain, Export, ExportForm, Making,
    PortForward, Preflight, Retry, Runtimes, Scale, SupportBundle, TemplateUse, TemplateVerb,
};

/// Distributed training on Kubernetes and OpenShift: create jobs, watch them, find out why they fail.
#[derive(Debug, Parser)]
#[command(
    name = "odh",
    version,
    max_term_width = 100,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "First steps on a machine without Kubernetes:
  odh local up                                   a small cluster of your own, in the background
  odh local run job.yaml                         run a job and watch it
  odh training create hello --workers 4 --image local -- hostname

On a cluster, odh uses your kubeconfig, as kubectl does:
  odh training list                              what runs in your namespace
  odh training explain NAME                      why it waits or failed, and what to do
  odh training describe NAME                     its state, failure, pods and events
  odh training logs NAME --follow                its output

Exit codes: 0 ok, 1 error, 2 usage, 3 not found, 4 not allowed, 5 invalid job, 6 quota, 7 conflict,
8 still running at timeout, 100 job failed, 103 cancelled, 130 interrupted."
)]
pub struct Arguments {
    /// What holds for every command.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The options by which commands choose a cluster, a namespace and a user to act as.
const CLUSTER: [&str; 5] = ["namespace", "kubeconfig", "context", "act_as", "as_group"];
/// The commands of `odh local` that take a namespace.
const IN_A_NAMESPACE: [&str; 2] = ["run", "user"];

/// Returns the definition of the command line. The options of the cluster are not shown for `odh local`, which knows its
/// own.
pub fn definition() -> clap::Command {
    let root = Arguments::command();
    let cluster: Vec<clap::Arg> = root
        .get_arguments()
        .filter(|argument| CLUSTER.contains(&argument.get_id().as_str()))
        .cloned()
        .collect();
    let namespace = cluster.iter().find(|argument| argument.get_id() == "namespace").cloned();
    root.mut_subcommands(|command| {
        if command.get_name() != "local" {
            return command;
        }
        // An option that a command has is not inherited again, and so stays hidden for what is below it.
        let local = command.args(cluster.iter().map(|argument| argument.clone().hide(true)));
        local.mut_subcommands(|verb| match IN_A_NAMESPACE.contains(&verb.get_name()) {
            true => verb.args(namespace.clone()),
            false => verb,
        })
    })
}

/// Parses a command line, whose first word is the program's name.
pub fn parse(words: &[OsString]) -> Result<Arguments, clap::Error> {
    let matches = crate::help::columns::fitted(definition()).try_get_matches_from(words)?;
    Arguments::from_arg_matches(&matches).map_err(|error| error.format(&mut definition()))
}

/// The first word.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Create, watch, understand and delete training jobs
    #[command(
        arg_required_else_help = true,
        after_help = "The life of a job:
  odh training create digits --workers 4 --image IMAGE -- python -m mpi4py train.py
  odh training logs digits --follow                     follow its output
  odh training wait digits                              wait for its end; sets the exit code
  odh training explain digits                           why it waits or has failed, and what to do
  odh training clone digits --set worker.memory=32Gi
  odh training delete digits

The kind may be given before a name or left out: mpijob, trainjob, pytorchjob, tfjob. @latest is the
newest job. For examples, see odh training create --help"
    )]
    #[command(visible_alias = "t")]
    Training {
        /// What to do.
        #[command(subcommand)]
        verb: TrainingVerb,
    },
    /// Run a Kubernetes cluster on this machine, for development and tests
    #[cfg(feature = "local")]
    #[command(arg_required_else_help = true)]
    Local {
        /// What to do.
        #[command(subcommand)]
        verb: LocalVerb,
    },
    /// Print the version
    Version {
        /// Output format: table, json, yaml
        #[arg(short, long, default_value_t = settings::output(), hide_default_value = true, hide_possible_values = true)]
        output: Output,
    },
    /// Print a shell completion script, which also completes job names
    #[command(after_help = "Examples:
  source <(odh completion bash)                                 in ~/.bashrc
  source <(odh completion zsh)                                  in ~/.zshrc
  odh completion fish > ~/.config/fish/completions/odh.fish
  odh completion powershell | Out-String | Invoke-Expression    in $PROFILE

The script asks odh for the completions, so it is never out of date. Job names come from the cluster
that the command line selects; completion waits for them for at most two seconds.")]
    Completion {
        /// Shell: bash, elvish, fish, powershell, zsh
        #[arg(value_enum, hide_possible_values = true)]
        shell: clap_complete::Shell,
    },
    /// Print the help of a command, or the command tree for programs
    Help(Help),
}

/// Help in several forms.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  odh help training create
  odh help causes OutOfMemory                     what a cause of a failure means, and what to do
  odh help -o json                                every command, option and exit code
  odh help --man-pages ~/.local/share/man/man1    man pages of every command: man odh-training-logs")]
pub struct Help {
    /// Command, e.g. training create
    #[arg(value_name = "COMMAND")]
    pub command: Vec<String>,
    /// Write man pages to this folder instead
    #[arg(long, value_name = "FOLDER")]
    pub man_pages: Option<PathBuf>,
    /// Output format: table; json, yaml and jq=… print the command tree
    #[arg(short, long, default_value_t = settings::output(), hide_default_value = true, hide_possible_values = true)]
    pub output: Output,
}

impl Command {
    /// Returns the requested format.
    pub fn output(&self) -> Output {
        match self {
            Command::Training { verb } => verb.output(),
            #[cfg(feature = "local")]
            Command::Local { verb } => verb.output(),
            Command::Version { output } => *output,
            Command::Completion { .. } => Output::Table,
            Command::Help(help) => help.output,
        }
    }
}

/// Parses a duration: `90`, `90s`, `10m`, `1h30m`.
pub fn read_duration(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<u64>().map(Duration::from_secs).ok();
    let written = || text.parse::<jiff::SignedDuration>().ok().and_then(|span| Duration::try_from(span).ok());
    seconds
        .or_else(written)
        .ok_or_else(|| "expected seconds, or a duration like 30s, 10m or 1h30m".to_owned())
}

/// Parses a point in time, in this machine's time zone.
pub fn read_moment(text: &str) -> Result<jiff::Timestamp, String> {
    let read = jobs::pick::moment(text, jiff::Timestamp::now(), &jiff::tz::TimeZone::system());
    read.map_err(|fault| format!("{fault}: {}", jobs::pick::MOMENTS))
}

/// Parses `NAME=VALUE`.
pub fn read_pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Rewrites the command line as if this program had been called by its own name: `kubectl odh training list` starts
/// `kubectl-odh-training list`, and `kubectl-odh` is kubectl's name for this program.
pub fn called_by_kubectl(mut words: Vec<OsString>) -> Vec<OsString> {
    let name = words.first().and_then(|first| std::path::Path::new(first).file_stem()?.to_str());
    let before = match name {
        Some("kubectl-odh-training" | "kubectl-odh_training") => Some("training"),
        Some("kubectl-odh-local") => Some("local"),
        _ => None,
    };
    if let Some(before) = before {
        words.insert(1, before.into());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_tree_is_valid() {
        definition().debug_assert();
    }

    #[test]
    #[cfg(feature = "local")]
    fn options_of_the_cluster_are_shown_where_they_mean_something() {
        let mut root = definition();
        root.build();
        let shown = |words: &[&str]| {
            let command =
                words.iter().try_fold(&root, |command, word| command.find_subcommand(word)).unwrap();
            let shown = command.get_arguments().filter(|argument| !argument.is_hide_set());
            let names = shown.map(|argument| argument.get_id().as_str());
            names.filter(|name| CLUSTER.contains(name)).count()
        };
        for (words, count) in [
            (&["training", "list"][..], CLUSTER.len()),
            (&["local"], 0),
            (&["local", "up"], 0),
            (&["local", "node", "drain"], 0),
            (&["local", "run"], 1),
            (&["local", "user"], 1),
        ] {
            assert_eq!(shown(words), count, "{words:?}");
        }
        let words = ["odh", "local", "run", "job.yaml", "-n", "team"].map(OsString::from);
        assert_eq!(parse(&words).unwrap().global.namespace.as_deref(), Some("team"));
    }

    #[test]
    fn it_can_be_called_as_a_kubectl_plugin() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        let table = [
            ("/usr/bin/kubectl-odh-training list -A", "/usr/bin/kubectl-odh-training training list -A"),
            ("kubectl-odh training list", "kubectl-odh training list"),
            ("odh training list", "odh training list"),
        ];
        for (line, read) in table {
            assert_eq!(called_by_kubectl(words(line)), words(read));
        }
    }

    #[test]
    fn durations_are_parsed_in_all_forms() {
        for (text, seconds) in [("90", 90), ("90s", 90), ("10m", 600), ("1h30m", 5400), ("0", 0)] {
            assert_eq!(read_duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "soon", "-5s", "10 parsecs"] {
            assert!(read_duration(text).is_err(), "{text}");
        }
    }
}
