"""Which failures are worth another attempt, and with what changes."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ._backoff import Backoff

if TYPE_CHECKING:
    from ._errors import JobFailedError
    from ._spec import MPIJobSpec

INFRASTRUCTURE = frozenset(
    {
        "ConnectionRefused",
        "ConnectionTimeout",
        "DaemonLost",
        "Evicted",
        "HostUnresolvable",
        "NodeLost",
        "PeerUnreachable",
        "Preempted",
        "WorkerLost",
    }
)
"""Causes that are not the program's: the same job may succeed on other nodes or at another time."""
#: Changes a specification for the next attempt, or returns `None` if there is no use in one; the number is that of the failed
#: attempt, from 1.
Change = Callable[["MPIJobSpec", int], "MPIJobSpec | None"]


def more_memory(factor: float = 2.0, most: str | None = None) -> Change:
    """Gives each Worker more memory for the next attempt: `factor` times as much, and no more than `most`.

    A job whose Workers had `most` already is not run again.
    """
    if factor <= 1:
        raise ValueError("factor must be more than 1")

    def change(spec: MPIJobSpec, _: int) -> MPIJobSpec | None:
        given = spec.worker_spec.resources.limits.get("memory")
        if given is None:
            raise ValueError("the Workers have no memory limit that could be raised; set memory_per_worker")
        wanted = int(size(given) * factor)
        wanted = min(wanted, size(most)) if most else wanted
        if wanted <= size(given):
            return None
        mebibytes = -(-wanted // (1 << 20))
        return spec.with_changes(memory_per_worker=f"{mebibytes}Mi")

    return change


_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18}
_UNITS |= {f"{letter}i": 1 << (10 * power) for power, letter in enumerate("KMGTPE", 1)}


def size(quantity: str) -> int:
    """The bytes of a quantity such as `16Gi`."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]*)?)([kMGTPE]|[KMGTPE]i)?", quantity)
    if not found:
        raise ValueError(f"{quantity!r} is not a size such as 16Gi")
    return int(float(found[1]) * _UNITS[found[2] or ""])


@dataclass(frozen=True)
class Retries:
    """When a failed job is run again: how often, after which causes, and with which changes."""

    attempts: int = 3
    """The most attempts, the first one included."""
    causes: frozenset[str] = INFRASTRUCTURE
    """Causes after which the same job is run again."""
    changes: dict[str, Change] = field(default_factory=dict)
    """Causes after which a changed job is run: `{"OutOfMemory": more_memory(2)}`; a change to `None` ends the attempts."""
    backoff: Backoff = field(default_factory=lambda: Backoff(attempts=1_000, first=5, longest=300))
    """The waits between attempts."""

    def next(self, spec: MPIJobSpec, attempt: int, error: JobFailedError) -> MPIJobSpec | None:
        """The specification of the next attempt after this one failed; `None` if there is none."""
        if attempt >= self.attempts:
            return None
        change = self.changes.get(error.cause)
        if change is None and error.cause not in self.causes:
            return None
        return change(spec, attempt) if change else spec


@dataclass
class Step:
    """A job of a chain."""

    spec: MPIJobSpec | Callable[[Any], MPIJobSpec]
    """The job, or a function that makes it from the result of the step before, for example from its `outputs`."""
    when: str = "success"
    """After what it runs: `success` or `failure` of the step before, or `always`."""
    retries: Retries | None = None
    """When it is run again."""

    def __post_init__(self) -> None:
        if self.when not in ("success", "failure", "always"):
            raise ValueError(f"when={self.when!r} is none of success, failure and always")

    def runs_after(self, has_succeeded: bool) -> bool:
        """Whether the step runs after one that has ended so."""
        return self.when == "always" or (self.when == "success") == has_succeeded
