//! `cargo xtask conformance`: sends the same generated requests to the embedded cluster and to a real
//! kube-apiserver. The crate `conformance` documents the comparison; this file only builds its programs and calls them.

use std::process::Command;

use crate::go_programs;
use crate::steps::{self, Stop};

/// Runs the comparison. `words` go to the program, except for `--binaries DIR`.
pub fn run(words: &[&str]) -> Result<(), Stop> {
    let (given, rest) = match words {
        ["--binaries", folder, rest @ ..] => (Some(*folder), rest),
        rest => (None, rest),
    };
    let binaries = go_programs::binaries(given)?;
    steps::step("Building the comparison");
    // Most of the time is the real server's, so an optimised build would cost more time than it saves.
    steps::cargo(&["build", "--package", "conformance"])?;
    steps::step("Comparing the embedded cluster with a real API server");
    let task = if rest.first().is_some_and(|word| !word.starts_with("--")) { &[][..] } else { &["run"][..] };
    let mut command = Command::new(steps::target().join("debug/conformance"));
    command.arg("--binaries").arg(&binaries).args(task).args(rest);
    if !task.is_empty() {
        command.arg("--summary").arg(steps::target().join("conformance.txt"));
    }
    steps::run(&mut command).map_err(|stop| {
        Stop::new(
            stop.what,
            "mend the embedded server, or list the difference with its reason in crates/conformance/known.yaml",
        )
    })
}
