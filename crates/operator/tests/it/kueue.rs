//! Kueue's contract (`kubernetes-sigs/kueue`, `pkg/controller/jobs/mpijob` and `pkg/podset`), field by field: what
//! it writes into a suspended job reaches every pod, and what it reads from a job is there when it waits for it.

use api::{MPIJob, MPIJobStatus};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::stage::{Stage, ended, job};

const QUEUE: &str = "kueue.x-k8s.io/queue-name";
const PRIORITY: &str = "kueue.x-k8s.io/priority-class";

/// A job as Kueue's webhook leaves it: in a queue and suspended.
fn queued(workers: usize) -> Value {
    let mut queued = job("pi", workers, json!({ "suspend": true, "cleanPodPolicy": "Running" }));
    queued["metadata"]["labels"] = json!({ QUEUE: "team-queue", PRIORITY: "high" });
    for role in ["Launcher", "Worker"] {
        let template = &mut queued["spec"]["mpiReplicaSpecs"][role]["template"];
        template["metadata"] =
            json!({ "labels": { "own": "label" }, "annotations": { "own": "annotation" } });
        template["spec"]["nodeSelector"] = json!({ "own": "node" });
    }
    queued
}

/// What Kueue merges into a template when it admits a job with a flavour and a topology (`podset.Merge`).
fn injected(pod_set: &str) -> Value {
    json!({ "template": {
        "metadata": {
            "labels": { "own": "label", "kueue.x-k8s.io/podset": pod_set, "kueue.x-k8s.io/tas": "true" },
            "annotations": { "own": "annotation", "kueue.x-k8s.io/workload": "mpijob-pi-1a2b3", "kueue.x-k8s.io/pod-index-offset": "1" },
        },
        "spec": {
            "nodeSelector": { "own": "node", "flavour": "gpu" },
            "tolerations": [{ "key": "gpu", "operator": "Exists", "effect": "NoSchedule" }],
            "schedulingGates": [{ "name": "kueue.x-k8s.io/topology" }],
        },
    } })
}

/// Returns the injected fields that a pod or a template has.
fn carried(template: &PodTemplateSpec) -> Value {
    let (metadata, pod) = (template.metadata.clone().unwrap(), template.spec.clone().unwrap());
    let names = ["own", "kueue.x-k8s.io/podset", "kueue.x-k8s.io/tas"];
    let mut labels = metadata.labels.unwrap_or_default();
    labels.retain(|name, _| names.contains(&name.as_str()));
    let tolerations = pod.tolerations.unwrap_or_default();
    let tolerations: Vec<_> =
        tolerations.into_iter().filter(|one| one.key.as_deref() == Some("gpu")).collect();
    json!({ "template": {
        "metadata": { "labels": labels, "annotations": metadata.annotations },
        "spec": { "nodeSelector": pod.node_selector, "tolerations": tolerations, "schedulingGates": pod.scheduling_gates },
    } })
}

/// As Kueue's `IsActive`: Kueue releases the quota once no replica is active.
fn is_active(status: &MPIJobStatus) -> bool {
    status.replica_statuses.values().any(|counts| counts.active.unwrap_or(0) != 0)
}

fn template_of(pod: Pod) -> PodTemplateSpec {
    PodTemplateSpec { metadata: Some(pod.metadata), spec: pod.spec }
}

async fn admit(stage: &Stage) {
    let admitted = json!({ "spec": { "runPolicy": { "suspend": false },
        "mpiReplicaSpecs": { "Launcher": injected("launcher"), "Worker": injected("worker") } } });
    stage.change_job("pi", admitted).await;
}

/// Submits a job of two Workers that waits in its queue, and admits it.
async fn submit_and_admit(stage: &Stage) {
    stage.submit(&queued(2)).await;
    stage.until_true("pi", "Suspended").await;
    admit(stage).await;
}

#[tokio::test]
async fn a_queued_job_holds_nothing_and_says_so() {
    let stage = Stage::new().await;
    let _operator = stage.operate();
    stage.submit(&queued(2)).await;
    let status = stage.until_true("pi", "Suspended").await;
    assert!(!is_active(&status), "{status:?}");
    assert!(!plan::is_true(&status, "Running") && status.start_time.is_none(), "{status:?}");
    assert_eq!(status.phase_reason.as_deref(), Some("Queued"));
    assert_eq!(stage.names::<Pod>().await, Vec::<String>::new());
    let launcher: Job = stage.until("pi-launcher", "came", |_| true).await;
    assert_eq!(launcher.spec.unwrap().suspend, Some(true));
    // The Launcher's Job belongs to the MPIJob: if it were in a queue itself, Kueue would count it twice.
    assert_eq!(launcher.metadata.labels.unwrap().get(QUEUE), None);
    let job: MPIJob = stage.api().get("pi").await.unwrap();
    let labels = job.metadata.labels.unwrap();
    assert_eq!((labels[QUEUE].as_str(), labels[PRIORITY].as_str()), ("team-queue", "high"), "are carried");
}

