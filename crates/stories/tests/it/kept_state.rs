//! The cluster is stopped, or killed at any moment, and restarted: everything that it acknowledged is there,
//! finished jobs can still be read, running ones are reported lost, and new ones run.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::Duration;

use stories::{Home, kill_process, within};

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

fn kill_the_cluster(home: &Home) {
    let status = home.odh(&["local", "status", "-o", "json"]).ended(0).json();
    let pid =
        status["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok()).expect("the status names the process");
    kill_process(pid);
    stories::eventually("the killed process is gone", || {
        home.odh(&["local", "status", "-o", "json"]).code != 0
    });
}
