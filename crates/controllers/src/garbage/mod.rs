//! The garbage collector: deletes objects that no owner keeps, for every served kind, custom ones included.
//!
//! Input: metadata changes through [`Kinds`]. Output: deletions and patches. It never deletes based on a cache: it
//! reads the object and each of its owners live, and the deletion has the uid and version that it read as
//! preconditions.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, Preconditions};

mod decide;
mod graph;
#[cfg(test)]
mod tests;

use super::kinds::{Bare, Kinds, MetaChange, Served};
use super::queue::{Queue, work};
use super::{Error, allow, refusal};
use controller_runtime::supervision::Scope;
use decide::{Action, Owner, decide};
use graph::{FOREGROUND, Graph, Item, ORPHAN};

/// The response that needs no retry: the object is gone.
const SETTLED: [u16; 1] = [404];
/// Objects processed concurrently.
const CONCURRENCY: usize = 16;

struct Collector {
    client: Client,
    kinds: Kinds,
    graph: Arc<Mutex<Graph>>,
    queue: Arc<Queue<String>>,
}

fn lock(graph: &Mutex<Graph>) -> MutexGuard<'_, Graph> {
    graph.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs until the scope ends. The caller must run [`Kinds::follow`].
pub async fn run(client: Client, kinds: Kinds, scope: Scope) {
    let (graph, queue): (Arc<Mutex<Graph>>, Arc<Queue<String>>) = Default::default();
    let (to, of) = (queue.clone(), graph.clone());
    kinds.on_change(&scope.stop, move |change| {
        for uid in take_in(&mut lock(&of), change) {
            to.add(uid);
        }
    });
    // The kind of a missing owner may have become known.
    let (to, of) = (queue.clone(), graph.clone());
    kinds.on_renewal(&scope.stop, move |_| {
        for uid in lock(&of).fatherless() {
            to.add(uid);
        }
    });
    let collector = Collector { client, kinds, graph, queue: queue.clone() };
    work(queue, CONCURRENCY, scope, |uid| collector.step(uid)).await;
}

fn take_in(graph: &mut Graph, change: &MetaChange) -> Vec<String> {
    let uid = |meta: Option<&k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta>| {
        meta.and_then(|m| m.uid.clone()).unwrap_or_default()
    };
    let (old, new) = (uid(change.old), uid(change.new));
    let mut look = Vec::new();
    if !old.is_empty() && old != new {
        look = graph.remove(&old);
    }
    if let Some(meta) = change.new.filter(|_| !new.is_empty()) {
        look.extend(graph.put(&new, Item::of(change.served, meta)));
    }
    look
}

impl Collector {
    async fn step(&self, uid: String) -> Result<Option<Duration>, Error> {
        let Some(item) = lock(&self.graph).get(&uid).cloned() else { return Ok(None) };
        let api = item.served.api(&self.client, &item.key.namespace);
        let live = match api.get_opt(&item.key.name).await? {
            Some(live) if live.metadata.uid.as_ref() == Some(&uid) => live,
            // Gone; the watch will deliver that.
            _ => return Ok(None),
        };
        let now = Item::of(&item.served, &live.metadata);
        if now.ends_with(ORPHAN) {
            self.orphan(&api, &live, &uid).await?;
        } else if now.ends_with(FOREGROUND) {
            self.foreground(&api, &live, &uid).await?;
        } else if !now.deleted {
            self.by_owners(&api, &live, &now, &uid).await?;
        }
        Ok(None)
    }

    /// Deletes the object or removes owner references, depending on its owners.
    async fn by_owners(&self, api: &Api<Bare>, live: &Bare, item: &Item, uid: &str) -> Result<(), Error> {
        let mut owners = Vec::with_capacity(item.owners.len());
        for owner in &item.owners {
            owners.push(self.look_up(item, owner).await?);
        }
        let has_dependents = lock(&self.graph).dependents(uid).next().is_some();
        match decide(&owners, &item.finalizers, has_dependents) {
            Action::Keep => Ok(()),
            Action::Unlink(positions) => {
                let gone: Vec<&str> = positions.iter().map(|n| item.owners[*n].uid.as_str()).collect();
                strike_owners(api, live, &gone).await
            }
            Action::Delete(policy) => {
                let mut live = live.clone();
                let blocks = item.owners.iter().any(|owner| owner.block_owner_deletion == Some(true));
                if owners.contains(&Owner::Waiting) && blocks && lock(&self.graph).may_be_in_circle(uid) {
                    match unblock(api, &live).await? {
                        Some(unblocked) => live = unblocked,
                        None => return Ok(()),
                    }
                }
                let parameters = DeleteParams {
                    propagation_policy: Some(policy),
                    preconditions: Some(Preconditions {
                        uid: live.metadata.uid.clone(),
                        resource_version: live.metadata.resource_version.clone(),
                    }),
                    ..DeleteParams::default()
                };
                allow(&SETTLED, api.delete(&item.key.name, &parameters).await)
            }
        }
    }

