"""What a job waits for, said once for each cause, so that a wait is never a mere silence."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._status import JobStatus

_LOGGER = logging.getLogger("openshift_ai.training")


def log(text: str) -> None:
    """Logs a note as a warning: without a configuration of `logging`, Python prints it to stderr."""
    _LOGGER.warning("%s", text)


def ignore(_: str) -> None:
    """Leaves a note out."""


class Waits:
    """Notes about the states of one job in which it does not simply run, or has ended with a doubt about its result."""

    def __init__(self) -> None:
        self._said = ""

    def news(self, status: JobStatus) -> str | None:
        """The note about a state, unless it was made before or the job goes on."""
        is_plain = status.health == "running" or (status.has_ended and status.health != "degraded")
        if is_plain:
            self._said = ""
            return None
        text = f"{status.name}: {status.state}" + (f": {status.message}" if status.message else "")
        # A job that is tried again says each time when; counts in other messages are no news.
        said = text if status.health == "degraded" else status.state
        # At first, nothing is known yet.
        if said == self._said or status.state == status.phase == "Pending":
            return None
        self._said = said
        return text
