//! Names that are taken.

use api::MPIJob;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Pod, Secret, Service};
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use crate::stage::{Stage, ended, job};

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

#[tokio::test]
async fn no_worker_is_made_for_a_launcher_whose_name_is_taken() {
    let stages = Stage::new().await;
    for policy in ["AtStartup", "WaitForWorkersReady"] {
        let stage = stages.in_namespace(&policy.to_lowercase()).await;
        let _operator = stage.operate();
        let stranger = json!({ "metadata": { "name": "pi-launcher" }, "spec": { "suspend": true, "template": {
            "spec": { "restartPolicy": "Never", "containers": [{ "name": "main", "image": "i" }] } } } });
        let stranger: Job = serde_json::from_value(stranger).unwrap();
        stage.api::<Job>().create(&PostParams::default(), &stranger).await.unwrap();
        let mut job = job("pi", 2, json!({}));
        job["spec"]["launcherCreationPolicy"] = json!(policy);
        stage.submit(&job).await;
        let repeated = |event: &Event| event.count.is_some_and(|count| count > 1);
        stage.until_event_is("pi", "ErrResourceExists", repeated).await;
        assert_eq!(stage.names::<Pod>().await, Vec::<String>::new(), "{policy}");
        stage.api::<Job>().delete("pi-launcher", &DeleteParams::background()).await.unwrap();
        for index in 0..2 {
            stage.start_worker("pi", index).await;
        }
        // Only then does the Job controller create a pod.
        let may_start = |job: &Job| job.spec.as_ref().is_some_and(|spec| spec.suspend != Some(true));
        stage.until::<Job>("pi-launcher", "may start", may_start).await;
        stage.start_launcher("pi").await;
        stage.until_true("pi", "Running").await;
    }
}

#[tokio::test]
async fn a_job_holds_nothing_while_a_workers_name_is_taken() {
    let stage = Stage::new().await;
    let _operator = stage.operate();
    let stranger = json!({ "metadata": { "name": "pi-worker-1" },
        "spec": { "containers": [{ "name": "main", "image": "i" }] } });
    let stranger: Pod = serde_json::from_value(stranger).unwrap();
    stage.api::<Pod>().create(&PostParams::default(), &stranger).await.unwrap();
    stage.submit(&job("pi", 3, json!({}))).await;
    stage.until_event("pi", "ErrResourceExists").await;
    stage.until_none::<Pod>().await;
    stage.until_none::<Job>().await;
    stage.api::<Pod>().delete("pi-worker-1", &DeleteParams::default().grace_period(0)).await.unwrap();
    stage.bring_up("pi", 3).await;
}

#[tokio::test]
async fn a_job_that_is_deleted_and_created_again_waits_for_the_first_ones_pods_and_runs() {
    let stage = Stage::new().await;
    let _operator = stage.operate();
    stage.submit(&job("pi", 2, json!({}))).await;
    stage.bring_up("pi", 2).await;
    // Nothing collects garbage here: what the first job owns stays until the test removes it.
    stage.api::<MPIJob>().delete("pi", &DeleteParams::background()).await.unwrap();
    stage.until_gone::<MPIJob>("pi").await;
    stage.submit(&job("pi", 2, json!({}))).await;
    stage.until_event("pi", "DeletedJobTerminating").await;
    let pods = stage.names::<Pod>().await;
    // A Worker of the first job fails as it ends, which says nothing about the second.
    stage.set_pod("pi-worker-1", ended("main", "Failed", 143)).await;
    for name in &pods {
        stage.api::<Pod>().delete(name, &DeleteParams::default().grace_period(0)).await.unwrap();
    }
    stage.api::<Job>().delete("pi-launcher", &DeleteParams::background()).await.unwrap();
    stage.api::<Service>().delete("pi", &DeleteParams::default()).await.unwrap();
    stage.api::<ConfigMap>().delete("pi-config", &DeleteParams::default()).await.unwrap();
    stage.api::<Secret>().delete("pi-ssh", &DeleteParams::default()).await.unwrap();
    stage.bring_up("pi", 2).await;
    let status = stage.until_true("pi", "Running").await;
    assert!(status.failure.is_none() && status.waiting.is_none(), "{status:?}");
}
