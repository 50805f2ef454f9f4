//! What would fit into the cluster: whether so many Workers of a size could start now, for how many there is room and on
//! which nodes, and otherwise when. Pure.
//!
//! The input is an [`Ask`] and one [`Snapshot`]; the output is a [`CapacityAnswer`]. It asks [`availability`] about a job
//! that has these Workers and nothing else, so both give the same answer, and counts Workers by [`plan::fit`].

use std::collections::BTreeMap;

use api::{MPIJob, MPIJobSpec, ReplicaSpec, WORKER};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec, ResourceRequirements, Toleration};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::ObjectMeta;
use plan::{Asked, Estimate, Finding, Fit, Weight};
use semantics::{Amounts, NVIDIA_GPU};
use serde::Serialize;

use crate::asked::Request;
use crate::availability::{self, Availability, QueueRoom, Resources, Snapshot, Start, availability};
use crate::kind::LABEL_QUEUE;
use crate::queue;

/// Which Workers are asked about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    /// The number of Workers.
    pub workers: i32,
    /// GPUs of each Worker.
    pub gpus: u32,
    /// The resource of these GPUs; if not given, the only one that the nodes offer, or `nvidia.com/gpu`.
    pub gpu_resource: Option<String>,
    /// CPUs of each Worker, as a quantity.
    pub cpu: Option<String>,
    /// Memory of each Worker, as a quantity.
    pub memory: Option<String>,
    /// The namespace whose quotas, limits and queue count; without it, only nodes do.
    pub namespace: Option<String>,
    /// The LocalQueue of that namespace.
    pub queue: Option<String>,
}

/// When the Workers could start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum When {
    /// At once.
    Now,
    /// When something becomes free.
    Later,
    /// Not on the present nodes, even with nothing else running.
    Never,
    /// Never: the namespace's quotas or limits refuse them.
    Refused,
    /// Unknown, because nodes or the queue cannot be read.
    Unknown,
}

/// What would fit.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CapacityAnswer {
    /// When all the Workers could start.
    pub start: When,
    /// What they request together.
    pub requested: Resources,
    /// The same, by resource.
    #[serde(skip)]
    pub amounts: Amounts,
    /// What is free on the usable nodes, in total; `None` if they cannot be read.
    pub free: Option<Resources>,
    /// How many such Workers fit on the nodes, and where; `None` if they cannot be read.
    #[serde(skip)]
    pub fit: Option<Fit>,
    /// How many such Workers the queue's own quota has room for, after those that wait in it; `None` without a queue whose
    /// quota is known.
    pub workers_in_queue: Option<usize>,
    /// The queue, if one is named.
    pub queue: Option<QueueRoom>,
    /// How long they would wait; `None` if they would not.
    pub wait: Option<Estimate>,
    /// What they would be refused for or wait for, the refusals first.
    pub findings: Vec<Finding>,
}

/// Returns what would fit.
pub fn capacity(ask: &Ask, seen: &Snapshot, now: Timestamp) -> CapacityAnswer {
    let namespace = ask.namespace.as_deref().unwrap_or_default();
    let all = job(ask, seen, ask.workers);
    let one = job(ask, seen, 1);
    let each = plan::requested(&Asked::of(&one), &seen.room.limits);
    let pod = one.spec.mpi_replica_specs.get(WORKER).and_then(|worker| worker.template.spec.as_ref());
    let fit = pod.zip(seen.room.capacity.as_ref()).and_then(|(pod, nodes)| plan::fit(pod, &each, nodes));
    let mut found = availability(&Request::of(&all), namespace, seen, now);
    let mut workers_in_queue = None;
    if let Some(queue) = &ask.queue {
        // Kueue admits by quota alone; then the pods need nodes, and count against the namespace's own quotas.
        found = with_queue(found, &all, (namespace, queue), seen, now);
        workers_in_queue = availability::fit_in_queue(namespace, queue, seen, &each);
    }
    let is_too_much = |fit: &Fit| usize::try_from(ask.workers).is_ok_and(|workers| fit.at_most < workers);
    let start = match found.start {
        Start::Refused => When::Refused,
        _ if fit.as_ref().is_some_and(is_too_much) => When::Never,
        Start::Later | Start::WhenResumed => When::Later,
        Start::Now => When::Now,
        Start::Unknown => When::Unknown,
    };
    CapacityAnswer {
        start,
        requested: found.requested,
        amounts: found.amounts,
        free: found.free,
        fit,
        workers_in_queue,
        queue: found.queue,
        wait: found.wait.filter(|_| matches!(start, When::Later | When::Unknown)),
        findings: found.findings,
    }
}

