//! `cargo xtask verbs`: runs the same `odh training` commands on the embedded cluster, and on a real kube-apiserver
//! with our operator and with upstream's. `conformance/verbs/verbs.py` has the commands and the expected results;
//! this file only provides the programs.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::build::{self, Profile};
use crate::steps::{self, Stop};
use crate::{conformance, machine, needs};

/// The module of upstream's operator, which also has its definition of MPIJob.
const UPSTREAM: (&str, &str) = ("github.com/kubeflow/mpi-operator", "v0.8.2");
const UPSTREAM_CRD: &str = "manifests/base/kubeflow.org_mpijobs.yaml";
/// Simulates the node.
const KWOK: (&str, &str) = ("sigs.k8s.io/kwok", "v0.8.0");
/// Programs that are built from Kubernetes' own module.
const OF_KUBERNETES: [(&str, &str); 3] = [
    ("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    ("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"),
    ("kubectl", "k8s.io/kubernetes/cmd/kubectl"),
];

/// Runs them. `words` may be `--binaries DIR`, a folder with all the programs.
pub fn run(words: &[&str]) -> Result<(), Stop> {
    let given = match words {
        [] => None,
        ["--binaries", folder] => Some(*folder),
        _ => return Err(Stop::usage("cargo xtask verbs [--binaries DIR]")),
    };
    machine::prepare_for_tests()?;
    let odh = build::programs(Profile::Tests)?;
    steps::cargo(&["build", "--workspace", "--bin", "conformance", "--bin", "mpi-operator"])?;
    let binaries = conformance::binaries(given)?;
    if given.is_none() {
        build_the_rest(&binaries)?;
    }
    steps::step("Every verb on the embedded cluster");
    steps::run(script(Command::new(needs::prepared_python()?), &odh).args(["--on", "embedded"]))?;
    let ours = (
        steps::target().join("debug/mpi-operator"),
        steps::root().join("deploy/crd/kubeflow.org_mpijobs.yaml"),
    );
    let theirs = (binaries.join("mpi-operator"), upstream_module()?.join(UPSTREAM_CRD));
    for (what, (operator, definition)) in [("our", ours), ("upstream's", theirs)] {
        steps::step(&format!("Every verb on a real API server with {what} operator"));
        steps::run(&mut on_real(&binaries, &odh, &operator, &definition)?)?;
    }
    Ok(())
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

/// Builds the programs that `conformance` does not need.
fn build_the_rest(folder: &Path) -> Result<(), Stop> {
    let missing = |name: &str| !folder.join(name).is_file();
    for (name, package) in OF_KUBERNETES.into_iter().filter(|(name, _)| missing(name)) {
        let module = conformance::kubernetes_module(folder, name)?;
        conformance::go(&module, &["mod", "edit", "-tool", package])?;
        conformance::go(&module, &["mod", "tidy"])?;
        build(folder, &module, name, package)?;
    }
    for (name, (module, version), package) in
        [("mpi-operator", UPSTREAM, "cmd/mpi-operator"), ("kwok", KWOK, "cmd/kwok")]
    {
        if missing(name) {
            let package = format!("{module}/{package}");
            let place = conformance::module(folder, name)?;
            conformance::go(&place, &["get", "-tool", &format!("{package}@{version}")])?;
            build(folder, &place, name, &package)?;
        }
    }
    Ok(())
}

fn build(folder: &Path, module: &Path, name: &str, package: &str) -> Result<(), Stop> {
    let program = folder.join(name).display().to_string();
    conformance::go(module, &["build", "-trimpath", "-ldflags", "-s -w", "-o", &program, package])
}

/// Returns the folder of upstream's module in Go's cache.
fn upstream_module() -> Result<PathBuf, Stop> {
    let wanted = format!("{}@{}", UPSTREAM.0, UPSTREAM.1);
    let about = steps::output_of("go", &["mod", "download", "-json", &wanted]);
    let about = about.ok_or_else(|| {
        Stop::new(
            format!("go cannot download {wanted}"),
            "is there a `go`, and the proxy that `go env GOPROXY` names?",
        )
    })?;
    let folder = about.lines().find_map(|line| line.trim().strip_prefix("\"Dir\": \"")?.strip_suffix("\","));
    folder.map(PathBuf::from).ok_or_else(|| Stop::plain(format!("go does not say where {wanted} is")))
}
