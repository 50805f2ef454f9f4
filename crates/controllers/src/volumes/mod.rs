//! Binds claims to volumes: existing ones of an administrator, or directories of the cluster's own state. A volume or
//! claim in use by a pod is kept until the pod is gone.
//!
//! Carries out the decisions of [`decide`]. Must not remove a directory that it has not created.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Client, Resource, ResourceExt};
use serde_json::{Value, json};

pub mod decide;

use super::cache::{Cache, Key};
use super::queue::{Queue, work};
use super::record::{Note, Recorder};
use super::{Error, allow};
use controller_runtime::supervision::Scope;
use decide::{ClaimStep, ObservedVolumes, PROVISIONER, SELECTED_NODE, VolumeStep, claim_step, volume_step};
use semantics::has_ended;

/// Claims and volumes processed concurrently.
const CONCURRENCY: usize = 4;
/// Responses that need no retry: the object is gone, or its change leads to another step.
const SETTLED: [u16; 2] = [404, 409];
const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";
const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";
const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";

/// The controller's dependencies.
#[derive(Clone)]
pub struct Context {
    /// The API.
    pub client: Client,
    /// Every claim.
    pub claims: Cache<PersistentVolumeClaim>,
    /// Every volume.
    pub volumes: Cache<PersistentVolume>,
    /// Every class.
    pub classes: Cache<StorageClass>,
    /// Every pod.
    pub pods: Cache<Pod>,
    /// Every node.
    pub nodes: Cache<Node>,
    /// Records Events.
    pub recorder: Recorder,
    /// The folder for volumes' directories; if `None`, nothing is provisioned.
    pub folder: Option<PathBuf>,
}

/// Returns the StorageClass of the cluster's own directories.
pub fn default_class() -> Value {
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": "local", "annotations": {decide::DEFAULT_CLASS: "true"}}, "provisioner": PROVISIONER,
        "reclaimPolicy": "Delete", "volumeBindingMode": "WaitForFirstConsumer", "allowVolumeExpansion": true})
}

/// The object to process: a claim by its key, or a volume by its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Task {
    Claim(Key),
    Volume(String),
}

/// Runs until the scope ends.
pub async fn run(context: Context, scope: Scope) {
    let queue: Arc<Queue<Task>> = Arc::default();
    listen(&context, &queue, &scope);
    context.claims.filled().await;
    context.volumes.filled().await;
    context.classes.filled().await;
    context.pods.filled().await;
    context.nodes.filled().await;
    work(queue, CONCURRENCY, scope, |task| step(&context, task)).await;
}

fn listen(context: &Context, queue: &Arc<Queue<Task>>, scope: &Scope) {
    let (to, volumes) = (queue.clone(), context.volumes.clone());
    context.claims.on_change(&scope.stop, move |change| {
        let Some(claim) = change.latest() else { return };
        to.add(Task::Claim(Key::of(claim.as_ref())));
        for volume in volumes.list().iter().filter(|volume| decide::belongs_to(volume, claim)) {
            to.add(Task::Volume(volume.name_any()));
        }
    });
    let (to, claims) = (queue.clone(), context.claims.clone());
    context.volumes.on_change(&scope.stop, move |change| {
        let Some(volume) = change.latest() else { return };
        to.add(Task::Volume(volume.name_any()));
        // A new, removed or freed volume may be what a claim waits for.
        for claim in claims.list() {
            to.add(Task::Claim(Key::of(claim.as_ref())));
        }
    });
    let (to, claims) = (queue.clone(), context.claims.clone());
    context.classes.on_change(&scope.stop, move |_| {
        claims.list().iter().for_each(|c| to.add(Task::Claim(Key::of(c.as_ref()))))
    });
    let to = queue.clone();
    context.pods.on_change(&scope.stop, move |change| {
        let over = change.new.as_ref().is_none_or(has_ended);
        if let Some(pod) = change.latest().filter(|_| over) {
            let namespace = pod.namespace().unwrap_or_default();
            claim_names(pod).for_each(|name| to.add(Task::Claim(Key::new(namespace.clone(), name))));
        }
    });
}

/// Returns the claims that a pod uses.
pub fn claim_names(pod: &Pod) -> impl Iterator<Item = &str> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes.filter_map(|volume| Some(volume.persistent_volume_claim.as_ref()?.claim_name.as_str()))
}

