//! A hundred Workers, one rank each. Proves: FR-003, NFR on scale.

use stories::{EXAMPLES_IMAGE, Home};

#[test]
fn a_job_of_100_workers_succeeds() {
    let home = Home::with_cluster("many_workers::100");
    home.odh(&[
        "training",
        "create",
        "mpijob",
        "--name",
        "hundred",
        "--workers",
        "100",
        "--cpu",
        "10m",
        "--memory",
        "64Mi",
        "--image",
        EXAMPLES_IMAGE,
        "--wait",
        "--timeout",
        "5m",
        "--",
        "mpirun",
        "hostname",
    ])
    .ended(0);
    let logs = home.odh(&["training", "logs", "mpijob", "hundred"]).ended(0).stdout;
    if home.mode() != "plain" {
        for worker in 0..100 {
            assert!(
                logs.lines().any(|line| line.ends_with(&format!("hundred-worker-{worker}"))),
                "no rank on {worker}:\n{logs}"
            );
        }
    }
}
