//! Reporting a step, running a program for it, and stopping with advice.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a task runner talks to the person who runs it"
)]

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// What to do with the generated files.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum GeneratedFiles {
    /// Write them from the code.
    Replace,
    /// Fail if one differs from what the code would write.
    Compare,
}

/// Why a task cannot continue, and what the user can do about it.
pub struct Stop {
    /// What went wrong, in one or a few lines.
    pub what: String,
    /// What to do next.
    pub advice: Option<String>,
    /// The exit code: 1 for a failure, 2 for a usage error.
    pub code: u8,
}

impl Stop {
    /// A failure with advice.
    pub fn new(what: impl Into<String>, advice: impl Into<String>) -> Stop {
        Stop { what: what.into(), advice: Some(advice.into()), code: 1 }
    }

    /// A failure without advice.
    pub fn plain(what: impl Into<String>) -> Stop {
        Stop { what: what.into(), advice: None, code: 1 }
    }

    /// A file or folder that cannot be read or written.
    pub fn io(path: &Path, error: &std::io::Error) -> Stop {
        Stop::plain(format!("{}: {error}", path.display()))
    }

    /// A usage error.
    pub fn usage(what: impl Into<String>) -> Stop {
        Stop { what: what.into(), advice: None, code: 2 }
    }
}

/// Prints text as it is.
pub fn say(text: &str) {
    println!("{}", text.trim_end_matches('\n'));
}

/// Prints a question, without the end of its line.
pub fn ask(text: &str) {
    print!("{text}");
    // A terminal that cannot be written to shows at the next line.
    let _ = std::io::stdout().flush();
}

/// Announces a step.
pub fn step(text: &str) {
    println!("\n==> {text}");
}

/// Prints why the task stopped.
pub fn complain(stop: &Stop) {
    eprintln!("\nxtask: {}", stop.what);
    if let Some(advice) = &stop.advice {
        eprintln!("\nWhat to do: {advice}");
    }
}

/// The repository's root.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}

/// Returns the folder for builds, environments and records of this checkout.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |given| root().join(given))
}

/// Returns the `cargo` that runs this program, without the variables that describe this package.
///
/// Some build scripts (ring's) depend on variables with the same names. With ours, everything above them would be
/// rebuilt after each plain `cargo build`, and vice versa.
pub fn cargo_command() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}

/// Runs `cargo` at the repository's root.
pub fn cargo(arguments: &[&str]) -> Result<(), Stop> {
    run(cargo_command().args(arguments))
}

/// Runs a program with our standard output and error. Fails unless it succeeds.
pub fn run(command: &mut Command) -> Result<(), Stop> {
    let line = shown(command);
    let status = command
        .current_dir(command.get_current_dir().map_or_else(root, Path::to_path_buf))
        .stdin(Stdio::null())
        .status()
        .map_err(|error| Stop::plain(format!("`{line}` could not be started: {error}")))?;
    if status.success() { Ok(()) } else { Err(Stop::plain(format!("`{line}` ended with {status}"))) }
}

/// Runs a program quietly and prints how long it took. Shows its output only if it fails.
pub fn run_quietly(command: &mut Command) -> Result<(), Stop> {
    let started = Instant::now();
    run_silently(command)?;
    println!("    done in {:.1} s", started.elapsed().as_secs_f64());
    Ok(())
}

/// Runs a program. Shows its output only if it fails.
pub fn run_silently(command: &mut Command) -> Result<(), Stop> {
    let line = shown(command);
    let output = command
        .current_dir(command.get_current_dir().map_or_else(root, Path::to_path_buf))
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Stop::plain(format!("`{line}` could not be started: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    Err(Stop::plain(format!("`{line}` ended with {}:\n{}", output.status, said.trim_end())))
}

/// Returns the output of a program, or `None` if it cannot run or fails.
pub fn output_of(program: impl AsRef<OsStr>, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Returns the first program of this name on `PATH`.
pub fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|candidate| candidate.is_file())
}

fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}
