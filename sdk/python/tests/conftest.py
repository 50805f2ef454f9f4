"""One real cluster with a real service and a real `mpirun` for the whole session; a namespace of its own for each test."""

from __future__ import annotations

import base64
import itertools
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from local_cluster import IMAGE, Cluster, image, local, program, strict

from openshift_ai.training import MPIJobClient

REPOSITORY = Path(__file__).parents[3]

NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    odh = program("ODH", "the program `odh`")
    environment = program("ODH_EXAMPLES_ENVIRONMENT", "an environment with Open MPI")
    folder = Path(tempfile.mkdtemp(prefix="odh-sdk-"))
    folder.chmod(0o755)
    home = folder / "home"
    made = image(folder / "image", environment)
    images = [word for name in (IMAGE, "example/tf-horovod:latest") for word in ("--image", f"{name}={made}")]
    options = ["--gpus", "8", *images]
    try:
        local(odh, home, "up", *options)
        state = json.loads(local(odh, home, "status", "-o", "json"))
        service = state["service"]
        config = yaml.safe_load((home / "kubeconfig").read_text())
        token, authority = config["users"][0]["user"]["token"], config["clusters"][0]["cluster"]
        api = httpx.Client(
            base_url=f"https://{state['address']}",
            headers={"Authorization": f"Bearer {token}"},
            verify=strict(text=base64.b64decode(authority["certificate-authority-data"]).decode()),
            trust_env=False,
        )
        with api:
            started = Cluster(
                odh,
                home,
                service["url"],
                service["certificateAuthority"],
                Path(service["token"]).read_text().strip(),
                api,
                options,
            )
            for definition in definitions():
                started.apply("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
            yield started
    finally:
        local(odh, home, "down", "--purge")
        shutil.rmtree(folder)


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
