#!/usr/bin/env python3
"""A thousand jobs of ten Workers: our operator beside MPI Operator v0.8.2 on a real control plane, in one run. Python's standard library only.

usage: run.py --run FOLDER --ours PROGRAM --upstream PROGRAM [--jobs 1000] [--workers 10] [--report FILE]

FOLDER is that of a control plane, see `bench/control_plane.py`, with enough fake nodes for all pods (250 each). Two populations of jobs
are made, one after the other, for each of the operators:

1. *start*: there is a GPU for every Worker, and Launchers end 5 s after their start.
2. *shortage*: there is a GPU for one Worker in ten, and the operator is left to wait for some time; then
   *room*: there are GPUs for all, and all jobs start; Launchers keep running, which is checked before the loss;
   *silence*: nothing happens, and nobody prints anything; our stall timeout is as short as a look at a silent job can come;
   *loss*: one node in ten is gone with its pods;
   *restart*: the operator is killed, and another one takes over.
"""

import argparse
import collections
import json
import os
import pathlib
import platform
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from control_plane import JOBS, KEEPS_RUNNING, LEASE, ControlPlane, Operator, Watch, is_true, mpijob
from report import save, version_of

parser = argparse.ArgumentParser()
parser.add_argument("--run", type=pathlib.Path)
parser.add_argument("--ours")
parser.add_argument("--upstream", default="")
parser.add_argument("--jobs", type=int, default=1000)
parser.add_argument("--workers", type=int, default=10)
parser.add_argument("--limit", type=float, default=420, help="the longest that a scene may take, in seconds")
parser.add_argument("--scenes", default="start,shortage,room,silence,loss,restart")
parser.add_argument("--upstream-scenes", help="those of upstream's operator, if not the same")
parser.add_argument(
    "--report", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[1] / "reports" / "scale.md"
)
options = parser.parse_args()
if not (options.run and options.ours):
    print(
        "bench/scale needs a real control plane and the operators' programs; nothing is measured without them.",
        __doc__,
        sep="\n\n",
    )
    sys.exit(0)

PODS_OF_A_NODE = 250
WAIT_SECONDS, SILENCE_SECONDS, RESTART_SECONDS = 60, 180, 30
# The rarest that our operator ever looks at a silent job is every five minutes, and this is the most often.
STALL_TIMEOUT = {"training.opendatahub.io/stall-timeout": "30s"}
# Upstream's own flags would take most of an hour.
RAISED = [
    "--kube-api-qps=1000",
    "--kube-api-burst=2000",
    "--threadiness=16",
    "--controller-queue-rate-limit=1000",
    "--controller-queue-burst=2000",
]
MERGE = "application/merge-patch+json"
WORKERS = options.jobs * options.workers
PODS = WORKERS + options.jobs
plane = ControlPlane(options.run)


class Population:
    """What is seen of the jobs of a namespace and of their pods."""

    def __init__(self, namespace):
        self.namespace = namespace
        self.workers, self.up, self.nodes, self.uids = {}, set(), {}, {}
        self.running, self.succeeded, self.failed, self.causes = set(), set(), set(), {}
        self.changed = threading.Event()
        self.watches = [
            Watch(plane, f"/api/v1/namespaces/{namespace}/pods", self.pod),
            Watch(plane, JOBS.format(namespace), self.job),
        ]

    def pod(self, _now, kind, pod):
        name, job = pod["metadata"]["name"], pod["metadata"]["labels"].get("training.kubeflow.org/job-name")
        if kind == "DELETED":
            self.up.discard(name)
            self.workers.pop(name, None)
            self.nodes.pop(name, None)
            self.uids.pop(name, None)
        else:
            self.uids[name] = pod["metadata"]["uid"]
            if pod["metadata"]["labels"].get("training.kubeflow.org/job-role") == "worker":
                self.workers[name] = job
            self.nodes[name] = (job, pod["spec"].get("nodeName"))
            if pod.get("status", {}).get("phase") == "Running":
                self.up.add(name)
        self.changed.set()

    def job(self, _now, _, job):
        name = job["metadata"]["name"]
        for condition, of in (("Running", self.running), ("Succeeded", self.succeeded), ("Failed", self.failed)):
            (
                of.add
                if is_true(job, condition) or (condition == "Running" and name in of and is_true(job, "Succeeded"))
                else of.discard
            )(name)
        if name in self.failed:
            self.causes[name] = job["status"].get("failure", {}).get("reason")
        self.changed.set()

    def is_whole(self, job):
        """Whether all of the job's Workers run."""
        return all(f"{job}-worker-{index}" in self.up for index in range(options.workers))

    def check_none_ended(self):
        """The Launchers of this population keep running; where they do not, nothing is measured of running jobs."""
        if ended := self.succeeded | self.failed:
            raise SystemExit(
                f"{len(ended)} jobs have ended, {min(ended)} among them: was kwok started with bench/stages.yaml?"
            )

    def until(self, done, limit=None):
        """Seconds until it is so, or nothing where it takes too long."""
        begun = time.monotonic()
        while time.monotonic() - begun < (limit or options.limit):
            if done():
                return time.monotonic() - begun
            self.changed.wait(0.5)
            self.changed.clear()
        return None

    def stop(self):
        for watch in self.watches:
            watch.stop()


