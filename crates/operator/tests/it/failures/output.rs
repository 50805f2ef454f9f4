//! What the Launcher's output, and agents, explain of a failure.

use api::MPIJob;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use super::{fail_launchers_job, job_of};
use crate::stage::{Stage, ended, job};

const OUTPUT: &str = "rank 0 of 2 on pi-worker-0
rank 1: the data set /data/train.csv is missing, giving up
--------------------------------------------------------------------------
mpirun detected that one or more processes exited with non-zero status, thus causing
the job to be terminated. The first process to do so was:

  Process name: [[23141,1],1]
  Exit code:    3
--------------------------------------------------------------------------
";

/// Returns a job whose Launcher runs on a node.
fn job_on(node: &str) -> serde_json::Value {
    job_of(2, "pi", node)
}

/// Ends the Launcher with exit code 3, and then its Job.
async fn fail_launcher(stage: &Stage) {
    fail_launcher_of(stage, "pi").await;
}

async fn fail_launcher_of(stage: &Stage, job: &str) {
    stage.set_pod(&format!("{job}-launcher-pod"), ended("main", "Failed", 3)).await;
    fail_launchers_job(stage, job).await;
}

#[tokio::test]
async fn a_failure_is_explained_by_what_the_launcher_printed_and_recorded() {
    let stage = Stage::new().await;
    stage.add_node("node", Some(OUTPUT));
    let operator = stage.operate();
    stage.submit(&job_on("node")).await;
    stage.bring_up("pi", 2).await;
    fail_launcher(&stage).await;
    let failure = stage.until_true("pi", "Failed").await.failure.unwrap();
    assert_eq!(
        (failure.reason.as_str(), failure.exit_code, failure.worker, failure.pod.as_deref()),
        ("RankExited", Some(3), Some(1), Some("pi-launcher-pod")),
        "{failure:?}"
    );
    assert!(failure.link.unwrap().ends_with("#rankexited"));
    let record: ConfigMap = stage.api().get("pi-attempt-1").await.unwrap();
    let data = record.data.unwrap();
    let value = |key: &str| data.get(key).map(String::as_str);
    assert_eq!(
        (value("reason"), value("exitCode"), value("worker"), value("launcher.log")),
        (Some("RankExited"), Some("3"), Some("1"), Some(OUTPUT))
    );
    let reads = operator.gate.requests().iter().filter(|request| request.contains("/log")).count();
    assert_eq!(reads, 1, "{:#?}", operator.gate.requests());
}

#[tokio::test]
async fn a_node_that_gives_no_log_does_not_keep_a_job_from_failing() {
    let stage = Stage::new().await;
    stage.add_node("node", None);
    let _operator = stage.operate();
    stage.submit(&job_on("node")).await;
    stage.bring_up("pi", 2).await;
    fail_launcher(&stage).await;
    let failure = stage.until_true("pi", "Failed").await.failure.unwrap();
    assert_eq!((failure.reason.as_str(), failure.exit_code), ("RankExited", Some(3)), "{failure:?}");
}

#[tokio::test]
async fn jobs_whose_logs_never_come_do_not_delay_other_jobs() {
    let stage = Stage::new().await;
    stage.add_node("node", None);
    let _operator = stage.operate();
    let silent: Vec<String> = (0..40).map(|number| format!("silent-{number}")).collect();
    for name in &silent {
        stage.submit(&job_of(1, name, "node")).await;
        stage.bring_up(name, 1).await;
    }
    futures::future::join_all(silent.iter().map(|name| fail_launcher_of(&stage, name))).await;
    stage.submit(&job("pi", 1, json!({}))).await;
    stage.until::<Job>("pi-launcher", "came", |_| true).await;
    for name in &silent {
        let job: MPIJob = stage.api().get(name).await.unwrap();
        assert!(!plan::is_true(&job.status.unwrap(), "Failed"), "{name} waits for its log");
    }
}

#[tokio::test]
async fn a_hundred_workers_are_diagnosed_by_one_log() {
    let stage = Stage::new().await;
    stage.add_node("node", Some(OUTPUT));
    let operator = stage.operate();
    let mut many = job_on("node");
    many["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] = json!(100);
    stage.submit(&many).await;
    stage.bring_up("pi", 100).await;
    let reads = || operator.gate.requests().iter().filter(|request| request.contains("/log")).count();
    assert_eq!(reads(), 0, "a job that starts as it should is read of in no log");
    fail_launcher(&stage).await;
    let failure = stage.until_true("pi", "Failed").await.failure.unwrap();
    assert_eq!((failure.reason.as_str(), failure.worker), ("RankExited", Some(1)), "{failure:?}");
    assert_eq!(reads(), 1, "{:#?}", operator.gate.requests());
}

#[tokio::test]
async fn agents_are_asked_only_where_a_program_ran_that_said_nothing_of_it() {
    let stage = Stage::new().await;
    // Launcher and Workers have the same log here, as of agents that nobody has called.
    stage.add_node("node", Some("odh-launch: serving on [::]:7222\nloss 0.1\n"));
    let operator = stage.operate();
    for (name, launch, reads) in [("by-agent", "agent", 3), ("by-ssh", "ssh", 1)] {
        let mut silent = job(name, 2, json!({}));
        silent["metadata"]["annotations"] = json!({ api::ANNOTATION_LAUNCH: launch });
        for kind in ["Launcher", "Worker"] {
            silent["spec"]["mpiReplicaSpecs"][kind]["template"]["spec"]["nodeName"] = json!("node");
        }
        stage.submit(&silent).await;
        stage.bring_up(name, 2).await;
        stage.complete_launcher(name).await;
        let status = stage.until_true(name, "Succeeded").await;
        let world = plan::condition(&status, api::CONDITION_WORLD_VERIFIED);
        let told = world.map(|world| (world.status.as_str(), world.reason.as_deref()));
        assert_eq!(told, (launch == "agent").then_some(("False", Some(api::REASON_COLLAPSED))));
        let path = format!("/pods/{name}-");
        let requests = operator.gate.requests();
        let logs = requests.iter().filter(|request| request.contains(&path) && request.contains("/log"));
        assert_eq!(logs.count(), reads, "{requests:#?}");
    }
}

#[tokio::test]
async fn an_agent_that_never_logs_the_end_of_a_call_does_not_keep_a_job_from_succeeding() {
    let stage = Stage::new().await;
    stage.add_node("node", Some("odh-launch: serving on [::]:7222\nodh-launch: session 1 begins\n"));
    let operator = stage.operate();
    let mut busy = job("pi", 2, json!({}));
    busy["metadata"]["annotations"] = json!({ api::ANNOTATION_LAUNCH: "agent" });
    for kind in ["Launcher", "Worker"] {
        busy["spec"]["mpiReplicaSpecs"][kind]["template"]["spec"]["nodeName"] = json!("node");
    }
    stage.submit(&busy).await;
    stage.bring_up("pi", 2).await;
    stage.complete_launcher("pi").await;
    stage.until_true("pi", "Succeeded").await;
    let requests = operator.gate.requests();
    let logs = requests.iter().filter(|request| request.contains("/log")).count();
    assert_eq!(logs, 1 + 2 * 10, "the Launcher's log once, and each agent's ten times: {requests:#?}");
}
