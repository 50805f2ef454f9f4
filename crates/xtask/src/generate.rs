//! Generated files: the tests that compare them also write them.

use crate::steps::{self, Stop};

/// What to do with the generated files.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Write {
    /// Write them from the code.
    Anew,
    /// Fail if one differs from what the code would write.
    Compare,
}

/// Crates with tests named `generated_…`, each of which compares or writes a committed file.
const OWNERS: &[&str] = &["api", "cli", "conformance"];

/// Writes or compares every generated file.
pub fn run(write: Write) -> Result<(), Stop> {
    steps::step(if write == Write::Anew {
        "Writing the generated files"
    } else {
        "Comparing the generated files"
    });
    let mut command = steps::cargo_command();
    command.args(["test", "--quiet"]);
    for owner in OWNERS {
        command.args(["--package", owner]);
    }
    command.arg("generated_");
    if write == Write::Anew {
        command.env("UPDATE", "1");
    }
    steps::run(&mut command).map_err(|stop| {
        Stop::new(stop.what, "run `cargo xtask gen` and commit what it changes, if you meant to change it")
    })
}
