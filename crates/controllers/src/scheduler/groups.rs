//! Follows the PodGroups of each engine whose CustomResourceDefinition is installed, and writes their status as the
//! engine would.
//!
//! Must not create PodGroups, or follow a kind that is not served.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Api, ApiResource, Object, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::membership::{Engine, Membership, membership};
use super::snapshot::node_name;
use crate::{Error, allow};
use controller_runtime::cache::{Cache, Key, follow};
use controller_runtime::kinds::Kinds;
use controller_runtime::queue::{Queue, work};
use controller_runtime::supervision::Scope;

/// Statuses written concurrently.
const CONCURRENCY: usize = 4;

/// The fields read from a PodGroup's spec; both engines use these names.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupSpec {
    /// The number of members to bind together; 0 or unset means one.
    #[serde(default)]
    pub min_member: i32,
    /// scheduler-plugins: how long room may be held for an incomplete gang.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule_timeout_seconds: Option<i32>,
}

/// A PodGroup of either engine.
pub type PodGroup = Object<GroupSpec, Value>;

struct Followed {
    resource: ApiResource,
    cache: Cache<PodGroup>,
    stop: CancellationToken,
}

/// The PodGroups currently served.
#[derive(Clone, Default)]
pub struct Groups(Arc<Inner>);

#[derive(Default)]
struct Inner {
    followed: RwLock<BTreeMap<Engine, Followed>>,
    /// The message for each waiting gang.
    said: Mutex<HashMap<Membership, String>>,
    queue: Arc<Queue<Membership>>,
}

impl Groups {
    /// Returns whether the engine's PodGroup is installed, so that this scheduler handles its pods.
    pub fn serves(&self, engine: Engine) -> bool {
        self.0.followed.read().unwrap_or_else(PoisonError::into_inner).contains_key(&engine)
    }

    /// Returns the PodGroup of a gang.
    pub fn get(&self, of: &Membership) -> Option<Arc<PodGroup>> {
        let followed = self.0.followed.read().unwrap_or_else(PoisonError::into_inner);
        followed.get(&of.engine)?.cache.get(&of.key)
    }

    /// Returns a reference to the PodGroup, for Events.
    pub fn reference(&self, of: &Membership) -> Option<ObjectReference> {
        let followed = self.0.followed.read().unwrap_or_else(PoisonError::into_inner);
        let engine = followed.get(&of.engine)?;
        Some(kube::Resource::object_ref(engine.cache.get(&of.key)?.as_ref(), &engine.resource))
    }

    /// Stores the message for a gang as a whole; `None` means that it no longer waits. Returns whether the message
    /// changed.
    pub fn say(&self, of: &Membership, why: Option<&str>) -> bool {
        let mut said = self.0.said.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match why {
            Some(why) => said.insert(of.clone(), why.to_owned()),
            None => said.remove(of),
        };
        let news = before.as_deref() != why;
        if news {
            self.0.queue.add(of.clone());
        }
        news
    }

    /// Follows the PodGroups of every engine in `kinds`, as their kinds are installed and removed. Notifies `wake` on
    /// each change.
    pub fn watch(&self, client: &Client, kinds: &Kinds, wake: &Arc<Notify>, stop: &CancellationToken) {
        let (groups, client, wake, until) = (self.clone(), client.clone(), wake.clone(), stop.clone());
        let renew = move |kinds: &Kinds| groups.renew(&client, kinds, &wake, &until);
        renew(kinds);
        kinds.on_renewal(stop, renew);
    }

