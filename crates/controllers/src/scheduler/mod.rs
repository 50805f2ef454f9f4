//! The scheduler: assigns pods to nodes. Ignores pods with another `schedulerName`, except for those of Volcano and
//! scheduler-plugins if their PodGroup is installed.
//!
//! Pods and nodes come from the shared caches. A cycle takes a snapshot and places every waiting pod in order of
//! priority ([`place`](place::place), pure), and every gang together or not at all ([`gang::judge`], pure). Each
//! placement is assumed at once. Concurrent tasks send the bindings, so that a hundred pods do not wait for one
//! another. A pod that fits nowhere may preempt less important ones ([`preempt::preempt`], pure). Otherwise the reason
//! is reported on it, and it is retried when something changes that could help. Nothing is polled.
//!
//! The scheduler must not place a pod based on a view that lacks its own earlier placements, or the room held for a pod
//! whose victims are terminating.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::{Client, ResourceExt};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;
use tokio::time::Instant;

mod act;
mod affinity;
mod bind;
mod filter;
mod gang;
pub mod groups;
mod membership;
mod node_rules;
mod order;
mod place;
mod preempt;
pub(crate) mod resources;
mod score;
pub(crate) mod snapshot;
mod spread;
#[cfg(test)]
mod tests;
mod unschedulable;
mod volumes;
mod wake;

use crate::volumes::claim_names;
use bind::Nomination;
use controller_runtime::cache::{Cache, Key};
use controller_runtime::kinds::Kinds;
use controller_runtime::record::Recorder;
use controller_runtime::supervision::Scope;
use gang::{Gang, GangDecision};
use groups::Groups;
use membership::{Engine, Membership, membership};
use order::Unit;
use place::{Help, Placement, Surroundings};
use snapshot::NodeView;

/// Concurrent requests (bindings, statuses).
const CONCURRENCY: usize = 32;
/// The scheduler's dependencies.
#[derive(Clone)]
pub struct Context {
    /// The API.
    pub client: Client,
    /// Every pod.
    pub pods: Cache<Pod>,
    /// Every node.
    pub nodes: Cache<Node>,
    /// For `namespaceSelector`.
    pub namespaces: Cache<Namespace>,
    /// Budgets that preemption tries not to violate.
    pub budgets: Cache<PodDisruptionBudget>,
    /// Claims of pods.
    pub claims: Cache<PersistentVolumeClaim>,
    /// Volumes that claims are bound to.
    pub volumes: Cache<PersistentVolume>,
    /// Classes that define how claims are bound.
    pub classes: Cache<StorageClass>,
    /// PodGroups of the installed engines.
    pub groups: Groups,
    /// The kinds currently served.
    pub kinds: Kinds,
    /// Records Events.
    pub recorder: Recorder,
}

/// State beyond the caches, by pod uid.
#[derive(Default)]
struct Memory {
    /// The node of each pod whose binding is in progress or not yet in the cache.
    assumed: BTreeMap<String, String>,
    /// The last message for each pod that fits nowhere.
    told: HashMap<String, String>,
    /// Consecutive refused bindings.
    refused: HashMap<String, u32>,
    /// The node of each pod whose victims are being deleted.
    clearing: HashMap<String, String>,
    /// When each gang with a timeout started to wait.
    waiting_since: HashMap<Membership, Instant>,
}

struct Scheduler {
    context: Context,
    memory: Mutex<Memory>,
    wake: Arc<Notify>,
    slots: Arc<Semaphore>,
}

impl Scheduler {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs until the scope ends.
pub async fn run(context: Context, scope: Scope) {
    let wake = Arc::new(Notify::new());
    wake::listen(&context, &wake, &scope.stop);
    context.groups.watch(&context.client, &context.kinds, &wake, &scope.stop);
    let reports = context.groups.clone().report(context.client.clone(), context.pods.clone(), scope.clone());
    tokio::join!(reports, schedule(context, wake, scope));
}

async fn schedule(context: Context, wake: Arc<Notify>, scope: Scope) {
    context.pods.filled().await;
    context.nodes.filled().await;
    context.namespaces.filled().await;
    context.budgets.filled().await;
    context.claims.filled().await;
    context.volumes.filled().await;
    context.classes.filled().await;
    let scheduler = Arc::new(Scheduler {
        context,
        memory: Mutex::default(),
        wake: wake.clone(),
        slots: Arc::new(Semaphore::new(CONCURRENCY)),
    });
    let mut tasks = JoinSet::new();
    wake.notify_one();
    loop {
        tokio::select! {
            () = scope.stop.cancelled() => return,
            () = wake.notified() => cycle(&scheduler, &mut tasks),
            // After a panic the memory may keep state that the task would have removed, so restart with a new
            // scheduler.
            Some(ended) = tasks.join_next(), if !tasks.is_empty() => {
                if let Err(error) = ended && let Ok(panic) = error.try_into_panic() {
                    std::panic::resume_unwind(panic);
                }
            }
        }
    }
}

/// One pass over all waiting pods.
struct Cycle<'a> {
    scheduler: &'a Arc<Scheduler>,
    pods: Vec<Arc<Pod>>,
    nodes: Vec<NodeView>,
    budgets: Vec<Arc<PodDisruptionBudget>>,
    around: Surroundings<'a>,
    tasks: &'a mut JoinSet<()>,
}

