//! A Worker dies under a running job: the job is Failed within 30 s and says which Worker and with which exit code.
//!
//! Proves: SC-005.

use std::time::{Duration, Instant};

use stories::{Home, kill_process, within};

/// Two Workers that would run for an hour.
const LONG: &str = r#"
apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata:
  name: long
spec:
  mpiReplicaSpecs:
    Launcher:
      template:
        spec:
          containers:
          - name: mpi
            image: quay.io/opendatahub/mpi-examples:openmpi
            command: [mpirun, sh, -c, "echo started on $(hostname); exec sleep 3600"]
    Worker:
      replicas: 2
      template:
        spec:
          containers:
          - name: mpi
            image: quay.io/opendatahub/mpi-examples:openmpi
"#;

#[test]
fn is_named_with_its_exit_code_within_thirty_seconds() {
    let home = Home::with_cluster("worker_lost::killed");
    let manifest = home.write("long.yaml", LONG);
    home.odh(&["training", "create", "-f", &manifest]).ended(0);
    within(Duration::from_secs(30), "both ranks started", || {
        let logs = home.odh(&["training", "logs", "mpijob", "long"]);
        (logs.stdout.matches("started on").count() == 2).then_some(())
    });
    kill_process(first_process_of("long-worker-1"));
    let killed = Instant::now();
    within(Duration::from_secs(30), "the job is Failed", || {
        let job = home.odh(&["training", "get", "mpijob", "long", "-o", "json"]).json();
        (job["status"]["phase"] == "Failed").then_some(())
    });
    assert!(killed.elapsed() < Duration::from_secs(30));
    home.odh(&["training", "describe", "mpijob", "long"]).ended(0).says("long-worker-1").says("137");
    // What did not fail is given back; what failed stays readable.
    stories::eventually("the other Worker is gone", || {
        !home.kubectl(&["get", "pods", "-o", "name"]).stdout.contains("long-worker-0")
    });
    home.odh(&["training", "logs", "mpijob", "long", "--worker", "1"]).ended(0);
}

/// The launch agent of a Worker, which is its container's first process, as this machine numbers it.
fn first_process_of(pod: &str) -> i32 {
    let entries = std::fs::read_dir("/proc").expect("/proc can be read").filter_map(Result::ok);
    let mut found: Vec<i32> = entries
        .filter_map(|entry| entry.file_name().to_string_lossy().parse().ok())
        .filter(|pid: &i32| {
            let read = |file: &str| std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            let arguments = String::from_utf8_lossy(&read("cmdline")).replace('\0', " ");
            let environment = String::from_utf8_lossy(&read("environ")).replace('\0', "\n");
            arguments.contains("odh-launch serve")
                && environment.lines().any(|line| line == format!("HOSTNAME={pod}"))
        })
        .collect();
    found.sort_unstable();
    *found.first().unwrap_or_else(|| panic!("no launch agent runs in {pod}"))
}
