//! `cargo xtask demo`: from a fresh clone to a real MPI training on four Workers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::build::{self, Profile};
use crate::steps::{self, Stop};
use crate::{environment, machine};

/// The image name that the examples use.
pub const EXAMPLES_IMAGE: &str = "quay.io/opendatahub/mpi-examples:openmpi";
/// The number of Workers in `examples/digits.yaml`.
const WORKERS: usize = 4;
/// The accuracy that the training must exceed.
const ACCURACY: f64 = 0.95;

/// Everything needed to run the examples: their environment, `odh`, and a `PATH` with the listed programs only.
pub struct SetUp {
    environment: PathBuf,
    odh: PathBuf,
    path: PathBuf,
}

/// Prepares the machine, creates the environment, builds `odh`.
pub fn set_up() -> Result<SetUp, Stop> {
    steps::step("Checking what this machine has");
    Ok(SetUp {
        path: machine::prepare_for_demo()?,
        environment: environment::examples()?,
        odh: build::programs(Profile::Dev)?,
    })
}

/// Sets everything up, runs `examples/digits.yaml`, and checks its output.
pub fn run() -> Result<(), Stop> {
    let started = Instant::now();
    let SetUp { environment, odh, path } = set_up()?;
    let home = steps::target().join("demo");
    fs::create_dir_all(&home).map_err(|error| Stop::io(&home, &error))?;

    let cluster = Cluster { odh, home, path };
    cluster.down();
    let printed = cluster.train(&environment);
    cluster.down();
    let shown = verify(&printed?)?;

    steps::step(&format!("Done in {:.0} s", started.elapsed().as_secs_f64()));
    steps::say(&shown);
    steps::say(&next_steps());
    Ok(())
}

/// A cluster for the demo alone, with its state under `target/`, so that no other cluster is touched.
struct Cluster {
    odh: PathBuf,
    home: PathBuf,
    path: PathBuf,
}

impl Cluster {
    fn odh(&self) -> Command {
        let mut command = Command::new(&self.odh);
        command
            .env("ODH_HOME", &self.home)
            .env("PATH", &self.path)
            .env_remove("KUBECONFIG")
            .current_dir(steps::root());
        command
    }

    /// Runs the training as a person would. Shows and returns its output.
    fn train(&self, environment: &Path) -> Result<String, Stop> {
        steps::step("Starting a cluster on this machine: odh local up");
        let mapping = format!("{EXAMPLES_IMAGE}={}", environment.display());
        steps::run(self.odh().args(["local", "up", "--image", &mapping]))?;
        steps::step("Training on four Workers: odh local run examples/digits.yaml");
        let mut child = self
            .odh()
            .args(["local", "run", "examples/digits.yaml"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| Stop::plain(format!("odh could not be started: {error}")))?;
        let printed = child.stdout.take().map(show_and_keep).unwrap_or_default();
        let status = child.wait().map_err(|error| Stop::plain(format!("odh: {error}")))?;
        if status.success() {
            return Ok(printed);
        }
        Err(Stop::new(
            format!("the training ended with {status}"),
            "read the lines above; `target/debug/odh local doctor` says what this machine can and cannot do",
        ))
    }

    /// Ends the cluster, if there is one, and removes its state.
    fn down(&self) {
        let ended = self
            .odh()
            .args(["local", "down", "--purge"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        // It is no failure if there is nothing to end; a real failure shows at the next `up`.
        drop(ended);
    }
}

fn show_and_keep(output: impl std::io::Read) -> String {
    let mut kept = String::new();
    for line in std::io::BufRead::lines(std::io::BufReader::new(output)).map_while(Result::ok) {
        steps::say(&line);
        kept.push_str(&line);
        kept.push('\n');
    }
    kept
}

/// Checks that the output shows every Worker and a model that learned.
fn verify(printed: &str) -> Result<String, Stop> {
    let hosts = hosts_of(printed);
    let accuracy = accuracy_of(printed).ok_or_else(|| {
        Stop::plain("the training printed no accuracy: it did not run to its end".to_owned())
    })?;
    if accuracy <= ACCURACY {
        return Err(Stop::plain(format!(
            "the model reached an accuracy of {accuracy}, expected more than {ACCURACY}"
        )));
    }
    if hosts.len() != WORKERS {
        return Err(Stop::plain(format!(
            "ranks ran on {} hosts, expected {WORKERS}: {}",
            hosts.len(),
            hosts.join(", ")
        )));
    }
    Ok(format!("Accuracy {accuracy} after training on {WORKERS} Workers: {}", hosts.join(", ")))
}

/// Returns the distinct hosts in lines such as `rank 2 of 4 on digits-worker-2`.
fn hosts_of(printed: &str) -> Vec<String> {
    let mut hosts: Vec<String> = printed
        .lines()
        .filter_map(|line| line.split_once("rank ").map(|(_, rest)| rest))
        .filter_map(|rest| rest.split_once(" on ").map(|(_, host)| host))
        .filter_map(|host| host.split_whitespace().next())
        .map(str::to_owned)
        .collect();
    hosts.sort();
    hosts.dedup();
    hosts
}

/// Returns the last figure after the word `accuracy`.
fn accuracy_of(printed: &str) -> Option<f64> {
    let after = printed.lines().rev().find_map(|line| line.rsplit_once("accuracy").map(|(_, rest)| rest))?;
    after.trim_start_matches([' ', ':', '=']).split_whitespace().next()?.parse().ok()
}

fn next_steps() -> String {
    "\nNext:\n  target/debug/odh local up          a cluster of your own, in the background\n  target/debug/odh training --help   what you can do with jobs\n  docs/quick-start.md                a first job of your own\n".to_owned()
}
