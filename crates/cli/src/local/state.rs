//! The state of a running local cluster, in a file that other commands read.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use semantics::local_images::{self, LocalImages};
use serde::{Deserialize, Serialize};

use super::home::{Home, unusable};
use crate::failure::Failure;

/// The number of failures of a part of the cluster, and the last one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failures {
    /// The number of failures.
    pub count: u64,
    /// When it last failed.
    pub last: Timestamp,
    /// The last error.
    pub message: String,
}

/// Where the training service is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceState {
    /// Its address.
    pub url: String,
    /// The file with the authority to trust for it.
    pub certificate_authority: PathBuf,
    /// The file with the administrator's token.
    pub token: PathBuf,
}

/// The running cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct State {
    /// Its process.
    pub pid: u32,
    /// When that process was started, in the kernel's clock ticks; distinguishes it from a later process with the same
    /// PID.
    pub process_started_ticks: u64,
    /// The address of the API.
    pub address: SocketAddr,
    /// The training service.
    #[serde(default)]
    pub service: Option<Box<ServiceState>>,
    /// The isolation mode of pods: `rootless`, `root`, `plain`.
    pub mode: String,
    /// Why no stronger mode is used.
    pub mode_reason: Option<String>,
    /// Why memory and CPU limits are not enforced, if they are not.
    pub limits_not_enforced: Option<String>,
    /// Image names and their environments.
    pub images: LocalImages,
    /// The number of nodes.
    pub nodes: u32,
    /// The number of GPUs that each node reports.
    pub gpus: u32,
    /// How often the cluster was asked to adopt the remembered options.
    #[serde(default)]
    pub adoptions: u64,
    /// Why it did not adopt them the last time.
    #[serde(default)]
    pub refused: Option<String>,
    /// Whether the operator was left out.
    #[serde(default)]
    pub no_operator: bool,
    /// The other options that it keeps until it is stopped, as flags.
    #[serde(default)]
    pub kept_options: Vec<String>,
    /// The parts of the cluster that failed and were restarted.
    #[serde(default)]
    pub failures: BTreeMap<String, Failures>,
    /// When it was started.
    pub since: Timestamp,
    /// The version of the program.
    pub version: String,
}

impl State {
    /// Reads the state file; `None` if it does not exist or cannot be parsed.
    pub fn read(home: &Home) -> Option<State> {
        serde_json::from_slice(&std::fs::read(home.state()).ok()?).ok()
    }

    /// Returns the state of a running cluster.
    pub fn alive(home: &Home) -> Option<State> {
        State::read(home).filter(State::is_alive)
    }

    /// The local environment that stands for an image.
    pub fn environment_of(&self, image: &str) -> Option<&Path> {
        local_images::environment_of(&self.images, image)
    }

    /// Whether pods of an image cannot start: it is not mapped, but other tags of it are.
    pub fn pulls_nothing_for(&self, image: &str) -> bool {
        !local_images::other_tags(&self.images, image).is_empty()
    }

    /// Whether the process of the state still runs.
    pub fn is_alive(&self) -> bool {
        process_started_ticks(self.pid) == Some(self.process_started_ticks)
    }

    /// Writes the file atomically: a reader sees either the old or the new content.
    pub fn write(&self, home: &Home) -> Result<(), Failure> {
        let text = serde_json::to_vec_pretty(self).unwrap_or_default();
        write_private(&home.state(), &text)
    }
}

/// Writes a file of mode 0600 atomically: a reader sees either the old or the new content.
pub fn write_private(path: &Path, content: &[u8]) -> Result<(), Failure> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let write = || {
        let mut file =
            std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(content)?;
        std::fs::rename(&new, path)
    };
    write().map_err(|error| unusable(path, &error))
}

/// Returns the start time of a process, field 22 of `/proc/PID/stat` (proc(5)); `None` if there is no such process, or
/// it is a zombie.
pub fn process_started_ticks(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may contain anything, including blanks and parentheses.
    let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_whitespace();
    let state = fields.next()?;
    if state == "Z" {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// Returns the resident memory of a process, in KiB: `VmRSS` of `/proc/PID/status`.
pub fn resident_kib(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?
        .trim()
        .trim_end_matches(" kB")
        .trim()
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_identified_by_its_start_time() {
        let me = std::process::id();
        let started = process_started_ticks(me).unwrap();
        assert!(started > 0);
        assert_eq!(process_started_ticks(me), Some(started));
        assert_eq!(process_started_ticks(u32::MAX), None);
        assert!(resident_kib(me).unwrap() > 100);
    }
}
