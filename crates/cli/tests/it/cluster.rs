//! Tests against a real local cluster: its lifecycle, and jobs on it.

use std::io::Write;
use std::process::Stdio;

use serde_json::Value;

use crate::odh::Home;

fn pid_of(home: &Home) -> i64 {
    home.run("local status -o json").ends(0).json()["pid"].as_i64().unwrap()
}

fn alive(pid: i64) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.trim().is_empty() && !rest.trim_start().starts_with('Z'))
}

#[test]
fn up_twice_down_twice_and_nothing_is_left() {
    let home = Home::new();
    let up = home.run("local up").ends(0).prints("is up in").prints("export KUBECONFIG=");
    let address = |text: &str| text.lines().last().unwrap_or_default().trim().to_owned();
    assert!(address(&up.out).contains("/signin?ticket="), "{}", up.out);
    let pid = pid_of(&home);
    home.run("local up").ends(0).prints("already up");
    let printed = home.run("local dashboard --print").ends(0);
    let service =
        home.run("local status -o json").ends(0).json()["service"]["url"].as_str().unwrap().to_owned();
    assert!(address(&printed.out).starts_with(&format!("{service}/signin?ticket=")), "{}", printed.out);
    assert_ne!(address(&printed.out), address(&up.out), "each address works once");
    assert_eq!(pid_of(&home), pid);
    home.run("local up --nodes 3").ends(0).says("3 nodes with 0 GPUs each from now on, instead of 1 node");
    home.run("local up --mode plain --port 1").ends(0).says("until it is stopped");
    let kubeconfig = home.run("local kubeconfig").ends(0);
    assert!(kubeconfig.out.contains("certificate-authority-data"));
    assert!(kubeconfig.out.contains("name: training.opendatahub.io/service"), "{}", kubeconfig.out);
    assert!(kubeconfig.out.contains(&service), "the service's clients find it: {}", kubeconfig.out);
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: std::path::PathBuf| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(home.state()), 0o700);
    assert_eq!(mode(home.state().join("kubeconfig")), 0o600);
    home.run("local down").ends(0).prints("is down");
    assert!(!alive(pid));
    home.run("local dashboard").ends(3).says("not up");
    home.run("local down --purge").ends(0).prints("not up");
    assert!(!home.state().exists());
}

#[test]
fn a_running_cluster_names_the_options_that_it_does_not_adopt_and_the_next_one_remembers_webhooks() {
    let home = Home::new();
    home.run("local up").ends(0);
    let late = home.run("local up --local-webhooks --node-grace 5s").ends(0);
    late.says("does not adopt --node-grace, --local-webhooks").says("odh local down");
    let put = "training notifications put own --phase Failed --url http://127.0.0.1:9/hook";
    home.run(put).ends(5).says("started with --local-webhooks");
    home.run("local down").ends(0);
    home.run("local up").ends(0).says("as the last time, with --local-webhooks");
    home.run(put).ends(0);
    let again = home.run("local up --local-webhooks").ends(0);
    assert!(!again.err.contains("does not adopt"), "{}", again.err);
}

#[test]
fn a_killed_cluster_is_no_obstacle() {
    let home = Home::new();
    home.run("local up").ends(0);
    let pid = pid_of(&home);
    let killed = std::process::Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap();
    assert!(killed.success());
    while alive(pid) {
        std::thread::yield_now();
    }
    home.run("local status").ends(3).prints("not up");
    home.run("local up").ends(0).prints("is up in");
    assert_ne!(pid_of(&home), pid);
}

#[test]
fn a_taken_port_is_named() {
    let home = Home::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    home.odh(&["local", "up", "--port", &port.to_string()]).ends(7).says(&format!("port {port} is in use"));
    home.run("local status").ends(3);
}

#[test]
fn a_home_that_cannot_be_used_is_named() {
    let home = Home::new();
    let file = home.file("file", "");
    let out = home.command(&["local", "up"]).env("ODH_HOME", &file).output().unwrap();
    assert_eq!(out.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&out.stderr).contains("is not a directory"));
}

