//! Generated files: the tests named `generated_…`, of any crate, compare them and also write them.

use crate::steps::{self, Stop};

/// What to do with the generated files.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Write {
    /// Write them from the code.
    Anew,
    /// Fail if one differs from what the code would write.
    Compare,
}

/// Writes or compares every generated file.
pub fn run(write: Write) -> Result<(), Stop> {
    steps::step(if write == Write::Anew {
        "Writing the generated files"
    } else {
        "Comparing the generated files"
    });
    let mut command = steps::cargo_command();
    command.args(["test", "--quiet", "--workspace", "generated_"]);
    if write == Write::Anew {
        command.env("UPDATE", "1");
    }
    steps::run(&mut command).map_err(|stop| {
        Stop::new(stop.what, "run `cargo xtask gen` and commit what it changes, if you meant to change it")
    })
}
