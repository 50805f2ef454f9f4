//! What a pass allocates for each Worker, and what is kept of its pod. An operator with many jobs plans all the time, mostly
//! to find that nothing is to be done, so a pass over a job that runs must cost little; and what it keeps of pods is most of
//! its memory.

use std::fs;
use std::path::Path;

use allocation_counter::{AllocationInfo, measure};
use plan::Applied;

use crate::scene::{Scene, seen, settings};

/// The most allocations of a pass for each Worker, and the most bytes. They do not depend on the machine. If a change
/// needs more, raise them in its commit and say why.
const MOST_ALLOCATIONS: u64 = 11;
const MOST_BYTES: u64 = 850;

/// The most bytes that a running Worker's pod takes in memory.
const MOST_KEPT_BYTES: i64 = 2400;

/// A running Worker's pod as a watch shows it, without `managedFields`, which are not decoded.
const POD: &str = r#"{
    "metadata": { "name": "j0-worker-0", "namespace": "bench-5245-0", "creationTimestamp": "2026-01-01T00:00:00Z",
        "generation": 1, "resourceVersion": "581", "uid": "602e68c2-a64d-4662-8121-298f26f37779",
        "labels": { "training.kubeflow.org/job-name": "j0", "training.kubeflow.org/job-role": "worker",
            "training.kubeflow.org/operator-name": "mpi-operator", "training.kubeflow.org/replica-index": "0" },
        "ownerReferences": [{ "apiVersion": "kubeflow.org/v2beta1", "blockOwnerDeletion": true, "controller": true,
            "kind": "MPIJob", "name": "j0", "uid": "0dbe4ae3-c5b1-47fc-b123-72ef05eb07da" }] },
    "spec": { "nodeName": "node-1", "restartPolicy": "Never", "containers": [{ "name": "work", "image": "mpi",
        "command": ["/usr/sbin/sshd", "-De"], "resources": { "limits": { "nvidia.com/gpu": "1" } } }] },
    "status": { "phase": "Running", "podIP": "10.0.0.4", "hostIP": "10.1.0.1", "startTime": "2026-01-01T00:00:01Z",
        "conditions": [
            { "type": "Initialized", "status": "True", "lastTransitionTime": "2026-01-01T00:00:01Z" },
            { "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:02Z" },
            { "type": "ContainersReady", "status": "True", "lastTransitionTime": "2026-01-01T00:00:02Z" },
            { "type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:01Z" }],
        "containerStatuses": [{ "name": "work", "image": "mpi", "imageID": "", "ready": true, "restartCount": 0,
            "lastState": {}, "state": { "running": { "startedAt": "2026-01-01T00:00:02Z" } } }] }
}"#;

#[test]
fn what_is_kept_of_a_running_workers_pod_is_small() {
    let mut kept = None;
    let held = measure(|| kept = Some(serde_json::from_str::<Box<plan::kept::Pod>>(POD).unwrap()));
    assert!(held.bytes_current <= MOST_KEPT_BYTES, "{} bytes", held.bytes_current);
    assert_eq!(kept.unwrap().status.unwrap().container_statuses.unwrap()[0].last_state, None);
}

/// Counts what planning and reporting allocate for the golden scene `running`, with so many Workers.
fn pass(workers: usize) -> AllocationInfo {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/running/input.yaml");
    let text = fs::read_to_string(path).unwrap().replace("replicas: 2", &format!("replicas: {workers}"));
    let (start, worker) = text.trim_end().rsplit_once('\n').unwrap();
    let more: String = (2..workers)
        .map(|index| format!("\n{}", worker.replace("index: 1,", &format!("index: {index},"))))
        .collect();
    let scene: Scene = serde_saphyr::from_str(&format!("{start}\n{worker}{more}\n")).unwrap();
    let job = plan::validate(&scene.job).unwrap();
    let (seen, settings) = (seen(&scene, &job), settings(&scene));
    measure(|| {
        let plan = plan::plan(&job, &seen, &settings, scene.now);
        let report = plan::report(&job, &seen, &plan, &Applied::default(), scene.now);
        std::hint::black_box((plan, report));
    })
}

#[test]
fn a_pass_over_a_running_job_allocates_little_for_each_worker() {
    let (few, many) = (pass(100), pass(200));
    let allocations = (many.count_total - few.count_total).div_ceil(100);
    let bytes = (many.bytes_total - few.bytes_total).div_ceil(100);
    assert!(
        allocations <= MOST_ALLOCATIONS && bytes <= MOST_BYTES,
        "{allocations} allocations of {bytes} bytes for each Worker; {few:?}, {many:?}"
    );
}
