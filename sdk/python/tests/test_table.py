"""The table of specifications (`openapi/specifications.yaml`): each, written as arguments of this SDK, makes the manifest, or has
the faults, that the table says, with both clients."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from local_cluster import Cluster

from openshift_ai.training import AsyncMPIJobClient, InvalidSpecError, MPIJobClient
from openshift_ai.training import _models as models
from openshift_ai.training._checks import check, faults
from openshift_ai.training._request import body
from openshift_ai.training._spec import made

CONTRACT = Path(__file__).parents[3] / "openapi"
CASES: list[dict[str, Any]] = yaml.safe_load((CONTRACT / "specifications.yaml").read_text())
JOBS: dict[str, Any] = json.loads((CONTRACT / "jobs.json").read_text())
GOOD = [case for case in CASES if "faults" not in case]
BAD = [case for case in CASES if "faults" in case]
#: Fields of the service's `spec`, and what each is here.
NAMES = {
    "name": "name",
    "kind": "kind",
    "runtime": "runtime",
    "workers": "workers",
    "image": "image",
    "command": "command",
    "slots": "slots",
    "gpus": "gpus_per_worker",
    "cpu": "cpu_per_worker",
    "memory": "memory_per_worker",
    "inLauncher": "in_launcher",
    "workdir": "workdir",
    "env": "env",
    "volumes": "volumes",
    "labels": "labels",
    "annotations": "annotations",
    "queue": "queue",
    "priority": "priority",
    "cleanPodPolicy": "clean_pod_policy",
    "deadlineSeconds": "deadline_seconds",
    "retries": "retries",
    "ttlSeconds": "ttl_seconds",
    "suspend": "suspend",
    "restricted": "restricted",
}
MPI = {"mpi": "implementation", "transport": "launch", "untagged": "tag_output"}
PARTS = {"worker": "worker_spec", "launcher": "launcher_spec"}
#: Fields that take one of a few words: another one is refused by the type, in pydantic's words.
CLOSED = {
    "mpi": "mpi.implementation",
    "transport": "mpi.launch",
    "spec.runPolicy.cleanPodPolicy": "clean_pod_policy",
    "kind": "kind",
    "metadata.annotations[training.opendatahub.io/worker-failure]": "failures.worker_failure",
}


def snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def variables_of(fields: dict[str, Any]) -> dict[str, Any]:
    keys = {
        variable["name"]: {snake(name): value for name, value in variable.items() if name != "name"}
        for variable in fields.get("variables", [])
    }
    return {**fields.get("env", {}), **keys}


def volumes_of(fields: dict[str, Any]) -> list[dict[str, Any]]:
    claims = [{"claim": claim, "path": path} for claim, path in sorted(fields.get("volumes", {}).items())]
    return [*claims, *({snake(name): value for name, value in mount.items()} for mount in fields.get("mounts", []))]


def placement_of(fields: dict[str, Any]) -> dict[str, Any]:
    placement = {snake(name): value for name, value in fields.items()}
    for name in ("affinity", "topology_spread"):
        if name in placement:
            placement[name] = yaml.safe_load(placement[name])
    placement["tolerations"] = [
        {snake(name): value for name, value in taint.items()} for taint in placement.get("tolerations", [])
    ]
    return placement


def part_of(fields: dict[str, Any]) -> dict[str, Any]:
    known = {"image", "labels", "annotations", "restartPolicy"}
    part = {snake(name): value for name, value in fields.items() if name in known}
    part["resources"] = {name: fields[name] for name in ("requests", "limits") if name in fields}
    part["env"], part["volumes"] = variables_of(fields), volumes_of(fields)
    if "scheduling" in fields:
        part["scheduling"] = placement_of(fields["scheduling"])
    rest = set(fields) - known - {"requests", "limits", "env", "variables", "mounts", "scheduling"}
    assert not rest, f"a part of a specification has no place for {rest}"
    return part


def arguments_of(spec: dict[str, Any]) -> dict[str, Any]:
    """The arguments that make a `spec` of the service; one for which there is no argument fails."""
    fields = dict(spec)
    arguments: dict[str, Any] = {"env": variables_of(fields), "volumes": volumes_of(fields)}
    for name in ("env", "variables", "volumes", "mounts"):
        fields.pop(name, None)
    mpi = {MPI[name]: fields.pop(name) for name in MPI if name in fields}
    if "tag_output" in mpi:
        mpi["tag_output"] = not mpi["tag_output"]
    if mpi:
        arguments["mpi"] = mpi
    if "worker" in fields:
        # The short form's amounts are requested as well; here the Workers' requests are their own.
        limits = {
            "nvidia.com/gpu" if name == "gpus" else name: fields.pop(name)
            for name in ("cpu", "memory", "gpus")
            if name in fields
        }
        fields["worker"] = {**fields["worker"], "limits": {**fields["worker"].get("limits", {}), **limits}}
    for name, part in PARTS.items():
        if name in fields:
            arguments[part] = part_of(fields.pop(name))
    if "workers" in fields and "worker_spec" in arguments:
        arguments["worker_spec"]["replicas"] = fields.pop("workers")
    scheduling = placement_of(fields.pop("scheduling", {}))
    if "minAvailable" in fields:
        scheduling["min_available"] = fields.pop("minAvailable")
    arguments["scheduling"] = scheduling
    arguments["failures"] = {snake(name): value for name, value in fields.pop("failures", {}).items()}
    return arguments | {NAMES[name]: value for name, value in fields.items()}


def merged(target: Any, patch: Any) -> Any:
    """A merge patch applied (RFC 7396)."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


