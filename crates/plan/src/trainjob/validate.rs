//! Decides whether a TrainJob can be run with its runtime, and turns both into a [`ValidTrainJob`]. The rules are
//! upstream's (`kubeflow/trainer`, `pkg/webhooks`, `pkg/runtime/framework/plugins/{jobset,mpi}`) and JobSet's, and one
//! for each part of a runtime that is not supported here. Every fault is reported.

use std::collections::BTreeSet;
use std::time::Duration;

use api::{
    JobSetSpec, MlPolicy, MpiPolicy, ReplicatedJob, RuntimePatch, Source, TRAINJOB_MANAGED_BY_US, TrainJob,
};
use k8s_openapi::api::core::v1::{Container, PodSpec};
use semantics::is_subdomain;

use super::job_set::{
    DATASET_INITIALIZER, LAUNCHER, MODEL_INITIALIZER, NODE, Replicated, TRAINER, add_environment, ancestor,
    job_set, mpi, patched, runs_launcher_as_node,
};
use super::pods::{HOSTFILE_VOLUME, KEY_VOLUME, equip};
use super::progress::let_report;
use super::runtime::Runtime;
use super::valid::{GangPolicy, ValidTrainJob};
use crate::Settings;
use crate::advice::trainjob_surprises;
use crate::objects::{Gang, default_launch};
use crate::validate::{
    Annotations, DEFAULT_STALL_TIMEOUT, DEFAULT_START_TIMEOUT, Fault, Faults, LONGEST_LABEL, WorkerFailure,
    read_annotations,
};

/// The variables that belong to MPI (`pkg/constants/constants.go`).
const RESERVED_VARIABLES: [&str; 4] = [
    "OMPI_MCA_orte_default_hostfile",
    "OMPI_MCA_plm_rsh_args",
    "OMPI_MCA_orte_keep_fqdn_hostnames",
    "OMPI_MCA_orte_set_default_slots",
];
/// The mount that an initializer needs.
const INITIALIZER_VOLUME: &str = "initializer";
/// JobSet's annotation for a placement that its own webhook enforces.
const EXCLUSIVE: &str = "alpha.jobset.sigs.k8s.io/exclusive-topology";
/// What Kubernetes appends to the name of a Job's pod.
const POD_SUFFIX_LENGTH: usize = "-abcde".len();
const GROUP: &str = "trainer.kubeflow.org";
const RUNTIME: &str = "spec.runtimeRef";
const PATCHES: &str = "spec.runtimePatches";
const ASK_MAINTAINER: &str = "ask the runtime's maintainer, or use another runtime";

/// Why a TrainJob cannot be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Whether the runtime is not supported, whatever the job says.
    pub unsupported: bool,
    /// All faults.
    pub faults: Vec<Fault>,
}

/// Whether this operator reconciles the job.
#[must_use]
pub fn is_ours(job: &TrainJob) -> bool {
    let manager = job.spec.managed_by.as_deref().unwrap_or_default();
    manager.is_empty() || manager == TRAINJOB_MANAGED_BY_US
}

/// The kind and name of the job's runtime.
///
/// # Errors
/// If the reference is to something that is no runtime.
pub fn runtime_ref(job: &TrainJob) -> Result<(&str, &str), Refusal> {
    let reference = &job.spec.runtime_ref;
    let group = reference.api_group.as_deref().unwrap_or(GROUP);
    let kind = reference.kind.as_deref().unwrap_or("ClusterTrainingRuntime");
    let mut faults = Faults::default();
    // It becomes a part of the address of a request.
    if !is_subdomain(&reference.name) {
        faults.add(format!("{RUNTIME}.name"), "is not the name of an object", "use the name of a runtime");
        return Err(Refusal { unsupported: false, faults: faults.0 });
    }
    if group == GROUP && ["ClusterTrainingRuntime", "TrainingRuntime"].contains(&kind) {
        return Ok((kind, &reference.name));
    }
    let advice = "use a ClusterTrainingRuntime or a TrainingRuntime of the group trainer.kubeflow.org";
    faults.add(RUNTIME, format!("unsupported runtime: {kind}.{group}"), advice);
    Err(Refusal { unsupported: true, faults: faults.0 })
}

