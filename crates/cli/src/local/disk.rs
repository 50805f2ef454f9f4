//! The room on the disk that holds the local cluster's directory.
//!
//! The input is the directory. The output is how much room is left, and a warning if that is little: the cluster's
//! store, the logs and the files of its pods are all there.

use nix::sys::statvfs::statvfs;

use super::home::Home;

/// Below this, next to nothing can be written: a write to the store needs several pages.
const FULL_BYTES: u64 = 4 << 20;
/// Below this, the logs and files of a few pods fill the disk.
const NEARLY_FULL_BYTES: u64 = 256 << 20;

/// The room on a disk, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// What this user can still write.
    pub free: u64,
    /// The size of the file system.
    pub total: u64,
}

/// The room on the disk of the directory; `None` if it does not exist or cannot be examined.
pub fn room(home: &Home) -> Option<Room> {
    let found = statvfs(home.root()).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(found.fragment_size());
    Some(Room { free: bytes(found.blocks_available()), total: bytes(found.blocks()) })
}

impl Room {
    /// The room in words: `1.5 GiB of 20.0 GiB free`.
    pub fn text(self) -> String {
        format!("{} of {} free", size(self.free), size(self.total))
    }

    /// What is wrong with the disk and what to do, if there is little room.
    pub fn warning(self, home: &Home) -> Option<String> {
        let state = match self.free {
            free if free < FULL_BYTES => "is full",
            free if free < NEARLY_FULL_BYTES => "is nearly full",
            _ => return None,
        };
        Some(format!(
            "the disk of {} {state} ({}): jobs fail and nothing can be created or deleted without room; free some space \
             on it, or set ODH_HOME to a directory on another disk and start a cluster there",
            home.root().display(),
            self.text(),
        ))
    }
}

fn size(bytes: u64) -> String {
    let mebibytes = bytes as f64 / f64::from(1 << 20);
    if mebibytes < 1024.0 { format!("{mebibytes:.1} MiB") } else { format!("{:.1} GiB", mebibytes / 1024.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_room_is_a_warning_that_says_what_to_do() {
        let home = Home::at("/var/odh");
        let warning = |free: u64| Room { free, total: 10 << 30 }.warning(&home);
        assert_eq!(warning(NEARLY_FULL_BYTES), None);
        let nearly = warning(NEARLY_FULL_BYTES - (1 << 20)).unwrap();
        assert!(
            nearly.starts_with("the disk of /var/odh is nearly full (255.0 MiB of 10.0 GiB free)"),
            "{nearly}"
        );
        let full = warning(0).unwrap();
        assert!(full.contains(" is full (0.0 MiB of ") && full.contains("ODH_HOME"), "{full}");
    }
}
