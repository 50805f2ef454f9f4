"""Finds what the rank that failed printed last: its Python traceback, or its last lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

#: The number of lines from the end of the output that are searched, and the most that are returned.
TAIL_LINES = 400
MOST_LINES = 10

#: What mpirun puts before a line to say which rank wrote it: `[1,3]<stderr>:` of Open MPI, with a space of Open MPI 5, `[3] `
#: of MPICH and Intel MPI.
_TAG = re.compile(r"^\[(?:\d+,)?(?P<rank>\d+)\](?:<std(?:out|err|diag)>)?:?")
_BEGIN = "Traceback (most recent call last):"
#: The last line of a traceback: the name of the exception, and what it says.
_END = re.compile(r"^[A-Za-z_][\w.]*(?::.*)?$")
#: How lines of the launch agent and of MPI's launchers begin.
_LAUNCHERS = (
    "odh-launch: ", "[mpiexec@", "[proxy:", "mpirun noticed ", "mpirun detected ", "prterun noticed ", "prterun detected ",
)  # fmt: skip
#: The rules above and below a report of a launcher.
_RULES = frozenset({"-" * 60, "-" * 66, "-" * 74, "=" * 83})


def last_words(lines: Sequence[str], rank: int | None = None) -> tuple[str, ...]:
    """The last lines that the program wrote, without the tags of ranks; those of a rank if the launcher tags its lines."""
    kept: list[tuple[str, str]] = []
    rest = list(lines)
    while rest:
        line = str(rest.pop(0))
        tag = _TAG.match(line)
        text = line[tag.end() :].removeprefix(" ") if tag else line
        if line.strip() in _RULES:
            end = next((at for at, other in enumerate(rest) if other.strip() in _RULES), None)
            # A rule without another one ends a report that began before these lines.
            rest = rest if end is None else rest[end + 1 :]
        elif text.strip() and (tag or not text.startswith(_LAUNCHERS)):
            kept.append((tag["rank"] if tag else "", text.rstrip()))
    own = [text for of, text in kept if of == str(rank)]
    return tuple((own or [text for _, text in kept])[-MOST_LINES:])


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
