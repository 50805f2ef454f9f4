"""Specifications: what they become, and what is refused; each compared with what the real service does."""

from __future__ import annotations

import json
import numbers
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from local_cluster import IMAGE, Cluster, printed

from openshift_ai.training import (
    ClaimVolume,
    ConfigMapKey,
    ConfigMapVolume,
    FailurePolicy,
    FieldFault,
    InvalidSpecError,
    LauncherSpec,
    MPIConfig,
    MPIJobClient,
    MPIJobSpec,
    Resources,
    Scheduling,
    ScratchVolume,
    SecretKey,
    SecretVolume,
    Toleration,
    WorkerSpec,
)
from openshift_ai.training import _models as models
from openshift_ai.training._checks import STARTERS, faults
from openshift_ai.training._http import problem
from openshift_ai.training._request import body
from openshift_ai.training._spec import (
    GPU_SUFFIX,
    INTEL_GPUS,
    NVIDIA_GPU,
    JobFields,
    PodFields,
    PodSpec,
    ShortFields,
    SpecFields,
    in_own_words,
    is_gpu,
    made,
)

REPOSITORY = Path(__file__).parents[3]
BASE: dict[str, Any] = {"name": "resnet", "image": IMAGE, "command": ["python", "/train.py"]}
#: Specifications that a program which the service exports can make again.
PLAIN: list[dict[str, Any]] = [
    {},
    {"workers": 4, "gpus_per_worker": 2, "cpu_per_worker": "500m", "memory_per_worker": "1.5G"},
    {"env": {"LR": 0.1, "DEBUG": True, "A": ""}, "workers": 2},
    {"env": {"LR": "0.1"}, "mpi": "Intel", "workers": 3, "slots": 2},
    {"mpi": MPIConfig(implementation="MPICH", slots_per_worker=2), "labels": {"team": "vision"}},
    {
        "mpi": MPIConfig(launch="ssh", tag_output=False),
        "failures": FailurePolicy(worker_failure="restart", max_gang_restarts=3),
    },
    {"command": ["sh", "-c", "cd /x; mpirun -np 2 ./a.out"]},
    {"in_launcher": True, "command": ["/opt/run"]},
    {"volumes": {"data": "/data", "models": "/models"}, "queue": "gpu", "annotations": {"a/b": "c"}},
    {"clean_pod_policy": "All", "deadline_seconds": 90, "retries": 0, "suspend": True},
    {"env": {"OMPI_ALLOW_RUN_AS_ROOT": "0"}},
]
#: Specifications with what they make of the pods of one role: fields by their paths.
RICH: list[tuple[dict[str, Any], str, dict[str, Any]]] = [
    (
        {
            "worker_spec": WorkerSpec(
                replicas=2,
                resources={"requests": {"cpu": 1, "memory": "1Gi"}, "limits": {"cpu": 2, "amd.com/gpu": 2}},
                env={"ONLY": "here"},
                labels={"role": "w"},
            )
        },
        "Worker",
        {
            "metadata": {"labels": {"role": "w"}},
            "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "amd.com/gpu": "2"}},
            "env": [{"name": "ONLY", "value": "here"}],
        },
    ),
    (
        {
            "launcher_spec": LauncherSpec(resources=Resources(limits={"cpu": "1"}), image="quay.io/x/launcher:1"),
            "env": {"TOKEN": SecretKey(secret="s", key="k"), "MODE": ConfigMapKey(config_map="c", key="k")},
            "mpi": "MPICH",
        },
        "Launcher",
        {
            "image": "quay.io/x/launcher:1",
            "resources": {"limits": {"cpu": "1"}},
            "env": [
                {"name": "MODE", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
                {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            ],
        },
    ),
    (
        {
            "volumes": [
                ClaimVolume(claim="data", path="/data", read_only=True, sub_path="x"),
                ClaimVolume(claim="data", path="/again"),
                SecretVolume(secret="s", path="/s"),
                ConfigMapVolume(config_map="c", path="/c"),
                ScratchVolume(path="/dev/shm", size="1Gi", in_memory=True),
            ]
        },
        "Worker",
        {
            "volumeMounts": [
                {"name": "data-0", "mountPath": "/data", "readOnly": True, "subPath": "x"},
                {"name": "data-1", "mountPath": "/again"},
                {"name": "data-2", "mountPath": "/s"},
                {"name": "data-3", "mountPath": "/c"},
                {"name": "data-4", "mountPath": "/dev/shm"},
            ],
            "volumes": [
                {"name": "data-0", "persistentVolumeClaim": {"claimName": "data"}},
                {"name": "data-1", "persistentVolumeClaim": {"claimName": "data"}},
                {"name": "data-2", "secret": {"secretName": "s"}},
                {"name": "data-3", "configMap": {"name": "c"}},
                {"name": "data-4", "emptyDir": {"sizeLimit": "1Gi", "medium": "Memory"}},
            ],
        },
    ),
    (
        {
            "scheduling": Scheduling(
                node_selector={"gpu": "a100"},
                tolerations=[
                    Toleration(key="gpu", effect="NoSchedule"),
                    Toleration(toleration_seconds=5, effect="NoExecute"),
                ],
                affinity={"podAntiAffinity": {}},
                topology_spread=[{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}],
                scheduler="volcano",
                min_available=2,
            ),
            "ttl_seconds": 60,
            "workdir": "/work",
        },
        "Worker",
        {
            "nodeSelector": {"gpu": "a100"},
            "tolerations": [
                {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"},
                {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5},
            ],
            "affinity": {"podAntiAffinity": {}},
            "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}],
            "schedulerName": "volcano",
            "workingDir": "/work",
        },
    ),
]


#: Every argument that the service writes into an exported program but `in_launcher`, for which there is no `mpirun`.
EVERY: dict[str, Any] = {
    "workers": 2,
    "gpus_per_worker": 1,
    "cpu_per_worker": "500m",
    "memory_per_worker": "1Gi",
    "launcher_spec": LauncherSpec(resources=Resources(limits={"cpu": "1", "memory": "1Gi"})),
    "workdir": "/work",
    "mpi": "Intel",
    "slots": 2,
    "env": {"LR": "0.1", "NAME": "it's \"quoted\" \\ 'ü'\n"},
    "volumes": [ClaimVolume(claim=claim, path=path) for claim, path in (("b", "/b"), ("a", "/a"), ("a", "/again"))],
    "labels": {"team": "vision"},
    "annotations": {"a/b": "c"},
    "queue": "gpu",
    "priority": "high",
    "clean_pod_policy": "All",
    "deadline_seconds": 90,
    "retries": 2,
    "ttl_seconds": 60,
    "restricted": True,
    "scheduling": Scheduling(node_selector={"gpu": "a100"}, tolerations=[Toleration(key="gpu")]),
}


def spec_of(fields: dict[str, Any]) -> MPIJobSpec:
    return made({**BASE, **fields})


def in_order(job: dict[str, Any]) -> dict[str, Any]:
    """The order of variables does not matter."""
    for role in job["spec"]["mpiReplicaSpecs"].values():
        for container in role["template"]["spec"]["containers"]:
            container.get("env", []).sort(key=lambda variable: variable["name"])
    return job


@pytest.mark.parametrize(("fields", "role", "wanted"), RICH)
def test_the_service_makes_the_pods_that_a_specification_describes(
    client: MPIJobClient, fields: dict[str, Any], role: str, wanted: dict[str, Any]
) -> None:
    path = {"namespace": client.namespace()}
    sent = {**body(spec_of(fields)), "dryRun": True, "skipChecks": True}
    answer = models.CreateJobResponse.model_validate(client.transport.call(models.CREATE_JOB, path, body=sent))
    job = in_order(yaml.safe_load(answer.manifest))
    template = job["spec"]["mpiReplicaSpecs"][role]["template"]
    container = template["spec"]["containers"][0]
    found = {**template, **template["spec"], **container}
    assert {name: found.get(name) for name in wanted} == wanted
    if "ttl_seconds" in fields:
        policy = job["spec"]["runPolicy"]
        assert (policy["ttlSecondsAfterFinished"], policy["schedulingPolicy"]) == (60, {"minAvailable": 2})


@numbers.Integral.register
class Int64:
    """A number as NumPy's `int64` is one: registered, but not derived from `int`."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __str__(self) -> str:
        return str(self.value)

    def __index__(self) -> int:
        return self.value


class Scalar:
    """A value as NumPy's `bool_` or a tensor without dimensions: no number, but it has one."""

    shape: tuple[int, ...] = ()

    def __init__(self, value: bool | float) -> None:
        self.value = value

    def item(self) -> bool | float:
        return self.value


def test_numbers_of_numpy_and_of_tensors_are_values_of_variables() -> None:
    spec = spec_of({"env": {"STEPS": Int64(3), "LR": Scalar(0.5), "FAST": Scalar(value=True)}, "workers": Int64(2)})
    assert (spec.env, spec.worker_spec.replicas) == ({"STEPS": "3", "LR": "0.5", "FAST": "true"}, 2)
    several = Scalar(1.0)
    several.shape = (3,)
    with pytest.raises(InvalidSpecError) as caught:
        spec_of({"env": {"SEVERAL": several}})
    assert list(caught.value.fields) == [
        FieldFault("env.SEVERAL", "is a Scalar; give a text, a number, a SecretKey or a ConfigMapKey")
    ]


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"workers": 2.5}, FieldFault("workers", "is not a whole number: 2.5")),
        ({"workers": "many"}, FieldFault("workers", "is not a whole number: 'many'")),
        ({"command": ["python", 3]}, FieldFault("command.1", "is not a text: 3")),
        ({"env": ["A=b"]}, FieldFault("env", "is not a map: ['A=b']")),
        ({"memory": "16Gi"}, FieldFault("memory", "unknown field", "did you mean memory_per_worker?")),
        ({"wrkers": 2}, FieldFault("wrkers", "unknown field", "did you mean workers?")),
    ],
)
def test_a_wrong_value_is_named_as_it_was_written(fields: dict[str, Any], fault: FieldFault) -> None:
    with pytest.raises(InvalidSpecError) as caught:
        spec_of(fields)
    assert list(caught.value.fields) == [fault]


