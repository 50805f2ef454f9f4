//! `cargo xtask properties`: the property tests with other inputs than those of the default run, and with more of them. The
//! seed is printed, so that a failure can be repeated.

use crate::steps::{self, Stop};

/// The cases for each property, if no number is given.
const CASES: &str = "2000";
/// The crates that have property tests.
const CRATES: [&str; 9] =
    ["apiserver", "cluster", "diagnosis", "history", "jobs", "node", "objects", "plan", "semantics"];

/// Runs the tests of these crates, or of all that have property tests.
pub fn run(words: &[&str]) -> Result<(), Stop> {
    let usage = || Stop::usage("use properties [--cases N] [--seed N] [CRATE...]");
    let (mut cases, mut seed, mut crates) = (CASES, None, Vec::new());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "--cases" => cases = words.next().ok_or_else(usage)?,
            "--seed" => seed = Some(words.next().ok_or_else(usage)?.parse::<u64>().map_err(|_| usage())?),
            name if CRATES.contains(&name) => crates.push(name),
            _ => return Err(usage()),
        }
    }
    let seed = seed.map_or_else(random, Ok)?.to_string();
    steps::step(&format!("Running the property tests with the seed {seed} and {cases} cases each"));
    let mut command = steps::cargo_command();
    command.args(["test", "--lib"]);
    let of: &[&str] = if crates.is_empty() { &CRATES } else { &crates };
    of.iter().for_each(|name| {
        command.args(["-p", name]);
    });
    steps::run(command.env("PROPTEST_RNG_SEED", &seed).env("PROPTEST_CASES", cases))
        .map_err(|stop| Stop { advice: Some(format!("repeat it with --seed {seed}")), ..stop })
}

fn random() -> Result<u64, Stop> {
    use std::io::Read;
    let mut bytes = [0; 8];
    std::fs::File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .map_err(|error| Stop::plain(format!("no random seed: {error}")))?;
    Ok(u64::from_le_bytes(bytes))
}
