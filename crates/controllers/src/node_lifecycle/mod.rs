//! Node lifecycle: a node whose Lease is not renewed becomes Ready=Unknown and is tainted. Its pods are evicted when
//! they no longer tolerate that.
//!
//! This process times renewals with its monotonic clock from when it sees them, and from when it last woke, so neither a
//! jump of the wall clock nor a suspended machine or a paused process loses a node. Nothing is polled: each node is checked when it changes and when its grace period
//! ends.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Client, ResourceExt};
use serde_json::json;
use tokio::time::Instant;

mod decide;

use super::cache::{Cache, Key};
use super::queue::{Queue, work};
use super::record::{Note, Recorder};
use super::{Error, allow};
use crate::scheduler::snapshot::node_name;
use controller_runtime::awake::Awake;
use controller_runtime::supervision::Scope;
use semantics::has_ended;

/// Responses that need no retry: the object is gone, or another has its name.
const SETTLED: [u16; 2] = [404, 409];
/// Nodes processed concurrently.
const CONCURRENCY: usize = 8;
/// The namespace of the nodes' Leases.
const LEASES: &str = "kube-node-lease";

/// The controller's dependencies.
#[derive(Clone)]
pub struct Context {
    /// The API.
    pub client: Client,
    /// Every node.
    pub nodes: Cache<Node>,
    /// Every pod.
    pub pods: Cache<Pod>,
    /// Every Lease.
    pub leases: Cache<Lease>,
    /// Records Events.
    pub recorder: Recorder,
    /// How long a node may be silent.
    pub grace: Duration,
}

/// What was seen of the nodes.
#[derive(Default)]
struct Signs {
    /// The last heartbeat of each node, and when it was seen.
    seen: Mutex<HashMap<String, (Option<Timestamp>, Instant)>>,
    /// Since when this process has been able to see any.
    awake: Awake,
}

/// Runs until the scope ends.
pub async fn run(context: Context, scope: Scope) {
    let queue: Arc<Queue<String>> = Arc::default();
    let to = queue.clone();
    context.nodes.on_change(&scope.stop, move |change| {
        if let Some(node) = change.latest() {
            to.add(node.name_any());
        }
    });
    let to = queue.clone();
    context.leases.on_change(&scope.stop, move |change| {
        if let Some(lease) = change.latest().filter(|lease| lease.namespace().as_deref() == Some(LEASES)) {
            to.add(lease.name_any());
        }
    });
    let (to, nodes) = (queue.clone(), context.nodes.clone());
    context.pods.on_change(&scope.stop, move |change| {
        let arrived =
            change.new.as_ref().filter(|_| change.old.as_ref().is_none_or(|o| node_name(o).is_none()));
        if let Some(name) = arrived.and_then(|pod| node_name(pod))
            && nodes.get(&Key::new("", name)).is_some_and(|node| evicts(&node))
        {
            to.add(name.to_owned());
        }
    });
    context.nodes.filled().await;
    context.pods.filled().await;
    context.leases.filled().await;
    for node in context.nodes.list() {
        queue.add(node.name_any());
    }
    let signs = Signs::default();
    tokio::select! {
        () = work(queue, CONCURRENCY, scope, |name| step(&context, &signs, name)) => {}
        () = signs.awake.beat() => {}
    }
}

fn evicts(node: &Node) -> bool {
    node.spec.as_ref().and_then(|s| s.taints.as_ref()).into_iter().flatten().any(|t| t.effect == "NoExecute")
}

async fn step(context: &Context, signs: &Signs, name: String) -> Result<Option<Duration>, Error> {
    let Some(node) = context.nodes.get(&Key::new("", &name)) else {
        signs.seen.lock().unwrap_or_else(PoisonError::into_inner).remove(&name);
        return Ok(None);
    };
    let left = context.grace.checked_sub(silence(context, signs, &node)).filter(|left| !left.is_zero());
    let mut node = node;
    if left.is_none()
        && let Some(conditions) = decide::lost_conditions(&node, Timestamp::now())
    {
        node = lose(context, &node, conditions).await?;
    }
    if let Some(taints) = decide::taints(&node, Timestamp::now()) {
        node = write_taints(context, &node, taints).await?;
    }
    let next_eviction = if evicts(&node) { evict(context, &node).await? } else { None };
    Ok([left, next_eviction].into_iter().flatten().min())
}

