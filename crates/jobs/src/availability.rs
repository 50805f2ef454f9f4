//! Whether a job that does not exist yet could start now, what is free, and how long it would wait otherwise. Pure.
//!
//! The input is the job and one [`Snapshot`] of the namespace, the cluster and its queues; the output is an
//! [`Availability`] in typed values. The rules about quotas, limits and nodes are [`plan::precheck`]'s; this module adds
//! Kueue's queues and sums. What a snapshot does not have, because the caller may not read it, is not judged.
//!
//! Sources: `kubernetes-sigs/kueue` `apis/kueue/v1beta2/{clusterqueue,localqueue,workload}_types.go`. What a queue could
//! borrow from its cohort is left out: it may be reclaimed at any time.

use std::collections::{BTreeMap, BTreeSet};

use api::MPIJob;
use diagnosis::Cause;
use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;
use plan::{Advice, Estimate, Finding, Room, Weight};
use semantics::{Amounts, Quantity, add, gpus, is_gpu, pod_requests, subtract};
use serde::Serialize;
use serde_json::Value;

use crate::asked::Request;
use crate::cluster_queue::{Offer, UnknownQuota, cluster_queue_of, is_held, offer};
use crate::kind::LABEL_QUEUE;
use crate::queue;

/// What was read at one time.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The namespace's quotas, limits and jobs, and the cluster's nodes.
    pub room: Room,
    /// The namespace's labels; `None` if they cannot be read.
    pub labels: Option<BTreeMap<String, String>>,
    /// Kueue's LocalQueues of all visible namespaces; `None` if the cluster has no Kueue.
    pub local_queues: Option<Vec<DynamicObject>>,
    /// Kueue's ClusterQueues.
    pub cluster_queues: Vec<DynamicObject>,
    /// Kueue's Workloads of all visible namespaces.
    pub workloads: Vec<DynamicObject>,
}

/// Amounts of what jobs are usually short of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Resources {
    /// GPUs of any vendor.
    pub gpus: u64,
    /// CPUs, in thousandths.
    pub cpu_millis: u64,
    /// Memory, in bytes.
    pub memory_bytes: u64,
}

impl Resources {
    /// Returns the amounts; a resource that is not among them counts as zero.
    pub fn of(amounts: &Amounts) -> Resources {
        let of = |name: &str, unit: fn(&Quantity) -> i128| {
            amounts.get(name).map_or(0, |amount| u64::try_from(unit(amount)).unwrap_or(0))
        };
        Resources {
            gpus: gpus(amounts),
            cpu_millis: of("cpu", Quantity::millis),
            memory_bytes: of("memory", Quantity::units),
        }
    }

    /// Returns the CPUs as a quantity.
    pub fn cpu(&self) -> String {
        match self.cpu_millis % 1000 {
            0 => (self.cpu_millis / 1000).to_string(),
            _ => format!("{}m", self.cpu_millis),
        }
    }

    /// Returns the memory as a quantity.
    pub fn memory(&self) -> String {
        let bytes = self.memory_bytes;
        let units = [("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10)];
        let fits = units.into_iter().find(|(_, power)| bytes > 0 && bytes.trailing_zeros() >= *power);
        fits.map_or_else(|| bytes.to_string(), |(unit, power)| format!("{}{unit}", bytes >> power))
    }
}

/// When a job could start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Start {
    /// At once.
    Now,
    /// When something becomes free.
    Later,
    /// When it is resumed, because it is created suspended.
    WhenResumed,
    /// Never: it would be refused.
    Refused,
    /// Unknown, because neither nodes nor a queue can be read.
    Unknown,
}

/// The room in a job's queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueRoom {
    /// The LocalQueue.
    pub name: String,
    /// Its ClusterQueue.
    pub cluster_queue: String,
    /// What the ClusterQueue's own quota has free; `None` if it may not be read, or is not offered to the namespace.
    pub free: Option<Resources>,
    /// Why it is not offered to the namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown: Option<UnknownQuota>,
    /// The number of Workloads of the ClusterQueue that wait and would come before a new job of normal priority.
    pub ahead: usize,
}

