//! Counts how often the kernel has killed a process of this container because of its memory limit. A runtime
//! reports that only for a container's first process; here the killed process is a rank, while the first process,
//! the agent, lives on.

use std::fs;
use std::path::{Path, PathBuf};

/// Cgroup v1 shows a missing limit as a number close to the largest.
const NO_LIMIT: u64 = 1 << 60;

/// The container's cgroup.
pub struct Memory {
    folder: PathBuf,
    limit: u64,
    unified: bool,
    kills: u64,
}

impl Memory {
    /// Finds the cgroup of this process. Returns `None` without a memory limit, because its counter would include
    /// other containers.
    pub fn find() -> Option<Self> {
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let (folder, unified) = folder(&own, &mounts)?;
        let name = if unified { "memory.max" } else { "memory.limit_in_bytes" };
        let limit = fs::read_to_string(folder.join(name)).ok()?.trim().parse().ok()?;
        let mut memory = Self { folder, limit, unified, kills: 0 };
        memory.kills = memory.count();
        (limit < NO_LIMIT).then_some(memory)
    }

    /// Returns the number of processes killed since the last call, and the limit in bytes; `None` if there are
    /// none.
    pub fn look(&mut self) -> Option<(u64, u64)> {
        let count = self.count();
        let new = count.saturating_sub(self.kills);
        self.kills = count;
        (new > 0).then_some((new, self.limit))
    }

    fn count(&self) -> u64 {
        let name = if self.unified { "memory.events" } else { "memory.oom_control" };
        let text = fs::read_to_string(self.folder.join(name)).unwrap_or_default();
        let count = text.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok());
        count.unwrap_or(self.kills)
    }
}

/// Finds the folder of this process's memory cgroup, and whether it is cgroup v2.
fn folder(own: &str, mounts: &str) -> Option<(PathBuf, bool)> {
    let path = |controller: &str| {
        own.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let mut controllers = parts.next()?.split(',');
            controllers.any(|name| name == controller).then(|| parts.next())?
        })
    };
    let mount = |kind: &str, option: &str| {
        mounts.lines().find_map(|line| {
            let (left, right) = line.split_once(" - ")?;
            let mut right = right.split(' ');
            let fits =
                right.next()? == kind && (option.is_empty() || right.nth(1)?.split(',').any(|o| o == option));
            let mut left = left.split(' ').skip(3);
            fits.then(|| Some((left.next()?, left.next()?)))?
        })
    };
    let (path, (root, point), unified) = match (path("memory"), mount("cgroup", "memory")) {
        (Some(path), Some(mount)) => (path, mount, false),
        _ => (path("")?, mount("cgroup2", "")?, true),
    };
    // With a cgroup namespace of its own, the cgroup is the root of the mount. Without one, the mount shows a part
    // of the tree.
    let below = path.strip_prefix(root).unwrap_or(path).trim_start_matches('/');
    Some((Path::new(point).join(below), unified))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_group_is_found_in_both_versions() {
        let own = "11:memory:/kubepods/pod1/c1\n4:cpu,cpuacct:/kubepods/pod1/c1\n0::/";
        let mounts =
            "30 24 0:26 /kubepods/pod1/c1 /sys/fs/cgroup/memory ro,nosuid - cgroup cgroup rw,memory\n";
        assert_eq!(folder(own, mounts), Some((PathBuf::from("/sys/fs/cgroup/memory/"), false)));
        let whole = "30 24 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let deep = PathBuf::from("/sys/fs/cgroup/memory/kubepods/pod1/c1");
        assert_eq!(folder(own, whole), Some((deep, false)));
        let unified = "28 24 0:25 / /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n";
        assert_eq!(folder("0::/\n", unified), Some((PathBuf::from("/sys/fs/cgroup/"), true)));
        assert_eq!(folder("0::/\n", ""), None);
    }

    #[test]
    fn kills_are_reported_once() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("memory.events", "low 0\noom 0\noom_kill 2\n");
        let mut memory = Memory { folder: folder.path().to_owned(), limit: 1 << 20, unified: true, kills: 2 };
        assert_eq!(memory.look(), None);
        write("memory.events", "low 0\noom 1\noom_kill 3\n");
        assert_eq!(memory.look(), Some((1, 1 << 20)));
        assert_eq!(memory.look(), None);
    }
}
