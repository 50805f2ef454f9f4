//! Programs of other projects that ours are compared with, built from their published Go modules into the target folder,
//! once: a real kube-apiserver with its companions, upstream's operator, kwok, Kueue.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::steps::{self, Stop};

/// The versions that are built.
const KUBERNETES: &str = "v1.36.3";
const STAGED: &str = "v0.36.3";
const ETCD: &str = "v3.6.16";
/// Names a folder with programs that are built already.
const BINARIES: &str = "ODH_KUBE_BINARIES";
/// The module of upstream's operator, which also has its definition of MPIJob.
const UPSTREAM: (&str, &str) = ("github.com/kubeflow/mpi-operator", "v0.8.2");
/// Simulates the node.
const KWOK: (&str, &str) = ("sigs.k8s.io/kwok", "v0.8.0");
/// Programs that are built from Kubernetes' own module.
const OF_KUBERNETES: [(&str, &str); 3] = [
    ("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    ("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"),
    ("kubectl", "k8s.io/kubernetes/cmd/kubectl"),
];

/// Returns the folder with a real server's programs: the given one, else the variable's, else one in which they are
/// built.
pub fn binaries(given: Option<&str>) -> Result<PathBuf, Stop> {
    match given.map(PathBuf::from).or_else(|| std::env::var_os(BINARIES).map(PathBuf::from)) {
        Some(folder) => Ok(steps::root().join(folder)),
        None => built(),
    }
}

/// Returns the folder with these and all other programs, and builds what is missing unless the folder is given.
pub fn all_binaries(given: Option<&str>) -> Result<PathBuf, Stop> {
    let folder = binaries(given)?;
    if given.is_none() {
        build_the_rest(&folder)?;
    }
    Ok(folder)
}

/// Returns the folder with etcd and kube-apiserver, and builds them if they are missing.
fn built() -> Result<PathBuf, Stop> {
    let folder = steps::target().join("kube").join(KUBERNETES);
    if ["etcd", "kube-apiserver"].iter().all(|name| folder.join(name).is_file()) {
        return Ok(folder);
    }
    let folder = kube_folder().map_err(|stop| {
        Stop::new(
            stop.what,
            format!(
                "install Go (go.dev/doc/install), or name a folder with etcd and kube-apiserver in {BINARIES}"
            ),
        )
    })?;
    steps::step(
        "Building kube-apiserver and etcd from their Go modules (some ten minutes of processor time, once)",
    );
    etcd(&folder)?;
    apiserver(&folder)?;
    Ok(folder)
}

/// Returns the folder for programs built from Kubernetes' modules. Fails without a Go compiler.
pub fn kube_folder() -> Result<PathBuf, Stop> {
    if steps::find_program("go").is_none() {
        return Err(Stop::new("there is no Go compiler on PATH", "install Go (go.dev/doc/install)"));
    }
    let folder = steps::target().join("kube").join(KUBERNETES);
    fs::create_dir_all(&folder).map_err(|error| Stop::io(&folder, &error))?;
    Ok(folder)
}

fn etcd(folder: &Path) -> Result<(), Stop> {
    let module = module(folder, "etcd")?;
    go(&module, &["get", "-tool", &format!("go.etcd.io/etcd/server/v3@{ETCD}")])?;
    let program = folder.join("etcd");
    go(
        &module,
        &["build", "-trimpath", "-ldflags", "-s -w", "-o", &text(&program), "go.etcd.io/etcd/server/v3"],
    )
}

/// Creates a module of this name that depends on Kubernetes and on its published parts.
pub fn kubernetes_module(folder: &Path, name: &str) -> Result<PathBuf, Stop> {
    let module = module(folder, name)?;
    let wanted = format!("k8s.io/kubernetes@{KUBERNETES}");
    let about = go_says(&module, &["mod", "download", "-json", &wanted])?;
    let path = about.lines().find_map(|line| line.trim().strip_prefix("\"GoMod\": \"")?.strip_suffix("\","));
    let path = path.ok_or_else(|| Stop::plain(format!("go does not say where {wanted} is:\n{about}")))?;
    let upstream = fs::read_to_string(path).map_err(|error| Stop::plain(format!("{path}: {error}")))?;
    if let Some(version) = upstream.lines().find_map(|line| line.strip_prefix("go ")) {
        go(&module, &["mod", "edit", &format!("-go={version}")])?;
    }
    // kubernetes replaces its parts by folders of its repository; published, they are modules of their own.
    for line in upstream.lines().filter(|line| line.contains("=> ./staging/")) {
        let part = line.split_whitespace().next().unwrap_or_default();
        go(&module, &["mod", "edit", "-replace", &format!("{part}={part}@{STAGED}")])?;
    }
    go(&module, &["mod", "edit", "-require", &wanted])?;
    Ok(module)
}

fn apiserver(folder: &Path) -> Result<(), Stop> {
    let module = kubernetes_module(folder, "kubernetes")?;
    go(&module, &["mod", "edit", "-tool", "k8s.io/kubernetes/cmd/kube-apiserver"])?;
    go(&module, &["mod", "tidy"])?;
    let version = ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"].map(|package| {
        format!("-X {package}.gitVersion={KUBERNETES} -X {package}.gitMajor=1 -X {package}.gitMinor=36")
    });
    let flags = format!("-s -w {}", version.join(" "));
    let program = folder.join("kube-apiserver");
    go(
        &module,
        &[
            "build",
            "-trimpath",
            "-ldflags",
            &flags,
            "-o",
            &text(&program),
            "k8s.io/kubernetes/cmd/kube-apiserver",
        ],
    )
}

