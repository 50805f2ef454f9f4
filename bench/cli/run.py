#!/usr/bin/env python3
"""Measures the command line beside kubectl and stern, and writes bench/reports/cli.md.

Run by `cargo xtask bench cli`, with ODH (the release build of odh), ODH_CLIENT (the same without the embedded cluster) and
ODH_TARGET in the environment. kubectl is measured if KUBE_BIN names a folder with it, or if it is on PATH; stern is built from
its Go module if there is a `go`. The server is the embedded API in a process of its own (crates/cli/examples/bench_stage.rs),
the same for all; it shares the machine with the clients. BENCH_SMALL=1 tests this program with small numbers, with any build of
ODH.
"""

import base64
import http.client
import json
import os
import pathlib
import platform
import shutil
import ssl
import statistics
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = pathlib.Path(os.environ.get("ODH_TARGET", ROOT / "target"))
ODH = os.environ["ODH"]
STAGE = os.environ.get("ODH_BENCH_STAGE", str(TARGET / "release/examples/bench_stage"))
REPORT = ROOT / "bench/reports/cli.md"
STERN, STERN_VERSION = "github.com/stern/stern", "v1.33.1"
SMALL = bool(os.environ.get("BENCH_SMALL"))
FEW, MANY = (100, 1000) if not SMALL else (5, 20)
PODS, LINES = (8, 50_000) if not SMALL else (2, 500)
WIDE_PODS, WIDE_LINES = (100, 2_000) if not SMALL else (10, 50)
REPEAT = 15 if not SMALL else 2
REPEAT_LOGS = 3 if not SMALL else 1
TIMEOUT_SECONDS = 300


def find_kubectl() -> str | None:
    folder = os.environ.get("KUBE_BIN")
    return f"{folder}/kubectl" if folder else shutil.which("kubectl")


def find_stern() -> str | None:
    """Builds stern from its Go module, once, into the target folder."""
    folder = TARGET / "bench" / "stern"
    built, go = folder / "stern", shutil.which("go")
    if not built.exists() and go and not SMALL:
        folder.mkdir(parents=True, exist_ok=True)
        # Not `go install`: it asks the proxy for the list of versions, which not every proxy has.
        (folder / "go.mod").write_text(f"module bench\n\ngo 1.24.0\n\nrequire {STERN} {STERN_VERSION}\n")
        done = subprocess.run(
            [go, "build", "-mod=mod", "-o", built, STERN],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=1800,
            check=False,
        )
        if done.returncode:
            print(f"stern cannot be built and takes no part:\n{done.stderr[-500:]}")
    return str(built) if built.exists() else None


