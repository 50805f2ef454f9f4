//! The Launcher: a Job whose pod runs mpirun.

use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, EnvVar, KeyToPath, PodSpec, PodTemplateSpec, Volume,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value, json};

use super::hostfile::{DISCOVER_HOSTS, HOSTFILE, config_map_name};
use super::pod_group::join;
use super::reporting::let_report;
use super::transport::{drain_first, equip, launch, launcher_environment, mount};
use super::{
    env, launcher_name, metadata, name_host, owner_reference, pod_labels, watched_labels, worker_name,
};
use crate::Settings;
use crate::attempts::mark;
use crate::kept;
use crate::validate::{Launch, ValidJob};

/// The volume with the hostfile.
const CONFIG_VOLUME: &str = "mpi-job-config";

/// The Launcher's Job, suspended if the MPIJob is.
pub(crate) fn launcher_job(job: &ValidJob, settings: &Settings) -> Job {
    let mut meta = metadata(job, launcher_name(&job.name), watched_labels(job));
    mark(job, &mut meta);
    Job {
        metadata: meta,
        spec: Some(JobSpec {
            ttl_seconds_after_finished: job.ttl_seconds,
            active_deadline_seconds: job.active_deadline_seconds,
            backoff_limit: job.backoff_limit,
            // Without it a terminating pod could be replaced while it still runs (kubernetes/kubernetes#115844).
            pod_replacement_policy: Some("Failed".to_owned()),
            suspend: job.suspended.then_some(true),
            template: pod_template(job, settings),
            ..JobSpec::default()
        }),
        status: None,
    }
}

/// A merge patch that gives a suspended Launcher what a queue has injected into the MPIJob since (KEP-2926). Labels
/// and annotations are added to the existing ones, as upstream; the rest replaces what an earlier admission injected.
pub(crate) fn scheduling_directives(job: &ValidJob, launcher: &kept::Job, settings: &Settings) -> Value {
    let template = pod_template(job, settings);
    let metadata = template.metadata.unwrap_or_default();
    let pod = template.spec.unwrap_or_default();
    let has = launcher.spec.as_ref().and_then(|spec| spec.template.spec.as_ref()?.node_selector.as_ref());
    let node_selector = pod.node_selector.map(|wanted| {
        let gone = has.into_iter().flatten().map(|(key, _)| (key.clone(), Value::Null));
        let wanted = wanted.into_iter().map(|(key, value)| (key, Value::String(value)));
        gone.chain(wanted).collect::<Map<_, _>>()
    });
    json!({
        "metadata": { "labels": metadata.labels, "annotations": metadata.annotations.unwrap_or_default() },
        "spec": {
            "nodeSelector": node_selector,
            "tolerations": pod.tolerations,
            "schedulingGates": pod.scheduling_gates,
        },
    })
}

fn pod_template(job: &ValidJob, settings: &Settings) -> PodTemplateSpec {
    let template = &job.launcher.template;
    let index = job.launcher_as_worker.then_some(0);
    let mut metadata = ObjectMeta {
        labels: Some(pod_labels(job, template.metadata.as_ref(), "launcher", index)),
        annotations: template.metadata.as_ref().and_then(|metadata| metadata.annotations.clone()),
        owner_references: Some(vec![owner_reference(job)]),
        ..ObjectMeta::default()
    };
    mark(job, &mut metadata);
    let mut spec = pod_spec(job, template.spec.clone().unwrap_or_default(), settings);
    join(job, settings.gang.as_ref(), &mut metadata, &mut spec);
    PodTemplateSpec { metadata: Some(metadata), spec: Some(spec) }
}

fn pod_spec(job: &ValidJob, mut pod: PodSpec, settings: &Settings) -> PodSpec {
    name_host(job, &mut pod, launcher_name(&job.name));
    pod.restart_policy = Some(job.launcher.restart_policy.clone());
    let launch = launch(job, settings);
    if let Some(container) = pod.containers.first_mut() {
        let variables = container.env.get_or_insert_default();
        variables.push(env("K_MPI_JOB_ROLE", "launcher"));
        let host = worker_name(&job.name, 0);
        variables.extend(launcher_environment(job.implementation, job.slots, launch, &host));
        if !job.launcher_as_worker {
            // Empty, so that a Launcher without GPUs does not see the host's GPUs because of the image's defaults.
            let empty = |name: &str| EnvVar { name: name.to_owned(), ..EnvVar::default() };
            variables.extend([empty("NVIDIA_VISIBLE_DEVICES"), empty("NVIDIA_DRIVER_CAPABILITIES")]);
        }
    }
    if launch == Launch::Agent {
        let workers = job.workers.as_ref().and_then(|workers| workers.template.spec.as_ref());
        drain_first(&mut pod, 0, workers.and_then(|workers| workers.termination_grace_period_seconds));
    }
    equip(job, launch, settings, &mut pod);
    pod.volumes.get_or_insert_default().push(config_volume(job));
    if let Some(container) = pod.containers.first_mut() {
        container.volume_mounts.get_or_insert_default().push(mount(CONFIG_VOLUME, api::HOSTFILE_DIRECTORY));
    }
    let_report(job, launch, settings, &mut pod);
    pod
}

fn config_volume(job: &ValidJob) -> Volume {
    let items = [(HOSTFILE, 0o444), (DISCOVER_HOSTS, 0o555)];
    let item = |(file, mode): (&str, i32)| KeyToPath {
        key: file.to_owned(),
        path: file.to_owned(),
        mode: Some(mode),
    };
    Volume {
        name: CONFIG_VOLUME.to_owned(),
        config_map: Some(ConfigMapVolumeSource {
            name: config_map_name(&job.name),
            items: Some(items.map(item).to_vec()),
            ..ConfigMapVolumeSource::default()
        }),
        ..Volume::default()
    }
}