def test_the_programs_that_start_ranks_are_those_of_the_service() -> None:
    source = (REPOSITORY / "crates/plan/src/starter.rs").read_text()
    listed = re.search(r"pub const STARTERS: [^=]+= \[([^\]]+)\]", source)
    assert listed
    assert set(re.findall(r'"([^"]+)"', listed[1])) == STARTERS


def test_the_resources_that_are_gpus_are_those_of_the_service() -> None:
    source = (REPOSITORY / "crates/semantics/src/gpus.rs").read_text()
    for name, ours in (("NVIDIA_GPU", NVIDIA_GPU), ("GPU_SUFFIX", GPU_SUFFIX)):
        assert re.findall(rf'pub const {name}: &str = "([^"]+)"', source) == [ours]
    listed = re.search(r"pub const INTEL_GPUS: [^=]+= \[([^\]]+)\]", source)
    assert listed
    assert set(re.findall(r'"([^"]+)"', listed[1])) == INTEL_GPUS
    # The cases of the service's own test.
    cases = re.findall(r'\("([a-z0-9./_-]+)", (true|false)\)', source)
    assert len(cases) >= 7
    assert [(name, is_gpu(name)) for name, _ in cases] == [(name, expected == "true") for name, expected in cases]


def test_gpus_of_every_vendor_get_a_rank_each() -> None:
    limits = {"gpu.intel.com/xe": "2", "amd.com/gpu": "1", "gpu.intel.com/i915_monitoring": "1", "cpu": "8"}
    spec = spec_of({"worker_spec": WorkerSpec(resources=Resources(limits=limits))})
    assert (spec.gpus_per_worker, spec.slots_per_worker) == (3, 3)
    assert spec_of({}).slots_per_worker == 1


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        (
            {"worker_spec": WorkerSpec(resources={"requests": {"memory": "16GB"}})},
            "worker_spec.resources.requests.memory",
        ),
        (
            {"worker_spec": WorkerSpec(resources={"limits": {"amd.com/gpu": "x"}})},
            "worker_spec.resources.limits.amd.com/gpu",
        ),
        ({"launcher_spec": LauncherSpec(resources={"limits": {"cpu": "one"}})}, "launcher_spec.resources.limits.cpu"),
        ({"launcher_spec": LauncherSpec(env={"1": "x"})}, "env"),
        ({"volumes": [ScratchVolume(path="shm")]}, "volumes"),
        ({"volumes": [ScratchVolume(path="/shm", size="1GB")]}, "volumes.size"),
        ({"workdir": "work"}, "workdir"),
        ({"ttl_seconds": -1}, "spec.runPolicy.ttlSecondsAfterFinished"),
        (
            {"failures": FailurePolicy(start_timeout="soon")},
            "metadata.annotations[training.opendatahub.io/start-timeout]",
        ),
    ],
)
def test_fields_of_parts_are_checked_too(fields: dict[str, Any], path: str) -> None:
    assert [fault.path for fault in faults(spec_of(fields))] == [path]


