//! The verbs that ask the training service, on a real local cluster, as an administrator and as people with fewer rights.

use std::time::Duration;

use crate::odh::Home;

/// A cluster with one job that was created by `odh`, and one by another program through the API.
fn with_jobs() -> Home {
    let home = Home::new();
    home.run("local up --gpus 4 --local-webhooks").ends(0);
    home.run("training create mpijob --name own --workers 2 --image x:1 --suspend -- true").ends(0);
    home
}

#[test]
fn what_the_training_service_knows_is_shown_to_those_who_may_know_it() {
    let home = with_jobs();
    home.run("training usage").ends(0).says("nothing was used from");
    home.run("training usage -A --by user,job -o json").ends(0).json()["usage"].as_array().unwrap();
    let csv = home.run("training usage --csv").ends(0).prints("namespace,user,job,uid,resource,");
    let is_plain = csv.out.ends_with('\n') && !csv.out.contains(['\r', '\\']);
    assert!(is_plain, "lines end in a line feed and nothing else: {:?}", csv.out);
    home.run("training usage --since tomorrow").ends(5).says("since");

    let fits = home.run("training capacity --workers 2 --gpus 1").ends(0);
    fits.prints("Start:").prints("Now").prints("Workers that fit now:  4\n").prints("node-0");
    home.run("training capacity --workers 2 --gpus 64").ends(0).prints("Never");
    assert_eq!(home.run("training capacity --workers 1 --cpu 100m -o json").ends(0).json()["start"], "Now");
    home.run("training capacity").ends(2).says("--gpus, --cpu or --memory").says("capacity --gpus 1");
    home.run("training advice").ends(0).says("no program has run often enough");

    // Who did what, and with which program.
    let audited = || home.run("training audit --object own -o json").ends(0).json();
    let until = std::time::Instant::now() + Duration::from_secs(30);
    while audited()["items"].as_array().unwrap().is_empty() {
        assert!(std::time::Instant::now() < until, "the creation is in the audit log");
        std::thread::sleep(Duration::from_millis(100));
    }
    let line = &audited()["items"][0]["lines"][0];
    assert_eq!(
        (line["verb"].as_str(), line["channel"].as_str()),
        (Some("create"), Some("webhook")),
        "{line:#}"
    );
    assert!(line["program"].as_str().unwrap().starts_with("odh"), "{line:#}");
    home.run("training audit").ends(0).prints("VIA").prints("odh");

    // Rules of notifications, from the creation to the delivery of a test.
    home.run("training notifications list").ends(0).says("there are no rules");
    home.run("training notifications put broken --url ftp://example.com").ends(5).says("url");
    let made =
        home.run("training notifications put failures --phase Failed --url http://127.0.0.1:9/hook").ends(0);
    made.prints("notification/failures configured").prints("whsec_");
    home.run("training notifications list").ends(0).prints("failures").prints("Failed").prints("yes");
    home.run("training notifications test failures").ends(0).prints("a test is on its way");
    home.run("training notifications deliveries").ends(0).prints("failures");
    home.run("training notifications delete failures").ends(0).prints("deleted");

    // Rules with a condition.
    home.run("training notifications alerts").ends(0).says("no condition of a rule holds now");
    home.run("training notifications put long --longer-than soon --url http://127.0.0.1:9/")
        .ends(5)
        .says("24h");
    home.run("training notifications put long --longer-than 24 --url http://127.0.0.1:9/")
        .ends(2)
        .says("24h");
    home.run("training notifications put both --stalled --phase Failed --url http://127.0.0.1:9/").ends(2);
    home.run("training notifications put long --longer-than 1440m --url http://127.0.0.1:9/").ends(0);
    home.run("training notifications list").ends(0).prints("runs longer than 1d");
    let asked = || home.run("training notifications alerts -A -o json").ends(0).json();
    assert_eq!(asked()["total"], 0);
    home.run("training notifications test failures").ends(3);

    // A person without the permission gets exit code 4.
    home.run("local user vic -n team-x --role view").ends(0);
    let file = home.state().join("users/vic.kubeconfig").display().to_string();
    home.odh(&["training", "audit", "-A", "--kubeconfig", &file]).ends(4);
    home.odh(&["training", "capacity", "--cpu", "1", "--kubeconfig", &file]).ends(4);
    // One who may create jobs sees sums of GPUs.
    home.run("local user dan -n team-x --role edit").ends(0);
    let dans = home.state().join("users/dan.kubeconfig").display().to_string();
    home.odh(&["training", "capacity", "--gpus", "1", "--kubeconfig", &dans])
        .ends(4)
        .says("free GPUs, in sums: 4 of 4 ");
    home.odh(&[
        "training",
        "notifications",
        "put",
        "x",
        "--email",
        "a@b.c",
        "-n",
        "default",
        "--kubeconfig",
        &file,
    ])
    .ends(4);
    home.odh(&["training", "usage", "--as", "vic"]).ends(2).says("--as");
    // Nobody logs in to a local cluster.
    let former = home.file("former", &std::fs::read_to_string(&file).unwrap());
    home.run("local user vic --delete").ends(0);
    let said = home.odh(&["training", "list", "-n", "team-x", "--kubeconfig", &former]).ends(4);
    assert!(said.err.contains("odh local user NAME") && !said.err.contains("oc login"), "{}", said.err);
}

#[test]
fn a_cluster_without_a_training_service_is_told_from_one_that_is_away() {
    let home = with_jobs();
    let config = home.run("local kubeconfig").ends(0).out;
    let without: Vec<&str> = config.lines().collect();
    let start =
        without.iter().position(|line| line.trim_start().starts_with("extensions:")).expect("an extension");
    let indent = without[start].len() - without[start].trim_start().len();
    let end = without[start + 1..]
        .iter()
        .position(|line| {
            line.len() - line.trim_start().len() <= indent && !line.trim_start().starts_with('-')
        })
        .map_or(without.len(), |at| start + 1 + at);
    let kept = [&without[..start], &without[end..]].concat().join("\n");
    let file = home.file("without.yaml", &kept);
    home.odh(&["training", "usage", "--kubeconfig", &file])
        .ends(3)
        .says("names no training service")
        .says("ODH_TRAINING_URL");
    let at_another_port = |line: &str| match line.split_once("url: https://127.0.0.1:") {
        Some((before, _)) => format!("{before}url: https://127.0.0.1:9"),
        None => line.to_owned(),
    };
    let away: Vec<String> = config.lines().map(at_another_port).collect();
    let file = home.file("away.yaml", &away.join("\n"));
    home.odh(&["training", "usage", "--kubeconfig", &file]).ends(1).says("cannot reach the training service");
}
