//! `cargo xtask verbs`: runs the same `odh training` commands on the embedded cluster, and on a real kube-apiserver
//! with our operator and with upstream's. `conformance/verbs/verbs.py` has the commands and the expected results;
//! this file only provides the programs.

use std::path::Path;
use std::process::Command;

use crate::build::{self, Profile};
use crate::steps::{self, Stop};
use crate::{go_programs, machine, needs};

/// Upstream's definition of MPIJob in its operator's module.
const UPSTREAM_CRD: &str = "manifests/base/kubeflow.org_mpijobs.yaml";

/// Runs them. `words` may be `--binaries DIR`, a folder with all the programs.
pub fn run(words: &[&str]) -> Result<(), Stop> {
    let given = match words {
        [] => None,
        ["--binaries", folder] => Some(*folder),
        _ => return Err(Stop::usage("cargo xtask verbs [--binaries DIR]")),
    };
    machine::prepare_for_tests()?;
    let odh = build::programs(Profile::Tests)?;
    let binaries = go_programs::all_binaries(given)?;
    steps::step("Every verb on the embedded cluster");
    steps::run(script(Command::new(needs::prepared_python()?), &odh).args(["--on", "embedded"]))?;
    let ours = (
        steps::target().join("debug/mpi-operator"),
        steps::root().join("deploy/crd/kubeflow.org_mpijobs.yaml"),
    );
    let theirs = (binaries.join("mpi-operator"), go_programs::upstream_module()?.join(UPSTREAM_CRD));
    steps::step("Every verb on a real API server with our operator");
    steps::run(&mut on_real(&binaries, &odh, &ours.0, &ours.1)?)?;
    steps::step("Every verb on a real API server with upstream's operator");
    steps::run(on_real(&binaries, &odh, &theirs.0, &theirs.1)?.arg("--upstream"))
}

fn script(mut command: Command, odh: &Path) -> Command {
    command.arg(steps::root().join("conformance/verbs/verbs.py")).arg("--odh").arg(odh);
    command
}

fn on_real(binaries: &Path, odh: &Path, operator: &Path, definition: &Path) -> Result<Command, Stop> {
    let mut command = Command::new(steps::target().join("debug/conformance"));
    command
        .arg("--binaries")
        .arg(binaries)
        .args(["with", "--controllers", "--"])
        .arg(needs::prepared_python()?);
    let mut command = script(command, odh);
    command.args(["--on", "real", "--operator"]).arg(operator).arg("--crd").arg(definition);
    command.arg("--binaries").arg(binaries);
    Ok(command)
}
