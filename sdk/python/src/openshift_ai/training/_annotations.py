"""Policies of a job, which MPIJobs have as annotations: how they are written, and what is wrong with them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ._errors import FieldFault

if TYPE_CHECKING:
    from ._spec import MPIJobSpec

_OURS = "training.opendatahub.io/"
_POLICIES = ("worker_failure", "max_gang_restarts", "start_timeout", "stall_timeout")
#: Annotations with a few words for values, and what to do about others; in the order in which the service reads them.
_WORDS = {
    "launch": (("ssh", "agent"), 'use "ssh" or "agent"'),
    "network-policy": (("isolated",), 'use "isolated", or omit it'),
    "avoid-failed-nodes": (("prefer", "require"), 'use "prefer" or "require", or omit it'),
    "worker-failure": (("fail", "restart", "tolerate"), 'use "fail", "restart" or "tolerate", or omit it'),
    "progress": (("on", "off"), 'use "on" or "off", or omit it'),
}
_ORDER = (
    "launch",
    "start-timeout",
    "stall-timeout",
    "network-policy",
    "max-gang-restarts",
    "avoid-failed-nodes",
    "worker-failure",
    "progress",
)
#: A larger number of restarts is taken for a mistake.
_MOST_RESTARTS = 1000
#: The longest duration: ten years.
_LONGEST_SECONDS = 10 * 365 * 24 * 3600
_SMALL = {"milli": 1e-3, "m": 1e-3, "micro": 1e-6, "u": 1e-6, "µ": 1e-6, "nano": 1e-9, "n": 1e-9}
_UNITS = {
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600.0),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **{prefix + word: part for prefix, part in _SMALL.items() for word in ("s", "sec", "secs", "second", "seconds")},
    "milli": 1e-3,
    "micro": 1e-6,
    "nano": 1e-9,
}
#: A number with its unit; and a duration as ISO 8601 or a clock writes it, which is left to the service.
_PART = r"([0-9]+(?:[.,][0-9]+)?)\s*([a-zµ]+)[\s,]*"
_OTHER = re.compile(r"\+?(PT[0-9HMS.,]+|[0-9]+(:[0-9]{2}){1,2}([.,][0-9]+)?)", re.IGNORECASE)


def job_annotations(spec: MPIJobSpec) -> dict[str, str]:
    """The job's annotations, with those that policies are written as."""
    given = {name: getattr(spec.failures, name) for name in _POLICIES}
    policies = {_OURS + name.replace("_", "-"): str(value) for name, value in given.items() if value is not None}
    launch = {f"{_OURS}launch": spec.mpi.launch} if spec.mpi.launch else {}
    return {**launch, **policies, **spec.annotations}


def annotation_faults(annotations: dict[str, str]) -> list[FieldFault]:
    """What the service would refuse in annotations."""
    found = []
    for name in _ORDER:
        text = annotations.get(_OURS + name)
        fault = None if text is None else _fault(name, text)
        if fault:
            found.append(FieldFault(f"metadata.annotations[{_OURS}{name}]", *fault))
    return found


def _fault(name: str, text: str) -> tuple[str, str] | None:
    if name.endswith("-timeout"):
        is_wrong = not _may_be_duration(text)
        return (f"{quoted(text)} is not a duration", "use a duration like 90s, 10m or 1h30m") if is_wrong else None
    if name == "max-gang-restarts":
        is_wrong = not re.fullmatch(r"\+?[0-9]+", text) or int(text) > _MOST_RESTARTS
        return (f"is {quoted(text)}", f"use a whole number from 0 to {_MOST_RESTARTS}") if is_wrong else None
    words, fix = _WORDS[name]
    return None if text in words else (f"is {quoted(text)}", fix)


def _may_be_duration(text: str) -> bool:
    text = text.strip()
    if _OTHER.fullmatch(text):
        return bool(re.search("[1-9]", text))
    parts = re.findall(_PART, text)
    if not re.fullmatch(rf"\+?({_PART})+", text) or any(unit not in _UNITS for _, unit in parts):
        return False
    return 0 < sum(float(amount.replace(",", ".")) * _UNITS[unit] for amount, unit in parts) <= _LONGEST_SECONDS


def quoted(text: str) -> str:
    """A text in quotation marks, as the service writes it."""
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0"}
    return '"' + "".join(escapes.get(c, c if c.isprintable() else f"\\u{{{ord(c):x}}}") for c in text) + '"'
