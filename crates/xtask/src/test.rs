//! `cargo xtask test`: everything set up, everything tested, and the mode of every story on record.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::build::{self, Profile};
use crate::steps::{self, Stop};
use crate::{bench, check, clients, environment, machine};

/// Where things are that the stories use.
struct SetUp {
    odh: PathBuf,
    examples: PathBuf,
    openmpi5: PathBuf,
    mpich: PathBuf,
    intel: PathBuf,
    tools: PathBuf,
    /// A `PATH` with what is listed as needed and nothing else.
    path: PathBuf,
}

/// Installs what is missing, makes the environments, builds the programs and the tests.
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
    // A record of an earlier run would hide that a story did not run; there may be none.
    let _ = fs::remove_file(&record);
    steps::step("Running the tests");
    let mut command = steps::cargo_command();
    command.args(["test", "--workspace", "--no-fail-fast", "--config", &runner(&places.path)]).args(filter);
    command.env("ODH", &places.odh).env("ODH_EXAMPLES_ENVIRONMENT", &places.examples);
    command.env("ODH_OPENMPI5_ENVIRONMENT", &places.openmpi5);
    command.env("ODH_MPICH_ENVIRONMENT", &places.mpich).env("ODH_INTEL_ENVIRONMENT", &places.intel);
    command.env("KUBECTL", places.tools.join("bin/kubectl"));
    command.env("ODH_STORY_MODES", &record);
    let outcome = steps::run(&mut command);
    let modes = report_modes(&fs::read_to_string(&record).unwrap_or_default(), filter.is_empty());
    outcome.map_err(|stop| {
        Stop::new(stop.what, "the failing test's output stands above; `cargo xtask test NAME` runs it alone")
    })?;
    modes?;
    if filter.is_empty() {
        clients::quick(&places.odh)?;
        bench::guard(&places.odh, &places.examples, &places.path)?;
        check::lints()?;
    }
    steps::step(&format!("All passed in {:.0} s", started.elapsed().as_secs_f64()));
    Ok(())
}

/// The setting by which `cargo` starts each test with the programs that are listed as needed and no other, so that a
/// program that is missing from the list is missing everywhere; and with every signal as it is at login, since a signal
/// that is ignored (SIGINT below `nohup` or in a script's background) stays ignored in all programs that are started.
fn runner(path: &Path) -> String {
    let path = path.display().to_string().replace('\\', "\\\\").replace('"', "\\\"");
    format!(r#"target.'cfg(unix)'.runner=["env", "--default-signal", "PATH={path}"]"#)
}

/// Prints the mode of every story, and fails where a stronger one was possible and not asked to be left.
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
