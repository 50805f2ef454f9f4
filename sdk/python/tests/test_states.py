"""States of jobs: shown as the service sends them, also those of a newer service."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

import pytest
import yaml

from openshift_ai.training import JobStatus, UsageReport, _html, _notes

REPOSITORY = Path(__file__).parents[3]
#: The training service computes the rows of the same cases.
CASES: list[dict[str, Any]] = yaml.safe_load((REPOSITORY / "openapi/states.yaml").read_text())
GREY = "#6a6e73"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
def test_a_state_is_shown_as_the_service_sends_it(case: dict[str, Any]) -> None:
    row = case["row"] | {"workers": {"running": 1, "of": 2}}
    status = JobStatus.model_validate(row)
    assert (status.state, status.has_ended, list(status.actions)) == (row["state"], row["ended"], row["actions"])
    assert status.message == row.get("message", "")
    runs = row["phase"] == "Running"
    assert status.summary == row["state"] + (", 1/2 Workers running" if runs else "")
    badge = _html.badge(status)
    assert escape(row["state"]) in badge
    assert escape(status.message) in badge
    assert status.is_cancelled == (row["state"] == "Cancelled")


def test_what_jobs_used_is_a_table_with_a_column_for_each_resource() -> None:
    amounts = [{"resource": "cpu", "hours": "1.5"}, {"resource": "nvidia.com/gpu", "hours": "12"}]
    sums = [{"namespace": "n", "user": "ann", "amounts": amounts, "cost": "3.2500"}, {"namespace": "n", "user": "bob"}]
    assert UsageReport.model_validate({"usage": sums}).rows() == [
        {
            "namespace": "n",
            "user": "ann",
            "job": "",
            "uid": "",
            "cpu_hours": 1.5,
            "nvidia.com/gpu_hours": 12,
            "cost": 3.25,
        },
        {"namespace": "n", "user": "bob", "job": "", "uid": ""},
    ]


def test_the_last_line_of_a_cell_shows_a_status_in_one_row() -> None:
    status = JobStatus(kind="MPIJob", namespace="n", name="<pi>", phase="Running", state="Running")
    assert repr(status) == str(status) == "<JobStatus MPIJob n/<pi>: Running>"
    shown = status._repr_html_()
    assert "&lt;pi&gt;" in shown
    assert shown == _html.job_table([status])


def test_a_state_that_is_not_known_has_no_colour_of_another() -> None:
    newer = [case["row"] for case in CASES if "status" not in case]
    assert len(newer) == 2
    for row in newer:
        assert f"color:{GREY}" in _html.badge(JobStatus.model_validate(row))
    cancelled = next(case["row"] for case in CASES if case["row"]["state"] == "Cancelled")
    assert f"color:{GREY}" in _html.badge(JobStatus.model_validate(cancelled)), "it did not fail"


def test_what_a_job_waits_for_is_said_once_for_each_cause() -> None:
    def status(state: str, health: str = "waiting", message: str = "") -> JobStatus:
        ended = state.startswith("Succeeded")
        row = {"name": "pi", "phase": "Pending", "state": state, "health": health, "message": message, "ended": ended}
        return JobStatus.model_validate(row)

    waits = _notes.Waits()
    retried = "attempt {} of 4 starts at about 06:30:1{} UTC"
    seen = [
        status("Pending"),
        status("Pending (Initializing)"),
        status("Pending (Unschedulable)", message="0 of 3 nodes fit"),
        status("Pending (Unschedulable)", message="0 of 4 nodes fit"),
        status("Running", "running"),
        status("Retrying (OutOfMemory)", "degraded", retried.format(2, 1)),
        status("Retrying (OutOfMemory)", "degraded", retried.format(2, 1)),
        status("Retrying (OutOfMemory)", "degraded", retried.format(3, 5)),
        status("Succeeded (Collapsed)", "degraded", "ranks were started on pi-worker-0 only"),
        status("Succeeded", "succeeded"),
    ]
    assert [note for one in seen if (note := waits.news(one))] == [
        "pi: Pending (Initializing)",
        "pi: Pending (Unschedulable): 0 of 3 nodes fit",
        "pi: Retrying (OutOfMemory): attempt 2 of 4 starts at about 06:30:11 UTC",
        "pi: Retrying (OutOfMemory): attempt 3 of 4 starts at about 06:30:15 UTC",
        "pi: Succeeded (Collapsed): ranks were started on pi-worker-0 only",
    ]
