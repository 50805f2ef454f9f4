//! Rolls out Deployments through their ReplicaSets, as kube-controller-manager does: observe, decide (pure), apply.
//!
//! Input: Deployments, ReplicaSets and pods from the shared caches. Output: ReplicaSets, status and Events.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Client, Resource, ResourceExt};
use serde_json::json;

mod decide;
mod status;

use super::cache::{Cache, Key};
use super::queue::{Queue, work};
use super::record::{Note, Recorder};
use super::{Error, allow, refusal};
use controller_runtime::supervision::Scope;
use decide::{Plan, REVISION};
use semantics::{has_ended, labels_match};

/// Deployments processed concurrently.
const CONCURRENCY: usize = 8;
/// Responses that need no retry: the object is gone, or another has its name.
const SETTLED: [u16; 3] = [404, 409, 422];

/// The controller's dependencies.
#[derive(Clone)]
pub struct Context {
    /// The API.
    pub client: Client,
    /// Every Deployment.
    pub deployments: Cache<Deployment>,
    /// Every ReplicaSet.
    pub sets: Cache<ReplicaSet>,
    /// Every pod.
    pub pods: Cache<Pod>,
    /// Records Events.
    pub recorder: Recorder,
}

/// Runs until the scope ends.
pub async fn run(context: Context, scope: Scope) {
    let queue: Arc<Queue<Key>> = Arc::default();
    let to = queue.clone();
    context.deployments.on_change(&scope.stop, move |change| {
        if let Some(deployment) = change.latest() {
            to.add(Key::of(deployment.as_ref()));
        }
    });
    let (to, deployments) = (queue.clone(), context.deployments.clone());
    context.sets.on_change(&scope.stop, move |change| {
        for set in [&change.old, &change.new].into_iter().flatten() {
            concerned(&deployments, set, &to);
        }
    });
    let (to, sets) = (queue.clone(), context.sets.clone());
    context.pods.on_change(&scope.stop, move |change| {
        // Only the removal of a pod matters: a Recreate roll-out waits for the last old pod.
        let Some(pod) = change.old.as_ref().filter(|_| change.new.is_none()) else { return };
        let owner = pod.metadata.owner_references.iter().flatten().find(|o| o.kind == "ReplicaSet");
        let set =
            owner.and_then(|o| sets.get(&Key::new(pod.namespace().unwrap_or_default(), o.name.clone())));
        if let Some(owner) = set.as_ref().and_then(|set| controller(set)) {
            to.add(owner);
        }
    });
    context.deployments.filled().await;
    context.sets.filled().await;
    context.pods.filled().await;
    for deployment in context.deployments.list() {
        queue.add(Key::of(deployment.as_ref()));
    }
    work(queue, CONCURRENCY, scope, |key| step(&context, key)).await;
}

/// Returns the Deployment that controls a set.
fn controller(set: &ReplicaSet) -> Option<Key> {
    let mut owners = set.metadata.owner_references.iter().flatten();
    let owner = owners.find(|o| o.controller == Some(true) && o.kind == "Deployment")?;
    Some(Key::new(set.namespace().unwrap_or_default(), owner.name.clone()))
}

fn concerned(deployments: &Cache<Deployment>, set: &ReplicaSet, queue: &Queue<Key>) {
    if let Some(key) = controller(set) {
        queue.add(key);
        return;
    }
    for deployment in deployments.list_in(&set.namespace().unwrap_or_default()) {
        if selects(&deployment, set) {
            queue.add(Key::of(deployment.as_ref()));
        }
    }
}

fn selects(deployment: &Deployment, set: &ReplicaSet) -> bool {
    let labels = set.metadata.labels.clone().unwrap_or_default();
    deployment.spec.as_ref().is_some_and(|spec| labels_match(&spec.selector, &labels))
}

