//! What a running local cluster says of itself, in a file that other commands read.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::home::{Home, unusable};
use crate::failure::Failure;

/// How often a part of the cluster failed, and how it did last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failures {
    /// How often.
    pub count: u64,
    /// When it failed last.
    pub last: Timestamp,
    /// How.
    pub message: String,
}

/// The running cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct State {
    /// Its process.
    pub pid: u32,
    /// When that process was started, in the kernel's clock ticks: tells it from a later one of the same number.
    pub process_started_ticks: u64,
    /// Where the API is served.
    pub address: SocketAddr,
    /// How pods are kept apart: `rootless`, `root`, `plain`.
    pub mode: String,
    /// Why no stronger mode is in use.
    pub mode_reason: Option<String>,
    /// Why limits of memory and CPU are not enforced, if they are not.
    pub limits_not_enforced: Option<String>,
    /// Image names and the environments that they stand for.
    pub images: BTreeMap<String, PathBuf>,
    /// How many nodes it shows.
    pub nodes: u32,
    /// How many GPUs each of them is said to have.
    pub gpus: u32,
    /// Whether the operator was left out.
    #[serde(default)]
    pub no_operator: bool,
    /// What of the cluster failed since then, and was started again.
    #[serde(default)]
    pub failures: BTreeMap<String, Failures>,
    /// Since when it is up.
    pub since: Timestamp,
    /// The version of the program.
    pub version: String,
}

impl State {
    /// The state file's content, if there is one that can be read.
    pub fn read(home: &Home) -> Option<State> {
        serde_json::from_slice(&std::fs::read(home.state()).ok()?).ok()
    }

    /// The state of a cluster that runs.
    pub fn alive(home: &Home) -> Option<State> {
        State::read(home).filter(State::is_alive)
    }

    /// Whether the process of the state still runs.
    pub fn is_alive(&self) -> bool {
        process_started_ticks(self.pid) == Some(self.process_started_ticks)
    }

    /// Writes the file; a reader sees the old content or the new.
    pub fn write(&self, home: &Home) -> Result<(), Failure> {
        let text = serde_json::to_vec_pretty(self).unwrap_or_default();
        write_private(&home.state(), &text)
    }
}

/// Writes a file of mode 0600 at once: a reader sees the old content or the new.
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

/// The start time of a process: field 22 of `/proc/PID/stat` (proc(5)); nothing if there is none, or only its corpse.
pub fn process_started_ticks(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything, blanks and parentheses too.
    let mut fields = stat.get(stat.rfind(')')? + 1..)?.split_whitespace();
    let state = fields.next()?;
    if state == "Z" {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// The memory that a process holds, in KiB: `VmRSS` of `/proc/PID/status`.
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
    fn a_process_is_told_by_its_start() {
        let me = std::process::id();
        let started = process_started_ticks(me).unwrap();
        assert!(started > 0);
        assert_eq!(process_started_ticks(me), Some(started));
        assert_eq!(process_started_ticks(u32::MAX), None);
        assert!(resident_kib(me).unwrap() > 100);
    }
}
