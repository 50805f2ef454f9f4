//! Checks whether this machine can run MPI jobs as local processes. Installs missing programs, or names them.

use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::Command;

use crate::disk::{self, Room};
use crate::needs::{self, Need};
use crate::steps::{self, Stop};

/// The option by which nobody is asked.
pub const YES: &str = "--yes";
/// The task of all tests, by which the folder of its programs is named.
const TESTS: &str = "tests";

/// Returns whether this process may install packages.
pub fn is_root() -> bool {
    steps::output_of("id", &["-u"]).as_deref() == Some("0")
}

/// Ensures that this machine can run the main job. Returns the `PATH` to run it with.
pub fn prepare_for_demo() -> Result<PathBuf, Stop> {
    disk::check(Room { first: 6_144, left: "debug/odh" })?;
    prepare("demo", &[needs::DEMO])
}

/// Ensures that this machine can run every test. Returns the `PATH` to run them with.
pub fn prepare_for_tests() -> Result<PathBuf, Stop> {
    disk::check(Room { first: 16_384, left: "test-output" })?;
    prepare(TESTS, &[needs::DEMO, needs::TESTS])
}

/// The `PATH` that [`prepare_for_tests`] has made, which tests may be using.
pub fn path_of_tests() -> PathBuf {
    needs::folder_of(TESTS)
}

fn prepare(name: &str, groups: &[&[Need]]) -> Result<PathBuf, Stop> {
    refuse_other_systems()?;
    install(&needs::missing(groups))?;
    needs::programs_only(name, groups)
}

fn refuse_other_systems() -> Result<(), Stop> {
    if std::env::consts::OS == "linux" {
        return Ok(());
    }
    Err(Stop::new(
        format!("this is {}: pods run as local processes on Linux only", std::env::consts::OS),
        "run it on a Linux machine, in a virtual machine, or in a Linux container",
    ))
}

/// Asks a person at a terminal before packages are installed. Nobody is asked in continuous integration, in a script, or
/// with `--yes`.
fn agree(command: &str) -> Result<(), Stop> {
    let is_unattended = std::env::var_os("CI").is_some() || std::env::args().any(|word| word == YES);
    if is_unattended || !std::io::stdin().is_terminal() {
        return Ok(());
    }
    steps::ask(&format!("Run `{command}` now? [Y/n] "));
    let mut answer = String::new();
    std::io::stdin()
        .read_line(&mut answer)
        .map_err(|error| Stop::plain(format!("standard input: {error}")))?;
    if matches!(answer.trim().to_lowercase().as_str(), "" | "y" | "yes") {
        return Ok(());
    }
    Err(Stop::new("the packages were not installed", format!("run `{command}`, or this command again")))
}

/// Installs the packages of missing programs, or names them if that is not possible.
fn install(missing: &[(&str, &Need)]) -> Result<(), Stop> {
    if missing.is_empty() {
        return Ok(());
    }
    let packages: BTreeSet<&str> = missing.iter().map(|(_, need)| need.package).collect();
    let packages: Vec<&str> = packages.into_iter().collect();
    for (program, need) in missing {
        steps::say(&format!(
            "    {program} is missing (it {}): Debian package {}",
            need.purpose, need.package
        ));
    }
    let by_hand = format!("sudo apt-get install --no-install-recommends {}", packages.join(" "));
    if !is_root() || steps::find_program("apt-get").is_none() {
        return Err(Stop::new(
            format!("{} must be installed, which only root can do here", packages.join(", ")),
            format!(
                "run `{by_hand}` (or install the same programs with your distribution's packages), then run this command again"
            ),
        ));
    }
    agree(&by_hand)?;
    steps::step(&format!("Installing {} with apt-get", packages.join(", ")));
    let apt = |arguments: &[&str]| {
        steps::run_quietly(Command::new("apt-get").args(arguments).env("DEBIAN_FRONTEND", "noninteractive"))
    };
    apt(&["update"])?;
    let mut arguments = vec!["install", "-y", "--no-install-recommends"];
    arguments.extend(&packages);
    apt(&arguments)
        .map_err(|stop| Stop::new(stop.what, format!("run `{by_hand}` by hand and read its output")))?;
    match missing.iter().find(|(program, _)| needs::place_of(program).is_none()) {
        None => Ok(()),
        Some((program, need)) => Err(Stop::plain(format!(
            "{program} is still missing although the package {} was installed",
            need.package
        ))),
    }
}
