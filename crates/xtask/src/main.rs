//! `cargo xtask TASK`: the only task runner of this repository.
//!
//! It prepares what a task needs (Debian packages, Python environments, programs), reports each step, runs the
//! task, and gives advice if it cannot continue. It must not hold product logic: it calls `odh` and `cargo` as a
//! person would.

mod advisories;
mod bench;
mod build;
mod check;
mod circles;
mod clients;
mod conformance;
mod dashboard;
mod demo;
mod disk;
mod dist;
mod environment;
mod fuzz;
mod generate;
mod go_programs;
mod kueue;
mod machine;
mod needs;
mod properties;
mod sdk;
mod service;
mod sources;
mod specs;
mod steps;
mod suite;
mod tables;
mod test;
mod upstream;
mod verbs;
mod words;

use std::process::ExitCode;

use steps::Stop;

const HELP: &str = "\
cargo xtask TASK [--yes]

A task that needs Debian packages installs them as root. At a terminal it asks first, except with --yes.

  demo              set everything up and run the main job: a real MPI training on four Workers
  test [FILTER]     set everything up and run all tests, stories included
  check             formatting, lints, generated files, licences, the one way of dependencies
  gen [--check]     write the generated files again, or compare them
  fmt               format the code
  bench [NAME]      measure, beside a peer in the same run; reports go to bench/reports/
  bench guard       count what small scenes cost, and fail where one exceeds its budget in bench/guard/budgets.json
  conformance [--binaries DIR] [--programs N] [--seed N]
                    the same requests to the embedded cluster and a real kube-apiserver
  upstream [--binaries DIR] [FILTER | --controllers [FILTER]]
                    the operator's tests of upstream's behaviours that need no pod, on a real kube-apiserver
  service [--binaries DIR] [FILTER]
                    the training service's tests that need no pod, on real kube-apiservers
  verbs [--binaries DIR]
                    every verb of odh training: on the embedded cluster, and on a real kube-apiserver with our operator
                    and with upstream's
  kueue [--binaries DIR]
                    TrainJobs and MPIJobs through a queue of the real Kueue: on the embedded cluster, and on a real
                    kube-apiserver
  specs [--kubeconfig FILE] [NAME]
                    the conformance specs that Kubernetes publishes for its API, against the embedded cluster
  tables CHECKOUT   the tables taken from Kubernetes' sources, made again from a checkout of its next version
  sdk [--all]       the Python SDK: its checks and tests; --all with every Python that this machine has
  fuzz-api [--examples N] [--seed N]
                    generated requests to the training service, from its OpenAPI document: none may break it
  properties [--cases N] [--seed N] [CRATE...]
                    the property tests with other inputs than the fixed ones of the default run
  clients           the official Python client, Kubeflow's SDK and client-go against the embedded cluster
  dashboard [--check]
                    build the web dashboard, or check its sources without a browser
  dist              packages of odh (tarball, Debian package, Python wheel), each installed and used
  setup             only what the examples need: odh and the Python environment
  help              this text
";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).filter(|word| *word != machine::YES).collect();
    // Not a task for people: `test` has cargo list each test binary by it.
    if let ["listed", record, command @ ..] = words.as_slice() {
        return suite::list(record, command).unwrap_or_else(|stop| {
            steps::complain(&stop);
            ExitCode::from(stop.code)
        });
    }
    let result = match words.as_slice() {
        ["demo"] => demo::run(),
        ["test", filter @ ..] => test::run(filter),
        // Not a task for people: `test` runs its parts beside one another.
        ["part", part] => test::part(part),
        ["check"] => check::run(),
        ["gen"] => generate::run(steps::GeneratedFiles::Replace),
        ["gen", "--check"] => generate::run(steps::GeneratedFiles::Compare),
        ["fmt"] => steps::cargo(&["fmt", "--all"]),
        ["bench", names @ ..] => bench::run(names),
        ["conformance", words @ ..] => conformance::run(words),
        ["upstream", words @ ..] => upstream::run(words),
        ["service", words @ ..] => service::run(words),
        ["verbs", words @ ..] => verbs::run(words),
        ["kueue", words @ ..] => kueue::run(words),
        ["tables", checkout] => tables::run(checkout),
        ["sdk"] => sdk::run(false),
        ["sdk", "--all"] => sdk::run(true),
        ["clients"] => clients::run(),
        ["properties", words @ ..] => properties::run(words),
        ["fuzz-api", words @ ..] => fuzz::run(words),
        ["dashboard"] => dashboard::build(),
        ["dashboard", "--check"] => dashboard::check(),
        ["specs", words @ ..] => specs::run(words),
        ["dist"] => dist::run(),
        ["setup"] => demo::set_up().map(|_| ()),
        ["help" | "--help" | "-h"] | [] => {
            steps::say(HELP);
            Ok(())
        }
        other => Err(Stop::usage(format!("there is no task '{}'\n\n{HELP}", other.join(" ")))),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(stop) => {
            // Whatever failed on a full disk failed because of it.
            let advice = disk::advice_if_full().filter(|_| stop.code == 1).or(stop.advice);
            let stop = Stop { advice, ..stop };
            steps::complain(&stop);
            ExitCode::from(stop.code)
        }
    }
}
