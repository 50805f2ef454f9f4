//! Builds a TrainJob from the same values as an MPIJob, and the runtime that supplies the rest.
//!
//! What only a runtime can say (retries, clean-up, the Launcher's resources) is a fault, not left out in silence. Volumes
//! become a patch of the runtime's templates, because a TrainJob has no field for them.

use api::{
    ContainerPatch, JobSetSpecPatch, JobSetTemplatePatch, JobSpecPatch, JobTemplatePatch, PodSpecPatch,
    PodTemplatePatch, ReplicatedJobPatch, RuntimePatch, RuntimeRef, RuntimeSpecPatch, TrainJob, TrainJobSpec,
    Trainer,
};

use k8s_openapi::api::core::v1::{Volume, VolumeMount};

use super::faults::fault;
use super::pod::{env_var, resources};
use super::variables::in_order_of_use;
use super::{Failures, Mpi, Part, Placement, Request};
use super::{as_root, is_as_given, launcher_command, metadata, pod, worker_amounts};
use crate::Fault;

/// The owner of the patch with volumes.
const MANAGER: &str = "training.opendatahub.io/odh";
/// The word before the name of a runtime that belongs to the job's namespace.
pub(crate) const LOCAL: &str = "trainingruntime/";
/// The container that trains, in every runtime.
const CONTAINER: &str = "node";

pub(super) fn faults(request: &Request) -> Vec<Fault> {
    let workers = nodes(request).unwrap_or(1);
    let mut found = super::faults::faults(&Request { workers, ..request.clone() });
    found.extend(misplaced(request));
    found
}

/// The number of nodes, if it is not left to the runtime.
fn nodes(request: &Request) -> Option<i32> {
    Some(request.workers).filter(|workers| *workers != 0)
}

/// The number of ranks, if it is not left to the runtime.
pub(super) fn ranks(request: &Request) -> Option<i64> {
    nodes(request).map(|nodes| i64::from(nodes) * i64::from(request.slots.unwrap_or(1)))
}

pub(super) fn assemble(request: &Request) -> TrainJob {
    let mut env = as_root(request.mpi);
    env.extend(request.env.iter().map(env_var));
    let trainer = Trainer {
        image: Some(request.image.clone()).filter(|image| !image.is_empty()),
        command: Some(launcher_command(request, ranks(request), &directory(request))),
        env: in_order_of_use(env),
        num_nodes: nodes(request),
        num_proc_per_node: request.slots,
        resources_per_node: resources(&worker_amounts(request), &request.worker),
        ..Trainer::default()
    };
    let spec = TrainJobSpec {
        runtime_ref: reference(&request.runtime),
        trainer: Some(trainer),
        runtime_patches: volumes(request).into_iter().collect(),
        suspend: request.suspend.then_some(true),
        active_deadline_seconds: request.deadline_seconds,
        ..TrainJobSpec::default()
    };
    TrainJob { metadata: metadata(request), spec, status: None }
}

fn reference(runtime: &str) -> RuntimeRef {
    let local = runtime.strip_prefix(LOCAL);
    let kind = if local.is_some() { "TrainingRuntime" } else { "ClusterTrainingRuntime" };
    RuntimeRef {
        name: local.unwrap_or(runtime).to_owned(),
        api_group: Some("trainer.kubeflow.org".to_owned()),
        kind: Some(kind.to_owned()),
    }
}

/// mpirun's option for the directory in which ranks start.
pub(super) fn directory(request: &Request) -> Vec<String> {
    request
        .workdir
        .iter()
        .flat_map(|directory| [request.mpi.directory_option().to_owned(), directory.clone()])
        .collect()
}

