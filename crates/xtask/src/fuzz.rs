//! `cargo xtask fuzz-api`: generated requests to the training service of a local cluster, by Schemathesis from the
//! service's OpenAPI document. Fails if one is answered with a 5xx status; the output then has the request and the seed.

use std::process::Command;

use crate::build::{self, Profile};
use crate::environment;
use crate::steps::{self, Stop};

/// The number of requests for each operation and phase, if none is given.
const EXAMPLES: &str = "50";

/// Starts a cluster, sends the requests, and ends it.
pub fn run(words: &[&str]) -> Result<(), Stop> {
    let (mut examples, mut seed) = (EXAMPLES, None);
    for pair in words.chunks(2) {
        match pair {
            ["--examples", number] => examples = number,
            ["--seed", number] => seed = Some(*number),
            _ => return Err(Stop::usage("use fuzz-api [--examples N] [--seed N]")),
        }
    }
    let odh = build::programs(Profile::Dev)?;
    let environment = environment::service()?;
    let home = steps::target().join("fuzz/home");
    let local = |words: &[&str]| {
        steps::run_quietly(Command::new(&odh).arg("local").args(words).env("ODH_HOME", &home))
    };
    local(&["down", "--purge"])?;
    local(&["up"])?;
    steps::step("Sending generated requests to the training service");
    let mut fuzz = Command::new(environment.join("bin/python"));
    fuzz.arg(steps::root().join("conformance/service/fuzz.py")).arg(&odh).arg(examples).args(seed);
    let worked = steps::run(fuzz.env("ODH_HOME", &home).current_dir(steps::target()));
    local(&["down", "--purge"]).and(worked)
}
