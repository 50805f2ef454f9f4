#!/usr/bin/env python3
"""Measures an embedded cluster that keeps many jobs, from outside, and writes bench/reports/kept.md. Python's standard library only.

Run by `cargo xtask bench kept`, with ODH (the release build of odh) in the environment. The jobs are suspended, have 8 Workers each,
and the operator is on. Figures: creations a second by 6 clients at the API; `odh local up` with all of them; resident memory after
that start, for each job beside the bytes of the JSON of all objects that the job has: what any implementation has to keep.

    run.py [--jobs 10000] [--quick]

--quick tries everything once with few jobs, prints and writes no report.
"""

import argparse
import base64
import http.client
import json
import os
import pathlib
import re
import ssl
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import report

ODH = os.environ.get("ODH", "odh")
REPORT = pathlib.Path(__file__).resolve().parents[1] / "reports" / "kept.md"
CLIENTS, WORKERS, QUICK_JOBS = 6, 8, 100
WAIT_SECONDS = 1800
JOBS = "/apis/kubeflow.org/v2beta1/namespaces/default/mpijobs"
# What the operator makes for a job that is suspended, and the job itself.
OBJECTS = [
    JOBS,
    "/apis/batch/v1/namespaces/default/jobs",
    "/api/v1/namespaces/default/configmaps",
    "/api/v1/namespaces/default/secrets",
    "/api/v1/namespaces/default/services",
    "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
]
# How long a cluster has to become idle before its memory is measured.
SETTLE_SECONDS = 10


def odh(home: str, *words: str) -> str:
    environment = {**os.environ, "ODH_HOME": home, "NO_COLOR": "1"}
    environment.pop("KUBECONFIG", None)
    done = subprocess.run([ODH, *words], env=environment, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        raise SystemExit(f"odh {' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def matched(pattern: str, text: str) -> str:
    """Returns the first group of the first match."""
    found = re.search(pattern, text)
    if not found:
        raise SystemExit(f"{pattern} is not there")
    return found[1]


class RefusedError(Exception):
    """The API refused a request."""


class Api:
    """One connection to the API, as the cluster's administrator."""

    def __init__(self, home: str) -> None:
        text = pathlib.Path(home, "kubeconfig").read_text()

        def found(key: str) -> str:
            # A long value is folded over lines.
            return "".join(matched(rf"{key}: (?:>-)?\s*((?:[^\s]+\n\s*)+?)(?=[^\s]+:)", text).split())

        self.context = ssl.create_default_context(cadata=base64.b64decode(found("certificate-authority-data")).decode())
        self.token = found("token")
        self.place = found("server").removeprefix("https://").rstrip("/")
        self.connection = self.connect()

    def connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(self.place, context=self.context, timeout=300)

    def ask(self, method: str, path: str, body: object = None) -> dict:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        self.connection.request(method, path, json.dumps(body) if body else None, headers)
        reply = self.connection.getresponse()
        text = reply.read()
        if reply.status >= 300:
            raise RefusedError(f"{method} {path}: {reply.status} {text[:500]!r}")
        return json.loads(text)


def job(number: int) -> dict:
    pod = {
        "spec": {
            "containers": [
                {
                    "name": "mpi",
                    "image": "quay.io/team-cv/resnet:1.0",
                    "command": ["mpirun", "python", "/train.py"],
                    "resources": {"limits": {"cpu": "4", "memory": "16Gi"}},
                    "env": [{"name": "LR", "value": "0.1"}],
                }
            ]
        }
    }
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": f"kept-{number:05}"},
        "spec": {
            "runPolicy": {"suspend": True},
            "mpiReplicaSpecs": {
                "Launcher": {"replicas": 1, "template": pod},
                "Worker": {"replicas": WORKERS, "template": pod},
            },
        },
    }


def create(home: str, count: int) -> float:
    """Creates the jobs by all clients at once. Returns jobs a second."""
    failed: list[Exception] = []

    def some(first: int) -> None:
        try:
            api = Api(home)
            for number in range(first, count, CLIENTS):
                api.ask("POST", JOBS, job(number))
        except (OSError, ValueError, RefusedError) as error:
            failed.append(error)

    threads = [threading.Thread(target=some, args=(first,)) for first in range(CLIENTS)]
    started = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise SystemExit(f"a job was not created: {failed[0]}")
    return count / (time.monotonic() - started)


def handled(home: str, count: int) -> float:
    """Waits until the operator has made a Launcher's Job for each job. Returns the seconds."""
    api, started = Api(home), time.monotonic()
    while time.monotonic() - started < WAIT_SECONDS:
        listed = api.ask("GET", "/apis/batch/v1/namespaces/default/jobs?limit=1")
        there = len(listed["items"]) + listed["metadata"].get("remainingItemCount", 0)
        if there >= count:
            return time.monotonic() - started
        time.sleep(0.2)
    raise SystemExit(f"the operator did not handle {count} jobs within {WAIT_SECONDS} s")


def json_bytes(home: str) -> int:
    """The bytes of the JSON of all objects of all jobs."""
    api, total = Api(home), 0
    for path in OBJECTS:
        after = ""
        while True:
            page = api.ask("GET", f"{path}?limit=500{after}")
            total += sum(len(json.dumps(item, separators=(",", ":"))) for item in page["items"])
            if not page["metadata"].get("continue"):
                break
            after = f"&continue={page['metadata']['continue']}"
    return total


def anonymous(home: str) -> int:
    """Bytes of anonymous memory of the cluster's process: what it has allocated."""
    pid = json.loads(odh(home, "local", "status", "-o", "json"))["pid"]
    time.sleep(SETTLE_SECONDS)
    text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(matched(r"(?m)^Anonymous: *(\d+) kB", text)) * 1024


def timed(home: str, *words: str) -> float:
    started = time.monotonic()
    odh(home, *words)
    return time.monotonic() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    count = QUICK_JOBS if options.quick else options.jobs
    with tempfile.TemporaryDirectory(prefix="odh-kept-") as home:
        try:
            odh(home, "local", "up")
            empty = anonymous(home)
            rate = create(home, count)
            behind = handled(home, count)
            size = json_bytes(home)
            grown = anonymous(home)
            down = timed(home, "local", "down")
            again = timed(home, "local", "up")
            # Lets the operator look at all jobs, which it does after its start.
            handled(home, count)
            kept = anonymous(home)
        finally:
            odh(home, "local", "down")

    def each(memory: int) -> str:
        return f"{(memory - empty) / count / 1024:.1f} KiB ({(memory - empty) / size:.1f} of the JSON)"

    rows = [
        [f"creations by {CLIENTS} clients", f"{rate:.0f} a second", "≥ 100"],
        ["… until the operator has made the last Launcher's Job", f"{behind:.1f} s later", "–"],
        ["JSON of all objects, each job", f"{size / count / 1024:.1f} KiB", "–"],
        ["memory after the creations, each job", each(grown), "–"],
        ["`odh local down`", f"{down:.2f} s", "–"],
        ["`odh local up` with all of them", f"{again:.2f} s", "< 2 s"],
        ["memory after that start, each job", each(kept), "< 40 KiB"],
        ["memory of the empty cluster", f"{empty / 2**20:.0f} MiB", "–"],
    ]
    heads = ["what", "measured", "goal"]
    if options.quick:
        print(*("  ".join(row) for row in rows), sep="\n")
        return
    setting = f"the cluster and {CLIENTS} clients; {count} suspended jobs of {WORKERS} Workers, release build"
    report.write(REPORT, "A cluster that keeps many jobs", setting, heads, rows, "kept")


if __name__ == "__main__":
    main()
