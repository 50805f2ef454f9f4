//! Measures how many pods a second the API takes, in process, without controllers and node: creations, then status
//! updates by patch. Repeat with `cargo run --release -p cluster --example creates`.

#![expect(clippy::print_stdout, reason = "a measurement's outcome is its output")]

use std::time::Instant;

use cluster::{Cluster, Options};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;

const PODS: usize = 3000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let mut options = Options::new(folder.path());
    options.controllers = false;
    let cluster = Cluster::start(options).await?;
    let pods: Api<Pod> = Api::namespaced(cluster.client(), "default");
    pods.create(&PostParams::default(), &pod(PODS)?).await?;

    let began = Instant::now();
    for number in 0..PODS {
        pods.create(&PostParams::default(), &pod(number)?).await?;
    }
    say("creations", began);

    let began = Instant::now();
    for number in 0..PODS {
        let status = json!({"status": {"phase": "Running", "podIP": "10.0.0.1", "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
        let by = PatchParams { field_manager: Some("node".into()), ..PatchParams::default() };
        pods.patch_status(&format!("worker-{number}"), &by, &Patch::Strategic(status)).await?;
    }
    say("status patches", began);
    cluster.stop().await;
    Ok(())
}

fn say(what: &str, began: Instant) {
    println!("{what}: {:.0} a second", PODS as f64 / began.elapsed().as_secs_f64());
}

/// A Worker as the operator makes it.
fn pod(number: usize) -> Result<Pod, serde_json::Error> {
    serde_json::from_value(json!({
        "metadata": {"name": format!("worker-{number}"), "labels": {
            "training.kubeflow.org/job-name": "train", "training.kubeflow.org/replica-index": number.to_string(),
            "training.kubeflow.org/job-role": "worker", "training.kubeflow.org/operator-name": "mpi-operator"}},
        "spec": {
            "hostname": format!("worker-{number}"), "subdomain": "train", "restartPolicy": "Never",
            "initContainers": [{"name": "odh-launch", "image": "launch", "command": ["odh-launch", "install", "/opt/odh/launch"],
                "volumeMounts": [{"name": "odh-launch", "mountPath": "/opt/odh/launch"}]}],
            "containers": [{"name": "worker", "image": "image", "command": ["/opt/odh/launch/odh-launch", "serve"],
                "env": [{"name": "K_MPI_JOB_ROLE", "value": "worker"}, {"name": "ODH_LAUNCH_KEY", "value": "/root/.ssh/id_rsa"}],
                "resources": {"limits": {"cpu": "1", "memory": "64Mi"}, "requests": {"cpu": "1", "memory": "64Mi"}},
                "readinessProbe": {"exec": {"command": ["/opt/odh/launch/odh-launch", "ready"]}, "periodSeconds": 1},
                "volumeMounts": [{"name": "ssh-auth", "mountPath": "/root/.ssh"}, {"name": "odh-launch", "mountPath": "/opt/odh/launch"}]}],
            "volumes": [{"name": "odh-launch", "emptyDir": {}},
                {"name": "ssh-auth", "secret": {"secretName": "train-ssh", "defaultMode": 384,
                    "items": [{"key": "ssh-privatekey", "path": "id_rsa"}]}}]
        }
    }))
}
