//! A Worker dies under a running job: the job is Failed within 30 s and says which Worker and with which exit code.
//!
//! Proves: SC-005.

use std::time::{Duration, Instant};

use stories::{Home, Job, first_process_of, kill_process, within};

#[test]
fn is_named_with_its_exit_code_within_thirty_seconds() {
    let home = Home::with_cluster("worker_lost::killed");
    // Retries of the Launcher do not delay the end.
    let mut long = Job::shell("long", "echo started on $(hostname); exec sleep 3600");
    (long.run_policy, long.restart_policy) = ("{}", "OnFailure");
    let manifest = home.write("long.yaml", &long.manifest());
    home.odh(&["training", "create", "-f", &manifest]).ended(0);
    within(Duration::from_secs(30), "both ranks started", || {
        let logs = home.odh(&["training", "logs", "mpijob", "long"]);
        (logs.stdout.matches("started on").count() == 2).then_some(())
    });
    kill_process(first_process_of("long-worker-1").expect("its agent runs"));
    let killed = Instant::now();
    within(Duration::from_secs(30), "the job is Failed", || {
        let job = home.odh(&["training", "get", "mpijob", "long", "-o", "json"]).json();
        (job["status"]["phase"] == "Failed").then_some(())
    });
    assert!(killed.elapsed() < Duration::from_secs(30));
    crate::failures::fails(&home, "long", "WorkerLost", Some(1), "exit code 137");
    home.odh(&["training", "describe", "mpijob", "long"]).ended(0).says("long-worker-1").says("137");
    // The Workers that did not fail are released; the one that failed stays readable.
    stories::eventually("the other Worker is gone", || {
        !home.kubectl(&["get", "pods", "-o", "name"]).stdout.contains("long-worker-0")
    });
    home.odh(&["training", "logs", "mpijob", "long", "--worker", "1"]).ended(0);
}
