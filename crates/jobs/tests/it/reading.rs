//! Counts and events of a large or busy cluster, and kinds that it serves in other versions or not at all.

use std::time::Duration;

use api::MPIJob;
use jobs::asked::Request;
use jobs::availability::{Start, availability};
use jobs::list::{Selection, get, rows};
use jobs::{Kind, asked, detail, explanation, preflight, submit};
use semantics::local_images::ID_OF_THE_MACHINE;
use serde_json::{Value, json};

use crate::stage::{Stage, TEAM};

/// How long a test waits for a preflight.
const PATIENCE: Duration = Duration::from_secs(60);

fn job(name: &str, workers: usize, gpus: u64) -> Value {
    let template = |resources: Value| json!({ "spec": { "containers": [{ "name": "main", "image": "i", "resources": resources }] } });
    json!({ "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": { "name": name, "namespace": TEAM },
        "spec": { "mpiReplicaSpecs": { "Launcher": { "template": template(json!({})) }, "Worker": {
            "replicas": workers, "template": template(json!({ "limits": { "nvidia.com/gpu": gpus } })) } } } })
}

async fn judged(stage: &Stage, job: &Value) -> Vec<String> {
    let job: MPIJob = serde_json::from_value(job.clone()).unwrap();
    let found = preflight::preflight(&stage.client, TEAM, &[job], PATIENCE).await.unwrap();
    found.into_iter().map(|finding| finding.message).collect()
}

async fn define_mpi_jobs(stage: &Stage) {
    stage.define("kubeflow.org/v2beta1", "MPIJob", "mpijobs", "Namespaced").await;
}

/// Five nodes with eight GPUs each, two of which are held.
async fn five_nodes(stage: &Stage) {
    for index in 0..5 {
        let node = json!({ "metadata": { "name": format!("gpu-{index}") }, "status": {
            "allocatable": { "nvidia.com/gpu": "8", "pods": "110" },
            "conditions": [{ "type": "Ready", "status": "True" }] } });
        stage.create("v1", "Node", "nodes", node).await;
        let pod = json!({ "metadata": { "name": format!("holder-{index}"), "namespace": TEAM }, "spec": {
            "nodeName": format!("gpu-{index}"), "containers": [{ "name": "main", "image": "i",
            "resources": { "limits": { "nvidia.com/gpu": "2" } } }] } });
        stage.create("v1", "Pod", "pods", pod).await;
    }
}

#[tokio::test]
async fn free_resources_are_counted_on_all_pages() {
    let stage = Stage::new().await;
    define_mpi_jobs(&stage).await;
    five_nodes(&stage).await;
    let said = judged(&stage, &job("large", 5, 8)).await;
    assert!(said[0].starts_with("Requested 40 GPUs but only 30 available."), "{said:?}");
    assert_eq!(judged(&stage, &job("fits", 5, 6)).await, [""; 0]);
}

#[tokio::test]
async fn a_jobs_events_are_found_in_a_busy_namespace() {
    let stage = Stage::new().await;
    define_mpi_jobs(&stage).await;
    stage.create("kubeflow.org/v2beta1", "MPIJob", "mpijobs", job("zz", 2, 1)).await;
    let worker = json!({ "metadata": { "name": "zz-worker-0", "namespace": TEAM,
        "labels": { api::LABEL_JOB_NAME: "zz", api::LABEL_JOB_ROLE: "worker" } },
        "spec": { "containers": [{ "name": "main", "image": "i" }] } });
    stage.create("v1", "Pod", "pods", worker).await;
    let event = |name: String, kind: &str, about: &str, reason: &str| {
        json!({ "metadata": { "name": name, "namespace": TEAM }, "reason": reason, "message": "told",
            "type": "Warning", "involvedObject": { "kind": kind, "name": about, "namespace": TEAM } })
    };
    for index in 0..50 {
        let other = event(format!("aa.{index}"), "Pod", "aa-worker-0", "Other");
        stage.create("v1", "Event", "events", other).await;
    }
    let about = [("MPIJob", "zz"), ("Job", "zz-launcher"), ("Pod", "zz-worker-0"), ("Pod", "zz-worker-1")];
    for (number, (kind, name)) in about.into_iter().enumerate() {
        stage.create("v1", "Event", "events", event(format!("zz.{number}"), kind, name, "Ours")).await;
    }
    let found = detail::describe(&stage.client, Kind::MpiJob, TEAM, "zz").await.unwrap();
    let mut told: Vec<&str> = found.events.iter().map(|event| event.first.object.as_str()).collect();
    told.sort_unstable();
    assert_eq!(told, ["job/zz-launcher", "mpijob/zz", "pod/zz-worker-0"], "{:?}", found.events);
    assert_eq!(found.events.iter().map(|event| event.others + 1).sum::<usize>(), 4, "both Workers' events");
    let explained = explanation::explain_job(&stage.client, Kind::MpiJob, TEAM, "zz").await.unwrap();
    assert_eq!(explained.state, plan::Stage::Scheduling, "{explained:?}");
    let lists = stage.lists_of(&format!("/api/v1/namespaces/{TEAM}/events"));
    assert!(lists.len() < 40, "bounded: {lists:#?}");
}

