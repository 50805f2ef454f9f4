//! How far pods are isolated on this machine: the wish, what was really possible, and why nothing stronger was.
//!
//! Values only: the choice itself is made by the sandbox process, which tries (see `sandbox::choose`).

use serde::{Deserialize, Serialize};

/// The mode that the caller asks for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ModeChoice {
    /// The first that works: rootless, root, plain.
    #[default]
    Auto,
    /// Namespaces inside one user namespace; needs no root. Refused if the machine forbids it.
    Rootless,
    /// Namespaces made by root. Refused unless the caller is root.
    Root,
    /// No namespaces: pods are plain processes and share the machine's hostname and network.
    Plain,
}

/// The kind of isolation in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ModeKind {
    /// Own network, hostname, processes and mounts per pod, inside an unprivileged user namespace.
    Rootless,
    /// The same, made by root without a user namespace.
    Root,
    /// No isolation.
    Plain,
}

impl ModeKind {
    /// The word that stands in annotations, flags and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            ModeKind::Rootless => "rootless",
            ModeKind::Root => "root",
            ModeKind::Plain => "plain",
        }
    }

    /// Whether pods have namespaces of their own.
    pub fn isolates(self) -> bool {
        self != ModeKind::Plain
    }
}

impl std::fmt::Display for ModeKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What the node really uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mode {
    /// The isolation in force.
    pub kind: ModeKind,
    /// Why no stronger mode is in force, or `None` where the strongest is.
    pub reason: Option<String>,
    /// Whether memory and CPU limits are enforced by cgroups; if not, why not.
    pub limits: Result<(), String>,
}
