//! Progress, where the watches of a job and of its pods are not at the same point.

use std::time::Duration;

use api::MPIJob;
use jobs::Kind;
use jobs::progress::{self, Outcome, Progress};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::stage::{Stage, TEAM};

/// The longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn the_launcher_is_seen_even_where_the_job_ends_before_the_watch_shows_its_pod() {
    let stage = Stage::new().await;
    stage.define_mpijob().await;
    let client = stage.client.clone();
    let jobs: Api<MPIJob> = Api::namespaced(client.clone(), TEAM);
    let container = json!({ "name": "c", "image": "x" });
    let template = json!({ "spec": { "containers": [container] } });
    let job = json!({
        "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": { "name": "pi" },
        "spec": { "mpiReplicaSpecs": {
            "Launcher": { "replicas": 1, "template": template }, "Worker": { "replicas": 1, "template": template },
        } },
    });
    jobs.create(&PostParams::default(), &serde_json::from_value(job).unwrap()).await.unwrap();

    let behind = stage.client_without_pod_watches();
    let mut watch = progress::watch(&behind, Kind::MpiJob, TEAM, "pi");
    let first = tokio::time::timeout(PATIENCE, watch.next()).await.unwrap().unwrap();
    assert_eq!(first, Some(Progress::Accepted));

    let pods: Api<Pod> = Api::namespaced(client, TEAM);
    let labels =
        json!({ "training.kubeflow.org/job-name": "pi", "training.kubeflow.org/job-role": "launcher" });
    let pod = json!({ "metadata": { "name": "pi-launcher-x", "labels": labels }, "spec": { "containers": [container] } });
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    let ended = json!({ "terminated": { "exitCode": 0 } });
    let container = json!({ "name": "c", "image": "x", "imageID": "", "ready": false, "restartCount": 0, "state": ended });
    let status = json!({ "status": { "phase": "Succeeded", "containerStatuses": [container] } });
    pods.patch_status("pi-launcher-x", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    let succeeded = json!({ "type": "Succeeded", "status": "True" });
    let status = json!({ "status": { "conditions": [succeeded], "phase": "Succeeded" } });
    jobs.patch_status("pi", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();

    let mut news = Vec::new();
    while let Some(progress) = tokio::time::timeout(PATIENCE, watch.next()).await.unwrap().unwrap() {
        news.push(progress);
    }
    let launcher = Progress::LauncherRunning { pod: "pi-launcher-x".to_owned() };
    assert_eq!(news, [launcher, Progress::Ended(Outcome::Succeeded)]);
}
