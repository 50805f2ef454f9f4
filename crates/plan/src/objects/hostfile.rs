//! The ConfigMap that the Launcher mounts at `/etc/mpi`: the hostfile, with every host that the spec asks for, and
//! `discover_hosts.sh`, which prints the running ones (elastic Horovod calls it). Beside them are the authorities of the
//! endpoint for progress, which other volumes take from it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;

use super::reporting::{AUTHORITIES, endpoint};
use super::transport::launch;
use super::{launcher_name, metadata, watched_labels, worker_name};
use crate::Settings;
use crate::kept::Pod;
use crate::observed::{is_running, worker_index};
use crate::validate::{Implementation, ValidJob};

/// The key of the hostfile in the ConfigMap, and its file name.
pub(crate) const HOSTFILE: &str = "hostfile";
/// The key of the discovery script, and its file name.
pub(crate) const DISCOVER_HOSTS: &str = "discover_hosts.sh";

/// The ConfigMap's name.
pub(crate) fn config_map_name(job: &str) -> String {
    format!("{job}-config")
}

/// The ConfigMap, given the script's text.
pub(crate) fn config_map(job: &ValidJob, script: String, settings: &Settings) -> ConfigMap {
    let mut data =
        BTreeMap::from([(HOSTFILE.to_owned(), hostfile(job, settings)), (DISCOVER_HOSTS.to_owned(), script)]);
    let progress = endpoint(job, launch(job, settings), settings);
    data.extend(progress.map(|progress| (AUTHORITIES.to_owned(), progress.authorities.clone())));
    ConfigMap {
        metadata: metadata(job, config_map_name(&job.name), watched_labels(job)),
        data: Some(data),
        ..ConfigMap::default()
    }
}

/// One line for each host with its slots, the Launcher first if it takes ranks.
fn hostfile(job: &ValidJob, settings: &Settings) -> String {
    let launcher = job.launcher_as_worker.then(|| launcher_name(&job.name));
    let workers = (0..job.worker_count()).map(|index| worker_name(&job.name, index));
    let mut text = String::new();
    for pod in launcher.into_iter().chain(workers) {
        let host = host(job, &pod, settings);
        let slots = job.slots;
        let _ = match job.implementation {
            Implementation::OpenMpi => writeln!(text, "{host} slots={slots}"),
            Implementation::Intel | Implementation::Mpich => writeln!(text, "{host}:{slots}"),
        };
    }
    text
}

/// A script that prints the running hosts in numeric order. Upstream sorts the names as strings, which puts Worker 10
/// before Worker 2 and so renumbers ranks when a job grows.
pub(crate) fn discover_hosts(job: &ValidJob, workers: &[Arc<Pod>], settings: &Settings) -> String {
    let mut running: Vec<usize> = workers
        .iter()
        .filter(|pod| is_running(pod))
        .filter_map(|pod| worker_index(&job.name, pod))
        .filter(|index| *index < job.worker_count())
        .collect();
    running.sort_unstable();
    let launcher = job.launcher_as_worker.then(|| launcher_name(&job.name));
    let workers = running.into_iter().map(|index| worker_name(&job.name, index));
    let mut text = String::from("#!/bin/sh\n");
    for pod in launcher.into_iter().chain(workers) {
        let _ = writeln!(text, "echo {}", host(job, &pod, settings));
    }
    text
}

/// A pod's DNS name under the job's Service.
fn host(job: &ValidJob, pod: &str, settings: &Settings) -> String {
    let ValidJob { name, namespace, .. } = job;
    match settings.cluster_domain.as_str() {
        "" => format!("{pod}.{name}.{namespace}.svc"),
        domain => format!("{pod}.{name}.{namespace}.svc.{domain}"),
    }
}
