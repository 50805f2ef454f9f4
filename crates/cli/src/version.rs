//! `odh version`.

use serde_json::json;

use crate::arguments::Output;
use crate::console::Console;
use crate::failure::Failure;
use crate::object;

/// Prints the version; contacts no server.
pub fn version(console: &Console, output: Output) -> Result<u8, Failure> {
    let version = env!("CARGO_PKG_VERSION");
    let text = if output.shows_objects() {
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
