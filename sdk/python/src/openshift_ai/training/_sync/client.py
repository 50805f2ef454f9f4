# Generated from _async/client.py by tools/generate.py.
"""The client: creates jobs, and finds, watches and compares those that exist."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal

from .._backoff import Backoff
from .._durations import seconds
from .._errors import ForbiddenError, JobWarning, TrainingTimeoutError, UsageError
from .._lazy import Module
from .._signin import Service, find, is_local
from .._yaml import namespace_of
from .job import JobList, MPIJob
from .transport import DeadlinePassed, Transport

if TYPE_CHECKING:
    import ssl
    from types import TracebackType

    from typing_extensions import Unpack

    from .. import _models as models
    from .. import _status as statuses
    from .._retries import Retries, Step
    from .._spec import JobFields, MPIJobSpec
    from .._status import JobChange, JobStatus, UsageReport
    from . import runtime
    from .pipelines import JobResult
else:
    models, statuses = Module("_models"), Module("_status")

Kind = Literal["mpijob", "trainjob", "pytorchjob", "tfjob"]
Sort = Literal[
    "-created", "created", "name", "-name", "namespace", "-namespace",
    "phase", "-phase", "workers", "-workers", "gpus", "-gpus",
]  # fmt: skip
#: Jobs of a page.
PAGE = 500


class MPIJobClient:
    """Works with training jobs through the training service.

    Without arguments, it finds the service and the token by itself: in the environment (`ODH_TRAINING_URL`, `ODH_TRAINING_TOKEN`,
    `ODH_TRAINING_CA`), in the pod's own cluster, in the kubeconfig, or in the local cluster of `odh local up`. Nothing is asked
    before the first call.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | os.PathLike[str] | None = None,
        ca: str | ssl.SSLContext | None = None,
        namespace: str | None = None,
        context: str | None = None,
        kubeconfig: str | os.PathLike[str] | None = None,
        timeout: float = 30.0,
        backoff: Backoff | None = None,
        insecure_http: bool = False,
    ) -> None:
        """Creates a client.

        `token` is a token, or the path of a file with one, which may be rotated. Without it, an address gets only the token of
        the pod, the kubeconfig or the local cluster that names this address. `namespace` is that of jobs for which none is given.
        `kubeconfig` and `context`, the name of a context or of a cluster in it, choose a cluster. `timeout` bounds each request,
        in seconds, and `backoff` how often a failed one is retried.
        `insecure_http` permits a token without TLS.
        """

        def search() -> Service:
            return find(url, token, ca, namespace, context, kubeconfig, insecure_http)

        self.transport = Transport(search, backoff or Backoff(), timeout)
        self._namespace = namespace

    def __enter__(self) -> MPIJobClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self.transport.close()

    def namespace(self) -> str:
        """The namespace of jobs for which none is given."""
        return self._namespace or (self.transport.service()).namespace or "default"

    # Creating

    def create_mpijob(
        self,
        spec: MPIJobSpec | None = None,
        *,
        wait_for_start: bool = False,
        skip_checks: bool = False,
        idempotency_key: str | None = None,
        **fields: Unpack[JobFields],
    ) -> MPIJob:
        """Creates an MPIJob from a specification, or from its fields.

        The fields are those of `MPIJobSpec`, and `workers`, `gpus_per_worker`, `cpu_per_worker`, `memory_per_worker`. A request
        that is retried after a broken connection creates no second job. `wait_for_start` returns when the job runs.
        What to improve and what the job waits for is warned of (`JobWarning`).
        `skip_checks` leaves quotas and free resources to the cluster. On a local cluster, a command that names a file of the
        current directory starts there; any other cluster sees only the image, volumes and `code`.
        """
        from .._spec import in_own_words

        asked, hidden = self._placed(_asked(spec, fields))
        answer = self._create(_content(asked), asked.namespace, skip_checks, idempotency_key)
        job = self._created(answer, hidden, lambda text: in_own_words(asked, text))
        if wait_for_start:
            job.wait_until("Running")
        return job

    def create(
        self,
        manifest: str,
        *,
        namespace: str | None = None,
        skip_checks: bool = False,
        idempotency_key: str | None = None,
    ) -> MPIJob:
        """Creates a job of any supported kind from a manifest, YAML or JSON."""
        place = namespace or namespace_of(manifest)
        return self._created(self._create({"manifest": manifest}, place, skip_checks, idempotency_key))

    def from_yaml(self, source: str | Path, *, namespace: str | None = None) -> MPIJob:
        """Creates a job from a manifest or a file with one."""
        is_file = isinstance(source, Path) or ("\n" not in source and source.endswith((".yaml", ".yml", ".json")))
        return self.create(Path(source).read_text() if is_file else str(source), namespace=namespace)

    def validate(self, spec: MPIJobSpec | str | None = None, **fields: Unpack[JobFields]) -> models.CreateJobResponse:
        """Checks a specification or a manifest, and creates nothing.

        The answer has the manifest that would be created, what to improve (`warnings`) and what the job would wait for (`waits`).
        Raises `InvalidSpecError`, `QuotaExceededError` or `ForbiddenError` if the job would be refused.
        """
        content, namespace = self._source(spec, fields)
        path = {"namespace": namespace or self.namespace()}
        answer = self.transport.call(models.CREATE_JOB, path, body={**content, "dryRun": True})
        return models.CreateJobResponse.model_validate(answer)

    def availability(
        self, spec: MPIJobSpec | str | None = None, **fields: Unpack[JobFields]
    ) -> models.CheckAvailabilityResponse:
        """Checks whether a job could be created and start now: permission, quota, limits, free resources."""
        content, namespace = self._source(spec, fields)
        path = {"namespace": namespace or self.namespace()}
        answer = self.transport.call(models.CHECK_AVAILABILITY, path, body=content)
        return models.CheckAvailabilityResponse.model_validate(answer)

    def namespaces(self, *, kind: Kind | None = None) -> Sequence[models.NamespaceSummary]:
        """The namespaces in which the caller may list jobs, of one kind or of any, by name."""
        answer = self.transport.call(models.LIST_NAMESPACES, {}, {"kind": kind})
        return models.ListNamespacesResponse.model_validate(answer).namespaces

    # Templates

    def templates(self, *, namespace: str | None = None) -> Sequence[models.Template]:
        """The templates of a namespace, and those that the organisation shares, without their manifests."""
        path = {"namespace": namespace or self.namespace()}
        templates: list[models.Template] = []
        following = ""
        while True:
            answer = self.transport.call(models.LIST_TEMPLATES, path, {"continue": following or None})
            found = models.ListTemplatesResponse.model_validate(answer)
            templates.extend(found.templates)
            following = found.continue_
            if not following:
                return templates

    def template(self, name: str, *, version: int | None = None, namespace: str | None = None) -> models.Template:
        """A template of a namespace or, if it has none of that name, a shared one; the newest version if none is given."""
        path = {"namespace": namespace or self.namespace(), "name": name}
        answer = self.transport.call(models.GET_TEMPLATE, path, {"version": version})
        return models.Template.model_validate(answer)

    def save_template(
        self,
        name: str,
        source: MPIJobSpec | MPIJob | str,
        *,
        description: str = "",
        parameters: Sequence[models.TemplateParameter] = (),
        namespace: str | None = None,
    ) -> models.Template:
        """Saves a specification, a job or a manifest as a template; under a name that exists, as its next version."""
        if isinstance(source, MPIJob):
            manifest = source.to_yaml()
        elif isinstance(source, str):
            manifest = source
        else:
            manifest = (self.validate(source)).manifest
        path = {"namespace": namespace or self.namespace(), "name": name}
        given = [one.model_dump(by_alias=True, exclude_defaults=True) for one in parameters]
        content = {"manifest": manifest, "description": description, "parameters": given}
        return models.Template.model_validate(self.transport.call(models.SAVE_TEMPLATE, path, body=content))

    def delete_template(self, name: str, *, namespace: str | None = None) -> None:
        """Deletes a template with all its versions."""
        path = {"namespace": namespace or self.namespace(), "name": name}
        self.transport.call(models.DELETE_TEMPLATE, path)

    def create_from_template(
        self,
        template: str,
        name: str,
        *,
        parameters: Mapping[str, str | float] | None = None,
        set: Sequence[str] = (),
        version: int | None = None,
        namespace: str | None = None,
        idempotency_key: str | None = None,
    ) -> MPIJob:
        """Creates a job from a template, with values for its parameters and further changes such as `["workers=8"]`."""
        values = {key: _text(value) for key, value in (parameters or {}).items()}
        asked = {"name": template, "jobName": name, "parameters": values, "set": [*set], "version": version or 0}
        return self._created(self._create({"template": asked}, namespace, False, idempotency_key))  # noqa: FBT003

    def _source(self, spec: MPIJobSpec | str | None, fields: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
        """Returns the fields of a request that hold a specification or a manifest, and the namespace."""
        if not isinstance(spec, str):
            asked, _ = self._placed(_asked(spec, fields))
            return _content(asked), asked.namespace
        if set(fields) - {"namespace"}:
            raise UsageError("a manifest has all fields of the job", hint="change the manifest instead")
        return {"manifest": spec}, fields.get("namespace") or namespace_of(spec)

    def _placed(self, spec: MPIJobSpec) -> tuple[MPIJobSpec, Sequence[str]]:
        """The specification with the directory in which its command starts, and what to tell about it."""
        from .. import _here

        file = _here.named_file(spec.command) if spec.workdir is None and spec.code is None else None
        if file is None or not is_local(self.transport.service()):
            return spec, []
        here = Path.cwd()
        if warning := _here.hidden(file, here):
            return spec, [warning]
        return spec.model_copy(update={"workdir": str(here)}), []

    def _create(
        self, content: dict[str, Any], namespace: str | None, skip_checks: bool, key: str | None
    ) -> dict[str, Any] | None:
        path = {"namespace": namespace or self.namespace()}
        sent = {**content, "skipChecks": skip_checks, "idempotencyKey": key or os.urandom(16).hex()}
        return self.transport.call(models.CREATE_JOB, path, body=sent)

    def _created(
        self, answer: dict[str, Any] | None, hidden: Sequence[str] = (), worded: Callable[[str], str] = str
    ) -> MPIJob:
        """The created job. What the service says about it is warned of, in the name of the caller's caller."""
        response = models.CreateJobResponse.model_validate(answer)
        job = MPIJob(self, statuses.JobStatus.model_validate((answer or {})["job"]))
        job.warnings, job.waits = [*dict.fromkeys(map(worded, response.warnings)), *hidden], response.waits
        waits = [f"{wait.message} ({wait.advice})" if wait.advice else wait.message for wait in job.waits]
        for text in (*job.warnings, *(f"it waits: {text}" for text in waits)):
            warnings.warn(f"{job.name}: {text}", JobWarning, stacklevel=3)
        return job

    # Finding

    def get(self, name: str, *, namespace: str | None = None, kind: Kind | str = "mpijob") -> MPIJob:
        """Gets a job by its name."""
        path = {"namespace": namespace or self.namespace(), "kind": kind.lower(), "name": name}
        answer = self.transport.call(models.GET_JOB, path)
        return MPIJob(self, statuses.JobStatus.model_validate((answer or {})["row"]))

    def list(
        self,
        *,
        namespace: str | None = None,
        all_namespaces: bool = False,
        kind: Kind | Sequence[Kind] | None = None,
        phase: str | Sequence[str] | None = None,
        owner: str | None = None,
        since: str | datetime | None = None,
        until: str | datetime | None = None,
        search: str | None = None,
        labels: str | Mapping[str, str] | None = None,
        sort: Sort | None = None,
        page: int = PAGE,
    ) -> Iterator[MPIJob]:
        """Yields jobs, page by page: of a namespace, or of `all_namespaces` in which the caller may list them.

        `phase` is also a reason such as `Queued`. `since` and `until` are times, days or ages such as `2d`. `search` is a text in
        name, namespace, owner, queue, reason or cause. `labels` is a map or a selector.
        `page` is how many jobs are asked for at once.
        """
        query = {
            "namespace": None if all_namespaces else namespace or self.namespace(),
            "kind": [kind] if isinstance(kind, str) else kind,
            "phase": [phase] if isinstance(phase, str) else phase,
            "owner": owner,
            "since": _moment(since),
            "until": _moment(until),
            "q": search,
            "labels": _selector(labels),
            "sort": sort,
            "limit": page,
        }
        following = ""
        while True:
            answer = self.transport.call(models.LIST_JOBS, {}, {**query, "continue": following or None})
            found = answer or {}
            for row in found.get("jobs") or []:
                yield MPIJob(self, statuses.JobStatus.model_validate(row))
            following = found.get("continue") or ""
            if not following:
                return

    def jobs(self, *, limit: int = 1000, **filters: Any) -> JobList:
        """The first jobs of `list(...)`, with the same filters, as a list that notebooks show as a table."""
        found = JobList()
        for job in self.list(**filters):
            found.append(job)
            if len(found) >= limit:
                break
        return found

    def watch(
        self,
        *,
        namespace: str | None = None,
        all_namespaces: bool = False,
        kind: Kind | Sequence[Kind] | None = None,
        phase: str | Sequence[str] | None = None,
        owner: str | None = None,
        search: str | None = None,
        labels: str | Mapping[str, str] | None = None,
        timeout: float | timedelta | None = None,
    ) -> Generator[JobChange, None]:
        """Yields every job that matches, then changes as they happen, also across breaks of the connection.

        Raises `TrainingTimeoutError` after `timeout` seconds.
        """
        query = {
            "namespace": None if all_namespaces else namespace or self.namespace(),
            "kind": [kind] if isinstance(kind, str) else kind,
            "phase": [phase] if isinstance(phase, str) else phase,
            "owner": owner,
            "q": search,
            "labels": _selector(labels),
        }
        from .._resume import Board

        board = Board()
        limit = seconds(timeout)
        deadline = None if limit is None else monotonic() + limit
        events = self.transport.stream(
            models.WATCH_JOBS, {}, lambda: {**query, "lastEventId": board.id or None}, deadline
        )
        try:
            with closing(events):
                for batch in events:
                    for event in batch:
                        for change in board.take(event):
                            yield change
        except DeadlinePassed:
            message = f"the jobs were watched for {limit:g} s"
            raise TrainingTimeoutError(message, hint="give a longer timeout=, or none") from None

    def compare(
        self, names: Sequence[str], *, namespace: str | None = None, kind: Kind = "mpijob"
    ) -> models.CompareJobsResponse:
        """Compares two to ten jobs: how each ended, the fields that differ, the last metrics."""
        path = {"namespace": namespace or self.namespace()}
        answer = self.transport.call(models.COMPARE_JOBS, path, body={"names": [*names], "kind": kind})
        return models.CompareJobsResponse.model_validate(answer)

    def batch(
        self,
        action: Literal["delete", "suspend", "resume"],
        names: Sequence[str] = (),
        *,
        namespace: str | None = None,
        dry_run: bool = False,
        **filters: Any,
    ) -> models.BatchJobsResponse:
        """Deletes, suspends or resumes the jobs that are named, or those that match the filters of `list`."""
        named = {"search": "q"}
        sent = {named.get(name, name): value for name, value in filters.items()}
        sent |= {name: _moment(sent[name]) for name in ("since", "until") if name in sent}
        sent |= {"labels": _selector(sent["labels"])} if "labels" in sent else {}
        for several in ("kind", "phase"):
            if isinstance(sent.get(several), str):
                sent[several] = [sent[several]]
        path = {"namespace": namespace or self.namespace()}
        content = {"action": action, "names": [*names], "dryRun": dry_run, **sent}
        answer = self.transport.call(models.BATCH_JOBS, path, body=content)
        return models.BatchJobsResponse.model_validate(answer)

    def overview(self, *, namespace: str | None = None) -> models.Overview:
        """The cluster in numbers: GPUs by node and model, jobs by namespace and user, quotas and queues.

        Only what the caller may see is counted, and with `namespace` only that namespace's jobs, quotas and queues.
        """
        return models.Overview.model_validate(self.transport.call(models.GET_OVERVIEW, {}, {"namespace": namespace}))

    def capacity(
        self,
        *,
        workers: int,
        gpus_per_worker: int = 0,
        cpu_per_worker: str | None = None,
        memory_per_worker: str | None = None,
        gpu_resource: str | None = None,
        namespace: str | None = None,
        queue: str | None = None,
    ) -> models.CheckCapacityResponse:
        """What would fit: whether so many Workers could start now, on which nodes, and otherwise when.

        It needs `list` on nodes. With `namespace`, its quotas and limits count, too, and with `queue` the room in that queue.
        """
        query = {
            "workers": workers,
            "gpus": gpus_per_worker,
            "cpu": cpu_per_worker,
            "memory": memory_per_worker,
            "gpuResource": gpu_resource,
            "namespace": namespace,
            "queue": queue,
        }
        return models.CheckCapacityResponse.model_validate(self.transport.call(models.CHECK_CAPACITY, {}, query))

    def gpus(self, *, namespace: str | None = None) -> models.ListGpusResponse:
        """How many GPUs are free, in sums by model and by queue, for everybody who may create jobs in the namespace.

        What is unknown is `None`, with the reason in `unknown`.
        """
        place = namespace or self.namespace()
        return models.ListGpusResponse.model_validate(self.transport.call(models.LIST_GPUS, {"namespace": place}, {}))

    def quota(self, *, namespace: str | None = None) -> models.NamespaceQuota | None:
        """How full a namespace's quotas are; `None` if it has none."""
        place = namespace or self.namespace()
        quotas = (self.overview(namespace=place)).quotas
        return next((quota for quota in quotas if quota.namespace == place), None)

    # History

    def usage(
        self,
        *,
        namespace: str | None = None,
        all_namespaces: bool = False,
        since: str | datetime | None = None,
        until: str | datetime | None = None,
        by: Sequence[Literal["user", "job"]] = (),
        user: str | None = None,
    ) -> UsageReport:
        """Sums what jobs used in a period: cores, bytes and GPUs by time. Without `since`, the period is 30 days."""
        query = {
            "namespace": None if all_namespaces else namespace or self.namespace(),
            "since": _moment(since),
            "until": _moment(until),
            "by": [*by],
            "user": user,
        }
        return statuses.UsageReport.model_validate(self.transport.call(models.LIST_USAGE, {}, query))

    def advice(self, *, namespace: str | None = None, all_namespaces: bool = False) -> models.ListAdviceResponse:
        """What programs should request, by what their former runs really used, with the runs that this rests on.

        Jobs run the same program if kind, image and command are the same. Fewer than three runs that succeeded and were
        sampled give no figure.
        """
        query = {"namespace": None if all_namespaces else namespace or self.namespace()}
        return models.ListAdviceResponse.model_validate(self.transport.call(models.LIST_ADVICE, {}, query))

    def audit(
        self,
        *,
        namespace: str | None = None,
        who: str | None = None,
        object: str | None = None,
        since: str | datetime | None = None,
        until: str | datetime | None = None,
        newest_first: bool = False,
    ) -> Iterator[models.AuditedOperation]:
        """Yields what was done through the service, oldest first if not asked otherwise; it needs `get` on `/training/audit`."""
        query = {
            "namespace": namespace,
            "who": who,
            "object": object,
            "since": _moment(since),
            "until": _moment(until),
            "newestFirst": newest_first or None,
            "limit": PAGE,
        }
        following = ""
        while True:
            answer = self.transport.call(models.LIST_AUDIT, {}, {**query, "continue": following or None})
            found = models.ListAuditResponse.model_validate(answer)
            for operation in found.operations:
                yield operation
            following = found.continue_
            if not following:
                return

    def export_audit(self, *, after: int = 0, through: int | None = None) -> Generator[str, None]:
        """Yields the lines of the audit log after a number, each exactly as it was hashed."""
        query = {"after": str(after), "through": None if through is None else str(through)}
        batches = self.transport.lines(models.EXPORT_AUDIT, {}, query)
        with closing(batches):
            for batch in batches:
                for line in batch:
                    if line:
                        yield line.decode()

    # Notifications

    def notification_rules(self, *, namespace: str | None = None) -> Sequence[models.NotificationRule]:
        """The rules of a namespace about who is notified of what."""
        path = {"namespace": namespace or self.namespace()}
        answer = self.transport.call(models.LIST_NOTIFICATION_RULES, path)
        return models.ListNotificationRulesResponse.model_validate(answer).rules

    def notification_rule(self, name: str, *, namespace: str | None = None) -> models.NotificationRule:
        """A rule."""
        path = {"namespace": namespace or self.namespace(), "name": name}
        answer = self.transport.call(models.GET_NOTIFICATION_RULE, path)
        return models.NotificationRule.model_validate(answer)

    def put_notification_rule(
        self,
        name: str,
        *,
        url: str | None = None,
        email: str | None = None,
        job: str | None = None,
        kind: str = "mpijob",
        phases: Sequence[str] = (),
        reasons: Sequence[str] = (),
        causes: Sequence[str] = (),
        quota_percent: int | None = None,
        runs_longer_than: str | None = None,
        stalled: bool = False,
        secret: str | None = None,
        disabled: bool = False,
        namespace: str | None = None,
    ) -> models.NotificationRule:
        """Creates or replaces a rule: a signed webhook to `url` or an `email` on transitions of the namespace's jobs or of one.

        In place of transitions, a rule may have one condition: a ResourceQuota of the namespace is used to `quota_percent`, a
        job `runs_longer_than` a time such as `"24h"`, or a job is `stalled`. See `alerts()` for what holds now.

        The answer that creates the key of webhooks has it as `secret`, which no later answer has; `verify_webhook` takes it.
        """
        path = {"namespace": namespace or self.namespace(), "name": name}
        given: dict[str, Any] = {
            "url": url,
            "email": email,
            "job": job,
            "kind": kind if job else None,
            "secret": secret,
        }
        given |= {"runsLongerThan": runs_longer_than, "stalled": stalled}
        lists = {"phases": [*phases], "reasons": [*reasons], "causes": [*causes]}
        content = {**{field: value for field, value in given.items() if value}, **lists, "disabled": disabled}
        if quota_percent is not None:
            content["quotaPercent"] = quota_percent
        answer = self.transport.call(models.PUT_NOTIFICATION_RULE, path, body=content)
        return models.NotificationRule.model_validate(answer)

    def alerts(self, *, namespace: str | None = None) -> models.ListAlertsResponse:
        """What holds now of the conditions of rules, of a namespace or of all that you may see, and which rules are unknown."""
        answer = self.transport.call(models.LIST_ALERTS, {}, {"namespace": namespace})
        return models.ListAlertsResponse.model_validate(answer)

    def delete_notification_rule(self, name: str, *, namespace: str | None = None) -> None:
        """Deletes a rule and its deliveries."""
        path = {"namespace": namespace or self.namespace(), "name": name}
        self.transport.call(models.DELETE_NOTIFICATION_RULE, path)

    def test_notification_rule(self, name: str, *, namespace: str | None = None) -> models.Delivery:
        """Sends a test delivery by a rule, with the phase `Test`; its outcome appears among the `deliveries()`."""
        path = {"namespace": namespace or self.namespace(), "name": name}
        return models.Delivery.model_validate(self.transport.call(models.TEST_NOTIFICATION_RULE, path))

    def deliveries(
        self, *, state: Literal["pending", "delivered", "dead"] | None = None, namespace: str | None = None
    ) -> Iterator[models.Delivery]:
        """Yields the deliveries of a namespace's rules, newest first."""
        path = {"namespace": namespace or self.namespace()}
        following = ""
        while True:
            query = {"state": state, "limit": PAGE, "continue": following or None}
            found = models.ListDeliveriesResponse.model_validate(
                self.transport.call(models.LIST_DELIVERIES, path, query)
            )
            for delivery in found.deliveries:
                yield delivery
            following = found.continue_
            if not following:
                return

    # Pipelines

    def run(
        self,
        spec: MPIJobSpec,
        *,
        retries: Retries | None = None,
        timeout: float | timedelta | None = None,
        on_change: Callable[[JobStatus], runtime.MaybeAwaitable] | None = None,
    ) -> JobResult:
        """Runs a job to its end and, as `retries` says, again; attempts after the first are named `NAME-2`, `NAME-3`, ….

        A failure of the job is in the result, not raised. `timeout` bounds all attempts together.
        """
        from .pipelines import run

        return run(self, spec, retries=retries, timeout=timeout, on_change=on_change)

    def chain(
        self, steps: Sequence[Step | MPIJobSpec], *, timeout: float | timedelta | None = None
    ) -> Sequence[JobResult]:
        """Runs jobs one after another, each when the one before has ended; returns the results of those that ran.

        A step that does not run is passed over: `[train, Step(report), Step(clean, when="always")]` cleans in any case. `timeout`
        bounds each step.
        """
        from .pipelines import chain

        return chain(self, steps, timeout=timeout)

    def sweep(
        self,
        specs: Sequence[MPIJobSpec],
        *,
        at_most: int = 4,
        timeout: float | timedelta | None = None,
        stop_on_failure: bool = False,
        on_change: Callable[[JobStatus], runtime.MaybeAwaitable] | None = None,
    ) -> Sequence[JobResult]:
        """Runs many jobs, `at_most` so many at a time, and returns their results in the order of `specs`.

        With `stop_on_failure`, no further jobs are created after the first failure; those that run are waited for.
        """
        from .pipelines import sweep

        return sweep(
            self, specs, at_most=at_most, timeout=timeout, stop_on_failure=stop_on_failure, on_change=on_change
        )

    # Signing in

    def whoami(self, *, namespace: str | None = None, kind: Kind = "mpijob") -> models.Identity:
        """Who the caller is, and what the caller may do with jobs in a namespace."""
        query = {"namespace": namespace or self.namespace(), "kind": kind}
        return models.Identity.model_validate(self.transport.call(models.GET_IDENTITY, {}, query))

    def sign_in_address(self, *, next: str = "/") -> models.SignIn:
        """An address that signs a browser in as the caller. It works once, and for 15 minutes."""
        return models.SignIn.model_validate(self.transport.call(models.CREATE_SIGN_IN, {}, body={"next": next}))

    def preflight(
        self,
        *,
        namespace: str | None = None,
        kind: Kind = "mpijob",
        verbs: Sequence[str] = ("create", "get", "list"),
    ) -> models.Identity:
        """Checks that the service answers, that the token is valid and that the caller may work with jobs of a kind.

        Raises `ForbiddenError` that names the permissions that are missing.
        """
        place = namespace or self.namespace()
        identity = self.whoami(namespace=place, kind=kind)
        missing = [
            f"'{permission.verb}' for {permission.resource}"
            for permission in identity.permissions
            if not permission.allowed and permission.verb in verbs
        ]
        if missing:
            raise ForbiddenError(
                f"User '{identity.user}' lacks permissions in namespace '{place}': {', '.join(missing)}",
                reason="Forbidden",
                hint="ask an administrator of the namespace for a role with these permissions",
                details=missing,
            )
        return identity


TrainingClient = MPIJobClient
"""The same client by its general name: it works with TrainJobs, PyTorchJobs and TFJobs, too."""


def _asked(spec: MPIJobSpec | None, fields: Mapping[str, Any]) -> MPIJobSpec:
    """The specification of a call's arguments."""
    from .._checks import check, made_of

    given: Any = {name: value for name, value in fields.items() if value is not None}
    if spec is None:
        spec = made_of(given)
    elif given:
        spec = spec.with_changes(**given)
    check(spec)
    return spec


def _content(spec: MPIJobSpec) -> dict[str, Any]:
    """What a request to create a job says."""
    from .._request import body

    return body(spec)


def _text(value: str | float) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _moment(value: str | datetime | None) -> str | None:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            value = value.astimezone()
        return value.isoformat()
    return value


def _selector(labels: str | Mapping[str, str] | None) -> str | None:
    if labels is None or isinstance(labels, str):
        return labels
    return ",".join(f"{name}={value}" for name, value in labels.items())