/// Faults of what a TrainJob has no place for.
fn misplaced(request: &Request) -> Vec<Fault> {
    let Part { requests, limits, .. } = request.worker.clone();
    let of_resources = Part { requests, limits, ..Part::default() };
    let given = [
        ("launcher_cpu", request.launcher_cpu.is_some()),
        ("launcher_memory", request.launcher_memory.is_some()),
        ("priority", request.priority.is_some()),
        ("cleanPodPolicy", request.clean_pod_policy.is_some()),
        ("retries", request.retries.is_some()),
        ("ttlSeconds", request.ttl_seconds.is_some()),
        ("transport", request.transport.is_some()),
        ("restricted", request.restricted),
        ("worker", request.worker != of_resources),
        ("launcher", request.launcher != Part::default()),
        ("scheduling", request.scheduling != Placement::default() || request.min_available.is_some()),
        ("failures", request.failures != Failures::default()),
    ];
    let mut found: Vec<Fault> = given
        .iter()
        .filter(|(_, given)| *given)
        .map(|(field, _)| {
            fault(
                field,
                "cannot be set for a TrainJob",
                "its runtime decides that: ask the runtime's maintainer",
            )
        })
        .collect();
    if reference(&request.runtime).name.is_empty() {
        found.push(fault(
            "runtime",
            "is required",
            "give the name of a ClusterTrainingRuntime, or trainingruntime/NAME",
        ));
    }
    let as_given = is_as_given(request);
    if as_given && request.workdir.is_some() {
        let advice = "give it to your own mpirun: --wdir DIR (Open MPI) or -wdir DIR (MPICH, Intel MPI)";
        found.push(fault("workdir", "cannot be set for a TrainJob's own mpirun", advice));
    }
    if request.mpi != Mpi::OpenMpi && nodes(request).is_none() && !as_given {
        let advice = "its mpirun needs the number of ranks";
        found.push(fault("workers", "is required with MPICH and Intel MPI", advice));
    }
    found
}

/// The volumes of a job's own patch, and where they are mounted.
pub(super) fn mounted(job: &TrainJob) -> Option<(Vec<Volume>, Vec<VolumeMount>)> {
    let patch = job.spec.runtime_patches.iter().find(|patch| patch.manager == MANAGER)?;
    let spec = patch.training_runtime_spec.as_ref()?.template.as_ref()?.spec.as_ref()?;
    let pod =
        spec.replicated_jobs.first()?.template.as_ref()?.spec.as_ref()?.template.as_ref()?.spec.as_ref()?;
    let mounts = pod.containers.first().map(|container| container.volume_mounts.clone());
    Some((pod.volumes.clone(), mounts.unwrap_or_default()))
}

