//! Decides which pods a set adopts, releases, creates and deletes, and computes its counts. Pure.
//!
//! Rules: `pkg/controller/replicaset/{replica_set,replica_set_utils}.go` and `pkg/controller/controller_ref_manager.go`
//! of Kubernetes 1.36.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;

use super::kinds::{Counts, Wanted};
use crate::job::pods::{cheapest_first, is_active};
use semantics::{is_deleted, is_ready, labels_match};

/// The most pods created or deleted in one step (upstream's `BurstReplicas`).
pub const BURST: usize = 500;

/// The input of the decision.
pub struct ObservedReplicas<'a> {
    /// Its uid.
    pub uid: &'a str,
    /// Whether it is being deleted.
    pub is_deleted: bool,
    /// Its desired state.
    pub wanted: &'a Wanted,
    /// Every pod of its namespace.
    pub pods: &'a [Arc<Pod>],
    /// The current time.
    pub now: Timestamp,
}

/// The actions of one step.
#[derive(Debug, Default)]
pub struct Plan {
    /// Pods without a controller to adopt.
    pub adopt: Vec<Arc<Pod>>,
    /// Own pods that are no longer selected, to release.
    pub release: Vec<Arc<Pod>>,
    /// The number of pods to create.
    pub create: usize,
    /// The pods to delete.
    pub delete: Vec<Arc<Pod>>,
    /// The current counts.
    pub counts: Counts,
    /// When to run again, because a ready pod becomes available.
    pub again: Option<Duration>,
}

/// Decides the next step.
pub fn decide(seen: &ObservedReplicas<'_>) -> Plan {
    let mut plan = Plan::default();
    let mut kept: Vec<&Arc<Pod>> = Vec::new();
    for pod in seen.pods {
        let controller = pod.metadata.owner_references.iter().flatten().find(|o| o.controller == Some(true));
        match (controller, selects(seen.wanted, pod)) {
            (Some(owner), true) if owner.uid == seen.uid => kept.push(pod),
            (Some(owner), false) if owner.uid == seen.uid && !is_deleted(pod) && !seen.is_deleted => {
                plan.release.push(pod.clone());
            }
            (None, true) if is_active(pod) && !seen.is_deleted => {
                plan.adopt.push(pod.clone());
                kept.push(pod);
            }
            _ => {}
        }
    }
    kept.retain(|pod| is_active(pod));
    count(seen, &kept, &mut plan);
    if seen.is_deleted {
        return plan;
    }
    let wanted = usize::try_from(seen.wanted.replicas).unwrap_or(0);
    if kept.len() < wanted {
        plan.create = (wanted - kept.len()).min(BURST);
    } else {
        let mut order: Vec<&Pod> = kept.iter().map(|pod| pod.as_ref()).collect();
        cheapest_first(&mut order);
        let surplus = (kept.len() - wanted).min(BURST);
        let names: Vec<_> = order.iter().take(surplus).map(|pod| &pod.metadata.name).collect();
        plan.delete =
            kept.iter().filter(|pod| names.contains(&&pod.metadata.name)).map(|pod| (*pod).clone()).collect();
    }
    plan
}

/// Returns whether the set selects the pod.
pub fn selects(wanted: &Wanted, pod: &Pod) -> bool {
    let labels = pod.metadata.labels.clone().unwrap_or_default();
    wanted.selector.as_ref().is_some_and(|selector| labels_match(selector, &labels))
}

fn count(seen: &ObservedReplicas<'_>, kept: &[&Arc<Pod>], plan: &mut Plan) {
    let template = seen.wanted.template.metadata.as_ref().and_then(|m| m.labels.clone()).unwrap_or_default();
    for pod in kept {
        plan.counts.replicas += 1;
        let labels = pod.metadata.labels.as_ref();
        let labeled = template.iter().all(|(k, v)| labels.is_some_and(|labels| labels.get(k) == Some(v)));
        plan.counts.fully_labeled += i32::from(labeled);
        if !is_ready(pod) {
            continue;
        }
        plan.counts.ready += 1;
        match left(seen, pod) {
            None => plan.counts.available += 1,
            Some(wait) => plan.again = Some(plan.again.map_or(wait, |again| again.min(wait))),
        }
    }
}

