//! The scheduler: gives pods a node. Pods whose `schedulerName` is another's are left alone.
//!
//! Pods and nodes come in through the shared caches. A cycle takes a snapshot, places every waiting pod in order of
//! priority ([`place`](place::place), pure), assumes each placement at once, and leaves the bindings to tasks that run
//! side by side, so that a hundred pods do not wait for one another. A pod that fits nowhere is told why and is tried
//! again when something changes that could help; nothing is polled.
//!
//! What it must not do: place a pod from a view that lacks its own earlier placements. Gangs and preemption are not
//! decided here yet; both would stand between the order of the queue and the placements.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::{Client, ResourceExt};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

mod affinity;
mod bind;
mod filter;
mod order;
mod place;
mod resources;
mod score;
pub(crate) mod selectors;
pub(crate) mod snapshot;
mod spread;
#[cfg(test)]
mod tests;
mod wake;

use crate::controllers::cache::Cache;
use crate::controllers::queue::doubled;
use crate::controllers::record::{Note, Recorder};
use place::Placement;

/// Requests (bindings, statuses) under way at once.
const CONCURRENCY: usize = 32;
/// First wait after a binding was refused; doubles up to [`RETRY_MAX`].
const RETRY_FIRST: Duration = Duration::from_millis(50);
/// Longest wait after a binding was refused.
const RETRY_MAX: Duration = Duration::from_secs(10);

/// What the scheduler works with.
#[derive(Clone)]
pub struct Hands {
    /// The API.
    pub client: Client,
    /// Every pod.
    pub pods: Cache<Pod>,
    /// Every node.
    pub nodes: Cache<Node>,
    /// For `namespaceSelector`.
    pub namespaces: Cache<Namespace>,
    /// For events.
    pub recorder: Recorder,
}

/// What is known beyond the caches, by pod uid.
#[derive(Default)]
struct Memory {
    /// Node of each pod whose binding is under way or not yet seen in the cache.
    assumed: BTreeMap<String, String>,
    /// What was last said about each pod that fits nowhere.
    told: HashMap<String, String>,
    /// Bindings refused in a row.
    refused: HashMap<String, u32>,
}

struct Scheduler {
    hands: Hands,
    memory: Mutex<Memory>,
    wake: Arc<Notify>,
    slots: Arc<Semaphore>,
}

impl Scheduler {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs until `stop`.
pub async fn run(hands: Hands, stop: CancellationToken) {
    let wake = Arc::new(Notify::new());
    wake::listen(&hands, &wake);
    hands.pods.filled().await;
    hands.nodes.filled().await;
    hands.namespaces.filled().await;
    let scheduler = Arc::new(Scheduler {
        hands,
        memory: Mutex::default(),
        wake: wake.clone(),
        slots: Arc::new(Semaphore::new(CONCURRENCY)),
    });
    let mut tasks = JoinSet::new();
    wake.notify_one();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = wake.notified() => cycle(&scheduler, &mut tasks),
            Some(_) = tasks.join_next(), if !tasks.is_empty() => {}
        }
    }
}

/// Places every waiting pod.
fn cycle(scheduler: &Arc<Scheduler>, tasks: &mut JoinSet<()>) {
    let hands = &scheduler.hands;
    let pods = hands.pods.list();
    let mut waiting: Vec<Arc<Pod>> = pods.iter().filter(|pod| order::is_waiting(pod)).cloned().collect();
    let assumed = {
        let mut memory = scheduler.memory();
        forget(&mut memory, &waiting);
        waiting.retain(|pod| !memory.assumed.contains_key(uid(pod)));
        memory.assumed.clone()
    };
    if waiting.is_empty() {
        return;
    }
    order::sort(&mut waiting);
    let mut nodes = snapshot::snapshot(&hands.nodes.list(), &pods, &assumed);
    let namespaces: affinity::Namespaces =
        hands.namespaces.list().iter().map(|n| (n.name_any(), n.labels().clone())).collect();
    for pod in waiting {
        if order::is_gated(&pod) {
            tell_gated(scheduler, &pod, tasks);
            continue;
        }
        match place::place(&pod, &nodes, &namespaces) {
            Placement::On(position) => {
                let name = nodes[position].name().to_owned();
                nodes[position].place(pod.clone());
                assume_and_bind(scheduler, pod, name, tasks);
            }
            Placement::Nowhere(why) => tell_unschedulable(scheduler, pod, why, tasks),
        }
    }
}