/// Creates a module that exists only for its dependencies.
pub fn module(folder: &Path, name: &str) -> Result<PathBuf, Stop> {
    let module = folder.join(format!("module-{name}"));
    // An interrupted build may have left one.
    let _ = fs::remove_dir_all(&module);
    fs::create_dir_all(&module).map_err(|error| Stop::io(&module, &error))?;
    go(&module, &["mod", "init", "example.invalid/tools"])?;
    Ok(module)
}

fn command(module: &Path, words: &[&str]) -> Command {
    let mut command = Command::new("go");
    command.args(words).current_dir(module).env("CGO_ENABLED", "0").env("GOFLAGS", "-buildvcs=false");
    command
}

/// Runs `go` in a module.
pub fn go(module: &Path, words: &[&str]) -> Result<(), Stop> {
    steps::run_quietly(&mut command(module, words)).map_err(advised)
}

fn go_says(module: &Path, words: &[&str]) -> Result<String, Stop> {
    let output = command(module, words).output().map_err(|error| Stop::plain(format!("go: {error}")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(advised(Stop::plain(format!(
        "go {}: {}",
        words.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    ))))
}

fn advised(stop: Stop) -> Stop {
    Stop::new(stop.what, "the modules come from the proxy that `go env GOPROXY` names: is it reachable?")
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

/// Builds the programs that the comparison of requests does not need.
fn build_the_rest(folder: &Path) -> Result<(), Stop> {
    let missing = |name: &str| !folder.join(name).is_file();
    for (name, package) in OF_KUBERNETES.into_iter().filter(|(name, _)| missing(name)) {
        let module = kubernetes_module(folder, name)?;
        go(&module, &["mod", "edit", "-tool", package])?;
        go(&module, &["mod", "tidy"])?;
        build(folder, &module, name, package)?;
    }
    for (name, (module, version), package) in
        [("mpi-operator", UPSTREAM, "cmd/mpi-operator"), ("kwok", KWOK, "cmd/kwok")]
    {
        if missing(name) {
            build_from(folder, (module, version), name, package)?;
        }
    }
    Ok(())
}

/// Builds one program of a published module into a folder, unless it is there.
pub fn program(folder: &Path, module: (&str, &str), name: &str, package: &str) -> Result<PathBuf, Stop> {
    let program = folder.join(name);
    if !program.is_file() {
        build_from(folder, module, name, package)?;
    }
    Ok(program)
}

fn build_from(folder: &Path, (path, version): (&str, &str), name: &str, package: &str) -> Result<(), Stop> {
    let package = format!("{path}/{package}");
    let place = module(folder, name)?;
    go(&place, &["get", "-tool", &format!("{package}@{version}")])?;
    build(folder, &place, name, &package)
}

fn build(folder: &Path, module: &Path, name: &str, package: &str) -> Result<(), Stop> {
    let program = folder.join(name).display().to_string();
    go(module, &["build", "-trimpath", "-ldflags", "-s -w", "-o", &program, package])
}

/// Returns the folder of upstream's module in Go's cache.
pub fn upstream_module() -> Result<PathBuf, Stop> {
    source_of(UPSTREAM)
}

/// Returns the folder of a module in Go's cache, where it is downloaded to.
pub fn source_of((module, version): (&str, &str)) -> Result<PathBuf, Stop> {
    let wanted = format!("{module}@{version}");
    let about = go_says(&steps::target(), &["mod", "download", "-json", &wanted])?;
    let folder = about.lines().find_map(|line| line.trim().strip_prefix("\"Dir\": \"")?.strip_suffix("\","));
    folder.map(PathBuf::from).ok_or_else(|| Stop::plain(format!("go does not say where {wanted} is")))
}
