//! The operator with the embedded cluster's Job controller and garbage collector. There is no node, so the tests
//! still play the pods.

use api::MPIJob;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use kube::api::DeleteParams;
use serde_json::json;

use crate::stage::{Stage, ended, job, restarted, running};

/// Starts every pod of a job with one Worker. Returns the Launcher's.
async fn start(stage: &Stage, known: &[String]) -> String {
    stage.start_worker("pi", 0).await;
    let launcher = stage.launcher_pod("pi", known).await;
    stage.set_pod(&launcher, running("main")).await;
    stage.until_true("pi", "Running").await;
    launcher
}

#[tokio::test]
async fn a_job_succeeds_with_its_launcher() {
    let stage = Stage::with_controllers().await;
    let _operator = stage.operate();
    stage.submit(&job("pi", 1, json!({ "cleanPodPolicy": "Running" }))).await;
    let launcher = start(&stage, &[]).await;
    stage.set_pod(&launcher, ended("main", "Succeeded", 0)).await;
    let status = stage.until_true("pi", "Succeeded").await;
    assert_eq!(status.replica_statuses["Launcher"].succeeded, Some(1));
    stage.until_gone::<Pod>("pi-worker-0").await;
}

#[tokio::test]
async fn a_launcher_that_fails_for_good_fails_the_job() {
    let stage = Stage::with_controllers().await;
    let _operator = stage.operate();
    stage.submit(&job("pi", 1, json!({ "backoffLimit": 0 }))).await;
    let launcher = start(&stage, &[]).await;
    stage.set_pod(&launcher, ended("main", "Failed", 139)).await;
    let status = stage.until_true("pi", "Failed").await;
    assert_eq!(plan::condition(&status, "Failed").unwrap().reason.as_deref(), Some("BackoffLimitExceeded/"));
    let failure = status.failure.unwrap();
    assert_eq!(
        (failure.exit_code, failure.pod.as_deref()),
        (Some(139), Some(launcher.as_str())),
        "{failure:?}"
    );
}

#[tokio::test]
async fn what_a_launcher_restarted_in_place_ended_with_outlives_its_pod() {
    let stage = Stage::with_controllers().await;
    let _operator = stage.operate();
    let mut pi = job("pi", 1, json!({ "backoffLimit": 0 }));
    pi["spec"]["mpiReplicaSpecs"]["Launcher"]["restartPolicy"] = json!("OnFailure");
    stage.submit(&pi).await;
    let launcher = start(&stage, &[]).await;
    stage.set_pod(&launcher, restarted("main", 3)).await;
    let failure = stage.until_true("pi", "Failed").await.failure.unwrap();
    assert_eq!(
        (failure.exit_code, failure.container.as_deref(), failure.pod.as_deref(), failure.reason.as_str()),
        (Some(3), Some("main"), Some(launcher.as_str()), "RankExited"),
        "{failure:?}"
    );
}

#[tokio::test]
async fn a_failed_worker_stops_the_launcher_for_good() {
    let stage = Stage::with_controllers().await;
    let _operator = stage.operate();
    stage.submit(&job("pi", 1, json!({}))).await;
    let launcher = start(&stage, &[]).await;
    stage.set_pod(&launcher, ended("main", "Failed", 205)).await;
    stage.set_pod("pi-worker-0", ended("main", "Failed", 137)).await;
    stage.until_true("pi", "Failed").await;
    let stopped = |job: &Job| {
        let conditions = job.status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions.into_iter().any(|condition| condition.type_ == "Suspended" && condition.status == "True")
    };
    stage.until("pi-launcher", "was suspended", stopped).await;
    assert!(stage.names::<Pod>().await.contains(&"pi-worker-0".to_owned()), "its log says why");
}

#[tokio::test]
async fn a_job_is_suspended_changed_and_resumed_more_than_once() {
    let stage = Stage::with_controllers().await;
    let _operator = stage.operate();
    stage.submit(&job("pi", 1, json!({}))).await;
    let mut known = vec![start(&stage, &[]).await];
    for zone in ["a", "b"] {
        stage.change_job("pi", json!({ "spec": { "runPolicy": { "suspend": true } } })).await;
        stage.until_true("pi", "Suspended").await;
        stage.until_gone::<Pod>(known.last().unwrap()).await;
        stage.until_gone::<Pod>("pi-worker-0").await;
        let template = json!({ "template": { "spec": { "nodeSelector": { "zone": zone } } } });
        let resume = json!({ "spec": { "runPolicy": { "suspend": false },
            "mpiReplicaSpecs": { "Launcher": template, "Worker": template } } });
        stage.change_job("pi", resume).await;
        known.push(start(&stage, &known).await);
        for pod in [known.last().unwrap().as_str(), "pi-worker-0"] {
            let pod: Pod = stage.api().get(pod).await.unwrap();
            assert_eq!(pod.spec.unwrap().node_selector.unwrap()["zone"], zone);
        }
    }
}

#[tokio::test]
async fn a_deleted_job_takes_all_it_owns_with_it() {
    let stage = Stage::with_controllers().await;
    let _operator = stage.operate();
    stage.submit(&job("pi", 1, json!({}))).await;
    let launcher = start(&stage, &[]).await;
    stage.api::<MPIJob>().delete("pi", &DeleteParams::default()).await.unwrap();
    stage.until_gone::<MPIJob>("pi").await;
    for pod in [launcher.as_str(), "pi-worker-0"] {
        stage.until_gone::<Pod>(pod).await;
    }
    stage.until_gone::<Job>("pi-launcher").await;
    stage.until_gone::<Service>("pi").await;
    stage.until_gone::<ConfigMap>("pi-config").await;
    stage.until_gone::<Secret>("pi-ssh").await;
    // Nothing remains in the operator's memory either: the same name runs again.
    stage.submit(&job("pi", 1, json!({}))).await;
    start(&stage, &[launcher]).await;
}