async fn step(context: &Context, task: Task) -> Result<Option<Duration>, Error> {
    match task {
        Task::Claim(key) => {
            if let Some(claim) = context.claims.get(&key) {
                attend_claim(context, &claim).await?;
            }
        }
        Task::Volume(name) => {
            if let Some(volume) = context.volumes.get(&Key::new("", name)) {
                attend_volume(context, &volume).await?;
            }
        }
    }
    Ok(None)
}

/// Returns the finalizers that the object should have; `None` if nothing changes.
fn finalizers<K: Resource>(object: &K, name: &str, wanted: bool) -> Option<Vec<String>> {
    let mut list = object.meta().finalizers.clone().unwrap_or_default();
    let has = list.iter().any(|known| known == name);
    // Finalizers may not be added during deletion.
    if has == wanted || (wanted && object.meta().deletion_timestamp.is_some()) {
        return None;
    }
    if wanted {
        list.push(name.to_owned());
    } else {
        list.retain(|known| known != name);
    }
    Some(list)
}

fn finalizer_patch<K: Resource>(object: &K, list: &[String]) -> Patch<Value> {
    Patch::Merge(json!({"metadata": {"resourceVersion": object.meta().resource_version, "finalizers": list}}))
}

async fn attend_claim(context: &Context, claim: &Arc<PersistentVolumeClaim>) -> Result<(), Error> {
    let namespace = claim.namespace().unwrap_or_default();
    let api: Api<PersistentVolumeClaim> = Api::namespaced(context.client.clone(), &namespace);
    let deleting = claim.metadata.deletion_timestamp.is_some();
    let name = claim.name_any();
    let used = || {
        let pods = context.pods.list_in(&namespace);
        pods.iter().any(|pod| !has_ended(pod) && claim_names(pod).any(|named| named == name))
    };
    if let Some(list) = finalizers(claim.as_ref(), CLAIM_PROTECTION, !deleting || used()) {
        let written =
            api.patch(&name, &PatchParams::default(), &finalizer_patch(claim.as_ref(), &list)).await;
        return learn(&context.claims, written);
    }
    if deleting {
        return Ok(());
    }
    let chosen = claim.annotations().get(SELECTED_NODE);
    let seen = ObservedVolumes {
        volumes: context.volumes.list(),
        classes: context.classes.list(),
        node: chosen.and_then(|node| context.nodes.get(&Key::new("", node.as_str()))),
    };
    match claim_step(claim, &seen) {
        ClaimStep::Rest => Ok(()),
        ClaimStep::SetClass(class) => {
            let patch = Patch::Merge(json!({"spec": {"storageClassName": class}}));
            learn(&context.claims, api.patch(&name, &PatchParams::default(), &patch).await)
        }
        ClaimStep::Bind(volume) => bind(context, &api, claim, &volume).await,
        ClaimStep::Provision(class) => provision(context, claim, &class).await,
        ClaimStep::Resize(size) => resize(context, &api, claim, &size).await,
        ClaimStep::Lost => {
            let message = "Bound claim has lost its PersistentVolume. Data on the volume is lost!";
            context.recorder.note(claim.as_ref(), Note::warning("ClaimLost", message));
            let patch = Patch::Merge(json!({"status": {"phase": "Lost"}}));
            learn(&context.claims, api.patch_status(&name, &PatchParams::default(), &patch).await)
        }
        ClaimStep::Wait { warning, reason, message } => {
            context.recorder.note(claim.as_ref(), Note { warning, reason, message });
            Ok(())
        }
    }
}

/// Stores the reply to a write. A conflict or a removed object leads to another step through the watch.
fn learn<K>(cache: &Cache<K>, written: Result<K, kube::Error>) -> Result<(), Error>
where
    K: Resource + Clone,
{
    match written {
        Ok(object) => {
            cache.learn(object);
            Ok(())
        }
        Err(error) => allow::<K>(&SETTLED, Err(error)),
    }
}

fn reference(claim: &PersistentVolumeClaim) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": claim.namespace(), "name": claim.name_any(),
        "uid": claim.uid(), "resourceVersion": claim.resource_version()})
}

