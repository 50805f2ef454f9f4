//! The isolation of pods on this machine: the requested mode, the mode in force, and why no stronger one is possible.
//!
//! Values only. The sandbox process chooses the mode by trying (see `sandbox::choose`).

use serde::{Deserialize, Serialize};

/// The mode that the caller requests.
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
    /// Returns the name used in annotations, flags and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            ModeKind::Rootless => "rootless",
            ModeKind::Root => "root",
            ModeKind::Plain => "plain",
        }
    }

    /// Returns whether pods have their own namespaces.
    pub fn isolates(self) -> bool {
        self != ModeKind::Plain
    }
}

impl std::fmt::Display for ModeKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The isolation that the node actually uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mode {
    /// The isolation in force.
    pub kind: ModeKind,
    /// Why no stronger mode is in force; `None` if it is the strongest.
    pub reason: Option<String>,
    /// Whether cgroups enforce memory and CPU limits; the error says why not.
    pub limits: Result<(), String>,
}
