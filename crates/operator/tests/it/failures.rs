//! Failures of Workers and of the Launcher.

mod names;
mod output;
mod waiting;

use api::MPIJob;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, ResourceQuota};
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use crate::stage::{Stage, ended, job, running};

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
    // mpirun notices too; its pod stays, and with it the log.
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

/// The watch shows both changes before the job is looked at: an eviction deletes the pod right after it says so in its status.
#[tokio::test]
async fn a_worker_that_is_gone_at_once_after_its_eviction_was_evicted() {
    let stage = Stage::new().await;
    let _operator = stage.operate();
    stage.submit(&job("pi", 2, json!({}))).await;
    stage.bring_up("pi", 2).await;
    stage.until_true("pi", "Running").await;
    let up = |job: &MPIJob| {
        let workers = job.status.as_ref().and_then(|status| status.replica_statuses.get("Worker"));
        workers.and_then(|workers| workers.active) == Some(2)
    };
    stage.until("pi", "counts its Workers", up).await;
    let mut status = running("main");
    status["conditions"].as_array_mut().unwrap().push(json!({ "type": "DisruptionTarget", "status": "True",
        "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting", "lastTransitionTime": "2026-01-01T00:00:00Z" }));
    stage.set_pod("pi-worker-1", status).await;
    stage.api::<Pod>().delete("pi-worker-1", &DeleteParams::default().grace_period(0)).await.unwrap();
    let failure = stage.until_true("pi", "Failed").await.failure.unwrap();
    assert_eq!((failure.reason.as_str(), failure.worker), ("Evicted", Some(1)), "{failure:?}");
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
async fn a_launcher_whose_program_is_missing_fails_the_job_at_once() {
    let stage = Stage::new().await;
    let _operator = stage.operate();
    stage.submit(&job("pi", 2, json!({ "backoffLimit": 6 }))).await;
    stage.start_worker("pi", 0).await;
    let launcher = stage.start_launcher("pi").await;
    let mut status = ended("main", "Pending", 128);
    let state = &mut status["containerStatuses"][0]["state"]["terminated"];
    state["reason"] = json!("StartError");
    state["message"] = json!("failed to start: exec: \"mpirum\": executable file not found in $PATH");
    stage.set_pod(&launcher, status).await;
    let status = stage.until_true("pi", "Failed").await;
    let failure = status.failure.unwrap();
    assert_eq!(
        (failure.reason.as_str(), failure.exit_code, failure.container.as_deref(), failure.pod.as_deref()),
        ("ExecutableNotFound", Some(128), Some("main"), Some(launcher.as_str())),
        "{failure:?}"
    );
    assert!(failure.message.contains("mpirum"), "{failure:?}");
    let stopped = |launcher: &Job| launcher.spec.as_ref().unwrap().suspend == Some(true);
    stage.until("pi-launcher", "was stopped", stopped).await;
    stage.until_gone::<Pod>("pi-worker-0").await;
    stage.until_gone::<Pod>("pi-worker-1").await;
}

#[tokio::test]
async fn a_launcher_that_waits_for_a_config_map_waits_on() {
    let stage = Stage::new().await;
    let _operator = stage.operate();
    stage.submit(&job("pi", 1, json!({}))).await;
    stage.start_worker("pi", 0).await;
    let launcher = stage.start_launcher("pi").await;
    let waiting = json!({ "waiting": { "reason": "CreateContainerConfigError", "message": "configmap \"settings\" not found" } });
    stage
        .set_pod(
            &launcher,
            json!({ "phase": "Pending", "containerStatuses": [{ "name": "main", "state": waiting,
        "ready": false, "restartCount": 0, "image": "mpi", "imageID": "" }] }),
        )
        .await;
    stage.set_pod(&launcher, crate::stage::running("main")).await;
    let status = stage.until_true("pi", "Running").await;
    assert_eq!(status.failure, None);
}

fn job_of(workers: usize, name: &str, node: &str) -> serde_json::Value {
    let mut job = job(name, workers, json!({ "backoffLimit": 0 }));
    job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["nodeName"] = json!(node);
    job
}

async fn fail_launchers_job(stage: &Stage, job: &str) {
    let condition = |type_: &str| json!({ "type": type_, "status": "True", "reason": "BackoffLimitExceeded", "message": "no more retries" });
    let status = json!({ "failed": 1, "startTime": "2026-01-01T00:00:00Z",
        "conditions": [condition("FailureTarget"), condition("Failed")] });
    stage.set_job(&plan::launcher_name(job), status).await;
}

#[tokio::test]
async fn a_launcher_that_failed_without_a_failed_pod_fails_its_job() {
    let stage = Stage::new().await;
    let operator = stage.operate();
    stage.submit(&job("pi", 1, json!({ "backoffLimit": 0 }))).await;
    stage.bring_up("pi", 1).await;
    fail_launchers_job(&stage, "pi").await;
    let failure = stage.until_true("pi", "Failed").await.failure.unwrap();
    assert_eq!((failure.reason.as_str(), failure.exit_code), ("Unknown", None), "{failure:?}");
    let pods = format!("/api/v1/namespaces/{}/pods", stage.namespace);
    assert_eq!(operator.gate.lists_of(&pods), 1, "its pods are listed once");
}

#[tokio::test]
async fn an_elastic_job_outlives_its_workers() {
    let stage = Stage::new().await;
    let _operator = stage.operate();
    let mut elastic = job("pi", 2, json!({}));
    elastic["metadata"]["annotations"] = json!({ api::ANNOTATION_WORKER_FAILURE: "tolerate" });
    stage.submit(&elastic).await;
    stage.bring_up("pi", 2).await;
    let first = stage.api::<Pod>().get("pi-worker-1").await.unwrap();
    stage.api::<Pod>().delete("pi-worker-1", &DeleteParams::default()).await.unwrap();
    let is_new = |pod: &Pod| pod.metadata.uid != first.metadata.uid;
    stage.until("pi-worker-1", "was made again", is_new).await;
    stage.start_worker("pi", 1).await;
    stage.set_pod("pi-worker-0", ended("main", "Failed", 1)).await;
    let counted = |job: &MPIJob| {
        let counts = job.status.as_ref().and_then(|status| status.replica_statuses.get("Worker"));
        counts.is_some_and(|counts| (counts.active, counts.failed) == (Some(1), Some(1)))
    };
    let running: MPIJob = stage.until("pi", "counted its failed Worker", counted).await;
    assert!(plan::is_true(&running.status.unwrap(), "Running"));
    let left_out = |hosts: &ConfigMap| {
        let script = &hosts.data.as_ref().unwrap()["discover_hosts.sh"];
        script.contains("pi-worker-1.") && !script.contains("pi-worker-0.")
    };
    stage.until("pi-config", "listed the Worker that runs alone", left_out).await;
    stage.complete_launcher("pi").await;
    stage.until_true("pi", "Succeeded").await;
}

#[tokio::test]
async fn a_launcher_whose_pod_is_refused_says_why() {
    let stage = Stage::new().await;
    let _operator = stage.operate();
    stage.submit(&job("pi", 1, json!({}))).await;
    stage.start_worker("pi", 0).await;
    // From now on every container of the namespace needs limits, which the Launcher lacks; its Job's controller is refused.
    let quota = json!({ "metadata": { "name": "compute" }, "spec": { "hard": { "limits.cpu": "9" } } });
    let quota: ResourceQuota = serde_json::from_value(quota).unwrap();
    stage.api::<ResourceQuota>().create(&PostParams::default(), &quota).await.unwrap();
    let waits = |job: &MPIJob| {
        let waiting = job.status.as_ref().and_then(|status| status.waiting.as_ref());
        waiting.is_some_and(|waiting| waiting.message.contains("must specify limits.cpu"))
    };
    let job = stage.until::<MPIJob>("pi", "says why the Launcher has no pod", waits).await;
    assert_eq!(job.status.unwrap().waiting.unwrap().reason, "QuotaExceeded");
    stage.until_event("pi", "QuotaExceeded").await;
    stage.api::<ResourceQuota>().delete("compute", &DeleteParams::default()).await.unwrap();
    stage.start_launcher("pi").await;
    stage.until_true("pi", "Running").await;
}
