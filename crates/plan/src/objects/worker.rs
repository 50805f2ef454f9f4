//! A Worker: a pod that waits for the Launcher to start ranks in it.

use k8s_openapi::api::core::v1::{Pod, PodDNSConfig, PodSpec};

use super::pod_group::join;
use super::reporting::let_report;
use super::transport::{equip, launch, set_worker_command};
use super::{env, metadata, name_host, pod_labels, worker_name};
use crate::Settings;
use crate::attempts::mark;
use crate::validate::{Replica, ValidJob};

/// The pod of the Worker `index`.
pub(crate) fn worker(job: &ValidJob, workers: &Replica, index: usize, settings: &Settings) -> Pod {
    let name = worker_name(&job.name, index);
    // Kueue's topology-aware scheduling wants a distinct rank for each pod; a Launcher that is also a Worker has rank
    // 0.
    let rank = if job.launcher_as_worker { index + 1 } else { index };
    let template = &workers.template;
    let mut meta =
        metadata(job, name.clone(), pod_labels(job, template.metadata.as_ref(), "worker", Some(rank)));
    meta.annotations = template.metadata.as_ref().and_then(|metadata| metadata.annotations.clone());
    mark(job, &mut meta);
    let spec = template.spec.clone().unwrap_or_default();
    let mut spec = pod_spec(job, workers, spec, name, settings);
    join(job, settings.gang.as_ref(), &mut meta, &mut spec);
    Pod { metadata: meta, spec: Some(spec), status: None }
}

fn pod_spec(
    job: &ValidJob,
    workers: &Replica,
    mut pod: PodSpec,
    name: String,
    settings: &Settings,
) -> PodSpec {
    name_host(job, &mut pod, name);
    // Intel MPI and MPICH connect back to the Launcher by its bare host name. The domain is hard-coded, as upstream;
    // another cluster domain resolves through the pod's own search list.
    let search = format!("{}.{}.svc.cluster.local", job.name, job.namespace);
    let dns: &mut PodDNSConfig = pod.dns_config.get_or_insert_default();
    dns.searches.get_or_insert_default().push(search);
    pod.restart_policy = Some(workers.restart_policy.clone());
    let launch = launch(job, settings);
    if let Some(container) = pod.containers.first_mut() {
        set_worker_command(launch, container);
        container.env.get_or_insert_default().push(env("K_MPI_JOB_ROLE", "worker"));
    }
    equip(job, launch, settings, &mut pod);
    let_report(job, launch, settings, &mut pod);
    pod
}
