//! Somebody types little and does much at once: names without kinds, the newest job, several jobs, all of a state; and
//! cancels a job whose output stays; changes a job by its manifest; gets files out of a job.

use stories::{EXAMPLES_IMAGE, Home, within};

use crate::failures::{PATIENCE, status};

fn create(home: &Home, name: &str, line: &str) {
    let job =
        ["training", "create", name, "--workers", "2", "--image", EXAMPLES_IMAGE, "--", "sh", "-c", line];
    home.odh(&job).ended(0);
}

#[test]
fn names_need_no_kind_and_verbs_take_several() {
    let home = Home::with_cluster("less_to_type::names");
    create(&home, "one", "echo this is one");
    create(&home, "two", "echo this is two");
    home.odh(&["training", "wait", "one", "mpijob/two"]).ended(0).says("mpijob/one succeeded");
    home.odh(&["training", "get", "@latest", "-o", "name"]).ended(0).says("mpijob/two");
    home.odh(&["t", "ls"]).ended(0).says("one").says("two");
    home.odh(&["training", "logs", "one"]).ended(0).says("this is one");
    home.odh(&["training", "describe", "MPIJob", "one", "two"])
        .ended(0)
        .says("Name:        one")
        .says("Name:        two");
    home.odh(&["training", "explain", "three"]).ended(3);
    home.odh(&["training", "list", "--status", "succeded"]).ended(2).says("did you mean Succeeded?");
    home.odh(&["training", "list", "-n", "nosuch"]).ended(3).says("namespace \"nosuch\" does not exist");
    home.odh(&["training", "list", "-l", "no=such"]).ended(0).says("No matching training jobs");
    home.odh(&["training", "delete", "--status", "succeeded", "--yes"]).ended(0).says("mpijob/one deleted");
    home.odh(&["training", "delete", "--all", "--yes"]).ended(0).says("no training jobs");
}

#[test]
fn images_are_mapped_while_the_cluster_runs() {
    let home = Home::with_cluster("less_to_type::images");
    let environment = |name: &str| {
        let bin = home.path().join(name).join("bin");
        std::fs::create_dir_all(&bin).expect("the environment can be made");
        let program = bin.join("say-which");
        std::fs::write(&program, format!("#!/bin/sh\necho this is {name}\n")).expect("it can be written");
        std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .expect("it can be made executable");
        home.path().join(name).display().to_string()
    };
    let (first, second) = (environment("first"), environment("second"));
    let prints = |job: &str, image: &str, text: &str| {
        let words =
            ["training", "create", job, "--workers", "1", "--image", image, "--wait", "--", "say-which"];
        home.odh(&words).ended(0);
        home.odh(&["training", "logs", job]).ended(0).says(text);
    };
    home.odh(&["local", "image", "add", &format!("which:1={first}")])
        .ended(0)
        .says("image/which:1 is mapped to");
    prints("one", "which:1", "this is first");
    home.odh(&["local", "image", "add", &format!("which:1={second}")]).ended(0);
    prints("two", "which:1", "this is second");
    home.odh(&["local", "image", "list"]).ended(0).says("which:1").says(&second);
    // The running cluster adopts images that are given to `up`, too.
    home.odh(&["local", "up", "--image", &format!("which:2={first}")])
        .ended(0)
        .says("image/which:2 is mapped");
    prints("three", "which:2", "this is first");
    let known = home.odh(&["local", "image", "list", "-o", "json"]).json();
    let names: Vec<&str> =
        known.as_array().expect("a list").iter().filter_map(|i| i["name"].as_str()).collect();
    assert!(names.contains(&"which:1") && names.contains(&"which:2"), "{names:?}");
    home.odh(&["local", "image", "rm", "which:1", "which:2"])
        .ended(0)
        .says("image/which:1 is no longer mapped");
    home.odh(&["local", "image", "rm", "which:1"]).ended(3).says("is not mapped");
    home.odh(&["local", "image", "add", "which:1=/no/such"]).ended(2).says("directory not found");
    home.odh(&["local", "down"]).ended(0);
    home.odh(&["local", "image", "add", &format!("which:3={second}")]).ended(0).says("when it starts");
    home.odh(&["local", "up"]).ended(0).says("which:3");
    prints("four", "which:3", "this is second");
}

