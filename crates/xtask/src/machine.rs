//! What this machine has and lacks for running MPI jobs as local processes.

use std::process::Command;

use crate::steps::{self, Stop};

/// A program that a task needs, and the Debian package that brings it.
struct Need {
    program: &'static str,
    package: &'static str,
    purpose: &'static str,
}

const MPI: &[Need] = &[Need {
    program: "mpirun",
    package: "openmpi-bin",
    purpose: "the machine's own MPI, tested beside the wheel's",
}];

const PYTHON: &[Need] =
    &[Need { program: "python3", package: "python3-venv", purpose: "runs the training script" }];

const SSH: &[Need] = &[
    Need {
        program: "sshd",
        package: "openssh-server",
        purpose: "upstream's way to reach Workers, tested beside ours",
    },
    Need {
        program: "ssh",
        package: "openssh-client",
        purpose: "upstream's way to reach Workers, tested beside ours",
    },
];

/// Whether this process may install packages.
pub fn is_root() -> bool {
    steps::output_of("id", &["-u"]).as_deref() == Some("0")
}

/// Makes sure that this machine can run the main job.
pub fn prepare_for_demo() -> Result<(), Stop> {
    refuse_other_systems()?;
    install(&missing(&[PYTHON]))?;
    require_venv()
}

/// Makes sure that this machine can run every story.
pub fn prepare_for_tests() -> Result<(), Stop> {
    refuse_other_systems()?;
    install(&missing(&[PYTHON, MPI, SSH]))?;
    require_venv()
}

fn refuse_other_systems() -> Result<(), Stop> {
    if std::env::consts::OS == "linux" {
        return Ok(());
    }
    Err(Stop::new(
        format!("this is {}: pods run as local processes on Linux only", std::env::consts::OS),
        "run it on a Linux machine, in a virtual machine, or in a Linux container",
    ))
}

fn missing(groups: &[&'static [Need]]) -> Vec<&'static Need> {
    groups.iter().flat_map(|group| group.iter()).filter(|need| !present(need)).collect()
}

fn present(need: &Need) -> bool {
    // sshd stands in /usr/sbin, which is not on everyone's PATH.
    steps::find_program(need.program).is_some()
        || ["/usr/sbin", "/usr/bin"]
            .iter()
            .any(|folder| std::path::Path::new(folder).join(need.program).is_file())
}

fn install(needs: &[&Need]) -> Result<(), Stop> {
    if needs.is_empty() {
        return Ok(());
    }
    let mut packages: Vec<&str> = needs.iter().map(|need| need.package).collect();
    packages.dedup();
    for need in needs {
        steps::say(&format!(
            "    {} is missing (it {}): Debian package {}",
            need.program, need.purpose, need.package
        ));
    }
    let by_hand = format!("sudo apt-get install --no-install-recommends {}", packages.join(" "));
    if !is_root() || steps::find_program("apt-get").is_none() {
        return Err(Stop::new(
            format!("{} needs to be installed, and only root may do that here", packages.join(", ")),
            format!(
                "run `{by_hand}` (or your distribution's packages of the same programs), then this command again"
            ),
        ));
    }
    steps::step(&format!("Installing {} with apt-get", packages.join(", ")));
    let apt = |arguments: &[&str]| {
        steps::run_quietly(Command::new("apt-get").args(arguments).env("DEBIAN_FRONTEND", "noninteractive"))
    };
    apt(&["update"])?;
    let mut arguments = vec!["install", "-y", "--no-install-recommends"];
    arguments.extend(&packages);
    apt(&arguments)
        .map_err(|stop| Stop::new(stop.what, format!("try `{by_hand}` by hand and read what it says")))
}

/// Debian splits `venv` from Python; without it the module is there and fails late.
fn require_venv() -> Result<(), Stop> {
    let python = python();
    if steps::output_of(&python, &["-c", "import ensurepip, venv"]).is_some() {
        return Ok(());
    }
    install(&[&Need {
        program: "python3 -m venv",
        package: "python3-venv",
        purpose: "makes the Python environment",
    }])
}

/// The Python to make environments from: the system's own where it can, since every user may read that one.
pub fn python() -> String {
    let system = "/usr/bin/python3";
    let usable =
        steps::output_of(system, &["-c", "import sys, ensurepip, venv; assert sys.version_info >= (3, 10)"]);
    if usable.is_some() { system.to_owned() } else { "python3".to_owned() }
}
