"""States of jobs: shown as the service sends them, also those of a newer service."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

import pytest
import yaml

from openshift_ai.training import JobStatus, _html

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


def test_a_state_that_is_not_known_has_no_colour_of_another() -> None:
    newer = [case["row"] for case in CASES if "status" not in case]
    assert len(newer) == 2
    for row in newer:
        assert f"color:{GREY}" in _html.badge(JobStatus.model_validate(row))
    cancelled = next(case["row"] for case in CASES if case["row"]["state"] == "Cancelled")
    assert f"color:{GREY}" in _html.badge(JobStatus.model_validate(cancelled)), "it did not fail"