class Stage:
    """The API server, with its objects and logs."""

    def __init__(self, pods: int, lines: int):
        self.folder = tempfile.TemporaryDirectory(prefix="odh-bench-")
        self.process = subprocess.Popen(
            [STAGE, self.folder.name, f"{FEW},{MANY}", str(pods), str(lines)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout, "it is a pipe"
        self.kubeconfig = self.process.stdout.readline().strip()
        if not self.kubeconfig:
            raise SystemExit("the stage did not start")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        assert self.process.stdin, "it is a pipe"
        self.process.stdin.close()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.folder.cleanup()

    def answer_ms(self, path: str) -> float:
        """Returns the time that the server itself takes to answer on an open connection."""
        config = json.loads(pathlib.Path(self.kubeconfig).read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        context = ssl.create_default_context(cadata=authority)
        if "client-certificate-data" in user:
            for name, key in (("cert.pem", "client-certificate-data"), ("key.pem", "client-key-data")):
                (pathlib.Path(self.folder.name) / name).write_bytes(base64.b64decode(user[key]))
            context.load_cert_chain(f"{self.folder.name}/cert.pem", f"{self.folder.name}/key.pem")
        headers = {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}
        host, port = cluster["server"].removeprefix("https://").rsplit(":", 1)
        connection = http.client.HTTPSConnection(host, int(port), context=context, timeout=30)
        times = []
        for _ in range(REPEAT + 1):
            began = time.perf_counter()
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            body = answer.read()
            times.append((time.perf_counter() - began) * 1000)
            if answer.status != 200:
                raise SystemExit(f"{path}: {answer.status} {body[:300]!r}")
        connection.close()
        return statistics.median(times[1:])


def run(command: list[str], kubeconfig: str | None = None) -> tuple[float, float, int]:
    """Returns the seconds, the peak resident MiB and the lines on stdout of a command."""
    environment = {**os.environ, "NO_COLOR": "1", "HOME": "/nonexistent"}
    if kubeconfig:
        environment["KUBECONFIG"] = kubeconfig
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        began = time.perf_counter()
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            err.seek(0)
            raise SystemExit(f"{' '.join(command)} ended with {process.returncode}:\n{err.read().decode()[-1000:]}")
        out.seek(0)
        lines = sum(chunk.count(b"\n") for chunk in iter(lambda: out.read(1 << 20), b""))
    return seconds, usage.ru_maxrss / 1024, lines


def median_ms(command: list[str], kubeconfig: str | None = None) -> float:
    run(command, kubeconfig)  # warms the page cache
    return statistics.median(run(command, kubeconfig)[0] for _ in range(REPEAT)) * 1000


def lines_per_second(command: list[str], kubeconfig: str, expected: int) -> tuple[float, float]:
    """Returns the most lines per second and the peak memory in MiB of a few runs."""
    best, memory = 0.0, 0.0
    for _ in range(REPEAT_LOGS):
        seconds, mib, lines = run(command, kubeconfig)
        if lines < expected:
            raise SystemExit(f"{' '.join(command)}: {lines} lines of {expected}")
        best, memory = max(best, lines / seconds), max(memory, mib)
    return best, memory


def logs(kind: str, program: str) -> list[str]:
    label = "training.kubeflow.org/job-name=chatty"
    return {
        "odh": [program, "training", "logs", "mpijob", "chatty", "-n", "logs", "--all"],
        "kubectl": [program, "logs", "-n", "logs", "-l", label, "--prefix", "--tail=-1", "--max-log-requests=200"],
        "stern": [
            program,
            "-n",
            "logs",
            "-l",
            label,
            "--no-follow",
            "--tail=-1",
            "--max-log-requests=200",
            "--color=never",
        ],
    }[kind]


def measured(programs: dict[str, str]) -> tuple[dict, dict[str, float]]:
    figures: dict[str, dict] = {name: {} for name in programs}
    for name, program in programs.items():
        figures[name]["help_ms"] = median_ms([program, "--help"])
        figures[name]["size_mib"] = pathlib.Path(shutil.which(program) or program).stat().st_size / 2**20
    server = {}
    with Stage(PODS, LINES) as stage:
        for count in (FEW, MANY):
            server[f"list_{count}"] = stage.answer_ms(
                f"/apis/kubeflow.org/v2beta1/namespaces/jobs-{count}/mpijobs?limit=500"
            )
        for name, program in programs.items():
            if name == "stern":
                continue
            lists = {
                "odh": lambda count, program=program: [program, "training", "list", "mpijob", "-n", f"jobs-{count}"],
                "kubectl": lambda count, program=program: [program, "get", "mpijobs", "-n", f"jobs-{count}"],
            }[name]
            figures[name]["list_few_ms"] = median_ms(lists(FEW), stage.kubeconfig)
            figures[name]["list_many_ms"] = median_ms(lists(MANY), stage.kubeconfig)
            figures[name]["list_many_mib"] = max(run(lists(MANY), stage.kubeconfig)[1] for _ in range(3))
            if name == "odh":
                everything = [program, "training", "list", "-n", f"jobs-{FEW}"]
                figures[name]["list_kinds_ms"] = median_ms(everything, stage.kubeconfig)
        for name, program in programs.items():
            rate, memory = lines_per_second(logs(name, program), stage.kubeconfig, (PODS + 1) * LINES)
            figures[name]["lines_per_second"], figures[name]["logs_mib"] = rate, memory
    with Stage(WIDE_PODS, WIDE_LINES) as stage:
        for name, program in programs.items():
            rate, memory = lines_per_second(logs(name, program), stage.kubeconfig, (WIDE_PODS + 1) * WIDE_LINES)
            figures[name]["wide_lines_per_second"], figures[name]["wide_logs_mib"] = rate, memory
    return figures, server


def rows(server: dict[str, float]) -> list[tuple[str, str, str, str, str]]:
    return [
        ("`--help`", "help_ms", "ms", "{:.1f}", "< 10"),
        (
            f"list of {FEW} jobs",
            "list_few_ms",
            "ms",
            "{:.1f}",
            f"< {60 + server[f'list_{FEW}']:.0f}: 60 over the server's own {server[f'list_{FEW}']:.1f}",
        ),
        (f"list of {FEW} jobs among all kinds", "list_kinds_ms", "ms", "{:.1f}", "–"),
        (
            f"list of {MANY:,} jobs",
            "list_many_ms",
            "ms",
            "{:.1f}",
            f"– (the server's own {server[f'list_{MANY}']:.1f})",
        ),
        (f"list of {MANY:,} jobs, most memory", "list_many_mib", "MiB", "{:.1f}", "< 30"),
        (f"logs of {PODS + 1} pods in one", "lines_per_second", "lines/s", "{:,.0f}", "≥ 50,000"),
        ("the same, most memory", "logs_mib", "MiB", "{:.1f}", "–"),
        (f"logs of {WIDE_PODS + 1} pods in one", "wide_lines_per_second", "lines/s", "{:,.0f}", "≥ 50,000"),
        ("the same, most memory", "wide_logs_mib", "MiB", "{:.1f}", "–"),
        ("the program itself", "size_mib", "MiB", "{:.1f}", "< 25 without the embedded cluster"),
    ]


def main() -> None:
    before = os.getloadavg()[0]
    programs = {"odh": ODH}
    without = os.environ.get("ODH_CLIENT", "")
    others = {"kubectl": find_kubectl(), "stern": find_stern()}
    programs |= {name: program for name, program in others.items() if program}
    figures, server = measured(programs)
    lines = [
        "# The command line beside kubectl and stern",
        "",
        f"Linux {platform.release()}, {os.cpu_count()} cores shared by server and client, load before {before:.1f}; "
        f"{'small numbers, a trial' if SMALL else 'release build'}; medians of {REPEAT}; the server is the embedded API over TLS; "
        f"logs: {PODS + 1} pods of {LINES:,} lines and {WIDE_PODS + 1} pods of {WIDE_LINES:,}, the best of {REPEAT_LOGS}. "
        "odh merges lines by time; kubectl and stern print each pod's as they come.",
        "",
        "| what | unit | goal | " + " | ".join(programs) + " |",
        "|---|---|---|" + "---|" * len(programs),
    ]
    for title, key, unit, form, goal in rows(server):
        cells = [form.format(figures[name][key]) if key in figures[name] else "–" for name in programs]
        lines.append(f"| {title} | {unit} | {goal} | " + " | ".join(cells) + " |")
    if without and pathlib.Path(without).exists():
        size = pathlib.Path(without).stat().st_size / 2**20
        lines += [
            "",
            f"Without the embedded cluster (`--no-default-features`), the program is {size:.1f} MiB large (goal < 25).",
        ]
    lines += [
        "",
        "Repeat with `KUBE_BIN=FOLDER cargo xtask bench cli`; without `KUBE_BIN` a kubectl on PATH takes part, if there is one.",
    ]
    text = "\n".join(lines) + "\n"
    (pathlib.Path(os.environ["BENCH_REPORT"]) if "BENCH_REPORT" in os.environ else REPORT).write_text(text)
    print(text)


if __name__ == "__main__":
    main()
