//! MPI's parts of the pods: the key, the hostfile, the environment, and with the agent transport the agent. Volumes,
//! mounts and variables are upstream's (`kubeflow/trainer`, `pkg/runtime/framework/plugins/mpi/mpi.go`); those for
//! Open MPI 5 are ours.

use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, Container, KeyToPath, PodDNSConfig, PodSpec, Probe, SecretVolumeSource, Volume,
    VolumeMount,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::job_set::{LAUNCHER, NODE, Replicated, upsert};
use super::objects::{hostfile_name, key_name};
use super::valid::ValidTrainJob;
use crate::Settings;
use crate::objects::{
    PRIVATE_KEY, PUBLIC_KEY, drain_first, equip_with_agent, launcher_environment, mount, runs_sshd,
    set_worker_command,
};
use crate::validate::{Implementation, Launch};

/// The volume with the key; users cannot have one of this name.
pub(super) const KEY_VOLUME: &str = "mpi-ssh-auth";
/// The volume with the hostfile; users cannot have one of this name.
pub(super) const HOSTFILE_VOLUME: &str = "mpi-hostfile";

/// Adds what the pods of a replicated job need to take part in MPI; others stay as they are.
pub(super) fn equip(job: &ValidTrainJob, settings: &Settings, part: &mut Replicated) {
    let is_launcher = part.name == LAUNCHER;
    if !is_launcher && part.name != NODE {
        return;
    }
    let Some(pod) = part.template.spec.as_mut().and_then(|spec| spec.template.spec.as_mut()) else { return };
    let Some(main) = pod.containers.iter().position(|container| container.name == NODE) else { return };
    if job.launch == Launch::Ssh {
        upsert_volume(pod, key_volume(job));
        mount_at(&mut pod.containers[main], mount(KEY_VOLUME, &job.mpi.ssh_mount_path));
    }
    if is_launcher {
        upsert_volume(pod, hostfile_volume(job));
        let container = &mut pod.containers[main];
        mount_at(container, mount(HOSTFILE_VOLUME, api::HOSTFILE_DIRECTORY));
        let host = format!("{}-{NODE}-0-0", job.name);
        let variables = launcher_environment(job.mpi.implementation, job.mpi.slots, job.launch, &host);
        upsert(&mut container.env, variables);
    } else {
        serve(job, pod, main);
    }
    if job.launch == Launch::Agent {
        if is_launcher {
            drain_first(pod, main, None);
        }
        equip_with_agent(key_name(&job.name), job.start_timeout, settings, pod, main);
    }
}

/// Makes a node's container wait for the Launcher.
fn serve(job: &ValidTrainJob, pod: &mut PodSpec, main: usize) {
    if job.mpi.implementation != Implementation::OpenMpi {
        // They connect back to the Launcher by its bare host name.
        let search = format!("{}.{}.svc.cluster.local", job.job_set.subdomain, job.namespace);
        let dns: &mut PodDNSConfig = pod.dns_config.get_or_insert_default();
        dns.searches.get_or_insert_default().push(search);
    }
    let container = &mut pod.containers[main];
    let ran_sshd = runs_sshd(container);
    if job.launch == Launch::Agent && ran_sshd {
        // Probes of sshd's port would never succeed.
        let probes =
            [&mut container.readiness_probe, &mut container.liveness_probe, &mut container.startup_probe];
        probes.into_iter().flatten().for_each(probe_agent);
    }
    if job.launch == Launch::Agent {
        set_worker_command(Launch::Agent, container);
    }
}

fn probe_agent(probe: &mut Probe) {
    if let Some(socket) = &mut probe.tcp_socket {
        socket.port = IntOrString::Int(i32::from(api::LAUNCH_PORT));
    }
}

pub(super) fn upsert_volume(pod: &mut PodSpec, volume: Volume) {
    let volumes = pod.volumes.get_or_insert_default();
    match volumes.iter_mut().find(|known| known.name == volume.name) {
        Some(known) => *known = volume,
        None => volumes.push(volume),
    }
}

pub(super) fn mount_at(container: &mut Container, mount: VolumeMount) {
    let mounts = container.volume_mounts.get_or_insert_default();
    match mounts.iter_mut().find(|known| known.mount_path == mount.mount_path) {
        Some(known) => *known = mount,
        None => mounts.push(mount),
    }
}

fn item(key: &str, path: &str, mode: i32) -> KeyToPath {
    KeyToPath { key: key.to_owned(), path: path.to_owned(), mode: Some(mode) }
}

fn key_volume(job: &ValidTrainJob) -> Volume {
    let items = vec![
        item(PRIVATE_KEY, "id_rsa", 0o640),
        item(PUBLIC_KEY, "id_rsa.pub", 0o644),
        item(PUBLIC_KEY, "authorized_keys", 0o644),
    ];
    Volume {
        name: KEY_VOLUME.to_owned(),
        secret: Some(SecretVolumeSource {
            secret_name: Some(key_name(&job.name)),
            default_mode: Some(0o400),
            items: Some(items),
            optional: None,
        }),
        ..Volume::default()
    }
}

fn hostfile_volume(job: &ValidTrainJob) -> Volume {
    Volume {
        name: HOSTFILE_VOLUME.to_owned(),
        config_map: Some(ConfigMapVolumeSource {
            name: hostfile_name(&job.name),
            items: Some(vec![item("hostfile", "hostfile", 0o444)]),
            ..ConfigMapVolumeSource::default()
        }),
        ..Volume::default()
    }
}
