//! A newcomer tries the examples of the repository, each unchanged.

use stories::{Home, places};

fn example(name: &str) -> String {
    places::repository(&format!("examples/{name}")).to_string_lossy().into_owned()
}

/// What an example means does not depend on how the operator was started, whose own default is upstream's: ssh.
#[test]
fn every_example_names_its_transport_and_starts_the_launcher_after_the_workers() {
    let folder = std::fs::read_dir(places::repository("examples")).expect("the examples can be listed");
    let files = folder.map(|entry| entry.expect("an example").path());
    let mut found = 0;
    for file in files.filter(|file| file.extension().is_some_and(|end| end == "yaml")) {
        let text = std::fs::read_to_string(&file).expect("an example can be read");
        for document in text.split("\n---\n").filter(|document| document.contains("\nkind: MPIJob")) {
            let name = file.display();
            found += 1;
            assert!(document.contains("training.opendatahub.io/launch: "), "{name} names no transport");
            assert!(
                document.contains("launcherCreationPolicy: WaitForWorkersReady")
                    || document.contains("launch: ssh"),
                "{name}: the Launcher asks for names that do not exist yet"
            );
        }
    }
    assert!(found > 5, "there are {found} examples");
}

#[test]
fn hello_prints_every_rank_and_its_host() {
    let home = Home::with_cluster("examples::hello");
    let answer = home.odh(&["local", "run", &example("hello.yaml")]).ended(0);
    if home.mode() != "plain" {
        answer.says("hello-worker-0").says("hello-worker-1");
    }
}

#[test]
fn pi_comes_close_to_pi() {
    let home = Home::with_cluster("examples::pi");
    home.odh(&["local", "run", &example("pi.yaml")]).ended(0).says("3.14");
}

#[test]
fn a_rank_that_fails_fails_the_job_and_says_so() {
    let home = Home::with_cluster("examples::fails");
    home.odh(&["local", "run", &example("fails.yaml")]).ended(100);
    let job = home.odh(&["training", "get", "mpijob", "fails", "-o", "json"]).ended(0).json();
    assert_eq!(job["status"]["phase"], "Failed", "{job:#}");
    home.odh(&["training", "describe", "mpijob", "fails"])
        .ended(0)
        .says("Failed (RankExited)")
        .says("Rank 1 exited with code 3");
    home.odh(&["training", "create", "-f", &example("fails.yaml")]).ended(7).says("already exists");
    home.odh(&["training", "delete", "mpijob", "fails", "--yes"]).ended(0);
    home.odh(&["training", "create", "-f", &example("fails.yaml"), "--wait", "--propagate-exit-code"])
        .ended(3);
}
#[test]
fn hello_works_through_ssh_as_upstream_does_it() {
    let environment = places::repository("examples/ssh-environment");
    let mapping = format!("quay.io/opendatahub/mpi-examples:openmpi-ssh={}", environment.display());
    let home = Home::with_cluster_and("examples::hello_ssh", &["--image", &mapping]);
    let answer = home.odh(&["local", "run", &example("hello-ssh.yaml")]).ended(0);
    if home.mode() != "plain" {
        answer.says("hello-ssh-worker-0").says("hello-ssh-worker-1");
    }
}
