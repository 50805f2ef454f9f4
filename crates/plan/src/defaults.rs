//! The defaults of an MPIJob, as in upstream's controller and CRD (`kubeflow/mpi-operator`,
//! `pkg/apis/kubeflow/v2beta1/default.go`). Takes a job and returns a copy with every default filled in; applying it
//! twice changes nothing more.

use api::{LAUNCHER, MPIJob, ReplicaSpec, WORKER};

/// Where upstream mounts the SSH key by default.
pub const DEFAULT_SSH_MOUNT_PATH: &str = "/root/.ssh";

/// Returns the job with every default filled in.
#[must_use]
pub fn defaulted(job: &MPIJob) -> MPIJob {
    let mut job = job.clone();
    let spec = &mut job.spec;
    spec.slots_per_worker.get_or_insert(1);
    spec.run_launcher_as_worker.get_or_insert(false);
    fill(&mut spec.ssh_auth_mount_path, DEFAULT_SSH_MOUNT_PATH);
    fill(&mut spec.mpi_implementation, "OpenMPI");
    fill(&mut spec.launcher_creation_policy, "AtStartup");
    let policy = spec.run_policy.get_or_insert_default();
    if policy.clean_pod_policy.is_none() {
        policy.clean_pod_policy = Some("None".to_owned());
    }
    policy.suspend.get_or_insert(false);
    if let Some(launcher) = spec.mpi_replica_specs.get_mut(LAUNCHER) {
        default_replica(launcher, 1, "OnFailure");
    }
    if let Some(worker) = spec.mpi_replica_specs.get_mut(WORKER) {
        default_replica(worker, 0, "Never");
    }
    job
}

fn default_replica(replica: &mut ReplicaSpec, replicas: i32, restart_policy: &str) {
    replica.replicas.get_or_insert(replicas);
    fill(&mut replica.restart_policy, restart_policy);
}

/// Upstream's Go types cannot distinguish an empty string from an absent one.
fn fill(field: &mut Option<String>, value: &str) {
    if field.as_deref().unwrap_or_default().is_empty() {
        *field = Some(value.to_owned());
    }
}