/// Tries to place every waiting pod.
fn cycle(scheduler: &Arc<Scheduler>, tasks: &mut JoinSet<()>) {
    let context = &scheduler.context;
    let pods = context.pods.list();
    let mut waiting: Vec<Arc<Pod>> = pods.iter().filter(|pod| is_ours(context, pod)).cloned().collect();
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
    let namespaces: affinity::Namespaces =
        context.namespaces.list().iter().map(|n| (n.name_any(), n.labels().clone())).collect();
    let storage = storage(context, &waiting);
    let mut cycle = Cycle {
        scheduler,
        nodes: snapshot::snapshot(&context.nodes.list(), &pods, &assumed),
        pods,
        budgets: context.budgets.list(),
        around: Surroundings { namespaces: &namespaces, storage: &storage },
        tasks,
    };
    waiting.retain(|pod| {
        let gated = order::is_gated(pod);
        if gated {
            act::tell_gated(scheduler, pod, cycle.tasks);
        }
        !gated
    });
    for unit in order::units(waiting, |pod| gang_of(context, pod)) {
        cycle.settle(unit);
    }
}

/// Returns claims, volumes and classes; empty if no waiting pod has a claim.
fn storage(context: &Context, waiting: &[Arc<Pod>]) -> volumes::Storage {
    if !waiting.iter().any(|pod| claim_names(pod).next().is_some()) {
        return volumes::Storage::default();
    }
    volumes::Storage {
        claims: context.claims.list().into_iter().map(|claim| (Key::of(claim.as_ref()), claim)).collect(),
        volumes: context.volumes.list().into_iter().map(|volume| (volume.name_any(), volume)).collect(),
        classes: context.classes.list().into_iter().map(|class| (class.name_any(), class)).collect(),
    }
}

/// Returns whether the pod waits and this scheduler handles it.
fn is_ours(context: &Context, pod: &Pod) -> bool {
    let served = |engine: Option<Engine>| engine.is_none_or(|engine| context.groups.serves(engine));
    order::is_waiting(pod) && order::scheduler_of(pod).is_ok_and(served)
}

/// Returns the gang of a pod. As in scheduler-plugins, its label counts only if a PodGroup of that name exists.
fn gang_of(context: &Context, pod: &Pod) -> Option<Membership> {
    membership(pod)
        .filter(|of| of.engine == Engine::Volcano || context.groups.get(of).is_some())
        .filter(|of| context.groups.serves(of.engine))
}

