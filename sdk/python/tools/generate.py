"""Writes the generated files of the SDK, or compares them: `python tools/generate.py [--check]`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import models
import reference
import sync

HERE = Path(__file__).resolve().parent.parent
PACKAGE = HERE / "src/openshift_ai/training"
REPOSITORY = HERE.parent.parent


def formatted(path: Path, text: str) -> str:
    """The text as ruff writes it."""
    ruff = [sys.executable, "-m", "ruff"]
    named = ["--stdin-filename", str(path), "-"]
    fixed = subprocess.run(
        [*ruff, "check", "--quiet", "--select", "I,F401,UP035", "--fix", *named],
        input=text, capture_output=True, text=True, check=False, cwd=HERE,
    ).stdout  # fmt: skip
    done = subprocess.run(
        [*ruff, "format", "--quiet", *named],
        input=fixed,
        capture_output=True,
        text=True,
        check=True,
        cwd=HERE,
    )
    return done.stdout


def wanted() -> dict[Path, str]:
    """Every generated file with its text."""
    contract = json.loads((REPOSITORY / "openapi/training-v1.json").read_text())
    files = {PACKAGE / "_models.py": models.generate(contract), **sync.generate(PACKAGE)}
    texts = {path: formatted(path, text) for path, text in files.items()}
    texts[REPOSITORY / "docs/reference/sdk.md"] = reference.generate(PACKAGE, texts)
    return texts


def main(arguments: list[str]) -> int:
    different = []
    for path, text in wanted().items():
        if path.is_file() and path.read_text() == text:
            continue
        different.append(str(path.relative_to(REPOSITORY)))
        if "--check" not in arguments:
            path.write_text(text)
    if different and "--check" in arguments:
        print(f"not current: {', '.join(different)}\nrun: python sdk/python/tools/generate.py", file=sys.stderr)
        return 1
    print("\n".join(different) or "all current")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
