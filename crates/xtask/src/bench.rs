//! Measurements. Each scenario is a program under `bench/` that writes its report to `bench/reports/`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::build::{self, Profile};
use crate::steps::{self, Stop};
use crate::{environment, machine, needs};

/// The scenario that counts costs against committed budgets; it writes no report and needs no release build.
const GUARD: &str = "guard";

/// Runs the named scenarios, or all that measure.
pub fn run(names: &[&str]) -> Result<(), Stop> {
    if names == [GUARD] {
        let path = machine::prepare_for_tests()?;
        return guard(&build::programs(Profile::Tests)?, &environment::examples()?, &path);
    }
    let known = scenarios()?;
    if let Some(unknown) = names.iter().find(|name| !known.iter().any(|k| k == *name)) {
        return Err(Stop::usage(format!(
            "there is no scenario '{unknown}'; there are: {GUARD} (alone), {}",
            known.join(", ")
        )));
    }
    machine::prepare_for_tests()?;
    let environment = environment::examples()?;
    let odh = build::programs(Profile::Release)?;
    for (name, package, example) in [
        ("api", "cluster", "api_load"),
        ("cli", "cli", "bench_stage"),
        ("service", "service", "bench_service"),
    ] {
        if names.is_empty() || names.contains(&name) {
            build::release(&["--package", package, "--example", example])?;
        }
    }
    let client = client_alone(names)?;
    for name in known.iter().filter(|name| names.is_empty() || names.contains(&name.as_str())) {
        steps::step(&format!("Measuring {name}"));
        let mut command = Command::new(needs::prepared_python()?);
        command.arg(steps::root().join("bench").join(name).join("run.py"));
        command
            .env("ODH", &odh)
            .env("ODH_EXAMPLES_ENVIRONMENT", &environment)
            .env("ODH_TARGET", steps::target())
            .env("ODH_CLIENT", &client);
        steps::run(&mut command)?;
    }
    Ok(())
}

/// Counts the costs of small scenarios, and fails if one exceeds its committed budget.
pub fn guard(odh: &Path, environment: &Path, path: &Path) -> Result<(), Stop> {
    steps::step("Comparing the costs of small scenes with their budgets");
    let mut command = Command::new(needs::prepared_python()?);
    command.arg(steps::root().join("bench").join(GUARD).join("run.py"));
    command.env("ODH", odh).env("ODH_EXAMPLES_ENVIRONMENT", environment).env("PATH", path);
    steps::run(&mut command)
}

/// Builds `odh` without the embedded cluster, in a target folder of its own so that it does not replace the other.
fn client_alone(names: &[&str]) -> Result<PathBuf, Stop> {
    let target = steps::target().join("client");
    if names.is_empty() || names.contains(&"cli") {
        let folder = target.display().to_string();
        let features = ["--no-default-features", "--target-dir", &folder];
        steps::cargo(&[&["build", "--release", "--package", "cli", "--bin", "odh"], &features[..]].concat())?;
    }
    Ok(target.join("release/odh"))
}

fn scenarios() -> Result<Vec<String>, Stop> {
    let folder = steps::root().join("bench");
    let entries = fs::read_dir(&folder).map_err(|error| Stop::io(&folder, &error))?;
    let mut names: Vec<String> = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.path().join("run.py").is_file() && entry.file_name() != GUARD)
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    Ok(names)
}