/// The patch that mounts the request's volumes in Launcher and nodes.
fn volumes(request: &Request) -> Option<RuntimePatch> {
    let all: Vec<&super::Mount> = request.volumes.iter().collect();
    let (volumes, mounts) = (pod::volumes(&all), pod::volume_mounts(&all));
    if volumes.is_empty() {
        return None;
    }
    let container =
        ContainerPatch { name: CONTAINER.to_owned(), volume_mounts: mounts, ..ContainerPatch::default() };
    let pod = PodSpecPatch { volumes, containers: vec![container], ..PodSpecPatch::default() };
    let template = PodTemplatePatch { spec: Some(pod), ..PodTemplatePatch::default() };
    let spec = JobSpecPatch { template: Some(template) };
    let template = JobTemplatePatch { spec: Some(spec), ..JobTemplatePatch::default() };
    let patch = |name: &str| ReplicatedJobPatch { name: name.to_owned(), template: Some(template.clone()) };
    let spec = JobSetSpecPatch { replicated_jobs: vec![patch("node"), patch("launcher")] };
    let template = JobSetTemplatePatch { spec: Some(spec), ..JobSetTemplatePatch::default() };
    Some(RuntimePatch {
        manager: MANAGER.to_owned(),
        time: None,
        training_runtime_spec: Some(RuntimeSpecPatch { template: Some(template) }),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Kind;

    fn build(request: &Request) -> Result<TrainJob, Vec<Fault>> {
        let faults = faults(request);
        if faults.is_empty() { Ok(assemble(request)) } else { Err(faults) }
    }

    fn asked() -> Request {
        Request {
            kind: Kind::TrainJob,
            name: "digits".to_owned(),
            command: ["python", "/train.py"].map(str::to_owned).to_vec(),
            runtime: "openmpi".to_owned(),
            workers: 4,
            ..Request::default()
        }
    }

    #[test]
    fn a_trainjob_has_only_what_was_asked_for() {
        let job = serde_json::to_value(build(&asked()).unwrap()).unwrap();
        let root = |name: &str| json!({ "name": name, "value": "1" });
        assert_eq!(
            job["spec"],
            json!({
                "runtimeRef": { "name": "openmpi", "apiGroup": "trainer.kubeflow.org", "kind": "ClusterTrainingRuntime" },
                "trainer": {
                    "command": ["mpirun", "--tag-output", "python", "/train.py"],
                    "numNodes": 4,
                    "env": [root("OMPI_ALLOW_RUN_AS_ROOT"), root("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")],
                },
            })
        );
        let local = Request { runtime: "trainingruntime/ours".to_owned(), ..asked() };
        let reference = build(&local).unwrap().spec.runtime_ref;
        assert_eq!((reference.name.as_str(), reference.kind.as_deref()), ("ours", Some("TrainingRuntime")));
    }

    #[test]
    fn every_value_with_a_place_gets_there() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let full = Request {
            image: "train:2".to_owned(),
            workdir: Some("/work".to_owned()),
            slots: Some(2),
            gpus: Some(2),
            mpi: Mpi::Mpich,
            env: vec![pair("A", "1").into()],
            volumes: vec![crate::build::Mount::claim("data", "/data")],
            queue: Some("gpus".to_owned()),
            deadline_seconds: Some(60),
            suspend: true,
            ..asked()
        };
        let job = build(&full).unwrap();
        let trainer = job.spec.trainer.as_ref().unwrap();
        assert_eq!(
            trainer.command.as_ref().unwrap().join(" "),
            "mpirun -prepend-rank -wdir /work -n 8 python /train.py"
        );
        assert_eq!((trainer.image.as_deref(), trainer.num_proc_per_node), (Some("train:2"), Some(2)));
        let limits = trainer.resources_per_node.as_ref().unwrap().limits.as_ref().unwrap();
        assert_eq!(limits[semantics::NVIDIA_GPU].0, "2");
        assert_eq!((job.spec.suspend, job.spec.active_deadline_seconds), (Some(true), Some(60)));
        assert_eq!(job.metadata.labels.as_ref().unwrap()[api::LABEL_QUEUE_NAME], "gpus");
        let patch = serde_json::to_value(&job.spec.runtime_patches[0]).unwrap();
        for part in [0, 1] {
            let path = format!(
                "/trainingRuntimeSpec/template/spec/replicatedJobs/{part}/template/spec/template/spec"
            );
            let pod = patch.pointer(&path).unwrap();
            assert_eq!(pod["containers"][0]["volumeMounts"][0]["mountPath"], "/data", "{patch}");
            assert_eq!(pod["volumes"][0]["persistentVolumeClaim"]["claimName"], "data");
        }
    }

    #[test]
    fn what_only_a_runtime_can_say_is_a_fault() {
        let wrong = Request {
            workers: 0,
            runtime: String::new(),
            retries: Some(3),
            ttl_seconds: Some(60),
            mpi: Mpi::Intel,
            ..asked()
        };
        let paths = |asked: &Request| match build(asked) {
            Err(faults) => faults.into_iter().map(|fault| fault.path).collect::<Vec<_>>(),
            Ok(job) => panic!("{job:?}"),
        };
        assert_eq!(paths(&wrong), ["retries", "ttlSeconds", "runtime", "workers"]);
        let command = ["mpirun", "a"].map(str::to_owned).to_vec();
        let own = Request { command, workdir: Some("/work".to_owned()), ..asked() };
        assert_eq!(paths(&own), ["workdir"]);
    }
}
