"""Reads the files that are shipped with a job: of a folder, or of several files and folders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ._errors import field_error

#: The most files of a folder.
MOST_FILES = 2_000
#: Folders that hold nothing that a job needs.
_LEFT_OUT = frozenset(
    {"__pycache__", ".git", ".ipynb_checkpoints", ".venv", "node_modules", ".mypy_cache", ".ruff_cache"}
)


def files_of(code: str | Path | Sequence[str | Path]) -> dict[str, bytes]:
    """The contents of files by their paths in the job.

    A folder alone is the job's own folder; in a list, it keeps its name beside the others. Two files of one path are refused.
    """
    if isinstance(code, (str, Path)):
        return dict(_files(Path(code), ""))
    found: dict[str, bytes] = {}
    origins: dict[str, Path] = {}
    for given in map(Path, code):
        name = given.resolve().name
        for path, content in _files(given, f"{name}/"):
            if path in found:
                fault = f"has two files {path}, of {origins[path]} and {given}"
                raise field_error("code", fault, "rename one, or ship a folder that has both")
            found[path], origins[path] = content, given
    return found


def _files(given: Path, prefix: str) -> Iterator[tuple[str, bytes]]:
    if given.is_dir():
        yield from ((prefix + path, content) for path, content in _folder(given))
    elif given.is_file():
        yield given.name, given.read_bytes()
    else:
        raise field_error("code", f"names {given}, which is neither a file nor a folder", "give the path of one")


def _folder(folder: Path) -> Iterator[tuple[str, bytes]]:
    count = 0
    for path in sorted(folder.rglob("*")):
        inner = path.relative_to(folder)
        if _LEFT_OUT & set(inner.parts) or not path.is_file():
            continue
        count += 1
        if count > MOST_FILES:
            fault = f"is the folder {folder} with more than {MOST_FILES} files"
            raise field_error("code", fault, "ship the few that the job needs")
        yield inner.as_posix(), path.read_bytes()
