//! What upstream makes of a TrainJob and its runtime: the JobSet, with every value that Trainer
//! (`kubeflow/trainer`, `pkg/runtime/core/trainingruntime.go`, `pkg/runtime/framework/plugins`) and JobSet's own
//! defaults (`kubernetes-sigs/jobset`, `pkg/webhooks/jobset_webhook.go`) put into it. Counts follow upstream even where
//! they are odd, because Kueue computes them with upstream's code.

use std::borrow::Cow;
use std::collections::BTreeMap;

use api::{
    JobSetSpec, LABEL_ANCESTOR, MpiPolicy, ReplicatedJob, RuntimePatch, Source, SuccessPolicy, TrainJob,
    TrainJobSpec,
};
use k8s_openapi::api::batch::v1::{JobSpec, JobTemplateSpec};
use k8s_openapi::api::core::v1::{
    Container, EnvFromSource, EnvVar, PodSpec, ResourceRequirements, SecretEnvSource,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Amount;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use semantics::Quantity;

use super::merge::merged;
use super::runtime::Runtime;
use crate::asked::AskedPods;
use crate::defaults::DEFAULT_SSH_MOUNT_PATH;
use crate::validate::Implementation;

/// The replicated job of the training nodes, and the container that trains.
pub(super) const NODE: &str = "node";
/// The replicated job that runs mpirun.
pub(super) const LAUNCHER: &str = "launcher";
/// The replicated job and the container that fetch the dataset.
pub(super) const DATASET_INITIALIZER: &str = "dataset-initializer";
/// The replicated job and the container that fetch the model.
pub(super) const MODEL_INITIALIZER: &str = "model-initializer";
/// The value of [`LABEL_ANCESTOR`] for the replicated job that `trainer` changes.
pub(super) const TRAINER: &str = "trainer";
/// The variable with a source's URI.
const STORAGE_URI: &str = "STORAGE_URI";

/// The Jobs of a TrainJob.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobSet {
    /// The subdomain of the pods' host names, and the name of the Service.
    pub subdomain: String,
    /// Whether names resolve before pods are ready.
    pub publish_not_ready: bool,
    /// The replicated jobs, in the runtime's order, which is also the order of ranks.
    pub replicated: Vec<Replicated>,
    /// When the job has succeeded.
    pub success: SuccessPolicy,
    /// How many times all Jobs may be restarted.
    pub max_restarts: u32,
    /// Seconds after the end at which the Jobs are deleted.
    pub ttl_seconds: Option<i32>,
    /// The address of the coordinator's pod.
    pub coordinator: Option<String>,
    /// Labels of the JobSet itself.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the JobSet itself.
    pub annotations: BTreeMap<String, String>,
}

/// A group of equal Jobs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Replicated {
    /// Its name.
    pub name: String,
    /// The group that it belongs to.
    pub group: String,
    /// The number of Jobs.
    pub replicas: usize,
    /// The number of pods of each Job.
    pub pods: usize,
    /// What its Jobs wait for.
    pub needs: Vec<Need>,
    /// The template of its Jobs, complete but for JobSet's labels.
    pub template: JobTemplateSpec,
}

/// What the Jobs of a replicated job wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// The replicated job that is waited for.
    pub name: String,
    /// Whether its Jobs have to be complete, rather than ready.
    pub complete: bool,
}

impl Replicated {
    /// What part of the TrainJob changes it.
    pub(super) fn ancestor(&self) -> Option<&str> {
        ancestor(&self.template)
    }

    /// Its pods' spec.
    pub(super) fn pod(&self) -> Option<&PodSpec> {
        self.template.spec.as_ref()?.template.spec.as_ref()
    }

    /// The container that trains.
    pub(super) fn node_container(&self) -> Option<&Container> {
        self.pod()?.containers.iter().find(|container| container.name == NODE)
    }
}

/// The parameters of MPI.
#[derive(Clone, Debug, PartialEq)]
pub struct Mpi {
    /// Ranks on each host.
    pub slots: i32,
    /// The MPI of the images.
    pub implementation: Implementation,
    /// Where the SSH key is mounted.
    pub ssh_mount_path: String,
    /// Whether the Launcher's host takes ranks too.
    pub launcher_as_node: bool,
}

/// The value of [`LABEL_ANCESTOR`] on a Job template.
pub(super) fn ancestor(template: &JobTemplateSpec) -> Option<&str> {
    template.metadata.as_ref()?.labels.as_ref()?.get(LABEL_ANCESTOR).map(String::as_str)
}

