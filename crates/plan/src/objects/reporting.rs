//! Which pods of an MPIJob can report their progress, and what they get for it.

use k8s_openapi::api::core::v1::PodSpec;

use super::config_map_name;
use crate::Settings;
use crate::progress::{AuthoritySource, ProgressEndpoint, Reporter, ReportingKind, volume_mount};
use crate::validate::{Launch, ValidJob};

/// The key of the authorities in the job's ConfigMap.
pub(super) const AUTHORITIES: &str = "progress-ca.crt";

/// Where the job's programs report: those with the agent unless the job refuses, those with ssh only if it asks for it,
/// because their pods are otherwise exactly upstream's.
pub(super) fn endpoint<'a>(
    job: &ValidJob,
    launch: Launch,
    settings: &'a Settings,
) -> Option<&'a ProgressEndpoint> {
    settings.progress.as_ref().filter(|_| job.reports.unwrap_or(launch == Launch::Agent))
}

/// Lets the MPI container of a pod report, if the job's programs do. What the user has put in its place stays.
pub(super) fn let_report(job: &ValidJob, launch: Launch, settings: &Settings, pod: &mut PodSpec) {
    let Some(endpoint) = endpoint(job, launch, settings) else { return };
    let (kind, namespace) = (ReportingKind::MpiJob, job.namespace.as_str());
    let reporter = Reporter { kind, namespace, job: &job.name, endpoint };
    // Optional: an operator without an endpoint removes them, and a Launcher that it retries has to start all the same.
    let volume = reporter.volume(AuthoritySource {
        config_map: config_map_name(&job.name),
        key: AUTHORITIES,
        optional: Some(true),
    });
    let Some(container) = pod.containers.first_mut() else { return };
    let variables = container.env.get_or_insert_default();
    for variable in reporter.variables() {
        if variables.iter().all(|known| known.name != variable.name) {
            variables.push(variable);
        }
    }
    let (mounts, mount) = (container.volume_mounts.get_or_insert_default(), volume_mount());
    let volumes = pod.volumes.get_or_insert_default();
    let is_taken = mounts.iter().any(|known| known.mount_path == mount.mount_path)
        || volumes.iter().any(|known| known.name == volume.name);
    if !is_taken {
        mounts.push(mount);
        volumes.push(volume);
    }
}
