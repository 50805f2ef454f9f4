//! A job's life: created, running, succeeded, cleaned up; suspended and resumed; refused and corrected.

use api::MPIJob;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use serde_json::json;

use crate::gate::Gate;
use crate::stage::{Stage, job};

#[tokio::test]
async fn a_job_is_made_runs_and_succeeds_in_few_requests() {
    let stage = Stage::new().await;
    let operator = stage.operate_patiently(Gate::new(None));
    stage.submit(&job("pi", 4, json!({}))).await;
    stage.bring_up("pi", 4).await;
    stage.complete_launcher("pi").await;
    let status = stage.until_true("pi", "Succeeded").await;
    assert!(status.completion_time.is_some() && status.start_time.is_some());
    assert_eq!(status.observed_generation, Some(1));
    assert_eq!(
        stage.names::<Pod>().await,
        ["pi-launcher-pod", "pi-worker-0", "pi-worker-1", "pi-worker-2", "pi-worker-3"]
    );
    assert_eq!(stage.names::<Service>().await, ["pi"]);
    assert_eq!(stage.names::<ConfigMap>().await, ["pi-config"]);
    assert_eq!(stage.names::<Secret>().await, ["pi-ssh"]);
    // Events are recorded in parallel to the status, so the last may still be missing.
    stage.until_event("pi", "MPIJobSucceeded").await;
    assert_eq!(stage.event_reasons("pi").await, ["MPIJobCreated", "MPIJobRunning", "MPIJobSucceeded"]);
    // The script of running hosts is written once they have not changed for some seconds, if the job lives that
    // long.
    let is_script = |request: &String| request.starts_with("PATCH") && request.ends_with("/pi-config");
    let (scripts, others): (Vec<_>, Vec<_>) = operator.gate.requests().into_iter().partition(is_script);
    // The last request reads the end of the log, which says where the ranks ran.
    assert!(others.len() <= 14, "{} requests: {others:#?}", others.len());
    assert!(scripts.len() <= 4, "never more than one for each worker: {}", scripts.len());
}

#[tokio::test]
async fn every_job_is_reconciled_when_the_watches_list_late() {
    let stage = Stage::new().await;
    for name in ["first", "second", "third"] {
        stage.submit(&job(name, 1, json!({}))).await;
    }
    let _operator = stage.operate_behind(Gate::with_late_pods());
    for name in ["first", "second", "third"] {
        stage.until_true(name, "Created").await;
    }
}

#[tokio::test]
async fn a_finished_job_costs_nothing_more() {
    let stage = Stage::new().await;
    let operator = stage.operate();
    for name in ["first", "second"] {
        stage.submit(&job(name, 1, json!({ "cleanPodPolicy": "All" }))).await;
        stage.bring_up(name, 1).await;
        stage.complete_launcher(name).await;
        stage.until_gone::<Pod>(&plan::worker_name(name, 0)).await;
    }
    stage.until_event("second", "MPIJobSucceeded").await;
    let requests = operator.gate.requests();
    let last_of_first = requests.iter().rposition(|request| request.contains("first")).unwrap();
    let first_of_second = requests.iter().position(|request| request.contains("second")).unwrap();
    let late = requests[first_of_second..].iter().filter(|request| request.contains("first")).count();
    assert!(
        late <= 2,
        "only the counts of cleaned up workers may follow: {late} of {last_of_first}: {requests:#?}"
    );
}

#[tokio::test]
async fn a_suspended_job_keeps_no_worker_and_goes_on_when_resumed() {
    let stage = Stage::new().await;
    let _operator = stage.operate();
    stage.submit(&job("pi", 2, json!({ "suspend": true }))).await;
    let suspended = |launcher: &Job| launcher.spec.as_ref().unwrap().suspend == Some(true);
    stage.until("pi-launcher", "was made suspended", suspended).await;
    stage.until_true("pi", "Suspended").await;
    assert_eq!(stage.names::<Pod>().await, Vec::<String>::new());

    let inject = json!({ "spec": { "runPolicy": { "suspend": false }, "mpiReplicaSpecs": { "Launcher": { "template": {
        "spec": { "nodeSelector": { "zone": "a" } }, "metadata": { "labels": { "injected": "yes" } } } } } } });
    stage.change_job("pi", inject).await;
    let resumed: Job = stage.until("pi-launcher", "was resumed", |launcher| !suspended(launcher)).await;
    let template = resumed.spec.unwrap().template;
    assert_eq!(template.spec.unwrap().node_selector.unwrap()["zone"], "a");
    assert_eq!(template.metadata.unwrap().labels.unwrap()["injected"], "yes");
    stage.bring_up("pi", 2).await;

    stage.change_job("pi", json!({ "spec": { "runPolicy": { "suspend": true } } })).await;
    stage.until("pi-launcher", "was suspended again", suspended).await;
    stage.until_gone::<Pod>("pi-worker-0").await;
    stage.until_gone::<Pod>("pi-worker-1").await;
    let status = stage.until_true("pi", "Suspended").await;
    assert!(!plan::is_true(&status, "Running"));
    assert_eq!(status.phase_reason.as_deref(), Some("Suspended"));
}

#[tokio::test]
async fn a_job_that_cannot_run_says_so_and_goes_on_once_mended() {
    let stage = Stage::new().await;
    let _operator = stage.operate();
    let mut refused = job("pi", 1, json!({}));
    refused["metadata"]["annotations"] =
        json!({ "training.opendatahub.io/launch": "rsh", "training.opendatahub.io/start-timeout": "soon" });
    stage.submit(&refused).await;
    let status = stage.until_true("pi", "Failed").await;
    let failed = plan::condition(&status, "Failed").unwrap();
    assert_eq!(failed.reason.as_deref(), Some("ValidationError"));
    let message = failed.message.as_deref().unwrap();
    assert!(message.contains("\"rsh\"") && message.contains("\"soon\""), "every fault: {message}");
    stage.until_event("pi", "ValidationError").await;
    assert_eq!(stage.names::<Pod>().await, Vec::<String>::new());

    let mended = json!({ "metadata": { "annotations": {
        "training.opendatahub.io/launch": "ssh", "training.opendatahub.io/start-timeout": "2m" } } });
    stage.change_job("pi", mended).await;
    stage.bring_up("pi", 1).await;
    let job: MPIJob = stage.api().get("pi").await.unwrap();
    assert!(!plan::is_true(&job.status.unwrap(), "Failed"));
}

#[tokio::test]
async fn a_job_of_another_manager_is_left_alone() {
    let stage = Stage::new().await;
    let operator = stage.operate();
    stage.submit(&job("other", 1, json!({ "managedBy": "kueue.x-k8s.io/multikueue" }))).await;
    stage.submit(&job("ours", 1, json!({}))).await;
    stage.bring_up("ours", 1).await;
    let other: MPIJob = stage.api().get("other").await.unwrap();
    assert_eq!(other.status, None);
    assert!(!operator.gate.requests().iter().any(|request| request.contains("other")));
}

#[tokio::test]
async fn without_the_definition_the_operator_says_what_to_install() {
    let stage = Stage::bare().await;
    let mut operator = stage.operate();
    let error = (&mut operator.task).await.unwrap().unwrap_err();
    assert!(error.to_string().contains("install deploy/crd/kubeflow.org_mpijobs.yaml"), "{error}");
}
