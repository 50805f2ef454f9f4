"""What to run: the specification of an MPIJob, in terms of model training.

Values are checked when a specification is made: types by pydantic, and what the service would refuse by `_checks`. Either way the
error is an `InvalidSpecError` that names every fault.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypedDict

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ._errors import FieldFault, InvalidSpecError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails
    from typing_extensions import Unpack

NVIDIA_GPU = "nvidia.com/gpu"
#: The suffix of a vendor's GPUs, after its name: `nvidia.com/gpu`, `amd.com/gpu`.
GPU_SUFFIX = "/gpu"
#: The resources of Intel's device plugin, one for each kernel driver.
INTEL_GPUS = frozenset({"gpu.intel.com/i915", "gpu.intel.com/xe"})


def is_gpu(resource: str) -> bool:
    """Whether a resource is a GPU of any vendor, each of which gets a rank. The service has the same rule."""
    return resource.endswith(GPU_SUFFIX) or resource in INTEL_GPUS


class Spec(BaseModel):
    """A part of a specification. Unknown fields are faults."""

    model_config = ConfigDict(extra="forbid", validate_default=False, defer_build=True)
    #: Names that are turned into fields before a specification is made, by the paths of these.
    _short_names: ClassVar[Mapping[str, str]] = {}

    def __init__(self, short: Mapping[str, str] | None = None, /, **fields: Any) -> None:
        """Checks and keeps the fields; `short` are the names by which some were given, by their paths."""
        try:
            super().__init__(**fields)
        except ValidationError as error:
            known = [*type(self).model_fields, *self._short_names.values()]
            raise invalid(type(self).__name__, error, known, short) from None


#: What is wrong, by pydantic's type of fault.
_WRONG = {
    "missing": "is required",
    "string_type": "is not a text",
    "bool_type": "is neither True nor False",
    "bool_parsing": "is neither True nor False",
    "list_type": "is not a list",
    "dict_type": "is not a map",
    "mapping_type": "is not a map",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "is not a whole number"),
    **dict.fromkeys(("float_type", "float_parsing", "finite_number"), "is not a number"),
}
#: The longest value that is quoted.
_LONGEST = 60


def _wrong(fault: ErrorDetails) -> str:
    """What is wrong with a value, with the value itself if it is short."""
    wrong = _WRONG.get(fault["type"])
    if wrong is None:
        return fault["msg"].removeprefix("Value error, ")
    given = "" if fault["type"] == "missing" else repr(fault["input"])
    return f"{wrong}: {given}" if 0 < len(given) <= _LONGEST else wrong


def invalid(
    what: str, error: ValidationError, known: Sequence[str] = (), short: Mapping[str, str] | None = None
) -> InvalidSpecError:
    """The faults that pydantic found, as an error of this package.

    `known` are the names that a field may have, `short` the names by which fields were given, by their paths.
    """
    faults: list[FieldFault] = []
    short = short or {}
    for fault in error.errors(include_url=False):
        path = ".".join(str(part) for part in fault["loc"])
        path = short.get(path, path)
        inner = (fault.get("ctx") or {}).get("error")
        if isinstance(inner, InvalidSpecError):
            # A part of a specification that was given as a map.
            paths = [f"{path}.{found.path}" for found in inner.fields]
            faults += [
                FieldFault(short.get(of_part, of_part), found.fault, found.fix)
                for of_part, found in zip(paths, inner.fields, strict=True)
            ]
        elif fault["type"] == "extra_forbidden":
            meant = get_close_matches(path, known, n=1) or [name for name in known if name.startswith(f"{path}_")]
            faults.append(FieldFault(path, "unknown field", f"did you mean {meant[0]}?" if meant else ""))
        else:
            faults.append(FieldFault(path, _wrong(fault)))
    listed = "; ".join(str(fault) for fault in faults)
    return InvalidSpecError(f"{what} is invalid: {listed}", fields=faults, hint="see the fields of " + what)


def _text(value: Any) -> Any:
    """Numbers are texts in Kubernetes' quantities and environments."""
    if isinstance(value, bool):
        return str(value).lower()
    # NumPy's numbers are Real, too, and have fewer digits than those that they are converted to.
    if isinstance(value, numbers.Real):
        return str(value)
    # Its truth values and a tensor with one element are not.
    convert = getattr(value, "item", None)
    return _text(convert()) if callable(convert) and getattr(value, "shape", None) == () else value