    fn renew(&self, client: &Client, kinds: &Kinds, wake: &Arc<Notify>, stop: &CancellationToken) {
        let mut followed = self.0.followed.write().unwrap_or_else(PoisonError::into_inner);
        for engine in Engine::ALL {
            let served = kinds.find(&format!("{}/", engine.group()), "PodGroup");
            match (served, followed.get(&engine)) {
                (Some(served), Some(known))
                    if known.resource == served.resource && !known.stop.is_cancelled() => {}
                (Some(served), _) => {
                    let cache = Cache::default();
                    let token = stop.child_token();
                    let (to, woken) = (self.0.queue.clone(), wake.clone());
                    cache.on_change(&token, move |change: &controller_runtime::cache::Change<PodGroup>| {
                        if let Some(group) = change.latest() {
                            to.add(Membership { engine, key: key_of(group) });
                        }
                        woken.notify_one();
                    });
                    let api: Api<PodGroup> = Api::all_with(client.clone(), &served.resource);
                    tokio::spawn(follow(api, cache.clone(), token.clone()));
                    let next = Followed { resource: served.resource.clone(), cache, stop: token };
                    if let Some(old) = followed.insert(engine, next) {
                        old.stop.cancel();
                    }
                }
                (None, _) => {
                    if let Some(old) = followed.remove(&engine) {
                        old.stop.cancel();
                    }
                }
            }
        }
        drop(followed);
        wake.notify_one();
    }

    /// Keeps the status of every PodGroup up to date until the scope ends.
    pub async fn report(self, client: Client, pods: Cache<Pod>, scope: Scope) {
        let to = self.0.queue.clone();
        pods.on_change(&scope.stop, move |change| {
            let of = |pod: Option<&Arc<Pod>>| pod.and_then(|pod| membership(pod));
            for of in [of(change.old.as_ref()), of(change.new.as_ref())]
                .into_iter()
                .flatten()
                .collect::<BTreeSet<_>>()
            {
                to.add(of);
            }
        });
        let queue = self.0.queue.clone();
        work(queue, CONCURRENCY, scope, |of| self.step(&client, &pods, of)).await;
    }

    async fn step(
        &self,
        client: &Client,
        pods: &Cache<Pod>,
        of: Membership,
    ) -> Result<Option<Duration>, Error> {
        let resource = {
            let followed = self.0.followed.read().unwrap_or_else(PoisonError::into_inner);
            followed.get(&of.engine).map(|engine| engine.resource.clone())
        };
        let (Some(resource), Some(group)) = (resource, self.get(&of)) else {
            self.0.said.lock().unwrap_or_else(PoisonError::into_inner).remove(&of);
            return Ok(None);
        };
        let said = self.0.said.lock().unwrap_or_else(PoisonError::into_inner).get(&of).cloned();
        let members: Vec<Arc<Pod>> = pods
            .list_in(&of.key.namespace)
            .into_iter()
            .filter(|pod| membership(pod).as_ref() == Some(&of))
            .collect();
        let present = group.status.clone().unwrap_or(Value::Null);
        let wanted = status(of.engine, &group.spec, &members, said.as_deref(), &present, Timestamp::now());
        if is_there(&present, &wanted) {
            return Ok(None);
        }
        let api: Api<PodGroup> = Api::namespaced_with(client.clone(), &of.key.namespace, &resource);
        let patch = json!({"metadata": {"uid": group.uid()}, "status": wanted});
        let written = api.patch_status(&of.key.name, &PatchParams::default(), &Patch::Merge(&patch)).await;
        // Without the status subresource, the status is part of the object.
        let written = match written {
            Err(kube::Error::Api(status)) if status.code == 404 || status.code == 405 => {
                api.patch(&of.key.name, &PatchParams::default(), &Patch::Merge(&patch)).await
            }
            other => other,
        };
        allow(&[404, 409], written).map(|()| None)
    }
}

fn key_of(group: &PodGroup) -> Key {
    Key::new(group.namespace().unwrap_or_default(), group.name_any())
}

/// Returns whether `present` already contains everything in `wanted`.
fn is_there(present: &Value, wanted: &Value) -> bool {
    let mut merged = present.clone();
    json_patch::merge(&mut merged, wanted);
    merged == *present
}

