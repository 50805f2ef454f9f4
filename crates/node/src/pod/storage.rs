//! Enforces `emptyDir.sizeLimit` and `limits.ephemeral-storage` by measuring periodically, as a kubelet's eviction
//! manager does (`pkg/kubelet/eviction/eviction_manager.go`). The kernel bounds memory-backed volumes.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::core::v1::PodSpec;

use super::PodRun;
use crate::environment::nanos;

/// Time between two measurements.
const PERIOD: Duration = Duration::from_secs(2);
/// Files that one measurement counts. A folder with more is measured only in part, so the pod is never evicted wrongly.
const MAX_FILES: usize = 200_000;

/// A bound on the total size of some folders.
struct Bound {
    folders: Vec<PathBuf>,
    bytes: u64,
    /// The eviction message when it is exceeded.
    message: String,
}

/// Waits until the pod exceeds a bound, and returns the eviction message.
pub async fn exceeded(run: &PodRun, spec: &PodSpec) -> String {
    let bounds = std::sync::Arc::new(bounds(run, spec));
    if bounds.is_empty() {
        return std::future::pending().await;
    }
    loop {
        tokio::time::sleep(PERIOD).await;
        let bounds = std::sync::Arc::clone(&bounds);
        let look = move || {
            let over = bounds.iter().find(|bound| {
                bound.folders.iter().map(|folder| used_bytes(folder)).sum::<u64>() > bound.bytes
            });
            over.map(|bound| bound.message.clone())
        };
        if let Ok(Some(message)) = tokio::task::spawn_blocking(look).await {
            return message;
        }
    }
}

fn bounds(run: &PodRun, spec: &PodSpec) -> Vec<Bound> {
    let volumes = run.folder.join("volumes");
    let mut found = Vec::new();
    let mut own = Vec::new();
    for volume in spec.volumes.iter().flatten() {
        let Some(source) = &volume.empty_dir else { continue };
        if source.medium.as_deref() == Some("Memory") {
            continue;
        }
        let folder = volumes.join(&volume.name);
        own.push(folder.clone());
        if let Some(limit) = &source.size_limit {
            let message =
                format!("Usage of EmptyDir volume {:?} exceeds the limit {:?}. ", volume.name, limit.0);
            found.push(Bound { folders: vec![folder], bytes: bytes(limit), message });
        }
    }
    let mut total = Some(0);
    let containers = run.folder.join("containers");
    for container in &spec.containers {
        let limits = container.resources.as_ref().and_then(|resources| resources.limits.as_ref());
        let Some(limit) = limits.and_then(|limits| limits.get("ephemeral-storage")) else {
            total = None;
            continue;
        };
        total = total.map(|total: u64| total.saturating_add(bytes(limit)));
        let folder = containers.join(&container.name);
        own.push(folder.clone());
        let name = &container.name;
        let message = format!("Container {name} exceeded its local ephemeral storage limit {:?}. ", limit.0);
        found.push(Bound { folders: vec![folder], bytes: bytes(limit), message });
    }
    if let Some(bytes) = total {
        let message = "Pod ephemeral local storage usage exceeds the total limit of containers. ".to_owned();
        found.push(Bound { folders: own, bytes, message });
    }
    found
}

fn bytes(amount: &k8s_openapi::apimachinery::pkg::api::resource::Quantity) -> u64 {
    u64::try_from(nanos(amount) / 1_000_000_000).unwrap_or(0)
}

/// Returns the disk usage of the files below a folder, in bytes. Symbolic links are not followed.
fn used_bytes(folder: &Path) -> u64 {
    let (mut sum, mut count, mut next) = (0, 0, vec![folder.to_path_buf()]);
    while let Some(folder) = next.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(found) = entry.metadata() else { continue };
            // `st_blocks` counts blocks of 512 bytes, independent of the file system's block size.
            sum += found.blocks() * 512;
            count += 1;
            if found.is_dir() && count < MAX_FILES {
                next.push(entry.path());
            }
        }
    }
    sum
}
