//! `cargo xtask test`: sets everything up, runs all tests, and reports the mode of every story.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::build::{self, Profile};
use crate::steps::{self, Stop};
use crate::{bench, check, clients, dashboard, environment, machine, sdk, timing};

/// Paths that the stories use.
struct SetUp {
    odh: PathBuf,
    examples: PathBuf,
    openmpi5: PathBuf,
    mpich: PathBuf,
    intel: PathBuf,
    tools: PathBuf,
    /// A `PATH` with the listed programs and nothing else.
    path: PathBuf,
}

/// Installs what is missing, creates the environments, builds the programs and the tests.
fn set_up() -> Result<SetUp, Stop> {
    steps::step("Checking what this machine has");
    Ok(SetUp {
        path: machine::prepare_for_tests()?,
        tools: environment::tools()?,
        examples: environment::examples()?,
        openmpi5: environment::openmpi5()?,
        mpich: environment::mpich()?,
        intel: environment::intel()?,
        odh: build::programs(Profile::Tests)?,
    })
}

/// Runs all tests, or those that match the filter.
pub fn run(filter: &[&str]) -> Result<(), Stop> {
    let started = Instant::now();
    let places = set_up()?;
    if filter.is_empty() {
        check::quick()?;
    }
    let record = steps::target().join("stories-modes.tsv");
    let times = steps::target().join("test-times.tsv");
    // Remove earlier records, if any: they would hide that a story did not run.
    let _ = (fs::remove_file(&record), fs::remove_file(&times));
    steps::step("Running the tests");
    let mut command = steps::cargo_command();
    command
        .args(["test", "--workspace", "--no-fail-fast", "--config", &runner(&places.path, &times)?])
        .args(filter);
    command.env("ODH", &places.odh).env("ODH_EXAMPLES_ENVIRONMENT", &places.examples);
    command.env("ODH_OPENMPI5_ENVIRONMENT", &places.openmpi5);
    command.env("ODH_MPICH_ENVIRONMENT", &places.mpich).env("ODH_INTEL_ENVIRONMENT", &places.intel);
    command.env("KUBECTL", places.tools.join("bin/kubectl"));
    command.env("ODH_STORY_MODES", &record);
    let outcome = steps::run(&mut command);
    timing::report(&times);
    let modes = report_modes(&fs::read_to_string(&record).unwrap_or_default(), filter.is_empty());
    outcome.map_err(|stop| {
        Stop::new(stop.what, "the failing test's output stands above; `cargo xtask test NAME` runs it alone")
    })?;
    modes?;
    if filter.is_empty() {
        clients::quick(&places.odh, &places.examples)?;
        dashboard::check()?;
        dashboard::in_a_browser(&places.odh, &places.examples, &places.tools.join("bin/kubectl"))?;
        sdk::quick(&sdk::Places { odh: &places.odh, examples: &places.examples, path: &places.path })?;
        bench::guard(&places.odh, &places.examples, &places.path)?;
        check::lints()?;
    }
    steps::step(&format!("All passed in {:.0} s", started.elapsed().as_secs_f64()));
    Ok(())
}

/// Returns the `cargo` setting that starts each test with the listed programs only, so that a program missing from
/// the list is missing everywhere. It also resets signals, because an ignored signal (SIGINT under `nohup` or in a
/// script's background) stays ignored in all child processes. This program starts it, to record how long it runs.
fn runner(path: &Path, times: &Path) -> Result<String, Stop> {
    let this = std::env::current_exe().map_err(|error| Stop::plain(format!("own program: {error}")))?;
    let [this, times, path] = [this.as_path(), times, path].map(|path| path.display().to_string());
    let words = [this.as_str(), "timed", &times, "env", "--default-signal", &format!("PATH={path}")];
    let quoted = words.map(|word| format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\"")));
    Ok(format!("target.'cfg(unix)'.runner=[{}]", quoted.join(", ")))
}

/// Prints the mode of every story. Fails if a stronger mode was possible and the story did not force its own.
///
/// A line of the record: story, mode used, strongest mode that the machine permits, `chosen` or `forced`.
fn report_modes(record: &str, all: bool) -> Result<(), Stop> {
    steps::step("The mode of every story");
    let mut lines: Vec<Vec<&str>> = record.lines().map(|line| line.split('\t').collect()).collect();
    lines.sort();
    for line in &lines {
        steps::say(&format!(
            "    {:<48} {}",
            line.first().unwrap_or(&""),
            line.get(1..).unwrap_or(&[]).join("  ")
        ));
    }
    if all && lines.is_empty() {
        return Err(Stop::plain("no story left a record of its mode: did they run?".to_owned()));
    }
    let weaker =
        |line: &&Vec<&str>| matches!(line.as_slice(), [_, used, strongest, "chosen"] if used != strongest);
    match lines.iter().find(weaker) {
        Some(line) => Err(Stop::plain(format!(
            "story {} ran in mode {}, though this machine permits {}",
            line[0], line[1], line[2]
        ))),
        None => Ok(()),
    }
}
