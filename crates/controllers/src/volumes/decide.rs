//! Decides the next step for a claim or a volume. Pure.
//!
//! Rules: `pkg/controller/volume/persistentvolume/{pv_controller,pv_controller_base}.go` and `pkg/volume/util`
//! (matching) of Kubernetes 1.36.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::scheduler::resources::amount;
use semantics::{labels_match, node_matches};

/// The provisioner of this cluster: its volumes are directories of the cluster's state.
pub const PROVISIONER: &str = "training.opendatahub.io/local";
/// The annotation in which the scheduler records the node of a claim's first pod.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// The annotation of the StorageClass for claims that name none.
pub const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";

/// The input of the decisions.
pub struct ObservedVolumes {
    /// Every volume, ordered by name.
    pub volumes: Vec<Arc<PersistentVolume>>,
    /// Every class.
    pub classes: Vec<Arc<StorageClass>>,
    /// The node that the scheduler chose for the claim's first pod.
    pub node: Option<Arc<Node>>,
}

/// The next step for a claim.
#[derive(Debug, PartialEq)]
pub enum ClaimStep {
    /// Nothing to do.
    Rest,
    /// Set the default class.
    SetClass(String),
    /// Bind it to this volume.
    Bind(Arc<PersistentVolume>),
    /// Provision a volume for it.
    Provision(Arc<StorageClass>),
    /// Record this size: its volume has grown, or is to grow.
    Resize(Quantity),
    /// Mark it as lost: its volume is gone.
    Lost,
    /// Keep waiting, with an Event that says why.
    Wait {
        /// Whether the Event's type is `Warning` rather than `Normal`.
        warning: bool,
        /// The Event's reason.
        reason: &'static str,
        /// The Event's message.
        message: String,
    },
}

fn wait(warning: bool, reason: &'static str, message: impl Into<String>) -> ClaimStep {
    ClaimStep::Wait { warning, reason, message: message.into() }
}

/// Returns the storage that a claim requests.
pub fn requested(claim: &PersistentVolumeClaim) -> Option<&Quantity> {
    claim.spec.as_ref()?.resources.as_ref()?.requests.as_ref()?.get("storage")
}

/// Returns the storage that a volume has.
pub fn capacity(volume: &PersistentVolume) -> Option<&Quantity> {
    volume.spec.as_ref()?.capacity.as_ref()?.get("storage")
}

/// Returns the number of bytes; 0 for `None`.
pub fn bytes(quantity: Option<&Quantity>) -> i64 {
    quantity.map_or(0, |quantity| amount("storage", quantity))
}

/// Returns the name of the claim's class; `None` if it names none.
pub fn class_of(claim: &PersistentVolumeClaim) -> Option<&str> {
    claim.spec.as_ref()?.storage_class_name.as_deref()
}

/// Returns whether the volume refers to this claim, by name and, if set, by uid.
pub fn belongs_to(volume: &PersistentVolume, claim: &PersistentVolumeClaim) -> bool {
    let reference = volume.spec.as_ref().and_then(|s| s.claim_ref.as_ref());
    reference.is_some_and(|r| {
        r.namespace == claim.metadata.namespace
            && r.name == claim.metadata.name
            && r.uid
                .as_ref()
                .filter(|uid| !uid.is_empty())
                .is_none_or(|uid| Some(uid) == claim.metadata.uid.as_ref())
    })
}

/// Decides the next step for a claim.
pub fn claim_step(claim: &PersistentVolumeClaim, seen: &ObservedVolumes) -> ClaimStep {
    let named = claim.spec.as_ref().and_then(|s| s.volume_name.as_deref()).filter(|name| !name.is_empty());
    if let Some(named) = named {
        return named_step(claim, named, seen);
    }
    let Some(class) = class_of(claim) else {
        let default = seen.classes.iter().find(|c| is_default(c)).and_then(|c| c.metadata.name.clone());
        return default.map_or_else(|| unclassed(claim, seen), ClaimStep::SetClass);
    };
    let found = seen.classes.iter().find(|c| c.metadata.name.as_deref() == Some(class));
    let delayed = found.is_some_and(|c| c.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer"));
    let prebound = seen.volumes.iter().any(|volume| belongs_to(volume, claim));
    let chosen = claim.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(SELECTED_NODE));
    if delayed && !chosen && !prebound {
        return wait(
            false,
            "WaitForFirstConsumer",
            "waiting for first consumer to be created before binding",
        );
    }
    if let Some(volume) = best_match(claim, seen) {
        return ClaimStep::Bind(volume);
    }
    match found {
        _ if class.is_empty() => unclassed(claim, seen),
        None => wait(true, "ProvisioningFailed", format!("storageclass.storage.k8s.io {class:?} not found")),
        Some(found) if found.provisioner == PROVISIONER => provisionable(claim, found),
        Some(found) if found.provisioner == "kubernetes.io/no-provisioner" => wait(
            false,
            "FailedBinding",
            "no persistent volumes available for this claim and no storage class is set",
        ),
        Some(found) => wait(
            false,
            "ExternalProvisioning",
            format!(
                "Waiting for a volume to be created either by the external provisioner '{}' or manually by the \
                 system administrator. If volume creation is delayed, please verify that the provisioner is running \
                 and correctly registered.",
                found.provisioner
            ),
        ),
    }
}