/// Adds what the Workers would meet in a queue.
fn with_queue(
    on_nodes: Availability,
    job: &MPIJob,
    (namespace, queue): (&str, &str),
    seen: &Snapshot,
    now: Timestamp,
) -> Availability {
    let mut queued = job.clone();
    queued.metadata.labels = Some(BTreeMap::from([(LABEL_QUEUE.to_owned(), queue.to_owned())]));
    let mut both = availability(&Request::of(&queued), namespace, seen, now);
    if seen.local_queues.is_none() {
        both.findings.push(queue::missing(queue, namespace, Some(Estimate::Unknown)));
    }
    for finding in on_nodes.findings {
        if !both.findings.contains(&finding) {
            both.findings.push(finding);
        }
    }
    both.findings.sort_by_key(|finding| finding.weight);
    both.start = match both.findings.first() {
        Some(first) if first.weight == Weight::Refused => Start::Refused,
        Some(_) => Start::Later,
        None if on_nodes.start == Start::Unknown => Start::Unknown,
        None => both.start,
    };
    both.wait = match both.start {
        Start::Later => Some(availability::longest(&both.findings)),
        Start::Unknown => Some(Estimate::Unknown),
        Start::Now | Start::WhenResumed | Start::Refused => None,
    };
    both
}

/// A job that has so many of these Workers, and nothing else.
fn job(ask: &Ask, seen: &Snapshot, workers: i32) -> MPIJob {
    let gpus = gpu_resource(ask, seen);
    let amounts = [
        ("cpu", ask.cpu.clone()),
        ("memory", ask.memory.clone()),
        (gpus, (ask.gpus > 0).then(|| ask.gpus.to_string())),
    ];
    let amounts: BTreeMap<String, Quantity> =
        amounts.into_iter().filter_map(|(name, amount)| Some((name.to_owned(), Quantity(amount?)))).collect();
    let resources =
        ResourceRequirements { requests: Some(amounts.clone()), limits: Some(amounts), ..Default::default() };
    // Nodes with GPUs often have a taint named like the resource, which Kubernetes tolerates for pods that request it
    // (admission plug-in ExtendedResourceToleration).
    let toleration = Toleration {
        key: Some(gpus.to_owned()),
        operator: Some("Exists".to_owned()),
        ..Toleration::default()
    };
    let pod = PodSpec {
        containers: vec![Container { resources: Some(resources), ..Container::default() }],
        tolerations: (ask.gpus > 0).then(|| vec![toleration]),
        ..PodSpec::default()
    };
    let worker = ReplicaSpec {
        replicas: Some(workers),
        template: PodTemplateSpec { spec: Some(pod), ..PodTemplateSpec::default() },
        ..ReplicaSpec::default()
    };
    let spec = MPIJobSpec {
        mpi_replica_specs: BTreeMap::from([(WORKER.to_owned(), Box::new(worker))]),
        ..MPIJobSpec::default()
    };
    MPIJob { metadata: ObjectMeta::default(), spec, status: None }
}