Text = Annotated[str, BeforeValidator(_text)]
#: Whole numbers as Kubernetes has them.
Number = Annotated[int, Field(ge=-(1 << 31), lt=1 << 31)]
Quantity = Annotated[str, BeforeValidator(_text)]


class Resources(Spec):
    """Resources of a pod: names and quantities, as in Kubernetes."""

    if TYPE_CHECKING:

        def __init__(
            self, *, requests: Mapping[str, str | float] = ..., limits: Mapping[str, str | float] = ...
        ) -> None: ...

    requests: dict[str, Quantity] = Field(default_factory=dict)
    """What the scheduler reserves; as much as `limits` if not given."""
    limits: dict[str, Quantity] = Field(default_factory=dict)
    """What the pod may use at most."""


#: Resources as a map, as in a manifest.
ResourceMap = Mapping[str, Mapping[str, str | int | float]]


class SecretKey(Spec):
    """A variable's value that is a key of a Secret."""

    secret: str
    """The Secret."""
    key: str
    """Its key."""


class ConfigMapKey(Spec):
    """A variable's value that is a key of a ConfigMap."""

    config_map: str
    """The ConfigMap."""
    key: str
    """Its key."""


def _variable(value: Any) -> Any:
    value = _text(value)
    if not isinstance(value, (str, Mapping, Spec)):
        raise ValueError(f"is a {type(value).__name__}; give a text, a number, a SecretKey or a ConfigMapKey")
    return value


Variable = Annotated[SecretKey | ConfigMapKey | str, BeforeValidator(_variable)]


class ClaimVolume(Spec):
    """A PersistentVolumeClaim, for data and checkpoints."""

    claim: str
    """The claim."""
    path: str
    """Where it is mounted."""
    read_only: bool = False
    """Whether it is mounted without the right to write."""
    sub_path: str | None = None
    """The folder in the volume; its root if not given."""


class SecretVolume(Spec):
    """A Secret as files."""

    secret: str
    """The Secret."""
    path: str
    """Where it is mounted."""


class ConfigMapVolume(Spec):
    """A ConfigMap as files."""

    config_map: str
    """The ConfigMap."""
    path: str
    """Where it is mounted."""


class ScratchVolume(Spec):
    """Space that lives as long as the pod; with `in_memory`, such as for `/dev/shm`."""

    path: str
    """Where it is mounted."""
    size: Quantity | None = None
    """The most that it may hold."""
    in_memory: bool = False
    """Whether it is memory rather than disk."""


Volume = ClaimVolume | SecretVolume | ConfigMapVolume | ScratchVolume


class Toleration(Spec):
    """A taint of nodes that the pods tolerate."""

    key: str | None = None
    """The taint's key; every key if not given."""
    operator: Literal["Exists", "Equal"] = "Exists"
    """Whether the value matters."""
    value: str | None = None
    """The taint's value."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """The taint's effect; every effect if not given."""
    toleration_seconds: Annotated[int, Field(ge=-(1 << 63), lt=1 << 63)] | None = None
    """How long a taint that evicts is tolerated."""


class Scheduling(Spec):
    """Where and when pods are placed."""

    node_selector: dict[str, Text] = Field(default_factory=dict)
    """Labels that nodes must have."""
    tolerations: list[Toleration] = Field(default_factory=list)
    """Taints that are tolerated."""
    affinity: dict[str, Any] | None = None
    """Kubernetes' affinity, as in a pod."""
    topology_spread: list[dict[str, Any]] = Field(default_factory=list)
    """Kubernetes' topology spread constraints, as in a pod."""
    scheduler: str | None = None
    """The scheduler's name."""
    min_available: Number | None = None
    """How many pods must fit before any starts (gang scheduling); all if not given."""


#: The MPI implementations, by their names in lower case.
_IMPLEMENTATIONS = {"": "OpenMPI", "openmpi": "OpenMPI", "intel": "Intel", "mpich": "MPICH"}


