//! Takes in the launch agent's program where `ODH_LAUNCH_AGENT` names it, so that `odh` is all there is to install.
//! Otherwise `odh` looks for the program beside itself.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

/// The variable that names the launch agent's static program.
const VARIABLE: &str = "ODH_LAUNCH_AGENT";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={VARIABLE}");
    let carried = match env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
        None => "None".to_owned(),
        Some(path) => {
            let program =
                fs::canonicalize(&path).map_err(|error| format!("{VARIABLE}={}: {error}", path.display()))?;
            println!("cargo::rerun-if-changed={}", program.display());
            format!("Some(include_bytes!({:?}))", program.display().to_string())
        }
    };
    let code = format!(
        "/// The launch agent's program, if this build carries it.\nconst CARRIED: Option<&[u8]> = {carried};\n"
    );
    let out = PathBuf::from(env::var("OUT_DIR")?);
    Ok(fs::write(out.join("launch_agent.rs"), code)?)
}
