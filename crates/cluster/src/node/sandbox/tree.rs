//! Plain mode: a keeper process per container that ends with all of the container's descendants.
//!
//! Where there is no PID namespace, the kernel does not tie processes together. The keeper adopts whatever its
//! container leaves behind (child subreaper), and when the first process ends, or the keeper is told to stop (SIGTERM,
//! also by the kernel when the sandbox dies), it kills every descendant before it leaves.

use std::collections::HashMap;

use nix::errno::Errno;
use nix::sched::CloneFlags;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill, sigprocmask};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpid};

use super::kernel;

/// Rounds of killing: each finds the processes that the round before had not seen being forked.
const MAX_ROUNDS: u32 = 200;
/// Between rounds.
const ROUND_PAUSE: std::time::Duration = std::time::Duration::from_millis(5);

/// How the first process ended: exit code, and the signal if one ended it.
pub type Ending = (i32, Option<i32>);

/// Translates what `waitpid(2)` tells; `None` while it still runs.
pub fn ending(status: WaitStatus) -> Option<(Pid, Ending)> {
    match status {
        WaitStatus::Exited(pid, code) => Some((pid, (code, None))),
        WaitStatus::Signaled(pid, signal, _) => Some((pid, (128 + signal as i32, Some(signal as i32)))),
        _ => None,
    }
}

/// Runs `first` as a child and keeps its tree; returns when nothing of it is left.
///
/// `started` is told the child's process id as soon as there is one.
///
/// # Errors
/// Where the process cannot be set up as a keeper.
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

/// Kills every descendant of `root` and reaps those that become our children.
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

/// Every descendant of `root` that is not yet dead.
pub fn descendants(root: Pid) -> Vec<Pid> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        // The name stands in parentheses and may hold anything; state and parent follow the last one.
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
