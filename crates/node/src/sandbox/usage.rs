//! Measures current usage: CPU time and memory of the containers' processes, and the pods' network traffic.
//!
//! Reads the sandbox's `/proc`, which shows all of its processes, and a container's own cgroup if there is one. Runs in
//! a short-lived child, because reading a pod with many processes takes a while.

use std::collections::{HashMap, HashSet};
use std::fs;

use super::cgroups::Group;
use super::protocol::{ContainerUsage, PodTraffic, Usage};

/// Nanoseconds per tick of the kernel's accounting (`USER_HZ`, 100 on every supported architecture).
const TICK_NANOS: u64 = 10_000_000;
/// Bytes per page, for the resident set, which is counted in pages.
const PAGE_BYTES: u64 = 4096;

/// A container to measure.
pub struct Subject<'a> {
    /// The number of its `Start` request.
    pub process: u64,
    /// The roots of its processes: its first, and those run beside it.
    pub roots: Vec<i32>,
    /// Its cgroup.
    pub group: Option<&'a Group>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    parent: i32,
    /// Its own CPU time and that of its children that have ended.
    cpu_nanos: u64,
    resident_pages: u64,
}

/// Measures all subjects. `interfaces` has the pods' uids and the names of their outer interfaces.
pub fn look(subjects: &[Subject<'_>], interfaces: &[(String, String)]) -> Usage {
    let processes = all_processes();
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for (pid, process) in &processes {
        children.entry(process.parent).or_default().push(*pid);
    }
    let containers = subjects.iter().map(|subject| container(subject, &processes, &children)).collect();
    let table = fs::read_to_string("/proc/self/net/dev").unwrap_or_default();
    let pods = interfaces.iter().filter_map(|(pod, name)| {
        let (sent_bytes, received_bytes) = traffic(&table, name)?;
        Some(PodTraffic { pod: pod.clone(), received_bytes, sent_bytes })
    });
    Usage { containers, pods: pods.collect() }
}

fn container(
    subject: &Subject<'_>,
    processes: &HashMap<i32, Process>,
    children: &HashMap<i32, Vec<i32>>,
) -> ContainerUsage {
    let mut own = HashSet::new();
    let mut next = subject.roots.clone();
    while let Some(pid) = next.pop() {
        if own.insert(pid) {
            next.extend(children.get(&pid).into_iter().flatten());
        }
    }
    let own: Vec<(i32, &Process)> =
        own.into_iter().filter_map(|pid| Some((pid, processes.get(&pid)?))).collect();
    let from_group = subject.group.map(Group::usage).unwrap_or_default();
    let cpu_nanos =
        from_group.0.unwrap_or_else(|| own.iter().map(|(_, process)| process.cpu_nanos).sum::<u64>());
    let memory_bytes = from_group.1.unwrap_or_else(|| {
        own.iter()
            .map(|(pid, process)| proportional(*pid).unwrap_or(process.resident_pages * PAGE_BYTES))
            .sum()
    });
    ContainerUsage { process: subject.process, cpu_nanos, memory_bytes, processes: own.len() as u64 }
}

fn all_processes() -> HashMap<i32, Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            Some((pid, parse_stat(&fs::read_to_string(entry.path().join("stat")).ok()?)?))
        })
        .collect()
}

/// Parses `/proc/PID/stat` (proc_pid_stat(5)). The name is in parentheses and may contain anything.
fn parse_stat(text: &str) -> Option<Process> {
    let (_, rest) = text.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    let parent = fields.get(1)?.parse().ok()?;
    // utime, stime, cutime, cstime: fields 14 to 17; `fields` starts at field 3.
    let ticks: u64 = (11..15).filter_map(number).sum();
    Some(Process { parent, cpu_nanos: ticks * TICK_NANOS, resident_pages: number(21)? })
}

/// Returns a process's proportional set size: shared memory is divided among its users, so a sum counts nothing twice.
fn proportional(pid: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kibibytes| kibibytes * 1024)
}

/// Returns the bytes received and sent by an interface, from `/proc/net/dev`.
fn traffic(table: &str, name: &str) -> Option<(u64, u64)> {
    let line = table.lines().find_map(|line| line.trim_start().strip_prefix(name)?.strip_prefix(':'))?;
    let fields: Vec<&str> = line.split_whitespace().collect();
    Some((fields.first()?.parse().ok()?, fields.get(8)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_tables_are_read() {
        let stat = "42 (a) b) R 7 42 42 0 -1 4194304 99 0 0 0 11 22 3 4 20 0 1 0 100 4096000 55 18446744073709551615 1";
        let wanted = Process { parent: 7, cpu_nanos: 40 * TICK_NANOS, resident_pages: 55 };
        assert_eq!(parse_stat(stat), Some(wanted));
        assert_eq!(parse_stat("42 (cut"), None);
        let table = "Inter-|   Receive |  Transmit\n face |bytes packets\n  pod16: 100 1 0 0 0 0 0 0 200 2 0 0 0 0 0 0\n pod1: 5 1 0 0 0 0 0 0 6 2 0 0 0 0 0 0\n";
        assert_eq!((traffic(table, "pod16"), traffic(table, "pod1")), (Some((100, 200)), Some((5, 6))));
        assert_eq!(traffic(table, "pod"), None);
    }

    #[test]
    fn this_process_uses_something() {
        let own = std::process::id();
        let subject = Subject { process: 3, roots: vec![own as i32], group: None };
        let usage = look(&[subject], &[]);
        assert_eq!(usage.containers[0].process, 3);
        assert!(usage.containers[0].memory_bytes > 1 << 20, "{usage:?}");
        assert!(usage.containers[0].processes >= 1);
    }
}