/// Writes the volume before the claim: after a crash in between, the volume's reference leads back to the claim.
async fn bind(
    context: &Context,
    claims: &Api<PersistentVolumeClaim>,
    claim: &PersistentVolumeClaim,
    volume: &PersistentVolume,
) -> Result<(), Error> {
    let volumes: Api<PersistentVolume> = Api::all(context.client.clone());
    let name = volume.name_any();
    let known = volume.spec.as_ref().and_then(|s| s.claim_ref.as_ref());
    if known.is_none_or(|known| known.uid != claim.uid()) {
        let patch = json!({"metadata": {"resourceVersion": volume.resource_version(),
            "annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}}, "spec": {"claimRef": reference(claim)}});
        match volumes.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(written) => context.volumes.learn(written),
            Err(error) => return allow::<()>(&SETTLED, Err(error)),
        }
    }
    let annotations =
        json!({"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"});
    let patch =
        json!({"metadata": {"uid": claim.uid(), "annotations": annotations}, "spec": {"volumeName": name}});
    let written = claims.patch(&claim.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await;
    if let Err(error) = written {
        return allow::<()>(&SETTLED, Err(error));
    }
    let spec = volume.spec.as_ref();
    let status = json!({"metadata": {"uid": claim.uid()}, "status": {"phase": "Bound",
        "accessModes": spec.and_then(|s| s.access_modes.clone()), "capacity": spec.and_then(|s| s.capacity.clone())}});
    let written =
        claims.patch_status(&claim.name_any(), &PatchParams::default(), &Patch::Merge(status)).await;
    learn(&context.claims, written)
}

async fn provision(
    context: &Context,
    claim: &PersistentVolumeClaim,
    class: &StorageClass,
) -> Result<(), Error> {
    let name = format!("pvc-{}", claim.uid().unwrap_or_default());
    let Some(path) = context.folder.as_ref().map(|folder| folder.join(&name)) else {
        let message = "this cluster has no directory for volumes: it runs no node";
        context.recorder.note(claim, Note::warning("ProvisioningFailed", message));
        return Ok(());
    };
    let made = make_directory(path.clone()).await;
    if let Err(error) = made {
        let message = format!(
            "failed to provision volume with StorageClass {:?}: {}: {error}",
            class.name_any(),
            path.display()
        );
        context.recorder.note(claim, Note::warning("ProvisioningFailed", message));
        return Ok(());
    }
    let spec = claim.spec.as_ref();
    let volume: Value = json!({"apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: PROVISIONER}, "finalizers": [VOLUME_PROTECTION]},
        "spec": {"capacity": {"storage": decide::requested(claim)}, "claimRef": reference(claim),
            "accessModes": spec.and_then(|s| s.access_modes.clone()), "storageClassName": class.name_any(),
            "persistentVolumeReclaimPolicy": class.reclaim_policy.as_deref().unwrap_or("Delete"),
            "volumeMode": "Filesystem", "hostPath": {"path": path, "type": "Directory"}}});
    let volume: PersistentVolume = serde_json::from_value(volume).map_err(Error::Encode)?;
    let api: Api<PersistentVolume> = Api::all(context.client.clone());
    match api.create(&PostParams::default(), &volume).await {
        Ok(written) => {
            context.volumes.learn(written);
            let message = format!("Successfully provisioned volume {name}");
            context.recorder.note(claim, Note::normal("ProvisioningSucceeded", message));
            Ok(())
        }
        Err(error) => allow::<()>(&SETTLED, Err(error)),
    }
}

/// Creates a volume's directory. Everyone may write to it, as on a new disk from a provisioner (mode 0777).
async fn make_directory(path: PathBuf) -> std::io::Result<()> {
    let make = move || {
        std::fs::create_dir_all(&path)?;
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o777))
    };
    tokio::task::spawn_blocking(make).await.map_err(std::io::Error::other)?
}

/// Records the new size; a directory has no size of its own.
async fn resize(
    context: &Context,
    claims: &Api<PersistentVolumeClaim>,
    claim: &PersistentVolumeClaim,
    size: &k8s_openapi::apimachinery::pkg::api::resource::Quantity,
) -> Result<(), Error> {
    let name = claim.spec.as_ref().and_then(|s| s.volume_name.clone()).unwrap_or_default();
    let volumes: Api<PersistentVolume> = Api::all(context.client.clone());
    let patch = Patch::Merge(json!({"spec": {"capacity": {"storage": size}}}));
    allow(&SETTLED, volumes.patch(&name, &PatchParams::default(), &patch).await)?;
    let patch =
        Patch::Merge(json!({"metadata": {"uid": claim.uid()}, "status": {"capacity": {"storage": size}}}));
    learn(&context.claims, claims.patch_status(&claim.name_any(), &PatchParams::default(), &patch).await)?;
    let message = format!("Resize of volume {name} to {} is recorded", size.0);
    context.recorder.note(claim, Note::normal("VolumeResizeSuccessful", message));
    Ok(())
}

async fn attend_volume(context: &Context, volume: &Arc<PersistentVolume>) -> Result<(), Error> {
    let api: Api<PersistentVolume> = Api::all(context.client.clone());
    let name = volume.name_any();
    let reference = volume.spec.as_ref().and_then(|s| s.claim_ref.as_ref());
    let claim = reference.and_then(|r| {
        context
            .claims
            .get(&Key::new(r.namespace.clone().unwrap_or_default(), r.name.clone().unwrap_or_default()))
    });
    let lives = claim.is_some_and(|claim| reference.is_some_and(|r| r.uid == claim.uid()));
    let deleting = volume.metadata.deletion_timestamp.is_some();
    if let Some(list) = finalizers(volume.as_ref(), VOLUME_PROTECTION, !deleting || lives) {
        let written =
            api.patch(&name, &PatchParams::default(), &finalizer_patch(volume.as_ref(), &list)).await;
        return learn(&context.volumes, written);
    }
    if deleting {
        return Ok(());
    }
    match volume_step(volume, lives) {
        VolumeStep::Rest => Ok(()),
        VolumeStep::Phase(phase) => {
            let patch = Patch::Merge(json!({"metadata": {"uid": volume.uid()}, "status": {"phase": phase}}));
            learn(&context.volumes, api.patch_status(&name, &PatchParams::default(), &patch).await)
        }
        VolumeStep::Delete => reclaim(context, &api, volume).await,
    }
}

/// Removes the volume of a deleted claim, and first its directory if it is ours.
async fn reclaim(
    context: &Context,
    api: &Api<PersistentVolume>,
    volume: &PersistentVolume,
) -> Result<(), Error> {
    let name = volume.name_any();
    let ours = volume.annotations().get(PROVISIONED_BY).is_some_and(|by| by == PROVISIONER);
    let path = context.folder.as_ref().filter(|_| ours).map(|folder| folder.join(&name));
    // The folder of the cluster may have been moved since: the volume's own name is the last part of its path.
    let says = volume.spec.as_ref().and_then(|s| s.host_path.as_ref()).map(|p| PathBuf::from(&p.path));
    if path.is_none() || says.and_then(|says| says.file_name().map(Into::into)) != Some(OsString::from(&name))
    {
        return fail(
            context,
            api,
            volume,
            "error getting deleter volume plugin: no volume plugin matched".into(),
        )
        .await;
    }
    if let Some(path) = path {
        let removed = tokio::task::spawn_blocking(move || std::fs::remove_dir_all(path)).await;
        match removed.map_err(std::io::Error::other).flatten() {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return fail(context, api, volume, error.to_string()).await;
            }
            _ => {}
        }
    }
    let only = Preconditions { uid: volume.uid(), resource_version: None };
    allow(&SETTLED, api.delete(&name, &DeleteParams::default().preconditions(only)).await)
}

/// Reports that a volume cannot be removed; repeated failures with the same reason are not reported again.
async fn fail(
    context: &Context,
    api: &Api<PersistentVolume>,
    volume: &PersistentVolume,
    why: String,
) -> Result<(), Error> {
    let known = volume.status.as_ref();
    if known.is_some_and(|s| s.phase.as_deref() == Some("Failed") && s.message.as_ref() == Some(&why)) {
        return Ok(());
    }
    context.recorder.note(volume, Note::warning("VolumeFailedDelete", why.clone()));
    let patch = Patch::Merge(
        json!({"metadata": {"uid": volume.uid()}, "status": {"phase": "Failed", "message": why}}),
    );
    learn(&context.volumes, api.patch_status(&volume.name_any(), &PatchParams::default(), &patch).await)
}