/// Checks every rule and resolves the runtime.
///
/// # Errors
/// All faults: of the runtime, of the job, and of what both make together.
pub fn validate(job: &TrainJob, runtime: &Runtime, settings: &Settings) -> Result<ValidTrainJob, Refusal> {
    runtime_ref(job)?;
    let mut unsupported = Faults::default();
    let spec = &runtime.spec.template.spec;
    let policy = framework(runtime.spec.ml_policy.as_ref(), &mut unsupported);
    check_job_set(spec, &mut unsupported);
    let mut faults = Faults::default();
    check_reserved(job, &mut faults);
    check_initializers(job, spec, &mut faults);
    check_patches(&job.spec.runtime_patches, spec, &mut faults);
    let annotations = annotations(job, runtime, &mut faults);
    let merged = patched(spec, &job.spec.runtime_patches);
    if merged.is_none() && faults.0.iter().all(|fault| !fault.path.starts_with(PATCHES)) {
        faults.add(PATCHES, "do not fit the runtime's templates", "correct the patches");
    }
    let (policy, merged) = (policy.unwrap_or_default(), merged.unwrap_or_else(|| spec.clone()));
    let valid = resolve(job, runtime, &policy, &merged, &annotations, settings);
    if unsupported.0.is_empty() {
        check_parts(&valid, &mut unsupported);
    }
    if unsupported.0.is_empty() {
        check_nodes(job, &valid, &mut faults);
        check_names(&valid, &mut faults);
    }
    if unsupported.0.is_empty() && faults.0.is_empty() {
        return Ok(valid);
    }
    let is_unsupported = !unsupported.0.is_empty();
    unsupported.0.extend(faults.0);
    Err(Refusal { unsupported: is_unsupported, faults: unsupported.0 })
}

/// The job's annotations, and those of the runtime's template for what the job leaves open.
fn annotations(job: &TrainJob, runtime: &Runtime, faults: &mut Faults) -> Annotations {
    let of_template = runtime.spec.template.metadata.as_ref().and_then(|it| it.annotations.clone());
    let mut all = of_template.unwrap_or_default();
    all.extend(job.metadata.annotations.clone().unwrap_or_default());
    read_annotations(Some(&all), &Annotations::default(), faults)
}

fn resolve(
    job: &TrainJob,
    runtime: &Runtime,
    policy: &MpiPolicy,
    merged: &JobSetSpec,
    annotations: &Annotations,
    settings: &Settings,
) -> ValidTrainJob {
    let job_set = job_set(job, runtime, merged);
    let container = job_set.replicated.iter().find(|it| it.name == NODE).and_then(Replicated::node_container);
    let launch = annotations.launch.unwrap_or_else(|| default_launch(container, settings));
    let mut valid = ValidTrainJob {
        name: job.metadata.name.clone().unwrap_or_default(),
        namespace: job.metadata.namespace.clone().unwrap_or_default(),
        uid: job.metadata.uid.clone().unwrap_or_default(),
        created: job.metadata.creation_timestamp.as_ref().map(|time| time.0),
        suspended: job.spec.suspend.unwrap_or(false),
        active_deadline: job
            .spec
            .active_deadline_seconds
            .and_then(|seconds| u64::try_from(seconds).ok())
            .filter(|seconds| *seconds > 0)
            .map(Duration::from_secs),
        attempt: annotations.attempt.max(1),
        launch,
        start_timeout: annotations.start_timeout.unwrap_or(DEFAULT_START_TIMEOUT),
        stall_timeout: annotations.stall_timeout.unwrap_or(DEFAULT_STALL_TIMEOUT),
        tolerates_failures: annotations.worker_failure == Some(WorkerFailure::Tolerate),
        mpi: mpi(job, policy, merged),
        job_set,
        gang: gang(runtime),
        progress: settings.progress.clone().filter(|_| annotations.reports != Some(false)),
        runtime: runtime.clone(),
    };
    let mut replicated = std::mem::take(&mut valid.job_set.replicated);
    for part in &mut replicated {
        equip(&valid, settings, part);
        let_report(&valid, part);
        add_environment(&job.spec, runtime, part);
    }
    valid.job_set.replicated = replicated;
    valid
}

