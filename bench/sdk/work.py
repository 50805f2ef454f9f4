"""What the bench measures with the installed package: `work.py JOBS LINES` prints one JSON object. It finds `odh local` by ODH_HOME."""

import functools
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import httpx
from openshift_ai.training import MPIJobClient
from openshift_ai.training import _models as models
from openshift_ai.training._http import address

IMAGE = "quay.io/opendatahub/mpi-examples:openmpi"
REPEATS = 50
FIELDS: dict[str, Any] = {"image": IMAGE, "command": ["x"], "suspend": True}

jobs, lines = int(sys.argv[1]), int(sys.argv[2])
client = MPIJobClient()
service = client.transport.service()
namespace = client.namespace()
plain = httpx.Client(
    base_url=service.url,
    headers={"Authorization": f"Bearer {service.tokens.token()}"},
    verify=client.transport.trusted(),
    trust_env=False,
    timeout=60,
)
found: dict[str, float] = {}


def seconds(work):
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def create(name):
    client.create_mpijob(name=name, **FIELDS)


def create_plainly(name):
    """The request that the package sends, and nothing else."""
    spec = {"name": name, "workers": 1, **FIELDS, "mpi": "OpenMPI"}
    body = {"spec": spec, "skipChecks": False, "idempotencyKey": f"plain-{name}"}
    plain.post(address(models.CREATE_JOB, {"namespace": namespace}), json=body).raise_for_status()


def creations():
    """Both by turns, each first as often as second, so that both meet the same machine."""
    create("warm")
    create_plainly("warm-plain")
    times: dict[Callable[[str], None], list[float]] = {create: [], create_plainly: []}
    for index in range(REPEATS):
        for work in list(times)[:: 1 if index % 2 else -1]:
            name = f"{work.__name__.replace('_', '-')}-{index}"
            times[work].append(seconds(functools.partial(work, name)))
    found["create"], found["plain"] = (statistics.median(taken) * 1000 for taken in times.values())
    found["beyond"] = statistics.median(ours - theirs for ours, theirs in zip(*times.values(), strict=True)) * 1000


def lists():
    for index in range(jobs - len(list(client.list()))):
        client.create_mpijob(name=f"j-{index}", skip_checks=True, **FIELDS)
    began = time.perf_counter()
    found["listed"] = sum(1 for _ in client.list())
    found["list"] = time.perf_counter() - began


def logs():
    """A log is followed while it is written, and read again by the package and by httpx alone."""
    program = f"for i in range({lines}): print('step', i, 'loss', i * 0.5)"
    job = client.create_mpijob(name="lines", image=IMAGE, in_launcher=True, command=["python3", "-c", program])
    following = job.logs(follow=True)
    next(following)
    began = time.perf_counter()
    found["followed"] = 1 + sum(1 for _ in following)
    found["follow"] = time.perf_counter() - began
    job.wait_for_completion(600)
    began = time.perf_counter()
    found["lines"] = sum(1 for _ in job.logs())
    found["read"] = time.perf_counter() - began
    began = time.perf_counter()
    with plain.stream("GET", address(models.READ_LOGS, job.path)) as response:
        response.raise_for_status()
        found["bytes"] = sum(len(chunk) for chunk in response.iter_bytes())
    found["stream"] = time.perf_counter() - began


creations()
lists()
logs()
print(json.dumps(found))
