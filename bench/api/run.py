#!/usr/bin/env python3
"""Measures the embedded cluster's API beside a real kube-apiserver with etcd, and writes bench/reports/api.md.

Run by `cargo xtask bench api`, with ODH_TARGET (the target folder) in the environment. The real control plane
takes part where KUBE_BIN names a folder with the programs kube-apiserver and etcd (`cargo xtask conformance` builds them).
The load comes from the same machine (two cores are shared by server and load, on both sides alike).

    run.py [--quick]

--quick makes the requests with 200 pods, prints and writes no report: whether it works, not how fast it is. With ODH_API_LOAD naming
a debug build it needs no release build.
"""

import argparse
import json
import os
import pathlib
import platform
import secrets
import signal
import socket
import subprocess
import tempfile
import time
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = pathlib.Path(os.environ.get("ODH_TARGET", ROOT / "target"))
LOAD = os.environ.get("ODH_API_LOAD", TARGET / "release/examples/api_load")
REPORT = ROOT / "bench/reports/api.md"
KUBE = os.environ.get("KUBE_BIN")
READY_SECONDS = 60
LOAD_SECONDS = 400
PODS = 10_000
QUICK_PODS = 200


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def resident_mib(processes: list[subprocess.Popen]) -> float:
    total = 0
    for process in processes:
        for line in pathlib.Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Rss:"):
                total += int(line.split()[1])
    return total / 1024


def load(kubeconfig: str, pods: int) -> dict:
    done = subprocess.run(
        [LOAD, "load", kubeconfig, str(pods)], capture_output=True, text=True, timeout=LOAD_SECONDS, check=False
    )
    if done.returncode:
        raise SystemExit(f"the load ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout)


def measured(processes: list[subprocess.Popen], kubeconfig: str, pods: int) -> dict:
    time.sleep(1)  # lets the server become idle before it is measured
    idle = resident_mib(processes)
    figures = load(kubeconfig, pods)
    return {**figures, "idle_mib": idle, "loaded_mib": resident_mib(processes)}


def end(processes: list[subprocess.Popen]) -> None:
    for process in reversed(processes):
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def embedded(kind: str, pods: int) -> dict:
    with tempfile.TemporaryDirectory(prefix="odh-bench-") as folder:
        server = subprocess.Popen(
            [LOAD, "serve", kind, folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "MALLOC_ARENA_MAX": "2"},
        )
        assert server.stdout, "it is a pipe"
        try:
            return measured([server], server.stdout.readline().strip(), pods)
        finally:
            end([server])


def real(pods: int) -> dict:
    """kube-apiserver and etcd alone: no controllers, as on the embedded side."""
    with tempfile.TemporaryDirectory(prefix="odh-bench-") as name:
        folder = pathlib.Path(name)
        etcd_port, peer_port, api_port, token = free_port(), free_port(), free_port(), secrets.token_hex(16)
        (folder / "tokens.csv").write_text(f'{token},admin,admin,"system:masters"\n')
        subprocess.run(["openssl", "genrsa", "-out", folder / "sa.key", "2048"], check=True, capture_output=True)
        quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": (folder / "log").open("w")}
        processes = [
            subprocess.Popen(
                [
                    f"{KUBE}/etcd",
                    f"--data-dir={folder}/etcd",
                    f"--listen-client-urls=http://127.0.0.1:{etcd_port}",
                    f"--advertise-client-urls=http://127.0.0.1:{etcd_port}",
                    f"--listen-peer-urls=http://127.0.0.1:{peer_port}",
                ],
                **quiet,
            )
        ]
        processes.append(
            subprocess.Popen(
                [
                    f"{KUBE}/kube-apiserver",
                    f"--etcd-servers=http://127.0.0.1:{etcd_port}",
                    f"--secure-port={api_port}",
                    "--bind-address=127.0.0.1",
                    f"--cert-dir={folder}/certs",
                    f"--token-auth-file={folder}/tokens.csv",
                    f"--service-account-key-file={folder}/sa.key",
                    f"--service-account-signing-key-file={folder}/sa.key",
                    "--service-account-issuer=https://kubernetes.default.svc",
                    "--authorization-mode=RBAC",
                    "--service-cluster-ip-range=10.0.0.0/24",
                    "--disable-admission-plugins=ServiceAccount",
                    # A high limit on concurrent requests: this measures the server, not priority and fairness.
                    "--max-requests-inflight=1000",
                    "--max-mutating-requests-inflight=1000",
                ],
                **quiet,
            )
        )
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "real",
                    "clusters": [
                        {
                            "name": "real",
                            "cluster": {"server": f"https://127.0.0.1:{api_port}", "insecure-skip-tls-verify": True},
                        }
                    ],
                    "users": [{"name": "admin", "user": {"token": token}}],
                    "contexts": [{"name": "real", "context": {"cluster": "real", "user": "admin"}}],
                }
            )
        )
        try:
            wait_ready(api_port, folder / "log")
            return measured(processes, str(kubeconfig), pods)
        finally:
            end(processes)


