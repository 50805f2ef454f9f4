//! Builds a TrainJob from the same values as an MPIJob, and the runtime that supplies the rest.
//!
//! What only a runtime can say (retries, clean-up, the Launcher's resources) is a fault, not left out in silence. Volumes
//! become a patch of the runtime's templates, because a TrainJob has no field for them.

use api::{
    ContainerPatch, JobSetSpecPatch, JobSetTemplatePatch, JobSpecPatch, JobTemplatePatch, PodSpecPatch,
    PodTemplatePatch, ReplicatedJobPatch, RuntimePatch, RuntimeRef, RuntimeSpecPatch, TrainJob, TrainJobSpec,
    Trainer,
};

use super::faults::{fault, faults};
use super::pod::{env_var, resources};
use super::{Failures, Mpi, Part, Placement, Request};
use super::{as_root, is_as_given, launcher_command, metadata, pod, worker_amounts};
use crate::{Error, Fault};

/// The owner of the patch with volumes.
const MANAGER: &str = "training.opendatahub.io/odh";
/// The word before the name of a runtime that belongs to the job's namespace.
const LOCAL: &str = "trainingruntime/";
/// The container that trains, in every runtime.
const CONTAINER: &str = "node";

/// What to run with a runtime.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrainRequest {
    /// What to run. Its image, if not empty, is the Launcher's; its number of Workers does not count.
    pub request: Request,
    /// A ClusterTrainingRuntime, or after `trainingruntime/` a TrainingRuntime of the job's namespace.
    pub runtime: String,
    /// The number of nodes; if not given, the runtime's.
    pub nodes: Option<i32>,
}

/// Builds the job that the request describes.
///
/// # Errors
/// [`Error::Invalid`] with every fault visible in the request itself; the paths are the names of its fields.
pub fn build(asked: &TrainRequest) -> Result<TrainJob, Error> {
    let TrainRequest { request, runtime, nodes } = asked;
    let mut found = faults(&Request { workers: nodes.unwrap_or(1), ..request.clone() });
    found.extend(misplaced(asked));
    if !found.is_empty() {
        return Err(Error::Invalid { faults: found });
    }
    let mut env = as_root(request.mpi);
    env.extend(request.env.iter().map(env_var));
    let ranks = nodes.map(|nodes| i64::from(nodes) * i64::from(request.slots.unwrap_or(1)));
    let trainer = Trainer {
        image: Some(request.image.clone()).filter(|image| !image.is_empty()),
        command: Some(launcher_command(request, ranks, &directory(request))),
        env,
        num_nodes: *nodes,
        num_proc_per_node: request.slots,
        resources_per_node: resources(&worker_amounts(request), &Part::default()),
        ..Trainer::default()
    };
    let spec = TrainJobSpec {
        runtime_ref: reference(runtime),
        trainer: Some(trainer),
        runtime_patches: volumes(request).into_iter().collect(),
        suspend: request.suspend.then_some(true),
        active_deadline_seconds: request.deadline_seconds,
        ..TrainJobSpec::default()
    };
    Ok(TrainJob { metadata: metadata(request), spec, status: None })
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
fn directory(request: &Request) -> Vec<String> {
    request
        .workdir
        .iter()
        .flat_map(|directory| [request.mpi.directory_option().to_owned(), directory.clone()])
        .collect()
}

/// Faults of what a TrainJob has no place for.
fn misplaced(asked: &TrainRequest) -> Vec<Fault> {
    let TrainRequest { request, runtime, nodes } = asked;
    let given = [
        ("launcher_cpu", request.launcher_cpu.is_some()),
        ("launcher_memory", request.launcher_memory.is_some()),
        ("priority", request.priority.is_some()),
        ("clean_pods", request.clean_pod_policy.is_some()),
        ("retries", request.retries.is_some()),
        ("ttl", request.ttl_seconds.is_some()),
        ("transport", request.transport.is_some()),
        ("restricted", request.restricted),
        ("worker", request.worker != Part::default()),
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
    if reference(runtime).name.is_empty() {
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
    if request.mpi != Mpi::OpenMpi && nodes.is_none() && !as_given {
        let advice = "its mpirun needs the number of ranks";
        found.push(fault("workers", "is required with MPICH and Intel MPI", advice));
    }
    found
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

    fn asked() -> TrainRequest {
        TrainRequest {
            request: Request {
                name: "digits".to_owned(),
                command: ["python", "/train.py"].map(str::to_owned).to_vec(),
                ..Request::default()
            },
            runtime: "openmpi".to_owned(),
            nodes: Some(4),
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
        let local = TrainRequest { runtime: "trainingruntime/ours".to_owned(), ..asked() };
        let reference = build(&local).unwrap().spec.runtime_ref;
        assert_eq!((reference.name.as_str(), reference.kind.as_deref()), ("ours", Some("TrainingRuntime")));
    }

    #[test]
    fn every_value_with_a_place_gets_there() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let mut full = asked();
        full.request = Request {
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
            ..full.request
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
        let mut wrong = TrainRequest { nodes: None, runtime: String::new(), ..asked() };
        wrong.request.retries = Some(3);
        wrong.request.ttl_seconds = Some(60);
        wrong.request.mpi = Mpi::Intel;
        let paths = |asked: &TrainRequest| match build(asked) {
            Err(Error::Invalid { faults }) => faults.into_iter().map(|fault| fault.path).collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        };
        assert_eq!(paths(&wrong), ["retries", "ttl", "runtime", "workers"]);
        let mut own = asked();
        own.request.command = ["mpirun", "a"].map(str::to_owned).to_vec();
        own.request.workdir = Some("/work".to_owned());
        assert_eq!(paths(&own), ["workdir"]);
    }
}