/// The answer for one job.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Availability {
    /// When it could start.
    pub start: Start,
    /// What all its pods request.
    pub requested: Resources,
    /// The same, by resource.
    #[serde(skip)]
    pub amounts: Amounts,
    /// What is free on the cluster's usable nodes, in total; `None` if they cannot be read.
    pub free: Option<Resources>,
    /// The job's queue, if it has one.
    pub queue: Option<QueueRoom>,
    /// How long it would wait; `None` if it would not.
    pub wait: Option<Estimate>,
    /// What it would be refused for or wait for, the refusals first.
    pub findings: Vec<Finding>,
}

impl Availability {
    /// Adds what was found elsewhere about the job.
    pub fn add(&mut self, findings: Vec<Finding>) {
        let is_refused = findings.iter().any(|finding| finding.weight == Weight::Refused);
        self.start = match self.start {
            _ if is_refused => Start::Refused,
            Start::Now if !findings.is_empty() => Start::Later,
            start => start,
        };
        self.findings.extend(findings);
        self.findings.sort_by_key(|finding| finding.weight != Weight::Refused);
        self.wait = wait_until(self.start, &self.findings);
    }
}

/// Returns what a job would meet in this namespace now.
pub fn availability(request: &Request<'_>, namespace: &str, seen: &Snapshot, now: Timestamp) -> Availability {
    let room = &seen.room;
    let asked = &request.asked;
    let name = asked.queue.as_deref();
    let mut judged = asked.clone();
    if seen.local_queues.is_none() {
        // A label that no controller reads does not hold back the job.
        judged.queue = None;
    }
    let mut findings = plan::precheck(&judged, namespace, room, now);
    if let Some(refused) = &request.refused {
        findings.insert(0, refused.clone());
    }
    let amounts = plan::requested(asked, &room.limits);
    let mut queue = None;
    if let (Some(name), Some(queues)) = (name, &seen.local_queues) {
        match Line::of(namespace, name, queues, seen) {
            Some(line) => {
                findings.extend(line.shortage(&amounts, seen, now));
                queue = Some(line.room());
            }
            None => findings.push(queue::missing(name, namespace, Some(Estimate::Unknown))),
        }
    }
    let free = room.capacity.as_ref().and_then(plan::Capacity::free);
    let is_known = request.is_known && if queue.is_some() { queue_is_known(&queue) } else { free.is_some() };
    let start = match findings.first() {
        Some(first) if first.weight == Weight::Refused => Start::Refused,
        _ if asked.is_suspended => Start::WhenResumed,
        Some(_) => Start::Later,
        None if is_known => Start::Now,
        None => Start::Unknown,
    };
    let wait = wait_until(start, &findings);
    let requested = Resources::of(&amounts);
    let free = free.as_ref().map(Resources::of);
    Availability { start, requested, amounts, free, queue, wait, findings }
}

fn queue_is_known(queue: &Option<QueueRoom>) -> bool {
    queue.as_ref().is_some_and(|queue| queue.free.is_some())
}

/// How long a job would wait; `None` if it would not.
fn wait_until(start: Start, findings: &[Finding]) -> Option<Estimate> {
    match start {
        Start::Later => Some(longest(findings)),
        Start::Unknown => Some(Estimate::Unknown),
        Start::Now | Start::WhenResumed | Start::Refused => None,
    }
}

/// The longest of the waits; unknown if any is.
pub(crate) fn longest(findings: &[Finding]) -> Estimate {
    let high = |wait: &Estimate| match wait {
        Estimate::Range { high_seconds, .. } => *high_seconds,
        Estimate::Unknown => i64::MAX,
    };
    let waits = findings.iter().map(|finding| finding.wait.clone().unwrap_or(Estimate::Unknown));
    waits.max_by_key(high).unwrap_or(Estimate::Unknown)
}

