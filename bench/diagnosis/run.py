#!/usr/bin/env python3
"""Measures `odh training diagnose` from outside, and writes bench/reports/diagnosis.md.

Run by `cargo xtask bench diagnosis`, with ODH (the release build of odh) in the environment. Figures: 10,000 lines of a
training's output with a failure in them, less the start of the program (measured with an empty output); a gigabyte without a
line break, and a gigabyte of lines, each with the peak memory of the process.
"""

import os
import pathlib
import platform
import resource
import statistics
import subprocess
import tempfile
import time

ODH = os.environ["ODH"]
REPORT = pathlib.Path(
    os.environ.get("REPORT", pathlib.Path(__file__).resolve().parents[1] / "reports" / "diagnosis.md")
)
REPEAT = 15
GIGABYTE = 1 << 30
PIECE = 1 << 20
FAILURE = """--------------------------------------------------------------------------
mpirun detected that one or more processes exited with non-zero status, thus causing
the job to be terminated. The first process to do so was:

  Process name: [[23141,1],1]
  Exit code:    3
--------------------------------------------------------------------------
"""


def line(number: int) -> str:
    return f"[1,{number % 64}]<stdout>:epoch {number // 100} step {number % 100}: loss 0.{number % 9973:04}, error rate 0.1\n"


def diagnose(path: str) -> float:
    begun = time.monotonic()
    done = subprocess.run(
        [ODH, "training", "diagnose", path, "--exit-code", "3", "-o", "json"],
        capture_output=True,
        text=True,
        check=False,
    )
    took = time.monotonic() - begun
    if done.returncode:
        raise SystemExit(done.stderr)
    return took


def stream(piece: bytes) -> tuple[float, float]:
    """Diagnoses a gigabyte from standard input. Returns the seconds and the peak resident memory in MiB."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    begun = time.monotonic()
    command = [ODH, "training", "diagnose", "-", "--exit-code", "3", "-o", "json"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        entry = process.stdin
        assert entry, "it is a pipe"
        for _ in range(GIGABYTE // len(piece)):
            entry.write(piece)
        entry.write(("\n" + FAILURE).encode())
        entry.close()
        if process.wait():
            raise SystemExit("diagnose failed")
    most = max(before, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
    return time.monotonic() - begun, most / 1024


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        empty, full = pathlib.Path(folder, "empty"), pathlib.Path(folder, "full")
        empty.write_text("")
        full.write_text("".join(line(number) for number in range(10_000 - FAILURE.count("\n"))) + FAILURE)
        nothing = statistics.median(diagnose(str(empty)) for _ in range(REPEAT))
        whole = statistics.median(diagnose(str(full)) for _ in range(REPEAT))
    lines = "".join(line(number) for number in range(20_000)).encode()[:PIECE]
    many, endless = stream(lines), stream(b"x" * PIECE)
    load = os.getloadavg()[0]
    REPORT.write_text(
        "# Diagnosis\n\n"
        f"`cargo xtask bench diagnosis` on {platform.machine()}, {os.cpu_count()} cores, load {load:.1f} at the end.\n\n"
        "| What | Goal | Measured |\n|---|---|---|\n"
        f"| 10,000 lines scanned (median of {REPEAT}, less the program's start of {nothing * 1000:.0f} ms) | < 20 ms "
        f"| {(whole - nothing) * 1000:.1f} ms |\n"
        f"| a gigabyte of lines | bounded memory | {many[0]:.1f} s, {many[1]:.0f} MiB at most |\n"
        f"| a gigabyte without the end of a line | bounded memory | {endless[0]:.1f} s, {endless[1]:.0f} MiB at most |\n"
    )
    print(REPORT.read_text())


if __name__ == "__main__":
    main()