fn gang(runtime: &Runtime) -> Option<GangPolicy> {
    let policy = runtime.spec.pod_group_policy.as_ref()?;
    if let Some(coscheduling) = &policy.coscheduling {
        return Some(GangPolicy {
            gang: Gang::SchedulerPlugins(String::new()),
            timeout_seconds: coscheduling.schedule_timeout_seconds.unwrap_or(60),
            topology: None,
        });
    }
    let volcano = policy.volcano.as_ref()?;
    let topology = volcano.network_topology.as_ref();
    Some(GangPolicy {
        gang: Gang::Volcano,
        timeout_seconds: 0,
        topology: topology.map(|topology| (topology.mode.clone(), topology.highest_tier_allowed)),
    })
}

/// MPI's parameters; a fault for a runtime of another framework.
fn framework(policy: Option<&MlPolicy>, faults: &mut Faults) -> Option<MpiPolicy> {
    let policy = policy.cloned().unwrap_or_default();
    let MlPolicy { num_nodes: _, torch, mpi, flux, jax, xgboost } = policy;
    let others = [
        ("PyTorch", torch.is_some()),
        ("Flux", flux.is_some()),
        ("JAX", jax.is_some()),
        ("XGBoost", xgboost.is_some()),
    ];
    let other = others.iter().find(|(_, given)| *given).map(|(name, _)| *name);
    if other.is_none() && mpi.is_some() {
        let implementation = mpi.as_ref().and_then(|mpi| mpi.mpi_implementation.as_deref()).unwrap_or("");
        if !["", "OpenMPI", "Intel", "MPICH"].contains(&implementation) {
            let message = format!("MPI implementation {implementation:?} is not supported");
            faults.add(RUNTIME, message, "use OpenMPI, Intel or MPICH");
        }
        return mpi;
    }
    let what = other.map_or("no framework".to_owned(), |name| format!("the framework {name}"));
    let advice = "use a runtime with mlPolicy.mpi; Kubeflow Trainer runs the others";
    faults.add(RUNTIME, format!("refers to a runtime for {what}, but only MPI is supported"), advice);
    None
}

/// Parts of a JobSet that have no counterpart here.
fn check_job_set(spec: &JobSetSpec, faults: &mut Faults) {
    let failure = spec.failure_policy.clone().unwrap_or_default();
    let network = spec.network.clone().unwrap_or_default();
    let exclusive = spec.replicated_jobs.iter().any(|job| {
        let annotations = job.template.metadata.as_ref().and_then(|metadata| metadata.annotations.as_ref());
        annotations.is_some_and(|annotations| annotations.contains_key(EXCLUSIVE))
    });
    let refused = [
        ("failurePolicy.rules", !failure.rules.is_empty(), "only maxRestarts is supported"),
        (
            "failurePolicy.restartStrategy",
            failure.restart_strategy.as_deref() == Some("InPlaceRestart"),
            "InPlaceRestart needs an agent of JobSet's in the pods",
        ),
        ("volumeClaimPolicies", !spec.volume_claim_policies.is_empty(), "claims are not created for a job"),
        (
            "managedBy",
            spec.managed_by.as_deref().is_some_and(|manager| !manager.is_empty()),
            "there is no JobSet that another controller could reconcile",
        ),
        ("network.enableDNSHostnames", network.enable_dns_hostnames == Some(false), "MPI needs host names"),
        ("replicatedJobs", exclusive, "exclusive placement is JobSet's own"),
    ];
    for (field, _, why) in refused.iter().filter(|(_, given, _)| *given) {
        let message = format!("has template.spec.{field}, which is not supported: {why}");
        faults.add(RUNTIME, message, ASK_MAINTAINER);
    }
    check_needs(spec, faults);
}

/// A replicated job may only wait for one before it.
fn check_needs(spec: &JobSetSpec, faults: &mut Faults) {
    let mut known = BTreeSet::new();
    for job in &spec.replicated_jobs {
        for needed in job.depends_on.iter().filter(|needed| !known.contains(&needed.name)) {
            let message = format!("has a replicated job {:?} that depends on {:?}", job.name, needed.name);
            faults.add(RUNTIME, message, "let it depend on a replicated job before it");
        }
        known.insert(job.name.clone());
    }
}

