//! More objects for the transcripts: in a separate namespace, a job with its events for each verb that acts on or
//! explains one, and jobs of the other kinds.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::stage::{job, pod};

/// The namespace of these jobs.
pub const CAST: &str = "team-nlp";
/// The namespace with jobs of every kind.
pub const MIXED: &str = "team-mix";

/// The CRDs of the other kinds and of Kueue's Workload: names and groups are real, the schemas accept everything.
pub fn definitions() -> [Value; 4] {
    [
        definition("kueue.x-k8s.io", "v1beta1", "Workload", "workloads"),
        definition("kubeflow.org", "v1", "PyTorchJob", "pytorchjobs"),
        definition("kubeflow.org", "v1", "TFJob", "tfjobs"),
        definition("trainer.kubeflow.org", "v1alpha1", "TrainJob", "trainjobs"),
    ]
}

fn definition(group: &str, version: &str, kind: &str, plural: &str) -> Value {
    let anything = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {"group": group, "scope": "Namespaced",
            "names": {"kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{"name": version, "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": anything, "status": anything}}}}]}})
}

/// A job of each of the other kinds.
pub fn jobs_of_other_kinds() -> [(&'static str, &'static str, &'static str, Value); 3] {
    let template = json!({"spec": {"containers": [{"name": "main", "image": "train:1"}]}});
    let role = |replicas: i32| json!({"replicas": replicas, "template": template});
    let running = json!({"startTime": "2026-01-01T00:00:01Z",
        "replicaStatuses": {"Worker": {"active": 3}, "Master": {"active": 1}},
        "conditions": [{"type": "Created", "status": "True"}, {"type": "Running", "status": "True", "reason": "PyTorchJobRunning"}]});
    let failed = json!({"startTime": "2026-01-01T00:00:01Z", "completionTime": "2026-01-01T00:00:31Z",
        "conditions": [{"type": "Failed", "status": "True", "reason": "TFJobFailed",
            "message": "TFJob team-mix/mnist is failed because 1 Worker replica(s) failed."}]});
    let complete = json!({"jobsStatus": [{"name": "node", "active": 0}],
        "conditions": [{"type": "Complete", "status": "True", "reason": "JobsCompleted", "lastTransitionTime": "2026-01-01T00:00:31Z"}]});
    let meta = |name: &str| json!({"name": name});
    [
        (
            "kubeflow.org/v1",
            "PyTorchJob",
            "pytorchjobs",
            json!({"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob",
            "metadata": meta("resnet"), "spec": {"pytorchReplicaSpecs": {"Master": role(1), "Worker": role(3)}}, "status": running}),
        ),
        (
            "kubeflow.org/v1",
            "TFJob",
            "tfjobs",
            json!({"apiVersion": "kubeflow.org/v1", "kind": "TFJob",
            "metadata": meta("mnist"), "spec": {"tfReplicaSpecs": {"Worker": role(2)}}, "status": failed}),
        ),
        (
            "trainer.kubeflow.org/v1alpha1",
            "TrainJob",
            "trainjobs",
            json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
            "metadata": meta("tune"), "spec": {"runtimeRef": {"name": "torch-distributed"}, "trainer": {"numNodes": 2, "image": "train:1"}},
            "status": complete}),
        ),
    ]
}

/// Kueue's Workloads of the job `queued`, whose UID is `job`, and of a job that came before it.
pub fn workloads(job: &str) -> [Value; 2] {
    let workload = |name: &str, owner: &str, uid: &str, message: &str| {
        json!({"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Workload",
            "metadata": {"name": name, "ownerReferences": [
                {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "name": owner, "uid": uid}]},
            "spec": {"queueName": "gpus", "priority": if owner == "queued" { 0 } else { 10 }},
            "status": {"conditions": [{"type": "QuotaReserved", "status": "False", "reason": "Pending",
                "lastTransitionTime": "2026-01-01T00:00:01Z", "message": message}]}})
    };
    let short = "couldn't assign flavors to pod set worker: insufficient unused quota for nvidia.com/gpu in flavor a100, 4 more needed";
    [
        workload("mpijob-other-5c1e7", "other", "b7d6b6a2-0000-4000-8000-000000000000", short),
        workload("mpijob-queued-1a2b3", "queued", job, short),
    ]
}

/// The jobs of [`CAST`].
pub fn jobs() -> Vec<Value> {
    let time = |second: u32| format!("2026-01-01T00:00:{second:02}Z");
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({"type": kind, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": time(1), "lastUpdateTime": time(1)})
    };
    let created = || condition("Created", "True", "MPIJobCreated", "MPIJob is created");
    let pending =
        |reason: &str| json!({"phase": "Pending", "phaseReason": reason, "conditions": [created()]});
    let out_of_memory = json!({"phase": "Failed", "phaseReason": "OutOfMemory", "startTime": time(5), "completionTime": time(35),
        "workers": {"running": 1, "pending": 0, "failed": 1, "of": 2},
        "failure": {"reason": "OutOfMemory", "message": "Worker 1 used more memory than its limit of 16Gi",
            "worker": 1, "pod": "bert-worker-1", "exitCode": 137,
            "suggestion": "Increase memory allocation, or reduce the batch size.",
            "link": "https://example.org/troubleshooting.md#outofmemory"},
        "conditions": [created(), condition("Failed", "True", "OutOfMemory", "Worker 1 used more memory than its limit of 16Gi")]});
    let succeeded = json!({"phase": "Succeeded", "startTime": time(40), "completionTime": time(59),
        "workers": {"running": 0, "pending": 0, "failed": 0, "of": 2},
        "conditions": [created(), condition("Succeeded", "True", "MPIJobSucceeded", "MPIJob successfully completed")]});
    let alone = json!({"phase": "Succeeded", "startTime": time(40), "completionTime": time(59),
        "workers": {"running": 0, "pending": 0, "failed": 0, "of": 2},
        "conditions": [created(), condition("WorldVerified", "False", "Collapsed",
            "ranks were started on alone-worker-0 only, though the job has 2 Workers")]});
    let running = json!({"phase": "Running", "startTime": time(1), "workers": {"running": 2, "pending": 0, "failed": 0, "of": 2},
        "conditions": [created(), condition("Running", "True", "MPIJobRunning", "MPIJob is running")]});
    let stalled = json!({"phase": "Running", "startTime": time(1), "workers": {"running": 2, "pending": 0, "failed": 0, "of": 2},
        "conditions": [created(), condition("Running", "True", "MPIJobRunning", "MPIJob is running"),
            condition("Stalled", "True", "NoProgress", "No output for 10 minutes; 2 of 2 Workers are ready")]});
    let attempts = json!({"phase": "Failed", "phaseReason": "NodeLost", "startTime": time(1), "completionTime": time(50),
        "failure": {"reason": "NodeLost", "message": "Node node-3 of Worker 0 is lost", "worker": 0},
        "attempts": [
            {"number": 1, "outcome": "Failed", "reason": "Evicted", "startTime": time(1), "completionTime": time(20)},
            {"number": 2, "outcome": "Failed", "reason": "NodeLost", "startTime": time(21), "completionTime": time(50)}],
        "conditions": [created(), condition("Failed", "True", "NodeLost", "Node node-3 of Worker 0 is lost")]});
    let mut repeated = job("bert-retry-2", 2, "nlp", succeeded);
    repeated["metadata"]["annotations"] = json!({"training.opendatahub.io/retry-of": "bert"});
    repeated["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["resources"]["limits"]
        ["memory"] = "32Gi".into();
    let mut queued = job("queued", 4, "nlp", pending("Queued"));
    queued["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "gpus".into();
    queued["spec"]["runPolicy"]["suspend"] = true.into();
    let mut secretive = job("live", 2, "nlp", running.clone());
    secretive["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["env"] =
        json!([{"name": "WANDB_API_KEY", "value": "not-for-others"}, {"name": "LR", "value": "0.1"}]);
    vec![
        job("alone", 2, "nlp", alone),
        job("bert", 2, "nlp", out_of_memory),
        repeated,
        queued,
        secretive,
        job("fresh", 2, "nlp", Value::Null),
        job("greedy", 2, "nlp", pending("Initializing")),
        job("hung", 2, "nlp", stalled),
        job("lost", 2, "nlp", attempts),
        job("misnamed", 1, "nlp", pending("Initializing")),
        job("soon", 1, "sweep", running.clone()),
        job("later", 1, "sweep", running),
    ]
}

/// Their pods.
pub fn pods() -> Vec<Value> {
    let running = || json!({"running": {"startedAt": "2026-01-01T00:00:01Z"}});
    let scheduled =
        json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:02Z"});
    let of = |job: &str, role: &str, name: &str, phase: &str, state: Value| {
        let mut pod = pod(job, role, name, phase, state);
        pod["status"]["conditions"].as_array_mut().unwrap().push(scheduled.clone());
        pod
    };
    let mut without_node = of("greedy", "worker", "greedy-worker-1", "Pending", json!({}));
    without_node["spec"].as_object_mut().unwrap().remove("nodeName");
    without_node["status"] = json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
        "reason": "Unschedulable", "message": "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."}]});
    let pulled = json!({"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image \"registry.example/train:latst\": ErrImagePull: manifest unknown"}});
    let mut pods = vec![
        of(
            "bert",
            "launcher",
            "bert-launcher-p4c7x",
            "Failed",
            json!({"terminated": {"exitCode": 1, "reason": "Error"}}),
        ),
        of("bert", "worker", "bert-worker-0", "Running", running()),
        of(
            "bert",
            "worker",
            "bert-worker-1",
            "Failed",
            json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}}),
        ),
        of("greedy", "worker", "greedy-worker-0", "Running", running()),
        without_node,
        of("misnamed", "worker", "misnamed-worker-0", "Pending", pulled),
    ];
    for name in ["live", "hung"] {
        pods.push(of(name, "launcher", &format!("{name}-launcher-q9w2e"), "Running", running()));
        pods.extend(
            (0..2).map(|index| of(name, "worker", &format!("{name}-worker-{index}"), "Running", running())),
        );
    }
    pods
}