/// Returns how much longer a ready pod must stay ready before it counts as available.
fn left(seen: &ObservedReplicas<'_>, pod: &Pod) -> Option<Duration> {
    let seconds = seen.wanted.min_ready_seconds;
    if seconds == 0 {
        return None;
    }
    let conditions = pod.status.as_ref().and_then(|s| s.conditions.as_deref()).unwrap_or_default();
    let since =
        conditions.iter().find(|c| c.type_ == "Ready").and_then(|c| c.last_transition_time.as_ref())?.0;
    let at = since.checked_add(SignedDuration::from_secs(seconds.into())).ok()?;
    Duration::try_from(at.duration_since(seen.now)).ok().filter(|wait| !wait.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(name: &str, owner: Option<&str>, label: &str, ready: bool) -> Arc<Pod> {
        let owners = owner.map(|uid| {
            json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "s", "uid": uid, "controller": true}])
        });
        let status = if ready { "True" } else { "False" };
        Arc::new(
            serde_json::from_value(json!({
                "metadata": {"name": name, "labels": {"app": label}, "ownerReferences": owners,
                    "creationTimestamp": "2026-01-01T00:00:00Z"},
                "spec": {"containers": [], "nodeName": "n"},
                "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": status,
                    "lastTransitionTime": "2026-01-01T00:00:05Z"}]},
            }))
            .unwrap(),
        )
    }

    fn wanted(replicas: i32, min_ready_seconds: i32) -> Wanted {
        let selector = serde_json::from_value(json!({"matchLabels": {"app": "a"}})).unwrap();
        Wanted { replicas, selector: Some(selector), min_ready_seconds, ..Wanted::default() }
    }

    fn plan(wanted: &Wanted, pods: &[Arc<Pod>], is_deleted: bool) -> Plan {
        let now = "2026-01-01T00:00:10Z".parse().unwrap();
        decide(&ObservedReplicas { uid: "u", is_deleted, wanted, pods, now })
    }

    fn names(pods: &[Arc<Pod>]) -> Vec<&str> {
        pods.iter().map(|pod| pod.metadata.name.as_deref().unwrap()).collect()
    }

    #[test]
    fn matching_orphans_are_adopted_and_others_released() {
        let pods = [
            pod("mine", Some("u"), "a", true),
            pod("strayed", Some("u"), "b", true),
            pod("orphan", None, "a", false),
            pod("other", Some("x"), "a", true),
        ];
        let found = plan(&wanted(3, 0), &pods, false);
        assert_eq!((names(&found.adopt), names(&found.release)), (vec!["orphan"], vec!["strayed"]));
        assert_eq!((found.create, found.counts.replicas, found.counts.ready), (1, 2, 1));
        let gone = plan(&wanted(3, 0), &pods, true);
        assert_eq!((gone.adopt.len(), gone.release.len(), gone.create), (0, 0, 0));
    }

    #[test]
    fn unready_pods_are_deleted_first() {
        let pods = [pod("a", Some("u"), "a", true), pod("b", Some("u"), "a", false)];
        assert_eq!(names(&plan(&wanted(1, 0), &pods, false).delete), ["b"]);
    }

    #[test]
    fn a_pod_is_available_once_it_has_been_ready_for_long_enough() {
        let pods = [pod("a", Some("u"), "a", true)];
        assert_eq!(plan(&wanted(1, 5), &pods, false).counts.available, 1);
        let early = plan(&wanted(1, 8), &pods, false);
        assert_eq!((early.counts.available, early.again), (0, Some(Duration::from_secs(3))));
    }
}
