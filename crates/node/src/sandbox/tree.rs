//! Plain mode: a keeper process per container, which ends all of the container's descendants.
//!
//! Without a PID namespace, the kernel does not tie processes together. The keeper adopts processes that its container
//! leaves behind (child subreaper). When the first process ends, or the keeper receives SIGTERM (from the sandbox, or
//! from the kernel when the sandbox dies), the keeper kills every descendant and then exits.

use std::collections::HashMap;

use nix::errno::Errno;
use nix::sched::CloneFlags;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill, sigprocmask};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpid};

use super::kernel;

/// Rounds of killing. Each round finds processes forked during the round before.
const MAX_ROUNDS: u32 = 200;
/// Time between rounds.
const ROUND_PAUSE: std::time::Duration = std::time::Duration::from_millis(5);

/// How a process ended: exit code, and the signal if one ended it.
pub type Ending = (i32, Option<i32>);

/// Converts a result of `waitpid(2)`. Returns `None` if the process still runs.
pub fn ending(status: WaitStatus) -> Option<(Pid, Ending)> {
    match status {
        WaitStatus::Exited(pid, code) => Some((pid, (code, None))),
        WaitStatus::Signaled(pid, signal, _) => Some((pid, (128 + signal as i32, Some(signal as i32)))),
        _ => None,
    }
}

/// Runs `first` as a child and keeps its process tree. Returns when no process of it is left.
///
/// Calls `started` with the child's process id right after the fork.
///
/// # Errors
/// When the process cannot be set up as a keeper.
pub fn keep(first: impl FnOnce() -> u8, started: impl FnOnce(Pid)) -> Result<Ending, Errno> {
    nix::sys::prctl::set_child_subreaper(true)?;
    nix::sys::prctl::set_pdeathsig(Signal::SIGTERM)?;
    let mut waited = SigSet::empty();
    waited.add(Signal::SIGCHLD);
    waited.add(Signal::SIGTERM);
    sigprocmask(SigmaskHow::SIG_BLOCK, Some(&waited), None)?;
    let pid = kernel::fork(CloneFlags::empty(), first)?;
    started(pid);
    let ended = wait_for(pid, &waited);
    kill_descendants(getpid());
    Ok(ended)
}

fn wait_for(first: Pid, waited: &SigSet) -> Ending {
    loop {
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)).ok().and_then(ending) {
                Some((pid, how)) if pid == first => return how,
                Some(_) => {}
                None => break,
            }
        }
        if waited.wait() == Ok(Signal::SIGTERM) {
            return (128 + Signal::SIGKILL as i32, Some(Signal::SIGKILL as i32));
        }
    }
}

/// Kills every descendant of `root`, and reaps those that become our children.
pub fn kill_descendants(root: Pid) {
    for _ in 0..MAX_ROUNDS {
        let found = descendants(root);
        for pid in &found {
            let _ = kill(*pid, Signal::SIGKILL);
        }
        while let Ok(status) = waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            if status == WaitStatus::StillAlive {
                break;
            }
        }
        if found.is_empty() {
            return;
        }
        std::thread::sleep(ROUND_PAUSE);
    }
}

/// Returns every living descendant of `root`.
pub fn descendants(root: Pid) -> Vec<Pid> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        // The name is in parentheses and may contain anything. State and parent follow the last parenthesis.
        let Some((_, rest)) = stat.rsplit_once(") ") else { continue };
        let mut fields = rest.split(' ');
        let dead = matches!(fields.next(), Some("Z" | "X"));
        if let (false, Some(Ok(parent))) = (dead, fields.next().map(str::parse::<i32>)) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut next = vec![root.as_raw()];
    while let Some(pid) = next.pop() {
        for child in children.remove(&pid).unwrap_or_default() {
            found.push(Pid::from_raw(child));
            next.push(child);
        }
    }
    found
}