impl Cycle<'_> {
    fn settle(&mut self, unit: Unit) {
        // Victims are being deleted: hold the room, and decide nothing until that is done.
        let clearing: Vec<Option<String>> = {
            let memory = self.scheduler.memory();
            unit.pods.iter().map(|pod| memory.clearing.get(uid(pod)).cloned()).collect()
        };
        if clearing.iter().any(Option::is_some) {
            for (pod, node) in unit.pods.iter().zip(clearing) {
                self.hold(pod, node.as_deref());
            }
            return;
        }
        match unit.gang {
            Some(of) => self.settle_gang(&of, &unit.pods),
            None => unit.pods.into_iter().for_each(|pod| self.settle_pod(pod)),
        }
    }

    /// Counts the pod as being on the node, so that no later pod gets the room.
    fn hold(&mut self, pod: &Arc<Pod>, node: Option<&str>) {
        if let Some(node) = self.nodes.iter_mut().find(|n| Some(n.name()) == node) {
            node.place(pod.clone());
        }
    }

    fn bind(&mut self, pod: Arc<Pod>, position: usize) {
        let name = self.nodes[position].name().to_owned();
        self.nodes[position].place(pod.clone());
        let waiting = volumes::VolumeView::of(&pod, self.around.storage).waiting;
        if !waiting.is_empty() {
            // Its claims get their volumes first; the change of the claims leads to another cycle.
            act::select_node(self.scheduler, waiting, &name, self.tasks);
            return;
        }
        act::assume_and_bind(self.scheduler, pod, name, self.tasks);
    }

    fn settle_pod(&mut self, pod: Arc<Pod>) {
        let rejections = match place::place(&pod, &self.nodes, self.around) {
            Placement::On(position) => return self.bind(pod, position),
            Placement::Nowhere(rejections) => rejections,
        };
        match preempt::preempt(&pod, &self.nodes, &rejections, &self.budgets, self.around) {
            Ok(candidate) => {
                let why = place::fit_error(&rejections, &Help::Yes);
                let position = candidate.position;
                let nominated = [(pod.clone(), position)];
                act::clear(
                    self.scheduler,
                    &nominated,
                    vec![candidate],
                    vec![(pod.clone(), why)],
                    &self.nodes,
                    self.tasks,
                );
                self.nodes[position].place(pod);
            }
            Err(help) => {
                let why = place::fit_error(&rejections, &help);
                // Victims are still terminating: keep holding the room.
                let keeps = help == Help::NotEligible(preempt::TERMINATING);
                let held = place::nominated_node(&pod).filter(|_| keeps).map(str::to_owned);
                self.hold(&pod, held.as_deref());
                let nomination = if keeps || place::nominated_node(&pod).is_none() {
                    Nomination::Keep
                } else {
                    Nomination::None
                };
                act::tell_unschedulable(self.scheduler, pod, why, nomination, self.tasks);
            }
        }
    }

    fn settle_gang(&mut self, of: &Membership, waiting: &[Arc<Pod>]) {
        let groups = &self.scheduler.context.groups;
        let Some(group) = groups.get(of) else {
            let why = format!("pod group {} of {} does not exist", of.key, of.engine.group());
            for pod in waiting {
                act::tell_unschedulable(
                    self.scheduler,
                    pod.clone(),
                    why.clone(),
                    Nomination::Keep,
                    self.tasks,
                );
            }
            return;
        };
        let settled = self.pods.iter().filter(|pod| self.is_settled(pod, of)).count();
        let min_member = usize::try_from(group.spec.min_member).unwrap_or(0).max(1);
        let seconds = group.spec.schedule_timeout_seconds.and_then(|s| u64::try_from(s).ok());
        let timeout = seconds.filter(|seconds| *seconds > 0).map(Duration::from_secs);
        let gang = Gang { of, min_member, settled, waiting };
        match gang::judge(&gang, &self.nodes, &self.budgets, self.around) {
            GangDecision::Bind { placed, rest } => {
                groups.say(of, None);
                self.scheduler.memory().waiting_since.remove(of);
                placed.into_iter().for_each(|(pod, position)| self.bind(pod, position));
                rest.into_iter().for_each(|pod| self.settle_pod(pod));
            }
            GangDecision::Clear { nominated, victims, told } => {
                act::clear(self.scheduler, &nominated, victims, told, &self.nodes, self.tasks);
                nominated.into_iter().for_each(|(pod, position)| self.nodes[position].place(pod));
            }
            GangDecision::Wait { told, why, hopeful } => {
                act::tell_gang(self.scheduler, of, &why, timeout, self.tasks);
                self.keep_waiting(of, told, timeout, hopeful);
            }
        }
    }

    /// Returns whether a member of the gang has a node and has not failed.
    fn is_settled(&self, pod: &Pod, of: &Membership) -> bool {
        let placed =
            snapshot::node_name(pod).is_some() || self.scheduler.memory().assumed.contains_key(uid(pod));
        semantics::phase(pod) != "Failed"
            && pod.metadata.deletion_timestamp.is_none()
            && placed
            && membership(pod).as_ref() == Some(of)
    }

    /// Reports to a gang's members why they wait. Releases the room held for them when no victim is terminating any
    /// more (not `hopeful`), or after the gang's timeout.
    fn keep_waiting(
        &mut self,
        of: &Membership,
        told: Vec<(Arc<Pod>, String)>,
        timeout: Option<Duration>,
        hopeful: bool,
    ) {
        let since = self.scheduler.memory().waiting_since.get(of).copied();
        let late = timeout.filter(|timeout| since.is_some_and(|since| since.elapsed() >= *timeout));
        if late.is_some() {
            self.scheduler.memory().waiting_since.remove(of);
        }
        for (pod, why) in told {
            let nominated = place::nominated_node(&pod).map(str::to_owned);
            let (why, nomination) = match late {
                Some(timeout) if nominated.is_some() => {
                    let plugin = "rejected due to timeout after waiting";
                    (format!("{plugin} {}s at plugin Coscheduling", timeout.as_secs()), Nomination::None)
                }
                _ if nominated.is_some() && !hopeful => (why, Nomination::None),
                _ => (why, Nomination::Keep),
            };
            if nomination == Nomination::Keep {
                self.hold(&pod, nominated.as_deref());
            }
            act::tell_unschedulable(self.scheduler, pod, why, nomination, self.tasks);
        }
    }
}

/// Drops the state of pods that no longer wait.
fn forget(memory: &mut Memory, waiting: &[Arc<Pod>]) {
    let still: std::collections::HashSet<&str> = waiting.iter().map(|pod| uid(pod)).collect();
    memory.assumed.retain(|uid, _| still.contains(uid.as_str()));
    memory.told.retain(|uid, _| still.contains(uid.as_str()));
    memory.refused.retain(|uid, _| still.contains(uid.as_str()));
    let gangs: std::collections::BTreeSet<Membership> =
        waiting.iter().filter_map(|pod| membership(pod)).collect();
    memory.waiting_since.retain(|of, _| gangs.contains(of));
}

fn uid(pod: &Pod) -> &str {
    pod.metadata.uid.as_deref().unwrap_or("")
}
