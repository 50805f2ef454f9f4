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
    /// Show whether the cluster is up, its address and its mode
    Status(Status),
    /// Print the cluster's kubeconfig
    Kubeconfig(Kubeconfig),
    /// Open the dashboard, signed in
    Dashboard(Dashboard),
    /// Run a job and show its output; starts the cluster if needed
    Run(Run),
    /// Create, list or delete users, each with a role and a kubeconfig
    User(User),
    /// Check what this machine supports and what to install
    Doctor(Doctor),
    /// List, map or unmap images, also while the cluster runs
    Image {
        /// What to do with them.
        #[command(subcommand)]
        verb: ImageVerb,
    },
    /// List the nodes, power them off and on, or drain them
    Node {
        /// What to do with them.
        #[command(subcommand)]
        verb: NodeVerb,
    },
}

/// What to do with the images that stand for directories of this machine.
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  odh local image add my-env=$HOME/venv              image my-env: ~/venv/bin first on PATH
  odh local image list
  odh local image rm my-env

Running pods keep what they were started with. The next start of the cluster maps the same images.")]
pub enum ImageVerb {
    /// List the mapped images
    List(ImageList),
    /// Map image names to directories whose bin/ comes first on PATH; replaces what a name was mapped to
    Add {
        /// Image name and directory
        #[arg(value_name = "NAME=DIR", value_parser = read_image, required = true)]
        images: Vec<(String, PathBuf)>,
    },
    /// Map images no longer
    Rm {
        /// Image names
        #[arg(value_name = "NAME", required = true)]
        names: Vec<String>,
    },
}

/// Show the mapped images.
#[derive(Debug, Args)]
pub struct ImageList {
    /// Output format: table, json, yaml
    #[arg(short, long, default_value_t = settings::output(), hide_default_value = true, hide_possible_values = true)]
    pub output: Output,
}

/// What to do with the nodes that the machine poses as.
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  odh local up --nodes 4 --gpus 8 --node-grace 10s
  odh local node list
  odh local node down node-2                         power cut: processes die, heartbeats stop
  odh local node up node-2")]
pub enum NodeVerb {
    /// List the nodes: state, location, resources and pods
    List(NodeList),
    /// Power off a node: the processes of its pods are killed and its heartbeats stop
    Down {
        /// Node name
        name: String,
    },
    /// Power on a node and make it schedulable again
    Up {
        /// Node name
        name: String,
    },
    /// Make a node unschedulable and evict its pods
    Drain(NodeDrain),
}

/// Show the nodes.
#[derive(Debug, Args)]
pub struct NodeList {
    /// Output format: table, json, yaml
    #[arg(short, long, default_value_t = settings::output(), hide_default_value = true, hide_possible_values = true)]
    pub output: Output,
}

/// Empty a node.
#[derive(Debug, Args)]
pub struct NodeDrain {
    /// Node name
    pub name: String,
    /// How long to wait for its pods to end: 30s, 10m
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
            LocalVerb::Image { verb: ImageVerb::List(list) } => list.output,
            LocalVerb::Up(_)
            | LocalVerb::Down(_)
            | LocalVerb::Kubeconfig(_)
            | LocalVerb::Dashboard(_)
            | LocalVerb::Image { .. }
            | LocalVerb::Node { .. } => Output::Table,
        }
    }
}

/// How pods are isolated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// The strongest isolation that this machine permits
    Auto,
    /// Namespaces of an unprivileged user
    Rootless,
    /// Namespaces of root
    Root,
    /// Plain processes without isolation
    Plain,
}

impl Mode {
    /// Returns the mode as it is typed, and as the cluster's state has it.
    pub fn word(self) -> &'static str {
        match self {
            Mode::Auto => "auto",
            Mode::Rootless => "rootless",
            Mode::Root => "root",
            Mode::Plain => "plain",
        }
    }
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
  odh local up --nodes 4 --gpus 8                    simulate four nodes with eight GPUs each, at once

