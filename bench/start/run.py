#!/usr/bin/env python3
"""Measures the first minutes of a person with the embedded cluster, from outside, and writes bench/reports/start.md.

Run by `cargo xtask bench start`, with ODH (the release build of odh) and ODH_EXAMPLES_ENVIRONMENT in the environment.
Figures: `odh local up` until the API answers; memory when idle; submit until four ranks have printed; a job of 100 Workers.
"""

import json
import os
import pathlib
import platform
import statistics
import subprocess
import tempfile
import time

ODH = os.environ["ODH"]
ROOT = pathlib.Path(__file__).resolve().parents[2]
LOAD = pathlib.Path(os.environ.get("ODH_TARGET", ROOT / "target")) / "release/examples/api_load"
ENVIRONMENT = os.environ["ODH_EXAMPLES_ENVIRONMENT"]
IMAGE = "quay.io/opendatahub/mpi-examples:openmpi"
REPORT = pathlib.Path(__file__).resolve().parents[1] / "reports" / "start.md"
REPEAT = 5
REPEAT_HUNDRED = 3
WAIT_SECONDS = 120


def odh(home: str, *words: str, check: bool = True) -> str:
    environment = {**os.environ, "ODH_HOME": home, "NO_COLOR": "1"}
    environment.pop("KUBECONFIG", None)
    done = subprocess.run([ODH, *words], env=environment, capture_output=True, text=True, timeout=600)
    if check and done.returncode:
        raise SystemExit(f"odh {' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def resident_mib(pid: int) -> float:
    """Resident memory of a process, MiB."""
    text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    values = {line.split(":")[0]: int(line.split()[1]) for line in text.splitlines()[1:] if ":" in line}
    return values["Rss"] / 1024


def up(home: str) -> float:
    started = time.monotonic()
    odh(home, "local", "up", "--image", f"{IMAGE}={ENVIRONMENT}")
    return time.monotonic() - started


def idle_memory(home: str) -> float:
    status = json.loads(odh(home, "local", "status", "-o", "json"))
    time.sleep(2)  # a measurement of rest needs some
    return resident_mib(status["pid"])


def down(home: str) -> float:
    started = time.monotonic()
    odh(home, "local", "down")
    return time.monotonic() - started


def four_ranks(home: str, number: int) -> float:
    """Seconds from submission until all four ranks have printed, as seen by one who reads the logs."""
    name = f"four-{number}"
    started = time.monotonic()
    odh(home, "training", "create", "mpijob", "--name", name, "--workers", "4", "--image", IMAGE,
        "--", "mpirun", "sh", "-c", "echo here is rank $OMPI_COMM_WORLD_RANK")
    while time.monotonic() - started < WAIT_SECONDS:
        if odh(home, "training", "logs", "mpijob", name, check=False).count("here is rank") == 4:
            taken = time.monotonic() - started
            odh(home, "training", "delete", "mpijob", name, "--yes")
            return taken
        time.sleep(0.02)
    raise SystemExit(f"{name}: four ranks did not print within {WAIT_SECONDS} s")


def hundred_workers(home: str, number: int) -> float:
    name = f"hundred-{number}"
    started = time.monotonic()
    odh(home, "training", "create", "mpijob", "--name", name, "--workers", "100", "--cpu", "10m", "--memory", "64Mi",
        "--image", IMAGE, "--wait", "--timeout", "5m", "--", "mpirun", "hostname")
    taken = time.monotonic() - started
    odh(home, "training", "delete", "mpijob", name, "--yes")
    return taken


def two_hundred_pods(home: str) -> float:
    """Seconds from the first request until the node reports all of 200 idle pods as running."""
    done = subprocess.run([LOAD, "pods", f"{home}/kubeconfig", "200"], capture_output=True, text=True, timeout=WAIT_SECONDS)
    if done.returncode:
        raise SystemExit(f"200 pods did not start:\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout)["seconds"]


def row(name: str, figures: list[float], unit: str, goal: str) -> str:
    low, middle, high = min(figures), statistics.median(figures), max(figures)
    return f"| {name} | {low:.2f} | {middle:.2f} | {high:.2f} | {unit} | {goal} | {len(figures)} |"


def measure() -> list[str]:
    starts, memory, stops, pods = [], [], [], []
    for _ in range(REPEAT):
        with tempfile.TemporaryDirectory(prefix="odh-bench-") as folder:
            home = f"{folder}/odh"
            try:
                starts.append(up(home))
                memory.append(idle_memory(home))
                pods.append(two_hundred_pods(home))
                odh(home, "local", "down", "--purge")
                up(home)
                stops.append(down(home))
            finally:
                odh(home, "local", "down", "--purge", check=False)
    with tempfile.TemporaryDirectory(prefix="odh-bench-") as folder:
        home = f"{folder}/odh"
        try:
            up(home)
            four = [four_ranks(home, number) for number in range(REPEAT)]
            hundred = [hundred_workers(home, number) for number in range(REPEAT_HUNDRED)]
            after = [idle_memory(home)]
        finally:
            odh(home, "local", "down", "--purge", check=False)
    return [
        row("`odh local up` until it returns", starts, "s", "< 0.3"),
        row("resident when idle", memory, "MiB", "< 80"),
        row("submit → 4 ranks printing (agent)", four, "s", "< 2"),
        row("200 pods: first request → all Running", pods, "s", "< 3"),
        row("100 Workers, `mpirun hostname`: submit → Succeeded", hundred, "s", "< 10"),
        row("resident after all those jobs, which are deleted", after, "MiB", "–"),
        row("`odh local down` of an idle cluster", stops, "s", "–"),
    ]


def main() -> None:
    load = os.getloadavg()[0]
    rows = measure()
    text = "\n".join([
        "# The first minutes with the embedded cluster",
        "",
        f"{platform.system()} {platform.release()}, {os.cpu_count()} cores, load before {load:.1f}; release build; "
        "each figure includes the start of the `odh` process that a person would type.",
        "",
        "| what | min | median | max | unit | goal | runs |",
        "|---|---|---|---|---|---|---|",
        *rows,
        "",
        "Repeat with `cargo xtask bench start`.",
        "",
    ])
    REPORT.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
