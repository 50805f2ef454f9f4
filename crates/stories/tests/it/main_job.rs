//! A data scientist runs a real training on four Workers, in each mode that the machine permits.
//!
//! Proves: FR-002, FR-003, FR-004, FR-005, FR-INT-007.

use stories::{Home, Mode, permits_root, permits_rootless, places};

/// Runs `examples/digits.yaml` and checks its output.
fn train(home: &Home) -> String {
    let manifest = places::repository("examples/digits.yaml");
    let answer = home.odh(&["local", "run", &manifest.to_string_lossy()]).ended(0);
    let accuracy = last_accuracy(&answer.stdout);
    assert!(answer.stdout.contains("model saved to"), "{}", answer.stdout);
    assert!(accuracy > 0.95, "the model learned little (accuracy {accuracy}):\n{}", answer.stdout);
    answer.stdout
}

fn last_accuracy(printed: &str) -> f64 {
    let after = printed
        .lines()
        .rev()
        .find_map(|line| line.rsplit_once("accuracy"))
        .expect("an accuracy is printed")
        .1;
    let figure =
        after.trim_start_matches([' ', ':', '=']).split_whitespace().next().expect("a figure follows");
    figure.parse().expect("the figure is a number")
}

fn hosts(printed: &str) -> Vec<String> {
    let mut hosts: Vec<String> = printed
        .lines()
        .filter_map(|line| line.split_once("rank ")?.1.split_once(" on "))
        .filter_map(|(_, host)| host.split_whitespace().next())
        .map(str::to_owned)
        .collect();
    hosts.sort();
    hosts.dedup();
    hosts
}

const FOUR: [&str; 4] = ["digits-worker-0", "digits-worker-1", "digits-worker-2", "digits-worker-3"];

#[test]
fn trains_in_the_default_mode() {
    let home = Home::with_cluster("main_job::chosen_mode");
    assert_eq!(hosts(&train(&home)), FOUR);
    let shown = home.kubectl(&["get", "mpijob", "digits", "-o", "yaml"]).ended(0);
    shown.says("trainerStatus:").says("progressPercentage: 100").says("name: accuracy");
    home.odh(&["training", "describe", "digits"]).ended(0).says("100 %, accuracy 0.9");
}

#[test]
fn trains_rootless() {
    if !permits_rootless() {
        stories::record("main_job::rootless", "not permitted here", true);
        return;
    }
    let home = Home::with_mode("main_job::rootless", Mode::Rootless);
    assert_eq!(hosts(&train(&home)), FOUR);
}

#[test]
fn trains_as_root() {
    if !permits_root() {
        stories::record("main_job::root", "not permitted here", true);
        return;
    }
    let home = Home::with_mode("main_job::root", Mode::Root);
    assert_eq!(hosts(&train(&home)), FOUR);
}

#[test]
fn trains_as_plain_processes_and_says_what_does_not_hold() {
    let home = Home::with_mode("main_job::plain", Mode::Plain);
    // Pods have no host names of their own here; the program prints the pods' names.
    assert_eq!(hosts(&train(&home)), FOUR);
    home.odh(&["local", "status"]).ended(0).says("plain");
    home.odh(&["training", "describe", "mpijob", "digits"]).ended(0).says("plain");
}
