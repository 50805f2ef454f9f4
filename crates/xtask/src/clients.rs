//! `cargo xtask clients`: tests other people's clients against the embedded cluster: the official Python client,
//! Kubeflow's SDK, and client-go if there is a Go compiler. Their programs are in `conformance/clients` and
//! `conformance/kubeflow`; each exits with 0 if everything works.

use std::path::Path;
use std::process::Command;

use crate::build::{self, Profile};
use crate::steps::{self, Stop};
use crate::{environment, go_programs};

/// The name by which the shipped runtimes for Open MPI know their image.
const IMAGE: &str = "quay.io/opendatahub/mpi-examples:openmpi";

/// Runs all of them.
pub fn run() -> Result<(), Stop> {
    let odh = build::programs(Profile::Dev)?;
    let examples = environment::examples()?;
    with_cluster(&odh, &examples, |kubeconfig| {
        python(kubeconfig)?;
        kubeflow(kubeconfig)?;
        if steps::find_program("go").is_none() {
            steps::say("    no Go compiler on PATH: client-go is not tried");
            return Ok(());
        }
        client_go(kubeconfig)
    })
}

/// Runs the programs in Python, with programs that are built already. It takes seconds and is a part of all tests.
pub fn quick(odh: &Path, examples: &Path) -> Result<(), Stop> {
    with_cluster(odh, examples, |kubeconfig| python(kubeconfig).and_then(|()| kubeflow(kubeconfig)))
}

fn with_cluster(
    odh: &Path,
    examples: &Path,
    work: impl FnOnce(&Path) -> Result<(), Stop>,
) -> Result<(), Stop> {
    let home = steps::target().join("clients/home");
    let local = |words: &[&str]| {
        steps::run_quietly(Command::new(odh).arg("local").args(words).env("ODH_HOME", &home))
    };
    local(&["down", "--purge"])?;
    local(&["up", "--image", &format!("{IMAGE}={}", examples.display())])?;
    let worked = work(&home.join("kubeconfig"));
    local(&["down", "--purge"]).and(worked)
}

fn python(kubeconfig: &Path) -> Result<(), Stop> {
    let environment = environment::clients()?;
    steps::step("Using the cluster by the official Python client");
    let program = steps::root().join("conformance/clients/client.py");
    steps::run(Command::new(environment.join("bin/python")).arg(program).env("KUBECONFIG", kubeconfig))
}

/// Kubeflow's SDK with TrainJobs, whose ranks run with the examples' programs.
fn kubeflow(kubeconfig: &Path) -> Result<(), Stop> {
    let environment = environment::kubeflow()?;
    steps::step("Running TrainJobs by Kubeflow's SDK");
    let program = steps::root().join("conformance/kubeflow/client.py");
    let mut command = Command::new(environment.join("bin/python"));
    steps::run(command.arg(program).env("KUBECONFIG", kubeconfig))
}

fn client_go(kubeconfig: &Path) -> Result<(), Stop> {
    let folder = go_programs::kube_folder()?;
    let module = go_programs::kubernetes_module(&folder, "clients")?;
    let source = steps::root().join("conformance/clients/go/main.go");
    std::fs::copy(&source, module.join("main.go")).map_err(|error| Stop::io(&source, &error))?;
    steps::step("Using the cluster by client-go");
    go_programs::go(&module, &["mod", "tidy"])?;
    let program = folder.join("clients");
    go_programs::go(&module, &["build", "-o", &program.display().to_string(), "."])?;
    steps::run(Command::new(program).env("KUBECONFIG", kubeconfig))
}
