#!/usr/bin/env python3
"""Counts what small scenes cost, and fails where one costs more than bench/guard/budgets.json allows.

Run by `cargo xtask bench guard`, and by `cargo xtask test` as its last step, with ODH (any build of odh) and
ODH_EXAMPLES_ENVIRONMENT in the environment. It counts what does not depend on how fast the machine is: requests to the API, wake-ups
and system calls of launch agents, bytes that they read. It measures no time, but processor time where the budget leaves a wide
margin. A feature that makes another one dearer shows here before it lands.

    run.py [--write]

--write replaces the budgets by what was counted, with the margin below: read the difference before you commit it.
"""

import argparse
import collections
import dataclasses
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ODH = os.environ.get("ODH", "odh")
ROOT = pathlib.Path(__file__).resolve().parents[2]
ENVIRONMENT = os.environ.get("ODH_EXAMPLES_ENVIRONMENT", ROOT / "target/environments/openmpi")
IMAGE = "quay.io/opendatahub/mpi-examples:openmpi"
BUDGETS = pathlib.Path(__file__).with_name("budgets.json")
OPERATOR = "system:serviceaccount:mpi-operator:mpi-operator"
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
WAIT_SECONDS = 120
# How long agents are measured while their ranks are silent, and how long to wait before.
WATCH_SECONDS, SETTLE_SECONDS = 20, 10
# The margin of a budget over the counts from which it was written: a scene varies a little from run to run.
MARGIN = 1.25


