//! A folder for temporary files of its own for the commands of an agent in a pod without a file system of its own.
//!
//! Open MPI's daemons name their session folder after host, user and job. Where several pods share a host's name and its `/tmp`,
//! their daemons would share that folder, and have been seen to crash over it (4.1.4, `hwloc_shmem_topology_write`).

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Only the user whose pod it is may look into it.
const MODE: u32 = 0o700;

/// A folder that goes with the agent.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes the folder `odh-launch-NAME-PID` under `parent`.
    pub fn make(parent: &Path, name: &str) -> io::Result<Self> {
        let path = parent.join(format!("odh-launch-{name}-{}", std::process::id()));
        DirBuilder::new().mode(MODE).create(&path)?;
        Ok(Self(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed belongs to somebody else by now.
        drop(std::fs::remove_dir_all(&self.0));
    }
}
