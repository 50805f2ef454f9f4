//! An administrator deletes a running job and finds nothing left of it on the machine.
//!
//! Proves: FR-RES-004.

use std::time::Duration;

use stories::{Home, Leftovers, within};

#[test]
fn deleting_a_running_job_of_32_workers_leaves_nothing() {
    let home = Home::with_cluster("clean_up::32_workers");
    let name = format!("gone-{}", std::process::id());
    let status = home.odh(&["local", "status", "-o", "json"]).ended(0).json();
    let cluster = status["pid"].as_i64().expect("the status names the process");
    let before = Leftovers::look(&name);
    let network_before = network_below(cluster);
    home.odh(&[
        "training",
        "create",
        "mpijob",
        "--name",
        &name,
        "--workers",
        "32",
        "--image",
        stories::EXAMPLES_IMAGE,
        "--",
        "mpirun",
        "sh",
        "-c",
        "echo started on $(hostname); exec sleep 3600",
    ])
    .ended(0);
    within(Duration::from_secs(60), "all ranks started", || {
        let logs = home.odh(&["training", "logs", "mpijob", &name]);
        (logs.stdout.matches("started on").count() == 32).then_some(())
    });
    assert!(Leftovers::look(&name).processes.len() >= 32 * 2, "the story looks for what it would not find");
    home.odh(&["training", "delete", "mpijob", &name, "--yes"]).ended(0);
    within(Duration::from_secs(30), "nothing of the job is left", || {
        (Leftovers::look(&name) == before).then_some(())
    });
    within(Duration::from_secs(30), "no interface is left", || {
        (network_below(cluster) == network_before).then_some(())
    });
    for kind in ["pods", "jobs", "services", "configmaps", "secrets"] {
        let left = home.kubectl(&["get", kind, "-o", "name"]).ended(0).stdout;
        assert!(!left.contains(&name), "{left}");
    }
    let left = paths_below(&home.state()).into_iter().filter(|path| path.contains(&name)).collect::<Vec<_>>();
    assert!(left.is_empty(), "files of the job are left: {left:#?}");
}

fn paths_below(folder: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    entries
        .flat_map(|entry| {
            let below = if entry.path().is_dir() { paths_below(&entry.path()) } else { Vec::new() };
            [vec![entry.path().display().to_string()], below].concat()
        })
        .collect()
}

/// Returns the interfaces in the networks of the cluster's helper processes, where each pod has one.
fn network_below(cluster: i64) -> Vec<String> {
    let mut interfaces: Vec<String> = descendants(cluster)
        .into_iter()
        .map(|pid| std::fs::read_to_string(format!("/proc/{pid}/net/dev")).unwrap_or_default())
        .flat_map(|text| {
            text.lines()
                .filter_map(|line| line.split_once(':'))
                .map(|(name, _)| name.trim().to_owned())
                .collect::<Vec<_>>()
        })
        .collect();
    interfaces.sort();
    interfaces.dedup();
    interfaces
}

/// Returns the descendants of a process, by their pids on this machine.
fn descendants(pid: i64) -> Vec<i64> {
    let children = std::fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .filter_map(Result::ok)
        .map(|task| std::fs::read_to_string(task.path().join("children")).unwrap_or_default())
        .flat_map(|text| text.split_whitespace().filter_map(|word| word.parse().ok()).collect::<Vec<i64>>());
    children.flat_map(|child| [vec![child], descendants(child)].concat()).collect()
}

#[test]
fn ending_the_cluster_ends_what_it_ran() {
    let home = Home::with_cluster("clean_up::down");
    let name = format!("ended-{}", std::process::id());
    run_a_long_job(&home, &name);
    home.odh(&["local", "down"]).ended(0);
    within(Duration::from_secs(10), "no process is left", || {
        Leftovers::look(&name).processes.is_empty().then_some(())
    });
    home.odh(&["local", "down", "--purge"]).ended(0);
    assert!(!home.state().exists(), "purging leaves {}", home.state().display());
}

#[test]
fn killing_the_cluster_ends_what_it_ran() {
    let home = Home::with_cluster("clean_up::killed");
    let name = format!("killed-{}", std::process::id());
    run_a_long_job(&home, &name);
    let status = home.odh(&["local", "status", "-o", "json"]).ended(0).json();
    let pid =
        status["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok()).expect("the status names the process");
    stories::kill_process(pid);
    within(Duration::from_secs(10), "no process is left", || {
        Leftovers::look(&name).processes.is_empty().then_some(())
    });
    home.up(&[]);
}

/// Starts a job that would run for an hour, and waits until its processes run.
fn run_a_long_job(home: &Home, name: &str) {
    let image = stories::EXAMPLES_IMAGE;
    let job = ["--name", name, "--workers", "2", "--image", image, "--", "mpirun", "sleep", "3600"];
    home.odh(&[&["training", "create", "mpijob"], &job[..]].concat()).ended(0);
    within(Duration::from_secs(30), "the job runs", || {
        let job = home.odh(&["training", "get", "mpijob", name, "-o", "json"]).json();
        (job["status"]["phase"] == "Running").then_some(())
    });
    assert!(!Leftovers::look(name).processes.is_empty());
}
