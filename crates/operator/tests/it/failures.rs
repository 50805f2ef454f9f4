//! Failures of Workers and of the Launcher, and names that are taken.

use api::MPIJob;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Node, Pod, ResourceQuota, Secret, Service};
use kube::api::{Api, DeleteParams, PostParams};
use semantics::local_nodes;
use serde_json::json;

use crate::gate::Gate;
use crate::stage::{Stage, ended, job, running, without_gpus};

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

const OUTPUT: &str = "rank 0 of 2 on pi-worker-0
rank 1: the data set /data/train.csv is missing, giving up
--------------------------------------------------------------------------
mpirun detected that one or more processes exited with non-zero status, thus causing
the job to be terminated. The first process to do so was:

  Process name: [[23141,1],1]
  Exit code:    3
--------------------------------------------------------------------------
";

/// Returns a job whose Launcher runs on a node.
fn job_on(node: &str) -> serde_json::Value {
    job_of(2, "pi", node)
}

fn job_of(workers: usize, name: &str, node: &str) -> serde_json::Value {
    let mut job = job(name, workers, json!({ "backoffLimit": 0 }));
    job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["nodeName"] = json!(node);
    job
}

/// Ends the Launcher with exit code 3, and then its Job.
async fn fail_launcher(stage: &Stage) {
    fail_launcher_of(stage, "pi").await;
}

async fn fail_launcher_of(stage: &Stage, job: &str) {
    stage.set_pod(&format!("{job}-launcher-pod"), ended("main", "Failed", 3)).await;
    fail_launchers_job(stage, job).await;
}

async fn fail_launchers_job(stage: &Stage, job: &str) {
    let condition = |type_: &str| json!({ "type": type_, "status": "True", "reason": "BackoffLimitExceeded", "message": "no more retries" });
    let status = json!({ "failed": 1, "startTime": "2026-01-01T00:00:00Z",
        "conditions": [condition("FailureTarget"), condition("Failed")] });
    stage.set_job(&plan::launcher_name(job), status).await;
}

#[tokio::test]
async fn a_failure_is_explained_by_what_the_launcher_printed_and_recorded() {
    let stage = Stage::new().await;
    stage.add_node("node", Some(OUTPUT));
    let operator = stage.operate();
    stage.submit(&job_on("node")).await;
    stage.bring_up("pi", 2).await;
    fail_launcher(&stage).await;
    let failure = stage.until_true("pi", "Failed").await.failure.unwrap();
    assert_eq!(
        (failure.reason.as_str(), failure.exit_code, failure.worker, failure.pod.as_deref()),
        ("RankExited", Some(3), Some(1), Some("pi-launcher-pod")),
        "{failure:?}"
    );
    assert!(failure.link.unwrap().ends_with("#rankexited"));
    let record: ConfigMap = stage.api().get("pi-attempt-1").await.unwrap();
    let data = record.data.unwrap();
    let value = |key: &str| data.get(key).map(String::as_str);
    assert_eq!(
        (value("reason"), value("exitCode"), value("worker"), value("launcher.log")),
        (Some("RankExited"), Some("3"), Some("1"), Some(OUTPUT))
    );
    let reads = operator.gate.requests().iter().filter(|request| request.contains("/log")).count();
    assert_eq!(reads, 1, "{:#?}", operator.gate.requests());
}

#[tokio::test]
async fn a_node_that_gives_no_log_does_not_keep_a_job_from_failing() {
    let stage = Stage::new().await;
    stage.add_node("node", None);
    let _operator = stage.operate();
    stage.submit(&job_on("node")).await;
    stage.bring_up("pi", 2).await;
    fail_launcher(&stage).await;
    let failure = stage.until_true("pi", "Failed").await.failure.unwrap();
    assert_eq!((failure.reason.as_str(), failure.exit_code), ("RankExited", Some(3)), "{failure:?}");
}