fn gpu_resource<'a>(ask: &'a Ask, seen: &'a Snapshot) -> &'a str {
    let offered = seen.room.capacity.as_ref().map(plan::Capacity::gpu_resources).unwrap_or_default();
    match (&ask.gpu_resource, offered.first()) {
        (Some(named), _) => named,
        (None, Some(only)) if offered.len() == 1 => only,
        _ => NVIDIA_GPU,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Node, Pod, ResourceQuota};
    use kube::api::DynamicObject;
    use plan::{Capacity, Room};
    use serde_json::{Value, json};

    use super::*;

    const NOW: &str = "2026-01-01T12:00:00Z";

    fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    fn node(name: &str, resource: &str) -> Node {
        read(json!({"metadata": {"name": name},
            "spec": {"taints": [{"key": resource, "value": "present", "effect": "NoSchedule"}]},
            "status": {"allocatable": {resource: "8", "cpu": "64", "memory": "512Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}]}}))
    }

    /// Two nodes of eight GPUs each, twelve of them held by a job that has 20 minutes left.
    fn seen(resource: &str) -> Snapshot {
        let mut capacity = Capacity::default();
        capacity.add_nodes(vec![node("a", resource), node("b", resource)]);
        let holder = |node: &str, gpus: u32| -> Pod {
            read(json!({"metadata": {"name": "p"}, "spec": {"nodeName": node, "containers": [
                {"name": "c", "resources": {"limits": {resource: gpus.to_string()}}}]}}))
        };
        capacity.add_pods(&[holder("a", 8), holder("b", 4)]);
        let worker =
            json!({"spec": {"containers": [{"name": "w", "resources": {"limits": {resource: "4"}}}]}});
        let running: MPIJob = read(json!({"metadata": {"name": "r", "namespace": "team", "uid": "r"},
            "spec": {"mpiReplicaSpecs": {"Worker": {"replicas": 3, "template": worker}}},
            "status": {"phase": "Running", "startTime": "2026-01-01T11:00:00Z"}}));
        let remaining_seconds = BTreeMap::from([("r".to_owned(), 1200)]);
        let room =
            Room { jobs: vec![running], remaining_seconds, capacity: Some(capacity), ..Room::default() };
        Snapshot { room, ..Snapshot::default() }
    }

    fn workers(workers: i32) -> Ask {
        Ask { workers, gpus: 4, ..Ask::default() }
    }

    fn asked(ask: &Ask, seen: &Snapshot) -> CapacityAnswer {
        capacity(ask, seen, NOW.parse().unwrap())
    }

    #[test]
    fn workers_that_fit_start_now_and_their_nodes_are_named() {
        let found = asked(&workers(1), &seen("nvidia.com/gpu"));
        let fit = found.fit.unwrap();
        assert_eq!((found.start, fit.now(), fit.at_most), (When::Now, 1, 4));
        assert_eq!(fit.nodes, [("b".to_owned(), 1)], "the taint of GPU nodes is tolerated");
        assert_eq!((found.requested.gpus, found.free.unwrap().gpus, found.wait), (4, 4, None));
    }

    #[test]
    fn workers_that_do_not_fit_now_wait_for_running_jobs_and_more_than_all_nodes_hold_never_start() {
        let later = asked(&workers(4), &seen("nvidia.com/gpu"));
        assert_eq!(later.start, When::Later);
        assert!(
            matches!(later.wait, Some(Estimate::Range { low_seconds: 900, high_seconds: 1500, .. })),
            "{later:?}"
        );
        assert!(
            later.findings[0].message.starts_with("Requested 16 GPUs but only 4 available."),
            "{later:?}"
        );
        let never = asked(&workers(5), &seen("nvidia.com/gpu"));
        assert_eq!((never.start, never.wait), (When::Never, None));
        assert!(never.findings[0].message.contains("even with nothing else running"), "{:?}", never.findings);
    }

    #[test]
    fn gpus_are_of_the_only_resource_that_nodes_offer_unless_one_is_named() {
        assert_eq!(asked(&workers(1), &seen("amd.com/gpu")).start, When::Now);
        let named = Ask { gpu_resource: Some("nvidia.com/gpu".to_owned()), ..workers(1) };
        assert_eq!(asked(&named, &seen("amd.com/gpu")).start, When::Never);
    }

    #[test]
    fn a_quota_of_the_namespace_refuses_workers_that_fit_on_the_nodes() {
        let mut seen = seen("nvidia.com/gpu");
        let quota: ResourceQuota =
            read(json!({"metadata": {"name": "q"}, "spec": {"hard": {"requests.nvidia.com/gpu": "2"}}}));
        seen.room.quotas = vec![quota];
        let ask = Ask { namespace: Some("team".to_owned()), ..workers(1) };
        assert_eq!(asked(&ask, &seen).start, When::Refused);
    }

    #[test]
    fn a_queue_counts_besides_the_nodes() {
        let kueue = |kind: &str, name: &str, spec: Value, status: Value| -> DynamicObject {
            read(json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind,
                "metadata": {"name": name, "namespace": "team"}, "spec": spec, "status": status}))
        };
        let amounts = |field: &str, amount: u32| json!([{"name": "f", "resources": [{"name": "nvidia.com/gpu", field: amount}]}]);
        let mut seen = seen("nvidia.com/gpu");
        let ask = |count| Ask {
            namespace: Some("team".to_owned()),
            queue: Some("gpus".to_owned()),
            ..workers(count)
        };
        let without = asked(&ask(1), &seen);
        assert_eq!((without.start, without.workers_in_queue), (When::Later, None));
        assert!(without.findings[0].message.contains("gpus"), "{:?}", without.findings);
        seen.local_queues =
            Some(vec![kueue("LocalQueue", "gpus", json!({"clusterQueue": "all"}), json!({}))]);
        seen.cluster_queues = vec![kueue(
            "ClusterQueue",
            "all",
            json!({"namespaceSelector": {}, "resourceGroups": [{"flavors": amounts("nominalQuota", 16)}]}),
            json!({"flavorsReservation": amounts("total", 4)}),
        )];
        let one = asked(&ask(1), &seen);
        assert_eq!(
            (one.start, one.workers_in_queue, one.queue.unwrap().free.unwrap().gpus),
            (When::Now, Some(3), 12)
        );
        let two = asked(&ask(2), &seen);
        assert_eq!(two.start, When::Later, "the queue has room, and the nodes do not");
        let stopped =
            kueue("LocalQueue", "gpus", json!({"clusterQueue": "all", "stopPolicy": "Hold"}), json!({}));
        seen.local_queues = Some(vec![stopped]);
        let held = asked(&ask(1), &seen);
        assert_eq!(
            (held.start, held.workers_in_queue, held.wait),
            (When::Later, Some(0), Some(Estimate::Unknown))
        );
    }

    #[test]
    fn nothing_is_claimed_of_a_cluster_that_cannot_be_read() {
        let found = asked(&workers(1), &Snapshot::default());
        assert_eq!((found.start, found.fit, found.wait), (When::Unknown, None, Some(Estimate::Unknown)));
    }
}
