"""What the service would refuse in a specification, found before anything is sent.

Rules, paths and texts are those of the service; both go through the same cases, `openapi/specifications.yaml`. What depends on the
cluster, the service alone checks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ._annotations import annotation_faults, job_annotations, quoted
from ._errors import FieldFault, InvalidSpecError
from ._files import missing
from ._spec import NVIDIA_GPU, ScratchVolume, made, short_form

if TYPE_CHECKING:
    from ._spec import MPIJobSpec

#: Kubernetes' quantities that are not negative, and the most characters of one.
_QUANTITY = re.compile(r"([0-9]+(\.[0-9]*)?|\.[0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][-+]?[0-9]+)?")
_LONGEST_QUANTITY = 128
#: Names of images, by the grammar of `distribution/reference`; the part before the first slash is a host if it looks like one.
_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*)"
_HOST = rf"(?:localhost|{_LABEL}(?:\.{_LABEL})+|(?=[^/]*[A-Z:]){_LABEL})(?::[0-9]+)?"
_IMAGE = re.compile(
    rf"((?:{_HOST}/)?{_COMPONENT}(?:/{_COMPONENT})*)(?::[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}})?"
    r"(?:@[A-Za-z][A-Za-z0-9+._-]*:[0-9A-Fa-f]{32,})?"
)
_LONGEST_IMAGE = 255
_PLAIN = re.compile(r"[0-9]{1,20}")
_LEAST_BYTES = 1 << 20
#: The longest host name, which the job's name begins.
_LONGEST_NAME = 63
#: The most Workers of a job.
_MOST_WORKERS = 10_000
#: Programs that start ranks; a command that contains one of them is not changed.
STARTERS = frozenset({"mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun"})


def starts_ranks(command: list[str]) -> bool:
    """Whether a command starts the ranks itself."""
    parts = (part for word in command for part in re.split(r"[\s;&|()]", word))
    return any(part.rsplit("/", 1)[-1] in STARTERS for part in parts)


def faults(spec: MPIJobSpec) -> list[FieldFault]:
    """Everything that is wrong with a specification, and with the job that it makes, as far as it can be seen here.

    What other kinds than an MPIJob may have, the service says.
    """
    if spec.kind != "mpijob":
        return []
    of_fields = [*_fields(spec), *_amounts(spec), *_pods(spec), *_code(spec)]
    return [*of_fields, *_name(spec), *annotation_faults(job_annotations(spec)), *_limits(spec)]


def _fields(spec: MPIJobSpec) -> Iterator[FieldFault]:
    gpus = spec.worker_spec.resources.limits.get(NVIDIA_GPU, "0")
    if not re.fullmatch("[0-9]+", gpus):
        is_negative = re.fullmatch("-[0-9]+", gpus)
        yield FieldFault("gpus", "is negative" if is_negative else f'"{gpus}" is not a whole number', "use 0 or more")
    if spec.runtime:
        yield FieldFault("runtime", "is for a TrainJob", "leave it out, or create a TrainJob")
    if not spec.image:
        yield FieldFault("image", "is required", "name the image that has the program")
    elif not _is_image(spec.image):
        fix = "write it as registry/path:tag, such as quay.io/team/train:1; the path has no upper-case letters"
        yield FieldFault("image", f'"{spec.image}" is not the name of an image', fix)
    if not spec.command and not callable(spec.code):
        yield FieldFault("command", "is required", "give a program and its arguments")
    if spec.worker_spec.replicas < 1:
        yield FieldFault("workers", f"must be at least 1, but is {spec.worker_spec.replicas}")
    if spec.worker_spec.replicas > _MOST_WORKERS:
        fault = f"must be at most {_MOST_WORKERS}, but is {spec.worker_spec.replicas}"
        yield FieldFault("workers", fault, "use fewer Workers, with more slots each")
    slots = spec.slots if spec.slots is not None else spec.mpi.slots_per_worker
    if slots is not None and slots < 1:
        yield FieldFault("slots", "must be at least 1", "it is the number of ranks per Worker")


def _is_image(text: str) -> bool:
    match = _IMAGE.fullmatch(text)
    return match is not None and len(match[1]) <= _LONGEST_IMAGE


def _amounts(spec: MPIJobSpec) -> Iterator[FieldFault]:
    limits = spec.worker_spec.resources.limits
    for name in ("cpu", "memory"):
        yield from _amount(name, name, limits.get(name))
    for pod, part in (("worker_spec", spec.worker_spec), ("launcher_spec", spec.launcher_spec)):
        for kind, amounts in (("requests", part.resources.requests), ("limits", part.resources.limits)):
            is_above = pod == "worker_spec" and kind == "limits"
            for name, text in amounts.items():
                if not (is_above and name in ("cpu", "memory", NVIDIA_GPU)):
                    yield from _amount(f"{pod}.resources.{kind}.{name}", name, text)
    for volume in _volumes(spec):
        if isinstance(volume, ScratchVolume):
            yield from _amount("volumes.size", "memory", volume.size)


def _amount(path: str, resource: str, text: str | None) -> Iterator[FieldFault]:
    fixes = {"cpu": "use 4, 0.5 or 500m", "memory": "use 512Mi, 16Gi or 1.5G"}
    # The service takes an empty text for one that is not given.
    if text and (not _QUANTITY.fullmatch(text) or len(text) > _LONGEST_QUANTITY):
        yield FieldFault(path, f'"{text}" is not a quantity', fixes.get(resource, "use a number such as 1"))
    if text and resource == "memory" and text.endswith("m"):
        yield FieldFault(path, "is in thousandths of a byte", "use Mi for mebibytes")
    if text and resource == "memory" and _PLAIN.fullmatch(text) and 0 < int(text) < _LEAST_BYTES:
        # No container runs in less: the unit is missing.
        yield FieldFault(path, f"is {text} bytes", "use Mi for mebibytes, Gi for gibibytes")


def _volumes(spec: MPIJobSpec) -> list[object]:
    return [*spec.volumes, *spec.worker_spec.volumes, *spec.launcher_spec.volumes]


def _pods(spec: MPIJobSpec) -> Iterator[FieldFault]:
    if spec.workdir is not None and not spec.workdir.startswith("/"):
        yield FieldFault("workdir", "is not an absolute path", "begin it with /")
    for name in sorted({*spec.env, *spec.worker_spec.env, *spec.launcher_spec.env}):
        if not name or "=" in name or "\0" in name or name[0] in "0123456789":
            yield FieldFault("env", f'"{name}" is not a valid variable name', "use NAME=VALUE")
    for volume in _volumes(spec):
        path = str(getattr(volume, "path", ""))
        if not path.startswith("/") or ":" in path:
            names = (getattr(volume, field, None) for field in ("claim", "secret", "config_map"))
            what = next((name for name in names if name), "scratch space")
            yield FieldFault("volumes", f'mounts {what} at "{path}"', "use an absolute path without a colon")


def _code(spec: MPIJobSpec) -> Iterator[FieldFault]:
    if spec.code is not None and (spec.in_launcher or starts_ranks(spec.command)):
        fix = "leave mpirun out of command and in_launcher unset: the ranks are started for you"
        yield FieldFault("code", "is unpacked by every rank, but the command starts the ranks", fix)
    elif callable(spec.code) and spec.command:
        fix = "omit it, or ship the file that it names"
        yield FieldFault("command", "is never run, because code is a function", fix)
    elif spec.code is not None and not callable(spec.code) and (fault := missing(spec.code)):
        yield fault
    if spec.code_arguments and not callable(spec.code):
        yield FieldFault("code_arguments", "are arguments of a function, but code is not one", "add them to command")


def _name(spec: MPIJobSpec) -> Iterator[FieldFault]:
    name, path = spec.name, "metadata.name"
    if not name:
        yield FieldFault(path, "is missing", "give the job a name")
        return
    # As the service does, where the number itself is a fault.
    workers = spec.worker_spec.replicas if 1 <= spec.worker_spec.replicas <= _MOST_WORKERS else 1
    suffix = f"-worker-{workers - 1}"
    length = len((name + suffix).encode())
    if length > _LONGEST_NAME:
        fault = f"{quoted(name)} results in the host name {quoted(name + suffix)} with {length} characters; at most"
        most = max(_LONGEST_NAME - len(suffix), 0)
        yield FieldFault(path, f"{fault} {_LONGEST_NAME} are allowed", f"use a name of at most {most} characters")
    if not re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", name):
        fix = "begin with a lower-case letter and use only lower-case letters, digits and '-' (no dots)"
        yield FieldFault(path, f"{quoted(name)} is not a valid host name", fix)


def _limits(spec: MPIJobSpec) -> Iterator[FieldFault]:
    numbers = {
        "ttlSecondsAfterFinished": spec.ttl_seconds,
        "activeDeadlineSeconds": spec.deadline_seconds,
        "backoffLimit": spec.retries,
    }
    for field, number in numbers.items():
        if number is not None and number < 0:
            yield FieldFault(f"spec.runPolicy.{field}", f"is {number}", "use 0 or more, or omit it")


def made_of(fields: Mapping[str, Any]) -> MPIJobSpec:
    """The specification of fields. If some have the wrong type, the error has the faults of the others, too."""
    try:
        return made(fields)
    except InvalidSpecError as error:
        raise _with_the_rest(error, short_form(fields)) from None


def _with_the_rest(error: InvalidSpecError, fields: Mapping[str, Any]) -> InvalidSpecError:
    """The error with the faults of the fields that have the right type, so that one run shows all of them."""
    wrong = {fault.path.split(".")[0] for fault in error.fields}
    if "kind" in wrong:
        return error
    try:
        rest = made({"name": "a", "image": "a"} | {name: value for name, value in fields.items() if name not in wrong})
    except InvalidSpecError:
        return error
    # Without a wrong `code`, a command seems to be missing.
    wrong |= {"command"} if "code" in wrong else set()
    found = [*error.fields, *(fault for fault in faults(rest) if fault.path.split(".")[0] not in wrong)]
    listed = "; ".join(str(fault) for fault in found)
    return InvalidSpecError(f"MPIJobSpec is invalid: {listed}", fields=found, hint=error.hint)


def check(spec: MPIJobSpec) -> None:
    """Raises `InvalidSpecError` with every fault."""
    found = faults(spec)
    if found:
        listed = "; ".join(str(fault) for fault in found)
        raise InvalidSpecError(f"the specification is invalid: {listed}", fields=found)
