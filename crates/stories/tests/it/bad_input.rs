//! People make mistakes and machines run out of resources: the result is a clear message, the right exit code, and
//! no leftovers.

use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use stories::{EXAMPLES_IMAGE, Home, places, within};

fn hello() -> String {
    std::fs::read_to_string(places::repository("examples/hello.yaml")).expect("the example can be read")
}

#[test]
fn broken_yaml_is_shown_with_line_and_column() {
    let home = Home::with_cluster("bad_input::yaml");
    let broken =
        home.write("broken.yaml", "apiVersion: kubeflow.org/v2beta1\nkind: MPIJob\nmetadata: {name: [\n");
    let answer = home.odh(&["training", "create", "-f", &broken]).ended(5);
    assert!(
        answer.stderr.contains("broken.yaml:4:") || answer.stderr.contains("broken.yaml:3:"),
        "{}",
        answer.stderr
    );
    nothing_created(&home);
}

#[test]
fn every_fault_is_reported_at_once_and_nothing_is_created() {
    let home = Home::with_cluster("bad_input::faults");
    let text = hello()
        .replace("slotsPerWorker", "slotsPerWorkr")
        .replace("replicas: 2", "replicas: -1")
        .replace("name: hello\n", "name: Hello_World\n");
    let path = home.write("faults.yaml", &text);
    home.odh(&["training", "create", "-f", &path])
        .ended(5)
        .says("slotsPerWorkr")
        .says("slotsPerWorker")
        .says("replicas")
        .says("metadata.name");
    nothing_created(&home);
}

fn nothing_created(home: &Home) {
    let list = home.odh(&["training", "list", "mpijob", "-o", "json"]).ended(0).json();
    assert_eq!(list["items"].as_array().map(Vec::len), Some(0));
}

#[test]
fn a_job_larger_than_the_machine_is_pending_and_says_why() {
    let home = Home::with_cluster("bad_input::too_large");
    home.odh(&[
        "training",
        "create",
        "mpijob",
        "--name",
        "large",
        "--workers",
        "2",
        "--gpus",
        "8",
        "--image",
        EXAMPLES_IMAGE,
        "--",
        "mpirun",
        "hostname",
    ])
    .ended(0);
    within(Duration::from_secs(20), "describe says why it waits", || {
        let answer = home.odh(&["training", "describe", "mpijob", "large"]).ended(0);
        (answer.stdout.contains("Pending") && answer.stdout.contains("Insufficient nvidia.com/gpu"))
            .then_some(())
    });
    home.odh(&["training", "wait", "mpijob", "large", "--timeout", "1s"]).ended(8);
    home.odh(&["training", "delete", "mpijob", "large", "--yes"]).ended(0);
}

#[test]
fn a_second_up_and_a_taken_port_are_explained() {
    let home = Home::with_cluster("bad_input::second_up");
    home.up(&[]).says("already");
    let status = home.odh(&["local", "status", "-o", "json"]).ended(0).json();
    let address = status["address"].as_str().expect("the status names the address");
    let port = address.rsplit(':').next().expect("the address has a port");
    let other = Home::new();
    other.odh(&["local", "up", "--port", port]).ended(7).says(port).says("--port");
    other.odh(&["local", "status"]).ended(3);
}

#[test]
fn without_a_cluster_the_error_says_what_to_do() {
    let home = Home::new();
    home.odh(&["training", "list", "mpijob"]).ended(1).says("odh local up");
    home.odh(&["training", "create", "-f", "no-such-file.yaml"]).ended(3).says("no-such-file.yaml");
    home.odh(&["training", "created"]).ended(2);
}

#[test]
fn interrupting_a_run_deletes_its_job() {
    let home = Home::with_cluster("bad_input::interrupt");
    let long = home.write("long.yaml", &hello().replace("hostname", "sleep 3600; hostname"));
    let child = home
        .odh_command(&["local", "run", &long])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("odh starts");
    within(Duration::from_secs(30), "the job is there", || {
        let answer = home.odh(&["training", "get", "mpijob", "hello", "-o", "json"]);
        (answer.code == 0).then_some(())
    });
    let pid = i32::try_from(child.id()).expect("a process id fits");
    kill(Pid::from_raw(pid), Signal::SIGINT).expect("odh can be interrupted");
    let output = child.wait_with_output().expect("odh ends");
    assert_eq!(output.status.code(), Some(130));
    within(Duration::from_secs(20), "the job is gone", || {
        (home.odh(&["training", "get", "mpijob", "hello"]).code == 3).then_some(())
    });
}

#[test]
fn a_full_disk_is_reported() {
    // A file system of 64 KiB can be mounted in a user namespace, or by root; elsewhere /dev/full replaces it.
    let home = Home::new();
    let odh = places::odh();
    let script = format!(
        "mount -t tmpfs -o size=64k tmpfs {0} && ODH_HOME={0}/odh exec {1} local up --foreground",
        home.path().display(),
        odh.display()
    );
    let mut command = Command::new("unshare");
    if !stories::permits_root() {
        command.args(["--user", "--map-root-user"]);
    }
    let output = command
        .args(["--mount", "sh", "-c", &script])
        .stdin(Stdio::null())
        .output()
        .expect("unshare can be started");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("is full"), "{said}");
}
#[test]
fn a_launcher_program_that_is_missing_is_named() {
    let home = Home::with_cluster("bad_input::no_mpirun");
    let answer = home.odh(&[
        "training",
        "create",
        "mpijob",
        "--name",
        "missing",
        "--workers",
        "1",
        "--image",
        EXAMPLES_IMAGE,
        "--wait",
        "--timeout",
        "60s",
        "--",
        "mpirun-that-is-not-there",
        "hostname",
    ]);
    answer.ended(100).says("mpirun-that-is-not-there").says("ExecutableNotFound");
}

#[test]
fn without_mpirun_the_error_names_its_package() {
    let home = Home::new();
    // A machine that has a shell and little else.
    let programs = home.path().join("programs");
    std::fs::create_dir(&programs).expect("a folder can be made");
    for program in ["sh", "env", "cat"] {
        let place = ["/usr/bin", "/bin"].map(|folder| std::path::Path::new(folder).join(program));
        let place = place.iter().find(|place| place.exists()).expect("every machine has it");
        std::os::unix::fs::symlink(place, programs.join(program)).expect("a link can be made");
    }
    let up = home.odh_command(&["local", "up"]).env("PATH", &programs).output().expect("odh starts");
    assert!(up.status.success(), "{}", String::from_utf8_lossy(&up.stderr));
    stories::record("bad_input::no_mpirun_at_all", &home.mode(), false);
    let words = [
        "training",
        "create",
        "mpijob",
        "--name",
        "bare",
        "--workers",
        "1",
        "--image",
        "bare",
        "--wait",
        "--timeout",
        "60s",
        "--",
        "hostname",
    ];
    let created = home.odh_command(&words).env("PATH", &programs).output().expect("odh starts");
    let said = String::from_utf8_lossy(&created.stderr).into_owned();
    assert_eq!(created.status.code(), Some(100), "{said}");
    assert!(said.contains("apt-get install openmpi-bin"), "{said}");
    home.odh(&["training", "describe", "mpijob", "bare"]).ended(0).says("ExecutableNotFound").says("mpirun");
}