#[tokio::test]
async fn an_image_that_was_not_mapped_is_named_with_the_failure() {
    let stage = Stage::with_mpijobs().await;
    stage.create("kubeflow.org/v2beta1", "MPIJob", "mpijobs", job("zz", 2, 1)).await;
    let failure =
        json!({ "reason": "ExecutableNotFound", "message": "no train", "suggestion": "put it there" });
    stage
        .status("zz", json!({ "phase": "Failed", "phaseReason": "ExecutableNotFound", "failure": failure }))
        .await;
    let advice = async || {
        let described = detail::describe(&stage.client, Kind::MpiJob, TEAM, "zz").await.unwrap();
        let detailed = detail::detail(&stage.client, Kind::MpiJob, TEAM, "zz").await.unwrap();
        let explained = explanation::explain_job(&stage.client, Kind::MpiJob, TEAM, "zz").await.unwrap();
        let advice = described.status.failure.unwrap().suggestion.unwrap();
        assert_eq!(detailed.description.status.failure.unwrap().suggestion.as_ref(), Some(&advice));
        assert_eq!(explained.advice.unwrap().text, advice);
        advice
    };
    assert_eq!(advice().await, "put it there");
    let image = "team/train:1";
    let ran = json!({ "name": "main", "image": image, "imageID": ID_OF_THE_MACHINE, "ready": false, "restartCount": 0,
        "state": { "terminated": { "exitCode": 1 } } });
    let worker = json!({ "metadata": { "name": "zz-worker-0", "namespace": TEAM,
            "labels": { api::LABEL_JOB_NAME: "zz", api::LABEL_JOB_ROLE: "worker" } },
        "spec": { "containers": [{ "name": "main", "image": image }] },
        "status": { "phase": "Failed", "containerStatuses": [ran] } });
    stage.create("v1", "Pod", "pods", worker).await;
    let named = advice().await;
    assert!(named.starts_with("First look at the image: \"team/train:1\" is not mapped"), "{named}");
    assert!(named.ends_with("put it there"), "{named}");
}

#[tokio::test]
async fn a_queue_is_read_in_the_served_version() {
    for version in ["v1beta1", "v1beta2"] {
        let stage = Stage::new().await;
        define_mpi_jobs(&stage).await;
        let api_version = format!("kueue.x-k8s.io/{version}");
        stage.define(&api_version, "LocalQueue", "localqueues", "Namespaced").await;
        let queue = json!({ "metadata": { "name": "gpus", "namespace": TEAM },
            "status": { "pendingWorkloads": 3, "admittedWorkloads": 1 } });
        stage.create(&api_version, "LocalQueue", "localqueues", queue).await;
        let mut queued = job("queued", 1, 1);
        queued["metadata"]["labels"] = json!({ api::LABEL_QUEUE_NAME: "gpus" });
        let said = judged(&stage, &queued).await;
        assert!(
            said[0].starts_with("workloads in the queue \"gpus\": 3 waiting, 1 running."),
            "{version}: {said:?}"
        );
        queued["metadata"]["labels"] = json!({ api::LABEL_QUEUE_NAME: "gone" });
        let said = judged(&stage, &queued).await;
        assert!(said[0].starts_with("queue \"gone\" not found in namespace \"team\""), "{version}: {said:?}");
    }
}

