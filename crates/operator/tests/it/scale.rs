//! Many Workers at once, and more and fewer while the job runs.

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use serde_json::json;

use crate::stage::{Stage, job};

#[tokio::test]
async fn a_hundred_workers_are_made_at_once() {
    let stage = Stage::new().await;
    let operator = stage.operate();
    stage.submit(&job("big", 100, json!({}))).await;
    for index in 0..100 {
        stage.until::<Pod>(&plan::worker_name("big", index), "came", |_| true).await;
    }
    let created = |kind: &str| {
        operator
            .gate
            .requests()
            .iter()
            .filter(|call| call.starts_with("POST") && call.ends_with(kind))
            .count()
    };
    assert_eq!(created("/pods"), 100, "none is asked for twice");
    let most = operator.gate.most_in_flight();
    assert!((32..=64).contains(&most), "{most} writes at once");
}

#[tokio::test]
async fn the_hostfile_and_the_workers_follow_the_count() {
    let stage = Stage::new().await;
    let _operator = stage.operate();
    stage.submit(&job("pi", 2, json!({}))).await;
    stage.bring_up("pi", 2).await;
    let scale = |count: usize| json!({ "spec": { "mpiReplicaSpecs": { "Worker": { "replicas": count } } } });
    let lines = |count: usize| {
        move |config: &ConfigMap| config.data.as_ref().unwrap()["hostfile"].lines().count() == count
    };
    stage.change_job("pi", scale(4)).await;
    stage.until("pi-config", "named four hosts", lines(4)).await;
    stage.start_worker("pi", 2).await;
    stage.start_worker("pi", 3).await;
    stage.change_job("pi", scale(1)).await;
    stage.until("pi-config", "named one host", lines(1)).await;
    for index in 1..4 {
        stage.until_gone::<Pod>(&plan::worker_name("pi", index)).await;
    }
    let status = stage.until_true("pi", "Running").await;
    assert!(!plan::is_true(&status, "Failed"));
    assert_eq!(stage.names::<Pod>().await, ["pi-launcher-pod", "pi-worker-0"]);
}
