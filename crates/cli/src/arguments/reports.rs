//! The verbs that ask the training service: usage, audit, capacity, advice and notifications.

use clap::{Args, Subcommand, ValueEnum};

use super::Output;
use crate::settings;

/// What usage is summed by, in addition to the namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SumBy {
    /// By user.
    User,
    /// By job.
    Job,
}

/// What jobs used.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  odh training usage                           the last 30 days of the namespace
  odh training usage -A --by user --since 2026-01-01 --until 2026-02-01
  odh training usage -A --by user,job --csv > january.csv

GPU-hours, CPU-hours and memory are exact to the second, and have costs where an administrator set prices.")]
pub struct Usage {
    /// Sum over all namespaces that you may see
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,
    /// Sum by user, job or both; repeatable, or separated by commas
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WHAT")]
    pub by: Vec<SumBy>,
    /// Only jobs of this user
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// Beginning of the period: a time, a day, or an age such as 7d; 30 days ago if not given
    #[arg(long, value_name = "WHEN")]
    pub since: Option<String>,
    /// End of the period; now if not given
    #[arg(long, value_name = "WHEN")]
    pub until: Option<String>,
    /// Print comma-separated values
    #[arg(long, conflicts_with = "output")]
    pub csv: bool,
    /// Output format: table, wide, json, yaml
    #[arg(short, long, default_value_t = settings::output(), hide_default_value = true, hide_possible_values = true)]
    pub output: Output,
}

/// Who did what.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  odh training audit --since 2d                of the namespace
  odh training audit -A --user jane
  odh training audit --object bert -o json

It has the changes that were made through the training service, and those by kubectl, odh and others that the admission
webhook reported. An auditor's role is needed.")]
pub struct Audit {
    /// Of all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,
    /// Only what this user did
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// Only what was done with the job or other object of this name
    #[arg(long, value_name = "NAME")]
    pub object: Option<String>,
    /// Only at this time or later: a time, a day, or an age such as 2d
    #[arg(long, value_name = "WHEN")]
    pub since: Option<String>,
    /// Only before this time
    #[arg(long, value_name = "WHEN")]
    pub until: Option<String>,
    /// At most so many operations, the newest
    #[arg(long, default_value_t = 1000, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub limit: u32,
    /// Output format: table, wide, json, yaml
    #[arg(short, long, default_value_t = settings::output(), hide_default_value = true, hide_possible_values = true)]
    pub output: Output,
}

/// What would fit.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  odh training capacity --workers 8 --gpus 4
  odh training capacity --workers 2 --cpu 16 --memory 64Gi --queue research

At least one of --gpus, --cpu and --memory is needed.
The exit code is 0 whether or not they fit; see `start` with -o json. The permission to list nodes is needed; without
it, the refusal has the free GPUs in sums if you may create jobs.")]
pub struct Capacity {
    /// Number of Workers
    #[arg(short, long, default_value_t = 1, value_name = "NUMBER")]
    pub workers: u32,
    /// GPUs of each Worker
    #[arg(short, long, default_value_t = 0, value_name = "NUMBER")]
    pub gpus: u32,
    /// CPUs of each Worker, such as 4 or 500m
    #[arg(long, value_name = "AMOUNT")]
    pub cpu: Option<String>,
    /// Memory of each Worker, such as 16Gi
    #[arg(long, value_name = "AMOUNT")]
    pub memory: Option<String>,
    /// Resource of the GPUs; the only one that the nodes offer if not given
    #[arg(long, value_name = "NAME")]
    pub gpu_resource: Option<String>,
    /// LocalQueue of the namespace
    #[arg(long, value_name = "NAME")]
    pub queue: Option<String>,
    /// Output format: table, wide, json, yaml
    #[arg(short, long, default_value_t = settings::output(), hide_default_value = true, hide_possible_values = true)]
    pub output: Output,
}

/// What to request.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  odh training advice                          for the programs of the namespace
  odh training advice -A -o json

It compares what programs request with what their former runs used.")]
pub struct Advice {
    /// Of all namespaces that you may see
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    pub all_namespaces: bool,
    /// Output format: table, wide, json, yaml
    #[arg(short, long, default_value_t = settings::output(), hide_default_value = true, hide_possible_values = true)]
    pub output: Output,
}

