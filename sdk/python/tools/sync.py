"""Writes `_sync/` from `_async/`: the same code without `async` and `await`.

`runtime.py` of each folder is written by hand: what sleeping, reading time and calling a thread are.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import unasync

#: Modules that both folders have and that are written by hand.
BY_HAND = {"runtime.py", "__init__.py"}
#: Words that have a name of their own in the synchronous code.
WORDS = {
    "AsyncIterator": "Iterator",
    "AsyncGenerator": "Generator",
    "Awaitable": "Immediate",
    "_async": "_sync",
    "aiter_raw": "iter_raw",
    "aiter_bytes": "iter_bytes",
    "aclose": "close",
    "aclosing": "closing",
    "aread": "read",
    "AsyncClient": "Client",
}


def generate(package: Path) -> dict[Path, str]:
    """Returns the text of every module of `_sync/` that is generated."""
    sources = sorted(path for path in (package / "_async").glob("*.py") if path.name not in BY_HAND)
    names = {
        word: word.removeprefix("Async")
        for path in sources
        for word in path.read_text().replace("(", " ").replace(":", " ").split()
        if word.startswith("Async") and word.isidentifier()
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "_async").mkdir()
        copies = [Path(shutil.copy(path, folder / "_async")) for path in sources]
        rule = unasync.Rule(f"{folder}/_async/", f"{folder}/_sync/", additional_replacements={**names, **WORDS})
        unasync.unasync_files([str(path) for path in copies], [rule])
        note = "# Generated from _async/{} by tools/generate.py.\n"
        return {
            package / "_sync" / path.name: note.format(path.name) + (folder / "_sync" / path.name).read_text()
            for path in sources
        }