def job_of(case: str) -> Any:
    return merged(JOBS["base"], JOBS["changes"][case])


def bare(manifest: str) -> Any:
    job = yaml.safe_load(manifest)
    job["metadata"].pop("namespace", None)
    # The defaults of the CRD.
    for field in ("runLauncherAsWorker", "sshAuthMountPath"):
        job["spec"].pop(field, None)
    if job["spec"].get("runPolicy", {}).get("suspend") is False:
        job["spec"]["runPolicy"].pop("suspend")
    return job


def test_the_service_makes_the_jobs_of_the_table(client: MPIJobClient) -> None:
    path = {"namespace": client.namespace()}
    for case in GOOD:
        sent = body(made(arguments_of(case["spec"])))
        answer: Any = client.transport.call(models.RENDER_JOB, path, body=sent)
        assert bare(answer["manifest"]) == job_of(case["case"]), case["case"]


def test_the_asynchronous_client_makes_the_same(cluster: Cluster, namespace: str) -> None:
    async def go_through() -> None:
        async with AsyncMPIJobClient(cluster.url, token=cluster.token, ca=cluster.ca, namespace=namespace) as client:
            for case in GOOD:
                sent = body(made(arguments_of(case["spec"])))
                answer: Any = await client.transport.call(models.RENDER_JOB, {"namespace": namespace}, body=sent)
                assert bare(answer["manifest"]) == job_of(case["case"]), case["case"]

    asyncio.run(go_through())


@pytest.mark.parametrize("case", GOOD, ids=lambda case: case["case"])
def test_nothing_is_wrong_with_a_good_specification(case: dict[str, Any]) -> None:
    assert faults(made(arguments_of(case["spec"]))) == []


@pytest.mark.parametrize("case", BAD, ids=lambda case: case["case"])
def test_what_is_wrong_with_a_specification_is_what_the_service_says(case: dict[str, Any]) -> None:
    wanted = case["faults"]
    of_service = {"variables[0].key", "scheduling.affinity.podAffinity"}
    if case["spec"].get("kind") in {"trainjob", "pytorchjob"} or of_service & {fault["path"] for fault in wanted}:
        # The service alone says it, see `test_the_running_service_says_the_same`.
        return
    arguments = arguments_of(case["spec"])
    if any(fault["path"] in CLOSED for fault in wanted):
        with pytest.raises(InvalidSpecError) as caught:
            check(made(arguments))
        paths = {fault["path"] for fault in wanted}
        assert {fault.path for fault in caught.value.fields} <= paths | {CLOSED.get(path, path) for path in paths}
        return
    found = [fault._asdict() for fault in faults(made(arguments))]
    assert [{**fault, "path": fault["path"].replace("_spec.resources", "")} for fault in found] == [
        {"fix": ""} | fault for fault in wanted
    ]


def test_the_running_service_says_the_same(client: MPIJobClient) -> None:
    path = {"namespace": client.namespace()}
    for case in BAD:
        with pytest.raises(InvalidSpecError) as caught:
            client.transport.call(
                models.CREATE_JOB, path, body={"spec": case["spec"], "dryRun": True, "skipChecks": True}
            )
        found = [fault._asdict() for fault in caught.value.fields]
        assert found == [{"fix": ""} | fault for fault in case["faults"]], case["case"]
