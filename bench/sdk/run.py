#!/usr/bin/env python3
"""Measures the Python SDK, beside PyPI's `kubeflow` for what both have, and writes bench/reports/sdk.md.

Run by `cargo xtask bench sdk`, with ODH, ODH_EXAMPLES_ENVIRONMENT and ODH_TARGET in the environment. Cluster, service and client
share this machine. Times of imports are CPU times of a fresh interpreter with compiled modules; other times are wall clock.

    run.py [--jobs 1000] [--lines 200000] [--report FILE]
"""

import argparse
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile
import venv

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import report

TARGET = pathlib.Path(os.environ.get("ODH_TARGET", ROOT / "target"))
ODH = os.environ["ODH"]
EXAMPLES = os.environ["ODH_EXAMPLES_ENVIRONMENT"]
IMAGE = "quay.io/opendatahub/mpi-examples:openmpi"
REPEATS = 7
LIMIT_SECONDS = 900

parser = argparse.ArgumentParser()
parser.add_argument("--jobs", type=int, default=1_000)
parser.add_argument("--lines", type=int, default=200_000)
parser.add_argument("--report", type=pathlib.Path, default=ROOT / "bench/reports/sdk.md")
options = parser.parse_args()


def output(*command, **variables):
    """What a program prints; the bench ends where it fails."""
    environment = {**os.environ, **variables}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stderr}")
    return done.stdout


def environment(name, *packages):
    """A fresh environment with packages of PyPI; returns its Python."""
    folder = TARGET / "bench" / name
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder, with_pip=True)
    python = folder / "bin/python"
    output(python, "-m", "pip", "--quiet", "install", *packages)
    return python


def size(python):
    """The number of an environment's packages and their MiB, without pip."""
    script = (
        "import importlib.metadata as m, json\n"
        "own = [d for d in m.distributions() if d.metadata['Name'].lower() not in ('pip', 'setuptools')]\n"
        "files = [f.locate() for d in own for f in d.files or [] if '.pyc' not in str(f)]\n"
        "print(json.dumps([len(own), sum(f.stat().st_size for f in files if f.is_file())]))"
    )
    count, size_in_bytes = json.loads(output(python, "-c", script))
    return count, size_in_bytes / (1 << 20)


def import_ms(python, statement):
    """The CPU time of a statement in a fresh interpreter: the least of several."""
    script = f"import time\nbegan = time.process_time()\n{statement}\nprint(time.process_time() - began)"
    return min(float(output(python, "-c", script)) for _ in range(1 + REPEATS)) * 1000


ours = environment("sdk", str(ROOT / "sdk/python"))
theirs = environment("kubeflow", "kubeflow")
version = output(theirs, "-c", "import importlib.metadata as m; print(m.version('kubeflow'))").strip()
load = os.getloadavg()[0]
client = "from openshift_ai.training import MPIJobClient"
imports = [
    import_ms(ours, client),
    import_ms(ours, f"{client}, MPIJobSpec"),
    import_ms(theirs, "from kubeflow.trainer import TrainerClient"),
]
(our_count, our_size), (their_count, their_size) = size(ours), size(theirs)

with tempfile.TemporaryDirectory(prefix="odh-bench-sdk-") as home:
    variables = {"ODH_HOME": home, "KUBECONFIG": f"{home}/kubeconfig"}
    output(ODH, "local", "up", "--image", f"{IMAGE}={EXAMPLES}", **variables)
    try:
        work = pathlib.Path(__file__).with_name("work.py")
        found = json.loads(output(ours, work, str(options.jobs), str(options.lines), **variables))
    finally:
        output(ODH, "local", "down", "--purge", **variables)

assert found["lines"] == found["followed"] == options.lines, found
rows = [
    ("import of the client", "ms", "< 150", f"{imports[0]:.0f}", f"{imports[2]:.0f}"),
    ("the same with `MPIJobSpec`, which needs pydantic", "ms", "–", f"{imports[1]:.0f}", ""),
    ("installed packages, dependencies included", "", "–", f"{our_count}", f"{their_count}"),
    ("their size", "MiB", "–", f"{our_size:.1f}", f"{their_size:.1f}"),
    ("a creation, median", "ms", "–", f"{found['create']:.1f}", ""),
    ("a creation beyond the same request by plain httpx, median", "ms", "< 50", f"{found['beyond']:.1f}", ""),
    (f"list of {found['listed']:,} jobs", "s", "< 1", f"{found['list']:.2f}", ""),
    (
        "lines of a log followed while it is written",
        "1/s",
        "≥ 20,000",
        f"{found['followed'] / found['follow']:,.0f}",
        "",
    ),
    ("lines of the log read again", "1/s", "–", f"{found['lines'] / found['read']:,.0f}", ""),
    ("the same by plain httpx, not parsed", "1/s", "–", f"{found['lines'] / found['stream']:,.0f}", ""),
]
setting = (
    f"client, service and cluster, load before {load:.1f}; Python {platform.python_version()}; `kubeflow` {version} from PyPI; "
    f"imports as CPU time, the least of {REPEATS}"
)
report.write(
    options.report, "The Python SDK beside kubeflow", setting, ("what", "unit", "goal", "SDK", "kubeflow"), rows, "sdk"
)
