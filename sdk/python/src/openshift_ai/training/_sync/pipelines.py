# Generated from _async/pipelines.py by tools/generate.py.
"""Several jobs: one after another, many within a bound, one again until it succeeds.

All of it is watching and creating. Nothing is kept in the cluster: a pipeline ends with its program, its jobs do not.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal, Protocol

from .._durations import seconds
from .._errors import JobCancelledError, JobFailedError, NotFoundError, TrainingTimeoutError
from .._retries import Retries, Step
from . import runtime
from .job import MPIJob

if TYPE_CHECKING:
    from .._spec import MPIJobSpec
    from .._status import JobChange, JobStatus


class Runner(Protocol):
    """The client of a pipeline: it creates jobs and watches them."""

    def create_mpijob(self, spec: MPIJobSpec | None = None) -> MPIJob:
        """Creates a job."""
        ...

    def watch(
        self,
        *,
        namespace: str | None = None,
        all_namespaces: bool = False,
        kind: Literal["mpijob"],
        timeout: float | timedelta | None,
    ) -> Generator[JobChange, None]:
        """Yields changes of jobs."""
        ...


@dataclass
class JobResult:
    """What became of a job of a pipeline."""

    job: MPIJob
    """The job; that of the last attempt."""
    attempts: int = 1
    """How often it was run."""
    error: JobFailedError | JobCancelledError | None = None
    """Why it failed, or that it was cancelled or deleted."""
    failures: list[JobFailedError] = field(default_factory=list)
    """Why earlier attempts failed, each with its `job`."""
    outputs: dict[str, str] = field(default_factory=dict)
    """What it has put out for later jobs: its lines `odh-output NAME=VALUE`."""

    @property
    def has_succeeded(self) -> bool:
        """Whether it has succeeded."""
        return self.error is None


def run(
    client: Runner,
    spec: MPIJobSpec,
    *,
    retries: Retries | None = None,
    timeout: float | timedelta | None = None,
    on_change: Callable[[JobStatus], runtime.MaybeAwaitable] | None = None,
) -> JobResult:
    """Runs a job and, as `retries` says, again; attempts after the first are named `NAME-2`, `NAME-3`, ….

    A failure is in the result, not raised. `timeout` bounds all attempts together.
    """
    policy = retries or Retries(attempts=1)
    limit = seconds(timeout)
    deadline = None if limit is None else monotonic() + limit
    attempt, current = 1, spec
    failures: list[JobFailedError] = []
    while True:
        job = client.create_mpijob(current)
        left = None if deadline is None else max(deadline - monotonic(), 0.1)
        if on_change:
            job.monitor(on_change, timeout=left)
        else:
            job.wait_for_completion(left, raise_on_failure=False)
        if job.status.has_succeeded:
            return JobResult(job, attempt, failures=failures, outputs=job.outputs())
        error = job.failure()
        if isinstance(error, JobCancelledError):
            # Nobody wants another attempt.
            return JobResult(job, attempt, error, failures)
        following = policy.next(current, attempt, error)
        if following is None:
            return JobResult(job, attempt, error, failures)
        wait = policy.backoff.wait(attempt) or 0.0
        if deadline is not None and monotonic() + wait > deadline:
            message = f"attempt {attempt} has failed, and there is no time left for another: {error.message}"
            raise TrainingTimeoutError(message, hint="give a longer timeout=") from error
        runtime.sleep(wait)
        failures.append(error)
        attempt += 1
        current = following.with_changes(name=f"{spec.name}-{attempt}")


def chain(
    client: Runner, steps: Iterable[Step | MPIJobSpec], *, timeout: float | timedelta | None = None
) -> list[JobResult]:
    """Runs jobs one after another, each as the one that ran before has ended; returns the results of those that ran.

    A step that does not run is passed over: `[train, Step(report), Step(clean, when="always")]` cleans in any case.
    `timeout` bounds each step.
    """
    results: list[JobResult] = []
    for one in steps:
        step = one if isinstance(one, Step) else Step(one)
        previous = results[-1] if results else None
        if previous is not None and not step.runs_after(previous.has_succeeded):
            continue
        spec = step.spec(previous) if callable(step.spec) else step.spec
        results.append(run(client, spec, retries=step.retries, timeout=timeout))
    return results


def sweep(
    client: Runner,
    specs: Sequence[MPIJobSpec],
    *,
    at_most: int = 4,
    timeout: float | timedelta | None = None,
    stop_on_failure: bool = False,
    on_change: Callable[[JobStatus], runtime.MaybeAwaitable] | None = None,
) -> list[JobResult]:
    """Runs many jobs, `at_most` so many at a time, and returns their results in the order of `specs`.

    With `stop_on_failure`, no further jobs are created after the first failure; those that run are waited for.
    """
    if at_most < 1:
        raise ValueError("at_most must be at least 1")
    limit = seconds(timeout)
    deadline = None if limit is None else monotonic() + limit
    waiting = list(enumerate(specs))[::-1]
    jobs: dict[int, MPIJob] = {}
    running: dict[tuple[str, str, str], int] = {}
    results: dict[int, JobResult] = {}
    places = {spec.namespace for spec in specs}
    where = {"all_namespaces": True} if len(places) > 1 else {"namespace": next(iter(places), None)}
    while waiting or running:
        while waiting and len(running) < at_most:
            index, spec = waiting.pop()
            jobs[index] = client.create_mpijob(spec)
            running[jobs[index].status.key] = index
        left = None if deadline is None else max(deadline - monotonic(), 0.1)
        ended = _next_end(client, running, where, left, on_change)
        for status in ended:
            index = running.pop(status.key)
            results[index] = _result(jobs[index], status)
            if stop_on_failure and not results[index].has_succeeded:
                waiting.clear()
    return [results[index] for index in sorted(results)]


def _next_end(
    client: Runner,
    running: dict[tuple[str, str, str], int],
    where: dict[str, Any],
    timeout: float | None,
    on_change: Callable[[JobStatus], runtime.MaybeAwaitable] | None,
) -> list[JobStatus]:
    """Watches until at least one of the jobs has ended."""
    changes = client.watch(**where, kind="mpijob", timeout=timeout)
    with closing(changes):
        for change in changes:
            if change.status.key not in running:
                continue
            if on_change and change.type == "changed":
                runtime.settled(on_change(change.status))
            if change.type == "deleted" or change.status.has_ended:
                return [change.status]
    return []


def _result(job: MPIJob, status: JobStatus) -> JobResult:
    job.take(status)
    if status.has_succeeded:
        return JobResult(job, outputs=job.outputs())
    try:
        return JobResult(job, error=job.failure())
    except NotFoundError:
        message = f"{job.kind} {job.namespace}/{job.name} was deleted before it ended"
        return JobResult(job, error=JobCancelledError(message, reason="Deleted"))
