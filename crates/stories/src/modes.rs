//! The record of modes. `cargo xtask test` prints it and fails if a stronger mode was possible.

use std::fs::OpenOptions;
use std::io::Write;

use crate::machine::{permits_root, permits_rootless};

/// How the node isolates pods, strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A user namespace; needs no privileges.
    Rootless,
    /// Namespaces made by root.
    Root,
    /// Plain processes.
    Plain,
}

impl Mode {
    /// Returns the word that `--mode` takes and `odh local status` prints.
    pub fn word(self) -> &'static str {
        match self {
            Mode::Rootless => "rootless",
            Mode::Root => "root",
            Mode::Plain => "plain",
        }
    }
}

/// Returns the strongest mode that this machine permits.
fn strongest() -> Mode {
    if permits_rootless() {
        Mode::Rootless
    } else if permits_root() {
        Mode::Root
    } else {
        Mode::Plain
    }
}

/// Records that a story ran in a mode, and whether the story forced that mode.
pub fn record(story: &str, used: &str, forced: bool) {
    let Some(file) = std::env::var_os("ODH_STORY_MODES") else { return };
    let line =
        format!("{story}\t{used}\t{}\t{}\n", strongest().word(), if forced { "forced" } else { "chosen" });
    let mut file =
        OpenOptions::new().create(true).append(true).open(file).expect("the record of modes can be written");
    file.write_all(line.as_bytes()).expect("the record of modes can be written");
}
