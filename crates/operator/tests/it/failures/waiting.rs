//! What a job waits for, and how seldom it is asked for.

use api::MPIJob;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Node, Pod, Secret};
use kube::api::{Api, DeleteParams, PostParams};
use semantics::local_nodes;
use serde_json::json;

use super::job_of;
use crate::gate::Gate;
use crate::stage::{Stage, job, running, without_gpus};

#[tokio::test]
async fn a_node_is_asked_for_once_for_all_pods_that_wait_at_a_readiness_gate() {
    let stage = Stage::new().await;
    let nodes: Api<Node> = Api::all(stage.client.clone());
    let node = json!({ "metadata": { "name": "node" }, "status": { "conditions": [{ "type": "Ready", "status": "True" }] } });
    nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
    let operator = stage.operate();
    for name in ["one", "two"] {
        let mut gated = job_of(2, name, "node");
        gated["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["nodeName"] = json!("node");
        stage.submit(&gated).await;
        for index in 0..2 {
            let worker = plan::worker_name(name, index);
            stage.until::<Pod>(&worker, "came", |_| true).await;
            let mut status = running("main");
            status["conditions"] =
                json!([{ "type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z" }]);
            stage.set_pod(&worker, status).await;
        }
        stage.start_launcher(name).await;
        stage.until_true(name, "Running").await;
    }
    let asked =
        operator.gate.requests().iter().filter(|request| *request == "GET /api/v1/nodes/node").count();
    assert_eq!(asked, 1, "{:#?}", operator.gate.requests());
}

#[tokio::test]
async fn a_job_in_plain_mode_says_what_does_not_hold_without_a_write_of_its_own() {
    let stage = Stage::new().await;
    let operator = stage.operate();
    let mut plain = job("pi", 1, json!({}));
    for kind in ["Launcher", "Worker"] {
        plain["spec"]["mpiReplicaSpecs"][kind]["template"]["metadata"] =
            json!({ "annotations": { local_nodes::ANNOTATION_NODE_MODE: local_nodes::PLAIN_MODE } });
    }
    stage.submit(&plain).await;
    stage.bring_up("pi", 1).await;
    let status = stage.until_true("pi", api::CONDITION_LIMITS_NOT_ENFORCED).await;
    let condition = plan::condition(&status, api::CONDITION_LIMITS_NOT_ENFORCED).unwrap();
    assert!(condition.message.as_ref().unwrap().contains("without isolation"), "{condition:?}");
    let is_status = |request: &&String| request.starts_with("PATCH") && request.ends_with("/status");
    let writes = operator.gate.requests().iter().filter(is_status).count();
    assert!(writes <= 2, "Created and Running: {:#?}", operator.gate.requests());
}

#[tokio::test]
async fn a_job_that_waits_for_gpus_says_how_many_there_are() {
    let stage = Stage::new().await;
    let nodes: Api<Node> = Api::all(stage.client.clone());
    for name in ["a", "b", "c"] {
        let node = json!({ "metadata": { "name": name }, "status": { "allocatable": { "nvidia.com/gpu": "8" },
            "conditions": [{ "type": "Ready", "status": "True" }] } });
        nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
    }
    let _operator = stage.operate();
    let mut wanting = job("pi", 4, json!({}));
    wanting["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["resources"] =
        json!({ "limits": { "nvidia.com/gpu": 8 } });
    stage.submit(&wanting).await;
    stage.until::<Pod>("pi-worker-3", "came", |_| true).await;
    stage.set_pod("pi-worker-3", without_gpus()).await;
    let said = |job: &MPIJob| job.status.as_ref().is_some_and(|status| status.waiting.is_some());
    let waiting = stage.until("pi", "said what it waits for", said).await.status.unwrap().waiting.unwrap();
    assert_eq!(
        (waiting.reason.as_str(), waiting.message.as_str()),
        ("Unschedulable", "Insufficient GPUs: requested 32, available 24")
    );
    assert_eq!(waiting.gpus, Some(api::GpuCounts { requested: 32, available: 24 }));
    assert!(waiting.suggestion.is_some() && waiting.link.unwrap().ends_with("#unschedulable"));
}

#[tokio::test]
async fn gpus_are_counted_on_all_pages_and_once_for_all_jobs_that_wait() {
    let stage = Stage::new().await;
    let nodes: Api<Node> = Api::all(stage.client.clone());
    for index in 0..5 {
        let node = json!({ "metadata": { "name": format!("gpu-{index}") }, "status": {
            "allocatable": { "nvidia.com/gpu": "8" }, "conditions": [{ "type": "Ready", "status": "True" }] } });
        nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
    }
    let elsewhere = stage.in_namespace("elsewhere").await;
    for index in 0..5 {
        let pod = json!({ "metadata": { "name": format!("holder-{index}") }, "spec": {
            "nodeName": format!("gpu-{index}"), "containers": [{ "name": "main", "image": "i",
            "resources": { "limits": { "nvidia.com/gpu": "2" } } }] } });
        let pod = serde_json::from_value(pod).unwrap();
        elsewhere.api::<Pod>().create(&PostParams::default(), &pod).await.unwrap();
    }
    let gate = Gate::with_pages_of(2);
    let _operator = stage.operate_behind(gate.clone());
    for name in ["one", "two", "three"] {
        let mut wanting = job(name, 1, json!({}));
        wanting["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["resources"] =
            json!({ "limits": { "nvidia.com/gpu": 64 } });
        stage.submit(&wanting).await;
        let worker = format!("{name}-worker-0");
        stage.until::<Pod>(&worker, "came", |_| true).await;
        stage.set_pod(&worker, without_gpus()).await;
        let said = |job: &MPIJob| job.status.as_ref().is_some_and(|status| status.waiting.is_some());
        let waiting =
            stage.until(name, "said what it waits for", said).await.status.unwrap().waiting.unwrap();
        assert_eq!(waiting.message, "Insufficient GPUs: requested 64, available 30");
    }
    assert_eq!(gate.lists_of("/api/v1/nodes"), 1);
}

#[tokio::test]
async fn a_template_that_the_server_never_takes_fails_the_job() {
    let stage = Stage::new().await;
    let _operator = stage.operate();
    let mut refused = job("pi", 2, json!({}));
    let worker = &mut refused["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"];
    worker["containers"][0]["imagePullPolicy"] = json!("Sometimes");
    stage.submit(&refused).await;
    let status = stage.until_true("pi", "Failed").await;
    let failure = status.failure.unwrap();
    assert_eq!(failure.reason, "AdmissionRefused");
    assert!(failure.message.contains("imagePullPolicy"), "{failure:?}");
    assert!(status.completion_time.is_some());
    let stopped = |launcher: &Job| launcher.spec.as_ref().unwrap().suspend == Some(true);
    stage.until("pi-launcher", "was stopped", stopped).await;
}

#[tokio::test]
async fn a_secret_that_was_deleted_is_made_again_for_new_pods() {
    let stage = Stage::new().await;
    let _operator = stage.operate();
    stage.submit(&job("pi", 1, json!({}))).await;
    stage.bring_up("pi", 1).await;
    stage.change_job("pi", json!({ "spec": { "runPolicy": { "suspend": true } } })).await;
    stage.until_gone::<Pod>("pi-worker-0").await;
    stage.api::<Secret>().delete("pi-ssh", &DeleteParams::default()).await.unwrap();
    stage.change_job("pi", json!({ "spec": { "runPolicy": { "suspend": false } } })).await;
    stage.until::<Pod>("pi-worker-0", "came again", |_| true).await;
    let secret = stage.api::<Secret>().get("pi-ssh").await.unwrap();
    assert!(secret.data.unwrap().contains_key("ssh-privatekey"));
}
