"""A program in the current directory: pods of a local cluster see it, so a command that names it starts there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

#: Directories of which every pod of a local cluster has its own.
PODS_OWN = (Path("/tmp"), Path("/var/run"))  # noqa: S108 - nothing is written there


def named_file(command: Sequence[str]) -> str | None:
    """The first word of a command that is a file in the current directory, as `odh training create` finds it."""
    for word in command:
        path = Path(word)
        try:
            if not path.is_absolute() and path.suffix and path.is_file():
                return word
        except (OSError, ValueError):
            # A word may be a program's text, which is no name of a file.
            continue
    return None


def hidden(file: str, directory: Path) -> str | None:
    """What to tell about a file if pods of a local cluster cannot see the directory in which it is."""
    own = next((own for own in PODS_OWN if directory.is_relative_to(own)), None)
    if own is None:
        return None
    move = "ship it with code=, or move it elsewhere"
    return f"pods have a {own} of their own and cannot see {file} in {directory}; {move}"
