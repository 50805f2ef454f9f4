"""Writes a specification as what the service takes: its own `spec` where that can express the job, else a manifest.

Both ways give the same job (`crates/jobs/src/build.rs`); a test compares them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ._annotations import job_annotations
from ._checks import starts_ranks
from ._code import ship
from ._spec import NVIDIA_GPU, ClaimVolume, ConfigMapKey, ConfigMapVolume, SecretKey, SecretVolume

if TYPE_CHECKING:
    from ._spec import MPIJobSpec, PodSpec, Scheduling, Variable, Volume

_QUEUE = "kueue.x-k8s.io/queue-name"
#: Resources of Workers that the service's `spec` has fields for.
_PLAIN = {"cpu": "cpu", "memory": "memory", NVIDIA_GPU: "gpus"}


def body(spec: MPIJobSpec) -> dict[str, Any]:
    """The part of a request that says what to create: `spec` or `manifest`."""
    shipped = ship(spec)
    if is_plain(shipped):
        return {"spec": job_spec(shipped)}
    return {"manifest": json.dumps(manifest(shipped))}


def is_plain(spec: MPIJobSpec) -> bool:
    """Whether the service's `spec` can express the job."""
    resources = spec.worker_spec.resources
    return (
        not resources.requests
        and set(resources.limits) <= set(_PLAIN)
        and resources.limits.get(NVIDIA_GPU, "0").isdecimal()
        and spec.worker_spec.model_fields_set <= {"replicas", "resources"}
        and not spec.launcher_spec.model_fields_set
        and not spec.scheduling.model_fields_set
        and spec.ttl_seconds is None
        and spec.workdir is None
        and not any(isinstance(value, (SecretKey, ConfigMapKey)) for value in spec.env.values())
        and all(isinstance(v, ClaimVolume) and not v.read_only and not v.sub_path for v in spec.volumes)
        # The service has a map from claims to paths, so a claim can be mounted once, and the order is that of names.
        and [v.claim for v in spec.volumes if isinstance(v, ClaimVolume)]
        == sorted({v.claim for v in spec.volumes if isinstance(v, ClaimVolume)})
    )


def _filled(fields: dict[str, Any]) -> dict[str, Any]:
    """Without what is not set."""
    return {name: value for name, value in fields.items() if value is not None and value not in ({}, [], "")}


def job_spec(spec: MPIJobSpec) -> dict[str, Any]:
    """The service's `spec`."""
    limits = spec.worker_spec.resources.limits
    gpus = limits.get(NVIDIA_GPU)
    slots = spec.slots if spec.slots is not None else spec.mpi.slots_per_worker
    fields = {
        "name": spec.name,
        "workers": spec.worker_spec.replicas,
        "image": spec.image,
        "command": spec.command,
        "inLauncher": spec.in_launcher or None,
        "slots": slots,
        "gpus": None if gpus is None else int(gpus),
        "cpu": limits.get("cpu"),
        "memory": limits.get("memory"),
        "mpi": spec.mpi.implementation,
        "env": dict(spec.env),
        "volumes": {v.claim: v.path for v in spec.volumes if isinstance(v, ClaimVolume)},
        "labels": spec.labels,
        "annotations": job_annotations(spec),
        "queue": spec.queue,
        "priority": spec.priority,
        "cleanPodPolicy": spec.clean_pod_policy,
        "deadlineSeconds": spec.deadline_seconds,
        "retries": spec.retries,
        "suspend": spec.suspend or None,
    }
    return _filled(fields)


def launcher_command(spec: MPIJobSpec) -> list[str]:
    """The command with `mpirun` before it, unless it starts the ranks itself."""
    if spec.in_launcher or starts_ranks(spec.command):
        return list(spec.command)
    if spec.mpi.implementation == "OpenMPI":
        # Open MPI forwards only the variables named with `-x`.
        options = [word for name in sorted(spec.env) for word in ("-x", name)]
    else:
        options = ["-n", str(spec.slots_per_worker * spec.worker_spec.replicas)]
    return ["mpirun", *options, *spec.command]


