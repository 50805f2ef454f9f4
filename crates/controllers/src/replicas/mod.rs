//! Maintains the number of pods of a ReplicaSet or a ReplicationController, as kube-controller-manager's controllers of
//! these names: observe, decide (pure), apply.
//!
//! Input: sets and pods from the shared caches. Output: pods, owner references, status and Events.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions};
use kube::{Client, ResourceExt};
use serde_json::json;

mod decide;
mod kinds;

pub use kinds::Replicated;

use super::cache::{Cache, Key};
use super::queue::{Queue, work};
use super::record::{Note, Recorder};
use super::{Error, allow, in_words, refusal};
use controller_runtime::supervision::Scope;
use decide::{ObservedReplicas, Plan, decide};

/// Sets processed concurrently.
const CONCURRENCY: usize = 16;
/// Concurrent requests for one set.
const REQUESTS: usize = 32;
/// The longest prefix that leaves room for the five random characters of a generated name.
const PREFIX_MAX: usize = 57;

/// The controller's dependencies.
#[derive(Clone)]
pub struct Context<K> {
    /// The API.
    pub client: Client,
    /// Every set.
    pub sets: Cache<K>,
    /// Every pod.
    pub pods: Cache<Pod>,
    /// Records Events.
    pub recorder: Recorder,
}

/// Runs until the scope ends.
pub async fn run<K: Replicated>(context: Context<K>, scope: Scope) {
    let queue: Arc<Queue<Key>> = Arc::default();
    let to = queue.clone();
    context.sets.on_change(&scope.stop, move |change| {
        if let Some(set) = change.latest() {
            to.add(Key::of(set.as_ref()));
        }
    });
    let (to, sets) = (queue.clone(), context.sets.clone());
    context.pods.on_change(&scope.stop, move |change| {
        for pod in [&change.old, &change.new].into_iter().flatten() {
            concerned(&sets, pod, &to);
        }
    });
    context.sets.filled().await;
    context.pods.filled().await;
    for set in context.sets.list() {
        queue.add(Key::of(set.as_ref()));
    }
    work(queue, CONCURRENCY, scope, |key| step(&context, key)).await;
}

/// Enqueues the sets that a pod's change concerns: its controller, or the sets that select a pod without one.
fn concerned<K: Replicated>(sets: &Cache<K>, pod: &Pod, queue: &Queue<Key>) {
    let namespace = pod.namespace().unwrap_or_default();
    let controller = pod.metadata.owner_references.iter().flatten().find(|o| o.controller == Some(true));
    match controller {
        Some(owner) if owner.kind == K::KIND => queue.add(Key::new(namespace, owner.name.clone())),
        Some(_) => {}
        None => {
            for set in sets.list_in(&namespace) {
                if decide::selects(&set.wanted(), pod) {
                    queue.add(Key::of(set.as_ref()));
                }
            }
        }
    }
}

async fn step<K: Replicated>(context: &Context<K>, key: Key) -> Result<Option<Duration>, Error> {
    let Some(set) = context.sets.get(&key) else { return Ok(None) };
    let (uid, wanted, now) = (set.uid().unwrap_or_default(), set.wanted(), Timestamp::now());
    let pods = context.pods.list_in(&key.namespace);
    let is_deleted = set.meta().deletion_timestamp.is_some();
    let mut plan = decide(&ObservedReplicas { uid: &uid, is_deleted, wanted: &wanted, pods: &pods, now });
    let failed = apply(context, set.as_ref(), &mut plan).await;
    if let Some(error) = &failed {
        let reason = if plan.create > 0 { "FailedCreate" } else { "FailedDelete" };
        plan.counts.failure = Some((reason, error.to_string()));
    }
    if let Some(changed) = set.with(&plan.counts, now) {
        let api: Api<K> = Api::namespaced(context.client.clone(), &key.namespace);
        match api.replace_status(&key.name, &PostParams::default(), &changed).await {
            Ok(written) => context.sets.learn(written),
            // Deleted meanwhile; the watch will deliver that.
            Err(error) if refusal(&error) == Some(404) => {}
            Err(error) => return Err(error.into()),
        }
    }
    failed.map_or(Ok(plan.again), Err)
}

/// Carries out as much of the plan as possible. Returns the first error.
async fn apply<K: Replicated>(context: &Context<K>, set: &K, plan: &mut Plan) -> Option<Error> {
    let api: Api<Pod> = Api::namespaced(context.client.clone(), &set.namespace().unwrap_or_default());
    let mut failed = None;
    for (pod, adopt) in plan.adopt.iter().map(|p| (p, true)).chain(plan.release.iter().map(|p| (p, false))) {
        if let Err(error) = change_owner(context, &api, set, pod, adopt).await {
            failed = failed.or(Some(error));
        }
    }
    if failed.is_some() {
        // The ownership of pods is unsettled, so no count can be trusted.
        return failed;
    }
    for error in delete(context, &api, set, &plan.delete).await {
        failed = failed.or(Some(error));
    }
    failed.or(create(context, &api, set, plan.create).await)
}

