//! `cargo xtask clients`: tests other people's clients against the embedded cluster: the official Python client,
//! and client-go if there is a Go compiler. Their programs are in `conformance/clients`; each exits with 0 if
//! everything works.

use std::path::Path;
use std::process::Command;

use crate::build::{self, Profile};
use crate::steps::{self, Stop};
use crate::{conformance, environment};

/// Runs both.
pub fn run() -> Result<(), Stop> {
    let odh = build::programs(Profile::Dev)?;
    with_cluster(&odh, |kubeconfig| {
        python(kubeconfig)?;
        if steps::find_program("go").is_none() {
            steps::say("    no Go compiler on PATH: client-go is not tried");
            return Ok(());
        }
        client_go(kubeconfig)
    })
}

/// Runs the Python client alone, with programs that are built already. It takes seconds and is a part of all tests.
pub fn quick(odh: &Path) -> Result<(), Stop> {
    with_cluster(odh, python)
}

fn with_cluster(odh: &Path, work: impl FnOnce(&Path) -> Result<(), Stop>) -> Result<(), Stop> {
    let home = steps::target().join("clients/home");
    let local = |words: &[&str]| {
        steps::run_quietly(Command::new(odh).arg("local").args(words).env("ODH_HOME", &home))
    };
    local(&["down", "--purge"])?;
    local(&["up"])?;
    let worked = work(&home.join("kubeconfig"));
    local(&["down", "--purge"]).and(worked)
}

fn python(kubeconfig: &Path) -> Result<(), Stop> {
    let environment = environment::clients()?;
    steps::step("Using the cluster by the official Python client");
    let program = steps::root().join("conformance/clients/client.py");
    steps::run(Command::new(environment.join("bin/python")).arg(program).env("KUBECONFIG", kubeconfig))
}

fn client_go(kubeconfig: &Path) -> Result<(), Stop> {
    let folder = conformance::kube_folder()?;
    let module = conformance::kubernetes_module(&folder, "clients")?;
    let source = steps::root().join("conformance/clients/go/main.go");
    std::fs::copy(&source, module.join("main.go"))
        .map_err(|error| Stop::plain(format!("{}: {error}", source.display())))?;
    steps::step("Using the cluster by client-go");
    conformance::go(&module, &["mod", "tidy"])?;
    let program = folder.join("clients");
    conformance::go(&module, &["build", "-o", &program.display().to_string(), "."])?;
    steps::run(Command::new(program).env("KUBECONFIG", kubeconfig))
}