#[tokio::test]
async fn jobs_whose_logs_never_come_do_not_delay_other_jobs() {
    let stage = Stage::new().await;
    stage.add_node("node", None);
    let _operator = stage.operate();
    let silent: Vec<String> = (0..40).map(|number| format!("silent-{number}")).collect();
    for name in &silent {
        stage.submit(&job_of(1, name, "node")).await;
        stage.bring_up(name, 1).await;
    }
    futures::future::join_all(silent.iter().map(|name| fail_launcher_of(&stage, name))).await;
    stage.submit(&job("pi", 1, json!({}))).await;
    stage.until::<Job>("pi-launcher", "came", |_| true).await;
    for name in &silent {
        let job: MPIJob = stage.api().get(name).await.unwrap();
        assert!(!plan::is_true(&job.status.unwrap(), "Failed"), "{name} waits for its log");
    }
}

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
async fn a_hundred_workers_are_diagnosed_by_one_log() {
    let stage = Stage::new().await;
    stage.add_node("node", Some(OUTPUT));
    let operator = stage.operate();
    let mut many = job_on("node");
    many["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] = json!(100);
    stage.submit(&many).await;
    stage.bring_up("pi", 100).await;
    let reads = || operator.gate.requests().iter().filter(|request| request.contains("/log")).count();
    assert_eq!(reads(), 0, "a job that starts as it should is read of in no log");
    fail_launcher(&stage).await;
    let failure = stage.until_true("pi", "Failed").await.failure.unwrap();
    assert_eq!((failure.reason.as_str(), failure.worker), ("RankExited", Some(1)), "{failure:?}");
    assert_eq!(reads(), 1, "{:#?}", operator.gate.requests());
}

#[tokio::test]
async fn agents_are_asked_only_where_a_program_ran_that_said_nothing_of_it() {
    let stage = Stage::new().await;
    // Launcher and Workers have the same log here, as of agents that nobody has called.
    stage.add_node("node", Some("odh-launch: serving on [::]:7222\nloss 0.1\n"));
    let operator = stage.operate();
    for (name, launch, reads) in [("by-agent", "agent", 3), ("by-ssh", "ssh", 1)] {
        let mut silent = job(name, 2, json!({}));
        silent["metadata"]["annotations"] = json!({ api::ANNOTATION_LAUNCH: launch });
        for kind in ["Launcher", "Worker"] {
            silent["spec"]["mpiReplicaSpecs"][kind]["template"]["spec"]["nodeName"] = json!("node");
        }
        stage.submit(&silent).await;
        stage.bring_up(name, 2).await;
        stage.complete_launcher(name).await;
        let status = stage.until_true(name, "Succeeded").await;
        let world = plan::condition(&status, api::CONDITION_WORLD_VERIFIED);
        let told = world.map(|world| (world.status.as_str(), world.reason.as_deref()));
        assert_eq!(told, (launch == "agent").then_some(("False", Some(api::REASON_COLLAPSED))));
        let path = format!("/pods/{name}-");
        let requests = operator.gate.requests();
        let logs = requests.iter().filter(|request| request.contains(&path) && request.contains("/log"));
        assert_eq!(logs.count(), reads, "{requests:#?}");
    }
}

#[tokio::test]
async fn an_agent_that_never_logs_the_end_of_a_call_does_not_keep_a_job_from_succeeding() {
    let stage = Stage::new().await;
    stage.add_node("node", Some("odh-launch: serving on [::]:7222\nodh-launch: session 1 begins\n"));
    let operator = stage.operate();
    let mut busy = job("pi", 2, json!({}));
    busy["metadata"]["annotations"] = json!({ api::ANNOTATION_LAUNCH: "agent" });
    for kind in ["Launcher", "Worker"] {
        busy["spec"]["mpiReplicaSpecs"][kind]["template"]["spec"]["nodeName"] = json!("node");
    }
    stage.submit(&busy).await;
    stage.bring_up("pi", 2).await;
    stage.complete_launcher("pi").await;
    stage.until_true("pi", "Succeeded").await;
    let requests = operator.gate.requests();
    let logs = requests.iter().filter(|request| request.contains("/log")).count();
    assert_eq!(logs, 1 + 2 * 10, "the Launcher's log once, and each agent's ten times: {requests:#?}");
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