class Home:
    """A cluster for one scene, which ends with this object."""

    def __init__(self, folder: str) -> None:
        self.state = f"{folder}/odh"

    def odh(self, *words: str, check: bool = True) -> str:
        environment = {**os.environ, "ODH_HOME": self.state, "NO_COLOR": "1"}
        environment.pop("KUBECONFIG", None)
        done = subprocess.run(
            [ODH, *words], env=environment, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False
        )
        if check and done.returncode:
            raise SystemExit(f"odh {' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def __enter__(self) -> "Home":
        self.odh("local", "up", "--image", f"{IMAGE}={ENVIRONMENT}")
        return self

    def __exit__(self, *_: object) -> None:
        self.odh("local", "down", "--purge", check=False)

    def requests(self) -> collections.Counter[str]:
        """Returns the requests so far by their sender, except those of people."""
        counted: collections.Counter[str] = collections.Counter()
        for line in pathlib.Path(self.state, "audit.log").read_text().splitlines():
            user = json.loads(line)["user"]["username"]
            if user.startswith("system:"):
                counted[user.removeprefix("system:serviceaccount:kube-system:")] += 1
        return counted

    def create(self, name: str, workers: int, *command: str) -> None:
        self.odh(
            "training",
            "create",
            "mpijob",
            "--name",
            name,
            "--workers",
            str(workers),
            "--cpu",
            "10m",
            "--memory",
            "64Mi",
            "--image",
            IMAGE,
            "--",
            "mpirun",
            *command,
        )

    def wait_until(self, name: str, phase: str) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline:
            job = json.loads(self.odh("training", "get", "mpijob", name, "-o", "json"))
            now = job.get("status", {}).get("phase")
            if now == phase:
                return
            if now == "Failed":
                raise SystemExit(f"{name} failed: {json.dumps(job['status'], indent=2)}")
            time.sleep(0.2)
        raise SystemExit(f"{name} is not {phase} after {WAIT_SECONDS} s")


@dataclasses.dataclass
class Process:
    """Returns the kernel's counters of a process with all its threads."""

    wake_ups: int
    calls: int
    read_bytes: int
    ticks: int

    @staticmethod
    def of(pid: int) -> "Process":
        folder = pathlib.Path(f"/proc/{pid}")
        wake_ups = 0
        for thread in (folder / "task").iterdir():
            status = (thread / "status").read_text()
            wake_ups += int(status.split("\nvoluntary_ctxt_switches:")[1].split()[0])
        io = dict(line.split(": ") for line in (folder / "io").read_text().splitlines())
        numbers = (folder / "stat").read_text().rsplit(")", 1)[1].split()
        return Process(
            wake_ups, int(io["syscr"]) + int(io["syscw"]), int(io["rchar"]), int(numbers[11]) + int(numbers[12])
        )


def agents(home: Home, job: str) -> list[int]:
    """Returns the launch agents of a job's Workers in this home."""
    found = []
    for folder in pathlib.Path("/proc").iterdir():
        try:
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            variables = (folder / "environ").read_text(errors="replace")
            ours = home.state in (folder / "mountinfo").read_text() or home.state in variables
        except (OSError, ValueError):
            continue
        if folder.name.isdigit() and "odh-launch serve" in line and ours and f"HOSTNAME={job}-worker-" in variables:
            found.append(int(folder.name))
    return found


def start(home: Home) -> dict[str, float]:
    """A job of four Workers from its creation to its end, and no request more than needed."""
    before = home.requests()
    home.create("start", 4, "hostname")
    home.wait_until("start", "Succeeded")
    after = home.requests()
    after.subtract(before)
    home.odh("training", "delete", "mpijob", "start", "--yes")
    return {
        "requests of the operator": after[OPERATOR],
        "requests of the Job controller": after["job-controller"],
        "requests of the nodes for each pod": after["system:embedded-nodes"] / 5,
        "requests of everybody": sum(after.values()),
    }


def silence(home: Home) -> dict[str, float]:
    """Eight Workers whose ranks compute and say nothing: agents and operator have nothing to do."""
    workers = 8
    home.create("silence", workers, "sleep", str(2 * (SETTLE_SECONDS + WATCH_SECONDS)))
    home.wait_until("silence", "Running")
    time.sleep(SETTLE_SECONDS)
    pids = agents(home, "silence")
    if len(pids) != workers:
        raise SystemExit(f"{len(pids)} launch agents run, expected {workers}")
    before, requests = [Process.of(pid) for pid in pids], home.requests()
    time.sleep(WATCH_SECONDS)
    after = [Process.of(pid) for pid in pids]
    more = home.requests()
    more.subtract(requests)
    home.odh("training", "delete", "mpijob", "silence", "--yes")
    minutes = WATCH_SECONDS / 60

    def each(count: str) -> float:
        return sum(getattr(b, count) - getattr(a, count) for a, b in zip(before, after, strict=True)) / workers

    return {
        "wake-ups of an agent a minute": each("wake_ups") / minutes,
        "reads and writes of an agent a minute": each("calls") / minutes,
        "bytes read by an agent a minute": each("read_bytes") / minutes,
        "processor time of an agent, ms a minute": each("ticks") / TICKS_PER_SECOND * 1000 / minutes,
        "requests of the operator a minute": more[OPERATOR] / minutes,
    }


def many(home: Home) -> dict[str, float]:
    """Ten jobs at once: what one costs does not grow with the number of others."""
    before = home.requests()
    for number in range(10):
        home.create(f"many-{number}", 2, "hostname")
    for number in range(10):
        home.wait_until(f"many-{number}", "Succeeded")
    after = home.requests()
    after.subtract(before)
    return {"requests of the operator for each job": after[OPERATOR] / 10}


SCENES = {"start": start, "silence": silence, "many": many}


def count() -> dict[str, dict[str, float]]:
    with tempfile.TemporaryDirectory(prefix="odh-guard-", dir="/var/tmp") as folder, Home(folder) as home:
        counted = {name: scene(home) for name, scene in SCENES.items()}
    return {name: {what: round(value, 1) for what, value in costs.items()} for name, costs in counted.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="replace the budgets by what is counted now")
    write = parser.parse_args().write
    counted = count()
    if write:
        budgets = {
            scene: {what: math.ceil(value * MARGIN + 1) for what, value in costs.items()}
            for scene, costs in counted.items()
        }
        BUDGETS.write_text(json.dumps(budgets, indent=2) + "\n")
    budgets = json.loads(BUDGETS.read_text())
    known = {(scene, what) for scene, costs in budgets.items() for what in costs}
    if known != {(scene, what) for scene, costs in counted.items() for what in costs}:
        raise SystemExit(
            f"{BUDGETS} does not name exactly what is counted: run it with --write and read the difference"
        )
    over = False
    for scene, costs in counted.items():
        print(f"{scene}: {SCENES[scene].__doc__}")
        for what, value in costs.items():
            budget = budgets[scene][what]
            over = over or value > budget
            print(f"  {'OVER' if value > budget else 'ok':4}  {value:>10g} of {budget:<8g} {what}")
    if over:
        sys.exit(
            "A scene costs more than its budget. Find out what made it dearer (`git bisect` with this command), or raise the budget and say why."
        )


if __name__ == "__main__":
    main()