#[tokio::test]
async fn a_job_is_checked_even_if_its_queue_is_not_served() {
    let stage = Stage::new().await;
    define_mpi_jobs(&stage).await;
    five_nodes(&stage).await;
    let mut queued = job("large", 5, 8);
    queued["metadata"]["labels"] = json!({ api::LABEL_QUEUE_NAME: "gpus" });
    let said = judged(&stage, &queued).await;
    assert!(said[0].starts_with("Requested 40 GPUs but only 30 available."), "{said:?}");
    assert!(said[1].starts_with("the cluster has no Kueue"), "{said:?}");
}

#[tokio::test]
async fn a_train_job_has_as_many_nodes_as_its_runtime_says() {
    let stage = Stage::new().await;
    let trainer = "trainer.kubeflow.org/v1alpha1";
    stage.define(trainer, "TrainJob", "trainjobs", "Namespaced").await;
    stage.define(trainer, "TrainingRuntime", "trainingruntimes", "Namespaced").await;
    stage.define(trainer, "ClusterTrainingRuntime", "clustertrainingruntimes", "Cluster").await;
    let runtime = |nodes: u32| json!({ "mlPolicy": { "numNodes": nodes } });
    let shared = json!({ "metadata": { "name": "mpi" }, "spec": runtime(8) });
    stage.create(trainer, "ClusterTrainingRuntime", "clustertrainingruntimes", shared).await;
    let own = json!({ "metadata": { "name": "mpi", "namespace": TEAM }, "spec": runtime(4) });
    stage.create(trainer, "TrainingRuntime", "trainingruntimes", own).await;
    let ready = json!({ "jobsStatus": [{ "name": "node", "active": 1, "ready": 1 }, { "name": "launcher", "active": 1, "ready": 1 }] });
    let jobs = [
        ("a-shared", json!({ "runtimeRef": { "name": "mpi" } })),
        ("b-own", json!({ "runtimeRef": { "name": "mpi", "kind": "TrainingRuntime" } })),
        ("c-says", json!({ "runtimeRef": { "name": "mpi" }, "trainer": { "numNodes": 2 } })),
        ("d-unknown", json!({ "runtimeRef": { "name": "gone" } })),
    ];
    for (name, spec) in jobs {
        let job = json!({ "metadata": { "name": name, "namespace": TEAM }, "spec": spec, "status": ready });
        stage.create(trainer, "TrainJob", "trainjobs", job).await;
    }
    let selection = Selection { kind: Some(Kind::TrainJob), ..Selection::default() };
    let rows = rows(&stage.client, &selection).await.unwrap();
    let counts: Vec<(i32, i32)> = rows.iter().map(|row| (row.workers.running, row.workers.of)).collect();
    assert_eq!(counts, [(8, 8), (4, 4), (2, 2), (1, 1)]);
    let listed = jobs::runtime::runtimes(&stage.client, TEAM).await.unwrap();
    let listed: Vec<_> = listed.iter().map(|runtime| (runtime.reference.as_str(), runtime.nodes)).collect();
    assert_eq!(listed, [("mpi", Some(8)), ("trainingruntime/mpi", Some(4))]);
    let raw = get(&stage.client, Kind::TrainJob, TEAM, "a-shared").await.unwrap();
    assert!(raw.data.pointer("/spec/trainer").is_none(), "the object itself is as it was written");
}

