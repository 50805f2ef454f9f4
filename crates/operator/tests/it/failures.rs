//! Failures: of workers, of the launcher, and of names that are taken.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use crate::stage::{Stage, ended, job};

#[tokio::test]
async fn a_failed_worker_ends_the_job_and_releases_the_rest() {
    let stage = Stage::new().await;
    let _operator = stage.operate();
    stage.submit(&job("pi", 3, json!({}))).await;
    stage.bring_up("pi", 3).await;
    stage.set_pod("pi-worker-1", ended("main", "Failed", 137)).await;
    let status = stage.until_true("pi", "Failed").await;
    let failure = status.failure.unwrap();
    assert_eq!(
        (failure.worker, failure.exit_code, failure.reason.as_str()),
        (Some(1), Some(137), "WorkerLost")
    );
    assert!(status.completion_time.is_some());
    stage.until_gone::<Pod>("pi-worker-0").await;
    stage.until_gone::<Pod>("pi-worker-2").await;
    // mpirun notices too; its pod, and with it its log, stays.
    stage.set_pod("pi-launcher-pod", ended("main", "Failed", 205)).await;
    let stopped = |launcher: &Job| launcher.spec.as_ref().unwrap().suspend == Some(true);
    stage.until("pi-launcher", "was stopped", stopped).await;
    assert_eq!(stage.names::<Pod>().await, ["pi-launcher-pod", "pi-worker-1"], "whose logs say why");
    stage.until_event("pi", "MPIJobFailed").await;
}

#[tokio::test]
async fn a_worker_deleted_while_the_job_runs_ends_it() {
    let stage = Stage::new().await;
    let _operator = stage.operate();
    stage.submit(&job("pi", 2, json!({}))).await;
    stage.bring_up("pi", 2).await;
    stage.api::<Pod>().delete("pi-worker-0", &DeleteParams::default().grace_period(0)).await.unwrap();
    let status = stage.until_true("pi", "Failed").await;
    let failure = status.failure.unwrap();
    assert_eq!((failure.worker, failure.reason.as_str()), (Some(0), "WorkerLost"), "{failure:?}");
}

#[tokio::test]
async fn a_worker_deleted_while_the_job_starts_is_made_again() {
    let stage = Stage::new().await;
    let _operator = stage.operate();
    stage.submit(&job("pi", 2, json!({}))).await;
    let first: Pod = stage.until("pi-worker-0", "came", |_| true).await;
    stage.api::<Pod>().delete("pi-worker-0", &DeleteParams::default().grace_period(0)).await.unwrap();
    let another = |pod: &Pod| pod.metadata.uid != first.metadata.uid;
    stage.until("pi-worker-0", "was made again", another).await;
    stage.bring_up("pi", 2).await;
}

#[tokio::test]
async fn an_evicted_worker_has_upstreams_reason() {
    let stage = Stage::new().await;
    let _operator = stage.operate();
    stage.submit(&job("pi", 2, json!({}))).await;
    stage.bring_up("pi", 2).await;
    stage
        .set_pod("pi-worker-1", json!({ "phase": "Failed", "reason": "Evicted", "message": "low on memory" }))
        .await;
    let status = stage.until_true("pi", "Failed").await;
    let failed = plan::condition(&status, "Failed").unwrap();
    assert_eq!(failed.reason.as_deref(), Some("MPIJobEvicted"));
    assert_eq!(failed.message.as_deref(), Some("1/2 workers are evicted"));
    assert_eq!(status.phase_reason.as_deref(), Some("Evicted"));
}

#[tokio::test]
async fn a_launcher_out_of_retries_fails_the_job_as_upstream() {
    let stage = Stage::new().await;
    let _operator = stage.operate();
    stage.submit(&job("pi", 1, json!({ "backoffLimit": 0 }))).await;
    stage.bring_up("pi", 1).await;
    stage.set_pod("pi-launcher-pod", ended("main", "Failed", 42)).await;
    let reason = "BackoffLimitExceeded";
    let condition = |type_: &str| json!({ "type": type_, "status": "True", "reason": reason, "message": "no more retries" });
    stage
        .set_job(
            "pi-launcher",
            json!({ "failed": 1, "startTime": "2026-01-01T00:00:00Z",
            "conditions": [condition("FailureTarget"), condition("Failed")] }),
        )
        .await;
    let status = stage.until_true("pi", "Failed").await;
    assert_eq!(plan::condition(&status, "Failed").unwrap().reason.as_deref(), Some("BackoffLimitExceeded/"));
    assert_eq!(status.failure.unwrap().exit_code, Some(42));
    assert_eq!(
        stage.names::<Pod>().await,
        ["pi-launcher-pod", "pi-worker-0"],
        "cleanPodPolicy None keeps them"
    );
}

#[tokio::test]
async fn a_strangers_object_is_told_and_left_alone() {
    let stage = Stage::new().await;
    let stranger =
        json!({ "metadata": { "name": "pi" }, "spec": { "clusterIP": "None", "selector": { "a": "b" } } });
    let stranger: Service = serde_json::from_value(stranger).unwrap();
    let stranger = stage.api().create(&PostParams::default(), &stranger).await.unwrap();
    let _operator = stage.operate();
    stage.submit(&job("pi", 1, json!({}))).await;
    stage.until_event("pi", "ErrResourceExists").await;
    assert_eq!(stage.api::<Service>().get("pi").await.unwrap().spec, stranger.spec);
    assert_eq!(
        stage.names::<Pod>().await,
        Vec::<String>::new(),
        "nothing that would need the Service is made"
    );
    stage.api::<Service>().delete("pi", &DeleteParams::default()).await.unwrap();
    stage.bring_up("pi", 1).await;
}