/// What MPI needs of the Jobs.
fn check_parts(job: &ValidTrainJob, faults: &mut Faults) {
    let find = |name: &str| job.job_set.replicated.iter().find(|part| part.name == name);
    let Some(launcher) = find(LAUNCHER) else {
        let message = format!("has no replicated job {LAUNCHER:?}, which runs mpirun");
        return faults.add(RUNTIME, message, ASK_MAINTAINER);
    };
    if launcher.pods != 1 || launcher.replicas != 1 {
        let message = format!(
            "starts {} Launchers: mlPolicy.numNodes and parallelism of the Launcher must be 1",
            launcher.pods.saturating_mul(launcher.replicas)
        );
        faults.add(RUNTIME, message, "set the number of nodes in the TrainJob's trainer.numNodes");
    }
    for part in [Some(launcher), find(NODE)].into_iter().flatten() {
        if part.node_container().is_none() {
            let message = format!("has no container {NODE:?} in the replicated job {:?}", part.name);
            faults.add(RUNTIME, message, ASK_MAINTAINER);
        }
        let mode = part.template.spec.as_ref().and_then(|spec| spec.completion_mode.as_deref());
        if mode.is_some_and(|mode| mode != "Indexed") {
            let message = format!("has completionMode {mode:?} in {:?}: pods have no host names", part.name);
            faults.add(RUNTIME, message, ASK_MAINTAINER);
        }
    }
    if find(NODE).is_none() && !job.mpi.launcher_as_node {
        let message = format!("has no replicated job {NODE:?}, and its Launcher does not run ranks");
        faults.add(RUNTIME, message, ASK_MAINTAINER);
    }
}

/// A Launcher alone is one node.
fn check_nodes(job: &TrainJob, valid: &ValidTrainJob, faults: &mut Faults) {
    let asked = job.spec.trainer.as_ref().and_then(|trainer| trainer.num_nodes);
    let of_runtime = valid.runtime.spec.ml_policy.as_ref().and_then(|policy| policy.num_nodes);
    let has_nodes = valid.job_set.replicated.iter().any(|part| part.name == NODE);
    let nodes = asked.or(of_runtime).unwrap_or(1);
    if !has_nodes && nodes > 1 {
        let path = if asked.is_some() { "spec.trainer.numNodes" } else { RUNTIME };
        let message = format!("{nodes} nodes, but the runtime has no replicated job {NODE:?}");
        faults.add(path, message, "use 1, or a runtime with nodes");
    }
}

fn check_reserved(job: &TrainJob, faults: &mut Faults) {
    let variables = job.spec.trainer.iter().flat_map(|trainer| &trainer.env);
    let reserved: BTreeSet<&str> = variables
        .map(|variable| variable.name.as_str())
        .filter(|name| RESERVED_VARIABLES.contains(name))
        .collect();
    if !reserved.is_empty() {
        let names: Vec<&str> = reserved.into_iter().collect();
        let message = format!("must not have reserved envs, invalid envs configured: {}", names.join(", "));
        faults.add("spec.trainer.env", message, "remove them: the operator sets them");
    }
}

fn find_replicated<'a>(spec: &'a JobSetSpec, name: &str) -> Option<&'a ReplicatedJob> {
    spec.replicated_jobs.iter().find(|job| job.name == name)
}

fn pod_of(job: &ReplicatedJob) -> Option<&PodSpec> {
    job.template.spec.as_ref()?.template.spec.as_ref()
}

fn check_initializers(job: &TrainJob, spec: &JobSetSpec, faults: &mut Faults) {
    let initializer = job.spec.initializer.clone().unwrap_or_default();
    let sources: [(&str, Option<Source>); 2] =
        [(DATASET_INITIALIZER, initializer.dataset), (MODEL_INITIALIZER, initializer.model)];
    for name in sources.iter().filter(|(_, source)| source.is_some()).map(|(name, _)| *name) {
        let Some(found) = find_replicated(spec, name) else {
            let message = format!("must have {name} job when the TrainJob has that initializer");
            faults.add(RUNTIME, message, ASK_MAINTAINER);
            continue;
        };
        let containers: Vec<&Container> = pod_of(found).into_iter().flat_map(|pod| &pod.containers).collect();
        match containers.iter().find(|container| container.name == name) {
            None => {
                let message = format!("must have container with name - {name} in the {name} job");
                faults.add(RUNTIME, message, ASK_MAINTAINER);
            }
            Some(container) => {
                let mounts = container.volume_mounts.iter().flatten();
                if !mounts.into_iter().any(|mount| mount.name == INITIALIZER_VOLUME) {
                    let message = format!(
                        "must have volumeMount with name - {INITIALIZER_VOLUME} in container {name} of the {name} job"
                    );
                    faults.add(RUNTIME, message, ASK_MAINTAINER);
                }
            }
        }
    }
}

