//! `odh version` and `odh completion`.

use clap::CommandFactory;
use serde_json::json;

use crate::arguments::{Arguments, Output};
use crate::console::Console;
use crate::failure::Failure;
use crate::object;

/// Prints the version; asks no server.
pub fn version(console: &Console, output: Output) -> Result<u8, Failure> {
    let version = env!("CARGO_PKG_VERSION");
    let text = if output.is_for_programs() {
        object::text(
            &json!({ "version": version, "launchImage": api::LAUNCH_IMAGE, "mpijob": "kubeflow.org/v2beta1" }),
            output,
        )?
    } else {
        format!("odh {version}\n")
    };
    console.data(&text)?;
    Ok(0)
}

/// Prints a shell's completion script.
pub fn completion(console: &Console, shell: clap_complete::Shell) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "odh", &mut script);
    console.data(&String::from_utf8_lossy(&script))?;
    Ok(0)
}
