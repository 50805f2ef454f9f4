//! `cargo xtask service`: runs the training service's tests that need no pod on real kube-apiservers, one for each test.
//!
//! Left out are tests that play a node (output, usage of pods) or need the ResourceQuota controller, that
//! start the program or a cluster of their own, or that need no API server at all.

use crate::go_programs;
use crate::steps::{self, Stop};

const LEFT_OUT: [&str; 15] = [
    "advice::",
    "artifacts::",
    "every_method::",
    "install::",
    "kills::",
    "logs::",
    "traces::",
    "postgresql_too",
    "cpu_and_memory_of_each_pod",
    "patterns_find_more",
    "gpus_jobs_and_quotas",
    "network_traffic_of_pods",
    "output_is_archived",
    "output_is_read",
    "output_of_a_pytorchjob",
];

/// Runs them. `words` are `--binaries DIR` and filters, both optional.
pub fn run(words: &[&str]) -> Result<(), Stop> {
    let (given, filters) = match words {
        ["--binaries", folder, rest @ ..] => (Some(*folder), rest),
        rest => (None, rest),
    };
    let binaries = go_programs::binaries(given)?;
    steps::step("The training service's tests on real API servers");
    let mut command = steps::cargo_command();
    command.args(["test", "--package", "service", "--test", "it", "--", "--test-threads", "2"]).args(filters);
    LEFT_OUT.iter().for_each(|test| {
        command.args(["--skip", test]);
    });
    steps::run(command.env("ODH_REAL_BINARIES", binaries))
}
