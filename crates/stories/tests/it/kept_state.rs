//! The cluster is stopped, or killed at any moment, and restarted: everything that it acknowledged is there,
//! finished jobs can still be read, running ones are reported lost, and new ones run.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::Duration;

use stories::{EXAMPLES_IMAGE, Home, Job, kill_process, places, within};

/// After how many acknowledged writes the cluster is killed.
const CUTS: [usize; 4] = [1, 9, 60, 140];
/// The number of objects that are being written when it is killed.
const OBJECTS: usize = 200;

#[test]
fn what_was_acknowledged_survives_a_kill_at_any_moment() {
    let home = Home::with_cluster("kept_state::killed");
    for cut in CUTS {
        let mut text = String::new();
        for number in 0..OBJECTS {
            let _ = write!(
                text,
                "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: cut-{cut}-{number}}}\ndata: {{number: '{number}'}}\n"
            );
        }
        let manifest = home.write("many.yaml", &text);
        let mut writer = home
            .kubectl_command(&["create", "-f", &manifest, "-o", "name"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("kubectl can be started");
        let mut lines = BufReader::new(writer.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
        let mut acknowledged: Vec<String> = lines.by_ref().take(cut).collect();
        kill_the_cluster(&home);
        acknowledged.extend(lines);
        let _ = writer.wait();
        assert!(acknowledged.len() >= cut, "{acknowledged:?}");
        assert!(acknowledged.len() < OBJECTS, "the cluster was killed too late to prove anything");

        home.up(&[]);
        let found = home.kubectl(&["get", "configmaps", "-o", "name"]).ended(0).stdout;
        let lost: Vec<&String> =
            acknowledged.iter().filter(|name| !found.lines().any(|line| line == name.as_str())).collect();
        assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
    }
}

#[test]
fn a_finished_job_stays_readable_and_a_running_one_is_reported_lost() {
    let home = Home::with_cluster("kept_state::jobs");
    let create = |name: &str, script: &str| {
        let words = ["--image", stories::EXAMPLES_IMAGE, "--", "mpirun", "sh", "-c", script];
        let all = [&["training", "create", "mpijob", "--name", name, "--workers", "2"], &words[..]].concat();
        home.odh(&all).ended(0);
    };
    create("done", "echo finished on $(hostname)");
    home.odh(&["training", "wait", "mpijob", "done", "--timeout", "60s"]).ended(0);
    for (round, killed) in [false, true].into_iter().enumerate() {
        let long = format!("long-{round}");
        create(&long, "echo started on $(hostname); exec sleep 3600");
        within(Duration::from_secs(30), "both ranks started", || {
            let logs = home.odh(&["training", "logs", "mpijob", &long]);
            (logs.stdout.matches("started on").count() == 2).then_some(())
        });
        // The job's status follows what its ranks print.
        within(Duration::from_secs(30), "the job runs", || {
            let shown = home.odh(&["training", "get", "mpijob", &long, "-o", "json"]).json();
            (shown["status"]["phase"] == "Running").then_some(())
        });
        if killed {
            kill_the_cluster(&home);
        } else {
            home.odh(&["local", "down"])
                .ended(0)
                .says(&format!("a job is running and fails with its cluster: default/{long}"));
        }
        home.up(&[]);
        home.odh(&["training", "wait", "mpijob", &long, "--timeout", "60s"]).ended(100);
        home.odh(&["training", "describe", "mpijob", &long]).ended(0).says("WorkerLost");
        let done = home.odh(&["training", "get", "mpijob", "done", "-o", "json"]).ended(0).json();
        assert_eq!(done["status"]["phase"], "Succeeded");
        let logs = home.odh(&["training", "logs", "mpijob", "done"]).ended(0).stdout;
        assert_eq!(logs.matches("finished on").count(), 2, "{logs}");
    }
    create("next", "true");
    home.odh(&["training", "wait", "mpijob", "next", "--timeout", "60s"]).ended(0);
}

#[test]
fn a_cluster_that_was_moved_has_the_data_of_its_claims() {
    let home = Home::new();
    let first = home.path().join("first");
    let config = first.join("kubeconfig").display().to_string();
    let there = |words: &[&str]| {
        let done = home.odh_command(words).env("ODH_HOME", &first).status().expect("odh can be started");
        assert!(done.success(), "odh {words:?}");
    };
    let job = |name: &'static str, line: &str| {
        let mut job = Job::shell(name, line);
        job.worker = "volumeMounts: [{name: data, mountPath: /data}]".to_owned();
        job.worker_pod = "volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]".to_owned();
        job.manifest()
    };
    let claim = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\nspec: {accessModes: [ReadWriteMany], resources: {requests: {storage: 1Mi}}}\n";
    let image = format!("{EXAMPLES_IMAGE}={}", places::examples_environment().display());
    there(&["local", "up", "--image", &image]);
    let file = home.write("writes.yaml", &format!("{claim}---\n{}", job("writes", "echo kept >/data/file")));
    there(&["training", "apply", "-f", &file, "--kubeconfig", &config]);
    there(&["training", "wait", "writes", "--timeout", "120s", "--kubeconfig", &config]);
    there(&["local", "down"]);
    std::fs::rename(&first, home.state()).expect("a folder can be renamed");

    home.up(&[]);
    home.odh(&["training", "get", "mpijob", "writes"]).ended(0);
    let file = home.write("reads.yaml", &job("reads", "cat /data/file"));
    home.odh(&["training", "create", "-f", &file]).ended(0);
    home.odh(&["training", "wait", "reads", "--timeout", "120s"]).ended(0);
    home.odh(&["training", "logs", "reads"]).ended(0).says("kept");
    let volumes = home.state().join("cluster").join("volumes");
    let count = || std::fs::read_dir(&volumes).expect("the folder can be read").count();
    assert_eq!(count(), 1);
    home.kubectl(&["delete", "mpijobs", "--all"]).ended(0);
    home.kubectl(&["delete", "persistentvolumeclaim", "data", "--timeout", "60s"]).ended(0);
    stories::eventually("the volume's directory goes with its claim", || count() == 0);
}

#[test]
fn an_older_odh_refuses_the_store_of_a_newer_one() {
    let home = Home::new();
    home.up(&[]);
    home.odh(&["local", "down"]).ended(0);
    let file = home.state().join("service").join("history.db").display().to_string();
    let set = |version: &str| {
        let program = "import sqlite3, sys\n\
            with sqlite3.connect(sys.argv[1]) as db:\n\
            \x20   before = db.execute('SELECT version FROM schema_version').fetchone()[0]\n\
            \x20   db.execute('UPDATE schema_version SET version = ' + sys.argv[2])\n\
            print(before)";
        home.script("python3 -c \"$1\" \"$2\" \"$3\"", &[program, &file, version]).ended(0).stdout
    };
    let before = set("999");
    let refused = home.odh(&["local", "up"]).ended(1);
    assert!(!refused.stdout.contains("is up"), "{}", refused.stdout);
    refused
        .says(&format!("the store {file} has schema version 999; this release knows up to {}", before.trim()))
        .says("upgrade odh to the release that wrote it, or use another ODH_HOME");
    assert_ne!(home.odh(&["local", "status", "-o", "json"]).code, 0, "no cluster is left running");
    assert_eq!(set(before.trim()).trim(), "999", "the store is as the newer release left it");
    home.up(&[]);
}

fn kill_the_cluster(home: &Home) {
    let status = home.odh(&["local", "status", "-o", "json"]).ended(0).json();
    let pid =
        status["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok()).expect("the status names the process");
    kill_process(pid);
    stories::eventually("the killed process is gone", || {
        home.odh(&["local", "status", "-o", "json"]).code != 0
    });
}
