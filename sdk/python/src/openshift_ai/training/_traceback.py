"""Finds the Python traceback in the output of a job that says why a rank failed."""

from __future__ import annotations

import re
from collections.abc import Iterable

#: The number of lines from the end of the output that are searched, and the most that are returned.
TAIL_LINES = 400
MOST_LINES = 10

#: What mpirun puts before a line to say which rank wrote it: `[1,3]<stderr>:` of Open MPI, with a space of Open MPI 5, `[3] `
#: of MPICH and Intel MPI.
_TAG = re.compile(r"^\[(?:\d+,)?(?P<rank>\d+)\](?:<std(?:out|err|diag)>)?:?")
_BEGIN = "Traceback (most recent call last):"
#: The last line of a traceback: the name of the exception, and what it says.
_END = re.compile(r"^[A-Za-z_][\w.]*(?::.*)?$")


def last_traceback(lines: Iterable[str]) -> tuple[str, ...]:
    """The last lines of the last traceback, without the tags of ranks; empty if there is none.

    Ranks that mpirun tags may write at the same time; each line counts for its rank.
    """
    begun: dict[str, list[str]] = {}
    pads: dict[str, str] = {}
    last: list[str] = []
    for line in lines:
        tag = _TAG.match(line)
        rank = tag["rank"] if tag else ""
        text = str(line)[tag.end() :] if tag else str(line)
        if text.removeprefix(" " if tag else "").startswith(_BEGIN):
            pads[rank] = text[: text.index(_BEGIN)]
            begun[rank] = [_BEGIN]
        elif rank in begun:
            text = text.removeprefix(pads[rank])
            if text[:1] in ("", " ", "\t"):
                begun[rank].append(text)
            elif _END.match(text):
                last = [*begun.pop(rank), text]
    shown = [text for text in last if text.strip()]
    return tuple(shown[-MOST_LINES:])
