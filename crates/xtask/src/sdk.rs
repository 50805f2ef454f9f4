//! The Python SDK: its checks, and its tests against the built `odh` and a real `mpirun`.
//!
//! One Python is needed, the one that all environments are made of. Further versions that this machine has are tested
//! too: all of the tests with `cargo xtask sdk`, a part of them with all other tests.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::build::{self, Profile};
use crate::environment;
use crate::machine;
use crate::needs;
use crate::steps::{self, GeneratedFiles, Stop};

/// The oldest and the newest Python 3 that the SDK is tested with.
const MINORS: std::ops::RangeInclusive<u32> = 10..=13;
/// What the tests need.
pub struct Places<'p> {
    /// The built program.
    pub odh: &'p Path,
    /// The environment that the tests' image name is mapped to.
    pub examples: &'p Path,
    /// A `PATH` with the listed programs and nothing else.
    pub path: &'p Path,
}

/// Checks the SDK and runs its tests, with every Python that this machine has or with one.
pub fn run(every: bool) -> Result<(), Stop> {
    let path = machine::prepare_for_tests()?;
    let examples = environment::examples()?;
    let odh = build::programs(Profile::Tests)?;
    let places = Places { odh: &odh, examples: &examples, path: &path };
    quick(&places)?;
    if every {
        let own = version_of(&needs::prepared_python()?);
        for (_, python) in all()?.iter().filter(|(minor, _)| Some(**minor) != own) {
            tests(&places, python)?;
        }
    }
    Ok(())
}

/// Checks the SDK and runs its tests with one Python. It is a part of all tests.
pub fn quick(places: &Places<'_>) -> Result<(), Stop> {
    check()?;
    generate(GeneratedFiles::Compare)?;
    tests(places, &needs::prepared_python()?)
}

/// Folders with programs beside the SDK; `ruff.toml` and `mypy.ini` have their rules.
const BESIDE: [&str; 2] = ["bench", "conformance"];

/// Checks formatting, lints and types: of the SDK, and of the programs beside it.
pub fn check() -> Result<(), Stop> {
    let python = environment::sdk(&needs::prepared_python()?)?;
    steps::step("The SDK: formatting, lints, types");
    for (arguments, advice) in [
        (&["-m", "ruff", "format", "--check", "--quiet", "."][..], "run `ruff format` in sdk/python"),
        (&["-m", "ruff", "check", "--quiet", "."], "see sdk/python/pyproject.toml for the rules"),
        (&["-m", "mypy"], "the types are a part of the interface"),
    ] {
        steps::run(command(&python).args(arguments)).map_err(|stop| Stop::new(stop.what, advice))?;
    }
    check_beside(&python)
}

fn check_beside(python: &Path) -> Result<(), Stop> {
    steps::step("Benchmarks and conformance programs: formatting, lints, types");
    for (arguments, advice) in [
        (&["-m", "ruff", "format", "--check", "--quiet"][..], "run `ruff format bench conformance`"),
        (&["-m", "ruff", "check", "--quiet"], "see ruff.toml for the rules"),
        (&["-m", "mypy", "--config-file", "mypy.ini"], "see mypy.ini for what is checked"),
    ] {
        let mut command = command(python);
        command.current_dir(steps::root()).args(arguments).args(BESIDE);
        steps::run(&mut command).map_err(|stop| Stop::new(stop.what, advice))?;
    }
    Ok(())
}

/// Writes or compares the generated files of the SDK.
pub fn generate(write: GeneratedFiles) -> Result<(), Stop> {
    let python = environment::sdk(&needs::prepared_python()?)?;
    let mut command = command(&python);
    command.arg("tools/generate.py").args((write == GeneratedFiles::Compare).then_some("--check"));
    steps::run(&mut command)
        .map_err(|stop| Stop::new(stop.what, "run `cargo xtask gen` and commit what it changes"))
}

fn tests(places: &Places<'_>, python: &Path) -> Result<(), Stop> {
    let environment = environment::sdk(python)?;
    let version = version_of(python).map_or_else(String::new, |minor| format!(" with Python 3.{minor}"));
    steps::step(&format!("The SDK's tests{version}"));
    let started = Instant::now();
    let mut command = command(&environment);
    command.args(["-m", "pytest", "--quiet"]);
    command.env("ODH", places.odh).env("ODH_EXAMPLES_ENVIRONMENT", places.examples).env("PATH", places.path);
    steps::run(&mut command)?;
    steps::say(&format!("    {:>7.1}  sdk{version}", started.elapsed().as_secs_f64()));
    Ok(())
}

/// A Python that runs at the SDK, with its modules and no others of ours.
fn command(environment: &Path) -> Command {
    let mut command = Command::new(environment.join("bin/python"));
    command.current_dir(folder()).env("PYTHONPATH", folder().join("src"));
    command
}

fn folder() -> PathBuf {
    steps::root().join("sdk/python")
}

/// Returns every version of Python that this machine has and that the SDK supports, by its minor version.
fn all() -> Result<BTreeMap<u32, PathBuf>, Stop> {
    let own = needs::prepared_python()?;
    let named = MINORS.filter_map(|minor| steps::find_program(&format!("python3.{minor}")));
    let managed = std::env::var_os("HOME").into_iter().flat_map(|home| managed(Path::new(&home)));
    let mut found = BTreeMap::new();
    for python in std::iter::once(own).chain(managed).chain(named) {
        if let Some(minor) = version_of(&python).filter(|minor| MINORS.contains(minor)) {
            found.entry(minor).or_insert(python);
        }
    }
    Ok(found)
}

/// Returns the Pythons that pyenv and uv keep in a person's folder.
fn managed(home: &Path) -> Vec<PathBuf> {
    let folders = [home.join(".pyenv/versions"), home.join(".local/share/uv/python")];
    let entries = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten();
    let mut pythons: Vec<PathBuf> =
        entries.filter_map(Result::ok).map(|entry| entry.path().join("bin/python3")).collect();
    pythons.sort();
    pythons
}

/// Returns the minor version of a Python 3 that can make environments.
fn version_of(python: &Path) -> Option<u32> {
    let script = "import sys, ensurepip, venv; assert sys.version_info[0] == 3; print(sys.version_info[1])";
    steps::output_of(python, &["-c", script])?.parse().ok()
}
