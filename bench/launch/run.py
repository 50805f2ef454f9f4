#!/usr/bin/env python3
"""Launch agent beside ssh: how long `mpirun hostname` takes over 2, 8, 16 and 32 Workers, both in one run.

Every Worker is a set of namespaces (network, host name, mounts, processes) with a routed /32 address, as the embedded cluster makes
them, and runs both the agent and an sshd. Runs of the two alternate, so that what else the machine does falls on both.

Needs root, `mpirun` (Open MPI), `sshd`, `ip`, `unshare`, `nsenter`. Python's standard library only.
Writes bench/reports/launch.md. The agent's program is `--agent`, or the `odh-launch` beside the program that ODH names.
"""

import argparse
import datetime
import functools
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WORKERS = (2, 8, 16, 32)
REPORT = Path(__file__).resolve().parent.parent / "reports" / "launch.md"
GATEWAY = "169.254.1.1"
BUSY = "- The machine was busy with other work: compare within a row, and take the minima for what an idle machine does"
# The longest time for a run, or for the start of the pods.
LIMIT_SECONDS = 120

POD = r"""
set -e
hostname "$NAME"
mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount --bind "$WORK/hosts" /etc/hosts
mount --bind "$WORK/passwd" /etc/passwd
mkdir -m 1777 "$WORK/tmp-$NAME"
mkdir -m 700 "$WORK/tmp-$NAME/.ssh"
cp "$WORK/key" "$WORK/tmp-$NAME/.ssh/id_ecdsa"
cp "$WORK/ssh_config" "$WORK/tmp-$NAME/.ssh/config"
mount --bind "$WORK/tmp-$NAME" /home
mount -t tmpfs -o mode=755 tmpfs /run
mkdir /run/sshd
read -r go
ip -batch - <<BATCH
link set lo up
link set eth0 up
addr add $ADDRESS/32 dev eth0
route add $GATEWAY dev eth0 scope link
route add default via $GATEWAY dev eth0 src $ADDRESS
BATCH
export TMPDIR=/home
/usr/sbin/sshd -D -e -f "$WORK/sshd_config" 2>"$WORK/tmp-$NAME/sshd.log" &
exec "$AGENT" serve 2>"$WORK/tmp-$NAME/agent.log"
"""

SSHD_CONFIG = """Port 2222
HostKey {work}/host_key
AuthorizedKeysFile {work}/key.pub
PidFile none
UsePAM no
StrictModes no
PermitRootLogin prohibit-password
MaxStartups 256
MaxSessions 256
PrintMotd no
PrintLastLog no
LogLevel ERROR
"""

# As in upstream's images.
SSH_CONFIG = """Host *
    Port 2222
    StrictHostKeyChecking no
    UserKnownHostsFile /dev/null
    LogLevel ERROR
    ConnectionAttempts 10
"""


class Pod:
    """A set of namespaces with a name and an address."""

    def __init__(self, index: int, name: str, environment: dict[str, str]):
        self.name, self.address = name, f"10.77.0.{index + 1}"
        environment = {**environment, "NAME": name, "ADDRESS": self.address, "GATEWAY": GATEWAY}
        namespaces = ["--net", "--uts", "--ipc", "--mount", "--pid", "--fork", "--kill-child"]
        self.holder = subprocess.Popen(
            ["unshare", *namespaces, "sh", "-c", POD], env=environment, stdin=subprocess.PIPE, text=True
        )
        self.pid = first_child(self.holder.pid)

    def enter(self) -> list[str]:
        """Returns the words before a command to run it in this pod."""
        return ["nsenter", "--target", str(self.pid), "--net", "--uts", "--ipc", "--mount", "--pid"]

    def end(self) -> None:
        """Ends every process of the pod; its namespaces go with them."""
        self.holder.kill()
        self.holder.wait()