fn check_patches(patches: &[RuntimePatch], spec: &JobSetSpec, faults: &mut Faults) {
    for (index, patch) in patches.iter().enumerate() {
        let path = format!("{PATCHES}[{index}]");
        if !is_prefixed_path(&patch.manager) {
            let message = format!("{:?} is not a domain-prefixed path", patch.manager);
            faults.add(format!("{path}.manager"), message, "use a name like acme.io/scheduler");
        }
        let spec_patch =
            patch.training_runtime_spec.as_ref().and_then(|it| it.template.as_ref()?.spec.as_ref());
        for job in spec_patch.into_iter().flat_map(|it| &it.replicated_jobs) {
            let path = format!("{path}.trainingRuntimeSpec.template.spec.replicatedJobs[{}]", job.name);
            let Some(found) = find_replicated(spec, &job.name) else {
                let message = "must not have replicated job that doesn't exist in the runtime job template";
                faults.add(path, message, format!("use one of {}", names(spec)));
                continue;
            };
            let pod = job.template.as_ref().and_then(|it| it.spec.as_ref()?.template.as_ref()?.spec.as_ref());
            if let Some(pod) = pod {
                check_pod_patch(&path, pod, found, faults);
            }
        }
    }
}

fn check_pod_patch(path: &str, patch: &api::PodSpecPatch, job: &ReplicatedJob, faults: &mut Faults) {
    let pod = pod_of(job).cloned().unwrap_or_default();
    let known: BTreeSet<&str> = pod
        .init_containers
        .iter()
        .flatten()
        .chain(&pod.containers)
        .map(|container| container.name.as_str())
        .collect();
    for (list, containers) in [("initContainers", &patch.init_containers), ("containers", &patch.containers)]
    {
        for container in containers {
            let path = format!("{path}.{list}[{}]", container.name);
            if !known.contains(container.name.as_str()) {
                let message =
                    format!("must not have container that doesn't exist in the runtime job {}", job.name);
                faults.add(path, message, "patch only containers that the runtime has");
            } else if !container.env.is_empty()
                && [DATASET_INITIALIZER, MODEL_INITIALIZER, NODE].contains(&container.name.as_str())
            {
                let message = format!(
                    "must not have envs for the {DATASET_INITIALIZER}, {MODEL_INITIALIZER}, {NODE} containers"
                );
                faults.add(path, message, "use spec.trainer.env or spec.initializer");
            }
        }
    }
    for volume in &patch.volumes {
        if [KEY_VOLUME, HOSTFILE_VOLUME].contains(&volume.name.as_str()) {
            let message = format!("the volume name {:?} is reserved", volume.name);
            faults.add(format!("{path}.volumes[{}]", volume.name), message, "use another name");
        }
    }
}

fn names(spec: &JobSetSpec) -> String {
    let names: Vec<&str> = spec.replicated_jobs.iter().map(|job| job.name.as_str()).collect();
    names.join(", ")
}

/// Whether a text is a DNS subdomain, a slash and a path (`IsDomainPrefixedPath` of `k8s.io/apimachinery`).
fn is_prefixed_path(text: &str) -> bool {
    let Some((domain, path)) = text.split_once('/') else { return false };
    let in_path = |c: char| c.is_ascii_alphanumeric() || "/-._~%!$&'()*+,;=:".contains(c);
    is_subdomain(domain) && !path.is_empty() && path.chars().all(in_path)
}

/// The names of the Jobs' pods, of which the host names are a part, must be DNS labels.
fn check_names(job: &ValidTrainJob, faults: &mut Faults) {
    if job.name.is_empty() {
        return;
    }
    let longest = job.job_set.replicated.iter().map(|part| {
        let (jobs, pods) = (part.replicas.saturating_sub(1), part.pods.saturating_sub(1));
        format!("{}-{}-{jobs}-{pods}", job.name, part.name)
    });
    let Some(longest) = longest.max_by_key(String::len) else { return };
    let length = longest.len() + POD_SUFFIX_LENGTH;
    if length > LONGEST_LABEL {
        let most = job.name.len().saturating_sub(length - LONGEST_LABEL);
        let message = format!(
            "{:?} results in pod names that begin with {longest:?} and have {length} characters; at most \
             {LONGEST_LABEL} are allowed",
            job.name
        );
        faults.add("metadata.name", message, format!("use a name of at most {most} characters"));
    }
}