/// Merges the patches of all managers into the runtime's JobSet spec, in the order of the patches. `None` if the result
/// is not a JobSet spec.
pub(super) fn patched(spec: &JobSetSpec, patches: &[RuntimePatch]) -> Option<JobSetSpec> {
    let specs = patches
        .iter()
        .filter_map(|patch| patch.training_runtime_spec.as_ref()?.template.as_ref()?.spec.as_ref());
    let mut value = serde_json::to_value(spec).ok()?;
    for patch in specs {
        value = merged(value, serde_json::to_value(patch).ok()?);
    }
    let mut patched: JobSetSpec = serde_json::from_value(value).ok()?;
    // The merge may move patched jobs to the front; ranks follow the runtime's order.
    let place = |job: &ReplicatedJob| spec.replicated_jobs.iter().position(|known| known.name == job.name);
    patched.replicated_jobs.sort_by_key(|job| place(job).unwrap_or(usize::MAX));
    Some(patched)
}

/// Labels and annotations of the JobSet: the runtime's, overridden by the patches'.
fn propagated(
    runtime: &Runtime,
    patches: &[RuntimePatch],
) -> (BTreeMap<String, String>, BTreeMap<String, String>) {
    let of_patches = patches
        .iter()
        .filter_map(|patch| patch.training_runtime_spec.as_ref()?.template.as_ref()?.metadata.as_ref());
    let all = runtime.spec.template.metadata.iter().chain(of_patches);
    let (mut labels, mut annotations) = (BTreeMap::new(), BTreeMap::new());
    for ObjectMeta { labels: more, annotations: notes, .. } in all {
        labels.extend(more.clone().unwrap_or_default());
        annotations.extend(notes.clone().unwrap_or_default());
    }
    (labels, annotations)
}

/// Returns what a TrainJob's pods ask for, whichever operator runs it and whatever policy its runtime has.
#[must_use]
pub fn asked(job: &TrainJob, runtime: &Runtime) -> Vec<AskedPods<'static>> {
    let spec = &runtime.spec.template.spec;
    let merged = patched(spec, &job.spec.runtime_patches);
    let jobs = job_set(job, runtime, merged.as_ref().unwrap_or(spec)).replicated;
    let is_awaited =
        |name: &str| jobs.iter().flat_map(|it| &it.needs).any(|need| need.complete && need.name == name);
    let of = |it: &Replicated| AskedPods {
        name: if it.name == LAUNCHER { "Launcher".into() } else { it.name.clone().into() },
        count: i64::try_from(it.replicas.saturating_mul(it.pods)).unwrap_or(i64::MAX),
        ends_first: is_awaited(&it.name),
        pod: it.pod().cloned().map(Cow::Owned),
    };
    let mut asked: Vec<AskedPods<'static>> = jobs.iter().map(of).collect();
    asked.sort_by_key(|group| group.name == NODE);
    asked
}

/// Returns the Jobs of a TrainJob before MPI's own parts are added, from its runtime's already patched spec.
pub(super) fn job_set(job: &TrainJob, runtime: &Runtime, spec: &JobSetSpec) -> JobSet {
    let name = job.metadata.name.clone().unwrap_or_default();
    let network = spec.network.clone().unwrap_or_default();
    let subdomain = network.subdomain.filter(|given| !given.is_empty()).unwrap_or_else(|| name.clone());
    let in_order =
        spec.startup_policy.as_ref().is_some_and(|policy| policy.startup_policy_order == "InOrder");
    let mut replicated: Vec<Replicated> = Vec::new();
    for replicated_job in &spec.replicated_jobs {
        let mut next = of_replicated(job, runtime, replicated_job);
        if let Some(former) = replicated.last().filter(|_| in_order) {
            next.needs = vec![Need { name: former.name.clone(), complete: false }];
        }
        replicated.push(next);
    }
    let (labels, annotations) = propagated(runtime, &job.spec.runtime_patches);
    let success = spec.success_policy.clone().unwrap_or_default();
    let restarts = spec.failure_policy.as_ref().and_then(|policy| policy.max_restarts).unwrap_or(0);
    let coordinator = spec.coordinator.as_ref().map(|it| {
        let (of, at) = (it.job_index.unwrap_or(0), it.pod_index.unwrap_or(0));
        format!("{name}-{}-{of}-{at}.{subdomain}", it.replicated_job)
    });
    JobSet {
        subdomain,
        publish_not_ready: network.publish_not_ready_addresses.unwrap_or(true),
        replicated,
        success,
        max_restarts: u32::try_from(restarts).unwrap_or(0),
        ttl_seconds: spec.ttl_seconds_after_finished.filter(|seconds| *seconds >= 0),
        coordinator,
        labels,
        annotations,
    }
}

