//! Someone brings the MPI that an image has: Open MPI 4 of Debian and of PyPI, MPICH 5, Intel MPI, each through the launch agent and
//! through ssh. Ranks run on every Worker.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use stories::{Home, places};

/// An MPI, the example that uses it, and where its programs are.
pub struct Implementation {
    pub name: &'static str,
    example: &'static str,
    prefix: PathBuf,
}

/// The programs that an image has to offer.
const PROGRAMS: [&str; 4] = ["mpirun", "mpiexec", "orted", "python3"];
const SSH_PROGRAMS: [&str; 2] = ["ssh", "sshd-worker"];

pub fn implementations() -> [Implementation; 4] {
    [
        Implementation { name: "debian", example: "hello.yaml", prefix: PathBuf::from("/usr") },
        Implementation { name: "wheel", example: "hello.yaml", prefix: places::examples_environment() },
        Implementation { name: "mpich", example: "hello-mpich.yaml", prefix: places::mpich_environment() },
        Implementation { name: "intel", example: "hello-intel.yaml", prefix: places::intel_environment() },
    ]
}

/// A folder that stands for an image: `bin` with these programs.
pub fn image(home: &Path, implementation: &Implementation) -> PathBuf {
    let folder = home.join("images").join(implementation.name);
    let bin = folder.join("bin");
    std::fs::create_dir_all(&bin).expect("the folder can be made");
    for program in PROGRAMS {
        let target = implementation.prefix.join("bin").join(program);
        if target.exists() {
            let wrapper = bin.join(program);
            let text = format!("#!/bin/sh\nexec '{}' \"$@\"\n", target.display());
            std::fs::write(&wrapper, text).expect("the wrapper can be written");
            let executable = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(&wrapper, executable).expect("the wrapper can be made executable");
        }
    }
    for program in SSH_PROGRAMS {
        let target = places::repository("examples/ssh-environment/bin").join(program);
        std::fs::copy(target, bin.join(program)).expect("the program can be copied");
    }
    folder
}

/// The example, under a name and with an image of its own; with ssh as `hello-ssh.yaml` has it.
fn manifest(home: &Home, implementation: &Implementation, ssh: bool) -> (String, String) {
    let text = std::fs::read_to_string(places::repository("examples").join(implementation.example))
        .expect("the example is there");
    let name = format!("{}-{}", implementation.name, if ssh { "ssh" } else { "agent" });
    let mut lines = Vec::new();
    let mut in_worker = false;
    for line in text.lines() {
        in_worker |= line.trim() == "Worker:";
        if let Some(indent) = line.strip_suffix("name: mpi") {
            lines.push(line.to_owned());
            let indent = indent.replace('-', " ");
            if ssh {
                lines.push(format!("{indent}env: [{{name: SSH_DIRECTORY, value: /home/mpiuser/.ssh}}]"));
            }
            if ssh && in_worker {
                lines.push(format!("{indent}command: [sshd-worker]"));
                lines
                    .push(format!("{indent}readinessProbe: {{tcpSocket: {{port: 2222}}, periodSeconds: 1}}"));
            }
        } else if line.starts_with("  name: hello") {
            lines.push(format!("  name: {name}"));
            let launch = if ssh { "ssh" } else { "agent" };
            lines.push(format!("  annotations: {{training.opendatahub.io/launch: {launch}}}"));
        } else if let Some((before, _)) = line.split_once("image: ") {
            lines.push(format!("{before}image: {}", image_name(implementation)));
        } else {
            lines.push(line.to_owned());
            if ssh && line == "spec:" {
                lines.push("  sshAuthMountPath: /home/mpiuser/.ssh".to_owned());
            }
        }
    }
    let path = home.write(&format!("{name}.yaml"), &(lines.join("\n") + "\n"));
    (name, path)
}

pub fn image_name(implementation: &Implementation) -> String {
    format!("example.test/mpi:{}", implementation.name)
}

/// Runs every implementation and sees that each Worker said something.
fn run_all(story: &str, ssh: bool) {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let implementations = implementations();
    let images = |one: &Implementation| {
        let name = image_name(one);
        let prefix = format!("{name}-prefix={}", one.prefix.display());
        [format!("{name}={}", image(folder.path(), one).display()), prefix]
    };
    let mappings: Vec<String> = implementations.iter().flat_map(images).collect();
    let words: Vec<&str> = mappings.iter().flat_map(|mapping| ["--image", mapping]).collect();
    let home = Home::with_cluster_and(story, &words);
    if ssh && home.mode() == "plain" {
        // Workers that share a machine's ports and have no names cannot be reached by ssh.
        return;
    }
    for implementation in &implementations {
        let (name, path) = manifest(&home, implementation, ssh);
        let answer = home.odh(&["local", "run", &path]).ended(0);
        if home.mode() != "plain" {
            answer.says(&format!("on {name}-worker-0")).says(&format!("on {name}-worker-1"));
        }
    }
}

#[test]
fn every_mpi_runs_through_the_launch_agent() {
    run_all("implementations::agent", false);
}

#[test]
fn every_mpi_runs_through_ssh() {
    run_all("implementations::ssh", true);
}
