//! Jobs that really run on a real local cluster with this machine's `mpirun`.

use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::odh::Home;

/// The number of checks of a condition before the test gives up; with the pauses, about 30 s.
const LOOKS: usize = 300;

/// Waits until a condition holds.
#[track_caller]
fn until(what: &str, mut found: impl FnMut() -> bool) {
    for _ in 0..LOOKS {
        if found() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    panic!("never came true: {what}");
}

fn manifest(name: &str, command: &str) -> String {
    let good = include_str!("../manifests/good.yaml");
    good.replace("name: hello", &format!("name: {name}")).replace("[mpirun, hostname]", command)
}

#[test]
fn a_job_runs_and_its_output_is_kept() {
    let home = Home::new();
    let file =
        home.file("hello.yaml", &manifest("hello", "[mpirun, sh, -c, 'echo rank $OMPI_COMM_WORLD_RANK']"));
    let said = home.odh(&["local", "run", &file]).ends(0).prints("rank 0\n").prints("rank 1\n");
    said.prints("mpijob/hello succeeded").says("Workers ready 2/2").says("Launcher running");

    home.odh(&["local", "run", &file]).ends(7).says("--replace");
    home.odh(&["local", "run", &file, "--replace", "-o", "json"]).ends(0).json();

    home.run("training wait mpijob hello").ends(0).prints("succeeded");
    let logs = home.run("training logs mpijob hello").ends(0);
    assert_eq!(logs.out.matches("rank ").count(), 2, "{}", logs.out);
    let followed = home.run("training logs mpijob hello -f").ends(0);
    assert_eq!(followed.out, logs.out);
    let last = home.run("training logs mpijob hello --tail 1").ends(0);
    assert_eq!(last.out.lines().count(), 1, "{}", last.out);
    let lines = home.run("training logs mpijob hello --all -o json").ends(0);
    for line in lines.out.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(line["pod"].as_str().unwrap().starts_with("hello-") && line["time"].is_string(), "{line}");
    }
    home.run("training logs mpijob hello --worker 2").ends(3).says("there is no Worker 2");
    home.run("training list").ends(0).prints("Succeeded");
    home.run("training delete mpijob hello --yes").ends(0);
    home.run("training list").ends(0).says("No training jobs");
}

#[test]
fn a_failed_job_has_an_exit_code_and_a_reason() {
    let home = Home::new();
    let file = home.file("fails.yaml", &manifest("fails", "[sh, -c, 'echo giving up; exit 3']"));
    let file = {
        let text = std::fs::read_to_string(&file).unwrap();
        home.file(
            "fails.yaml",
            &text
                .replace("slotsPerWorker: 1", "slotsPerWorker: 1\n  runPolicy: {backoffLimit: 0}")
                .replace("Launcher:", "Launcher:\n      restartPolicy: Never"),
        )
    };
    home.odh(&["local", "run", &file]).ends(100).prints("giving up").says("exit code 3");
    home.run("training wait mpijob fails").ends(100);
    home.run("training wait mpijob fails --propagate-exit-code").ends(3);
    let said = home.run("training wait mpijob fails -o json").ends(100);
    assert_eq!(said.error()["code"], 100);
    assert_eq!(said.json()["status"]["phase"], "Failed");
    home.run("training describe mpijob fails").ends(0).prints("Exit code").prints("3");
    // The line that is evidence for the cause is marked, for programs and for people.
    home.run("training logs mpijob fails -o json").ends(0).prints(r#""evidence":true,"line":"giving up""#);
    let marked = home.run("--color always training logs mpijob fails").ends(0);
    marked.prints("\u{1b}[1m\u{1b}[4m\u{1b}[31mgiving up\u{1b}[0m");
    assert_eq!(home.run("training logs mpijob fails").ends(0).out, "giving up\n");
}

#[test]
fn an_environment_below_tmp_is_seen_by_pods() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let home = Home::new();
    let programs = home.path().join("env/bin");
    std::fs::create_dir_all(&programs).unwrap();
    std::fs::write(programs.join("greet"), "#!/bin/sh\necho hello\n").unwrap();
    std::fs::set_permissions(programs.join("greet"), std::fs::Permissions::from_mode(0o755)).unwrap();
    // Pods see the environment, and nothing else below the machine's /tmp.
    symlink(home.file("elsewhere", "#!/bin/sh\n"), programs.join("astray")).unwrap();
    let said = home.odh(&["local", "up", "--image", &format!("env={}", home.path().join("env").display())]);
    let said = said.ends(0);
    let isolates = home.odh(&["local", "status", "-o", "json"]).json()["mode"] != "plain";
    assert_eq!(
        said.err.contains("bin/astray links to"),
        isolates && home.path().starts_with("/tmp"),
        "{}",
        said.err
    );
    home.run("training create mpijob greet --image env --in-launcher --wait --timeout 60s -- greet").ends(0);
    assert_eq!(home.run("training logs mpijob greet").ends(0).out, "hello\n");
}

#[test]
fn an_interrupted_run_deletes_its_job() {
    let home = Home::new();
    home.run("local up").ends(0);
    let file = home.file("long.yaml", &manifest("long", "[sleep, '600']"));
    let child =
        home.command(&["local", "run", &file]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("the job runs", || home.run("training list").out.contains("Running"));
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGINT).unwrap();
    let out = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(130), "{said}");
    assert!(said.contains("the job is deleted"), "{said}");
    home.run("training get mpijob long").ends(3);
}

#[test]
fn an_interrupted_create_leaves_its_job() {
    let home = Home::new();
    home.run("local up").ends(0);
    let file = home.file("long.yaml", &manifest("long", "[sleep, '600']"));
    let child = home
        .command(&["training", "create", "-f", &file, "--wait"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    until("the job runs", || home.run("training list").out.contains("Running"));
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGINT).unwrap();
    let out = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(130), "{said}");
    assert!(said.contains("follow it again with"), "{said}");
    home.run("training get mpijob long").ends(0).prints("Running");
    home.run("training delete mpijob long --yes --force").ends(0);
}
