//! The command tree: every verb, flag and help text, and nothing that acts on them.

mod local;
mod training;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub use local::{
    ClusterOptions, Doctor, Down, Kubeconfig, LocalVerb, Mode, NodeDrain, NodeList, NodeVerb, Role, Run,
    Status, Switch, Up, User,
};
pub use training::{
    Create, Delete, Describe, Diagnose, DryRun, Flags, Get, Kind, List, Logs, MpiFlavour, TrainingVerb, Wait,
};

/// Distributed training on Kubernetes and OpenShift: create jobs, watch them, find out why they fail.
#[derive(Debug, Parser)]
#[command(
    name = "odh",
    version,
    max_term_width = 100,
    arg_required_else_help = true,
    after_help = "First steps on a machine without Kubernetes:
  odh local up                                   a small cluster of your own, in the background
  odh local run job.yaml                         run a job and watch it
  odh training create mpijob hello --workers 4 --image local -- hostname

With a cluster at hand, odh uses your kubeconfig, as kubectl does:
  odh training list                              what runs in your namespace
  odh training describe mpijob NAME              what it does, or why it failed
  odh training logs mpijob NAME --follow         its output

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

/// What holds for every command.
#[derive(Debug, Args)]
pub struct Global {
    /// The namespace; the context's own if not given
    #[arg(short, long, global = true, value_name = "NAME", help_heading = "Cluster")]
    pub namespace: Option<String>,
    /// The kubeconfig file; $KUBECONFIG, else ~/.kube/config, else the local cluster's
    #[arg(long, global = true, value_name = "FILE", help_heading = "Cluster")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig to use
    #[arg(long, global = true, value_name = "NAME", help_heading = "Cluster")]
    pub context: Option<String>,
    /// When to use colours: auto, always, never; NO_COLOR is honoured too
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, value_name = "WHEN", hide_possible_values = true, hide_default_value = true, display_order = 900)]
    pub color: Color,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// The format of what is printed on stdout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people
    Table,
    /// For people with a wide screen
    Wide,
    /// The Kubernetes objects as JSON
    Json,
    /// The Kubernetes objects as YAML
    Yaml,
    /// mpijob/NAME, one a line
    Name,
}

impl Output {
    /// Whether a program reads it, so that stderr must be JSON lines too.
    pub fn is_for_programs(self) -> bool {
        matches!(self, Output::Json | Output::Yaml)
    }
}

/// The first word.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Create, watch, understand and delete training jobs
    #[command(arg_required_else_help = true)]
    Training {
        /// What to do.
        #[command(subcommand)]
        verb: TrainingVerb,
    },
    /// A Kubernetes of your own on this machine, for trying and for tests
    #[command(arg_required_else_help = true)]
    Local {
        /// What to do.
        #[command(subcommand)]
        verb: LocalVerb,
    },
    /// Which version this is
    Version {
        /// The format: table, json, yaml
        #[arg(short, long, value_enum, default_value_t = Output::Table, hide_default_value = true, hide_possible_values = true)]
        output: Output,
    },
    /// Print a completion script for your shell
    #[command(after_help = "Examples:
  source <(odh completion bash)
  odh completion zsh > \"${fpath[1]}/_odh\"
  odh completion fish > ~/.config/fish/completions/odh.fish")]
    Completion {
        /// The shell
        shell: clap_complete::Shell,
    },
}

impl Command {
    /// The format that was asked for.
    pub fn output(&self) -> Output {
        match self {
            Command::Training { verb } => verb.output(),
            Command::Local { verb } => verb.output(),
            Command::Version { output } => *output,
            Command::Completion { .. } => Output::Table,
        }
    }
}

/// A length of time as people write it: `90`, `90s`, `10m`, `1h30m`.
pub fn read_duration(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<u64>().map(Duration::from_secs).ok();
    let written = || text.parse::<jiff::SignedDuration>().ok().and_then(|span| Duration::try_from(span).ok());
    seconds.or_else(written).ok_or_else(|| "write seconds, or a time like 30s, 10m or 1h30m".to_owned())
}

/// `odh training logs mpijob/pi` is the same as `odh training logs mpijob pi`, as kubectl users expect.
pub fn split_kind_and_name(raw: Vec<OsString>) -> Vec<OsString> {
    let verb = raw.iter().position(|word| word == "training").map(|at| at + 1);
    let Some(slot) = verb.map(|at| at + 1) else { return raw };
    let split = raw.get(slot).and_then(|word| word.to_str()).and_then(|word| {
        let (kind, name) = word.split_once('/')?;
        Kind::from_str(kind, true).ok()?;
        Some([OsString::from(kind), OsString::from(name)])
    });
    match split {
        Some(parts) => {
            let mut words = raw;
            words.splice(slot..=slot, parts);
            words
        }
        None => raw,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_tree_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn times_are_read_as_people_write_them() {
        for (text, seconds) in [("90", 90), ("90s", 90), ("10m", 600), ("1h30m", 5400), ("0", 0)] {
            assert_eq!(read_duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "soon", "-5s", "10 parsecs"] {
            assert!(read_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_slash_separates_kind_and_name() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        let table = [
            ("odh training logs mpijob/pi -f", "odh training logs mpijob pi -f"),
            ("odh training get mpijobs/pi", "odh training get mpijobs pi"),
            ("odh training create -f mpijob/pi", "odh training create -f mpijob/pi"),
            ("odh local run a/b", "odh local run a/b"),
        ];
        for (line, split) in table {
            assert_eq!(split_kind_and_name(words(line)), words(split));
        }
    }
}
