//! Which volumes of a pod hold files of its job, and in which a path is. Pure.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{self, Pod, VolumeMount};
use kube::ResourceExt as _;

use super::{MOST_ENTRIES, READER_FOLDER};
use crate::describe;

/// A mount of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mount {
    /// Where.
    pub path: String,
    /// What is there; `None` if it is not shown.
    pub shown: Option<Shown>,
}

impl Mount {
    /// Whether it is a volume that outlives the pods that mount it.
    pub fn is_kept(&self) -> bool {
        self.shown.as_ref().is_some_and(|shown| shown.source.is_shared())
    }
}

/// A volume that is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shown {
    name: String,
    source: Source,
    claim: Option<String>,
}

/// What a volume is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A PersistentVolumeClaim.
    PersistentVolumeClaim,
    /// A claim that goes with its pod.
    Ephemeral,
    /// A folder that goes with its pod.
    EmptyDir,
    /// A folder of an NFS server.
    Nfs,
}

impl Source {
    /// Whether pods share it, and it outlives them.
    fn is_shared(self) -> bool {
        matches!(self, Source::PersistentVolumeClaim | Source::Nfs)
    }
}

/// A volume of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// Where it is mounted.
    pub path: String,
    /// Its name in the pod.
    pub name: String,
    /// What it is.
    pub source: Source,
    /// The name of its PersistentVolumeClaim.
    pub claim: Option<String>,
    /// The pod.
    pub pod: String,
    /// The Worker whose pod it is.
    pub worker: Option<i32>,
}

/// Returns the mounts of a pod's MPI container.
pub(super) fn mounts(pod: &Pod) -> Vec<Mount> {
    let spec = pod.spec.as_ref();
    let volumes = spec.and_then(|spec| spec.volumes.as_deref()).unwrap_or_default();
    let container = semantics::main_container(pod);
    let mounted = container.and_then(|container| container.volume_mounts.as_deref()).unwrap_or_default();
    let of = |mount: &VolumeMount| {
        let volume = volumes.iter().find(|volume| volume.name == mount.name);
        let path = format!("/{}", mount.mount_path.trim_matches('/'));
        let shown = volume.and_then(shown).filter(|_| !is_ours_or_device(&path));
        Mount { path, shown }
    };
    mounted.iter().map(of).collect()
}

/// What is not named here is not shown: Secrets, tokens, ConfigMaps, devices, folders of the node.
fn shown(volume: &v1::Volume) -> Option<Shown> {
    let (source, claim) = match volume {
        v1::Volume { persistent_volume_claim: Some(claim), .. } => {
            (Source::PersistentVolumeClaim, Some(claim.claim_name.clone()))
        }
        v1::Volume { ephemeral: Some(_), .. } => (Source::Ephemeral, None),
        v1::Volume { empty_dir: Some(_), .. } => (Source::EmptyDir, None),
        v1::Volume { nfs: Some(_), .. } => (Source::Nfs, None),
        _ => return None,
    };
    Some(Shown { name: volume.name.clone(), source, claim })
}

fn is_ours_or_device(path: &str) -> bool {
    path == api::LAUNCH_DIRECTORY || path == READER_FOLDER || path == "/dev" || path.starts_with("/dev/")
}

/// The index of the innermost mount in which a path is.
pub(super) fn innermost<'m>(mounts: impl Iterator<Item = &'m [u8]>, path: &[u8]) -> Option<usize> {
    let inside =
        |mount: &[u8]| path.strip_prefix(mount).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"));
    let found = mounts.enumerate().filter(|(_, mount)| !mount.is_empty() && inside(mount));
    found.max_by_key(|(_, mount)| mount.len()).map(|(at, _)| at)
}

/// Whether a pod shows a path, as it was asked for.
pub(super) fn shows(mounts: &[Mount], path: &[u8]) -> bool {
    let at = innermost(mounts.iter().map(|mount| mount.path.as_bytes()), path);
    at.and_then(|at| mounts.get(at)).is_some_and(|mount| mount.shown.is_some())
}

/// Lists the volumes of pods. Those that pods share are listed once, those that go with a pod for each pod.
pub(super) fn volumes(pods: &[Pod]) -> Vec<Volume> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for pod in pods {
        let view = describe::pod_view(pod);
        for Mount { path, shown } in mounts(pod) {
            let Some(Shown { name, source, claim }) = shown else { continue };
            let of = if source.is_shared() { String::new() } else { pod.name_any() };
            if found.len() < MOST_ENTRIES && seen.insert((path.clone(), name.clone(), claim.clone(), of)) {
                found.push(Volume { path, name, source, claim, pod: pod.name_any(), worker: view.index });
            }
        }
    }
    found
}