/// Drops what is remembered of pods that no longer wait.
fn forget(memory: &mut Memory, waiting: &[Arc<Pod>]) {
    let still: std::collections::HashSet<&str> = waiting.iter().map(|pod| uid(pod)).collect();
    memory.assumed.retain(|uid, _| still.contains(uid.as_str()));
    memory.told.retain(|uid, _| still.contains(uid.as_str()));
    memory.refused.retain(|uid, _| still.contains(uid.as_str()));
}

fn uid(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or("")
}

fn assume_and_bind(scheduler: &Arc<Scheduler>, pod: Arc<Pod>, node: String, tasks: &mut JoinSet<()>) {
    scheduler.memory().assumed.insert(uid(&pod).to_owned(), node.clone());
    let scheduler = scheduler.clone();
    tasks.spawn(async move {
        let Ok(slot) = scheduler.slots.acquire().await else { return };
        let result = bind::bind(&scheduler.hands.client, &pod, &node).await;
        // A refused pod waits before the next try; it must not keep others from theirs.
        drop(slot);
        match result {
            Ok(()) => {
                let place = format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any());
                let message = format!("Successfully assigned {place} to {node}");
                scheduler.hands.recorder.note(pod.as_ref(), Note::normal("Scheduled", message));
            }
            Err(error) => not_bound(&scheduler, &pod, &error).await,
        }
    });
}

/// Gives the place back and tries again after a while.
async fn not_bound(scheduler: &Scheduler, pod: &Pod, error: &crate::controllers::Error) {
    let gone = matches!(error.code(), Some(404));
    let wait = {
        let mut memory = scheduler.memory();
        let count = memory.refused.entry(uid(pod).to_owned()).or_insert(0);
        *count += 1;
        doubled(RETRY_FIRST, *count - 1, RETRY_MAX)
    };
    if !gone {
        let message = format!("binding rejected: {error}");
        scheduler.hands.recorder.note(pod, Note::warning("FailedScheduling", message));
        tokio::time::sleep(wait).await;
    }
    scheduler.memory().assumed.remove(uid(pod));
    scheduler.wake.notify_one();
}

fn tell_unschedulable(scheduler: &Arc<Scheduler>, pod: Arc<Pod>, why: String, tasks: &mut JoinSet<()>) {
    let known = scheduler.memory().told.insert(uid(&pod).to_owned(), why.clone());
    if known.as_ref() == Some(&why) {
        return;
    }
    let scheduler = scheduler.clone();
    tasks.spawn(async move {
        let Ok(_slot) = scheduler.slots.acquire().await else { return };
        scheduler.hands.recorder.note(pod.as_ref(), Note::warning("FailedScheduling", why.clone()));
        tell(&scheduler, &pod, "Unschedulable", &why).await;
    });
}

fn tell_gated(scheduler: &Arc<Scheduler>, pod: &Arc<Pod>, tasks: &mut JoinSet<()>) {
    let why = "Scheduling is blocked due to non-empty scheduling gates";
    let known = scheduler.memory().told.insert(uid(pod).to_owned(), why.to_owned());
    if known.as_deref() == Some(why) {
        return;
    }
    let (scheduler, pod) = (scheduler.clone(), pod.clone());
    tasks.spawn(async move { tell(&scheduler, &pod, "SchedulingGated", why).await });
}

async fn tell(scheduler: &Scheduler, pod: &Pod, reason: &str, why: &str) {
    match bind::write_condition(&scheduler.hands.client, pod, reason, why).await {
        Ok(Some(pod)) => scheduler.hands.pods.learn(pod),
        Ok(None) => {}
        Err(error) => {
            tracing::debug!(pod = pod.name_any(), %error, "condition PodScheduled not written");
            // Say it again next time.
            scheduler.memory().told.remove(uid(pod));
        }
    }
}