def wait_ready(port: int, log: pathlib.Path) -> None:
    import ssl
    import urllib.request

    context = ssl._create_unverified_context()
    until = time.monotonic() + READY_SECONDS
    while time.monotonic() < until:
        try:
            if urllib.request.urlopen(f"https://127.0.0.1:{port}/readyz", context=context, timeout=2).status == 200:
                return
        except OSError:
            time.sleep(0.1)
    raise SystemExit(f"kube-apiserver is not ready after {READY_SECONDS} s:\n{log.read_text()[-2000:]}")


ROWS = [
    ("pods created", "creates_per_second", "1/s", "{:,.0f}", {"memory": "≥ 3,000", "disk": "≥ 1,000"}, True),
    ("pods read", "gets_per_second", "1/s", "{:,.0f}", {"memory": "≥ 10,000"}, True),
    ("all pods listed", "list_seconds", "s", "{:.2f}", {}, False),
    ("change → each of 100 watchers, median", "event_ms_p50", "ms", "{:.2f}", {"memory": "< 5"}, False),
    ("change → each of 100 watchers, 99 %", "event_ms_p99", "ms", "{:.2f}", {}, False),
    ("resident when idle", "idle_mib", "MiB", "{:.0f}", {"memory": "< 80"}, False),
    ("resident with all pods", "loaded_mib", "MiB", "{:.0f}", {}, False),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few pods, no report")
    quick = parser.parse_args().quick
    pods = QUICK_PODS if quick else PODS
    before = os.getloadavg()[0]
    sides = {kind: embedded(kind, pods) for kind in ("memory", "disk")}
    if KUBE:
        sides["real"] = real(pods)
    titles = {"memory": "in memory", "disk": "on disk (as `odh local up`)", "real": "kube-apiserver + etcd"}
    version = (
        subprocess.run(
            [f"{KUBE}/kube-apiserver", "--version"], capture_output=True, text=True, check=False
        ).stdout.strip()
        if KUBE
        else "none"
    )
    lines = [
        "# The embedded cluster's API beside a real one",
        "",
        f"Linux {platform.release()}, {os.cpu_count()} cores shared by server and load, load before {before:.1f}; release build; peer: "
        f"{version}; TLS, 4 connections, 32 requests at once, {pods:,} pods of 1.5 KB, 200 changes.",
        "",
        "| what | unit | goal | " + " | ".join(titles[side] for side in sides) + (" | disk : real |" if KUBE else " |"),
        "|---|---|---|" + "---|" * (len(sides) + bool(KUBE)),
    ]
    for title, field, unit, form, goals, more_is_better in ROWS:
        goal = (
            ", ".join(f"{value} {'on disk' if side == 'disk' else ''}".strip() for side, value in goals.items()) or "–"
        )
        cells = [form.format(figures[field]) for figures in sides.values()]
        if KUBE:
            ours, theirs = sides["disk"][field], sides["real"][field]
            better = ours / theirs if more_is_better else theirs / ours
            cells.append(f"{better:.1f}× better" if better >= 1 else f"{1 / better:.1f}× worse")
        lines.append(f"| {title} | {unit} | {goal} | " + " | ".join(cells) + " |")
    lines += ["", "Repeat with `KUBE_BIN=FOLDER cargo xtask bench api`; without `KUBE_BIN` there is no peer.", ""]
    if not quick:
        REPORT.write_text("\n".join(lines))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