def _implementation(value: Any) -> Any:
    """As in the service, upper and lower case are the same."""
    return _IMPLEMENTATIONS.get(value.lower(), value) if isinstance(value, str) else value


class MPIConfig(Spec):
    """How MPI is started."""

    implementation: Annotated[Literal["OpenMPI", "Intel", "MPICH"], BeforeValidator(_implementation)] = "OpenMPI"
    """The MPI implementation in the image."""
    slots_per_worker: Number | None = None
    """Ranks on each Worker; if not given, the number of GPUs, or 1 without GPUs."""
    launch: Literal["ssh", "agent"] | None = None
    """How the Launcher reaches the Workers: by the launch agent if not given, which works in every image."""
    tag_output: bool = True
    """Whether lines of output say which rank wrote them; `logs(rank=…)` needs that.

    Open MPI 4 loses a part of many lines that are printed at once and are shorter than its tag of some 16 characters."""


class FailurePolicy(Spec):
    """What a failure does to the job."""

    worker_failure: Literal["fail", "restart", "tolerate"] | None = None
    """What a failed Worker does: end the job, restart all pods, or be replaced."""
    max_gang_restarts: Number | None = None
    """The most restarts of all pods after an infrastructure failure."""
    start_timeout: str | None = None
    """How long a Worker may take to be ready, for example `10m`."""
    stall_timeout: str | None = None
    """How long the job may be silent before it counts as stalled, for example `10m`."""


class PodFields(TypedDict, total=False):
    """Arguments of Workers and Launcher."""

    resources: Resources | ResourceMap
    image: str | None
    env: Mapping[str, SecretKey | ConfigMapKey | str | float]
    volumes: Sequence[Volume] | Mapping[str, str]
    scheduling: Scheduling | None
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    restart_policy: Literal["Never", "OnFailure", "Always"] | None


def _volumes(value: Any) -> Any:
    """Claims with their paths are volumes too: `{"data": "/data"}`."""
    if isinstance(value, Mapping):
        return [{"claim": claim, "path": path} for claim, path in value.items()]
    return value


class PodSpec(Spec):
    """What Workers and Launcher have in common."""

    resources: Resources = Field(default_factory=Resources)
    """The pod's resources."""
    image: str | None = None
    """The image; the job's if not given."""
    env: dict[str, Variable] = Field(default_factory=dict)
    """Variables in addition to the job's."""
    volumes: Annotated[list[Volume], BeforeValidator(_volumes)] = Field(default_factory=list)
    """Volumes in addition to the job's."""
    scheduling: Scheduling | None = None
    """Where the pod is placed; as the job says if not given."""
    labels: dict[str, Text] = Field(default_factory=dict)
    """Labels of the pod."""
    annotations: dict[str, Text] = Field(default_factory=dict)
    """Annotations of the pod."""
    restart_policy: Literal["Never", "OnFailure", "Always"] | None = None
    """When a container that has ended is started again; never if not given."""


class WorkerSpec(PodSpec):
    """The Workers, which run the training."""

    if TYPE_CHECKING:

        def __init__(self, *, replicas: int = 1, **fields: Unpack[PodFields]) -> None: ...

    replicas: Number = 1
    """The number of Workers, at least 1."""


class LauncherSpec(PodSpec):
    """The Launcher, which runs `mpirun`."""

    if TYPE_CHECKING:

        def __init__(self, **fields: Unpack[PodFields]) -> None: ...


def _mpi(value: Any) -> Any:
    return {"implementation": value} if isinstance(value, str) else value


def _command(value: Any) -> Any:
    if isinstance(value, str):
        raise ValueError("is one text; give a list of words, or ['sh', '-c', '…'] for a shell's line")
    return value