fn is_default(class: &StorageClass) -> bool {
    class
        .metadata
        .annotations
        .as_ref()
        .and_then(|all| all.get(DEFAULT_CLASS))
        .is_some_and(|value| value == "true")
}

fn unclassed(claim: &PersistentVolumeClaim, seen: &ObservedVolumes) -> ClaimStep {
    best_match(claim, seen).map_or_else(
        || {
            wait(
                false,
                "FailedBinding",
                "no persistent volumes available for this claim and no storage class is set",
            )
        },
        ClaimStep::Bind,
    )
}

fn provisionable(claim: &PersistentVolumeClaim, class: &Arc<StorageClass>) -> ClaimStep {
    let spec = claim.spec.as_ref();
    if spec.and_then(|s| s.volume_mode.as_deref()) == Some("Block") {
        let why = format!(
            "failed to provision volume with StorageClass {:?}: block volumes are not supported",
            name(class)
        );
        return wait(true, "ProvisioningFailed", why);
    }
    if spec.and_then(|s| s.selector.as_ref()).is_some() {
        let why = format!(
            "failed to provision volume with StorageClass {:?}: claim.Spec.Selector is not supported",
            name(class)
        );
        return wait(true, "ProvisioningFailed", why);
    }
    ClaimStep::Provision(class.clone())
}

fn name(class: &StorageClass) -> &str {
    class.metadata.name.as_deref().unwrap_or_default()
}

/// Decides the next step for a claim that names its volume.
fn named_step(claim: &PersistentVolumeClaim, named: &str, seen: &ObservedVolumes) -> ClaimStep {
    let volume = seen.volumes.iter().find(|v| v.metadata.name.as_deref() == Some(named));
    let status = claim.status.as_ref();
    let bound = status.and_then(|s| s.phase.as_deref()) == Some("Bound");
    match volume {
        None if bound => ClaimStep::Lost,
        None if status.and_then(|s| s.phase.as_deref()) == Some("Lost") => ClaimStep::Rest,
        None => wait(true, "FailedBinding", format!("volume {named:?} not found")),
        Some(volume) if belongs_to(volume, claim) && bound => {
            let shown = status.and_then(|s| s.capacity.as_ref()).and_then(|c| c.get("storage"));
            let wanted = requested(claim).filter(|wanted| bytes(Some(wanted)) > bytes(shown));
            let growing = seen
                .classes
                .iter()
                .any(|c| Some(name(c)) == class_of(claim) && c.allow_volume_expansion == Some(true));
            wanted.filter(|_| growing).map_or(ClaimStep::Rest, |wanted| ClaimStep::Resize(wanted.clone()))
        }
        Some(volume)
            if belongs_to(volume, claim) || volume.spec.as_ref().is_none_or(|s| s.claim_ref.is_none()) =>
        {
            ClaimStep::Bind(volume.clone())
        }
        Some(_) => {
            wait(true, "FailedBinding", format!("volume {named:?} already bound to a different claim."))
        }
    }
}

/// Returns the volume reserved for the claim, or else the smallest one that fits (`FindMatchingVolume`).
fn best_match(claim: &PersistentVolumeClaim, seen: &ObservedVolumes) -> Option<Arc<PersistentVolume>> {
    let fitting = seen.volumes.iter().filter(|volume| fits(volume, claim, seen.node.as_deref()));
    fitting.min_by_key(|volume| (!belongs_to(volume, claim), bytes(capacity(volume)))).cloned()
}