def test_a_number_that_kubernetes_does_not_have_is_refused() -> None:
    for field in ("workers", "slots", "retries", "ttl_seconds", "deadline_seconds"):
        with pytest.raises(InvalidSpecError):
            spec_of({field: 1 << 31})


def test_an_invalid_specification_is_not_sent() -> None:
    with MPIJobClient("https://192.0.2.1", token="x") as nowhere, pytest.raises(InvalidSpecError) as caught:
        nowhere.create_mpijob(name="x", image="y", command=[], workers=0)
    assert [fault.path for fault in caught.value.fields] == ["command", "workers"]
    assert caught.value.fields[0] == FieldFault("command", "is required", "give a program and its arguments")
    assert "command: is required (give a program and its arguments)" in str(caught.value)


def test_wrong_types_and_unknown_fields_are_errors_of_this_package() -> None:
    with pytest.raises(InvalidSpecError) as caught:
        spec_of({"worker_spec": {"replicas": "many", "replica": 3}, "command": "python train.py"})
    assert {fault.path for fault in caught.value.fields} == {"worker_spec.replicas", "worker_spec.replica", "command"}
    assert "give a list of words" in str(caught.value)


def test_only_a_trainjob_may_leave_the_image_to_its_runtime() -> None:
    fields = {"name": "resnet", "workers": 2, "command": ["train"]}
    assert not faults(made({**fields, "kind": "trainjob", "runtime": "mpich"}))
    assert [fault.path for fault in faults(made(fields))] == ["image"]