class SpecFields(TypedDict, total=False):
    """Arguments of a specification."""

    command: Sequence[str]
    namespace: str | None
    kind: Literal["mpijob", "trainjob", "pytorchjob", "tfjob"]
    runtime: str | None
    worker_spec: WorkerSpec
    launcher_spec: LauncherSpec
    mpi: MPIConfig | Literal["OpenMPI", "Intel", "MPICH"]
    in_launcher: bool
    workdir: str | None
    slots: int | None
    env: Mapping[str, SecretKey | ConfigMapKey | str | float]
    volumes: Sequence[Volume] | Mapping[str, str]
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    queue: str | None
    priority: str | None
    scheduling: Scheduling
    failures: FailurePolicy
    clean_pod_policy: Literal["None", "Running", "All"] | None
    deadline_seconds: int | None
    retries: int | None
    ttl_seconds: int | None
    suspend: bool
    restricted: bool
    code: Callable[..., Any] | Path | str | Sequence[str | Path] | None
    code_arguments: Mapping[str, Any]


class ShortFields(SpecFields, total=False):
    """The same with the short form, which is for `worker_spec`."""

    workers: int
    gpus_per_worker: int
    cpu_per_worker: str | float
    memory_per_worker: str


class JobFields(ShortFields, total=False):
    """Arguments of a call that creates or changes a job."""

    name: str
    image: str


class MPIJobSpec(Spec):
    """A distributed training job with MPI.

    `workers`, `gpus_per_worker`, `cpu_per_worker` and `memory_per_worker` are short for a `worker_spec`, as in `create_mpijob`.
    """

    if TYPE_CHECKING:

        def __init__(self, *, name: str, image: str = "", **fields: Unpack[ShortFields]) -> None: ...
    else:

        def __init__(self, **fields: Any) -> None:
            short = {path: name for path, name in self._short_names.items() if fields.get(name) is not None}
            super().__init__(short, **short_form(fields))

    name: str
    """The job's name."""
    image: str = ""
    """The image of the Launcher and the Workers. Only a TrainJob may leave it to its runtime."""
    _short_names: ClassVar[Mapping[str, str]] = {
        "worker_spec.replicas": "workers",
        "worker_spec.resources.limits.nvidia.com/gpu": "gpus_per_worker",
        "worker_spec.resources.limits.cpu": "cpu_per_worker",
        "worker_spec.resources.limits.memory": "memory_per_worker",
    }
    command: Annotated[list[str], BeforeValidator(_command)] = Field(default_factory=list)
    """What to run: on every rank, unless it starts the ranks itself or `in_launcher` is set.

    A program that it names has to be in the image or on a volume, or is shipped with `code`. Only pods of `odh local up` see files
    of this machine: there, a command that names a file of the current directory starts in it."""
    namespace: str | None = None
    """The namespace; the client's if not given."""
    kind: Literal["mpijob", "trainjob", "pytorchjob", "tfjob"] = "mpijob"
    """The kind of job. A TrainJob leaves to its runtime what `image=""` and `workers=0` do not say."""
    runtime: str | None = None
    """The runtime of a TrainJob: a ClusterTrainingRuntime, or `trainingruntime/NAME` for one of the namespace."""
    worker_spec: WorkerSpec = Field(default_factory=WorkerSpec)
    """The Workers."""
    launcher_spec: LauncherSpec = Field(default_factory=LauncherSpec)
    """The Launcher."""
    mpi: Annotated[MPIConfig, BeforeValidator(_mpi)] = Field(default_factory=MPIConfig)
    """How MPI is started; a word is the implementation: `mpi="Intel"`."""
    in_launcher: bool = False
    """Whether to run the command once, in the Launcher, exactly as given."""
    workdir: str | None = None
    """The directory in which the command starts, in every pod.

    That of the image if not given; on a local cluster the current one, if the command names a file in it."""
    slots: Number | None = None
    """The same as `mpi.slots_per_worker`."""
    env: dict[str, Variable] = Field(default_factory=dict)
    """Environment of the Launcher, the Workers and their ranks."""
    volumes: Annotated[list[Volume], BeforeValidator(_volumes)] = Field(default_factory=list)
    """Volumes of all pods; `{"claim": "/path"}` mounts claims."""
    labels: dict[str, Text] = Field(default_factory=dict)
    """Labels of the job."""
    annotations: dict[str, Text] = Field(default_factory=dict)
    """Annotations of the job."""
    queue: str | None = None
    """The Kueue queue to submit to."""
    priority: str | None = None
    """The priority class of the pods."""
    scheduling: Scheduling = Field(default_factory=Scheduling)
    """Where and when all pods are placed."""
    failures: FailurePolicy = Field(default_factory=FailurePolicy)
    """What a failure does to the job."""
    clean_pod_policy: Literal["None", "Running", "All"] | None = None
    """Which pods to delete at the end."""
    deadline_seconds: Number | None = None
    """The maximum run time of the Launcher, in seconds."""
    retries: Number | None = None
    """The number of retries of a failed Launcher."""
    ttl_seconds: Number | None = None
    """How long the job is kept after its end, in seconds; for ever if not given."""
    suspend: bool = False
    """Whether to create the job suspended."""
    restricted: bool = False
    """Whether the pods meet the Pod Security Standard `restricted`, as they always do in a namespace that enforces it.

    The image's user must not be root then."""
    code: Callable[..., Any] | Path | str | Sequence[str | Path] | None = None
    """A function, a folder, a file or several of both to ship to every rank; at most 256 KiB when packed.

    The command starts in the folder; folders of a list keep their names."""
    code_arguments: dict[str, Any] = Field(default_factory=dict)
    """Arguments of the function in `code`, as JSON can write them."""

    @property
    def slots_per_worker(self) -> int:
        """Ranks on each Worker."""
        given = self.slots if self.slots is not None else self.mpi.slots_per_worker
        return given if given is not None else max(self.gpus_per_worker, 1)

    @property
    def gpus_per_worker(self) -> int:
        """GPUs of each Worker."""
        limits = self.worker_spec.resources.limits
        return sum(int(amount) for name, amount in limits.items() if is_gpu(name) and amount.isdecimal())

    def with_changes(self, **fields: Unpack[JobFields]) -> MPIJobSpec:
        """A copy with other values: fields, or `workers`, `gpus_per_worker`, `cpu_per_worker`, `memory_per_worker`."""
        copied = {name: getattr(self, name) for name in self.model_fields_set}
        return made({**copied, **fields})


