#!/usr/bin/env python3
"""Measures the training service beside the API server's own lists, and writes bench/reports/service.md.

Run by `cargo xtask bench service`, with ODH_TARGET (the target folder) in the environment. Service, embedded API server and
load are one process, so two cores are shared by all of them. All lists come over TLS from 8 connections and are not decoded.
--kubeconfig names a real API server, with a token, whose lists are measured too: jobs are created there in the namespace `team`.

    run.py [--jobs 10000] [--streams 500] [--kubeconfig FILE] [--debug] [--report FILE]
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
parser.add_argument("--kubeconfig", type=pathlib.Path, help="of a real API server to compare with")
parser.add_argument("--debug", action="store_true", help="use the debug build, to try this program")
parser.add_argument("--report", type=pathlib.Path, default=ROOT / "bench/reports/service.md")
options = parser.parse_args()

load = os.getloadavg()[0]
program = TARGET / ("debug" if options.debug else "release") / "examples/bench_service"
command = [str(program), str(options.jobs), str(options.streams)]
peer = {"KUBECONFIG_OF_PEER": str(options.kubeconfig)} if options.kubeconfig else {}
answer = subprocess.run(
    command, check=True, stdout=subprocess.PIPE, text=True, timeout=LIMIT_SECONDS, env=os.environ | peer
)
found = json.loads(answer.stdout)
lists, searched = found["lists"], found["searchedAndSortedLists"]
creations, checks, streams = found["creations"], found["checks"], found["streams"]
rows = [
    ("lists of 100 rows", "1/s", "≥ 2,000", f"{lists['perSecond']:,.0f}"),
    ("a list of 100 rows, 95 %", "ms", "< 20", f"{lists['p95Ms']:.1f}"),
    ("a row in a list", "bytes", "≤ 500", f"{found['bytesOfARow']:,.0f}"),
]
FORMS = {"table": "100 rows as kubectl's Table", "metadata": "the metadata of 100 jobs", "objects": "100 whole jobs"}
for server, of_server in [
    ("embedded API server", found["listsOfTheApiServer"]),
    ("real API server", found["listsOfThePeer"]),
]:
    for form, measured in (of_server or {}).items():
        what = f"{FORMS[form]} from the {server}"
        rows.append((what, "1/s", "–", f"{measured['perSecond']:,.0f}"))
        rows.append((f"{what}, 95 %", "ms", "–", f"{measured['p95Ms']:.1f}"))
        rows.append(
            (
                f"{what}: the service's lists are as many times as frequent",
                "",
                "–",
                f"{lists['perSecond'] / measured['perSecond']:.1f}",
            )
        )
rows += [
    ("lists that search and sort all jobs", "1/s", "–", f"{searched['perSecond']:,.0f}"),
    ("such a list, 95 %", "ms", "–", f"{searched['p95Ms']:.0f}"),
    ("jobs created", "1/s", "≥ 300", f"{creations['perSecond']:,.0f}"),
    ("a creation, 95 %", "ms", "–", f"{creations['p95Ms']:.0f}"),
    (
        f"checks before a creation (permission, quota, limits, free resources), of {streams['open']} users",
        "1/s",
        "–",
        f"{checks['perSecond']:,.0f}",
    ),
    ("such a check, 95 %", "ms", "< 2,000", f"{checks['p95Ms']:.0f}"),
    ("lines of 100 Workers, merged by time", "1/s", "≥ 10,000", f"{found['linesPerSecond']:,.0f}"),
    (
        "a line of 100 Workers that are followed, from written to read, the latest",
        "ms",
        "< 5,000",
        f"{found['lastLineIsSeenAfterMs']:,.0f}",
    ),
    (
        f"memory that streams of ended jobs of {streams['open']} users add, with their clients",
        "MiB",
        "< 150",
        f"{streams['grownKiB'] / 1024:.0f}",
    ),
    (
        f"a change until the last of {streams['open']} users' streams has it",
        "ms",
        "< 200",
        f"{streams['lastSeesAChangeMs']:.0f}",
    ),
]
setting = (
    f"service, embedded API server and load, load before {load:.1f}; {'debug' if found['debug'] else 'release'} build; "
    f"TLS, 8 connections, {found['jobs']:,} jobs of 8 Workers, one run"
)
report.write(
    options.report,
    "The training service beside the API server",
    setting,
    ("what", "unit", "goal", "measured"),
    rows,
    "service",
)