/// Returns how many pods that request this much each a queue's own quota has room for, after all that wait in it; `None`
/// if the queue does not exist or its quota is unknown.
pub(crate) fn fit_in_queue(namespace: &str, name: &str, seen: &Snapshot, each: &Amounts) -> Option<usize> {
    let line = Line::of(namespace, name, seen.local_queues.as_ref()?, seen)?;
    let (_, mut free) = line.quota()?.clone();
    if line.is_stopped {
        return Some(0);
    }
    subtract(&mut free, &line.before());
    let of = |resource: &String| free.get(resource).copied().unwrap_or(Quantity::ZERO);
    let counts = each.iter().filter_map(|(resource, amount)| of(resource).count_of(*amount));
    counts.min().and_then(|least| usize::try_from(least).ok())
}

fn waits(message: String, advice: &str, wait: Option<Estimate>) -> Finding {
    let advice = Advice::from(advice.to_owned());
    Finding { weight: Weight::Waits, reason: Cause::QuotaExceeded, message, wait, advice }
}

/// A LocalQueue with its ClusterQueue, and what waits there.
struct Line<'s> {
    name: &'s str,
    cluster_queue: &'s str,
    /// What the ClusterQueue offers to the namespace; `None` if it cannot be read.
    offer: Option<Offer>,
    is_stopped: bool,
    /// All LocalQueues of the ClusterQueue, by namespace and name.
    queues: BTreeSet<(String, String)>,
    ahead: Vec<&'s DynamicObject>,
}

impl<'s> Line<'s> {
    fn of(
        namespace: &str,
        name: &'s str,
        queues: &'s [DynamicObject],
        seen: &'s Snapshot,
    ) -> Option<Line<'s>> {
        let is = |queue: &&DynamicObject| {
            queue.name_any() == name && queue.namespace().as_deref() == Some(namespace)
        };
        let own = queues.iter().find(is)?;
        let cluster_queue = cluster_queue_of(own);
        let queues: BTreeSet<(String, String)> = queues
            .iter()
            .filter(|queue| cluster_queue_of(queue) == cluster_queue)
            .map(|queue| (queue.namespace().unwrap_or_default(), queue.name_any()))
            .collect();
        let offer = offer(own, &seen.cluster_queues, seen.labels.as_ref());
        let ahead = seen.workloads.iter().filter(|workload| {
            let place =
                (workload.namespace().unwrap_or_default(), queue::name_of(workload).unwrap_or("").to_owned());
            queues.contains(&place) && queue::waits(workload) && queue::priority(workload) >= 0
        });
        let ahead = ahead.collect();
        let is_stopped = is_held(own) || offer.as_ref().is_some_and(|offer| offer.admits_nothing);
        Some(Line { name, cluster_queue, offer, is_stopped, queues, ahead })
    }

    /// The ClusterQueue's own quota, and what of it is not reserved.
    fn quota(&self) -> Option<&(Amounts, Amounts)> {
        self.offer.as_ref()?.quota.as_ref().ok()
    }

    fn unknown(&self) -> Option<&UnknownQuota> {
        self.offer.as_ref()?.quota.as_ref().err()
    }

    fn room(&self) -> QueueRoom {
        QueueRoom {
            name: self.name.to_owned(),
            cluster_queue: self.cluster_queue.to_owned(),
            free: self.quota().map(|(_, free)| Resources::of(free)),
            unknown: self.unknown().cloned(),
            ahead: self.ahead.len(),
        }
    }

    /// What all that wait in the queue request.
    fn before(&self) -> Amounts {
        let mut before = Amounts::new();
        for workload in &self.ahead {
            add(&mut before, &requests_of(workload));
        }
        before
    }

    /// What the queue lacks for a job that requests this much, after all that wait in it.
    fn shortage(&self, requested: &Amounts, seen: &Snapshot, now: Timestamp) -> Option<Finding> {
        let name = self.name;
        if self.is_stopped {
            let (message, advice) = match self.unknown() {
                Some(UnknownQuota { reason: "NotSelected", message }) => (
                    format!("{message}: the queue \"{name}\" admits nothing"),
                    "ask an administrator which queue the namespace may use",
                ),
                _ => (
                    format!("the queue \"{name}\" is stopped and admits nothing"),
                    "ask an administrator when it is resumed, or use another queue",
                ),
            };
            return Some(waits(message, advice, Some(Estimate::Unknown)));
        }
        let Some((quota, free)) = self.quota() else {
            return (!self.ahead.is_empty()).then(|| {
                let message = format!("{} workloads wait in the queue \"{name}\"", self.ahead.len());
                waits(message, "the job waits for them", Some(Estimate::Unknown))
            });
        };
        let before = self.before();
        let short =
            requested.iter().filter(|(_, amount)| !amount.is_zero()).filter_map(|(resource, amount)| {
                let of = |amounts: &Amounts| amounts.get(resource).copied().unwrap_or(Quantity::ZERO);
                let needed = amount.plus(of(&before));
                (needed > of(free)).then(|| {
                    (resource.as_str(), *amount, needed.less(of(free)), of(free), quota.get(resource))
                })
            });
        let (resource, amount, missing, free, whole) = short.max_by_key(|(resource, ..)| is_gpu(resource))?;
        let noun = plan::noun(resource);
        if whole.is_none_or(|whole| amount > *whole) {
            let most = whole.copied().unwrap_or(Quantity::ZERO);
            let message = format!(
                "Requested {amount} {noun} but the queue \"{name}\" has a quota of {most}: the job would wait forever"
            );
            return Some(waits(message, "request less, or use another queue", Some(Estimate::Unknown)));
        }
        let wait = plan::wait(resource, missing, |job| self.holds(job), self.ahead.len(), &seen.room, now);
        let first = match self.ahead.len() {
            0 => String::new(),
            1 => ", and 1 job is ahead".to_owned(),
            ahead => format!(", and {ahead} jobs are ahead"),
        };
        let message = format!(
            "Requested {amount} {noun} but only {free} available in the queue \"{name}\"{first}. Estimated wait time: {wait}"
        );
        Some(waits(message, "the job waits in the queue; to start sooner, request less", Some(wait)))
    }

    /// Whether a job holds quota of this ClusterQueue.
    fn holds(&self, job: &MPIJob) -> bool {
        let queue = job.metadata.labels.as_ref().and_then(|labels| labels.get(LABEL_QUEUE));
        queue.is_some_and(|queue| {
            self.queues.contains(&(job.metadata.namespace.clone().unwrap_or_default(), queue.clone()))
        })
    }
}

