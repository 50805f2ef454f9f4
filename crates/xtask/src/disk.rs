//! Whether the disk under `target/` has room for what a task writes.

use std::path::{Path, PathBuf};

use crate::steps::{self, Stop};

/// What a repeated run needs beside what earlier ones have left: changed crates and what jobs write, in MiB.
const REPEATED: u64 = 2_048;

/// Room that a task needs, in MiB.
#[derive(Clone, Copy)]
pub struct Room {
    /// For the first run in a fresh clone. Measured there, and rounded up by a quarter.
    pub first: u64,
    /// Something below `target/` that a first run leaves near its end.
    pub left: &'static str,
}

/// Fails if a task would fill the disk, which otherwise shows late and as the failure of something else.
pub fn check(room: Room) -> Result<(), Stop> {
    let Some(free) = free() else { return Ok(()) };
    let target = steps::target();
    let needed = if target.join(room.left).exists() { REPEATED } else { room.first };
    if free >= needed {
        return Ok(());
    }
    Err(Stop::new(
        format!(
            "the disk of {} has {} free; this task needs about {}",
            target.display(),
            gibibytes(free),
            gibibytes(needed)
        ),
        "free some space (`cargo clean` removes earlier builds), or set CARGO_TARGET_DIR to a folder on another disk",
    ))
}

/// Returns advice if the disk is full by now, which is then why something failed.
pub fn advice_if_full() -> Option<String> {
    let free = free()?;
    (free < REPEATED / 8).then(|| {
        format!(
            "the disk of {} is full ({} free): free some space, then run the command again",
            steps::target().display(),
            gibibytes(free)
        )
    })
}

/// Returns what this user may still write to the disk of `target/`, in MiB, if `stat` can say.
fn free() -> Option<u64> {
    let folder = existing(steps::target());
    let shown = steps::output_of("stat", &["--file-system", "--format=%a %S", folder.to_str()?])?;
    let (blocks, block_bytes) = shown.split_once(' ')?;
    Some(blocks.parse::<u64>().ok()?.saturating_mul(block_bytes.parse().ok()?) >> 20)
}

/// Returns the nearest folder that exists: the first run has no `target/` where it is set to another disk.
fn existing(folder: PathBuf) -> PathBuf {
    folder.ancestors().find(|folder| folder.exists()).map_or_else(|| folder.clone(), Path::to_path_buf)
}

fn gibibytes(mebibytes: u64) -> String {
    let tenths = mebibytes * 10 / 1024;
    format!("{}.{} GiB", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_that_fits_may_run_and_one_that_does_not_says_how_much_is_missing() {
        assert!(check(Room { first: 1, left: "nothing-of-this-name" }).is_ok());
        let stop = check(Room { first: 1 << 40, left: "nothing-of-this-name" }).err().unwrap();
        assert!(stop.what.contains(" free; this task needs about "), "{}", stop.what);
        assert!(stop.advice.unwrap().contains("CARGO_TARGET_DIR"));
    }

    #[test]
    fn sizes_are_in_gibibytes() {
        assert_eq!(gibibytes(1_536), "1.5 GiB");
        assert_eq!(gibibytes(100), "0.0 GiB");
    }
}
