//! Programs are asked for their progress, by the annotations of the Open Data Hub build of Trainer. The tests are these
//! programs, too: they answer as one does.

use api::{
    ANNOTATION_METRICS_POLL_INTERVAL, ANNOTATION_METRICS_PORT, ANNOTATION_PROGRESSION_TRACKING,
    ANNOTATION_TRAINER_STATUS, LABEL_TRAINJOB, MPIJob, TrainJob, TrainerStatus,
};
use kube::ResourceExt;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::gate::Gate;
use crate::stage::{Stage, ended, job, running};

/// A program on this machine's loopback, at its port, that always answers with this progress.
async fn program(progress: Value) -> (u16, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let body = progress.to_string();
    let answering = async move {
        loop {
            let (mut peer, _) = listener.accept().await.unwrap();
            let mut request = [0; 1024];
            let length = peer.read(&mut request).await.unwrap();
            assert!(request[..length].starts_with(b"GET /metrics HTTP/1.1\r\n"));
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
            peer.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
        }
    };
    (port, tokio::spawn(answering))
}

fn annotations(port: u16) -> Value {
    json!({ ANNOTATION_PROGRESSION_TRACKING: "true", ANNOTATION_METRICS_PORT: port.to_string(),
        ANNOTATION_METRICS_POLL_INTERVAL: "5s" })
}

/// The status of a pod that runs at this machine's loopback.
fn at_loopback(container: &str) -> Value {
    let mut status = running(container);
    status["podIP"] = json!("127.0.0.1");
    status
}

/// The status of a pod whose program ended well, with these last words.
fn ended_with(container: &str, message: &Value) -> Value {
    let mut status = ended(container, "Succeeded", 0);
    status["containerStatuses"][0]["state"]["terminated"]["message"] = json!(message.to_string());
    status
}

/// Whether the annotation has this summary, and the status this percentage.
fn says(job: &impl ResourceExt, status: Option<&TrainerStatus>, summary: &str, percent: i32) -> bool {
    let text = job.annotations().get(ANNOTATION_TRAINER_STATUS);
    let written: Option<Value> = text.and_then(|text| serde_json::from_str(text).ok());
    written.is_some_and(|written| {
        written["estimatedRemainingTimeSummary"] == summary && written["progressPercentage"] == percent
    }) && status.is_some_and(|status| status.progress_percentage == Some(percent))
}

#[tokio::test]
async fn the_program_of_an_mpijob_is_asked_until_it_has_ended() {
    let metrics = json!({ "progressPercentage": 45, "estimatedRemainingSeconds": 795, "currentStep": 450,
        "totalSteps": 1000, "trainMetrics": { "loss": 0.25 } });
    let (port, program) = program(metrics).await;
    let stage = Stage::with_controllers().await;
    let _operator = stage.operate();
    let mut asks = job("digits", 1, json!({}));
    asks["metadata"]["annotations"] = annotations(port);
    stage.submit(&asks).await;
    stage.start_worker("digits", 0).await;
    let launcher = stage.launcher_pod("digits", &[]).await;
    stage.set_pod(&launcher, at_loopback("main")).await;
    let status = |job: &MPIJob| job.status.clone().and_then(|status| status.trainer_status);
    let runs = |job: &MPIJob| says(job, status(job).as_ref(), "13 minutes", 45);
    let found: MPIJob = stage.until("digits", "has its progress", runs).await;
    let written = status(&found).unwrap();
    assert_eq!((written.metrics[0].name.as_str(), written.metrics[0].value.as_str()), ("loss", "0.25"));
    assert!(found.annotations()[ANNOTATION_TRAINER_STATUS].contains(r#""trainMetrics":{"loss":0.25}"#));
    // Its last words are in the termination message: by then it answers no more.
    program.abort();
    let last = json!({ "progressPercentage": 100, "currentStep": 1000, "totalSteps": 1000 });
    stage.set_pod(&launcher, ended_with("main", &last)).await;
    stage.until_true("digits", "Succeeded").await;
    let is_over = |job: &MPIJob| says(job, status(job).as_ref(), "complete", 100);
    stage.until("digits", "has its last progress", is_over).await;
}

#[tokio::test]
async fn the_program_of_a_trainjob_is_asked_where_its_first_node_runs() {
    let metrics = json!({ "progressPercentage": 45, "estimatedRemainingSeconds": 795 });
    let (port, _program) = program(metrics).await;
    let stage = Stage::with_controllers().await;
    operator::install_trainjob_crds(&stage.client).await.unwrap();
    let runtimes: Api<api::ClusterTrainingRuntime> = Api::all(stage.client.clone());
    stage.share(&runtimes, &crate::trainjobs::runtime("once")).await;
    let _operator = stage.operate_trainjobs(Gate::new(None));
    let mut asks = crate::trainjobs::trainjob("once");
    asks["metadata"]["annotations"] = annotations(port);
    let asks: TrainJob = serde_json::from_value(asks).unwrap();
    stage.api().create(&PostParams::default(), &asks).await.unwrap();
    let first = format!("{LABEL_TRAINJOB}=digits,{}=0", api::LABEL_COMPLETION_INDEX);
    let node = stage.pod_selected(&first, &[]).await;
    stage.set_pod(&node, at_loopback("node")).await;
    let runs = |job: &TrainJob| {
        let status = job.status.as_ref().and_then(|status| status.trainer_status.as_ref());
        says(job, status, "13 minutes", 45)
    };
    stage.until("digits", "has its progress", runs).await;
}