/// Their events, all at the same time, so that they are ordered by name.
pub fn events(at: Timestamp) -> Vec<Value> {
    let event = |name: &str, kind: &str, about: &str, type_: &str, reason: &str, message: &str| {
        let (group, object) = if kind == "MPIJob" { ("kubeflow.org/v2beta1", kind) } else { ("v1", kind) };
        json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": name},
            "involvedObject": {"apiVersion": group, "kind": object, "namespace": CAST, "name": about},
            "type": type_, "reason": reason, "message": message, "count": 1, "firstTimestamp": at, "lastTimestamp": at,
            "source": {"component": "mpi-job-controller"}, "reportingComponent": "", "reportingInstance": ""})
    };
    vec![
        event("a", "MPIJob", "bert", "Normal", "MPIJobCreated", "MPIJob team-nlp/bert is created."),
        event(
            "b",
            "Pod",
            "bert-worker-1",
            "Warning",
            "OOMKilling",
            "Memory cgroup out of memory: Killed process 4711 (python)",
        ),
        event(
            "c",
            "MPIJob",
            "bert",
            "Warning",
            "OutOfMemory",
            "Worker 1 used more memory than its limit of 16Gi",
        ),
        event(
            "d",
            "Pod",
            "misnamed-worker-0",
            "Warning",
            "Failed",
            "Failed to pull image \"registry.example/train:latst\": manifest unknown",
        ),
    ]
}
