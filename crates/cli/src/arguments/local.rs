//! `odh local …`: the verbs, their flags and their help.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::{Output, read_duration};
use crate::settings;

/// What to do with the cluster on this machine.
#[derive(Debug, Subcommand)]
pub enum LocalVerb {
    /// Start the cluster; returns when jobs can be created
    Up(Up),
    /// Stop the cluster and every process of its jobs
    Down(Down),
    /// Whether the cluster is up, where, and in which mode
    Status(Status),
    /// Print the cluster's kubeconfig
    Kubeconfig(Kubeconfig),
    /// Run a job: start the cluster if need be, show the job's output, end as the job ends
    Run(Run),
    /// Make a kubeconfig for a person with a role, list who has one, or take it back
    User(User),
    /// What this machine can and cannot do, and what to install
    Doctor(Doctor),
    /// The cluster's nodes: list them, cut the power of one, empty one
    Node {
        /// What to do with them.
        #[command(subcommand)]
        verb: NodeVerb,
    },
}

/// What to do with the nodes that the machine poses as.
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  odh local up --nodes 4 --gpus 8 --node-grace 10s
  odh local node list
  odh local node down node-2                         as a power cut: processes die, no heartbeat
  odh local node up node-2")]
pub enum NodeVerb {
    /// Show the nodes: state, place, what they have, what runs
    List(NodeList),
    /// Cut the power of a node: its pods' processes die, and the cluster hears nothing more of it
    Down {
        /// The node's name
        name: String,
    },
    /// Give a node power again, and let it take pods
    Up {
        /// The node's name
        name: String,
    },
    /// Let a node take no more pods, and evict those that are there, in order
    Drain(NodeDrain),
}

/// Show the nodes.
#[derive(Debug, Args)]
pub struct NodeList {
    /// The format: table, json, yaml
    #[arg(short, long, default_value_t = settings::output(), hide_default_value = true, hide_possible_values = true)]
    pub output: Output,
}

/// Empty a node.
#[derive(Debug, Args)]
pub struct NodeDrain {
    /// The node's name
    pub name: String,
    /// How long its pods get to go: 30s, 10m
    #[arg(long, value_parser = read_duration, value_name = "TIME", default_value = "2m")]
    pub timeout: Duration,
}

impl LocalVerb {
    /// Returns the requested format.
    pub fn output(&self) -> Output {
        match self {
            LocalVerb::Status(status) => status.output,
            LocalVerb::Doctor(doctor) => doctor.output,
            LocalVerb::Run(run) => run.output,
            LocalVerb::User(user) => user.output,
            LocalVerb::Node { verb: NodeVerb::List(list) } => list.output,
            LocalVerb::Up(_) | LocalVerb::Down(_) | LocalVerb::Kubeconfig(_) | LocalVerb::Node { .. } => {
                Output::Table
            }
        }
    }
}

/// How pods are kept apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// The strongest that this machine permits
    Auto,
    /// Namespaces of an unprivileged user
    Rootless,
    /// Namespaces of root
    Root,
    /// Plain processes, not kept apart
    Plain,
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    /// On
    On,
    /// Off
    Off,
}

/// Start the cluster.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  odh local up
  odh local up --image my-env=$HOME/venv             image my-env: ~/venv/bin first on PATH
  odh local up --nodes 4 --gpus 8                    pretend: four nodes of eight GPUs each

State is kept in $ODH_HOME (~/.local/share/odh if not set).")]
pub struct Up {
    /// What the cluster is to be like.
    #[command(flatten)]
    pub cluster: ClusterOptions,
    /// Stay in the foreground until interrupted
    #[arg(long)]
    pub foreground: bool,
    /// Set by the command itself when it goes to the background
    #[arg(long, hide = true)]
    pub detached: bool,
}

/// What the cluster is to be like.
#[derive(Clone, Debug, Args)]
pub struct ClusterOptions {
    /// Map an image name to a directory whose bin/ comes first on PATH; repeatable
    #[arg(long = "image", value_name = "NAME=DIR", value_parser = read_image)]
    pub images: Vec<(String, PathBuf)>,
    /// How many nodes to show; each is an equal share of this machine
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub nodes: u32,
    /// How many GPUs each node is said to have; no device stands behind them
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub gpus: u32,
    /// How long a silent node counts as alive: 10s, 1m
    #[arg(long, value_parser = read_grace, value_name = "TIME", default_value = "40s")]
    pub node_grace: Duration,
    /// How pods are kept apart: auto, rootless, root, plain
    #[arg(long, value_enum, default_value_t = Mode::Auto, hide_possible_values = true)]
    pub mode: Mode,
    /// Leave out the operator and what it installs, to try another one
    #[arg(long)]
    pub no_operator: bool,
    /// Whether every request is taken down in $ODH_HOME/audit.log: on, off
    #[arg(long, value_enum, default_value_t = Switch::On, value_name = "WHETHER", hide_possible_values = true)]
    pub audit: Switch,
    /// The port on 127.0.0.1; if 0, the last one or any free one
    #[arg(long, default_value_t = 0, value_name = "PORT")]
    pub port: u16,
}