def manifest(spec: MPIJobSpec) -> dict[str, Any]:
    """The job as a manifest."""
    as_root = {}
    if spec.mpi.implementation == "OpenMPI":
        # Many training images run as root, and Open MPI would refuse to start as root.
        as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    launcher = {"name": "launcher", "command": launcher_command(spec)}
    labels = {**spec.labels, **({_QUEUE: spec.queue} if spec.queue else {})}
    # An ended job holds nothing, and a failure of the program is not repeated, unless that is asked for.
    run_policy = {
        "cleanPodPolicy": spec.clean_pod_policy or "Running",
        "activeDeadlineSeconds": spec.deadline_seconds,
        "backoffLimit": spec.retries or 0,
        "ttlSecondsAfterFinished": spec.ttl_seconds,
        "suspend": spec.suspend or None,
        "schedulingPolicy": _filled({"minAvailable": spec.scheduling.min_available}),
    }
    metadata = {"name": spec.name, "labels": labels, "annotations": job_annotations(spec)}
    replicas = {
        "Launcher": {
            "replicas": 1,
            # With OnFailure, Kubernetes deletes the pod and its output when the Job gives up.
            "restartPolicy": "Never",
            "template": _template(spec, spec.launcher_spec, launcher, as_root),
        },
        "Worker": {
            "replicas": spec.worker_spec.replicas,
            "template": _template(spec, spec.worker_spec, {"name": "worker"}, {}),
        },
    }
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": _filled(metadata),
        "spec": _filled(
            {
                "slotsPerWorker": spec.slots_per_worker,
                "mpiImplementation": spec.mpi.implementation,
                "runPolicy": _filled(run_policy),
                "mpiReplicaSpecs": replicas,
            }
        ),
    }


def _template(spec: MPIJobSpec, pod: PodSpec, container: dict[str, Any], variables: dict[str, str]) -> dict[str, Any]:
    env: dict[str, Variable] = {**variables, **dict(sorted(spec.env.items())), **pod.env}
    volumes = [*spec.volumes, *pod.volumes]
    container = {
        **container,
        "image": pod.image or spec.image,
        "workingDir": spec.workdir,
        "env": [_variable(name, value) for name, value in env.items()],
        "volumeMounts": [_mount(index, volume) for index, volume in enumerate(volumes)],
        "resources": _filled({"requests": pod.resources.requests, "limits": pod.resources.limits}),
    }
    fields = {
        "containers": [_filled(container)],
        "volumes": [_volume(index, volume) for index, volume in enumerate(volumes)],
        "priorityClassName": spec.priority,
        **_placement(pod.scheduling or spec.scheduling),
    }
    metadata = _filled({"labels": pod.labels, "annotations": pod.annotations})
    return _filled({"metadata": metadata, "spec": _filled(fields)})


def _placement(scheduling: Scheduling) -> dict[str, Any]:
    tolerations = [toleration.model_dump(exclude_none=True) for toleration in scheduling.tolerations]
    for toleration in tolerations:
        if "toleration_seconds" in toleration:
            toleration["tolerationSeconds"] = toleration.pop("toleration_seconds")
    return {
        "nodeSelector": scheduling.node_selector,
        "tolerations": tolerations,
        "affinity": scheduling.affinity,
        "topologySpreadConstraints": scheduling.topology_spread,
        "schedulerName": scheduling.scheduler,
    }


def _variable(name: str, value: Variable) -> dict[str, Any]:
    if isinstance(value, SecretKey):
        return {"name": name, "valueFrom": {"secretKeyRef": {"name": value.secret, "key": value.key}}}
    if isinstance(value, ConfigMapKey):
        return {"name": name, "valueFrom": {"configMapKeyRef": {"name": value.config_map, "key": value.key}}}
    return {"name": name, "value": value}


def _mount(index: int, volume: Volume) -> dict[str, Any]:
    mount: dict[str, Any] = {"name": f"data-{index}", "mountPath": volume.path}
    if isinstance(volume, ClaimVolume):
        mount.update(_filled({"readOnly": volume.read_only or None, "subPath": volume.sub_path}))
    return mount


def _volume(index: int, volume: Volume) -> dict[str, Any]:
    name = {"name": f"data-{index}"}
    if isinstance(volume, ClaimVolume):
        return {**name, "persistentVolumeClaim": {"claimName": volume.claim}}
    if isinstance(volume, SecretVolume):
        return {**name, "secret": {"secretName": volume.secret}}
    if isinstance(volume, ConfigMapVolume):
        return {**name, "configMap": {"name": volume.config_map}}
    medium = "Memory" if volume.in_memory else None
    return {**name, "emptyDir": _filled({"sizeLimit": volume.size, "medium": medium})}
