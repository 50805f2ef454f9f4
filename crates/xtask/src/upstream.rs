//! `cargo xtask upstream`: runs the operator's tests of upstream's behaviour that need no pod on a real
//! kube-apiserver.
//!
//! The tests do the kubelet's part themselves, and in the first of the two runs also the Job controller's. Left out
//! are tests that read logs from a node, change the server's rights, or look at what only the embedded cluster has.

use std::path::Path;
use std::process::Command;

use crate::go_programs;
use crate::steps::{self, Stop};

/// Test modules that play the Job controller too.
const WITHOUT_CONTROLLERS: [&str; 10] = [
    "upstream::",
    "life::",
    "scale::",
    "kueue::",
    "failures::",
    "gangs::",
    "state::",
    "takeover::",
    "security::",
    "crashes::",
];
/// Tests of those modules that need the controllers, a scheduler, logs from a node or a server of their own, or
/// that count objects of all namespaces: here each operator watches a single namespace.
const NOT_WITHOUT: [&str; 12] = [
    "is_deleted_leaves_nothing",
    "when_its_ttl_is_over",
    "together_with_a_gang_scheduler",
    "explained_by_what_the_launcher_printed",
    "a_long_log",
    "diagnosed_by_one_log",
    "a_node_that_gives_no_log",
    "agents_are_asked",
    "waits_for_gpus",
    "launcher_refused",
    "without_the_definition",
    "without_its_definitions",
];
/// Tests that need the Job controller, the garbage collector and the TTL controller.
const WITH_CONTROLLERS: [&str; 3] = ["together::", "is_deleted_leaves_nothing", "when_its_ttl_is_over"];
/// What `deploy/` installs. It has webhooks that nobody serves, so it needs a server to itself.
const ALONE: [&str; 1] = ["what_is_installed_can_be_applied_again"];

/// Runs them. `words` are `--binaries DIR` and a filter, both optional.
pub fn run(words: &[&str]) -> Result<(), Stop> {
    let (given, filters) = match words {
        ["--binaries", folder, rest @ ..] => (Some(*folder), rest),
        rest => (None, rest),
    };
    let binaries = go_programs::all_binaries(given)?;
    steps::step("Building the tests, and what starts a real API server");
    steps::cargo(&["build", "--workspace", "--bin", "conformance"])?;
    steps::cargo(&["test", "--package", "operator", "--test", "it", "--no-run"])?;
    let all = filters.is_empty();
    if all || filters[0] != "--controllers" {
        let chosen = if all { &WITHOUT_CONTROLLERS[..] } else { filters };
        steps::step("The operator's tests on a real API server");
        steps::run(&mut tests(&binaries, &[], chosen, &NOT_WITHOUT))?;
    }
    if all || filters[0] == "--controllers" {
        let chosen = if filters.len() < 2 { &WITH_CONTROLLERS[..] } else { &filters[1..] };
        steps::step("The operator's tests on a real API server with its controllers");
        steps::run(&mut tests(&binaries, &["--controllers"], chosen, &ALONE))?;
    }
    if all {
        steps::step("The installation on a real API server with its controllers");
        steps::run(&mut tests(&binaries, &["--controllers"], &ALONE, &[]))?;
    }
    Ok(())
}

fn tests(binaries: &Path, with: &[&str], filters: &[&str], skipped: &[&str]) -> Command {
    let mut command = Command::new(steps::target().join("debug/conformance"));
    command.arg("--binaries").arg(binaries).arg("with").args(with).arg("--");
    command.args(["cargo", "test", "--package", "operator", "--test", "it", "--"]).args(filters);
    skipped.iter().for_each(|test| {
        command.args(["--skip", test]);
    });
    command
}