async fn change_owner<K: Replicated>(
    context: &Context<K>,
    api: &Api<Pod>,
    set: &K,
    pod: &Pod,
    adopt: bool,
) -> Result<(), Error> {
    let reference = if adopt { json!(owner_of(set)) } else { json!({"$patch": "delete", "uid": set.uid()}) };
    let change = json!({"metadata": {"uid": pod.uid(), "ownerReferences": [reference]}});
    match api.patch(&pod.name_any(), &PatchParams::default(), &Patch::Strategic(change)).await {
        Ok(pod) => {
            context.pods.learn(pod);
            Ok(())
        }
        // Gone, or another pod has its name.
        Err(error) if matches!(refusal(&error), Some(404 | 409 | 422)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn owner_of<K: Replicated>(set: &K) -> k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference {
    let mut owner = set.controller_owner_ref(&()).unwrap_or_default();
    owner.block_owner_deletion = Some(true);
    owner
}

async fn delete<K: Replicated>(
    context: &Context<K>,
    api: &Api<Pod>,
    set: &K,
    pods: &[Arc<Pod>],
) -> Vec<Error> {
    let requests: Vec<_> = pods.iter().map(|pod| delete_one(api.clone(), pod.clone())).collect();
    let results: Vec<_> = futures::stream::iter(requests).buffer_unordered(REQUESTS).collect().await;
    let mut failed = Vec::new();
    for (name, result) in results {
        match result {
            Ok(left) => {
                context.recorder.note(set, Note::normal("SuccessfulDelete", format!("Deleted pod: {name}")));
                if let Some(pod) = left {
                    context.pods.learn(pod);
                }
            }
            Err(error) => failed.extend(allow::<Pod>(&[404, 409], Err(error)).err()),
        }
    }
    failed
}

/// Deletes a pod. Returns the pod if it still exists because it ends gracefully.
async fn delete_one(api: Api<Pod>, pod: Arc<Pod>) -> (String, Result<Option<Pod>, kube::Error>) {
    let precondition = Preconditions { uid: pod.uid(), resource_version: None };
    let name = pod.name_any();
    let reply = api.delete(&name, &DeleteParams::default().preconditions(precondition)).await;
    (name, reply.map(|reply| reply.left()))
}

/// Creates pods in batches of 1, 2, 4, …, so that an error common to all is hit only once (upstream's slow start).
async fn create<K: Replicated>(context: &Context<K>, api: &Api<Pod>, set: &K, count: usize) -> Option<Error> {
    let pod = new_pod(set);
    let (mut left, mut batch) = (count, 1);
    while left > 0 {
        let now = left.min(batch);
        let requests: Vec<_> = (0..now).map(|_| create_one(api.clone(), pod.clone())).collect();
        let results: Vec<_> = futures::stream::iter(requests).buffer_unordered(REQUESTS).collect().await;
        for result in results {
            match result {
                Ok(pod) => {
                    let message = format!("Created pod: {}", pod.name_any());
                    context.recorder.note(set, Note::normal("SuccessfulCreate", message));
                    context.pods.learn(pod);
                }
                Err(error) => {
                    let message = format!("Error creating: {}", in_words(&error));
                    context.recorder.note(set, Note::warning("FailedCreate", message));
                    return Some(error.into());
                }
            }
        }
        (left, batch) = (left - now, (batch * 2).min(REQUESTS));
    }
    None
}

async fn create_one(api: Api<Pod>, pod: Pod) -> Result<Pod, kube::Error> {
    api.create(&PostParams::default(), &pod).await
}

/// Creates a pod from the template (`GetPodFromTemplate`).
fn new_pod<K: Replicated>(set: &K) -> Pod {
    let template = set.wanted().template;
    let metadata = template.metadata.unwrap_or_default();
    let prefix: String = set.name_any().chars().take(PREFIX_MAX).collect();
    Pod {
        metadata: ObjectMeta {
            generate_name: Some(prefix + "-"),
            namespace: set.namespace(),
            labels: metadata.labels,
            annotations: metadata.annotations,
            finalizers: metadata.finalizers,
            owner_references: Some(vec![owner_of(set)]),
            ..ObjectMeta::default()
        },
        spec: template.spec,
        status: None,
    }
}