#[test]
fn nodes_and_gpus_change_while_the_cluster_runs() {
    let home = Home::with_cluster("less_to_type::nodes");
    let words = ["--workers", "2", "--gpus", "2", "--image", "local", "--", "sleep", "600"];
    home.odh(&[&["training", "create", "spread"], &words[..]].concat()).ended(0).says("Insufficient GPUs");
    home.odh(&["local", "up", "--nodes", "2", "--gpus", "2"])
        .ended(0)
        .says("2 nodes with 2 GPUs each from now on, instead of 1 node with 0 GPUs");
    within(PATIENCE, "each Worker of the job that waited runs on a node of its own", || {
        let pods = home
            .kubectl(&["get", "pods", "-l", "training.kubeflow.org/job-role=worker", "-o", "json"])
            .json();
        let items = pods["items"].as_array()?;
        let on: std::collections::BTreeSet<&str> = items
            .iter()
            .filter(|pod| pod["status"]["phase"] == "Running")
            .filter_map(|pod| pod["spec"]["nodeName"].as_str())
            .collect();
        (on.len() == 2).then_some(())
    });
    home.kubectl(&["exec", "spread-worker-1", "--", "sh", "-c", "echo sees $CUDA_VISIBLE_DEVICES"])
        .ended(0)
        .says("sees 0,1");
    // A node goes only when nothing runs on it, and what was refused is forgotten.
    home.odh(&["local", "up", "--nodes", "1"]).ended(7).says("runs on node-1").says("odh local node drain");
    home.odh(&["local", "status"]).ended(0).says("2, 2 GPUs each");
    home.odh(&["training", "delete", "spread", "--yes"]).ended(0);
    home.odh(&["local", "up", "--nodes", "1"]).ended(0).says("1 node with 2 GPUs each");
    let nodes = home.odh(&["local", "node", "list", "-o", "json"]).json();
    assert_eq!(nodes.as_array().map(Vec::len), Some(1), "{nodes:#}");
    // A node that comes back works, and the next start has what was changed.
    home.odh(&["local", "up", "--nodes", "2"]).ended(0);
    home.odh(&["local", "down"]).ended(0);
    home.odh(&["local", "up", "--gpus", "1"]).ended(0).says("--nodes 2");
    home.odh(&["local", "status"]).ended(0).says("2, 1 GPU each");
    let words = ["--workers", "2", "--gpus", "1", "--image", "local", "--wait", "--", "true"];
    home.odh(&[&["training", "create", "again"], &words[..]].concat()).ended(0);
}

#[test]
fn a_cancelled_job_stops_and_keeps_its_record_and_output() {
    let home = Home::with_cluster("less_to_type::cancel");
    create(&home, "long", "echo begins; sleep 600");
    within(PATIENCE, "the job prints", || {
        home.odh(&["training", "logs", "long"]).stdout.contains("begins").then_some(())
    });
    home.odh(&["training", "cancel", "long"]).ended(0).says("mpijob/long cancelled");
    home.odh(&["training", "wait", "long", "--timeout", "60s"]).ended(103).says("was cancelled");
    home.odh(&["training", "list"]).ended(0).says("Cancelled");
    assert_eq!(status(&home, "long")["failure"]["reason"], "Cancelled");
    home.kubectl(&["delete", "pods", "--all"]).ended(0);
    home.odh(&["training", "logs", "long"]).ended(0).says("begins");
    home.odh(&["training", "logs", "long", "--attempt", "1"]).ended(0).says("begins");
    home.odh(&["training", "logs", "long", "--attempt", "2"]).ended(3).says("no output of attempt 2");
    home.odh(&["training", "cancel", "long"]).ended(7).says("already");
    // A selection means the jobs that can be cancelled.
    home.odh(&["training", "cancel", "--all"]).ended(0).says("none of the jobs that match");
    home.odh(&["training", "retry", "long"]).ended(0);
    let again = home.odh(&["training", "get", "@latest", "-o", "json"]).json();
    assert!(again["metadata"]["annotations"]["training.opendatahub.io/cancel"].is_null(), "{again:#}");
}

#[test]
fn a_copy_ends_whether_or_not_there_is_such_a_file() {
    let home = Home::with_cluster("less_to_type::copies");
    create(&home, "long", "echo begins; sleep 600");
    within(PATIENCE, "the job prints", || {
        home.odh(&["training", "logs", "long"]).stdout.contains("begins").then_some(())
    });
    let copy = home.path().join("copy").display().to_string();
    // Whether a copy hung depended on which of its streams ended first.
    for _ in 0..8 {
        let missing = home.odh(&["training", "cp", "long:/no/such", &copy]);
        missing.ended(3).says("/no/such");
        home.odh(&["training", "cp", "long:/etc/hostname", &copy, "--worker", "1"]).ended(0);
    }
    assert_eq!(std::fs::read_to_string(&copy).expect("the copy can be read").trim(), "long-worker-1");
}

#[test]
fn a_job_that_was_created_from_a_manifest_is_changed_by_applying_it() {
    let home = Home::with_cluster("less_to_type::apply");
    let words = [
        "training",
        "create",
        "grows",
        "--workers",
        "1",
        "--image",
        EXAMPLES_IMAGE,
        "--dry-run=client",
        "-o",
        "json",
    ];
    let mut job = home.odh(&[&words[..], &["--", "sleep", "600"]].concat()).ended(0).json();
    let file = home.write("grows.json", &job.to_string());
    home.odh(&["training", "create", "-f", &file]).ended(0);
    job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] = 2.into();
    let file = home.write("grows.json", &job.to_string());
    home.odh(&["training", "apply", "-f", &file]).ended(0).says("mpijob/grows changed");
    let replicas = "jsonpath={.spec.mpiReplicaSpecs.Worker.replicas}";
    home.odh(&["training", "get", "grows", "-o", replicas]).ended(0).says("2");
    home.odh(&["training", "cancel", "grows"]).ended(0);
    home.odh(&["training", "wait", "grows", "--timeout", "60s"]).ended(103);
    job["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] = 1.into();
    let file = home.write("grows.json", &job.to_string());
    home.odh(&["training", "apply", "-f", &file])
        .ended(0)
        .says("grows has ended, so the change has no effect")
        .says("odh training retry mpijob/grows");
}