/// Returns how long the node has been silent.
fn silence(context: &Context, signs: &Signs, node: &Node) -> Duration {
    let name = node.name_any();
    let lease = context.leases.get(&Key::new(LEASES, &name));
    let renewed = lease.and_then(|l| Some(l.spec.as_ref()?.renew_time.as_ref()?.0));
    let conditions = node.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
    let ready = conditions.iter().find(|c| c.type_ == "Ready");
    let sign = renewed.or_else(|| Some(ready?.last_heartbeat_time.as_ref()?.0));
    let mut seen = signs.seen.lock().unwrap_or_else(PoisonError::into_inner);
    let now = Instant::now();
    let known = seen.entry(name).or_insert((sign, now));
    if known.0 != sign {
        *known = (sign, now);
    }
    now.saturating_duration_since(known.1.max(signs.awake.since(now)))
}

async fn lose(
    context: &Context,
    node: &Node,
    conditions: Vec<k8s_openapi::api::core::v1::NodeCondition>,
) -> Result<Arc<Node>, Error> {
    let mut next = node.clone();
    next.status.get_or_insert_default().conditions = Some(conditions);
    let api: Api<Node> = Api::all(context.client.clone());
    let written = api.replace_status(&node.name_any(), &PostParams::default(), &next).await?;
    context.nodes.learn(written.clone());
    let message = format!("Node {} status is now: NodeNotReady", node.name_any());
    context.recorder.note(node, Note::normal("NodeNotReady", message));
    for pod in pods_on(context, &node.name_any()) {
        let api: Api<Pod> = Api::namespaced(context.client.clone(), &pod.namespace().unwrap_or_default());
        let patch = json!({"metadata": {"uid": pod.uid()}, "status": {"conditions":
            [{"type": "Ready", "status": "False", "lastTransitionTime": Timestamp::now().to_string()}]}});
        allow(
            &SETTLED,
            api.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Strategic(patch)).await,
        )?;
        context.recorder.note(pod.as_ref(), Note::warning("NodeNotReady", "Node is not ready"));
    }
    Ok(Arc::new(written))
}

fn pods_on(context: &Context, node: &str) -> Vec<Arc<Pod>> {
    context.pods.list().into_iter().filter(|pod| node_name(pod) == Some(node) && !has_ended(pod)).collect()
}

async fn write_taints(
    context: &Context,
    node: &Node,
    taints: Vec<k8s_openapi::api::core::v1::Taint>,
) -> Result<Arc<Node>, Error> {
    let mut next = node.clone();
    next.spec.get_or_insert_default().taints = Some(taints).filter(|list| !list.is_empty());
    let api: Api<Node> = Api::all(context.client.clone());
    let written = api.replace(&node.name_any(), &PostParams::default(), &next).await?;
    context.nodes.learn(written.clone());
    Ok(Arc::new(written))
}

/// Evicts the pods whose time on the node is over. Returns the time until the next eviction.
async fn evict(context: &Context, node: &Node) -> Result<Option<Duration>, Error> {
    let mut next: Option<Duration> = None;
    for pod in pods_on(context, &node.name_any()) {
        if pod.metadata.deletion_timestamp.is_some() {
            continue;
        }
        match decide::eviction(&pod, node, Timestamp::now()) {
            None => {}
            Some(left) if !left.is_zero() => next = Some(next.map_or(left, |known| known.min(left))),
            Some(_) => remove(context, &pod).await?,
        }
    }
    Ok(next)
}

async fn remove(context: &Context, pod: &Pod) -> Result<(), Error> {
    let namespace = pod.namespace().unwrap_or_default();
    let message = format!("Marking for deletion Pod {namespace}/{}", pod.name_any());
    context.recorder.note(pod, Note::normal("TaintManagerEviction", message));
    let api: Api<Pod> = Api::namespaced(context.client.clone(), &namespace);
    let patch = json!({"metadata": {"uid": pod.uid()}, "status": {"conditions": [{"type": "DisruptionTarget",
        "status": "True", "reason": "DeletionByTaintManager",
        "message": "Taint manager: deleting due to NoExecute taint",
        "lastTransitionTime": Timestamp::now().to_string()}]}});
    allow(
        &SETTLED,
        api.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Strategic(patch)).await,
    )?;
    let precondition = Preconditions { uid: pod.uid(), resource_version: None };
    allow(&SETTLED, api.delete(&pod.name_any(), &DeleteParams::default().preconditions(precondition)).await)
}