#[tokio::test]
async fn all_that_admission_injects_reaches_launcher_and_workers() {
    let stage = Stage::new().await;
    let _operator = stage.operate();
    submit_and_admit(&stage).await;
    let resumed = |launcher: &Job| launcher.spec.as_ref().unwrap().suspend == Some(false);
    let launcher: Job = stage.until("pi-launcher", "was resumed", resumed).await;
    assert_eq!(carried(&launcher.spec.unwrap().template), injected("launcher"));
    for index in 0..2 {
        let worker: Pod = stage.until(&plan::worker_name("pi", index), "came", |_| true).await;
        // Topology-aware scheduling ranks the pods by this label.
        assert_eq!(worker.metadata.labels.as_ref().unwrap()[api::LABEL_REPLICA_INDEX], index.to_string());
        assert_eq!(carried(&template_of(worker)), injected("worker"));
    }
}

#[tokio::test]
async fn pods_are_ready_when_running_is_true_and_the_end_is_told() {
    let stage = Stage::new().await;
    let _operator = stage.operate();
    submit_and_admit(&stage).await;
    stage.start_worker("pi", 0).await;
    stage.start_worker("pi", 1).await;
    let job: MPIJob = stage.api().get("pi").await.unwrap();
    assert!(!plan::is_true(&job.status.unwrap(), "Running"), "the launcher does not run yet");
    stage.start_launcher("pi").await;
    let status = stage.until_true("pi", "Running").await;
    assert!(is_active(&status), "{status:?}");
    assert!(!plan::is_true(&status, "Suspended"));
    stage.complete_launcher("pi").await;
    let status = stage.until_true("pi", "Succeeded").await;
    assert!(!is_active(&status), "{status:?}");
    assert!(plan::condition(&status, "Succeeded").unwrap().message.is_some(), "Kueue copies it");
}

#[tokio::test]
async fn eviction_by_the_queue_gives_the_quota_back_and_restores_the_templates() {
    let stage = Stage::new().await;
    let _operator = stage.operate();
    submit_and_admit(&stage).await;
    stage.bring_up("pi", 2).await;
    let restored = json!({ "template": {
        "metadata": { "labels": { "kueue.x-k8s.io/podset": null, "kueue.x-k8s.io/tas": null },
            "annotations": { "kueue.x-k8s.io/workload": null, "kueue.x-k8s.io/pod-index-offset": null } },
        "spec": { "nodeSelector": { "flavour": null }, "tolerations": null, "schedulingGates": null },
    } });
    let evict = json!({ "spec": { "runPolicy": { "suspend": true } } });
    stage.change_job("pi", evict).await;
    stage
        .change_job(
            "pi",
            json!({ "spec": { "mpiReplicaSpecs": { "Launcher": restored, "Worker": restored } } }),
        )
        .await;
    stage.until_gone::<Pod>("pi-worker-0").await;
    stage.until_gone::<Pod>("pi-worker-1").await;
    stage.api::<Pod>().delete("pi-launcher-pod", &DeleteParams::default().grace_period(0)).await.unwrap();
    let inactive = |job: &MPIJob| job.status.as_ref().is_some_and(|status| !is_active(status));
    let job: MPIJob = stage.until("pi", "was inactive", inactive).await;
    let status = job.status.unwrap();
    let running = plan::condition(&status, "Running").unwrap();
    assert_eq!((running.status.as_str(), running.reason.as_deref()), ("False", Some("MPIJobSuspended")));
    // When the job is admitted again it runs as it was written, with the new flavour and nothing of the old one.
    stage.change_job("pi", json!({ "spec": { "runPolicy": { "suspend": false },
        "mpiReplicaSpecs": { "Worker": { "template": { "spec": { "nodeSelector": { "flavour": "cpu" } } } } } } })).await;
    let worker: Pod = stage.until("pi-worker-0", "came again", |_| true).await;
    let spec = worker.spec.unwrap();
    assert_eq!(json!(spec.node_selector), json!({ "own": "node", "flavour": "cpu" }));
    assert_eq!(spec.scheduling_gates, None);
    let launcher: Job = stage
        .until("pi-launcher", "was resumed", |job: &Job| job.spec.as_ref().unwrap().suspend == Some(false))
        .await;
    let template = launcher.spec.unwrap().template;
    assert_eq!(json!(template.spec.as_ref().unwrap().node_selector), json!({ "own": "node" }));
    assert_eq!(template.spec.unwrap().scheduling_gates, None);
}

#[tokio::test]
async fn a_failure_is_told_only_when_nothing_runs_on() {
    let stage = Stage::new().await;
    let _operator = stage.operate();
    submit_and_admit(&stage).await;
    stage.bring_up("pi", 2).await;
    let evicted = json!({ "phase": "Failed", "reason": "Evicted", "message": "low on memory" });
    stage.set_pod("pi-launcher-pod", ended("main", "Failed", 205)).await;
    stage.set_pod("pi-worker-0", evicted).await;
    let status = stage.until_true("pi", "Failed").await;
    assert!(status.completion_time.is_some(), "upstream's MPIJobEvicted has none, while its pods run on");
    stage.until_gone::<Pod>("pi-worker-1").await;
    stage
        .until("pi-launcher", "was stopped", |job: &Job| job.spec.as_ref().unwrap().suspend == Some(true))
        .await;
}
