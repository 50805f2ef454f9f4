//! The options that hold for every command: the cluster, the namespace, the user to act as, colours.

use std::path::PathBuf;

use clap::Args;

use crate::console::Color;
use crate::settings;

/// What holds for every command.
#[derive(Debug, Args, Default)]
pub struct Global {
    /// Namespace; defaults to that of the context
    #[arg(short, long, global = true, value_name = "NAME", help_heading = "Cluster")]
    pub namespace: Option<String>,
    /// Kubeconfig; defaults to $KUBECONFIG, ~/.kube/config or the local cluster's
    #[arg(long, global = true, value_name = "FILE", help_heading = "Cluster")]
    pub kubeconfig: Option<PathBuf>,
    /// Kubeconfig context to use
    #[arg(long, global = true, value_name = "NAME", help_heading = "Cluster")]
    pub context: Option<String>,
    /// User to impersonate; requires the permission to impersonate
    #[arg(long = "as", global = true, value_name = "USER", help_heading = "Cluster")]
    pub act_as: Option<String>,
    /// Group to impersonate; repeatable
    #[arg(long, global = true, value_name = "GROUP", help_heading = "Cluster")]
    pub as_group: Vec<String>,
    /// Log each request and its answer to standard error; -vv logs more of the connection
    #[arg(short, long, global = true, action = clap::ArgAction::Count, display_order = 899)]
    pub verbose: u8,
    /// When to use colours: auto, always, never; NO_COLOR is honoured too
    #[arg(long, global = true, value_enum, default_value_t = settings::current().color.unwrap_or(Color::Auto), value_name = "WHEN", hide_possible_values = true, hide_default_value = true, display_order = 900)]
    pub color: Color,
}

impl Global {
    /// What to log, if anything: requests and answers, with twice the flag also what the connection does. Headers, and so
    /// tokens, are not logged.
    pub fn log_filter(&self) -> Option<&'static str> {
        match self.verbose {
            0 => None,
            1 => Some("off,kube=debug,kube_client=debug"),
            _ => Some("off,kube=trace,kube_client=trace,hyper_util=debug,rustls=debug,tower=debug"),
        }
    }
}
