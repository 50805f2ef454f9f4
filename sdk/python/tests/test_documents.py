"""The programs of the documents run as they are written."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from local_cluster import Cluster, started

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


@pytest.fixture
def installed(tmp_path: Path) -> Iterator[Cluster]:
    """As on a careful administrator's cluster: the operator has the flags of `deploy/`, the DNS server remembers for 30 s
    that a name is unknown, and the namespace enforces *restricted*."""
    with started("--no-operator", "--dns-negative-ttl", "30s") as cluster:
        definition = yaml.safe_load((REPOSITORY / "deploy/crd/kubeflow.org_mpijobs.yaml").read_text())
        cluster.apply("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
        cluster.label_namespace("default", {"pod-security.kubernetes.io/enforce": "restricted"})
        documents = yaml.safe_load_all((REPOSITORY / "deploy/base/deployment.yaml").read_text())
        deployment = next(document for document in documents if document["kind"] == "Deployment")
        flags = [
            flag
            for flag in deployment["spec"]["template"]["spec"]["containers"][0]["args"]
            if flag.partition("=")[0] not in ("--lock-namespace", "--monitoring-port", "--webhook-port")
        ]
        words = ["--lock-namespace=default", "--health-address=127.0.0.1:0", *flags]
        with (tmp_path / "operator.log").open("wb") as log:
            operator = subprocess.Popen(
                [cluster.odh.with_name("mpi-operator"), *words],
                env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig)},
                stdout=subprocess.DEVNULL,
                stderr=log,
            )
        try:
            yield cluster
        finally:
            operator.terminate()
            operator.wait(60)


def test_the_programs_of_the_guide_run_where_the_operator_was_installed(
    installed: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed.grow()
    monkeypatch.setenv("KUBECONFIG", str(installed.kubeconfig))
    monkeypatch.setenv("ODH_HOME", str(installed.home))
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
    assert done.returncode == 0, done.stdout + done.stderr + (tmp_path / "operator.log").read_text()
