"""Where the reading of a stream is, so that it continues after a break without loss and without doubles."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ._models import JobRef
from ._status import JobChange, JobStatus, LogLine


class LogPosition:
    """Where to go on in a log: the last place of each pod of which a line was delivered, as the service gave it."""

    def __init__(self, choice: dict[str, Any]) -> None:
        self._choice = choice
        self._cursors: dict[str, str] = {}
        self._noted: set[str] = set()

    def query(self) -> dict[str, Any]:
        """The query for what was not delivered yet."""
        return {**self._choice, "cursor": [*self._cursors.values()] or None}

    def notes(self, items: Iterable[dict[str, Any]]) -> list[str]:
        """The notes among items that are not lines, each once: after a break, the service repeats them."""
        found = []
        for item in items:
            kind, pod, text = item.get("type"), item.get("pod", ""), item.get("text", "")
            if kind == "line":
                continue
            note = f"{pod} waits for {text}" if kind == "waiting" else f"{pod}: {text}" if pod else text
            if kind == "missing" or note not in self._noted:
                found.append(note)
            self._noted.add(note)
        return found

    def lines(self, items: Iterable[dict[str, Any]]) -> list[LogLine]:
        """The lines among items."""
        found = []
        for item in items:
            if item.get("type") != "line":
                continue
            get = item.get
            name = get("pod", "")
            for origin in (item, *(get("also") or ())):
                if cursor := origin.get("cursor"):
                    self._cursors[origin.get("pod", "")] = cursor
            found.append(
                LogLine(get("text", ""), name, get("at", ""), get("rank"), get("level", ""), get("evidence", False))
            )
        return found


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