/// Checks a runtime by itself, as upstream does at admission (`pkg/webhooks/trainingruntime_webhook.go`).
#[must_use]
pub fn runtime_faults(spec: &api::TrainingRuntimeSpec) -> Vec<Fault> {
    let mut faults = Faults::default();
    let path = "spec.template.spec.replicatedJobs";
    if spec.template.spec.replicated_jobs.is_empty() {
        faults.add(path, "has no replicated job", "add those that a job of this runtime consists of");
    }
    let gang = spec.pod_group_policy.clone().unwrap_or_default();
    if gang.coscheduling.is_some() && gang.volcano.is_some() {
        let message = "has both coscheduling and volcano, but pods have one scheduler";
        faults.add("spec.podGroupPolicy", message, "keep the one that the cluster runs");
    }
    for (index, job) in spec.template.spec.replicated_jobs.iter().enumerate() {
        let required = match ancestor(&job.template) {
            Some(TRAINER) => NODE,
            Some(DATASET_INITIALIZER) => DATASET_INITIALIZER,
            Some(MODEL_INITIALIZER) => MODEL_INITIALIZER,
            _ => continue,
        };
        if job.replicas.unwrap_or(1) != 1 {
            faults.add(
                format!("{path}[{index}].replicas"),
                "always must be 1",
                "use parallelism for more pods",
            );
        }
        let mut containers = pod_of(job).into_iter().flat_map(|pod| &pod.containers);
        if !containers.any(|container| container.name == required) {
            let message = format!(
                "must contain the required container for the ancestor: {}",
                ancestor(&job.template).unwrap_or_default()
            );
            let path = format!("{path}[{index}].template.spec.template.spec.containers");
            faults.add(path, message, format!("name the container {required}"));
        }
    }
    faults.0
}

/// Our annotations that a TrainJob does not have, each with what takes its place.
const WITHOUT_EFFECT: [(&str, &str); 4] = [
    (api::ANNOTATION_MAX_GANG_RESTARTS, "its runtime's failurePolicy.maxRestarts decides"),
    (api::ANNOTATION_AVOID_FAILED_NODES, "keep its pods off a node by spec.runtimePatches"),
    (api::ANNOTATION_CANCEL, "suspend or delete the job"),
    (api::ANNOTATION_NETWORK_POLICY, "create a NetworkPolicy for the label jobset.sigs.k8s.io/jobset-name"),
];

/// What a client is warned of when it gives a TrainJob annotations that have no effect on it.
#[must_use]
pub fn ineffective(old: Option<&TrainJob>, job: &TrainJob) -> Vec<String> {
    let value = |job: &TrainJob, name: &str| job.metadata.annotations.as_ref()?.get(name).cloned();
    let given = |name: &str| {
        let now = value(job, name);
        now.is_some() && now != old.and_then(|old| value(old, name))
    };
    let given = WITHOUT_EFFECT.iter().filter(|(name, _)| given(name));
    given.map(|(name, instead)| format!("{name} has no effect on a TrainJob: {instead}")).collect()
}

/// What a client is warned of when it creates a TrainJob with this runtime.
#[must_use]
pub fn warnings(job: &TrainJob, runtime: &Runtime) -> Vec<String> {
    let deprecated = format!(
        "Referenced {} \"{}\" is deprecated and will be removed in a future release of Kubeflow Trainer. See runtime \
         deprecation policy: https://trainer.kubeflow.org/en/latest/operator-guides/runtime.html#runtime-deprecation-policy",
        runtime.kind, runtime.name
    );
    let mut warnings: Vec<String> = runtime.is_deprecated().then_some(deprecated).into_iter().collect();
    let Some(trainer) = &job.spec.trainer else { return warnings };
    // Upstream's rule, too: one of the nodes is the Launcher, and there is at least one more.
    let has_nodes = runtime.spec.template.spec.replicated_jobs.iter().any(|job| job.name == NODE);
    if trainer.num_nodes == Some(1) && has_nodes && runs_launcher_as_node(runtime) {
        warnings.push(format!(
            "spec.trainer.numNodes: 1, but with the runtime {:?} the Launcher is a node and there is at least one more: the job \
             has 2",
            runtime.name
        ));
    }
    warnings.extend(trainjob_surprises(job));
    warnings
}
