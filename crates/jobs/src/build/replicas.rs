//! Builds a PyTorchJob or a TFJob, which the Training Operator runs: Workers with one template, and no Launcher.
//! Source: `kubeflow/training-operator` `pkg/apis/kubeflow.org/v1`.

use api::WORKER;
use k8s_openapi::api::core::v1::Container;
use serde_json::{Value, json};

use super::faults::fault;
use super::pod::{resources, template};
use super::{Failures, Mpi, Part, Request, metadata, run_policy, worker_amounts};
use crate::{Fault, Kind};

/// Where the roles are.
pub(super) fn specs(kind: Kind) -> &'static str {
    if kind == Kind::TfJob { "tfReplicaSpecs" } else { "pytorchReplicaSpecs" }
}

/// The role beside the Workers that a job may have.
pub(super) fn first_role(kind: Kind) -> &'static str {
    if kind == Kind::TfJob { "Chief" } else { "Master" }
}

/// The container that trains; the operator looks for it by its name.
fn container_name(kind: Kind) -> &'static str {
    if kind == Kind::TfJob { "tensorflow" } else { "pytorch" }
}

pub(super) fn faults(request: &Request) -> Vec<Fault> {
    let mut found: Vec<Fault> =
        super::faults::without_image(request).into_iter().chain(super::faults::faults(request)).collect();
    let given = [
        ("inLauncher", request.in_launcher),
        ("slots", request.slots.is_some()),
        ("mpi", request.mpi != Mpi::default()),
        ("transport", request.transport.is_some()),
        ("untagged", request.untagged),
        ("launcher_cpu", request.launcher_cpu.is_some()),
        ("launcher_memory", request.launcher_memory.is_some()),
        ("launcher", request.launcher != Part::default()),
        ("failures", request.failures != Failures::default()),
    ];
    let message = format!("cannot be set for a {}", request.kind.name());
    let wrong = given.iter().filter(|(_, given)| *given);
    found.extend(
        wrong.map(|(field, _)| fault(field, message.clone(), "it has no Launcher and no MPI: leave it out")),
    );
    found
}

pub(super) fn assemble(request: &Request) -> Value {
    let container = Container {
        name: container_name(request.kind).to_owned(),
        command: Some(request.command.clone()),
        resources: resources(&worker_amounts(request), &request.worker),
        ..Container::default()
    };
    json!({
        "apiVersion": request.kind.api_version(),
        "kind": request.kind.name(),
        "metadata": metadata(request),
        "spec": {
            "runPolicy": run_policy(request),
            specs(request.kind): {
                WORKER: {
                    "replicas": request.workers,
                    "restartPolicy": request.worker.restart_policy.as_deref().unwrap_or("Never"),
                    "template": template(request, &request.worker, container),
                },
            },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_run_the_command_as_it_is() {
        let request = Request {
            kind: Kind::TfJob,
            name: "mnist".to_owned(),
            workers: 3,
            image: "img".to_owned(),
            command: ["python", "/train.py"].map(str::to_owned).to_vec(),
            gpus: Some(1),
            ..Request::default()
        };
        assert_eq!(faults(&request), []);
        assert_eq!(
            assemble(&request),
            json!({
                "apiVersion": "kubeflow.org/v1",
                "kind": "TFJob",
                "metadata": { "name": "mnist" },
                "spec": {
                    "runPolicy": { "cleanPodPolicy": "Running", "backoffLimit": 0 },
                    "tfReplicaSpecs": {
                        "Worker": {
                            "replicas": 3,
                            "restartPolicy": "Never",
                            "template": { "spec": { "containers": [{
                                "name": "tensorflow",
                                "image": "img",
                                "command": ["python", "/train.py"],
                                "resources": { "limits": { "nvidia.com/gpu": "1" } },
                            }] } },
                        },
                    },
                },
            })
        );
    }

    #[test]
    fn what_only_mpi_has_is_a_fault() {
        let wrong = Request {
            kind: Kind::PyTorchJob,
            workers: 2,
            image: "img".to_owned(),
            command: vec!["train".to_owned()],
            slots: Some(2),
            in_launcher: true,
            ..Request::default()
        };
        let paths: Vec<String> = faults(&wrong).into_iter().map(|fault| fault.path).collect();
        assert_eq!(paths, ["inLauncher", "slots"]);
    }
}
