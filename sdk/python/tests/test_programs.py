"""The programs of the requirements run as they are written, each as a person would run it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from local_cluster import Cluster, printed

PROGRAMS = Path(__file__).parent / "programs"


def run(program: Path, cluster: Cluster, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore::openshift_ai.training.JobWarning", str(program)],
        env={**os.environ, "ODH_HOME": str(cluster.home), **variables},
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
    )


def test_the_program_of_the_requirements_runs_as_it_stands(cluster: Cluster, tmp_path: Path) -> None:
    cluster.namespace("ml-team")
    cluster.grow()
    done = run(PROGRAMS / "requirements.py", cluster, tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("Job status: Pending, Workers running: "), lines
    assert lines[-1] == "Job status: Succeeded, Workers running: 0"
    order = ["Pending", "Running", "Succeeded"]
    phases = [order.index(line.split()[2].rstrip(",")) for line in lines]
    assert phases == sorted(phases)
    gone = cluster.api.get("/apis/kubeflow.org/v2beta1/namespaces/ml-team/mpijobs").json()
    assert gone["items"] == []


def test_the_short_form_runs_as_it_stands(cluster: Cluster, tmp_path: Path) -> None:
    done = run(PROGRAMS / "short.py", cluster, tmp_path, KUBECONFIG=str(cluster.kubeconfig))
    assert done.returncode == 0, done.stderr
    assert printed(done.stdout.splitlines()) == [f"rank {rank} of 4 trains" for rank in range(4)]


def test_a_program_that_does_not_close_its_client_leaves_no_socket_open(cluster: Cluster, tmp_path: Path) -> None:
    program = tmp_path / "open.py"
    program.write_text(
        "import gc\nfrom openshift_ai.training import MPIJobClient\n"
        "MPIJobClient().whoami()\ngc.collect()\nlast = MPIJobClient()\nprint(last.whoami().user)\n"
    )
    done = run(program, cluster, tmp_path)
    assert (done.stdout, done.stderr) == ("kubernetes-admin\n", ""), "a socket that is left open is a ResourceWarning"


@pytest.mark.parametrize("name", ["requirements.py", "short.py"])
def test_a_program_has_at_most_ten_lines_besides_its_specification(name: str) -> None:
    # The specification of the longer one is a single statement.
    import ast

    statements = ast.parse((PROGRAMS / name).read_text()).body
    assert len(statements) <= 10
