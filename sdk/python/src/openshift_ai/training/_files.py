"""Reads the files that are shipped with a job: of a folder, or of several files and folders.

It must not read anything that the caller did not name: a folder may be a stranger's repository, with links to files of
this machine. A link stays a link, and one that leads out of its folder is refused.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from ._errors import FieldFault, field_error

#: The most files of a folder.
MOST_FILES = 2_000
#: Folders that hold nothing that a job needs.
LEFT_OUT = frozenset(
    {"__pycache__", ".git", ".ipynb_checkpoints", ".venv", "node_modules", ".mypy_cache", ".ruff_cache"}
)
#: Files and folders that usually hold secrets. They are shipped only if they are named themselves.
SECRETS = (".env*", "*.pem", ".aws", ".kube", ".netrc", ".ssh")


@dataclass(frozen=True)
class Link:
    """A symbolic link to another file or folder that is shipped, relative to the folder in which it is."""

    target: str


Content = bytes | Link


def missing(code: str | Path | Sequence[str | Path]) -> FieldFault | None:
    """The fault of code that is not there."""
    for given in [code] if isinstance(code, (str, Path)) else code:
        try:
            is_there = Path(given).is_dir() or Path(given).is_file()
        except (OSError, ValueError):
            # A program's text is no name of a file.
            is_there = False
        if not is_there:
            return FieldFault("code", f"names {given}, which is neither a file nor a folder", "give the path of one")
    return None


def files_of(code: str | Path | Sequence[str | Path]) -> dict[str, Content]:
    """The contents of files by their paths in the job.

    A folder alone is the job's own folder; in a list, it keeps its name beside the others. Two files of one path are refused.
    """
    if isinstance(code, (str, Path)):
        return dict(_files(Path(code), ""))
    found: dict[str, Content] = {}
    origins: dict[str, Path] = {}
    for given in map(Path, code):
        name = given.resolve().name
        for path, content in _files(given, f"{name}/"):
            if path in found:
                fault = f"has two files {path}, of {origins[path]} and {given}"
                raise field_error("code", fault, "rename one, or ship a folder that has both")
            found[path], origins[path] = content, given
    return found


def _files(given: Path, prefix: str) -> Iterator[tuple[str, Content]]:
    if given.is_dir():
        yield from ((prefix + path, content) for path, content in _folder(given))
    elif given.is_file():
        yield given.name, given.read_bytes()
    elif fault := missing(given):
        raise field_error(*fault)


def _folder(folder: Path) -> Iterator[tuple[str, Content]]:
    for count, path in enumerate(_walk(folder), start=1):
        if count > MOST_FILES:
            fault = f"is the folder {folder} with more than {MOST_FILES} files"
            raise field_error("code", fault, "ship the few that the job needs")
        inside = path.relative_to(folder).as_posix()
        if path.is_symlink():
            yield inside, _link(folder, path)
        else:
            yield inside, path.read_bytes()


def _walk(folder: Path) -> Iterator[Path]:
    """The files of a folder and the links in it, in order, without what is left out. Links are not followed."""
    for place, folders, files in os.walk(folder):
        links = [name for name in folders if Path(place, name).is_symlink()]
        folders[:] = sorted(name for name in folders if name not in links and not _is_left_out(name))
        for name in sorted([*files, *links]):
            path = Path(place, name)
            # A link to nothing is of no use to the job, and neither is one to a device or a socket.
            if not _is_left_out(name) and (path.is_file() or path.is_dir()):
                yield path


def _is_left_out(name: str) -> bool:
    return name in LEFT_OUT or any(fnmatch(name, pattern) for pattern in SECRETS)


def _link(folder: Path, path: Path) -> Link:
    root, parent, target = folder.resolve(), path.parent.resolve(), path.resolve()
    inside = path.relative_to(folder)
    if not target.is_relative_to(root):
        fault = f"has the link {inside} in {folder}, which leads out of the folder, to {target}"
        raise field_error("code", fault, "ship that file by its own name, or remove the link")
    if any(map(_is_left_out, target.relative_to(root).parts)):
        fault = f"has the link {inside} in {folder} to {target.relative_to(root)}, which is not shipped"
        raise field_error("code", fault, "ship that file by its own name, or remove the link")
    return Link(Path(os.path.relpath(target, parent)).as_posix())