class Use:
    """What the operator, and the control plane, use from now on."""

    def __init__(self, operator):
        operator.forget_peak()
        self.operator, self.position = operator, plane.audit_position()
        self.cpu, self.control, self.since = operator.cpu(), plane.cpu(), time.monotonic()

    def so_far(self):
        used = {
            "seconds": time.monotonic() - self.since,
            "cpu": self.operator.cpu() - self.cpu,
            "control cpu": plane.cpu() - self.control,
        }
        memory = self.operator.memory()
        calls = plane.audited(self.position)
        return {
            **used,
            "peak": memory["peak"],
            "resident": memory["resident"],
            "calls": sum(calls.values()),
            "by kind": dict(calls.most_common(8)),
        }


def set_gpus(count):
    """Spreads so many GPUs over the nodes."""
    nodes = plane.call("GET", "/api/v1/nodes")["items"]
    if len(nodes) * PODS_OF_A_NODE < PODS * 1.15:
        raise SystemExit(
            f"{len(nodes)} fake nodes are too few for {PODS} pods: {PODS * 1.15 / PODS_OF_A_NODE:.0f} are needed"
        )
    share = str(-(-count // len(nodes)))
    gpus = {"nvidia.com/gpu": share}
    for node in nodes:
        path = f"/api/v1/nodes/{node['metadata']['name']}/status"
        plane.call("PATCH", path, {"status": {"allocatable": gpus, "capacity": gpus}}, content=MERGE)


def jobs(annotations=None):
    return [mpijob(f"j{number}", options.workers, annotations) for number in range(options.jobs)]


def start(operator):
    set_gpus(2 * WORKERS)
    namespace = plane.new_namespace()
    population, use = Population(namespace), Use(operator)
    plane.submit_all(namespace, jobs())
    submitted = time.monotonic() - use.since
    created = population.until(lambda: len(population.workers) >= WORKERS)
    found = {"submitted": submitted, "created": created and created + submitted}
    population.until(lambda: len(population.running) == options.jobs)
    found["running"] = time.monotonic() - use.since if len(population.running) == options.jobs else None
    population.until(lambda: len(population.succeeded) == options.jobs)
    found |= {"running seen": len(population.running), "succeeded seen": len(population.succeeded), **use.so_far()}
    population.stop()
    plane.remove(namespace, options.limit)
    return found


def shortage(operator):
    set_gpus(WORKERS // 10)
    population, use = Population(plane.new_namespace()), Use(operator)
    plane.submit_all(population.namespace, jobs({KEEPS_RUNNING: "yes", **STALL_TIMEOUT}))
    submitted = time.monotonic() - use.since
    created = population.until(lambda: len(population.workers) >= WORKERS)
    time.sleep(WAIT_SECONDS)
    population.check_none_ended()
    return population, {"created": created and created + submitted, **use.so_far()}


def room(operator, population):
    use = Use(operator)
    set_gpus(2 * WORKERS)
    running = population.until(lambda: len(population.running) == options.jobs)
    return {"running": running, "running seen": len(population.running), **use.so_far()}


def silence(operator, _):
    use = Use(operator)
    time.sleep(SILENCE_SECONDS)
    return use.so_far()


def loss(operator, population):
    population.check_none_ended()
    nodes = plane.call("GET", "/api/v1/nodes")["items"]
    lost = {node["metadata"]["name"]: node for node in nodes[:: max(1, len(nodes) // max(1, len(nodes) // 10))]}
    on_lost = {name for name, (_, node) in population.nodes.items() if node in lost}
    hit = {population.workers[name] for name in on_lost & population.workers.keys()}
    workers = {name: population.uids[name] for name in on_lost & population.workers.keys()}
    use = Use(operator)
    for name in lost:
        plane.call("DELETE", f"/api/v1/nodes/{name}")
        path = f"/api/v1/namespaces/{population.namespace}/pods?fieldSelector=spec.nodeName%3D{name}"
        plane.call("DELETE", path, {"gracePeriodSeconds": 0})
    deleted = time.monotonic() - use.since
    # The watch may lag, and a Worker that it has not shown as lost must not count as there again.
    seen = population.until(lambda: all(population.uids.get(name) != uid for name, uid in workers.items()))
    answered = population.until(lambda: all(job in population.failed or population.is_whole(job) for job in hit))
    failed = population.failed & hit
    found = {
        "lost nodes": len(lost),
        "lost pods": len(on_lost),
        "jobs hit": len(hit),
        "failed": len(failed),
        **use.so_far(),
    }
    found["causes"] = collections.Counter(population.causes[job] for job in failed)
    found["answered"] = None if seen is None or answered is None else deleted + seen + answered
    found["others failed"] = len(population.failed - hit)
    for node in lost.values():
        kept = {key: node["metadata"][key] for key in ("name", "labels", "annotations")}
        status = {key: node["status"][key] for key in ("allocatable", "capacity")}
        plane.call("POST", "/api/v1/nodes", {"metadata": kept, "status": status})
    return found


def restart(operator, which, program, flags):
    operator.kill()
    plane.call("DELETE", LEASE)
    begun, position, control = time.monotonic(), plane.audit_position(), plane.cpu()
    begun = time.monotonic()
    operator = Operator(plane, which, program, flags)
    ready = time.monotonic() - begun
    time.sleep(RESTART_SECONDS)
    used = {"ready": ready, "cpu": operator.cpu(), "control cpu": plane.cpu() - control, **operator.memory()}
    calls = plane.audited(position)
    return operator, {**used, "calls": sum(calls.values()), "by kind": dict(calls.most_common(8))}


def measure(which):
    program, flags = (options.ours, []) if which == "ours" else (options.upstream, RAISED)
    scenes = options.scenes if which == "ours" else options.upstream_scenes or options.scenes
    scenes, found = scenes.split(","), {}

    def note(scene, result):
        found[scene] = result
        print(which, scene, json.dumps(result), flush=True)

    if "start" in scenes:
        operator = Operator(plane, which, program, flags)
        try:
            note("start", start(operator))
        finally:
            operator.stop()
    if "shortage" not in scenes:
        return found
    operator = Operator(plane, which, program, flags)
    try:
        population, result = shortage(operator)
        note("shortage", result)
        for scene, act in (("room", room), ("silence", silence), ("loss", loss)):
            if scene in scenes:
                note(scene, act(operator, population))
        if "restart" in scenes:
            operator, result = restart(operator, which, program, flags)
            note("restart", result)
        population.stop()
        plane.remove(population.namespace, options.limit)
    finally:
        operator.stop()
    return found


ROWS = [
    ("start", "created", "all Workers created, s", "{:.0f}", "no slower than upstream"),
    ("start", "running", "all jobs seen Running, s", "{:.0f}", ""),
    ("start", "running seen", f"jobs seen Running, of {options.jobs}", "{}", "all"),
    ("start", "cpu", "the operator's CPU, s", "{:.1f}", "< 40"),
    ("start", "control cpu", "the control plane's CPU, s", "{:.0f}", ""),
    ("start", "calls", "API calls", "{}", ""),
    ("start", "peak", "most resident, MiB", "{:.0f}", "< 120"),
    ("shortage", "created", "all Workers created, s", "{:.0f}", "no slower than upstream"),
    ("shortage", "cpu", f"the operator's CPU until {WAIT_SECONDS} s later, s", "{:.1f}", "< 40"),
    ("shortage", "calls", "API calls", "{}", ""),
    ("shortage", "peak", "most resident, MiB", "{:.0f}", "< 120"),
    ("room", "running", "all jobs seen Running, s after there are GPUs", "{:.0f}", ""),
    ("room", "running seen", f"jobs seen Running, of {options.jobs}", "{}", "all"),
    ("room", "cpu", "the operator's CPU, s", "{:.1f}", ""),
    ("silence", "cpu", f"the operator's CPU in {SILENCE_SECONDS} s, s", "{:.2f}", ""),
    ("silence", "calls", f"API calls in {SILENCE_SECONDS} s", "{}", ""),
    ("silence", "resident", "resident, MiB", "{:.0f}", ""),
    ("loss", "jobs hit", "running jobs that lost a Worker", "{}", ""),
    ("loss", "failed", "of these ended as Failed", "{}", "all"),
    ("loss", "answered", "all of these have Failed, or their Workers again, s", "{:.0f}", "≤ 30"),
    ("loss", "others failed", "jobs that failed without having lost a Worker", "{}", "0"),
    ("loss", "cpu", "the operator's CPU, s", "{:.1f}", ""),
    ("restart", "ready", "ready after a kill, s", "{:.1f}", ""),
    ("restart", "cpu", f"CPU until {RESTART_SECONDS} s later, s", "{:.1f}", ""),
    ("restart", "calls", "API calls", "{}", ""),
    ("restart", "resident", "resident, MiB", "{:.0f}", ""),
]


def report(ours, upstream, load):
    version = version_of(options.ours)
    nodes = len(plane.call("GET", "/api/v1/nodes")["items"])
    lines = [
        f"# {options.jobs:,} jobs of {options.workers} Workers beside MPI Operator v0.8.2",
        "",
        f"{platform.system()} {platform.release()}, {os.cpu_count()} cores, load before {load[0]:.1f}; Kubernetes {plane.version()} with etcd without fsync, "
        f"its controller manager with {plane.flags_of('kube-controller-manager')}, {nodes} fake nodes (kwok), all of it on the same cores; {version} with its "
        f"default flags against mpi-operator v0.8.2 with `{' '.join(RAISED)}`.",
        "",
        f"One population starts with a GPU for every Worker. The other starts with one for every tenth (*shortage*), waits {WAIT_SECONDS} s, gets room for all "
        f"(*room*), says nothing for {SILENCE_SECONDS} s while every job is looked at as often as a silent job ever is (*silence*), loses one node in ten with its pods "
        "(*loss*), and loses its operator, which another one follows at once (*restart*). A dash: it did not happen in time, or was not measured.",
        "",
        "| scene | what | ours | upstream | goal |",
        "|---|---|---|---|---|",
    ]
    for scene, key, what, form, goal in ROWS:
        cells = [
            form.format(of[scene][key]) if of.get(scene, {}).get(key) is not None else "–" for of in (ours, upstream)
        ]
        lines.append(f"| {scene} | {what} | {cells[0]} | {cells[1]} | {goal or '–'} |")
    lines.append("")
    if causes := ours.get("loss", {}).get("causes"):
        lines += [
            "Causes of the failures, loss: " + ", ".join(f"{count} {cause}" for cause, count in causes.items()) + ".",
            "",
        ]
    for scene, of in ours.items():
        calls = ", ".join(f"{count} {kind}" for kind, count in of["by kind"].items()) or "none"
        lines += [f"Our calls, {scene}: {calls}.", ""]
    lines += [
        "Repeat with `python3 bench/scale/run.py --run FOLDER --ours PROGRAM --upstream PROGRAM`; the file says what FOLDER has to hold."
    ]
    save(options.report, lines)


def main():
    load = os.getloadavg()
    plane.call("POST", "/api/v1/namespaces", {"metadata": {"name": "mpi-operator"}})
    ours = measure("ours")
    report(ours, measure("upstream") if options.upstream else {}, load)


if __name__ == "__main__":
    sys.exit(main())