fn of_replicated(job: &TrainJob, runtime: &Runtime, replicated: &ReplicatedJob) -> Replicated {
    let ReplicatedJob { name, group_name, template, replicas, depends_on } = replicated;
    let mut template = template.clone();
    let pods = pod_count(&job.spec, runtime, name, &template);
    let is_ours = [TRAINER, DATASET_INITIALIZER, MODEL_INITIALIZER].map(Some).contains(&ancestor(&template));
    let replicas = if is_ours { 1 } else { replicas.unwrap_or(1) };
    override_initializer(&job.spec, &mut template);
    override_trainer(&job.spec, runtime, name, &mut template);
    let spec: &mut JobSpec = template.spec.get_or_insert_default();
    let count = i32::try_from(pods).unwrap_or(i32::MAX);
    (spec.parallelism, spec.completions) = (Some(count), Some(count));
    spec.completion_mode.get_or_insert_with(|| "Indexed".to_owned());
    let pod: &mut PodSpec = spec.template.spec.get_or_insert_default();
    if pod.restart_policy.as_deref().unwrap_or_default().is_empty() {
        pod.restart_policy = Some("OnFailure".to_owned());
    }
    let needs = depends_on.iter().map(|it| Need { name: it.name.clone(), complete: it.status == "Complete" });
    Replicated {
        name: name.clone(),
        group: group_name.clone().unwrap_or_else(|| "default".to_owned()),
        replicas: usize::try_from(replicas).unwrap_or(0),
        pods,
        needs: needs.collect(),
        template,
    }
}

/// The number of pods of each Job of a replicated job.
fn pod_count(spec: &TrainJobSpec, runtime: &Runtime, name: &str, template: &JobTemplateSpec) -> usize {
    let policy = runtime.spec.ml_policy.clone().unwrap_or_default();
    let of_template = template.spec.as_ref().and_then(|spec| spec.parallelism).unwrap_or(1);
    let of_runtime = match ancestor(template) {
        Some(TRAINER) => policy.num_nodes.unwrap_or(1),
        _ => of_template,
    };
    let asked = spec.trainer.as_ref().and_then(|trainer| trainer.num_nodes).filter(|_| name == NODE);
    let as_node = policy.mpi.as_ref().and_then(|mpi| mpi.run_launcher_as_node).unwrap_or(false);
    let count = match asked {
        // One of the nodes is the Launcher.
        Some(asked) if as_node => asked.saturating_sub(1).max(1),
        Some(asked) => asked,
        None => of_runtime.max(1),
    };
    usize::try_from(count).unwrap_or(0)
}

fn containers(template: &mut JobTemplateSpec) -> impl Iterator<Item = &mut Container> {
    let pod = template.spec.as_mut().and_then(|spec| spec.template.spec.as_mut());
    pod.into_iter().flat_map(|pod| pod.containers.iter_mut())
}

fn override_initializer(spec: &TrainJobSpec, template: &mut JobTemplateSpec) {
    let Some(initializer) = &spec.initializer else { return };
    let (name, source) = match ancestor(template) {
        Some(DATASET_INITIALIZER) => (DATASET_INITIALIZER, &initializer.dataset),
        Some(MODEL_INITIALIZER) => (MODEL_INITIALIZER, &initializer.model),
        _ => return,
    };
    let Some(Source { storage_uri, env, secret_ref }) = source else { return };
    for container in containers(template).filter(|container| container.name == name) {
        let uri = storage_uri.iter().map(|uri| EnvVar {
            name: STORAGE_URI.to_owned(),
            value: Some(uri.clone()),
            value_from: None,
        });
        upsert(&mut container.env, uri.chain(env.iter().cloned()));
        if let Some(secret) = secret_ref {
            container.env_from.get_or_insert_default().push(EnvFromSource {
                secret_ref: Some(SecretEnvSource { name: secret.name.clone(), optional: None }),
                ..EnvFromSource::default()
            });
        }
    }
}

/// Image, command and arguments go to the replicated job that the label names, the Launcher in MPI's runtimes;
/// resources go to the nodes too if the Launcher is one of them.
fn override_trainer(spec: &TrainJobSpec, runtime: &Runtime, name: &str, template: &mut JobTemplateSpec) {
    let Some(trainer) = &spec.trainer else { return };
    let is_trainer = ancestor(template) == Some(TRAINER);
    let is_node = runs_launcher_as_node(runtime) && name == NODE;
    if !is_trainer && !is_node {
        return;
    }
    for container in containers(template).filter(|container| container.name == NODE) {
        if is_trainer {
            container.image = trainer.image.clone().or_else(|| container.image.take());
            container.command = trainer.command.clone().or_else(|| container.command.take());
            container.args = trainer.args.clone().or_else(|| container.args.take());
        }
        if let Some(wanted) = &trainer.resources_per_node {
            merge_resources(container.resources.get_or_insert_default(), wanted);
        }
    }
}