#[tokio::test]
async fn availability_rests_on_nodes_queues_and_reported_progress() {
    let stage = Stage::new().await;
    define_mpi_jobs(&stage).await;
    five_nodes(&stage).await;
    let judge = async |job: &Value| {
        let job: MPIJob = serde_json::from_value(job.clone()).unwrap();
        let seen = preflight::snapshot(&stage.client, TEAM, PATIENCE).await;
        availability(&Request::of(&job), TEAM, &seen, jiff::Timestamp::now())
    };
    let found = judge(&job("fits", 5, 6)).await;
    assert_eq!((found.start, found.free.unwrap().gpus, found.requested.gpus), (Start::Now, 30, 30));
    assert_eq!(judge(&job("large", 5, 8)).await.start, Start::Later);

    let version = "kueue.x-k8s.io/v1beta2";
    stage.define(version, "LocalQueue", "localqueues", "Namespaced").await;
    stage.define(version, "ClusterQueue", "clusterqueues", "Cluster").await;
    stage.define(version, "Workload", "workloads", "Namespaced").await;
    let queue =
        json!({ "metadata": { "name": "gpus", "namespace": TEAM }, "spec": { "clusterQueue": "all" } });
    stage.create(version, "LocalQueue", "localqueues", queue).await;
    let resources = |field: &str, amount: u64| json!([{ "name": "f", "resources": [{ "name": "nvidia.com/gpu", field: amount }] }]);
    let all = json!({ "metadata": { "name": "all" },
        "spec": { "namespaceSelector": {}, "resourceGroups": [{ "flavors": resources("nominalQuota", 16) }] },
        "status": { "flavorsReservation": resources("total", 8) } });
    stage.create(version, "ClusterQueue", "clusterqueues", all).await;
    let mut running = job("running", 1, 8);
    running["metadata"]["labels"] = json!({ api::LABEL_QUEUE_NAME: "gpus" });
    running["metadata"]["annotations"] =
        json!({ "trainer.opendatahub.io/trainerStatus": "{\"estimatedRemainingSeconds\": 1200}" });
    running["status"] = json!({ "phase": "Running", "startTime": "2026-01-01T00:00:00Z" });
    stage.create("kubeflow.org/v2beta1", "MPIJob", "mpijobs", running).await;
    let mut queued = job("queued", 1, 8);
    queued["metadata"]["labels"] = json!({ api::LABEL_QUEUE_NAME: "gpus" });
    let found = judge(&queued).await;
    assert_eq!((found.start, found.queue.unwrap().free.unwrap().gpus), (Start::Now, 8));
    queued["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"] = 2.into();
    let found = judge(&queued).await;
    let expected = "Requested 16 GPUs but only 8 available in the queue \"gpus\". Estimated wait time: 15 to 25 minutes (from the progress of 1 running job)";
    assert_eq!(found.findings[0].message, expected);
}

