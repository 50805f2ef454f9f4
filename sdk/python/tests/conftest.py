"""One real cluster with a real service and a real `mpirun` for the whole session; a namespace of its own for each test."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from local_cluster import Cluster, started

from openshift_ai.training import MPIJobClient

REPOSITORY = Path(__file__).parents[3]

NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    with started("--gpus", "8") as cluster:
        for definition in definitions():
            cluster.apply("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
        yield cluster


def definitions() -> Iterator[dict[str, Any]]:
    """The kinds of other operators: the service looks for them at its start, and again half a minute later."""
    yield yaml.safe_load((REPOSITORY / "deploy/crd/trainer/trainer.kubeflow.org_trainjobs.yaml").read_text())
    for kind in ("PyTorchJob", "TFJob"):
        names = {"kind": kind, "plural": f"{kind.lower()}s", "singular": kind.lower(), "listKind": f"{kind}List"}
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
        yield {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{names['plural']}.kubeflow.org"},
            "spec": {"group": "kubeflow.org", "scope": "Namespaced", "names": names, "versions": [version]},
        }


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of the person who runs the tests: no service, no kubeconfig, no proxies."""
    for name in list(os.environ):
        if name.startswith("ODH_TRAINING_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "no-kubeconfig"))
    monkeypatch.setenv("ODH_HOME", str(tmp_path / "no-home"))


@pytest.fixture
def namespace(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    # A namespace that goes away takes a moment, so names are used once.
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower())[:40].strip("-")
    name = f"{name}-{next(NUMBERS)}"
    cluster.namespace(name)
    yield name
    cluster.api.delete(f"/api/v1/namespaces/{name}")


@pytest.fixture
def client(cluster: Cluster, namespace: str) -> Iterator[MPIJobClient]:
    with MPIJobClient(cluster.url, token=cluster.token, ca=cluster.ca, namespace=namespace) as made:
        yield made
