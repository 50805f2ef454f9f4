//! Memory and CPU limits of containers by cgroup v2 or v1, if this process may create cgroups.
//!
//! There is one parent group per node with a unique name, and below it one group per limited container. Only the
//! containers' own processes are moved. A group is removed after its container has ended, and the parent at shutdown.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::protocol::{Failure, Limits};

/// The kernel's CPU accounting period in microseconds; the default of every container runtime.
const CPU_PERIOD_MICROS: u64 = 100_000;
/// The highest CPU limit that is written; the kernel refuses greater numbers, and no machine has more CPUs.
const MAX_CPU_MILLIS: u64 = 1_000_000_000;
/// Attempts to remove a group whose last process is just exiting.
const REMOVE_TRIES: u32 = 50;
/// Time between two such attempts.
const REMOVE_PAUSE: std::time::Duration = std::time::Duration::from_millis(4);

/// The parent groups on this machine.
#[derive(Debug, Clone)]
pub enum Cgroups {
    /// cgroup v2: one tree for everything.
    Unified(PathBuf),
    /// cgroup v1: separate trees for memory and CPU.
    Split {
        /// The parent group for memory.
        memory: PathBuf,
        /// The parent group for CPU.
        cpu: PathBuf,
    },
}

/// A container's groups.
#[derive(Debug, Clone)]
pub struct Group {
    memory: PathBuf,
    cpu: PathBuf,
    unified: bool,
}

impl Cgroups {
    /// Creates the parent groups named `name`.
    ///
    /// # Errors
    /// Why limits cannot be enforced here, for the pod's condition.
    pub fn prepare(name: &str) -> Result<Cgroups, String> {
        let own = fs::read_to_string("/proc/self/cgroup").map_err(|e| format!("/proc/self/cgroup: {e}"))?;
        let mounts =
            fs::read_to_string("/proc/self/mountinfo").map_err(|e| format!("/proc/self/mountinfo: {e}"))?;
        if let (Some(memory), Some(cpu)) =
            (split_parent(&own, &mounts, "memory"), split_parent(&own, &mounts, "cpu"))
        {
            let (memory, cpu) = (memory.join(name), cpu.join(name));
            for path in [&memory, &cpu] {
                // Remove groups without processes left by a guard that was killed.
                remove_tree(path);
                make_group(path).map_err(|e| format!("cannot create the cgroup {}: {e}", path.display()))?;
            }
            probe_write(&memory.join("memory.limit_in_bytes"))?;
            return Ok(Cgroups::Split { memory, cpu });
        }
        unified(&own, &mounts, name)
    }

    /// Creates a group with limits for one container.
    ///
    /// # Errors
    /// When the kernel refuses a limit.
    pub fn make(&self, name: &str, limits: &Limits) -> Result<Group, Failure> {
        let group = match self {
            Cgroups::Unified(parent) => {
                Group { memory: parent.join(name), cpu: parent.join(name), unified: true }
            }
            Cgroups::Split { memory, cpu } => {
                Group { memory: memory.join(name), cpu: cpu.join(name), unified: false }
            }
        };
        group.set(limits).map_err(|error| {
            group.remove();
            Failure::new(format!("set the limits of {name}: {error}"))
        })?;
        Ok(group)
    }

    /// Removes the parent groups and everything below them.
    pub fn remove(&self) {
        match self {
            Cgroups::Unified(parent) => remove_tree(parent),
            Cgroups::Split { memory, cpu } => {
                remove_tree(memory);
                remove_tree(cpu);
            }
        }
    }
}

/// Returns the CPU quota per period, in microseconds.
fn cpu_quota_micros(millis: u64) -> u64 {
    (millis.min(MAX_CPU_MILLIS) * CPU_PERIOD_MICROS / 1000).max(1000)
}

impl Group {
    fn set(&self, limits: &Limits) -> io::Result<()> {
        make_group(&self.memory)?;
        make_group(&self.cpu)?;
        if let Some(bytes) = limits.memory_bytes {
            let name = if self.unified { "memory.max" } else { "memory.limit_in_bytes" };
            fs::write(self.memory.join(name), bytes.to_string())?;
            // Also prevent swapping. On machines without swap accounting the file does not exist.
            let swap = if self.unified {
                ("memory.swap.max", "0".to_owned())
            } else {
                ("memory.memsw.limit_in_bytes", bytes.to_string())
            };
            let _ = fs::write(self.memory.join(swap.0), swap.1);
            if self.unified {
                // As kubelet since 1.28: an out-of-memory kill ends all processes of the container.
                let _ = fs::write(self.memory.join("memory.oom.group"), "1");
            }
        }
        if let Some(millis) = limits.cpu_millis {
            let quota = cpu_quota_micros(millis);
            if self.unified {
                fs::write(self.cpu.join("cpu.max"), format!("{quota} {CPU_PERIOD_MICROS}"))?;
            } else {
                fs::write(self.cpu.join("cpu.cfs_period_us"), CPU_PERIOD_MICROS.to_string())?;
                fs::write(self.cpu.join("cpu.cfs_quota_us"), quota.to_string())?;
            }
        }
        Ok(())
    }

