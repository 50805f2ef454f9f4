"""What is known about a job at one time, and lines of its output."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

from ._durations import age
from ._models import Job, JobMetrics, JobRow, ListUsageResponse


class JobStatus(JobRow):
    """The status of a job, as the service computed it."""

    def __repr__(self) -> str:
        return f"<JobStatus {self.kind} {self.namespace}/{self.name}: {self.summary}>"

    def __str__(self) -> str:
        return repr(self)

    def _repr_html_(self) -> str:
        from ._html import job_table

        return job_table([self])

    @property
    def workers_running(self) -> int:
        """Workers that run and are ready."""
        return self.workers.running if self.workers else 0

    @property
    def workers_pending(self) -> int:
        """Workers that do not run yet."""
        return self.workers.pending if self.workers else 0

    @property
    def workers_failed(self) -> int:
        """Workers that failed."""
        return self.workers.failed if self.workers else 0

    @property
    def workers_total(self) -> int:
        """Workers requested."""
        return self.workers.of if self.workers else 0

    @property
    def has_ended(self) -> bool:
        """Whether the job has ended, as `ended`."""
        return self.ended

    @property
    def has_succeeded(self) -> bool:
        """Whether the job has succeeded; `cause` then names a doubt about it, if there is one."""
        return self.phase == "Succeeded"

    @property
    def is_cancelled(self) -> bool:
        """Whether a person ended the job."""
        return self.health == "cancelled"

    @property
    def key(self) -> tuple[str, str, str]:
        """Kind, namespace and name."""
        return (self.kind, self.namespace, self.name)

    @property
    def summary(self) -> str:
        """The state in one line, with the Workers that run, or the run time of a job that has ended."""
        if self.has_ended:
            if self.running_since is None or self.finished is None:
                return self.state
            return f"{self.state} after {age(self.running_since, self.finished)}"
        if self.phase == "Running" and self.workers_total:
            return f"{self.state}, {self.workers_running}/{self.workers_total} Workers running"
        return self.state


class JobDetails(Job):
    """Everything that is known about a job."""

    @property
    def row_status(self) -> JobStatus:
        """The job's status."""
        return JobStatus.model_validate(self.row.model_dump() if self.row else {})

    def _repr_html_(self) -> str:
        from ._html import details

        return details(self)


class Metrics(JobMetrics):
    """A job's metrics over time, drawn in notebooks."""

    def series(self, name: str) -> list[tuple[datetime, float]]:
        """The times and numbers of a metric of the training; empty if there is none of this name."""
        for one in self.training:
            if one.name == name and one.start is not None:
                start = one.start
                return [(start + timedelta(seconds=point.seconds), point.value) for point in one.points]
        return []

    def steps(self, name: str) -> list[tuple[int, float]]:
        """The steps and numbers of a metric that the training printed with its steps; without steps, no points."""
        found = [one for one in self.training if one.name == name]
        return [(point.step, point.value) for one in found for point in one.points if point.step is not None]

    def _repr_html_(self) -> str:
        from ._plot import metrics

        return metrics(self)


class UsageReport(ListUsageResponse):
    """What jobs used in a period."""

    def rows(self) -> list[dict[str, str | float]]:
        """A flat row for each sum, for `pandas.DataFrame(report.rows())`. The hours of a resource are a column: `cpu_hours`."""
        found: list[dict[str, str | float]] = []
        for one in self.usage:
            row: dict[str, str | float] = {"namespace": one.namespace, "user": one.user, "job": one.job, "uid": one.uid}
            row |= {f"{amount.resource}_hours": float(amount.hours or 0) for amount in one.amounts}
            if one.cost:
                row["cost"] = float(one.cost)
            found.append(row)
        return found


class JobChange(NamedTuple):
    """A change among the jobs that are watched."""

    type: str
    """`added`, `changed` or `deleted`."""
    status: JobStatus
    """The job's newest status; the last known one if it was deleted."""


class LogLine(str):
    """A line of output. It is a string, with where and when it was written."""

    __slots__ = ("at", "evidence", "level", "pod", "rank")

    pod: str
    """The pod that wrote it."""
    at: str
    """When it was written: RFC 3339 with nanoseconds."""
    rank: int | None
    """The MPI rank that wrote it, if ranks were asked for."""
    level: str
    """`debug`, `info`, `warning`, `error`, or empty."""
    evidence: bool
    """Whether it is evidence for the cause of the job's failure."""

    def __new__(
        cls,
        text: str,
        pod: str = "",
        at: str = "",
        rank: int | None = None,
        level: str = "",
        evidence: bool = False,
    ) -> LogLine:
        """Creates a line."""
        line = super().__new__(cls, text)
        line.pod = pod
        line.at = at
        line.rank = rank
        line.level = level
        line.evidence = evidence
        return line

    @property
    def written(self) -> datetime | None:
        """When the line was written."""
        # Before 3.11, Python reads neither `Z` nor nanoseconds.
        whole, _, fraction = self.at.removesuffix("Z").partition(".")
        return datetime.fromisoformat(f"{whole}.{fraction[:6]:0<6}+00:00") if whole else None