/// The notification rules of a namespace.
#[derive(Debug, Subcommand)]
pub enum NotificationVerb {
    /// List the rules of the namespace
    #[command(visible_alias = "ls")]
    List {
        /// Output format: table, wide, json, yaml
        #[arg(short, long, default_value_t = settings::output(), hide_default_value = true, hide_possible_values = true)]
        output: Output,
    },
    /// Create a rule, or replace the one of this name
    #[command(after_help = "Examples:
  odh training notifications put failures --phase Failed --email team@example.com
  odh training notifications put done --job bert --phase Succeeded,Failed --url https://example.com/hook
  odh training notifications put full --quota-percent 90 --email team@example.com
  odh training notifications put long --longer-than 24h --email team@example.com

The answer that creates a webhook has the key that signs its requests, and no later one does.")]
    Put(PutRule),
    /// Show what holds now of the conditions of rules: full quotas, jobs that run for long or are stalled
    Alerts {
        /// Of all namespaces that you may see
        #[arg(short = 'A', long, conflicts_with = "namespace")]
        all_namespaces: bool,
        /// Output format: table, wide, json, yaml
        #[arg(short, long, default_value_t = settings::output(), hide_default_value = true, hide_possible_values = true)]
        output: Output,
    },
    /// Send a test delivery
    Test {
        /// Rule name
        name: String,
    },
    /// Show what was sent, the newest first
    Deliveries {
        /// Only in this state: pending, delivered or dead
        #[arg(long, value_name = "STATE", value_parser = ["pending", "delivered", "dead"])]
        state: Option<String>,
        /// Output format: table, wide, json, yaml
        #[arg(short, long, default_value_t = settings::output(), hide_default_value = true, hide_possible_values = true)]
        output: Output,
    },
    /// Delete a rule and its deliveries
    Delete {
        /// Rule name
        name: String,
    },
}

/// A rule to put.
#[derive(Debug, Args)]
pub struct PutRule {
    /// Rule name
    pub name: String,
    /// Only for the job of this name, an MPIJob unless --kind says otherwise
    #[arg(long, value_name = "NAME")]
    pub job: Option<String>,
    /// Kind of that job
    #[arg(long, value_name = "KIND", requires = "job", value_parser = ["mpijob", "trainjob", "pytorchjob", "tfjob"])]
    pub kind: Option<String>,
    /// Only when a job comes into one of these phases; repeatable, or separated by commas
    #[arg(long, value_delimiter = ',', value_name = "PHASE")]
    pub phase: Vec<String>,
    /// Only with one of these causes, such as OutOfMemory
    #[arg(long, value_delimiter = ',', value_name = "CAUSE")]
    pub cause: Vec<String>,
    /// When a ResourceQuota of the namespace is used to at least N percent
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100),
        conflicts_with_all = ["phase", "cause", "job", "longer_than", "stalled"])]
    pub quota_percent: Option<u32>,
    /// When a job has run for longer than this, such as 24h
    #[arg(long, value_name = "TIME", value_parser = with_unit, conflicts_with_all = ["phase", "cause", "stalled"])]
    pub longer_than: Option<String>,
    /// When a job is stalled
    #[arg(long, conflicts_with_all = ["phase", "cause"])]
    pub stalled: bool,
    /// Send a webhook to this https address
    #[arg(long, value_name = "URL", required_unless_present = "email", conflicts_with = "email")]
    pub url: Option<String>,
    /// Send an e-mail to this address
    #[arg(long, value_name = "ADDRESS")]
    pub email: Option<String>,
    /// Create the rule out of force
    #[arg(long)]
    pub disabled: bool,
    /// Output format: table, wide, json, yaml
    #[arg(short, long, default_value_t = settings::output(), hide_default_value = true, hide_possible_values = true)]
    pub output: Output,
}

/// Refuses a number without a unit, which would silently be seconds.
fn with_unit(text: &str) -> Result<String, String> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!(
            "a unit is missing: write {text}h for hours, or {text}m for minutes, such as 24h"
        ));
    }
    Ok(text.to_owned())
}

impl NotificationVerb {
    /// Returns the requested format.
    pub fn output(&self) -> Output {
        match self {
            NotificationVerb::List { output }
            | NotificationVerb::Alerts { output, .. }
            | NotificationVerb::Deliveries { output, .. } => *output,
            NotificationVerb::Put(put) => put.output,
            NotificationVerb::Test { .. } | NotificationVerb::Delete { .. } => Output::Table,
        }
    }
}