def test_a_wrong_type_hides_no_other_fault() -> None:
    def found(fields: dict[str, Any]) -> list[str]:
        with MPIJobClient("https://192.0.2.1", token="x") as nowhere, pytest.raises(InvalidSpecError) as caught:
            nowhere.create_mpijob(name="resnet", image="x:1", **fields)
        return [fault.path.split(".")[0] for fault in caught.value.fields]

    assert found({"command": "hostname", "workers": 0, "memory_per_worker": "1 GB"}) == ["command", "workers", "memory"]
    assert set(found({"code": 3, "command": [], "slots": 0})) == {"code", "slots"}


@pytest.mark.parametrize(
    ("field", "fix"),
    [("worker", "did you mean workers?"), ("memory_per_workers", "did you mean memory_per_worker?"), ("colour", "")],
)
def test_an_unknown_field_is_named_with_the_one_that_was_meant(field: str, fix: str) -> None:
    with pytest.raises(InvalidSpecError) as caught:
        spec_of({field: 2})
    assert list(caught.value.fields) == [FieldFault(field, "unknown field", fix)]


def test_a_copy_has_the_changes_and_the_rest() -> None:
    spec = spec_of({"workers": 4, "memory_per_worker": "16Gi", "env": {"A": "1"}})
    changed = spec.with_changes(memory_per_worker="32Gi", name="other")
    assert (changed.worker_spec.replicas, changed.worker_spec.resources.limits) == (4, {"memory": "32Gi"})
    assert (changed.name, changed.env, spec.name) == ("other", {"A": "1"}, "resnet")
    assert spec.with_changes(workers=2).worker_spec.resources.limits == {"memory": "16Gi"}


@pytest.mark.parametrize("fields", [*PLAIN, EVERY])
def test_the_python_that_the_service_exports_makes_the_same_job(
    cluster: Cluster, client: MPIJobClient, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any]
) -> None:
    job = client.create_mpijob(spec_of({**fields, "suspend": True}), skip_checks=True)
    program, manifest = job.export("python"), job.to_yaml()
    job.delete(wait=True)
    monkeypatch.setenv("ODH_HOME", str(cluster.home))
    # It asks for GPUs and volumes that nobody has; it is suspended.
    found: dict[str, Any] = {}
    exec(program.replace("\n))\n", "\n), skip_checks=True)\n"), found)
    with found["client"]:
        again = found["job"].to_yaml()
    first, second = (in_order(yaml.safe_load(text)) for text in (manifest, again))
    assert first["spec"] == second["spec"]
    if fields is EVERY:
        written = set(re.findall(r"^    (\w+)=", program, re.MULTILINE))
        source = (REPOSITORY / "crates/jobs/src/export/code.rs").read_text()
        assert set(re.findall(r'put\("(\w+)"', source)) - {"in_launcher"} < written


