"""The programs of the documents run as they are written."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from local_cluster import Cluster

REPOSITORY = Path(__file__).parents[3]


def programs(document: Path) -> str:
    """The programs of a document, one after another, on the lines that they have there."""
    text = document.read_text()
    kept: list[str] = []
    inside = False
    for line in text.splitlines():
        if re.match(r"```", line):
            inside = line == "```python"
            kept.append("")
        else:
            kept.append(line if inside else "")
    return "\n".join(kept) + "\n"


def test_the_program_of_the_readme_is_the_short_form() -> None:
    # That one runs in another test.
    short = (Path(__file__).parent / "programs/short.py").read_text()
    assert ast.dump(ast.parse(programs(REPOSITORY / "sdk/python/README.md"))) == ast.dump(ast.parse(short))


def test_the_programs_of_the_guide_run(
    cluster: Cluster, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.grow()
    config = cluster.kubeconfig.read_text().replace("namespace: default", f"namespace: {namespace}")
    (tmp_path / "kubeconfig").write_text(config)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    monkeypatch.setenv("ODH_HOME", str(cluster.home))
    program = tmp_path / "program.py"
    program.write_text(programs(REPOSITORY / "docs/guides/sdk.md"))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore::openshift_ai.training.JobWarning", str(program)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert done.returncode == 0, done.stdout + done.stderr