/// Returns whether the volume can be bound to the claim: it is free or reserved for the claim, has the same class, is
/// large enough, has the access modes, and is reachable from the node, if given.
pub fn fits(volume: &PersistentVolume, claim: &PersistentVolumeClaim, node: Option<&Node>) -> bool {
    let (Some(of_volume), Some(of_claim)) = (volume.spec.as_ref(), claim.spec.as_ref()) else { return false };
    let meant = belongs_to(volume, claim);
    let free = of_volume.claim_ref.is_none() && volume.metadata.deletion_timestamp.is_none();
    let labels = volume.metadata.labels.clone().unwrap_or_default();
    let mode = |mode: &Option<String>| mode.clone().unwrap_or_else(|| "Filesystem".into());
    let modes = of_volume.access_modes.as_deref().unwrap_or_default();
    (meant || free)
        && of_volume.storage_class_name.as_deref().unwrap_or("") == class_of(claim).unwrap_or("")
        && bytes(capacity(volume)) >= bytes(requested(claim))
        && of_claim.access_modes.iter().flatten().all(|wanted| modes.contains(wanted))
        && mode(&of_volume.volume_mode) == mode(&of_claim.volume_mode)
        && of_claim.selector.as_ref().is_none_or(|selector| labels_match(selector, &labels))
        && node.is_none_or(|node| reachable(volume, node))
}

/// Returns whether the volume's node affinity allows the node.
pub fn reachable(volume: &PersistentVolume, node: &Node) -> bool {
    let required = volume.spec.as_ref().and_then(|s| s.node_affinity.as_ref()?.required.as_ref());
    let labels = node.metadata.labels.clone().unwrap_or_default();
    let name = node.metadata.name.as_deref().unwrap_or_default();
    required.is_none_or(|required| node_matches(required, name, &labels))
}

