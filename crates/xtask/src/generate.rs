//! Generated files: the tests named `generated_…`, of any crate, compare them and also write them. Those of the Python
//! SDK are made from the contract, so they come last.

use crate::sdk;
use crate::steps::{self, GeneratedFiles, Stop};

/// Writes or compares every generated file.
pub fn run(write: GeneratedFiles) -> Result<(), Stop> {
    steps::step(if write == GeneratedFiles::Replace {
        "Writing the generated files"
    } else {
        "Comparing the generated files"
    });
    let mut command = steps::cargo_command();
    command.args(["test", "--quiet", "--workspace", "generated_"]);
    if write == GeneratedFiles::Replace {
        command.env("UPDATE", "1");
    }
    steps::run(&mut command).map_err(|stop| {
        Stop::new(stop.what, "run `cargo xtask gen` and commit what it changes, if you meant to change it")
    })?;
    sdk::generate(write)
}