def test_a_job_that_only_a_manifest_can_express_is_not_exported_as_python(client: MPIJobClient) -> None:
    manifest = yaml.safe_load(client.validate(spec_of({"suspend": True})).manifest)
    manifest["spec"]["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["terminationGracePeriodSeconds"] = 5
    job = client.create(json.dumps(manifest))
    with pytest.raises(InvalidSpecError, match="only a manifest can express"):
        job.export("python")


def test_the_arguments_for_type_checkers_are_the_fields() -> None:
    assert set(SpecFields.__annotations__) | {"name", "image"} == set(MPIJobSpec.model_fields)
    assert set(PodFields.__annotations__) == set(PodSpec.model_fields)
    short = set(ShortFields.__annotations__) - set(SpecFields.__annotations__)
    assert short == {"workers", "gpus_per_worker", "cpu_per_worker", "memory_per_worker"}
    assert set(JobFields.__annotations__) - set(ShortFields.__annotations__) == {"name", "image"}


def test_a_specification_takes_what_create_mpijob_takes() -> None:
    spec = MPIJobSpec(
        **BASE,
        workers=3,
        gpus_per_worker=1,
        cpu_per_worker=0.5,
        memory_per_worker="128Mi",
        worker_spec=WorkerSpec(labels={"a": "b"}),
    )
    limits = {"nvidia.com/gpu": "1", "cpu": "0.5", "memory": "128Mi"}
    assert spec.worker_spec == WorkerSpec(replicas=3, labels={"a": "b"}, resources=Resources(limits=limits))
    assert spec.with_changes(workers=2).worker_spec.resources.limits == limits
    assert (spec.gpus_per_worker, spec.slots_per_worker) == (1, 1)
    assert MPIJobSpec.model_validate({**BASE, "workers": 2}).worker_spec.replicas == 2


def test_a_command_that_names_a_file_starts_where_it_is_on_a_local_cluster_only(
    cluster: Cluster, client: MPIJobClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields: JobFields = {
        "name": "here",
        "image": IMAGE,
        "command": ["python3", "-m", "mpi4py", "train.py"],
        "workers": 2,
    }
    monkeypatch.chdir(REPOSITORY / "examples/own")
    elsewhere = yaml.safe_load(client.validate(**fields).manifest)
    assert "workingDir" not in json.dumps(elsewhere), "nothing says that this cluster is on this machine"
    monkeypatch.setenv("ODH_HOME", str(cluster.home))
    job = client.create_mpijob(**fields)
    job.wait_for_completion(60)
    assert printed(job.logs()) == [f"rank {rank} of 2 in {Path.cwd()}" for rank in (0, 1)]
    assert not any("train.py" in warning for warning in job.warnings)
    for given in ({"workdir": "/"}, {"code": Path("train.py")}, {"command": ["python3", "-c", "x" * 5000 + ".py"]}):
        manifest = client.validate(made({**fields, "name": "other", **given})).manifest
        assert str(Path.cwd()) not in manifest


def test_a_file_where_pods_have_a_folder_of_their_own_is_warned_of(
    cluster: Cluster, client: MPIJobClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ODH_HOME", str(cluster.home))
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        (Path(folder) / "train.py").touch()
        monkeypatch.chdir(folder)
        job = client.create_mpijob(**BASE | {"name": "hidden", "command": ["python", "train.py"]}, suspend=True)
        monkeypatch.chdir(REPOSITORY)
    assert [warning for warning in job.warnings if "cannot see train.py" in warning]


def test_a_warning_about_the_image_of_the_job_names_the_field_that_was_written() -> None:
    pods = "spec.mpiReplicaSpecs[{}].template.spec.containers[0]."
    text = 'image: "x" may be a different image'
    texts = [pods.format(role) + text for role in ("Launcher", "Worker")]
    plain = made({"name": "x", "image": "x", "command": ["x"]})
    assert [in_own_words(plain, one) for one in texts] == [text, text]
    own = made({"name": "x", "image": "y:1", "command": ["x"], "worker_spec": WorkerSpec(image="x")})
    assert in_own_words(own, texts[1]) == f"worker_spec.{text}"
    limits = pods.format("Worker") + "resources.limits: not set"
    assert in_own_words(plain, limits) == "worker_spec.resources.limits: not set"


def test_a_fault_that_the_message_says_is_printed_once() -> None:
    fault, fix = '"yesterday" is not a time', "use 90m, 2d, 2026-01-31 or 2026-01-31T12:00:00Z"
    field = {"path": "since", "fault": fault, "fix": fix}
    error = problem({"code": "Invalid", "message": f"since: {fault}", "hint": fix, "fields": [field]}, status=422)
    assert str(error) == f"since: {fault}\nWhat to do: {fix}"
    other = {"path": "until", "fault": "is before since", "fix": ""}
    more = problem({"code": "Invalid", "message": f"since: {fault}", "hint": fix, "fields": [field, other]}, status=422)
    assert str(more) == f"since: {fault}\n  until: is before since\nWhat to do: {fix}"
