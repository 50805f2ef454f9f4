//! Someone uses the MPI of their image: Open MPI 4 of Debian and of PyPI, Open MPI 5, MPICH 5, Intel MPI, each
//! through the launch agent and through ssh. Ranks run on every Worker.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use stories::{Home, Mode, places};

/// An MPI, the examples that it runs, and where its programs are.
pub struct Implementation {
    pub name: &'static str,
    examples: &'static [&'static str],
    prefix: PathBuf,
}

/// The programs that an image may have.
const PROGRAMS: [&str; 7] = ["mpirun", "mpiexec", "orted", "prted", "python3", "mpi-pi", "train-digits"];
const SSH_PROGRAMS: [&str; 2] = ["ssh", "sshd-worker"];
/// Where the job's key is mounted.
const SSH_DIRECTORY: &str = "/home/mpiuser/.ssh";

pub fn implementations() -> [Implementation; 5] {
    let one = |name, examples, prefix| Implementation { name, examples, prefix };
    [
        one("debian", &["hello"], PathBuf::from("/usr")),
        one("wheel", &["hello"], places::examples_environment()),
        one("openmpi5", &["hello-openmpi5", "pi", "digits"], places::openmpi5_environment()),
        one("mpich", &["hello-mpich"], places::mpich_environment()),
        one("intel", &["hello-intel"], places::intel_environment()),
    ]
}

/// Creates a folder that replaces an image: `bin` with these programs.
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

/// Returns the example with a name and an image of its own; with ssh, changed as in `hello-ssh.yaml`.
fn manifest(home: &Home, implementation: &Implementation, example: &str, ssh: bool) -> (String, String) {
    let path = places::repository("examples").join(format!("{example}.yaml"));
    let read = ["create", "--dry-run=client", "-o", "json", "-f", &path.to_string_lossy()];
    let mut job = home.kubectl(&read).ended(0).json();
    let launch = if ssh { "ssh" } else { "agent" };
    let name = format!("{}-{example}-{launch}", implementation.name);
    job["metadata"]["name"] = json!(name);
    job["metadata"]["annotations"]["training.opendatahub.io/launch"] = json!(launch);
    for role in ["Launcher", "Worker"] {
        let container = &mut job["spec"]["mpiReplicaSpecs"][role]["template"]["spec"]["containers"][0];
        container["image"] = json!(image_name(implementation));
        if ssh {
            let mut variables = container["env"].as_array().cloned().unwrap_or_default();
            variables.push(json!({ "name": "SSH_DIRECTORY", "value": SSH_DIRECTORY }));
            container["env"] = Value::Array(variables);
        }
        if ssh && role == "Worker" {
            container["command"] = json!(["sshd-worker"]);
            container["readinessProbe"] = json!({ "tcpSocket": { "port": 2222 }, "periodSeconds": 1 });
        }
    }
    // Ranks that wait for ever fail the story instead of blocking it.
    job["spec"]["runPolicy"]["activeDeadlineSeconds"] = json!(300);
    if ssh {
        job["spec"]["sshAuthMountPath"] = json!(SSH_DIRECTORY);
    }
    let path = home.write(&format!("{name}.json"), &job.to_string());
    (name, path)
}

pub fn image_name(implementation: &Implementation) -> String {
    format!("example.test/mpi:{}", implementation.name)
}

/// Runs every implementation with its examples.
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
        // Workers that share a machine's ports and have no names cannot be reached through ssh.
        return;
    }
    for implementation in &implementations {
        for example in implementation.examples {
            run(&home, implementation, example, ssh);
        }
    }
}

/// Runs one example. All its ranks were seen, on every Worker.
fn run(home: &Home, implementation: &Implementation, example: &str, ssh: bool) {
    let (name, path) = manifest(home, implementation, example, ssh);
    let answer = home.odh(&["local", "run", &path]).ended(0);
    if home.mode() != "plain" {
        answer.says(&format!("on {name}-worker-0")).says(&format!("on {name}-worker-1"));
    }
    let job = home.odh(&["training", "get", "mpijob", &name, "-o", "json"]).ended(0).json();
    let conditions = job["status"]["conditions"].as_array().expect("the job has conditions");
    let verified = conditions.iter().find(|condition| condition["type"] == "WorldVerified");
    assert_eq!(
        verified.map(|condition| &condition["status"]),
        Some(&json!("True")),
        "{name}: {conditions:#?}"
    );
}

#[test]
fn every_mpi_runs_through_the_launch_agent() {
    run_all("implementations::agent", false);
}

#[test]
fn every_mpi_runs_through_ssh() {
    run_all("implementations::ssh", true);
}

/// In plain mode, Workers share the machine's host name, from which Open MPI 5 concludes which ranks share a node.
#[test]
fn open_mpi_5_trains_in_plain_mode() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let implementations = implementations();
    let openmpi5 = implementations.iter().find(|one| one.name == "openmpi5").expect("it is among them");
    let mapping = format!("{}={}", image_name(openmpi5), image(folder.path(), openmpi5).display());
    let home = Home::with_mode_and("implementations::plain", Mode::Plain, &["--image", &mapping]);
    run(&home, openmpi5, "digits", false);
}
