//! `cargo xtask kueue`: runs jobs through a queue of the real Kueue, on the embedded cluster and on a real kube-apiserver.
//! `conformance/kueue/kueue.py` has the steps; this file only provides the programs.

use std::path::Path;
use std::process::Command;

use crate::build::{self, Profile};
use crate::steps::{self, Stop};
use crate::{demo, environment, go_programs, machine, needs};

const KUEUE: (&str, &str) = ("sigs.k8s.io/kueue", "v0.19.2");
/// Kueue watches JobSets, so their definition must be there.
const JOBSET: (&str, &str) = ("sigs.k8s.io/jobset", "v0.12.0");
const JOBSET_CRD: &str = "config/components/crd/bases/jobset.x-k8s.io_jobsets.yaml";

/// Runs them. `words` may be `--binaries DIR`, a folder with the programs.
pub fn run(words: &[&str]) -> Result<(), Stop> {
    let given = match words {
        [] => None,
        ["--binaries", folder] => Some(*folder),
        _ => return Err(Stop::usage("cargo xtask kueue [--binaries DIR]")),
    };
    machine::prepare_for_tests()?;
    let image = format!("{}={}", demo::EXAMPLES_IMAGE, environment::examples()?.display());
    let odh = build::programs(Profile::Tests)?;
    let binaries = go_programs::all_binaries(given)?;
    steps::step("Kueue from its Go module");
    let kueue = go_programs::program(&binaries, KUEUE, "kueue", "cmd/kueue")?;
    let (manifests, jobset) =
        (go_programs::source_of(KUEUE)?, go_programs::source_of(JOBSET)?.join(JOBSET_CRD));
    let python = needs::prepared_python()?;
    let script = |mut command: Command, on: &str| {
        command.arg(steps::root().join("conformance/kueue/kueue.py")).args(["--on", on]);
        command.arg("--kueue").arg(&kueue).arg("--manifests").arg(&manifests).arg("--jobset").arg(&jobset);
        command.arg("--binaries").arg(&binaries);
        command
    };
    steps::step("The real Kueue on the embedded cluster");
    steps::run(script(Command::new(&python), "embedded").arg("--odh").arg(&odh).args(["--image", &image]))?;
    steps::step("The real Kueue on a real API server");
    let operator = steps::target().join("debug/mpi-operator");
    steps::run(script(in_own_network(&binaries, &python), "real").arg("--operator").arg(operator))
}

/// Runs Python beside a real API server in a network namespace of its own, where the addresses of Services can be this
/// machine's.
fn in_own_network(binaries: &Path, python: &Path) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--net", "sh", "-c", "ip link set lo up && exec \"$@\"", "sh"]);
    command.arg(steps::target().join("debug/conformance")).arg("--binaries").arg(binaries);
    command.args(["with", "--controllers", "--"]).arg(python);
    command
}
