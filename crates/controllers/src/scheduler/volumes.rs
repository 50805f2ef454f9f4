//! On which nodes a pod can reach the volumes of its claims. Pure.
//!
//! Rules: `pkg/scheduler/framework/plugins/volumebinding` of Kubernetes 1.36. The volume controller selects the volume
//! of a waiting claim, after the scheduler has chosen a node.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;

use super::snapshot::NodeView;
use super::unschedulable::Unschedulable;
use crate::volumes::claim_names;
use crate::volumes::decide::{self, PROVISIONER};
use controller_runtime::cache::Key;

/// Claims, volumes and classes during a cycle.
#[derive(Debug, Default)]
pub struct Storage {
    /// By namespace and name.
    pub claims: BTreeMap<Key, Arc<PersistentVolumeClaim>>,
    /// By name.
    pub volumes: BTreeMap<String, Arc<PersistentVolume>>,
    /// By name.
    pub classes: BTreeMap<String, Arc<StorageClass>>,
}

/// The constraints that a pod's claims impose on nodes.
#[derive(Debug, Default)]
pub struct VolumeView {
    /// Why no node is possible, if so.
    pub nowhere: Option<Unschedulable>,
    /// Bound volumes, which must be reachable.
    bound: Vec<Arc<PersistentVolume>>,
    /// For each claim with existing volumes to choose from: those volumes, of which one must be reachable.
    choices: Vec<Vec<Arc<PersistentVolume>>>,
    /// Claims that get a volume once a node has been chosen.
    pub waiting: Vec<Arc<PersistentVolumeClaim>>,
}

impl VolumeView {
    /// Evaluates every claim of the pod.
    pub fn of(pod: &Pod, storage: &Storage) -> Self {
        let mut view = Self::default();
        let namespace = pod.metadata.namespace.clone().unwrap_or_default();
        for name in claim_names(pod) {
            let Some(claim) = storage.claims.get(&Key::new(namespace.clone(), name)) else {
                return Self::nowhere(&format!("persistentvolumeclaim {name:?} not found"));
            };
            if claim.metadata.deletion_timestamp.is_some() {
                return Self::nowhere(&format!("persistentvolumeclaim {name:?} is being deleted"));
            }
            if let Some(rejection) = view.add(claim, storage) {
                return Self { nowhere: Some(rejection), ..Self::default() };
            }
        }
        view
    }

    fn nowhere(why: &str) -> Self {
        Self { nowhere: Some(Unschedulable::of_all(why)), ..Self::default() }
    }

    fn add(&mut self, claim: &Arc<PersistentVolumeClaim>, storage: &Storage) -> Option<Unschedulable> {
        let status = claim.status.as_ref().and_then(|s| s.phase.as_deref());
        let named =
            claim.spec.as_ref().and_then(|s| s.volume_name.as_deref()).filter(|name| !name.is_empty());
        if status == Some("Lost") {
            let (claim, volume) =
                (claim.metadata.name.as_deref().unwrap_or_default(), named.unwrap_or_default());
            return Some(Unschedulable::of_all(&format!(
                "persistentvolumeclaim {claim:?} bound to non-existent persistentvolume {volume:?}"
            )));
        }
        if let (Some(named), Some("Bound")) = (named, status) {
            match storage.volumes.get(named) {
                Some(volume) => self.bound.push(volume.clone()),
                None => {
                    return Some(Unschedulable::unresolvable(
                        "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
                    ));
                }
            }
            return None;
        }
        let class = decide::class_of(claim).and_then(|class| storage.classes.get(class));
        let delayed = class.filter(|c| c.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer"));
        let Some(class) = delayed else {
            return Some(Unschedulable::of_all("pod has unbound immediate PersistentVolumeClaims"));
        };
        if class.provisioner != PROVISIONER {
            let fitting = storage.volumes.values().filter(|volume| decide::fits(volume, claim, None));
            self.choices.push(fitting.cloned().collect());
        }
        self.waiting.push(claim.clone());
        None
    }

    /// Returns why the node cannot reach a volume; `None` if it can reach all.
    pub fn filter(&self, node: &NodeView) -> Option<Unschedulable> {
        if let Some(rejection) = &self.nowhere {
            return Some(rejection.clone());
        }
        if !self.bound.iter().all(|volume| decide::reachable(volume, &node.node)) {
            return Some(Unschedulable::unresolvable(
                "node(s) didn't match PersistentVolume's node affinity",
            ));
        }
        let some =
            |volumes: &Vec<Arc<PersistentVolume>>| volumes.iter().any(|v| decide::reachable(v, &node.node));
        (!self.choices.iter().all(some))
            .then(|| Unschedulable::unresolvable("node(s) didn't find available persistent volumes to bind"))
    }
}