/// The next step for a volume.
#[derive(Debug, PartialEq, Eq)]
pub enum VolumeStep {
    /// Nothing to do.
    Rest,
    /// Set `status.phase`.
    Phase(&'static str),
    /// Delete it, because its claim is gone.
    Delete,
}

/// Decides the next step for a volume. `claim_lives`: whether the claim that it refers to exists, with the same uid.
pub fn volume_step(volume: &PersistentVolume, claim_lives: bool) -> VolumeStep {
    let phase = volume.status.as_ref().and_then(|s| s.phase.as_deref()).unwrap_or_default();
    let spec = volume.spec.as_ref();
    let reference = spec.and_then(|s| s.claim_ref.as_ref());
    let wanted = match reference.map(|r| r.uid.as_deref().unwrap_or_default()) {
        None | Some("") => "Available",
        Some(_) if claim_lives => "Bound",
        Some(_) => "Released",
    };
    let deletes = spec.and_then(|s| s.persistent_volume_reclaim_policy.as_deref()) == Some("Delete");
    match wanted {
        "Released" if deletes => VolumeStep::Delete,
        wanted if wanted != phase => VolumeStep::Phase(wanted),
        _ => VolumeStep::Rest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn object<T: serde::de::DeserializeOwned>(mut base: Value, more: &Value) -> T {
        json_patch::merge(&mut base, more);
        serde_json::from_value(base).unwrap()
    }

    fn claim(more: Value) -> PersistentVolumeClaim {
        let base = json!({"metadata": {"name": "data", "namespace": "n", "uid": "u"}, "spec": {"accessModes":
            ["ReadWriteOnce"], "storageClassName": "local", "resources": {"requests": {"storage": "1Gi"}}}});
        object(base, &more)
    }

    fn volume(name: &str, size: &str, more: Value) -> Arc<PersistentVolume> {
        let base = json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce", "ReadWriteMany"],
            "storageClassName": "local", "capacity": {"storage": size}}});
        Arc::new(object(base, &more))
    }

    fn class(more: Value) -> Arc<StorageClass> {
        let base = json!({"metadata": {"name": "local"}, "provisioner": PROVISIONER,
            "volumeBindingMode": "Immediate"});
        Arc::new(object(base, &more))
    }

    fn step(
        claim: &PersistentVolumeClaim,
        volumes: Vec<Arc<PersistentVolume>>,
        classes: Vec<Arc<StorageClass>>,
    ) -> String {
        match claim_step(claim, &ObservedVolumes { volumes, classes, node: None }) {
            ClaimStep::Bind(volume) => format!("bind {}", volume.metadata.name.as_deref().unwrap()),
            ClaimStep::Provision(_) => "provision".into(),
            ClaimStep::SetClass(class) => format!("class {class}"),
            ClaimStep::Resize(size) => format!("resize {}", size.0),
            ClaimStep::Wait { reason, message, .. } => format!("{reason}: {message}"),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn the_smallest_fitting_volume_is_bound() {
        let of = |uid: &str| json!({"spec": {"claimRef": {"namespace": "n", "name": "data", "uid": uid}}});
        for (name, volumes, expected) in [
            ("none", vec![], "provision"),
            (
                "smallest",
                vec![volume("big", "5Gi", json!({})), volume("fits", "2Gi", json!({}))],
                "bind fits",
            ),
            ("too small", vec![volume("small", "1Mi", json!({}))], "provision"),
            ("another's", vec![volume("taken", "1Gi", of("other"))], "provision"),
            (
                "meant for it",
                vec![volume("a", "1Gi", json!({})), volume("mine", "9Gi", of("u"))],
                "bind mine",
            ),
            (
                "other class",
                vec![volume("a", "1Gi", json!({"spec": {"storageClassName": "fast"}}))],
                "provision",
            ),
            (
                "access",
                vec![volume("a", "1Gi", json!({"spec": {"accessModes": ["ReadOnlyMany"]}}))],
                "provision",
            ),
        ] {
            assert_eq!(step(&claim(json!({})), volumes, vec![class(json!({}))]), expected, "{name}");
        }
    }

    #[test]
    fn classes_determine_binding_mode_and_provisioner() {
        let unsaid = claim(json!({"spec": {"storageClassName": null}}));
        let default = class(json!({"metadata": {"annotations": {DEFAULT_CLASS: "true"}}}));
        let delayed = class(json!({"volumeBindingMode": "WaitForFirstConsumer"}));
        let foreign = class(json!({"provisioner": "example.com/disk"}));
        assert_eq!(step(&unsaid, vec![], vec![default]), "class local");
        assert!(step(&unsaid, vec![], vec![]).starts_with("FailedBinding: no persistent volumes available"));
        assert_eq!(
            step(&claim(json!({})), vec![], vec![delayed.clone()]),
            "WaitForFirstConsumer: waiting for first consumer to be created before binding"
        );
        let chosen = claim(json!({"metadata": {"annotations": {SELECTED_NODE: "node-0"}}}));
        assert_eq!(step(&chosen, vec![], vec![delayed]), "provision");
        assert!(step(&claim(json!({})), vec![], vec![foreign]).starts_with("ExternalProvisioning: "));
        assert_eq!(
            step(&claim(json!({})), vec![], vec![]),
            "ProvisioningFailed: storageclass.storage.k8s.io \"local\" not found"
        );
    }

    #[test]
    fn bound_claims_are_resized_or_lost() {
        let bound = |size: &str| {
            claim(json!({"spec": {"volumeName": "v", "resources": {"requests": {"storage": size}}},
                "status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}}))
        };
        let mine =
            volume("v", "1Gi", json!({"spec": {"claimRef": {"namespace": "n", "name": "data", "uid": "u"}}}));
        let growing = class(json!({"allowVolumeExpansion": true}));
        assert_eq!(step(&bound("1Gi"), vec![mine.clone()], vec![growing.clone()]), "Rest");
        assert_eq!(step(&bound("2Gi"), vec![mine.clone()], vec![growing]), "resize 2Gi");
        assert_eq!(step(&bound("2Gi"), vec![mine], vec![class(json!({}))]), "Rest");
        assert_eq!(step(&bound("1Gi"), vec![], vec![]), "Lost");
    }

    #[test]
    fn volumes_follow_their_claims() {
        let of = json!({"spec": {"claimRef": {"namespace": "n", "name": "data", "uid": "u"}}});
        let deletes = json!({"spec": {"persistentVolumeReclaimPolicy": "Delete", "claimRef": {"uid": "u"}}});
        assert_eq!(volume_step(&volume("v", "1Gi", json!({})), false), VolumeStep::Phase("Available"));
        assert_eq!(volume_step(&volume("v", "1Gi", of.clone()), true), VolumeStep::Phase("Bound"));
        assert_eq!(volume_step(&volume("v", "1Gi", of), false), VolumeStep::Phase("Released"));
        assert_eq!(volume_step(&volume("v", "1Gi", deletes), false), VolumeStep::Delete);
    }
}
