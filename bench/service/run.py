#!/usr/bin/env python3
"""Measures the training service beside the API server's own lists, and writes bench/reports/service.md.

Run by `cargo xtask bench service`, with ODH_TARGET (the target folder) in the environment. Service, embedded API server and
load are one process, so two cores are shared by all of them. Lists come over TLS from 8 connections.

    run.py [--jobs 10000] [--streams 500] [--report FILE]
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import report

TARGET = pathlib.Path(os.environ.get("ODH_TARGET", ROOT / "target"))
LIMIT_SECONDS = 400

parser = argparse.ArgumentParser()
parser.add_argument("--jobs", type=int, default=10_000)
parser.add_argument("--streams", type=int, default=500)
parser.add_argument("--report", type=pathlib.Path, default=ROOT / "bench/reports/service.md")
options = parser.parse_args()

load = os.getloadavg()[0]
command = [TARGET / "release/examples/bench_service", str(options.jobs), str(options.streams)]
found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, timeout=LIMIT_SECONDS).stdout)
lists, peer, searched = found["lists"], found["listsOfTheApiServer"], found["searchedAndSortedLists"]
creations, streams = found["creations"], found["streams"]
rows = [
    ("lists of 100 rows", "1/s", "≥ 2,000", f"{lists['perSecond']:,.0f}"),
    ("100 jobs from the API server, in process, whole and decoded by kube's client", "1/s", "–", f"{peer['perSecond']:,.0f}"),
    ("service : API server", "", "–", f"{lists['perSecond'] / peer['perSecond']:.0f}"),
    ("a list of 100 rows, 95 %", "ms", "< 20", f"{lists['p95Ms']:.1f}"),
    ("lists that search and sort all jobs", "1/s", "–", f"{searched['perSecond']:,.0f}"),
    ("such a list, 95 %", "ms", "–", f"{searched['p95Ms']:.0f}"),
    ("jobs created", "1/s", "≥ 300", f"{creations['perSecond']:,.0f}"),
    ("a creation, 95 %", "ms", "–", f"{creations['p95Ms']:.0f}"),
    (f"memory that {streams['open']} open streams of ended jobs add, with their clients", "MiB", "< 150", f"{streams['grownKiB'] / 1024:.0f}"),
    (f"a change until the last of {streams['open']} streams has it", "ms", "< 200", f"{streams['lastSeesAChangeMs']:.0f}"),
]
setting = (
    f"service, embedded API server and load, load before {load:.1f}; release build; "
    f"TLS, 8 connections, {found['jobs']:,} jobs of 8 Workers, one run"
)
report.write(
    options.report, "The training service beside the API server", setting, ("what", "unit", "goal", "measured"), rows, "service"
)
