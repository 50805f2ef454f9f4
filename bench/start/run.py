#!/usr/bin/env python3
"""Measures the first minutes of a person with the embedded cluster, from outside, and writes bench/reports/start.md.

Run by `cargo xtask bench start`, with ODH (the release build of odh) and ODH_EXAMPLES_ENVIRONMENT in the environment.
Figures: `odh local up` until the API answers; memory when idle; submit until four ranks have printed; a job of 100 Workers.

    run.py [--quick]

--quick tries everything once with small numbers, prints and writes no report: whether it works, not how fast it is. With ODH and
ODH_API_LOAD naming debug builds it needs no release build.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import platform
import statistics
import subprocess
import tempfile
import time

ODH = os.environ.get("ODH", "odh")
ROOT = pathlib.Path(__file__).resolve().parents[2]
LOAD = os.environ.get(
    "ODH_API_LOAD", pathlib.Path(os.environ.get("ODH_TARGET", ROOT / "target")) / "release/examples/api_load"
)
ENVIRONMENT = os.environ.get("ODH_EXAMPLES_ENVIRONMENT", ROOT / "target/environments/openmpi")
IMAGE = "quay.io/opendatahub/mpi-examples:openmpi"
REPORT = pathlib.Path(__file__).resolve().parents[1] / "reports" / "start.md"
WAIT_SECONDS = 120


@dataclasses.dataclass
class Size:
    """The size of the measurement."""

    repeat: int = 5
    repeat_hundred: int = 3
    workers: int = 100
    pods: int = 200
    jobs: int = 50


def odh(home: str, *words: str, check: bool = True) -> str:
    environment = {**os.environ, "ODH_HOME": home, "NO_COLOR": "1"}
    environment.pop("KUBECONFIG", None)
    done = subprocess.run([ODH, *words], env=environment, capture_output=True, text=True, timeout=600, check=False)
    if check and done.returncode:
        raise SystemExit(f"odh {' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def resident_mib(pid: int) -> float:
    """Returns the resident memory of a process and its descendants, in MiB; shared pages count once."""
    text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    values = {line.split(":")[0]: int(line.split()[1]) for line in text.splitlines()[1:] if ":" in line}
    own = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    threads = pathlib.Path(f"/proc/{pid}/task").iterdir()
    children = {child for thread in threads for child in (thread / "children").read_text().split()} | set(own)
    return values["Pss"] / 1024 + sum(resident_mib(int(child)) for child in children)


def up(home: str, *more: str) -> float:
    started = time.monotonic()
    odh(home, "local", "up", "--image", f"{IMAGE}={ENVIRONMENT}", *more)
    return time.monotonic() - started


def idle_memory(home: str) -> float:
    status = json.loads(odh(home, "local", "status", "-o", "json"))
    time.sleep(2)  # lets the cluster become idle before it is measured
    return resident_mib(status["pid"])


def down(home: str) -> float:
    started = time.monotonic()
    odh(home, "local", "down")
    return time.monotonic() - started


def four_ranks(home: str, number: int) -> float:
    """Returns the seconds from submission until all four ranks have printed, as a reader of the logs sees it."""
    name = f"four-{number}"
    started = time.monotonic()
    odh(
        home,
        "training",
        "create",
        "mpijob",
        "--name",
        name,
        "--workers",
        "4",
        "--image",
        IMAGE,
        "--",
        "mpirun",
        "sh",
        "-c",
        "echo here is rank $OMPI_COMM_WORLD_RANK",
    )
    while time.monotonic() - started < WAIT_SECONDS:
        if odh(home, "training", "logs", "mpijob", name, check=False).count("here is rank") == 4:
            taken = time.monotonic() - started
            odh(home, "training", "delete", "mpijob", name, "--yes")
            return taken
        time.sleep(0.02)
    raise SystemExit(f"{name}: four ranks did not print within {WAIT_SECONDS} s")


def hundred_workers(home: str, number: int, workers: int, cpu: list[str]) -> float:
    name = f"hundred-{number}"
    started = time.monotonic()
    odh(
        home,
        "training",
        "create",
        "mpijob",
        "--name",
        name,
        "--workers",
        str(workers),
        *cpu,
        "--memory",
        "64Mi",
        "--image",
        IMAGE,
        "--wait",
        "--timeout",
        "5m",
        "--",
        "mpirun",
        "hostname",
    )
    taken = time.monotonic() - started
    odh(home, "training", "delete", "mpijob", name, "--yes")
    return taken


def many_jobs(home: str, number: int, jobs: int, workers: int) -> float:
    """Returns the seconds from one `create -f` of many jobs until all have succeeded."""
    manifest = odh(
        home,
        "training",
        "create",
        "mpijob",
        "--name",
        f"many-{number}-0",
        "--workers",
        str(workers),
        "--memory",
        "64Mi",
        "--image",
        IMAGE,
        "--dry-run",
        "-o",
        "yaml",
        "--",
        "mpirun",
        "hostname",
    )
    path = pathlib.Path(home) / "many.yaml"
    path.write_text(
        "\n---\n".join(manifest.replace(f"many-{number}-0", f"many-{number}-{each}") for each in range(jobs))
    )
    started = time.monotonic()
    odh(home, "training", "create", "-f", str(path))
    odh(home, "training", "wait", "mpijob", "--all", "--timeout", "5m")
    taken = time.monotonic() - started
    odh(home, "training", "delete", "mpijob", "--all", "--yes")
    return taken


def all_running(home: str, pods: int) -> float:
    """Returns the seconds from the first request until the node reports all idle pods as running."""
    done = subprocess.run(
        [LOAD, "pods", f"{home}/kubeconfig", str(pods)],
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{pods} pods did not start:\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout)["seconds"]


def row(name: str, figures: list[float], unit: str, goal: str) -> str:
    low, middle, high = min(figures), statistics.median(figures), max(figures)
    return f"| {name} | {low:.2f} | {middle:.2f} | {high:.2f} | {unit} | {goal} | {len(figures)} |"


def measure(size: Size) -> list[str]:
    starts, memory, stops, pods = [], [], [], []
    for _ in range(size.repeat):
        with tempfile.TemporaryDirectory(prefix="odh-bench-") as folder:
            home = f"{folder}/odh"
            try:
                starts.append(up(home))
                memory.append(idle_memory(home))
                pods.append(all_running(home, size.pods))
                odh(home, "local", "down", "--purge")
                up(home)
                stops.append(down(home))
            finally:
                odh(home, "local", "down", "--purge", check=False)
    with tempfile.TemporaryDirectory(prefix="odh-bench-") as folder:
        home = f"{folder}/odh"
        try:
            up(home)
            four = [four_ranks(home, number) for number in range(size.repeat)]
            hundred = [hundred_workers(home, number, size.workers, []) for number in range(size.repeat_hundred)]
            throttled = [
                hundred_workers(home, number, size.workers, ["--cpu", "10m"]) for number in range(size.repeat_hundred)
            ]
            many = [many_jobs(home, number, size.jobs, 4) for number in range(size.repeat_hundred)]
            after = [idle_memory(home)]
        finally:
            odh(home, "local", "down", "--purge", check=False)
    with tempfile.TemporaryDirectory(prefix="odh-bench-") as folder:
        home = f"{folder}/odh"
        try:
            up(home, "--dns-negative-ttl", "30s")
            cached = [four_ranks(home, number) for number in range(size.repeat)]
        finally:
            odh(home, "local", "down", "--purge", check=False)
    return [
        row("`odh local up` until it returns", starts, "s", "< 0.3"),
        row("resident when idle, with the sandbox process", memory, "MiB", "< 80"),
        row("submit → 4 ranks printing (agent)", four, "s", "< 2"),
        row("the same where it is cached for 30 s that a name does not exist", cached, "s", "< 2"),
        row(f"{size.pods} pods: first request → all Running", pods, "s", "< 3"),
        row(f"{size.workers} Workers, `mpirun hostname`: submit → Succeeded", hundred, "s", "< 4"),
        row(f"{size.workers} Workers with `--cpu 10m`, which throttles their MPI daemons", throttled, "s", "< 10"),
        row(f"{size.jobs} jobs of 4 Workers through one `create -f`: submit → all Succeeded", many, "s", "< 20"),
        row("resident after all those jobs, which are deleted", after, "MiB", "–"),
        row("`odh local down` of an idle cluster", stops, "s", "–"),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="try everything once with small numbers; no report")
    quick = parser.parse_args().quick
    load = os.getloadavg()[0]
    rows = measure(Size(repeat=1, repeat_hundred=1, workers=4, pods=10, jobs=3) if quick else Size())
    text = "\n".join(
        [
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
        ]
    )
    if not quick:
        REPORT.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