/// What a Workload's pods request.
fn requests_of(workload: &DynamicObject) -> Amounts {
    let mut total = Amounts::new();
    for set in workload.data.pointer("/spec/podSets").and_then(Value::as_array).into_iter().flatten() {
        let count = set["count"].as_i64().unwrap_or(1);
        for (name, each) in pod_requests(set.pointer("/template/spec").unwrap_or(&Value::Null)) {
            let sum = total.entry(name).or_insert(Quantity::ZERO);
            *sum = each.times(count).plus(*sum);
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Node, Pod};
    use plan::Capacity;
    use serde_json::json;

    use super::*;

    const NOW: &str = "2026-01-01T12:00:00Z";

    fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    fn pod_of(gpus: u32) -> Value {
        json!({"spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": gpus.to_string()}}}]}})
    }

    fn job(name: &str, workers: u32, queue: Option<&str>, status: Value) -> MPIJob {
        read(json!({"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
            "metadata": {"name": name, "namespace": "team", "uid": name, "labels": queue.map(|queue| json!({LABEL_QUEUE: queue}))},
            "spec": {"mpiReplicaSpecs": {"Launcher": {"template": {"spec": {"containers": [{"name": "l", "image": "i"}]}}},
                "Worker": {"replicas": workers, "template": pod_of(4)}}},
            "status": status}))
    }

    fn running(name: &str, queue: Option<&str>) -> MPIJob {
        job(name, 1, queue, json!({"phase": "Running", "startTime": "2026-01-01T11:00:00Z"}))
    }

    /// A node of eight GPUs, four of which are held.
    fn room(jobs: Vec<MPIJob>) -> Room {
        let mut capacity = Capacity::default();
        let node: Node = read(json!({"metadata": {"name": "a"}, "status": {
            "allocatable": {"nvidia.com/gpu": "8", "cpu": "16500m", "memory": "1Ki", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}]}}));
        capacity.add_nodes(vec![node]);
        let mut holder = pod_of(4);
        holder["spec"]["nodeName"] = "a".into();
        capacity.add_pods(&[read::<Pod>(holder)]);
        Room { jobs, capacity: Some(capacity), ..Room::default() }
    }

    fn kueue(kind: &str, name: &str, spec: Value, status: Value) -> DynamicObject {
        read(json!({"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind,
            "metadata": {"name": name, "namespace": "team"}, "spec": spec, "status": status}))
    }

    /// A queue of eight GPUs, four of which are reserved, with these jobs and this many jobs of four GPUs ahead.
    fn queued(jobs: Vec<MPIJob>, ahead: usize) -> Snapshot {
        let resources = |field: &str, amount: u32| json!([{"name": "f", "resources": [{"name": "nvidia.com/gpu", field: amount}]}]);
        let waiting = |at: usize| {
            let spec = json!({"queueName": "gpus", "podSets": [{"count": 1, "template": pod_of(4)}]});
            kueue("Workload", &format!("w{at}"), spec, json!({}))
        };
        Snapshot {
            room: room(jobs),
            labels: Some(BTreeMap::from([("team".to_owned(), "a".to_owned())])),
            local_queues: Some(vec![kueue("LocalQueue", "gpus", json!({"clusterQueue": "all"}), json!({}))]),
            cluster_queues: vec![kueue(
                "ClusterQueue",
                "all",
                json!({"namespaceSelector": {"matchLabels": {"team": "a"}},
                    "resourceGroups": [{"flavors": resources("nominalQuota", 8)}]}),
                json!({"flavorsReservation": resources("total", 4)}),
            )],
            workloads: (0..ahead).map(waiting).collect(),
        }
    }

    fn judged(job: &MPIJob, seen: &Snapshot) -> Availability {
        availability(&Request::of(job), "team", seen, NOW.parse().unwrap())
    }

    #[test]
    fn amounts_are_written_as_quantities() {
        let of = |cpu_millis, memory_bytes| {
            let amounts = Resources { cpu_millis, memory_bytes, gpus: 0 };
            (amounts.cpu(), amounts.memory())
        };
        assert_eq!(of(16_500, 64 << 30), ("16500m".to_owned(), "64Gi".to_owned()));
        assert_eq!(of(2000, 1500), ("2".to_owned(), "1500".to_owned()));
        assert_eq!(of(0, 0), ("0".to_owned(), "0".to_owned()));
    }

    #[test]
    fn a_job_that_fits_may_start_now() {
        let seen = Snapshot { room: room(Vec::new()), ..Snapshot::default() };
        let found = judged(&job("new", 1, None, json!({})), &seen);
        assert_eq!((found.start, found.wait, found.findings.len()), (Start::Now, None, 0));
        assert_eq!(found.requested.gpus, 4);
        assert_eq!(found.free, Some(Resources { gpus: 4, cpu_millis: 16_500, memory_bytes: 1024 }));
    }

    #[test]
    fn what_a_job_waits_for_and_how_long_is_typed() {
        let mut seen = Snapshot { room: room(vec![running("r", None)]), ..Snapshot::default() };
        let new = job("new", 2, None, json!({}));
        let found = judged(&new, &seen);
        assert_eq!((found.start, &found.wait), (Start::Later, &Some(Estimate::Unknown)));
        assert!(found.findings[0].message.starts_with("Requested 8 GPUs but only 4 available."), "{found:?}");
        seen.room.remaining_seconds = BTreeMap::from([("r".to_owned(), 1200)]);
        let Some(Estimate::Range { low_seconds, high_seconds, .. }) = judged(&new, &seen).wait else {
            panic!()
        };
        assert_eq!((low_seconds, high_seconds), (900, 1500));
    }

    #[test]
    fn nothing_is_claimed_of_a_cluster_that_cannot_be_read() {
        let found = judged(&job("new", 2, None, json!({})), &Snapshot::default());
        assert_eq!((found.start, found.free, found.wait), (Start::Unknown, None, Some(Estimate::Unknown)));
        let mut suspended = job("new", 2, None, json!({}));
        suspended.spec.run_policy.get_or_insert_default().suspend = Some(true);
        assert_eq!(judged(&suspended, &Snapshot::default()).start, Start::WhenResumed);
    }

    #[test]
    fn a_refusal_outweighs_what_a_job_would_wait_for() {
        let mut seen = queued(vec![running("r", None)], 3);
        seen.room.limits = vec![read(json!({"metadata": {"name": "l"}, "spec": {"limits": [
            {"type": "Container", "max": {"nvidia.com/gpu": "2"}}]}}))];
        let found = judged(&job("new", 2, Some("gpus"), json!({})), &seen);
        assert_eq!((found.start, found.wait), (Start::Refused, None));
    }

    #[test]
    fn a_queue_has_room_after_those_that_wait_in_it() {
        let one = job("new", 1, Some("gpus"), json!({}));
        let found = judged(&one, &queued(Vec::new(), 0));
        let queue = found.queue.unwrap();
        assert_eq!((found.start, queue.ahead, queue.free.unwrap().gpus), (Start::Now, 0, 4));
        let mut seen = queued(vec![running("r", Some("gpus")), running("elsewhere", None)], 1);
        let remaining = [("r", 1200), ("elsewhere", 60)].map(|(uid, left)| (uid.to_owned(), left));
        seen.room.remaining_seconds = BTreeMap::from(remaining);
        let found = judged(&one, &seen);
        assert_eq!(
            found.findings[0].message,
            "Requested 4 GPUs but only 4 available in the queue \"gpus\", and 1 job is ahead. Estimated wait time: 15 to 25 minutes (from the progress of 1 running job and 1 job ahead in the queue)"
        );
        assert_eq!(judged(&job("new", 3, Some("gpus"), json!({})), &seen).wait, Some(Estimate::Unknown));
    }

    #[test]
    fn the_quota_of_a_cluster_queue_that_does_not_select_the_namespace_is_unknown() {
        let one = job("new", 1, Some("gpus"), json!({}));
        let other = Some(BTreeMap::from([("team".to_owned(), "b".to_owned())]));
        let seen = Snapshot { labels: other, ..queued(Vec::new(), 0) };
        let found = judged(&one, &seen);
        let queue = found.queue.unwrap();
        assert_eq!((found.start, queue.free), (Start::Later, None));
        assert_eq!(queue.unknown.unwrap().message, "ClusterQueue all does not select namespace team");
        assert_eq!(
            found.findings[0].message,
            "ClusterQueue all does not select namespace team: the queue \"gpus\" admits nothing"
        );
        assert_eq!(fit_in_queue("team", "gpus", &seen, &found.amounts), None);
        let unread = Snapshot { labels: None, ..queued(Vec::new(), 0) };
        let found = judged(&one, &unread);
        assert_eq!((found.start, found.queue.unwrap().free), (Start::Unknown, None));
    }

    #[test]
    fn a_stopped_a_hidden_and_a_missing_queue_give_no_estimate() {
        let one = job("new", 1, Some("gpus"), json!({}));
        let mut seen = queued(Vec::new(), 0);
        seen.cluster_queues[0].data["spec"]["stopPolicy"] = "Hold".into();
        assert_eq!(judged(&one, &seen).wait, Some(Estimate::Unknown));
        let hidden = Snapshot { cluster_queues: Vec::new(), ..queued(Vec::new(), 0) };
        assert_eq!(judged(&one, &hidden).start, Start::Unknown);
        let other = job("new", 1, Some("gone"), json!({}));
        assert!(judged(&other, &queued(Vec::new(), 0)).findings[0].message.contains("not found"));
        let without = Snapshot { local_queues: None, ..queued(Vec::new(), 0) };
        assert_eq!(judged(&one, &without).start, Start::Now, "a label that nothing reads holds nothing back");
    }
}