#[test]
fn two_ups_at_once_make_one_cluster() {
    let home = Home::new();
    let start =
        || home.command(&["local", "up"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let both = [start(), start(), start()].map(|child| child.wait_with_output().unwrap());
    for out in &both {
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    }
    let new = both.iter().filter(|out| String::from_utf8_lossy(&out.stdout).contains("is up in")).count();
    assert_eq!(new, 1);
}

#[test]
fn jobs_are_created_found_and_deleted() {
    let home = Home::new();
    let good = home.file("good.yaml", include_str!("../manifests/good.yaml"));
    let faults = home.file("faults.yaml", include_str!("../manifests/faults.yaml"));
    home.run("local up").ends(0);

    // All faults are reported and nothing is created, not even the job without a fault.
    let said = home.odh(&["training", "create", "-f", &good, "-f", &faults, "-o", "json"]).ends(5);
    assert!(said.error()["faults"].as_array().unwrap().len() >= 6, "{}", said.err);
    assert_eq!(home.run("training list -o json").ends(0).json()["items"], Value::Array(vec![]));

    let dry = home.odh(&["training", "create", "-f", &good, "--dry-run=server", "-o", "json"]).ends(0);
    assert_eq!(dry.json()["metadata"]["name"], "hello");
    home.run("training get mpijob hello").ends(3).says("not found");

    home.odh(&["training", "create", "-f", &good]).ends(0).prints("mpijob/hello created");
    home.odh(&["training", "create", "-f", &good]).ends(7).says("already exists");
    let clash = home.odh(&["training", "create", "-f", &good, "-o", "json"]).ends(7);
    assert_eq!(clash.error()["reason"], "AlreadyExists");
    assert_eq!(clash.out, "");

    home.run("training get mpijob helo").ends(3).says("did you mean \"hello\"?");
    home.run("training get mpijob/hello -o name").ends(0).prints("mpijob/hello\n");
    assert_eq!(home.run("training get mpijob hello -o json").ends(0).json()["kind"], "MPIJob");
    home.run("training list").ends(0).prints("NAME").prints("hello");
    home.run("training list -A -o wide").ends(0).prints("NAMESPACE").prints("OpenMPI");
    home.run("training list -l a=b").ends(0).says("No matching training jobs");
    home.run("training describe mpijob hello").ends(0).prints("hello-worker-1").prints("MPIJobCreated");
    assert_eq!(home.run("training describe mpijob hello -o json").ends(0).json()["kind"], "List");
    home.run("training create mpijob x --image i -n nowhere -- a")
        .ends(3)
        .says("namespace \"nowhere\" not found");

    home.run("training delete mpijob hello").ends(2).says("--yes");
    home.run("training delete mpijob helo hello --yes")
        .ends(3)
        .prints("mpijob/hello deleted")
        .says("MPIJob \"helo\" not found");
    home.run("training delete mpijob hello --yes").ends(3);
    home.run("training list -o name").ends(0);
    home.run("training wait mpijob hello").ends(3);
}

#[test]
fn standard_input_is_a_file_too() {
    let home = Home::new();
    home.run("local up").ends(0);
    let mut child = home
        .command(&["training", "create", "-f", "-", "-o", "name"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(include_bytes!("../manifests/good.yaml")).unwrap();
    let out = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&out.stdout), "mpijob/hello\n");
}

#[test]
fn a_job_that_is_deleted_ends_the_wait() {
    let home = Home::new();
    home.run("local up").ends(0);
    home.run("training create mpijob held --image local --workers 1 --suspend -- hostname").ends(0);
    let said = home.run("training wait mpijob held --timeout 1s -o json").ends(8);
    assert_eq!(said.error()["reason"], "StillRunning");
    let waiting = home
        .command(&["training", "wait", "mpijob", "held"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    home.run("training delete mpijob held --yes").ends(0);
    let out = waiting.wait_with_output().unwrap();
    let code = out.status.code();
    // The wait may have started after the deletion; then the job does not exist.
    assert!(matches!(code, Some(103 | 3)), "{code:?}: {}", String::from_utf8_lossy(&out.stderr));
}

#[test]
fn nodes_are_listed_lose_their_power_and_get_it_back() {
    let home = Home::new();
    home.run("local node list").ends(3).says("not up").says("odh local up");
    home.run("local up --node-grace 10ms").ends(2).says("at least 1s");
    home.run("local up --nodes 2 --gpus 4 --node-grace 1s").ends(0);
    home.run("local node list").ends(0).prints("node-1   Ready").prints("0/4");
    home.run("local node down node-7").ends(3).says("node \"node-7\" not found").says("node-0, node-1");
    home.run("local node down node-1").ends(0).prints("node/node-1 is down; its processes were killed");
    home.run("local node down node-1").ends(0).prints("is already down");
    home.run("local node drain node-1").ends(7).says("odh local node up node-1");
    home.run("local node list").ends(0).prints("Down");
    home.run("local node up node-1").ends(0).prints("is up and schedulable");
    home.run("local node up node-1").ends(0).prints("is already up");
    home.run("local node drain node-0 --timeout 20s").ends(0).prints("node/node-0 drained");
    let nodes = home.run("local node list -o json").ends(0).json();
    assert_eq!(nodes[0]["status"], "Ready,SchedulingDisabled");
    home.run("local down").ends(0);
}
