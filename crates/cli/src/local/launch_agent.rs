//! The launch agent's program, which pods of the local cluster are given in place of the agent's image.
//!
//! A released `odh` carries it. One that was built without it looks beside itself, then on `PATH`.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use jobs::Class;

use crate::failure::Failure;

include!(concat!(env!("OUT_DIR"), "/launch_agent.rs"));

/// Where the program comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LaunchAgent {
    /// From `odh` itself.
    Carried(&'static [u8]),
    /// From a file.
    File(PathBuf),
}

impl LaunchAgent {
    /// Finds the program; it is an error of the installation if there is none.
    pub fn find() -> Result<LaunchAgent, Failure> {
        if let Some(program) = CARRIED {
            return Ok(LaunchAgent::Carried(program));
        }
        let beside = std::env::current_exe()
            .ok()
            .and_then(|program| Some(program.parent()?.join(api::LAUNCH_PROGRAM)));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let on_path = std::env::split_paths(&path).map(|place| place.join(api::LAUNCH_PROGRAM));
        let found = beside.clone().into_iter().chain(on_path).find(|program| program.is_file());
        found.map(LaunchAgent::File).ok_or_else(|| {
            let place = beside.map_or_else(|| "PATH".to_owned(), |beside| beside.display().to_string());
            Failure::new(
                Class::Error,
                "LaunchAgentMissing",
                format!("the launch agent was not found at {place}"),
            )
            .with_hint("install a released odh, which carries it; in the source tree: cargo xtask setup")
        })
    }

    /// Puts the program at `place`, instead of what is there.
    pub fn put(&self, place: &Path) -> io::Result<()> {
        match fs::remove_file(place) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        match self {
            LaunchAgent::Carried(program) => {
                OpenOptions::new().write(true).create_new(true).mode(0o755).open(place)?.write_all(program)
            }
            // Not a symbolic link: its target may be at a path where the pod has its own files, especially below /tmp.
            LaunchAgent::File(program) => {
                fs::hard_link(program, place).or_else(|_| fs::copy(program, place).map(drop))
            }
        }
    }
}

impl fmt::Display for LaunchAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LaunchAgent::Carried(program) => write!(f, "part of odh ({} KiB)", program.len() / 1024),
            LaunchAgent::File(program) => write!(f, "{}", program.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_carried_program_takes_the_place_of_an_older_one_and_can_be_run() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("odh-launch");
        fs::write(&place, "an older and longer program").unwrap();
        LaunchAgent::Carried(b"#!/bin/sh\n").put(&place).unwrap();
        assert_eq!(fs::read(&place).unwrap(), b"#!/bin/sh\n");
        assert_eq!(fs::metadata(&place).unwrap().permissions().mode() & 0o555, 0o555);
    }

    #[test]
    fn a_file_is_not_a_symbolic_link_at_its_new_place() {
        let folder = tempfile::tempdir().unwrap();
        let (program, place) = (folder.path().join("program"), folder.path().join("odh-launch"));
        fs::write(&program, "program").unwrap();
        LaunchAgent::File(program).put(&place).unwrap();
        assert!(fs::symlink_metadata(&place).unwrap().is_file());
    }
}
