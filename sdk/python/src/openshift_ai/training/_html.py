"""Jobs as HTML for notebooks. Every text of a job is escaped: its name and its output are another person's."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from ._durations import age

if TYPE_CHECKING:
    from ._models import CompareJobsResponse, Job, JobRow

#: A colour and a shape for how a job is: colour alone is not for everyone. A word of a newer service has neither.
_LOOKS = {
    "waiting": ("#6a6e73", "◷"),
    "suspended": ("#6a6e73", "⏸"),
    "running": ("#0066cc", "▶"),
    "degraded": ("#795600", "⚠"),
    "succeeded": ("#3e8635", "✔"),
    "failed": ("#c9190b", "✖"),
    "cancelled": ("#6a6e73", "⊘"),
    "deleting": ("#6a6e73", "…"),
}
_UNKNOWN = ("#6a6e73", "?")
_STYLE = "border-collapse:collapse;font-family:sans-serif;font-size:13px"
_CELL = "padding:4px 12px 4px 0;text-align:left;vertical-align:top"


def badge(status: JobRow) -> str:
    """The state, by colour, shape and word; the sentence about it is its title."""
    colour, shape = _LOOKS.get(status.health, _UNKNOWN)
    title = f' title="{escape(status.message)}"' if status.message else ""
    return f'<span style="color:{colour};font-weight:600"{title}>{shape} {escape(status.state)}</span>'


def bar(status: JobRow) -> str:
    """The Workers that run, of all; only their number if the job does not run."""
    workers = status.workers
    if workers is None or not workers.of:
        return "-"
    if status.phase != "Running":
        return str(workers.of)
    label = f"{workers.running} of {workers.of} Workers running"
    return (
        f'<meter min="0" max="{workers.of}" value="{workers.running}" '
        f'aria-label="{label}" style="width:80px"></meter> {workers.running}/{workers.of}'
    )


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of cells that are HTML already."""
    head = "".join(f'<th scope="col" style="{_CELL}">{escape(text)}</th>' for text in heads)
    body = "".join("<tr>" + "".join(f'<td style="{_CELL}">{cell}</td>' for cell in row) + "</tr>" for row in rows)
    return f'<table style="{_STYLE}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def job_table(jobs: Sequence[JobRow]) -> str:
    """Jobs, one in each row."""
    if not jobs:
        return '<p style="font-family:sans-serif">No jobs</p>'
    rows = [
        [
            escape(job.name),
            escape(job.namespace),
            escape(job.kind),
            badge(job),
            bar(job),
            str(job.gpus),
            progress(job),
            age(job.running_since, job.finished),
        ]
        for job in jobs
    ]
    return table(["Name", "Namespace", "Kind", "State", "Workers", "GPUs", "Progress", "Time"], rows)


def progress(job: JobRow) -> str:
    """How far the training is, if it reports that."""
    if job.progress is None:
        return "-"
    percent = job.progress.percent
    return f'<progress max="100" value="{percent}" aria-label="Progress"></progress> {percent} %'


def details(job: Job) -> str:
    """A job with its pods, why it failed, and what may be wrong with it all the same."""
    text = job_table([job.row] if job.row else [])
    text += "".join(f'<p style="font-family:sans-serif">{escape(warning)}</p>' for warning in job.warnings)
    if job.failure:
        lines = "".join(f"<li><code>{escape(line)}</code></li>" for line in job.failure.evidence)
        text += (
            f'<div role="alert" style="border-left:3px solid #c9190b;padding-left:8px;font-family:sans-serif">'
            f"<p><b>{escape(job.failure.cause)}</b>: {escape(job.failure.message)}</p><ul>{lines}</ul>"
            f"<p>What to do: {escape(job.failure.suggestion)}</p></div>"
        )
    rows = [
        [
            escape(pod.name),
            escape(pod.role),
            escape(pod.state),
            escape(pod.node),
            str(pod.restarts),
            "-" if pod.exit_code is None else str(pod.exit_code),
        ]
        for pod in job.pods
    ]
    return text + table(["Pod", "Role", "State", "Node", "Restarts", "Exit code"], rows)


def comparison(found: CompareJobsResponse) -> str:
    """Jobs in columns."""
    rows = [
        [f"<b>{escape(line.field)}</b>", *(escape(value) or "-" for value in line.values)]
        for line in (*found.outcome, *found.differences, *found.metrics)
    ]
    return table(["", *found.columns], rows)


def live(status: JobRow, lines: Sequence[str], note: str = "") -> str:
    """A job while it runs: its row, what it waits for, and the end of its output."""
    tail = escape("\n".join(lines))
    said = f'<p style="font-family:sans-serif" role="status">{escape(note)}</p>' if note else ""
    return (
        job_table([status])
        + said
        + f'<pre style="max-height:20em;overflow:auto;background:#f5f5f5;color:#151515;padding:8px" '
        f'tabindex="0" aria-label="Output">{tail}</pre>'
    )