State is kept in $ODH_HOME (~/.local/share/odh if not set). --nodes, --gpus, --mode and
--local-webhooks that are not given are as at the last start, and its images stay mapped; --reset
forgets them. A cluster that is up adopts --image, --nodes and --gpus; a node with running pods must
be drained before it goes. The other options take effect after odh local down.")]
pub struct Up {
    /// What the cluster is to be like.
    #[command(flatten)]
    pub cluster: ClusterOptions,
    /// Start with the options given here only, instead of those of the last start
    #[arg(long)]
    pub reset: bool,
    /// Run in the foreground until interrupted
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
    /// Number of nodes; each gets an equal share of this machine (1 at the first start)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub nodes: Option<u32>,
    /// Number of simulated GPUs on each node, without real devices (0 at the first start)
    #[arg(long, value_name = "N")]
    pub gpus: Option<u32>,
    /// Time without heartbeats after which a node counts as lost: 10s, 1m
    #[arg(long, value_parser = read_grace, value_name = "TIME", default_value = "40s")]
    pub node_grace: Duration,
    /// How long the pods' name server repeats that a name does not exist: 30s as on a cluster of kubeadm, 0s is off
    #[arg(long, value_parser = read_duration, value_name = "TIME", default_value = "0s")]
    pub dns_negative_ttl: Duration,
    /// How pods are isolated: auto, rootless, root, plain (auto at the first start)
    #[arg(long, value_enum, hide_possible_values = true)]
    pub mode: Option<Mode>,
    /// Don't install the operator and its resources, to use another operator
    #[arg(long)]
    pub no_operator: bool,
    /// Let notification rules send webhooks to this machine, also by http, to try a receiver
    #[arg(long)]
    pub local_webhooks: bool,
    /// Log every request to $ODH_HOME/audit.log: on, off
    #[arg(long, value_enum, default_value_t = Switch::On, value_name = "SWITCH", hide_possible_values = true)]
    pub audit: Switch,
    /// File with the URL of a PostgreSQL database for the training service's history, or set ODH_TRAINING_STORE_URL;
    /// SQLite below $ODH_HOME if neither is given
    #[arg(long, value_name = "FILE")]
    pub store_url_file: Option<PathBuf>,
    /// Port on 127.0.0.1; 0 means the previous port, or else any free one
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
        _ => Err("expected NAME=DIR".to_owned()),
    }
}

/// Stop the cluster.
#[derive(Debug, Args)]
pub struct Down {
    /// Also remove its state: jobs, logs, the data of claims, users, kubeconfig; asks on a terminal
    #[arg(long)]
    pub purge: bool,
    /// Don't ask for confirmation
    #[arg(short, long)]
    pub yes: bool,
    /// How long to wait for its processes to end
    #[arg(long, value_parser = read_duration, value_name = "TIME", default_value = "30s")]
    pub timeout: Duration,
}

/// Show the cluster's state.
#[derive(Debug, Args)]
pub struct Status {
    /// Output format: table, json, yaml
    #[arg(short, long, default_value_t = settings::output(), hide_default_value = true, hide_possible_values = true)]
    pub output: Output,
}

/// Print the kubeconfig.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  export KUBECONFIG=$(odh local kubeconfig --path)
  odh local kubeconfig > my-cluster.yaml")]
pub struct Kubeconfig {
    /// Print the path of the kubeconfig instead
    #[arg(long)]
    pub path: bool,
}

/// The page in a browser.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  odh local dashboard                                open it in the browser of this machine
  odh local dashboard --print                        print its address only

The address signs in as the administrator, once, within 15 minutes.")]
pub struct Dashboard {
    /// Print the address; open nothing
    #[arg(long)]
    pub print: bool,
}

/// Run a job here.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  odh local run job.yaml
  odh local run job.yaml --image my-env=$HOME/venv

Ctrl-C deletes the job. The cluster stays up; stop it with odh local down.")]
pub struct Run {
    /// YAML or JSON file with one job, or - for standard input
    pub file: PathBuf,
    /// Stop after this long and delete the job (exit code 8): 30s, 10m
    #[arg(long, value_parser = read_duration, value_name = "TIME")]
    pub timeout: Option<Duration>,
    /// Exit with the Launcher's exit code
    #[arg(long)]
    pub propagate_exit_code: bool,
    /// Delete an existing job of the same name first
    #[arg(long)]
    pub replace: bool,
    /// Output format: table; json and yaml print the finished job
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
    /// Everything in a namespace, including roles
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
  odh local user anna --role edit -n team-a          access to team-a, created if needed
  odh local user ben --role view -n team-a,team-b --group auditors
  odh local user carla --role cluster-admin --expires 8h
  odh local user                                     list all users
  odh local user anna --delete                       revoke the token

The kubeconfig is written to $ODH_HOME/users/NAME.kubeconfig. Creating an existing user again issues
a new token, revokes the old one and keeps earlier roles.")]
pub struct User {
    /// User name; without it, all users are listed
    pub name: Option<String>,
    /// Role of the user: cluster-admin, admin, edit, view
    #[arg(long, value_enum, default_value_t = Role::Edit, hide_possible_values = true)]
    pub role: Role,
    /// Grant the role in all namespaces, not only in those of -n
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
    /// Group of the user; repeatable
    #[arg(long = "group", value_name = "GROUP")]
    pub groups: Vec<String>,
    /// How long the token is valid: 8h, 720h
    #[arg(long, value_parser = read_duration, value_name = "TIME", default_value = "720h")]
    pub expires: Duration,
    /// Delete the user: revoke the token, remove roles and kubeconfig
    #[arg(long)]
    pub delete: bool,
    /// Output format: table, json, yaml
    #[arg(short, long, default_value_t = settings::output(), hide_default_value = true, hide_possible_values = true)]
    pub output: Output,
}

/// Look at this machine.
#[derive(Debug, Args)]
pub struct Doctor {
    /// Output format: table, json, yaml
    #[arg(short, long, default_value_t = settings::output(), hide_default_value = true, hide_possible_values = true)]
    pub output: Output,
}
