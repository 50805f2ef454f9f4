//! An engineer who knows kubectl uses it on the embedded cluster, and it behaves as on any cluster.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Duration;

use stories::{Home, places, within};

#[test]
fn applies_watches_describes_reads_logs_and_deletes_the_examples() {
    let home = Home::with_cluster("kubectl::examples");
    let manifest = places::repository("examples/hello.yaml");
    home.kubectl(&["version"]).ended(0).says("Server Version");
    home.kubectl(&["apply", "-f", &manifest.to_string_lossy()])
        .ended(0)
        .says("mpijob.kubeflow.org/hello created");
    home.kubectl(&["wait", "--for=create", "job/hello-launcher", "--timeout=60s"]).ended(0);
    home.kubectl(&["wait", "--for=condition=Succeeded", "mpijob/hello", "--timeout=60s"]).ended(0);
    home.kubectl(&["describe", "pod", "-l", "training.kubeflow.org/job-role=launcher"])
        .ended(0)
        .says("training.kubeflow.org/job-name=hello");
    home.kubectl(&["get", "mpijobs"]).ended(0).says("STATE").says("Succeeded").says("AGE");
    home.kubectl(&["get", "pods", "-o", "wide"])
        .ended(0)
        .says("hello-launcher")
        .says("Completed")
        .says("node-0");
    home.kubectl(&["describe", "mpijob", "hello"]).ended(0).says("MPIJobSucceeded").says("Events:");
    home.kubectl(&["get", "events"]).ended(0).says("LocalEnvironment").says("pod/hello-worker-0");
    home.kubectl(&["logs", "job/hello-launcher"]).ended(0).says("rank");
    home.kubectl(&["apply", "-f", &manifest.to_string_lossy()]).ended(0).says("unchanged");
    home.kubectl(&["delete", "-f", &manifest.to_string_lossy()]).ended(0).says("deleted");
    stories::eventually("the job's pods are gone", || {
        home.kubectl(&["get", "pods", "-o", "name"]).stdout.is_empty()
    });
}

#[test]
fn follows_pods_and_logs_while_a_job_runs() {
    let home = Home::with_cluster("kubectl::follow");
    let mut watch = home
        .kubectl_command(&["get", "pods", "-w", "--no-headers"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("kubectl starts");
    let manifest = places::repository("examples/digits.yaml");
    home.kubectl(&["apply", "-f", &manifest.to_string_lossy()]).ended(0);
    within(Duration::from_secs(30), "the Launcher runs", || {
        let answer =
            home.kubectl(&["get", "pods", "-l", "training.kubeflow.org/job-role=launcher", "--no-headers"]);
        answer.stdout.contains("Running").then_some(())
    });
    home.kubectl(&["logs", "-f", "job/digits-launcher"]).ended(0).says("accuracy");
    home.kubectl(&["wait", "--for=condition=Succeeded", "mpijob/digits", "--timeout=60s"]).ended(0);
    watch.kill().expect("kubectl can be ended");
    let seen: Vec<String> =
        BufReader::new(watch.stdout.take().expect("kubectl prints")).lines().map_while(Result::ok).collect();
    watch.wait().expect("kubectl ends");
    for state in ["Pending", "Running"] {
        assert!(
            seen.iter().any(|line| line.contains("digits-worker-3") && line.contains(state)),
            "{seen:#?}"
        );
    }
}

#[test]
fn applies_a_list_and_what_it_has_printed() {
    let home = Home::with_cluster("kubectl::lists");
    let map = |name: &str| format!("  - {{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}}}}}\n");
    let list = format!("apiVersion: v1\nkind: List\nitems:\n{}{}", map("one"), map("two"));
    let list = home.write("list.yaml", &list);
    home.kubectl(&["create", "-f", &list])
        .ended(0)
        .says("configmap/one created")
        .says("configmap/two created");
    let printed = home.kubectl(&["get", "configmap", "one", "two", "-o", "yaml"]).ended(0).stdout;
    assert!(printed.contains("kind: List"), "{printed}");
    let printed = home.write("printed.yaml", &printed);
    home.kubectl(&["apply", "-f", &printed]).ended(0).says("configmap/two configured");
}

#[test]
fn sees_unknown_fields_and_broken_rules_reported() {
    let home = Home::with_cluster("kubectl::refusals");
    let good =
        std::fs::read_to_string(places::repository("examples/hello.yaml")).expect("the example can be read");
    let typo = home.write("typo.yaml", &good.replace("slotsPerWorker", "slotsPerWorkr"));
    home.kubectl(&["apply", "-f", &typo]).ended(1).says("unknown field \"spec.slotsPerWorkr\"");
    let zero = home.write("zero.yaml", &good.replace("replicas: 2", "replicas: 0"));
    home.kubectl(&["apply", "-f", &zero]).ended(1).says("spec.mpiReplicaSpecs");
    assert_eq!(home.kubectl(&["get", "mpijobs", "-o", "name"]).ended(0).stdout, "");
}
