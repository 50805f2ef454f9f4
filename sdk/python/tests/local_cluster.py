"""A real cluster with a real service, by `odh local up`."""

from __future__ import annotations

import base64
import json
import os
import shutil
import ssl
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from openshift_ai.training._tls import context

#: The image of jobs: Open MPI and a Python, with training programs at `/train.py` and `train.py`.
IMAGE = "quay.io/x/horovod"
#: What the training programs do: every rank says who it is.
TRAIN = """
import os, sys
print("rank", os.environ["OMPI_COMM_WORLD_RANK"], "of", os.environ["OMPI_COMM_WORLD_SIZE"], "trains", *sys.argv[1:], flush=True)
"""


def strict(file: str | None = None, text: str | None = None) -> ssl.SSLContext:
    """Trusts what the package trusts, as strictly as Python does from 3.13 on."""
    made = context(file, text)
    made.verify_flags |= ssl.VERIFY_X509_STRICT
    return made


def program(variable: str, what: str) -> Path:
    found = os.environ.get(variable)
    if not found:
        pytest.exit(f"{variable} is not set: it is {what}; `cargo xtask sdk` sets it", returncode=2)
    return Path(found).resolve()


@dataclass
class Cluster:
    """A cluster of `odh local up`."""

    odh: Path
    home: Path
    url: str
    ca: str
    token: str
    api: httpx.Client
    options: list[str]

    @property
    def kubeconfig(self) -> Path:
        return self.home / "kubeconfig"

    def local(self, *words: str) -> str:
        return local(self.odh, self.home, *words)

    def up(self) -> str:
        """Starts the cluster again, as it was."""
        return self.local("up", *self.options)

    def apply(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Creates an object through the Kubernetes API; one that exists is left as it is."""
        answer = self.api.post(path, json=body)
        assert answer.is_success or answer.status_code == httpx.codes.CONFLICT, answer.text
        return dict(answer.json())

    def namespace(self, name: str) -> str:
        self.apply("/api/v1/namespaces", {"metadata": {"name": name}})
        return name

    def label_namespace(self, name: str, labels: dict[str, str]) -> None:
        answer = self.api.patch(
            f"/api/v1/namespaces/{name}",
            content=json.dumps({"metadata": {"labels": labels}}),
            headers={"Content-Type": "application/merge-patch+json"},
        )
        assert answer.is_success, answer.text

    def user(self, namespace: str, name: str, role: str | None) -> str:
        """Creates a service account with a role in its namespace; returns a token of it."""
        self.apply(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": name}})
        if role:
            binding = {
                "metadata": {"name": name},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
            }
            self.apply(f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings", binding)
        asked = {"spec": {"expirationSeconds": 3600}}
        answer = self.apply(f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token", asked)
        return str(answer["status"]["token"])

    def grow(self) -> None:
        """Gives the node more than this machine has: what is requested is only counted."""
        amounts = {"cpu": "256", "memory": "1Ti", "nvidia.com/gpu": "64", "pods": "500"}
        answer = self.api.patch(
            "/api/v1/nodes/node-0/status",
            content=json.dumps({"status": {"capacity": amounts, "allocatable": amounts}}),
            headers={"Content-Type": "application/merge-patch+json"},
        )
        assert answer.is_success, answer.text


@contextmanager
def started(*words: str) -> Iterator[Cluster]:
    """A cluster with these words for `odh local up`; it ends with the context."""
    odh = program("ODH", "the program `odh`")
    environment = program("ODH_EXAMPLES_ENVIRONMENT", "an environment with Open MPI")
    folder = Path(tempfile.mkdtemp(prefix="odh-sdk-"))
    folder.chmod(0o755)
    home = folder / "home"
    made = image(folder / "image", environment)
    images = [word for name in (IMAGE, "example/tf-horovod:latest") for word in ("--image", f"{name}={made}")]
    options = [*words, *images]
    try:
        local(odh, home, "up", *options)
        state = json.loads(local(odh, home, "status", "-o", "json"))
        service = state["service"]
        config = yaml.safe_load((home / "kubeconfig").read_text())
        token, authority = config["users"][0]["user"]["token"], config["clusters"][0]["cluster"]
        with httpx.Client(
            base_url=f"https://{state['address']}",
            headers={"Authorization": f"Bearer {token}"},
            verify=strict(text=base64.b64decode(authority["certificate-authority-data"]).decode()),
            trust_env=False,
        ) as api:
            yield Cluster(
                odh,
                home,
                service["url"],
                service["certificateAuthority"],
                Path(service["token"]).read_text().strip(),
                api,
                options,
            )
    finally:
        local(odh, home, "down", "--purge")
        shutil.rmtree(folder)


def local(odh: Path, home: Path, *words: str) -> str:
    done = subprocess.run(
        [odh, "local", *words],
        env={**os.environ, "ODH_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def image(folder: Path, environment: Path) -> Path:
    """Makes an image with the training programs: what it adds to the environment is a `python` that finds them."""
    (folder / "bin").mkdir(parents=True)
    (folder / "etc").mkdir()
    variables = environment / "etc/environment"
    text = variables.read_text().replace("${DIR}", str(environment)) if variables.is_file() else ""
    (folder / "etc/environment").write_text(text)
    for program in (environment / "bin").iterdir():
        (folder / "bin" / program.name).symlink_to(program)
    (folder / "train.py").write_text(TRAIN)
    for name in ("python", "python3"):
        script = folder / "bin" / name
        script.unlink(missing_ok=True)
        script.write_text(
            "#!/bin/sh\n"
            f'case "$1" in train.py|/train.py) shift; set -- "{folder}/train.py" "$@";; esac\n'
            f'exec "{environment}/bin/python" "$@"\n'
        )
        script.chmod(0o755)
    return folder


def printed(lines: Iterable[str]) -> list[str]:
    """What the program printed, sorted. On a busy machine, Open MPI warns of a race with its own children."""
    return sorted(line for line in lines if "setpgid" not in line)