pub(super) fn runs_launcher_as_node(runtime: &Runtime) -> bool {
    let mpi = runtime.spec.ml_policy.as_ref().and_then(|policy| policy.mpi.as_ref());
    mpi.and_then(|mpi| mpi.run_launcher_as_node).unwrap_or(false)
}

/// Adds the TrainJob's variables, as the last: they override the runtime's, and are not MPI's, which are reserved.
pub(super) fn add_environment(spec: &TrainJobSpec, runtime: &Runtime, replicated: &mut Replicated) {
    let is_node = runs_launcher_as_node(runtime) && replicated.name == NODE;
    if replicated.ancestor() != Some(TRAINER) && !is_node {
        return;
    }
    let wanted = spec.trainer.iter().flat_map(|trainer| &trainer.env);
    for container in containers(&mut replicated.template).filter(|container| container.name == NODE) {
        upsert(&mut container.env, wanted.clone().cloned());
    }
}

/// Sets variables: one of the same name is replaced where it is.
pub(super) fn upsert(variables: &mut Option<Vec<EnvVar>>, wanted: impl IntoIterator<Item = EnvVar>) {
    for variable in wanted {
        let variables = variables.get_or_insert_default();
        match variables.iter_mut().find(|known| known.name == variable.name) {
            Some(known) => *known = variable,
            None => variables.push(variable),
        }
    }
}

fn merge_resources(base: &mut ResourceRequirements, wanted: &ResourceRequirements) {
    let merge = |base: &mut Option<BTreeMap<String, Amount>>, wanted: &Option<BTreeMap<String, Amount>>| {
        if let Some(wanted) = wanted {
            base.get_or_insert_default().extend(wanted.clone());
        }
    };
    merge(&mut base.limits, &wanted.limits);
    merge(&mut base.requests, &wanted.requests);
    for claim in wanted.claims.iter().flatten() {
        let claims = base.claims.get_or_insert_default();
        match claims.iter_mut().find(|known| known.name == claim.name) {
            Some(known) => *known = claim.clone(),
            None => claims.push(claim.clone()),
        }
    }
}

/// The parameters of MPI. Without a number of processes, each GPU of a node gets one.
pub(super) fn mpi(job: &TrainJob, policy: &MpiPolicy, job_set: &JobSetSpec) -> Mpi {
    let trainer = job.spec.trainer.clone().unwrap_or_default();
    let gpus = || {
        // As the pods get them: the runtime's, with what the job changes.
        let mut resources = resources_of_nodes(job_set).unwrap_or_default();
        if let Some(wanted) = &trainer.resources_per_node {
            merge_resources(&mut resources, wanted);
        }
        gpus_by_name(&resources)
    };
    let slots = trainer.num_proc_per_node.unwrap_or_else(|| match policy.num_proc_per_node.unwrap_or(1) {
        1 => gpus().max(1),
        count => count,
    });
    let path = policy.ssh_auth_mount_path.clone().filter(|path| !path.is_empty());
    Mpi {
        slots,
        implementation: match policy.mpi_implementation.as_deref() {
            Some("Intel") => Implementation::Intel,
            Some("MPICH") => Implementation::Mpich,
            _ => Implementation::OpenMpi,
        },
        ssh_mount_path: path.unwrap_or_else(|| DEFAULT_SSH_MOUNT_PATH.to_owned()),
        launcher_as_node: policy.run_launcher_as_node.unwrap_or(false),
    }
}

/// The resources of the first training container that has any.
fn resources_of_nodes(job_set: &JobSetSpec) -> Option<ResourceRequirements> {
    let trains = |job: &&ReplicatedJob| job.name == NODE || ancestor(&job.template) == Some(TRAINER);
    job_set.replicated_jobs.iter().filter(trains).find_map(|job| {
        let pod = job.template.spec.as_ref()?.template.spec.as_ref()?;
        let mut containers = pod.containers.iter().filter(|container| container.name == NODE);
        containers.find_map(|container| container.resources.clone())
    })
}

/// Upstream's count: the first resource with `gpu` in its name, requests before limits.
fn gpus_by_name(resources: &ResourceRequirements) -> i32 {
    let count = |amounts: &Option<BTreeMap<String, Amount>>| {
        let mut gpus = amounts.iter().flatten().filter(|(name, _)| name.to_lowercase().contains("gpu"));
        let whole = gpus.next().and_then(|(_, amount)| Quantity::read(&amount.0)?.count_of(Quantity::ONE));
        whole.and_then(|count| i32::try_from(count).ok()).unwrap_or(0)
    };
    match count(&resources.requests) {
        0 => count(&resources.limits),
        requested => requested,
    }
}
