"""Where a reading of a stream is, so that it continues after a break without loss and without doubles."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any

from ._models import JobRef
from ._status import JobChange, JobStatus, LogLine

#: How much earlier than the last line a continued reading begins: clocks of nodes differ, and pods are merged with delay.
OVERLAP_SECONDS = 30.0


class _Pod:
    """The last line of a pod that was delivered: its time, and how many lines of that time were."""

    __slots__ = ("at", "count", "left")

    def __init__(self) -> None:
        self.at = ""
        self.count = 0
        #: Lines of the time `at` that a continued reading repeats; -1 if the reading is not a continued one.
        self.left = -1


class LogPosition:
    """Which lines of a log were delivered."""

    def __init__(self, choice: dict[str, Any]) -> None:
        self._choice = choice
        self._pods: dict[str, _Pod] = {}
        self._newest = ""
        self._began = time.monotonic()
        self._ahead = 0.0

    def server_time(self, date: str | None) -> None:
        """Learns from a response's `Date` by how much the service's clock is ahead of this one."""
        if date:
            self._ahead = parsedate_to_datetime(date).timestamp() - time.time()

    def query(self) -> dict[str, Any]:
        """The query for what was not delivered yet, and a little before it."""
        if not self._pods:
            return self._choice
        for pod in self._pods.values():
            pod.left = pod.count
        whole = datetime.strptime(self._newest.partition(".")[0], "%Y-%m-%dT%H:%M:%S").replace(tzinfo=timezone.utc)
        age = time.time() + self._ahead - whole.timestamp()
        since = math.ceil(max(age, 0.0) + OVERLAP_SECONDS)
        first = self._choice.get("sinceSeconds")
        if first is not None:
            # Never more than what was asked for at first.
            since = min(since, math.ceil(first + time.monotonic() - self._began))
        return {**self._choice, "sinceSeconds": since, "tail": None}

    def lines(self, items: Iterable[dict[str, Any]]) -> list[LogLine]:
        """The lines among items, without those that were delivered before the break."""
        found = []
        for item in items:
            if item.get("type") != "line":
                continue
            get = item.get
            name, at = get("pod", ""), get("at", "")
            # Fractions have different lengths, and "Z" would sort after digits.
            if self._is_new(name, at[:-1]):
                found.append(LogLine(get("text", ""), name, at, get("rank"), get("level", ""), get("evidence", False)))
        return found

    def _is_new(self, name: str, at: str) -> bool:
        """Notes a line of a pod, unless it was delivered before the break."""
        pod = self._pods.get(name)
        if pod is None:
            pod = self._pods[name] = _Pod()
        if pod.left >= 0:
            if at < pod.at:
                return False
            if at == pod.at and pod.left > 0:
                pod.left -= 1
                return False
            pod.left = -1
        if at == pod.at:
            pod.count += 1
        else:
            pod.at, pod.count = at, 1
            self._newest = max(self._newest, at)
        return True


class Board:
    """The jobs that a watch has seen, to report only what is different."""

    def __init__(self) -> None:
        self._jobs: dict[tuple[str, str, str], JobStatus] = {}
        self._raw: dict[tuple[str, str, str], dict[str, Any]] = {}
        self._snapshot: set[tuple[str, str, str]] = set()
        self.id = ""
        self.is_complete = False
        """Whether a whole snapshot has arrived."""

    def has(self, key: tuple[str, str, str]) -> bool:
        """Whether a job is among them."""
        return key in self._jobs

    def take(self, event: dict[str, Any]) -> list[JobChange]:
        """The changes that an event of the stream brings."""
        self.id = event.get("id") or self.id
        kind = event.get("type")
        if kind == "snapshot" and event.get("first"):
            self._snapshot = set()
        changes = [change for row in event.get("jobs") or [] if (change := self._row(row, kind == "snapshot"))]
        for gone in event.get("deleted") or []:
            ref = JobRef.model_validate(gone)
            changes += self._gone((ref.kind, ref.namespace, ref.name))
        if kind == "snapshot" and event.get("complete"):
            self.is_complete = True
            for key in [key for key in self._jobs if key not in self._snapshot]:
                changes += self._gone(key)
        return changes

    def _row(self, row: dict[str, Any], in_snapshot: bool) -> JobChange | None:
        key = (row.get("kind", ""), row.get("namespace", ""), row.get("name", ""))
        if in_snapshot:
            self._snapshot.add(key)
        known = self._raw.get(key)
        if known == row:
            return None
        self._raw[key] = row
        status = self._jobs[key] = JobStatus.model_validate(row)
        return JobChange("added" if known is None else "changed", status)

    def _gone(self, key: tuple[str, str, str]) -> list[JobChange]:
        self._raw.pop(key, None)
        status = self._jobs.pop(key, None)
        return [JobChange("deleted", status)] if status else []