def made(fields: Mapping[str, Any]) -> MPIJobSpec:
    """The specification of fields, which are checked here and not by the type checker."""
    return MPIJobSpec(**fields)


#: The manifest's paths of what a specification has fields for.
_PATHS = {
    "spec.mpiReplicaSpecs[Worker].template.spec.containers[0].": "worker_spec.",
    "spec.mpiReplicaSpecs[Launcher].template.spec.containers[0].": "launcher_spec.",
    "metadata.annotations[": "annotations[",
}


def in_own_words(spec: MPIJobSpec, text: str) -> str:
    """A warning about the manifest that was made of a specification, with the path in the specification."""
    path = next((path for path in _PATHS if text.startswith(path)), None)
    if path is None:
        return text
    field = text.removeprefix(path)
    pod = {"worker_spec.": spec.worker_spec, "launcher_spec.": spec.launcher_spec}.get(_PATHS[path])
    # The job's image is written once, for both.
    is_of_the_job = pod is not None and pod.image is None and field.startswith("image:")
    return field if is_of_the_job else _PATHS[path] + field


#: Arguments of the short form, and the resource that each is of every Worker.
PER_WORKER = {"gpus_per_worker": NVIDIA_GPU, "cpu_per_worker": "cpu", "memory_per_worker": "memory"}


def short_form(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a specification from the arguments of the short form, such as `workers=4, gpus_per_worker=1`."""
    fields = dict(fields)
    given = fields.get("worker_spec")
    base = given.model_dump(exclude_unset=True) if isinstance(given, WorkerSpec) else dict(given or {})
    changed = False
    if fields.get("workers") is not None:
        base["replicas"], changed = fields["workers"], True
    for argument, resource in PER_WORKER.items():
        amount = fields.get(argument)
        if amount is None:
            continue
        resources = base.get("resources") or {}
        resources = {name: dict(amounts) for name, amounts in dict(resources).items()}
        for amounts in [
            resources.setdefault("limits", {}),
            *[r for n, r in resources.items() if n == "requests"],
        ]:
            amounts[resource] = amount
        base["resources"], changed = resources, True
    for argument in ("workers", *PER_WORKER):
        fields.pop(argument, None)
    return {**fields, "worker_spec": base} if changed else fields