/// Parses a grace period. One shorter than a second would count slow nodes as lost.
fn read_grace(text: &str) -> Result<Duration, String> {
    match read_duration(text)? {
        short if short < Duration::from_secs(1) => Err("at least 1s".to_owned()),
        grace => Ok(grace),
    }
}

fn read_image(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, directory)) if !name.is_empty() && !directory.is_empty() => {
            Ok((name.to_owned(), PathBuf::from(directory)))
        }
        _ => Err("write NAME=DIR".to_owned()),
    }
}

/// Stop the cluster.
#[derive(Debug, Args)]
pub struct Down {
    /// Remove its state too: jobs, logs, kubeconfig
    #[arg(long)]
    pub purge: bool,
    /// How long its processes get to end
    #[arg(long, value_parser = read_duration, value_name = "TIME", default_value = "30s")]
    pub timeout: Duration,
}

/// Show the cluster's state.
#[derive(Debug, Args)]
pub struct Status {
    /// The format: table, json, yaml
    #[arg(short, long, default_value_t = settings::output(), hide_default_value = true, hide_possible_values = true)]
    pub output: Output,
}

/// Print the kubeconfig.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  export KUBECONFIG=$(odh local kubeconfig --path)
  odh local kubeconfig > my-cluster.yaml")]
pub struct Kubeconfig {
    /// Print where it is instead
    #[arg(long)]
    pub path: bool,
}

/// Run a job here.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  odh local run job.yaml
  odh local run job.yaml --image my-env=$HOME/venv

Ctrl-C deletes the job. The cluster stays up; stop it with odh local down.")]
pub struct Run {
    /// A YAML or JSON file with one job, or - for standard input
    pub file: PathBuf,
    /// Stop after this long and delete the job (exit code 8): 30s, 10m
    #[arg(long, value_parser = read_duration, value_name = "TIME")]
    pub timeout: Option<Duration>,
    /// Exit with the launcher's own exit code
    #[arg(long)]
    pub propagate_exit_code: bool,
    /// Delete an older job of the same name first
    #[arg(long)]
    pub replace: bool,
    /// The format: table, or json and yaml for the job as it ended
    #[arg(short, long, default_value_t = settings::output(), hide_default_value = true, hide_possible_values = true)]
    pub output: Output,
    /// For the cluster, if it has to be started.
    #[command(flatten, next_help_heading = "The cluster, if it is not up yet")]
    pub cluster: ClusterOptions,
}

/// What a person may do, as one of Kubernetes' own ClusterRoles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Role {
    /// Everything, everywhere
    ClusterAdmin,
    /// Everything in a namespace, roles too
    Admin,
    /// Write most things in a namespace
    Edit,
    /// Read most things in a namespace, but no Secrets
    View,
}

impl Role {
    /// Returns the name of the ClusterRole.
    pub fn name(self) -> &'static str {
        match self {
            Role::ClusterAdmin => "cluster-admin",
            Role::Admin => "admin",
            Role::Edit => "edit",
            Role::View => "view",
        }
    }
}

/// People of the cluster.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  odh local user anna --role edit -n team-a          may work in namespace team-a, which is made if need be
  odh local user ben --role view -n team-a,team-b --group auditors
  odh local user carla --role cluster-admin --expires 8h
  odh local user                                     who there is
  odh local user anna --delete                       refuse its token from now on

The kubeconfig is written to $ODH_HOME/users/NAME.kubeconfig. Made again, a user gets a new token, the old one is
refused, and earlier roles stay.")]
pub struct User {
    /// The person's name; without one, all are listed
    pub name: Option<String>,
    /// What the person may do: cluster-admin, admin, edit, view
    #[arg(long, value_enum, default_value_t = Role::Edit, hide_possible_values = true)]
    pub role: Role,
    /// The role holds in every namespace, not only in that of -n
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
    /// A group that the person is in; repeatable
    #[arg(long = "group", value_name = "GROUP")]
    pub groups: Vec<String>,
    /// How long the token is good: 8h, 720h
    #[arg(long, value_parser = read_duration, value_name = "TIME", default_value = "720h")]
    pub expires: Duration,
    /// Take the person's token, roles and kubeconfig away
    #[arg(long)]
    pub delete: bool,
    /// The format: table, json, yaml
    #[arg(short, long, default_value_t = settings::output(), hide_default_value = true, hide_possible_values = true)]
    pub output: Output,
}

/// Look at this machine.
#[derive(Debug, Args)]
pub struct Doctor {
    /// The format: table, json, yaml
    #[arg(short, long, default_value_t = settings::output(), hide_default_value = true, hide_possible_values = true)]
    pub output: Output,
}
