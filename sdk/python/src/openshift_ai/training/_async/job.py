"""A job: its status, its output, waiting for it, and changing it."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal, Protocol
from urllib.parse import unquote

from .. import _notes
from .._durations import seconds
from .._errors import (
    ConflictError,
    JobCancelledError,
    JobFailedError,
    NotFoundError,
    TrainingError,
    TrainingTimeoutError,
    WaitInterrupted,
    failed_rank,
)
from .._lazy import Module
from .._traceback import TAIL_LINES, last_traceback, last_words
from . import runtime
from .transport import DeadlinePassed

if TYPE_CHECKING:
    from .. import _models as models
    from .. import _status as statuses
    from .._status import JobDetails, JobStatus, LogLine, Metrics
    from .transport import AsyncTransport
else:
    models, statuses = Module("_models"), Module("_status")

Level = Literal["debug", "info", "warning", "error"]
#: How many seconds a pod may take that is started to read the files of a job that has ended.
READER_PATIENCE = 120


class AsyncJobOwner(Protocol):
    """The client that jobs are of, as far as they need it."""

    @property
    def transport(self) -> AsyncTransport:
        """The connection to the service."""
        ...

    async def from_yaml(self, source: str | Path, *, namespace: str | None = None) -> AsyncMPIJob:
        """Creates a job from a manifest."""
        ...

    async def put_notification_rule(
        self, name: str, *, url: str | None, email: str | None, job: str | None, kind: str, phases: Sequence[str]
    ) -> models.NotificationRule:
        """Creates or replaces a rule."""
        ...


class AsyncMPIJob:
    """A job of the cluster: an MPIJob, or a TrainJob, PyTorchJob or TFJob."""

    def __init__(self, client: AsyncJobOwner, status: JobStatus) -> None:
        self._client = client
        self._status = status
        self.warnings: list[str] = []
        """What to improve, one sentence each, if the job was created by this object's client."""
        self.waits: list[models.Finding] = []
        """What the job waited for when it was created."""

    @classmethod
    async def from_yaml(cls, client: AsyncJobOwner, source: str | Path, *, namespace: str | None = None) -> AsyncMPIJob:
        """Creates a job from a manifest or a file with one, as `client.from_yaml` does."""
        return await client.from_yaml(source, namespace=namespace)

    def __repr__(self) -> str:
        return f"<{self.kind} {self.namespace}/{self.name}: {self._status.summary}>"

    def _repr_html_(self) -> str:
        from .._html import job_table

        return job_table([self._status])

    @property
    def status(self) -> JobStatus:
        """The status when it was last asked for; `refresh()` asks again."""
        return self._status

    @property
    def name(self) -> str:
        """The name."""
        return self._status.name

    @property
    def namespace(self) -> str:
        """The namespace."""
        return self._status.namespace

    @property
    def kind(self) -> str:
        """The kind: `MPIJob`, `TrainJob`, `PyTorchJob` or `TFJob`."""
        return self._status.kind

    @property
    def uid(self) -> str:
        """The Kubernetes UID."""
        return self._status.uid

    def take(self, status: JobStatus) -> None:
        """Takes a status that was read elsewhere, such as in a watch of many jobs."""
        self._status = status

    @property
    def path(self) -> dict[str, str]:
        """The job's place in the API."""
        return {"namespace": self.namespace, "kind": self.kind.lower(), "name": self.name}

    async def refresh(self) -> JobStatus:
        """Asks for the status."""
        return (await self.details()).row_status

    async def details(self) -> JobDetails:
        """Asks for everything that is known: conditions, pods, why it failed, the manifest."""
        answer = await self._client.transport.call(models.GET_JOB, self.path)
        found = statuses.JobDetails.model_validate(answer)
        self._status = found.row_status
        return found

    # Waiting

    async def watch(self, timeout: float | timedelta | None = None) -> AsyncGenerator[JobStatus, None]:
        """Yields the status at once, and again whenever it changes, until the job has ended.

        Raises `TrainingTimeoutError` after `timeout` seconds, and `JobCancelledError` if the job is deleted.
        """
        from .._resume import Board

        limit = seconds(timeout)
        deadline = None if limit is None else monotonic() + limit
        board = Board()
        query = {"namespace": self.namespace, "kind": self.kind.lower(), "q": self.name}
        events = self._client.transport.stream(
            models.WATCH_JOBS, {}, lambda: {**query, "lastEventId": board.id or None}, deadline
        )
        try:
            async with aclosing(events):
                async for batch in events:
                    for change in [change for event in batch for change in board.take(event)]:
                        if change.status.key != self._status.key:
                            continue
                        if change.type == "deleted" or (self.uid and change.status.uid != self.uid):
                            raise self._cancelled()
                        self._status = change.status
                        yield change.status
                        if change.status.has_ended:
                            return
                    if board.is_complete and not board.has(self._status.key):
                        # Another replica of the service may know of the job before this one does.
                        status = await self._refresh_or_cancelled()
                        if status.has_ended:
                            yield status
                            return
        except DeadlinePassed:
            raise await self._timed_out(limit or 0) from None

    async def _watch_aloud(
        self, timeout: float | timedelta | None, on_note: Callable[[str], runtime.MaybeAwaitable] | None
    ) -> AsyncGenerator[JobStatus, None]:
        """As `watch`, and says what the job waits for and, once it runs, what may be wrong with it all the same."""
        waits = _notes.Waits()
        say = on_note or _notes.log
        is_warned = False
        async with aclosing(self.watch(timeout)) as seen:
            async for status in seen:
                if note := waits.news(status):
                    await runtime.settled(say(note))
                if not is_warned and status.phase in ("Running", "Succeeded"):
                    is_warned = True
                    for warning in await self._doubts():
                        await runtime.settled(say(f"{self.name}: {warning}"))
                yield status

    async def _doubts(self) -> list[str]:
        """What may be wrong with the job although it runs or succeeded; nothing if it cannot be read."""
        try:
            answer = await self._client.transport.call(models.GET_JOB, self.path)
        except TrainingError:
            return []
        return statuses.JobDetails.model_validate(answer).warnings

    async def _refresh_or_cancelled(self) -> JobStatus:
        before = self.uid
        try:
            status = await self.refresh()
        except NotFoundError:
            raise self._cancelled() from None
        if before and status.uid != before:
            raise self._cancelled()
        return status

    async def monitor(
        self,
        callback: Callable[[JobStatus], runtime.MaybeAwaitable],
        timeout: float | timedelta | None = None,
    ) -> JobStatus:
        """Calls `callback` with the status at once and whenever it changes; returns the last one when the job has ended.

        A failure of the job is a status here, not an error.
        """
        with self._interruptible("monitor(callback)"):
            async with aclosing(self.watch(timeout)) as seen:
                async for status in seen:
                    await runtime.settled(callback(status))
        return self._status

    async def wait_for_completion(
        self,
        timeout: float | timedelta | None = None,
        *,
        raise_on_failure: bool = True,
        on_note: Callable[[str], runtime.MaybeAwaitable] | None = None,
    ) -> JobStatus:
        """Waits until the job has ended. `on_note` is called with what it waits for, once for each cause; else that is logged.

        So is what may be wrong with the job although it runs, such as an image that the local cluster does not know.
        Raises `JobFailedError` with the cause, the evidence and the fix, `JobCancelledError` if the job is cancelled or deleted,
        and `TrainingTimeoutError` after `timeout` seconds; the job then goes on.
        """
        with self._interruptible("wait_for_completion()"):
            async with aclosing(self._watch_aloud(timeout, on_note)) as seen:
                async for _ in seen:
                    pass
        if raise_on_failure and not self._status.has_succeeded:
            raise await self.failure()
        return self._status

    async def wait_until(
        self,
        phase: Literal["Pending", "Running", "Succeeded", "Failed"],
        timeout: float | timedelta | None = None,
        *,
        on_note: Callable[[str], runtime.MaybeAwaitable] | None = None,
    ) -> JobStatus:
        """Waits until the job is in a phase, or has passed it. `on_note` is called with what it waits for; else that is logged.

        Raises `JobFailedError` if the job fails before, and `JobCancelledError` if it is cancelled.
        """
        order = {"Pending": 0, "Running": 1, "Succeeded": 2, "Failed": 2}
        with self._interruptible(f"wait_until({phase!r})"):
            async with aclosing(self._watch_aloud(timeout, on_note)) as seen:
                async for status in seen:
                    reached = order.get(status.phase, 0)
                    if status.phase == phase or (status.phase == "Succeeded" and reached > order[phase]):
                        return status
        if self._status.phase == phase:
            return self._status
        if self._status.has_succeeded:
            raise ConflictError(f"{self.kind} {self.namespace}/{self.name} has succeeded, it cannot be {phase}")
        raise await self.failure()

    async def failure(self) -> JobFailedError | JobCancelledError:
        """The error that says why the job failed, or that it was cancelled."""
        if self._status.is_cancelled:
            message = self._status.message or "it was cancelled"
            return JobCancelledError(
                f"{self.kind} {self.namespace}/{self.name} did not finish: {message}", reason="Cancelled"
            )
        try:
            found = (await self.details()).failure
        except NotFoundError:
            found = None
        cause = (found.cause if found else "") or self._status.cause or self._status.phase_reason
        message = f"{self.kind} {self.namespace}/{self.name} failed"
        message += f": {cause}" if cause else ""
        message += f": {found.message}" if found and found.message else ""
        output = await self._end_of_output()
        traceback = last_traceback(output)
        said = last_words(output, failed_rank(found.message if found else ""))
        return JobFailedError(message, job=self._status, failure=found, traceback=traceback, last_lines=said)

    async def _end_of_output(self) -> list[LogLine]:
        """The last lines of the output; none if it cannot be read."""
        try:
            return [line async for line in self.logs(tail=TAIL_LINES, on_note=_notes.ignore)]
        except TrainingError:
            return []

    def _come_back(self, call: str) -> str:
        kind = "" if self.kind == "MPIJob" else f", kind={self.kind.lower()!r}"
        return f"client.get({self.name!r}, namespace={self.namespace!r}{kind}).{call}"

    async def _timed_out(self, limit: float) -> TrainingTimeoutError:
        try:
            waiting = (await self.details()).waiting
        except TrainingError:
            waiting = None
        message = f"{self.kind} {self.namespace}/{self.name} has not ended within {limit:g} s: {self._status.summary}"
        message += f"; it waits: {waiting.message}" if waiting and waiting.message else ""
        come_back = f"the job goes on; come back to it with {self._come_back('wait_for_completion()')}"
        return TrainingTimeoutError(
            message,
            reason=(waiting.cause if waiting else "") or self._status.phase_reason or self._status.phase,
            hint=f"{waiting.suggestion} Meanwhile {come_back}" if waiting and waiting.suggestion else come_back,
            details=waiting.evidence if waiting else (),
        )

    def _cancelled(self) -> JobCancelledError:
        return JobCancelledError(
            f"{self.kind} {self.namespace}/{self.name} was deleted before it ended", reason="Deleted"
        )

    @contextmanager
    def _interruptible(self, call: str) -> Iterator[None]:
        try:
            yield
        except WaitInterrupted:
            raise
        except KeyboardInterrupt:
            raise WaitInterrupted(
                f"{self.kind} {self.namespace}/{self.name} goes on. Come back to it with {self._come_back(call)}, "
                f"or end it with {self._come_back('delete()')}"
            ) from None

    # Output

    async def logs(
        self,
        *,
        follow: bool = False,
        worker: int | Sequence[int] | None = None,
        rank: int | Sequence[int] | None = None,
        all: bool = False,
        since: float | str | timedelta | None = None,
        tail: int | None = None,
        grep: str | None = None,
        exclude: str | None = None,
        context: int | None = None,
        level: Level | None = None,
        container: str | None = None,
        previous: bool = False,
        fold: bool = False,
        agents: bool = False,
        on_note: Callable[[str], runtime.MaybeAwaitable] | None = None,
    ) -> AsyncGenerator[LogLine, None]:
        """Yields lines of output: the Launcher's, which has that of every rank, or those of Workers, or of `all` pods.

        With `follow`, it waits for further lines until the job has ended, and continues after breaks of the connection. `rank`
        selects ranks if the MPI launcher tags lines. `since` is a number of seconds or an age such as `"10m"`. `grep` and `exclude`
        are regular expressions. `agents` includes what the launch agent and MPI's starters write themselves. `on_note` is called
        with what is waited for, what is missing and why there are no lines of a rank; else that is logged.
        """
        from .._resume import LogPosition

        choice = {
            "follow": follow or None,
            "worker": _several(worker),
            "rank": _several(rank),
            "all": all or None,
            "sinceSeconds": None if since is None else int(seconds(since) or 0),
            "tail": tail,
            "grep": grep,
            "exclude": exclude,
            "context": context,
            "level": level,
            "container": container,
            "previous": previous or None,
            "fold": fold or None,
            "agents": agents or None,
        }
        position = LogPosition(choice)
        say = on_note or _notes.log
        batches = self._client.transport.stream(models.READ_LOGS, self.path, position.query)
        with self._interruptible("logs(follow=True)"):
            async with aclosing(batches):
                async for batch in batches:
                    for note in position.notes(batch):
                        await runtime.settled(say(note))
                    for line in position.lines(batch):
                        yield line

    async def get_logs(
        self,
        *,
        worker: int | Sequence[int] | None = None,
        rank: int | Sequence[int] | None = None,
        launcher: bool = False,
        all: bool = False,
        tail: int | None = None,
        grep: str | None = None,
        since: float | str | timedelta | None = None,
    ) -> str:
        """The output so far as one text: of the Launcher, or of Workers, ranks or `all` pods.

        Raises `NotFoundError` if no line is of the ranks asked for, and it is known why.
        """
        if launcher and (worker is not None or all):
            raise TypeError("launcher=True is the Launcher's output alone; use all=True for that of every pod")
        notes: list[str] = []
        lines = [
            line
            async for line in self.logs(
                worker=worker, rank=rank, all=all, tail=tail, grep=grep, since=since, on_note=notes.append
            )
        ]
        if notes and not lines and rank is not None:
            raise NotFoundError(". ".join(notes), reason="NoLines")
        for note in notes:
            _notes.log(note)
        return "\n".join(lines)

    async def outputs(self) -> dict[str, str]:
        """What the job has put out for later jobs: its lines `odh-output NAME=VALUE`, the last of a name."""
        found: dict[str, str] = {}
        async for line in self.logs(on_note=_notes.ignore, grep=r"^(\[[0-9,]+\]<stdout>:)?\s*odh-output \w+="):
            name, _, value = line.partition("odh-output ")[2].partition("=")
            found[name] = value.strip()
        return found

    async def save(self, folder: str | Path) -> list[Path]:
        """Writes what is worth keeping of the job into a folder: manifest, status, events and the output of every pod."""
        target = Path(folder)
        details = await self.details()
        events = await self.events()
        texts = {
            "job.yaml": details.manifest,
            "status.json": details.model_dump_json(by_alias=True, indent=2, exclude={"manifest"}),
            "events.txt": "".join(f"{e.at} {e.type} {e.reason} {e.object}: {e.message}\n" for e in events),
        }
        try:
            pods = await self._output()
        except NotFoundError:
            # A Worker of an ended job went while it was read. Now it is known to be gone, and the others are read.
            pods = await self._output()
        texts |= {f"{pod}.log": "\n".join(lines) + "\n" for pod, lines in pods.items()}
        target.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (target / Path(name).name).write_text(text)
        return [target / Path(name).name for name in texts]

    async def _output(self) -> dict[str, list[str]]:
        pods: dict[str, list[str]] = {}
        async for line in self.logs(all=True, agents=True):
            pods.setdefault(line.pod, []).append(line)
        return pods

    async def metrics(self, patterns: Sequence[str] = ()) -> Metrics:
        """The job's metrics over time: what its pods use, and what its training program reports and prints.

        Besides CPU and memory, `measured` of a pod has its network traffic and its GPUs, if the service has a source of them.
        `loss=0.25` and other usual numbers are found in the Launcher's output, with their steps. Each named group of a
        pattern is a metric too: `["rate=(?<rate>[0-9.]+)"]`. All of the output counts, also after the pods are gone.
        """
        answer = await self._client.transport.call(models.GET_METRICS, self.path, {"pattern": [*patterns]})
        return statuses.Metrics.model_validate(answer)

    async def history(self) -> models.JobHistory:
        """What became of the job: its states and attempts, also after it was deleted."""
        query: dict[str, Any] = {"uid": self.uid or None, "limit": 1000}
        answer = await self._client.transport.call(models.GET_HISTORY, self.path, query)
        found = models.JobHistory.model_validate(answer)
        states = list(found.states)
        while found.continue_:
            answer = await self._client.transport.call(
                models.GET_HISTORY, self.path, {**query, "continue": found.continue_}
            )
            found = models.JobHistory.model_validate(answer)
            states += found.states
        return found.model_copy(update={"states": states})

    async def related(self) -> Sequence[models.RelatedJob]:
        """The jobs that repeat the same job or were copied from it, this one included, the oldest first."""
        answer = await self._client.transport.call(models.LIST_RELATED_JOBS, self.path)
        return models.ListRelatedJobsResponse.model_validate(answer).jobs

    async def notify(
        self,
        *,
        url: str | None = None,
        email: str | None = None,
        phases: Sequence[str] = ("Succeeded", "Failed"),
    ) -> models.NotificationRule:
        """Has the service send a signed webhook or an e-mail when this job enters one of the phases."""
        return await self._client.put_notification_rule(
            f"job-{self.name}", job=self.name, kind=self.path["kind"], url=url, email=email, phases=phases
        )

    async def events(self) -> list[models.Event]:
        """The events of the job and its pods, oldest first."""
        answer = await self._client.transport.call(models.LIST_EVENTS, self.path)
        return models.ListEventsResponse.model_validate(answer).events

    async def artifacts(self, path: str = "", *, worker: int | None = None) -> list[models.Artifact]:
        """The files of a folder in a volume that a pod of the job mounts; without a path, those volumes.

        After the job's pods have ended, a small pod is started that mounts the job's claims, read-only, which may take a while; it
        ends by itself. It needs the permission to create `pods/exec`, as `odh training cp` does, and for that pod to create `pods`.
        A folder lists 2,000 entries at most.
        """
        query = {"path": path or None, "worker": worker}
        try:
            answer = await self._client.transport.call(models.LIST_ARTIFACTS, self.path, query)
        except TrainingError as error:
            await self._start_reader(error)
            answer = await self._client.transport.call(models.LIST_ARTIFACTS, self.path, query)
        return models.ListArtifactsResponse.model_validate(answer).artifacts

    async def download(self, path: str, to: str | Path = ".", *, worker: int | None = None) -> Path:
        """Saves a file of a volume that a pod of the job mounts: `path` is that of one of `artifacts()`.

        That says what happens after the job has ended. `to` is a file, or a folder, in which it keeps its name. Returns where it
        is.
        """
        target = Path(to)
        if target.is_dir():
            name = Path(unquote(path.rsplit("/", 1)[-1])).name.replace("\0", "")
            target = target / ("file" if name in ("", "..") else name)
        query = {"path": path, "worker": worker}
        try:
            await self._client.transport.save(models.READ_ARTIFACT, self.path, query, target)
        except TrainingError as error:
            await self._start_reader(error)
            await self._client.transport.save(models.READ_ARTIFACT, self.path, query, target)
        return target

    async def _start_reader(self, error: TrainingError) -> None:
        """Starts a pod that reads the claims of the job, if that is what the service asks for; returns when it runs."""
        if error.reason != "NeedsReader":
            raise error
        deadline = monotonic() + READER_PATIENCE
        while True:
            reader = models.Reader.model_validate(await self._client.transport.call(models.START_READER, self.path))
            if reader.ready:
                return
            if monotonic() > deadline:
                raise TrainingTimeoutError(
                    f"{reader.pod} does not run after {READER_PATIENCE} s: it waits for {reader.waits_for}",
                    hint="call again, or see why the pod does not start",
                )
            await runtime.sleep(1.0)

    # Changes

    async def delete(self, *, force: bool = False, wait: bool = False, timeout: float | timedelta | None = 60) -> None:
        """Deletes the job and everything that belongs to it; with `wait`, returns when it is gone.

        A job that is gone already is no error.
        """
        try:
            await self._client.transport.call(models.DELETE_JOB, self.path, {"force": force or None})
        except NotFoundError:
            return
        if not wait:
            return
        try:
            async for _ in self._until_gone(timeout):
                pass
        except JobCancelledError:
            return

    async def _until_gone(self, timeout: float | timedelta | None) -> AsyncIterator[None]:
        limit = seconds(timeout)
        deadline = None if limit is None else monotonic() + limit
        pause = 0.05
        while True:
            await self._refresh_or_cancelled()
            yield
            if deadline is not None and monotonic() > deadline:
                raise await self._timed_out(limit or 0)
            await runtime.sleep(pause)
            pause = min(pause * 1.5, 2.0)

    async def suspend(self) -> JobStatus:
        """Suspends the job: its pods are deleted, the job stays."""
        return await self._changed(models.SUSPEND_JOB)

    async def resume(self) -> JobStatus:
        """Resumes the suspended job from the beginning."""
        return await self._changed(models.RESUME_JOB)

    async def cancel(self) -> JobStatus:
        """Ends the MPIJob for good: its pods are deleted; its record and its output stay, with the cause `Cancelled`.

        Until its pods are gone, its state is `Cancelling` and its phase the former one; `wait_for_completion()` ends then.
        """
        return await self._changed(models.CANCEL_JOB)

    async def _changed(self, method: models.Method) -> JobStatus:
        answer = await self._client.transport.call(method, self.path)
        self._status = statuses.JobStatus.model_validate((answer or {})["job"])
        return self._status

    async def retry(self, *, new_name: str | None = None, set: Sequence[str] = ()) -> AsyncMPIJob:
        """Runs the ended job again, as another job, with changes such as `["worker.memory=64Gi"]`."""
        return await self._rerun(models.RETRY_JOB, "retry", new_name, set)

    async def clone(self, *, new_name: str | None = None, set: Sequence[str] = ()) -> AsyncMPIJob:
        """Runs a copy of the job with changes such as `["env.LR=0.01", "workers=8"]`."""
        return await self._rerun(models.CLONE_JOB, "copy", new_name, set)

    async def _rerun(
        self, method: models.Method, word: str, new_name: str | None, changes: Sequence[str]
    ) -> AsyncMPIJob:
        """Runs the job again, as a retry or a clone."""
        # A name of our own makes a retried request conflict with the first.
        name = new_name or f"{self.name[:40].rstrip('-.')}-{word}-{os.urandom(3).hex()}"
        transport = self._client.transport
        answer = await transport.call(
            method,
            self.path,
            body={"newName": name, "set": list(changes)},
            is_done=lambda error: isinstance(error, ConflictError) and error.reason == "AlreadyExists",
        )
        if answer is None:
            found = await transport.call(models.GET_JOB, {**self.path, "name": name})
            return AsyncMPIJob(self._client, statuses.JobStatus.model_validate((found or {})["row"]))
        return AsyncMPIJob(self._client, statuses.JobStatus.model_validate(answer["job"]))

    async def export(self, format: Literal["yaml", "json", "cli", "python"] = "yaml") -> str:
        """The job as what creates it again: a manifest, a command of the CLI, or a program for this package."""
        answer = await self._client.transport.call(models.EXPORT_JOB, self.path, {"format": format})
        return models.ExportJobResponse.model_validate(answer).text

    async def to_yaml(self) -> str:
        """The manifest that creates the job again; `client.from_yaml` takes it."""
        return await self.export("yaml")


def _several(value: int | Sequence[int] | None) -> list[int] | None:
    if value is None:
        return None
    return [value] if isinstance(value, int) else list(value)


class AsyncJobList(list[AsyncMPIJob]):
    """Jobs, shown as a table in notebooks."""

    def _repr_html_(self) -> str:
        from .._html import job_table

        return job_table([job.status for job in self])

    def __str__(self) -> str:
        return "\n".join(repr(job) for job in self)