def first_child(pid: int) -> int:
    """Waits for the child of `unshare --fork` and returns its pid."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < deadline:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if children and Path(f"/proc/{children[0]}/comm").read_text().strip() != "unshare":
            return int(children[0])
        time.sleep(0.001)
    raise SystemExit("a pod did not start")


def make_pods(count: int, agent: Path, work: Path) -> list[Pod]:
    """Creates Launcher and Workers, joined by routed veth pairs, each with its agent and its sshd."""
    names = ["launcher"] + [f"w-{index}" for index in range(count - 1)]
    hosts = "".join(f"10.77.0.{index + 1} {name}\n" for index, name in enumerate(names))
    (work / "hosts").write_text("127.0.0.1 localhost\n" + hosts)
    # A home without startup files, and a plain shell, so that login scripts are not measured.
    others = [line for line in Path("/etc/passwd").read_text().splitlines() if not line.startswith("root:")]
    (work / "passwd").write_text("\n".join(["root:x:0:0:root:/home:/bin/sh", *others]) + "\n")
    (work / "sshd_config").write_text(SSHD_CONFIG.format(work=work))
    (work / "ssh_config").write_text(SSH_CONFIG)
    for name, options in (("key", ["-t", "ecdsa", "-b", "521", "-m", "PEM"]), ("host_key", ["-t", "ed25519"])):
        subprocess.run(["ssh-keygen", "-q", "-N", "", *options, "-f", str(work / name)], check=True)
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": "/home",
        "WORK": str(work),
        "AGENT": str(agent),
        "ODH_LAUNCH_KEY": str(work / "key"),
    }
    pods = [Pod(index, name, environment) for index, name in enumerate(names)]
    batch = ["link set lo up"]
    for index, pod in enumerate(pods):
        batch += [
            f"link add v{index} type veth peer name eth0 netns {pod.pid}",
            f"link set v{index} up",
            f"addr add {GATEWAY}/32 dev v{index}",
            f"route add {pod.address}/32 dev v{index} scope link",
        ]
    subprocess.run(["ip", "-batch", "-"], input="\n".join(batch) + "\n", text=True, check=True)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    for pod in pods:
        entry = pod.holder.stdin
        assert entry, "it is a pipe"
        entry.write("go\n")
        entry.flush()
    return pods


class Bench:
    """Runs commands in the Launcher."""

    def __init__(self, pods: list[Pod], agent: Path, work: Path):
        self.launcher, self.workers, self.agent, self.work = pods[0], pods[1:], agent, work
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": "/home",
            "TMPDIR": "/home",
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "ODH_LAUNCH_KEY": str(work / "key"),
            "ODH_LAUNCH_START_TIMEOUT": "30",
        }

    def run(self, command: list[str], environment: dict[str, str] | None = None) -> tuple[float, str]:
        """Runs a command in the Launcher. Returns its seconds and standard output; exits if it fails."""
        begun = time.monotonic()
        done = subprocess.run(
            self.launcher.enter() + command,
            env={**self.environment, **(environment or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
            check=False,
        )
        seconds = time.monotonic() - begun
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return seconds, done.stdout

    def mpirun(self, transport: str, workers: int) -> float:
        """Returns the seconds of `mpirun hostname`, with one rank on each of the first Workers; all must answer."""
        hostfile = self.work / f"hostfile-{workers}"
        hostfile.write_text("".join(f"{pod.name} slots=1\n" for pod in self.workers[:workers]))
        agent = str(self.agent) if transport == "agent" else "/usr/bin/ssh"
        seconds, output = self.run(
            ["mpirun", "--hostfile", str(hostfile), "hostname"], {"OMPI_MCA_plm_rsh_agent": agent}
        )
        wanted = sorted(pod.name for pod in self.workers[:workers])
        if sorted(output.split()) != wanted:
            raise SystemExit(f"{transport}, {workers} workers: not every worker answered:\n{output}")
        return seconds

    def connection(self, transport: str) -> float:
        """Returns the seconds of one remote `true`."""
        program = str(self.agent) if transport == "agent" else "/usr/bin/ssh"
        return self.run([program, self.workers[0].name, "true"])[0]

    def memory_kib(self, program: str) -> list[int]:
        """Returns the resident memory of the idle server in every Worker, in KiB."""
        found = []
        for pod in self.workers:
            # Process 1 of the pod is the agent; the listening sshd is its child.
            pids = (
                [str(pod.pid)]
                if program == "agent"
                else Path(f"/proc/{pod.pid}/task/{pod.pid}/children").read_text().split()
            )
            for pid in pids:
                status = Path(f"/proc/{pid}/status").read_text()
                found += [int(size) for size in re.findall(r"VmRSS:\s+(\d+) kB", status)]
        return found


def measure(bench: Bench, repeats: int) -> dict[str, dict[str, list[float]]]:
    """Returns the seconds by case and transport. Each round runs both transports, in alternating order."""
    # Wait until every sshd and agent answers, and warm the caches.
    for pod in bench.workers:
        bench.run([str(bench.agent), pod.name, "true"])
        bench.run(["/usr/bin/ssh", pod.name, "true"])
    figures: dict[str, dict[str, list[float]]] = {}
    cases = [("one connection, `true`", 4 * repeats, bench.connection)]
    cases += [
        (f"`mpirun hostname`, {count} workers", repeats, functools.partial(bench.mpirun, workers=count))
        for count in WORKERS
    ]
    for name, rounds, run in cases:
        figures[name] = {"agent": [], "ssh": []}
        for index in range(rounds):
            for transport in ("agent", "ssh") if index % 2 == 0 else ("ssh", "agent"):
                figures[name][transport].append(run(transport))
        print(
            f"{name}: " + ", ".join(f"{t} {statistics.median(s):.3f} s" for t, s in figures[name].items()), flush=True
        )
    return figures


def report(bench: Bench, figures: dict[str, dict[str, list[float]]], load: tuple[float, ...], repeats: int) -> str:
    """Returns the report in Markdown."""

    def first_line(command: list[str]) -> str:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return (done.stdout or done.stderr).splitlines()[0]

    cpu = re.search(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text())
    memory = re.search(r"MemTotal:\s*(\d+)", Path("/proc/meminfo").read_text())
    size = bench.agent.stat().st_size / 1024
    needs = subprocess.run(["ldd", str(bench.agent)], capture_output=True, text=True, check=False)
    linked = "statically linked" if "statically linked" in needs.stdout else "not statically linked"
    lines = [
        "# Launch agent beside ssh",
        "",
        f"Made by `bench/launch/run.py` on {datetime.date.today()}; {repeats} rounds (one connection: {4 * repeats}), "
        "the two transports in turn within one run.",
        "",
        f"- Machine: {os.cpu_count()} cores ({cpu.group(1) if cpu else platform.machine()}), "
        f"{int(memory.group(1)) / 2**20 if memory else 0:.0f} GiB, Linux {platform.release()}; load before the run "
        + " ".join(f"{value:.2f}" for value in load),
        f"- {first_line(['mpirun', '--version'])}; {first_line(['ssh', '-V'])}; {first_line([str(bench.agent), 'version'])} "
        f"({size:.0f} KiB, {linked})",
        f"- {len(bench.workers)} Workers and a Launcher as namespaces with routed addresses; one rank per Worker; Open MPI's default "
        "tree; ssh with a P-521 key, an ed25519 host key, no PAM, `/bin/sh` and no login files",
        *([BUSY] if load[0] > (os.cpu_count() or 1) else []),
        "",
        "Seconds:",
        "",
        "| what | agent min | median | max | ssh min | median | max | ssh ÷ agent (medians) |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, by in figures.items():
        cells = [
            f"{value:.3f}" for t in ("agent", "ssh") for value in (min(by[t]), statistics.median(by[t]), max(by[t]))
        ]
        ratio = statistics.median(by["ssh"]) / statistics.median(by["agent"])
        lines.append(f"| {name} | {' | '.join(cells)} | {ratio:.1f} |")
    agents, sshds = bench.memory_kib("agent"), bench.memory_kib("ssh")
    lines += [
        "",
        f"Resident memory of the waiting server in each Worker, after the runs (median): agent {statistics.median(agents) / 1024:.1f} MiB, "
        f"sshd {statistics.median(sshds) / 1024:.1f} MiB.",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    """Enters its own namespaces, creates the pods, measures, and writes the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agent", type=Path, help="the launch agent's program")
    parser.add_argument(
        "--repeats", type=int, default=5, help="rounds for each number of Workers (default: %(default)s)"
    )
    parser.add_argument("--report", type=Path, default=REPORT, help="where the report goes (default: %(default)s)")
    arguments = parser.parse_args()
    odh = os.environ.get("ODH")
    agent = arguments.agent or (Path(odh).with_name("odh-launch") if odh else None)
    if agent is None or not agent.is_file():
        parser.error("no launch agent: give --agent PATH, or ODH=PATH of odh with odh-launch beside it")
    if os.geteuid() != 0:
        parser.error("this measurement needs root: it makes a network namespace for each Worker")
    missing = [tool for tool in ("mpirun", "ssh", "ssh-keygen", "ip", "unshare", "nsenter") if not shutil.which(tool)]
    if missing:
        parser.error(f"not installed: {', '.join(missing)}")
    if "ODH_BENCH_INSIDE" not in os.environ:
        os.environ["ODH_BENCH_INSIDE"] = "1"
        os.execvp("unshare", ["unshare", "--net", "--mount", sys.executable, *sys.argv])

    load = os.getloadavg()
    with tempfile.TemporaryDirectory(prefix="odh-bench-launch-") as folder:
        work = Path(folder)
        work.chmod(0o755)
        pods: list[Pod] = []
        try:
            pods = make_pods(max(WORKERS) + 1, agent.resolve(), work)
            bench = Bench(pods, agent.resolve(), work)
            text = report(bench, measure(bench, arguments.repeats), load, arguments.repeats)
        finally:
            for pod in pods:
                pod.end()
    arguments.report.parent.mkdir(parents=True, exist_ok=True)
    arguments.report.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
