//! Finds the processes that belong to a command: those of its session, and its descendants. The process group alone
//! is not enough, because MPI daemons put each rank into a group of its own.

use std::collections::BTreeSet;
use std::fs;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A process as `/proc/PID/stat` shows it (proc(5)). Two with the same `pid` and `begun` are the same process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: i32,
    /// Its parent's id.
    parent: i32,
    /// Its session's id.
    session: i32,
    /// When it began, in clock ticks since the machine started.
    begun: u64,
    /// Dead, and only waiting to be reaped.
    zombie: bool,
}

/// Returns every visible process.
pub fn all() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().as_encoded_bytes().first().is_some_and(u8::is_ascii_digit))
        .filter_map(|entry| parse(&fs::read(entry.path().join("stat")).ok()?))
        .collect()
}

fn parse(stat: &[u8]) -> Option<Process> {
    let text = String::from_utf8_lossy(stat);
    // The name is in parentheses and may itself contain any character.
    let (head, tail) = text.rsplit_once(')')?;
    let fields: Vec<&str> = tail.split_whitespace().collect();
    Some(Process {
        pid: head.split_whitespace().next()?.parse().ok()?,
        zombie: matches!(*fields.first()?, "Z" | "X"),
        parent: fields.get(1)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        begun: fields.get(19)?.parse().ok()?,
    })
}

/// Returns the living `processes` that descend from `root` or are in the session with that id; `root` itself only
/// through its session.
pub fn belonging(processes: &[Process], root: Pid) -> Vec<Process> {
    let root = root.as_raw();
    let mut family = BTreeSet::from([root]);
    // Each round finds one more generation, and there are at most as many generations as processes.
    for _ in 0..processes.len() {
        let before = family.len();
        family.extend(
            processes.iter().filter(|p| family.contains(&p.parent)).map(|p| p.pid).collect::<Vec<_>>(),
        );
        if family.len() == before {
            break;
        }
    }
    processes
        .iter()
        .filter(|p| !p.zombie && (p.session == root || (p.pid != root && family.contains(&p.pid))))
        .copied()
        .collect()
}

/// Returns when a living process began, in clock ticks since the machine started. A later process with the same id
/// began later.
pub fn began(process: i32) -> Option<u64> {
    let found = parse(&fs::read(format!("/proc/{process}/stat")).ok()?)?;
    (!found.zombie).then_some(found.begun)
}

/// Returns the children of a process, from the kernel's lists for each of its threads (proc(5), `children`); none
/// if the kernel has no such lists. The cost does not depend on other processes.
pub fn children_of(process: i32) -> Vec<i32> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|id| id.parse().ok()).collect::<Vec<_>>())
        .collect()
}

/// Returns whether a descendant of this process holds the socket with this inode.
pub fn hold_socket(inode: u64) -> bool {
    let wanted = format!("socket:[{inode}]");
    let me = Pid::this();
    belonging(&all(), me).iter().filter(|process| process.pid != me.as_raw()).any(|process| {
        let entries = fs::read_dir(format!("/proc/{}/fd", process.pid)).into_iter().flatten();
        entries.filter_map(Result::ok).any(|entry| {
            fs::read_link(entry.path()).is_ok_and(|target| target.as_os_str() == wanted.as_str())
        })
    })
}

/// Returns those of `known` that still exist.
pub fn still_there(known: &[Process], processes: &[Process]) -> Vec<Process> {
    let alive = |k: &&Process| processes.iter().any(|p| p.pid == k.pid && p.begun == k.begun && !p.zombie);
    known.iter().filter(alive).copied().collect()
}

/// Sends a signal to each. A process that has just ended is no error.
pub fn signal_each(processes: &[Process], signal: Signal) {
    for process in processes {
        let _ = kill(Pid::from_raw(process.pid), signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn process(pid: i32, parent: i32, session: i32) -> Process {
        Process { pid, parent, session, begun: 7, zombie: false }
    }

    #[test]
    fn a_name_with_parentheses_and_spaces_does_not_confuse() {
        let stat = b"42 (a) b (c) S 7 42 41 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4711 1 1 1";
        assert_eq!(
            parse(stat),
            Some(Process { pid: 42, parent: 7, session: 41, begun: 4711, zombie: false })
        );
        assert_eq!(parse(b"42 (x"), None);
    }

    #[test]
    fn sessions_and_descendants_but_not_neighbours() {
        let orphan_of_session = process(13, 1, 10);
        let left_the_session = process(12, 11, 12);
        let mut dead = process(14, 10, 10);
        dead.zombie = true;
        let all = [
            process(10, 1, 10),
            process(11, 10, 10),
            left_the_session,
            orphan_of_session,
            dead,
            process(20, 1, 20),
        ];
        let pids: Vec<i32> = belonging(&all, Pid::from_raw(10)).iter().map(|p| p.pid).collect();
        assert_eq!(pids, [10, 11, 12, 13]);
    }

    #[test]
    fn a_reused_id_is_another_process() {
        let mut successor = process(10, 1, 10);
        successor.begun = 8;
        assert!(still_there(&[process(10, 1, 10)], &[successor]).is_empty());
        assert_eq!(still_there(&[successor], &[successor]), [successor]);
    }

    #[test]
    fn this_process_is_seen() {
        assert!(all().iter().any(|p| p.pid == std::process::id() as i32));
    }
}
