"""A job in a notebook while it runs: its phase, its Workers and the end of its output.

A thread follows the job, so the cell returns at once and a running event loop is not disturbed. Without IPython, or outside of a
notebook, lines are printed.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

from ._errors import JobCancelledError, TrainingError

if TYPE_CHECKING:
    from ._status import JobStatus
    from ._sync.job import MPIJob

#: Lines of output that are shown.
LINES = 20
#: The shortest time between two updates of the view: a notebook draws no faster.
PAUSE_SECONDS = 0.25
#: How long closing waits for the thread, which sits in a read of the network.
CLOSE_SECONDS = 1.0


class LiveView:
    """Follows a job and shows it. It ends when the job has ended, or with `close()`, which leaves the job."""

    def __init__(self, job: MPIJob, lines: int = LINES) -> None:
        self._job = job
        self._lines: deque[str] = deque(maxlen=lines)
        self._note = ""
        self._lock = threading.Lock()
        self._changed = threading.Event()
        self._closed = threading.Event()
        self._threads = [
            threading.Thread(target=work, name=f"live-{job.name}", daemon=True)
            for work in (self._follow_status, self._follow_output, self._draw)
        ]
        self._ended = threading.Event()
        self._show: Any = None

    @property
    def status(self) -> JobStatus:
        """The newest status."""
        return self._job.status

    @property
    def lines(self) -> list[str]:
        """The last lines of output."""
        with self._lock:
            return list(self._lines)

    @property
    def note(self) -> str:
        """What the job waits for, or why the view has ended."""
        with self._lock:
            return self._note or self._job.status.message

    def _repr_html_(self) -> str:
        from ._html import live

        return live(self._job.status, self.lines, self.note)

    def start(self) -> LiveView:
        """Begins to follow the job, and shows it below the cell."""
        self._show = _display(self)
        for thread in self._threads:
            thread.start()
        return self

    def close(self) -> None:
        """Stops following. The job goes on."""
        self._closed.set()
        self._changed.set()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(CLOSE_SECONDS)

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until the job has ended and everything was shown; returns whether it has."""
        return self._ended.wait(timeout)

    def _say(self, note: str) -> None:
        with self._lock:
            self._note = note
        self._changed.set()

    def _follow_status(self) -> None:
        try:
            for _ in self._job.watch():
                self._changed.set()
                if self._closed.is_set():
                    return
        except JobCancelledError as error:
            self._say(error.message)
        except TrainingError as error:
            self._say(f"{error.message}. The job goes on.")
        finally:
            # The output may end a moment later.
            self._threads[1].join(None if self._job.status.has_ended and not self._note else CLOSE_SECONDS)
            self._closed.set()
            self._changed.set()

    def _follow_output(self) -> None:
        try:
            for line in self._job.logs(follow=True, tail=self._lines.maxlen, on_note=self._say):
                with self._lock:
                    self._lines.append(line)
                    # What was waited for is there.
                    self._note = ""
                self._changed.set()
                if self._closed.is_set():
                    return
        except TrainingError as error:
            self._say(error.message)

    def _draw(self) -> None:
        while not self._closed.is_set():
            self._changed.wait()
            self._changed.clear()
            self._show(self)
            self._closed.wait(PAUSE_SECONDS)
        self._show(self)
        self._ended.set()


def _display(view: LiveView) -> Any:
    """Shows the view once and returns what shows it again."""
    try:
        from IPython import get_ipython
        from IPython.display import display
    except ImportError:
        return _printer()
    if get_ipython() is None:
        return _printer()
    widget = _widget(view)
    if widget is not None:
        display(widget)
        return widget.redraw
    handle = display(view, display_id=True)
    return handle.update


def _printer() -> Any:
    """Prints what is new."""
    printed: dict[str, Any] = {"summary": "", "note": "", "lines": []}

    def show(view: LiveView) -> None:
        summary, lines = view.status.summary, view.lines
        if summary != printed["summary"]:
            print(f"{view.status.name}: {summary}")  # noqa: T201 - this is its purpose
            printed["summary"] = summary
        if (note := view.note) != printed["note"]:
            if note:
                print(f"{view.status.name}: {note}")  # noqa: T201 - this is its purpose
            printed["note"] = note
        before = printed["lines"]
        # The lines overlap with those that were printed before.
        known = next((n for n in range(min(len(before), len(lines)), 0, -1) if before[-n:] == lines[:n]), 0)
        for line in lines[known:]:
            print(line)  # noqa: T201 - this is its purpose
        printed["lines"] = lines

    return show


def _widget(view: LiveView) -> Any:
    """A widget, if the extra `notebook` is installed: it also has a button that ends the job."""
    with contextlib.suppress(ImportError):
        from ._widget import JobWidget

        return JobWidget(view, view._job.delete)
    return None


def show(job: MPIJob, lines: int = LINES) -> LiveView:
    """Follows a job below the cell of a notebook, or prints what is new elsewhere."""
    return LiveView(job, lines).start()