    async fn look_up(&self, item: &Item, owner: &OwnerReference) -> Result<Owner, Error> {
        let Some(served) = self.kinds.find(&owner.api_version, &owner.kind) else {
            return Ok(Owner::Unknown);
        };
        if served.namespaced && item.key.namespace.is_empty() {
            return Ok(Owner::Unknown);
        }
        let found = served.api(&self.client, &item.key.namespace).get_opt(&owner.name).await?;
        Ok(match found {
            Some(found) if found.metadata.uid.as_deref() == Some(owner.uid.as_str()) => {
                if Item::of(&served, &found.metadata).ends_with(FOREGROUND) {
                    Owner::Waiting
                } else {
                    Owner::Solid
                }
            }
            _ => Owner::Absent,
        })
    }

    /// Handles an owner in foreground deletion: removes its finalizer if no dependent blocks it, otherwise enqueues its
    /// dependents.
    async fn foreground(&self, api: &Api<Bare>, live: &Bare, uid: &str) -> Result<(), Error> {
        let (blocking, all): (Vec<String>, Vec<String>) = {
            let graph = lock(&self.graph);
            (graph.blocking(uid), graph.dependents(uid).map(str::to_owned).collect())
        };
        for dependent in all {
            self.queue.add(dependent);
        }
        if blocking.is_empty() { strike_finalizer(api, live, FOREGROUND).await } else { Ok(()) }
    }

    /// Handles an owner in orphaning deletion: removes it from the owner references of all dependents, read live across
    /// all kinds, then removes its finalizer.
    async fn orphan(&self, api: &Api<Bare>, live: &Bare, uid: &str) -> Result<(), Error> {
        let namespace = live.metadata.namespace.clone().unwrap_or_default();
        for served in self.kinds.all() {
            if served.resource.plural == "events" || (!served.namespaced && !namespace.is_empty()) {
                continue;
            }
            self.strike_everywhere(&served, &namespace, uid).await?;
        }
        strike_finalizer(api, live, ORPHAN).await
    }

    async fn strike_everywhere(&self, served: &Served, namespace: &str, uid: &str) -> Result<(), Error> {
        let everywhere = namespace.is_empty();
        let api: Api<Bare> = if everywhere {
            Api::all_with(self.client.clone(), &served.resource)
        } else {
            served.api(&self.client, namespace)
        };
        let list = match api.list(&ListParams::default()).await {
            Ok(list) => list,
            // The kind is no longer served.
            Err(error) if refusal(&error) == Some(404) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        for object in list {
            let owners = object.metadata.owner_references.as_deref().unwrap_or_default();
            if owners.iter().any(|owner| owner.uid == uid) {
                let home = served.api(&self.client, object.metadata.namespace.as_deref().unwrap_or(""));
                strike_owners(&home, &object, &[uid]).await?;
            }
        }
        Ok(())
    }
}

async fn strike_owners(api: &Api<Bare>, live: &Bare, gone: &[&str]) -> Result<(), Error> {
    let mut kept = live.metadata.owner_references.clone().unwrap_or_default();
    kept.retain(|owner| !gone.contains(&owner.uid.as_str()));
    patch_metadata(api, live, serde_json::json!({"ownerReferences": kept})).await
}

/// Stops the object from blocking its owners' deletion. Returns `None` if it is gone.
async fn unblock(api: &Api<Bare>, live: &Bare) -> Result<Option<Bare>, Error> {
    let mut owners = live.metadata.owner_references.clone().unwrap_or_default();
    for owner in &mut owners {
        owner.block_owner_deletion = Some(false);
    }
    let change = serde_json::json!({"ownerReferences": owners, "uid": live.metadata.uid,
        "resourceVersion": live.metadata.resource_version});
    let patch = Patch::Merge(serde_json::json!({"metadata": change}));
    let name = live.metadata.name.clone().unwrap_or_default();
    match api.patch(&name, &PatchParams::default(), &patch).await {
        Ok(unblocked) => Ok(Some(unblocked)),
        Err(error) if refusal(&error) == Some(404) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

async fn strike_finalizer(api: &Api<Bare>, live: &Bare, finalizer: &str) -> Result<(), Error> {
    let mut kept = live.metadata.finalizers.clone().unwrap_or_default();
    kept.retain(|f| f != finalizer);
    patch_metadata(api, live, serde_json::json!({"finalizers": kept})).await
}

/// Sends a merge patch with the uid and version that were read. A concurrent change is a conflict, and the object is
/// checked again.
async fn patch_metadata(api: &Api<Bare>, live: &Bare, mut change: serde_json::Value) -> Result<(), Error> {
    change["uid"] = serde_json::json!(live.metadata.uid);
    change["resourceVersion"] = serde_json::json!(live.metadata.resource_version);
    let patch = Patch::Merge(serde_json::json!({"metadata": change}));
    let name = live.metadata.name.clone().unwrap_or_default();
    allow(&SETTLED, api.patch(&name, &PatchParams::default(), &patch).await)
}