    /// Moves the calling process into the group.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn join(&self) -> io::Result<()> {
        fs::write(self.memory.join("cgroup.procs"), "0")?;
        if self.cpu != self.memory {
            fs::write(self.cpu.join("cgroup.procs"), "0")?;
        }
        Ok(())
    }

    /// Returns whether the kernel has killed a process of the group for exceeding the group's memory.
    pub fn out_of_memory(&self) -> bool {
        let name = if self.unified { "memory.events" } else { "memory.oom_control" };
        let text = fs::read_to_string(self.memory.join(name)).unwrap_or_default();
        text.lines()
            .filter_map(|line| line.strip_prefix("oom_kill "))
            .any(|count| count.trim().parse::<u64>().is_ok_and(|count| count > 0))
    }

    /// Returns CPU time in nanoseconds and memory in bytes, if the group counts them. Memory is the working set: usage
    /// less what the kernel could reclaim at once (cAdvisor's definition).
    pub fn usage(&self) -> (Option<u64>, Option<u64>) {
        let read = |folder: &Path, name: &str| fs::read_to_string(folder.join(name)).unwrap_or_default();
        let named = |text: &str, name: &str| {
            text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok())
        };
        let whole = |text: String| text.trim().parse::<u64>().ok();
        let stat = read(&self.memory, "memory.stat");
        let (cpu, used, idle) = if self.unified {
            let cpu = named(&read(&self.cpu, "cpu.stat"), "usage_usec ").map(|micros| micros * 1000);
            (cpu, whole(read(&self.memory, "memory.current")), named(&stat, "inactive_file "))
        } else {
            let used = whole(read(&self.memory, "memory.usage_in_bytes"));
            (whole(read(&self.cpu, "cpuacct.usage")), used, named(&stat, "total_inactive_file "))
        };
        (cpu, used.map(|used| used.saturating_sub(idle.unwrap_or(0))))
    }

    /// Removes the group. Its processes must have ended or be about to end.
    pub fn remove(&self) {
        remove_group(&self.memory);
        if self.cpu != self.memory {
            remove_group(&self.cpu);
        }
    }
}

fn make_group(path: &Path) -> io::Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

fn probe_write(path: &Path) -> Result<(), String> {
    fs::OpenOptions::new()
        .write(true)
        .open(path)
        .map(drop)
        .map_err(|e| format!("cannot write {}: {e}", path.display()))
}

fn remove_group(path: &Path) {
    for _ in 0..REMOVE_TRIES {
        match fs::remove_dir(path) {
            Err(error) if error.raw_os_error() == Some(nix::libc::EBUSY) => std::thread::sleep(REMOVE_PAUSE),
            _ => return,
        }
    }
}

fn remove_tree(path: &Path) {
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_group(&entry.path());
        }
    }
    remove_group(path);
}

/// Returns this process's own group in the tree of a v1 controller. New groups go below it, so that limits set on this
/// process still apply.
fn split_parent(own: &str, mounts: &str, controller: &str) -> Option<PathBuf> {
    let path = own.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let controllers = parts.next()?;
        controllers.split(',').any(|name| name == controller).then(|| parts.next()).flatten()
    })?;
    let (root, point) = mounts.lines().find_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let mut right = right.split(' ');
        let options = (right.next()? == "cgroup").then(|| right.nth(1))??;
        let mut left = left.split(' ').skip(3);
        options.split(',').any(|name| name == controller).then(|| Some((left.next()?, left.next()?)))?
    })?;
    Some(below(point, root, path))
}

/// Returns the path of a cgroup in the file system. `point` is a mount point, and `root` the part of the tree mounted
/// there.
fn below(point: &str, root: &str, path: &str) -> PathBuf {
    let relative = path.strip_prefix(root).unwrap_or(path);
    Path::new(point).join(relative.trim_start_matches('/'))
}

fn unified(own: &str, mounts: &str, name: &str) -> Result<Cgroups, String> {
    let point = mounts
        .lines()
        .filter_map(|line| line.split_once(" - "))
        .find(|(_, right)| right.starts_with("cgroup2 "))
        .and_then(|(left, _)| left.split(' ').nth(4))
        .ok_or("no cgroup file system with a memory controller is mounted")?;
    let path = own.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/");
    // Processes may only be in leaf groups: our own group cannot have children, but a sibling can.
    let beside = Path::new(path).parent().map_or_else(|| "/".to_owned(), |p| p.display().to_string());
    let mut reason = String::new();
    for parent in [Path::new(point).to_path_buf(), below(point, "/", &beside)] {
        let attempt = || -> io::Result<PathBuf> {
            let group = parent.join(name);
            remove_tree(&group);
            fs::write(parent.join("cgroup.subtree_control"), "+memory +cpu")?;
            make_group(&group)?;
            fs::write(group.join("cgroup.subtree_control"), "+memory +cpu")?;
            Ok(group)
        };
        match attempt() {
            Ok(group) => return Ok(Cgroups::Unified(group)),
            Err(error) => reason = format!("cannot delegate memory and cpu in {}: {error}", parent.display()),
        }
    }
    Err(reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cpu_limit_has_a_valid_quota() {
        assert_eq!(cpu_quota_micros(1500), 150_000);
        assert_eq!(cpu_quota_micros(1), 1000, "the least that the kernel takes");
        assert_eq!(cpu_quota_micros(u64::MAX), 100_000_000_000);
    }
}
