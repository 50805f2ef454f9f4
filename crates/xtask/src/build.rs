//! Builds the programs that people run: `odh`, and the static `odh-launch`, which is beside it, and within it in a
//! release.

use std::fs;
use std::path::PathBuf;

use crate::dashboard;
use crate::steps::{self, Stop};

/// Which build of the programs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// Quick to build; for the demo.
    Dev,
    /// The same with all tests, which use these programs.
    Tests,
    /// Optimised; for measurements and releases.
    Release,
}

impl Profile {
    fn folder(self) -> &'static str {
        match self {
            Profile::Dev | Profile::Tests => "debug",
            Profile::Release => "release",
        }
    }

    fn arguments(self) -> &'static [&'static str] {
        match self {
            // All packages, so that both build their dependencies with the same features: the tests then reuse what
            // the demo has compiled (see the dependencies of `conformance`).
            Profile::Dev => &["build", "--workspace", "--lib", "--bins"],
            Profile::Tests => &["build", "--workspace", "--all-targets"],
            Profile::Release => &["--package", "cli", "--package", "operator"],
        }
    }
}

/// Builds `odh` with `odh-launch` beside it; a release carries it, too. Returns the path of `odh`.
pub fn programs(profile: Profile) -> Result<PathBuf, Stop> {
    carry_dashboard(profile)?;
    steps::step(if profile == Profile::Tests {
        "Building odh and all tests (the first time takes some minutes)"
    } else {
        "Building odh (the first time takes some minutes)"
    });
    match profile {
        Profile::Release => release(profile.arguments())?,
        Profile::Dev | Profile::Tests => steps::cargo(profile.arguments())?,
    }
    let folder = steps::target().join(profile.folder());
    let launch = launch_agent()?;
    let beside = folder.join("odh-launch");
    // A running executable cannot be overwritten, only replaced.
    let fresh = folder.join(".odh-launch.new");
    fs::copy(&launch, &fresh)
        .and_then(|_| fs::rename(&fresh, &beside))
        .map_err(|error| Stop::io(&beside, &error))?;
    Ok(built(profile))
}

/// Where a build leaves `odh`.
pub fn built(profile: Profile) -> PathBuf {
    steps::target().join(profile.folder()).join("odh")
}

/// Runs `cargo build --release` so that `odh` carries the launch agent, whatever else of its package is built.
pub fn release(arguments: &[&str]) -> Result<(), Stop> {
    let mut command = steps::cargo_command();
    command.args(["build", "--release"]).args(arguments).env("ODH_LAUNCH_AGENT", launch_agent()?);
    steps::run(&mut command)
}

/// Builds the dashboard, which the training service then carries.
///
/// For the demo, `odh` is also built where no registry of npm can be reached: its page says how to build the dashboard.
fn carry_dashboard(profile: Profile) -> Result<(), Stop> {
    match dashboard::build() {
        Err(stop) if profile == Profile::Dev => {
            steps::complain(&stop);
            steps::say("\nGoing on without the dashboard.");
            Ok(())
        }
        outcome => outcome,
    }
}

/// Builds the launch agent, static and small: it is copied into arbitrary images.
///
/// It has a target folder of its own, because `+crt-static` would otherwise rebuild everything else.
fn launch_agent() -> Result<PathBuf, Stop> {
    let target = steps::target().join("static");
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let mut command = steps::cargo_command();
    command.args(["build", "--release", "--package", "launch", "--target", &triple]);
    command.env("RUSTFLAGS", "-C target-feature=+crt-static").env("CARGO_TARGET_DIR", &target);
    steps::run(&mut command)?;
    Ok(target.join(triple).join("release/odh-launch"))
}