/// Returns the status that the engine would write. Pure.
///
/// Rules: Volcano `pkg/scheduler/framework/{session,job_updater}.go` (phases, conditions `Unschedulable` and
/// `Scheduled`); scheduler-plugins `pkg/controllers/podgroup_controller.go`.
fn status(
    engine: Engine,
    spec: &GroupSpec,
    members: &[Arc<Pod>],
    said: Option<&str>,
    present: &Value,
    now: Timestamp,
) -> Value {
    let in_phase = |phase: &str| {
        members.iter().filter(|p| p.status.as_ref().and_then(|s| s.phase.as_deref()) == Some(phase)).count()
    };
    let (running, succeeded, failed) = (in_phase("Running"), in_phase("Succeeded"), in_phase("Failed"));
    let bound = members.iter().filter(|pod| node_name(pod).is_some()).count().saturating_sub(failed);
    let min = usize::try_from(spec.min_member).unwrap_or(0).max(1);
    let phase = match engine {
        Engine::Volcano if succeeded >= min && succeeded == members.len() => "Completed",
        Engine::Volcano if bound >= min => "Running",
        Engine::Volcano if running > 0 => "Unknown",
        Engine::Volcano => "Inqueue",
        Engine::Plugins if succeeded >= min => "Finished",
        Engine::Plugins if failed > 0 && failed + running + succeeded >= min => "Failed",
        Engine::Plugins if running + succeeded >= min => "Running",
        Engine::Plugins if bound >= min => "Scheduled",
        Engine::Plugins if members.len() >= min => "Scheduling",
        Engine::Plugins => "Pending",
    };
    let mut status = json!({"phase": phase, "running": running, "succeeded": succeeded, "failed": failed});
    match engine {
        Engine::Volcano => {
            let conditions = present["conditions"].as_array().cloned().unwrap_or_default();
            if let Some(conditions) = volcano_conditions(conditions, said, bound >= min, now) {
                status["conditions"] = conditions.into();
            }
        }
        Engine::Plugins if bound > 0 && present["scheduleStartTime"].is_null() => {
            status["scheduleStartTime"] = json!(Time(now));
        }
        Engine::Plugins => {}
    }
    status
}

/// Returns Volcano's conditions; `None` if nothing changes.
fn volcano_conditions(
    mut conditions: Vec<Value>,
    said: Option<&str>,
    ready: bool,
    now: Timestamp,
) -> Option<Vec<Value>> {
    let (type_, reason, message) = match said {
        Some(why) => ("Unschedulable", "NotEnoughResources", why),
        None if ready => ("Scheduled", "tasks in gang are ready to be scheduled", ""),
        None => return None,
    };
    let known = conditions.iter().find(|c| c["type"] == type_ && c["status"] == "True");
    if known.is_some_and(|c| c["reason"] == reason && c["message"].as_str().unwrap_or("") == message) {
        return None;
    }
    // Only one of the two conditions may be True, as readers expect; set the other to False.
    for other in conditions.iter_mut().filter(|c| c["type"] != type_ && c["status"] == "True") {
        other["status"] = "False".into();
        other["lastTransitionTime"] = json!(Time(now));
    }
    conditions.retain(|c| c["type"] != type_);
    conditions
        .push(json!({"type": type_, "status": "True", "lastTransitionTime": Time(now), "reason": reason,
        "message": message}));
    Some(conditions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_that_failed_without_a_node_are_counted() {
        let member = Arc::new(serde_json::from_value::<Pod>(json!({"status": {"phase": "Failed"}})).unwrap());
        let spec: GroupSpec = serde_json::from_value(json!({"minMember": 1})).unwrap();
        let status = status(Engine::Volcano, &spec, &[member], None, &Value::Null, Timestamp::UNIX_EPOCH);
        assert_eq!((&status["phase"], &status["failed"]), (&json!("Inqueue"), &json!(1)));
    }
}