#[tokio::test]
async fn jobs_of_other_kinds_are_judged_by_what_their_pods_request() {
    let stage = Stage::new().await;
    five_nodes(&stage).await;
    let (trainer, plural) = ("trainer.kubeflow.org/v1alpha1", "clustertrainingruntimes");
    stage.define(trainer, "ClusterTrainingRuntime", plural, "Cluster").await;
    let pod = |name: &str, gpus: u64| {
        let limits = json!({ "limits": { "nvidia.com/gpu": gpus } });
        json!({ "spec": { "containers": [{ "name": name, "image": "i", "resources": limits }] } })
    };
    let replicated = |name: &str, ancestor: &str, gpus: u64| {
        let labels = json!({ "trainer.kubeflow.org/trainjob-ancestor-step": ancestor });
        json!({ "name": name, "template": { "metadata": { "labels": labels }, "spec": { "template": pod(name, gpus) } } })
    };
    let mut node = replicated("node", "trainer", 8);
    node["dependsOn"] = json!([{ "name": "dataset-initializer", "status": "Complete" }]);
    let jobs = json!([replicated("dataset-initializer", "dataset-initializer", 8), node]);
    let runtime = json!({ "metadata": { "name": "torch" }, "spec": { "mlPolicy": { "numNodes": 3, "torch": {} },
        "template": { "spec": { "replicatedJobs": jobs } } } });
    stage.create(trainer, "ClusterTrainingRuntime", plural, runtime).await;
    let quota = json!({ "metadata": { "name": "jobs", "namespace": TEAM },
        "spec": { "hard": { "count/tfjobs.kubeflow.org": "2", "requests.nvidia.com/gpu": "24" } },
        "status": { "used": { "count/tfjobs.kubeflow.org": "2", "requests.nvidia.com/gpu": "0" } } });
    stage.create("v1", "ResourceQuota", "resourcequotas", quota).await;
    let judge = async |version: &str, kind: Kind, spec: Value| {
        let manifest =
            json!({ "apiVersion": version, "kind": kind.name(), "metadata": { "name": "a" }, "spec": spec });
        let drafts = submit::read(manifest.to_string().as_bytes(), "job.json").unwrap();
        let request = asked::request(&stage.client, TEAM, &drafts[0]).await;
        let seen = preflight::snapshot(&stage.client, TEAM, PATIENCE).await;
        let found = availability(&request, TEAM, &seen, jiff::Timestamp::now());
        let said: Vec<String> = found.findings.iter().map(|finding| finding.message.clone()).collect();
        (found.start, found.requested.gpus, said)
    };
    let none = Vec::<String>::new();
    let torch = |workers: u32, gpus: u64| {
        json!({ "pytorchReplicaSpecs": { "Master": { "template": pod("pytorch", gpus) },
            "Worker": { "replicas": workers, "template": pod("pytorch", gpus) } } })
    };
    let of_torch =
        async |workers, gpus| judge("kubeflow.org/v1", Kind::PyTorchJob, torch(workers, gpus)).await;
    assert_eq!(of_torch(3, 6).await, (Start::Now, 24, none.clone()));
    let (start, gpus, said) = of_torch(2, 8).await;
    assert_eq!((start, gpus), (Start::Later, 24));
    assert!(said[0].starts_with("Requested 2 Workers with 8 GPUs each, but none fits"), "{said:?}");
    let (start, _, said) = of_torch(3, 7).await;
    let expected =
        "Quota exceeded: 28 of requests.nvidia.com/gpu requested, 0 of 24 used, 24 left (quota jobs)";
    assert_eq!((start, said[0].as_str()), (Start::Refused, expected));
    let mut suspended = torch(3, 6);
    suspended["runPolicy"] = json!({ "suspend": true });
    let found = judge("kubeflow.org/v1", Kind::PyTorchJob, suspended).await;
    assert_eq!(found, (Start::WhenResumed, 24, none.clone()));

    let parameters = json!({ "tfReplicaSpecs": { "Chief": { "template": pod("tensorflow", 1) },
        "PS": { "replicas": 2, "template": pod("tensorflow", 0) }, "Worker": { "template": pod("tensorflow", 4) } } });
    let found = judge("kubeflow.org/v1", Kind::TfJob, parameters).await;
    let exist = "Quota exceeded: 2/2 TFJobs exist (quota jobs)".to_owned();
    assert_eq!(found, (Start::Refused, 5, vec![exist]));

    // The initializer has ended before the nodes are created, so it takes nothing from their quota.
    let of_trainer = async |spec: Value| judge(trainer, Kind::TrainJob, spec).await;
    let (start, gpus, said) = of_trainer(json!({ "runtimeRef": { "name": "torch" } })).await;
    assert_eq!((start, gpus), (Start::Later, 32), "{said:?}");
    assert!(said[0].starts_with("Requested 3 nodes with 8 GPUs each, but none fits"), "{said:?}");
    let smaller = json!({ "runtimeRef": { "name": "torch" }, "trainer": { "numNodes": 4,
        "resourcesPerNode": { "limits": { "nvidia.com/gpu": 6 } } } });
    assert_eq!(of_trainer(smaller).await, (Start::Now, 32, none));
    let (start, _, said) = of_trainer(json!({ "runtimeRef": { "name": "absent" } })).await;
    let expected = "the ClusterTrainingRuntime \"absent\" does not exist, so the TrainJob would be refused";
    assert_eq!((start, said[0].as_str()), (Start::Refused, expected));
}
