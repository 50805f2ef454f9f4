"""The errors of the SDK.

TrainingError
├── ConfigurationError        no service, token or kubeconfig was found, or it cannot be read
├── UsageError                the request is not one of this API (also an older or newer service)
├── UnauthenticatedError      no valid token
├── ForbiddenError            a permission is missing, which the message names
├── NotFoundError             no such job, pod, namespace or kind
├── InvalidSpecError          `fields` names every fault with its path and a fix; also a ValueError
├── QuotaExceededError        a quota or the most concurrent jobs are reached
├── ConflictError             the name is taken, or the job is not in a state for it
├── UnavailableError          the service or the cluster does not answer
│   └── TooManyRequestsError  more requests than one user may send
├── TrainingTimeoutError      a wait has ended before the job; also a TimeoutError
├── JobFailedError            the job failed: cause, evidence and fix
└── JobCancelledError         the job was cancelled, deleted or replaced while it was waited for
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ._models import Failure
    from ._status import JobStatus


class FieldFault(NamedTuple):
    """What is wrong with a field."""

    path: str
    """The field's path."""
    fault: str
    """What is wrong."""
    fix: str = ""
    """What to write instead."""

    def __str__(self) -> str:
        text = f"{self.path}: {self.fault}" if self.path else self.fault
        return f"{text} ({self.fix})" if self.fix else text


class TrainingError(Exception):
    """The root of every error that this package raises."""

    code: str = "Error"
    """The class of the error: stable, for programs."""
    retryable: bool = False
    """Whether the same call may succeed later without a change."""

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        reason: str = "",
        hint: str = "",
        fields: Sequence[FieldFault] = (),
        details: Sequence[str] = (),
        status: int | None = None,
        retryable: bool | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        """What happened."""
        self.code = code or type(self).code
        self.reason = reason or self.code
        """One CamelCase word, finer than the code."""
        self.hint = hint
        """What to do."""
        self.fields = tuple(fields)
        """What is wrong with which field."""
        self.details = tuple(details) or tuple(str(fault) for fault in self.fields)
        """More about it, one line each: faults of fields, or evidence for a cause."""
        self.status = status
        """The status of the HTTP response, if there was one."""
        self.retryable = type(self).retryable if retryable is None else retryable
        self.retry_after = retry_after
        """The seconds after which to try again, if the service said so."""

    def __str__(self) -> str:
        lines = [self.message]
        said = {
            str(one)
            for one in self.fields
            if _names(self.message, one) and (one.fix == self.hint or one.fix in self.message)
        }
        lines += [f"  {line}" for line in self.details if line not in self.message and line not in said]
        lines += [f"What to do: {self.hint}"] if self.hint and self.hint not in "\n".join(lines) else []
        return "\n".join(lines)


def _names(message: str, one: FieldFault) -> bool:
    return f"{one.path}: {one.fault}" in message or f"{one.path} {one.fault}" in message


class ConfigurationError(TrainingError):
    """No service, token or kubeconfig was found, or it cannot be read."""

    code = "Configuration"


class UsageError(TrainingError):
    """The request is not one of this API."""

    code = "Usage"


class UnauthenticatedError(TrainingError):
    """No valid token."""

    code = "Unauthenticated"


class ForbiddenError(TrainingError):
    """A permission is missing, which the message names."""

    code = "NotAllowed"


class NotFoundError(TrainingError):
    """No such job, pod, namespace or kind."""

    code = "NotFound"


class InvalidSpecError(TrainingError, ValueError):
    """A specification or a manifest is invalid; `fields` names every fault with its path and a fix."""

    code = "Invalid"


def field_error(path: str, fault: str, fix: str) -> InvalidSpecError:
    """The error of one field."""
    return InvalidSpecError(f"{path} {fault}", fields=[FieldFault(path, fault, fix)], hint=fix)


class QuotaExceededError(TrainingError):
    """A quota or the most concurrent jobs are reached."""

    code = "QuotaExceeded"


class ConflictError(TrainingError):
    """The name is taken, or the job is not in a state for the request."""

    code = "Conflict"


class UnavailableError(TrainingError):
    """The service or the cluster does not answer."""

    code = "Unavailable"
    retryable = True


class TooManyRequestsError(UnavailableError):
    """More requests than one user may send."""

    code = "TooManyRequests"


class TrainingTimeoutError(TrainingError, TimeoutError):
    """A wait has ended before the job; the job goes on."""

    code = "Timeout"
    retryable = True


# What the SDK can add to the advice for a cause.
_OWN_ADVICE = {
    "ExecutableNotFound": "Files of this machine come into the job with code=; workdir= names the folder of the "
    "image in which the command starts.",
}


# Causes of which the program's own last lines say more than the evidence.
_PROGRAMS_OWN = ("RankExited", "Unknown")


def failed_rank(message: str) -> int | None:
    """The rank that failed first, if the message of a failure names it."""
    named = re.match(r"Rank (\d+)\b", message)
    return int(named[1]) if named else None


class JobFailedError(TrainingError):
    """The job failed."""

    code = "JobFailed"

    def __init__(
        self,
        message: str,
        *,
        job: JobStatus,
        failure: Failure | None,
        traceback: Sequence[str] = (),
        last_lines: Sequence[str] = (),
    ) -> None:
        evidence = tuple(failure.evidence) if failure else ()
        reason = (failure.cause if failure else "") or job.cause or "Unknown"
        hints = [failure.suggestion if failure else "", _OWN_ADVICE.get(reason, "")]
        said = tuple(last_lines) if reason in _PROGRAMS_OWN else ()
        super().__init__(
            message,
            reason=reason,
            hint=" ".join(hint for hint in hints if hint),
            details=traceback or ((*said, *(line for line in evidence if line not in said))),
        )
        self.traceback = tuple(traceback)
        """The last lines of the Python traceback of the rank that failed, if it printed one."""
        self.last_lines = tuple(last_lines)
        """The last lines that the program printed; those of the rank that failed if the launcher tags lines."""
        self.job = job
        """The job's last status."""
        self.failure = failure
        """Cause, evidence, advice, the pod that failed first and its exit code, if they are known."""
        self.cause = self.reason
        """The cause, one CamelCase word, for example `OutOfMemory`."""
        self.exit_code = failure.exit_code if failure else None
        """The exit code of the container that failed first."""
        self.worker = failure.worker if failure else None
        """The index of the Worker that failed first, if it was a Worker."""
        self.link = failure.link if failure else ""
        """Where to read more."""


class JobCancelledError(TrainingError):
    """The job was cancelled, deleted or replaced while it was waited for."""

    code = "JobCancelled"
    exit_code: int | None = None
    """As of a job that failed: the exit code of a container; nobody waits for that."""

    @property
    def cause(self) -> str:
        """`Cancelled` or `Deleted`."""
        return self.reason


class JobWarning(UserWarning):
    """What to improve about a job that was created, or what it waits for."""


class WaitInterrupted(KeyboardInterrupt):
    """Ctrl-C during a wait. The job goes on; the message says how to come back to it."""
