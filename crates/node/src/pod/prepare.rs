//! What a pod needs before its containers: volumes and a sandbox.

use std::path::PathBuf;

use k8s_openapi::api::core::v1::{Pod, PodSpec};
use tokio_util::sync::CancellationToken;

use super::{FIRST_RETRY, LAST_RETRY, PodRun, hostname, mounting, security, spec};
use crate::environment::relocate;
use crate::lock;
use crate::sandbox::protocol::PodSpec as SandboxSpec;
use crate::volumes;

impl PodRun {
    /// Creates volumes and sandbox, retrying until it succeeds. Returns false if the pod must end first.
    pub(super) async fn prepare(&self, pod: &Pod, spec: &PodSpec) -> bool {
        let mut pause = FIRST_RETRY;
        loop {
            match self.prepare_once(pod, spec).await {
                Ok(()) => break,
                Err((reason, message)) => self.node.events.warning(pod, None, reason, message),
            }
            tokio::select! {
                () = self.stop.cancelled() => return false,
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(LAST_RETRY),
            }
        }
        lock(&self.node.sandboxes).insert(self.uid.clone(), CancellationToken::new());
        self.update(|record| {
            record.sandbox = true;
            record.address = Some(self.address);
        });
        true
    }

    async fn prepare_once(&self, pod: &Pod, spec: &PodSpec) -> Result<(), (&'static str, String)> {
        let folder = self.folder.join("volumes");
        std::fs::create_dir_all(&folder)
            .map_err(|e| ("FailedMount", format!("{}: {e}", folder.display())))?;
        let memory = self.prepare_volumes(spec, |_| true).await?;
        mounting::write_identity(self, pod).map_err(|e| ("FailedCreatePodSandBox", e.to_string()))?;
        let sandbox = SandboxSpec {
            pod: self.uid.clone(),
            hostname: hostname(pod),
            address: self.address,
            sysctls: security::sysctls(spec),
            memory_directories: memory,
        };
        self.node
            .sandbox
            .create_pod(sandbox)
            .await
            .map_err(|e| ("FailedCreatePodSandBox", format!("Failed to create pod sandbox: {e}")))
    }

    /// Creates or updates the volumes that `wanted` selects. Returns those to be backed by memory.
    pub async fn prepare_volumes(
        &self,
        spec: &PodSpec,
        wanted: impl Fn(&k8s_openapi::api::core::v1::Volume) -> bool,
    ) -> Result<Vec<(PathBuf, Option<u64>)>, (&'static str, String)> {
        let (pod, facts, folder) = (self.pod(), self.facts(), self.folder.join("volumes"));
        let context = volumes::VolumeContext {
            client: &self.node.client,
            pod: &pod,
            facts: &facts,
            folder: &folder,
            group: self.node.owner_group(spec),
            secret: &self.node.secret,
            claims: &self.node.claims,
        };
        let mut memory = Vec::new();
        for volume in spec.volumes.iter().flatten().filter(|volume| wanted(volume)) {
            let ready = volumes::prepare(volume, &context).await.map_err(|fault| {
                ("FailedMount", format!("MountVolume.SetUp failed for volume {:?} : {fault}", volume.name))
            })?;
            memory.extend(ready.memory.map(|size| (ready.path.clone(), size)));
            lock(&self.volumes).insert(volume.name.clone(), ready);
        }
        Ok(memory)
    }

    /// Plain mode: replaces mount paths by the volumes' real paths. Otherwise returns the texts unchanged.
    pub fn relocate_all(&self, texts: &[String]) -> Vec<String> {
        if self.node.mode.kind.isolates() {
            return texts.to_vec();
        }
        let paths = self.relocations();
        texts.iter().map(|text| relocate(text, &paths)).collect()
    }

    pub(super) fn relocations(&self) -> Vec<(String, String)> {
        let spec = spec(&self.pod());
        let volumes = lock(&self.volumes);
        let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
        let mut paths: Vec<(String, String)> = containers
            .flat_map(|container| container.volume_mounts.iter().flatten())
            .filter_map(|mount| {
                let real = volumes.get(&mount.name)?.path.join(mount.sub_path.as_deref().unwrap_or_default());
                let path = real.display().to_string();
                Some((
                    mount.mount_path.trim_end_matches('/').to_owned(),
                    path.trim_end_matches('/').to_owned(),
                ))
            })
            .collect();
        paths.sort_by_key(|(from, _)| std::cmp::Reverse(from.len()));
        paths.dedup();
        paths
    }
}