async fn step(context: &Context, key: Key) -> Result<Option<Duration>, Error> {
    let Some(deployment) = context.deployments.get(&key) else { return Ok(None) };
    let is_deleted = deployment.metadata.deletion_timestamp.is_some();
    if !is_deleted {
        claim(context, &deployment).await?;
    }
    let uid = deployment.uid().unwrap_or_default();
    let owned = |set: &Arc<ReplicaSet>| {
        set.metadata.owner_references.iter().flatten().any(|o| o.controller == Some(true) && o.uid == uid)
    };
    let own = || context.sets.list_in(&key.namespace).into_iter().filter(owned).collect::<Vec<_>>();
    if !is_deleted {
        let sets = own();
        let plan = decide::decide(&deployment, &sets, has_old_pods(context, &deployment, &sets));
        apply(context, &deployment, &sets, plan).await?;
    }
    let (wanted, again) = status::status(&deployment, &own(), Timestamp::now());
    if deployment.status.as_ref() != Some(&wanted) {
        let api: Api<Deployment> = Api::namespaced(context.client.clone(), &key.namespace);
        let present = context.deployments.get(&key).unwrap_or(deployment);
        let changed = Deployment { status: Some(wanted), ..present.as_ref().clone() };
        match api.replace_status(&key.name, &PostParams::default(), &changed).await {
            Ok(written) => context.deployments.learn(written),
            Err(error) if refusal(&error) == Some(404) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(again)
}

/// Adopts selected sets without a controller, and releases own sets that are no longer selected.
async fn claim(context: &Context, deployment: &Deployment) -> Result<(), Error> {
    let namespace = deployment.namespace().unwrap_or_default();
    let api: Api<ReplicaSet> = Api::namespaced(context.client.clone(), &namespace);
    for set in context.sets.list_in(&namespace) {
        let owner = set.metadata.owner_references.iter().flatten().find(|o| o.controller == Some(true));
        let is_own = owner.is_some_and(|owner| Some(&owner.uid) == deployment.metadata.uid.as_ref());
        let reference = match (owner.is_none(), is_own, selects(deployment, &set)) {
            (true, _, true) if set.metadata.deletion_timestamp.is_none() => {
                let mut owner = deployment.controller_owner_ref(&()).unwrap_or_default();
                owner.block_owner_deletion = Some(true);
                json!(owner)
            }
            (_, true, false) => json!({"$patch": "delete", "uid": deployment.uid()}),
            _ => continue,
        };
        let change = json!({"metadata": {"uid": set.uid(), "ownerReferences": [reference]}});
        match api.patch(&set.name_any(), &PatchParams::default(), &Patch::Strategic(change)).await {
            Ok(set) => context.sets.learn(set),
            Err(error) if refusal(&error).is_some_and(|code| SETTLED.contains(&code)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn has_old_pods(context: &Context, deployment: &Deployment, sets: &[Arc<ReplicaSet>]) -> bool {
    let new = decide::newest(deployment, sets).and_then(|set| set.uid());
    let old: Vec<String> =
        sets.iter().filter_map(|set| set.uid()).filter(|uid| Some(uid) != new.as_ref()).collect();
    context.pods.list_in(&deployment.namespace().unwrap_or_default()).iter().any(|pod| {
        !has_ended(pod)
            && pod.metadata.owner_references.iter().flatten().any(|owner| old.contains(&owner.uid))
    })
}

async fn apply(
    context: &Context,
    deployment: &Deployment,
    sets: &[Arc<ReplicaSet>],
    plan: Plan,
) -> Result<(), Error> {
    let api: Api<ReplicaSet> =
        Api::namespaced(context.client.clone(), &deployment.namespace().unwrap_or_default());
    if let Some(set) = plan.create {
        create(context, &api, deployment, set).await?;
    }
    for (name, replicas) in plan.resize {
        let change = json!({"spec": {"replicas": replicas}});
        let written = api.patch(&name, &PatchParams::default(), &Patch::Merge(change)).await?;
        let before = sets.iter().find(|set| set.name_any() == name).map_or(0, |set| decide::size(set));
        let way = if replicas > before { "up" } else { "down" };
        let message = format!("Scaled {way} replica set {name} from {before} to {replicas}");
        context.recorder.note(deployment, Note::normal("ScalingReplicaSet", message));
        context.sets.learn(written);
    }
    for name in plan.delete {
        let set = sets.iter().find(|set| set.name_any() == name);
        let precondition = Preconditions { uid: set.and_then(|set| set.uid()), resource_version: None };
        allow(&SETTLED, api.delete(&name, &DeleteParams::default().preconditions(precondition)).await)?;
    }
    revise(context, &api, deployment, sets, plan.revision).await
}

async fn create(
    context: &Context,
    api: &Api<ReplicaSet>,
    deployment: &Deployment,
    set: ReplicaSet,
) -> Result<(), Error> {
    let (name, size) = (set.name_any(), decide::size(&set));
    match api.create(&PostParams::default(), &set).await {
        Ok(written) => {
            let message = format!("Scaled up replica set {name} from 0 to {size}");
            context.recorder.note(deployment, Note::normal("ScalingReplicaSet", message));
            context.sets.learn(written);
            Ok(())
        }
        Err(error) if refusal(&error) == Some(409) => {
            let ours = api
                .get_opt(&name)
                .await?
                .is_some_and(|found| controller(&found) == Some(Key::of(deployment)));
            if ours {
                return Ok(());
            }
            // Another template has this hash. The next attempt also hashes a collision count.
            let known = deployment.status.as_ref().and_then(|status| status.collision_count).unwrap_or(0);
            let count = known.saturating_add(1);
            let api: Api<Deployment> =
                Api::namespaced(context.client.clone(), &deployment.namespace().unwrap_or_default());
            let mut changed = deployment.clone();
            changed.status.get_or_insert_default().collision_count = Some(count);
            let name = deployment.name_any();
            context.deployments.learn(api.replace_status(&name, &PostParams::default(), &changed).await?);
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// Writes the revision to the newest set and to the Deployment.
async fn revise(
    context: &Context,
    api: &Api<ReplicaSet>,
    deployment: &Deployment,
    sets: &[Arc<ReplicaSet>],
    revision: i64,
) -> Result<(), Error> {
    let change = json!({"metadata": {"annotations": {REVISION: revision.to_string()}}});
    if let Some(set) =
        decide::newest(deployment, sets).filter(|set| decide::revision(set.as_ref()) != revision)
    {
        let written = api.patch(&set.name_any(), &PatchParams::default(), &Patch::Merge(&change)).await?;
        context.sets.learn(written);
    }
    if revision > 0 && decide::revision(deployment) != revision {
        let api: Api<Deployment> =
            Api::namespaced(context.client.clone(), &deployment.namespace().unwrap_or_default());
        let mut changed = deployment.clone();
        changed.annotations_mut().insert(REVISION.to_owned(), revision.to_string());
        let written = api.replace(&deployment.name_any(), &PostParams::default(), &changed).await?;
        context.deployments.learn(written);
    }
    Ok(())
}
