#!/usr/bin/env python3
"""Measures the dashboard in Chromium, as the training service of an embedded cluster serves it, and writes
bench/reports/dashboard.md.

Run by `cargo xtask bench dashboard`, with ODH (a release build of odh that carries the dashboard) and ODH_EXAMPLES_ENVIRONMENT in
the environment. `dashboard/e2e/figures.measure.ts` starts the cluster and drives the browser; Node, `dashboard/node_modules` and
Chromium (CHROMIUM, or Debian's) are needed. Browser, service, cluster and jobs share this machine.

    run.py [--jobs 10000] [--workers 100] [--report FILE]
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
import report

DASHBOARD = ROOT / "dashboard"
BROWSERS = [os.environ.get("CHROMIUM"), "/usr/bin/chromium", "/usr/bin/chromium-browser"]
LIMIT_SECONDS = 1200

parser = argparse.ArgumentParser()
parser.add_argument("--jobs", type=int, default=10_000)
parser.add_argument("--workers", type=int, default=100)
parser.add_argument("--report", type=pathlib.Path, default=ROOT / "bench/reports/dashboard.md")
options = parser.parse_args()
missing = [
    what
    for what, is_there in {
        "npm": shutil.which("npm"),
        "dashboard/node_modules (npm --prefix dashboard ci)": (DASHBOARD / "node_modules").is_dir(),
        "dashboard/dist (cargo xtask dashboard)": (DASHBOARD / "dist/index.html").is_file(),
        "Chromium": any(path and pathlib.Path(path).exists() for path in BROWSERS),
    }.items()
    if not is_there
]
if missing:
    print("bench/dashboard lacks: " + ", ".join(missing) + "; nothing is measured.", __doc__, sep="\n\n")
    sys.exit(0)

load = os.getloadavg()[0]
with tempfile.TemporaryDirectory(prefix="odh-bench-dashboard-") as folder:
    figures = pathlib.Path(folder) / "figures.json"
    variables = {"DASHBOARD_FIGURES": figures, "DASHBOARD_JOBS": options.jobs, "DASHBOARD_WORKERS": options.workers}
    subprocess.run(
        ["npm", "run", "--silent", "measure"],
        cwd=DASHBOARD,
        env={**os.environ, **{name: str(value) for name, value in variables.items()}},
        check=True,
        timeout=LIMIT_SECONDS,
    )
    found = json.loads(figures.read_text())

jobs, workers, seconds = f"{found['jobs']:,}", found["workers"], found["secondsOfLog"]
rows = [
    ("first load: JavaScript, compressed", "KB", "≤ 260", f"{found['scriptKb']:.0f}"),
    ("first load: styles, compressed", "KB", "–", f"{found['styleKb']:.0f}"),
    ("first load until 100 jobs are shown, with nothing cached", "ms", "< 1,000", f"{found['shownMs']:,.0f}"),
    ("first load until no task blocks the page any more", "ms", "< 1,500", f"{found['answeringMs']:,.0f}"),
    ("a job is created: request sent → row in the page, median", "ms", "< 1,000", f"{found['changeMs']:,.0f}"),
    ("the same, slowest", "ms", "–", f"{found['slowestChangeMs']:,.0f}"),
    (f"list of {jobs} jobs: first load until 100 of them are shown", "ms", "< 2,000", f"{found['manyShownMs']:,.0f}"),
    (f"list of {jobs} jobs: key pressed → only what matches is shown", "ms", "–", f"{found['filterMs']:,.0f}"),
    (
        f"list of {jobs} jobs: scrolled, filtered, next page: longest task",
        "ms",
        "< 100",
        f"{found['manyLongestTaskMs']:,.0f}",
    ),
    ("the same: tasks over 100 ms", "", "0", f"{found['manyTasksOver100Ms']}"),
    (
        f"log of {workers} Workers that write 10,000 lines/s: lines that the page takes in",
        "1/s",
        "10,000",
        f"{found['linesPerSecond']:,.0f}",
    ),
    (f"the same: JavaScript heap after {seconds // 3} s", "MB", "–", f"{found['heapEarlyMb']:.0f}"),
    (f"the same: JavaScript heap after {seconds} s", "MB", "< 300", f"{found['heapLateMb']:.0f}"),
    ("the same: longest task", "ms", "–", f"{found['logLongestTaskMs']:,.0f}"),
    ("the same: tasks over 100 ms", "", "0", f"{found['logTasksOver100Ms']}"),
]
setting = (
    f"Chromium without a screen, service, cluster and jobs, load before {load:.1f}; release build; the service itself over TLS; "
    f"first load: median of {found['loads']}, changes: of {found['changes']}"
)
report.write(
    options.report, "The dashboard in a browser", setting, ("what", "unit", "goal", "measured"), rows, "dashboard"
)
