//! What this machine permits, determined without the product; and what a story leaves behind on it.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Returns whether an unprivileged user namespace with its own network can be created.
pub fn permits_rootless() -> bool {
    let tried = Command::new("unshare")
        .args(["--user", "--map-root-user", "--net", "true"])
        .stderr(Stdio::null())
        .status();
    tried.is_ok_and(|status| status.success())
}

/// Returns whether we may create namespaces as root.
pub fn permits_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Kills a process of the story with SIGKILL.
pub fn kill_process(pid: i32) {
    kill(Pid::from_raw(pid), Signal::SIGKILL).expect("the process can be killed");
}

/// Returns the pid, on this machine, of a Worker's launch agent, which is its container's first process. `None`
/// while it does not run.
pub fn first_process_of(pod: &str) -> Option<i32> {
    let named = format!("HOSTNAME={pod}");
    let is_agent = |pid: &i32| {
        text_of(&format!("/proc/{pid}/cmdline")).contains("odh-launch serve")
            && has_variable(*pid, |variable| variable == named.as_bytes())
    };
    pids().filter(is_agent).min()
}

/// Returns the pid, on this machine, of a process of the pod whose name begins like this. `None` while none runs.
pub fn a_process_of(pod: &str) -> Option<i32> {
    let named = format!("HOSTNAME={pod}");
    pids().filter(|pid| has_variable(*pid, |variable| variable.starts_with(named.as_bytes()))).min()
}

fn pids() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").expect("/proc can be read").filter_map(Result::ok);
    entries.filter_map(|entry| entry.file_name().to_string_lossy().parse::<i32>().ok())
}

fn has_variable(pid: i32, wanted: impl Fn(&[u8]) -> bool) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(wanted)
}

/// Runs a command in the network namespace of a process; requires root.
pub fn in_network_of(pid: i32, command: &[&str]) {
    let target = pid.to_string();
    // A user's path often lacks the folders of programs for root.
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let mut enter = Command::new("nsenter");
    enter.args(["--net", "--target", &target]).args(command).env("PATH", path);
    let output = enter.output();
    let output = output.expect("nsenter can be started");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Possible leftovers: processes whose environment or arguments name a folder, mounts below it, interfaces.
#[derive(Debug, PartialEq, Eq)]
pub struct Leftovers {
    /// Command lines of processes that mention the folder.
    pub processes: Vec<String>,
    /// Mount points, as this process sees them.
    pub mounts: BTreeSet<String>,
    /// Network interfaces, as this process sees them.
    pub interfaces: BTreeSet<String>,
}

impl Leftovers {
    /// Finds everything on the machine that mentions the folder `marker`.
    pub fn look(marker: &str) -> Leftovers {
        Leftovers { processes: processes_that_mention(marker), mounts: mounts(), interfaces: interfaces() }
    }
}

fn processes_that_mention(marker: &str) -> Vec<String> {
    let own = std::process::id().to_string();
    let entries = fs::read_dir("/proc").expect("/proc can be read");
    let mut found: Vec<String> = entries
        .filter_map(Result::ok)
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()) && *name != own)
        .filter_map(|pid| {
            let arguments = text_of(&format!("/proc/{pid}/cmdline"));
            let environment = text_of(&format!("/proc/{pid}/environ"));
            (arguments.contains(marker) || environment.contains(marker)).then(|| format!("{pid} {arguments}"))
        })
        .collect();
    found.sort();
    found
}

fn text_of(path: &str) -> String {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).replace('\0', " ")).unwrap_or_default()
}

fn mounts() -> BTreeSet<String> {
    let text = text_of("/proc/self/mountinfo");
    text.lines().filter_map(|line| line.split_whitespace().nth(4)).map(str::to_owned).collect()
}

fn interfaces() -> BTreeSet<String> {
    let entries = fs::read_dir("/sys/class/net").expect("/sys/class/net can be read");
    entries.filter_map(Result::ok).map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}
