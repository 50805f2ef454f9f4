"""Writes a specification as the service's `spec`: the same values under the contract's names. The service builds the job."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ._code import ship
from ._spec import NVIDIA_GPU, ClaimVolume, ConfigMapKey, ConfigMapVolume, ScratchVolume, SecretKey, SecretVolume

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ._spec import FailurePolicy, MPIJobSpec, PodSpec, Scheduling, Toleration, Variable, Volume

#: Limits of Workers that the service's `spec` has fields for.
_OWN_FIELDS = {"cpu": "cpu", "memory": "memory", NVIDIA_GPU: "gpus"}


def body(spec: MPIJobSpec) -> dict[str, Any]:
    """The part of a request that says what to create."""
    return {"spec": job_spec(ship(spec))}


def _filled(fields: dict[str, Any]) -> dict[str, Any]:
    """Without what is not set."""
    return {name: value for name, value in fields.items() if value is not None and value not in ({}, [], "", False)}


def job_spec(spec: MPIJobSpec) -> dict[str, Any]:
    """The service's `spec`."""
    limits = dict(spec.worker_spec.resources.limits)
    own: dict[str, Any] = {field: limits.pop(name) for name, field in _OWN_FIELDS.items() if name in limits}
    if "gpus" in own:
        own["gpus"] = int(own["gpus"])
    slots = spec.slots if spec.slots is not None else spec.mpi.slots_per_worker
    fields = {
        "name": spec.name,
        "workers": spec.worker_spec.replicas,
        "image": spec.image,
        "command": spec.command,
        "inLauncher": spec.in_launcher,
        **own,
        "mpi": spec.mpi.implementation,
        "transport": spec.mpi.launch,
        "untagged": not spec.mpi.tag_output,
        "restricted": spec.restricted,
        **_environment(spec.env),
        "mounts": [_volume(volume) for volume in spec.volumes],
        "worker": _part(spec.worker_spec, limits),
        "launcher": _part(spec.launcher_spec, spec.launcher_spec.resources.limits),
        "scheduling": _placement(spec.scheduling),
        "failures": _failures(spec.failures),
        "workdir": spec.workdir,
        "labels": spec.labels,
        "annotations": spec.annotations,
        "queue": spec.queue,
        "priority": spec.priority,
        "cleanPodPolicy": spec.clean_pod_policy,
        "suspend": spec.suspend,
        "kind": None if spec.kind == "mpijob" else spec.kind,
        "runtime": spec.runtime,
    }
    numbers = {
        "slots": slots,
        "minAvailable": spec.scheduling.min_available,
        "deadlineSeconds": spec.deadline_seconds,
        "retries": spec.retries,
        "ttlSeconds": spec.ttl_seconds,
    }
    return _filled(fields) | {name: number for name, number in numbers.items() if number is not None}


def _part(pod: PodSpec, limits: Mapping[str, str]) -> dict[str, Any]:
    fields = {
        "image": pod.image,
        **_environment(pod.env),
        "mounts": [_volume(volume) for volume in pod.volumes],
        "requests": pod.resources.requests,
        "limits": dict(limits),
        "scheduling": None if pod.scheduling is None else _placement(pod.scheduling),
        "labels": pod.labels,
        "annotations": pod.annotations,
        "restartPolicy": pod.restart_policy,
    }
    filled = _filled(fields)
    if pod.scheduling is not None:
        # Even an empty one replaces the job's.
        filled["scheduling"] = fields["scheduling"]
    return filled


def _environment(env: Mapping[str, Variable]) -> dict[str, Any]:
    texts = {name: value for name, value in env.items() if isinstance(value, str)}
    return {"env": texts, "variables": [_variable(n, v) for n, v in env.items() if not isinstance(v, str)]}


def _variable(name: str, value: SecretKey | ConfigMapKey) -> dict[str, Any]:
    if isinstance(value, SecretKey):
        return {"name": name, "secret": value.secret, "key": value.key}
    return {"name": name, "configMap": value.config_map, "key": value.key}


def _volume(volume: Volume) -> dict[str, Any]:
    fields: dict[str, Any] = {"path": volume.path}
    match volume:
        case ClaimVolume():
            fields |= {"claim": volume.claim, "readOnly": volume.read_only, "subPath": volume.sub_path}
        case SecretVolume():
            fields["secret"] = volume.secret
        case ConfigMapVolume():
            fields["configMap"] = volume.config_map
        case ScratchVolume():
            fields |= {"size": volume.size, "inMemory": volume.in_memory}
    return _filled(fields)


def _placement(scheduling: Scheduling) -> dict[str, Any]:
    affinity, spread = scheduling.affinity, scheduling.topology_spread
    return _filled(
        {
            "nodeSelector": scheduling.node_selector,
            "tolerations": [_toleration(toleration) for toleration in scheduling.tolerations],
            "affinity": json.dumps(affinity) if affinity else None,
            "topologySpread": json.dumps(spread) if spread else None,
            "scheduler": scheduling.scheduler,
        }
    )


def _toleration(toleration: Toleration) -> dict[str, Any]:
    fields = toleration.model_dump(exclude_none=True)
    if "toleration_seconds" in fields:
        fields["tolerationSeconds"] = fields.pop("toleration_seconds")
    return fields


def _failures(failures: FailurePolicy) -> dict[str, Any]:
    fields = {
        "workerFailure": failures.worker_failure,
        "maxGangRestarts": failures.max_gang_restarts,
        "startTimeout": failures.start_timeout,
        "stallTimeout": failures.stall_timeout,
    }
    return {name: value for name, value in fields.items() if value is not None}
