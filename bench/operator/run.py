#!/usr/bin/env python3
"""Our operator beside MPI Operator v0.8.2 on a real control plane, all in one run. Python's standard library only.

usage: run.py --run FOLDER --ours PROGRAM --upstream PROGRAM [--seconds 520] [--small] [--report FILE]

FOLDER is that of a control plane, see `bench/control_plane.py`. It ends within the given seconds: everything is measured once, ours first, and then again
while there is time.

Two floors are measured in the same run: what bare creates of a job's Workers take, so many at once, and what bare creates of all that
its operator makes take until all pods run. The second is the control plane's own time: no operator can be faster than it.
"""

import argparse
import functools
import json
import os
import pathlib
import platform
import queue
import statistics
import sys
import threading
import time

WAIT_SECONDS = 60
SETTLE_SECONDS = 3
AT_ONCE = (16, 32, 64)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from control_plane import JOBS, ControlPlane, Operator, Watch, is_true, mpijob
from report import save, version_of

parser = argparse.ArgumentParser()
parser.add_argument("--run", type=pathlib.Path)
parser.add_argument("--ours")
parser.add_argument("--upstream", default="")
parser.add_argument("--seconds", type=float, default=520)
parser.add_argument("--small", action="store_true", help="few pods, to try this program")
parser.add_argument(
    "--report", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[1] / "reports" / "operator.md"
)
parser.add_argument("--skip-upstream", action="store_true", help="for a first look")
parser.add_argument("--scenarios", default="four,hundred,thousand,fifty,idle")
options = parser.parse_args()
if not (options.run and options.ours and (options.upstream or options.skip_upstream)):
    print(
        "bench/operator needs a real control plane and upstream's program; nothing is measured without them.",
        __doc__,
        sep="\n\n",
    )
    sys.exit(0)

END = time.monotonic() + options.seconds
SCENARIOS = {"four": (1, 4), "hundred": (1, 100), "thousand": (1, 1000), "fifty": (50, 4)}
IDLE_JOBS, IDLE_SECONDS = 200, 20
if options.small:
    SCENARIOS = {"four": (1, 4), "hundred": (1, 8), "thousand": (1, 16), "fifty": (3, 4)}
    IDLE_JOBS, IDLE_SECONDS = 4, 5
# Upstream's own flags take minutes for these; with these it does them, too.
RAISED = [
    "--kube-api-qps=1000",
    "--kube-api-burst=2000",
    "--threadiness=16",
    "--controller-queue-rate-limit=1000",
    "--controller-queue-burst=2000",
]
RAISED_FOR = ("thousand", "idle")
# What a scenario takes at most where the machine is quiet: it is not begun where less time is left.
TAKES = {"four": 25, "hundred": 40, "thousand": 60, "fifty": 75, "idle": 100}
# Upstream's, what says most first, as there may not be time for all.
UPSTREAM_ORDER = ("hundred", "fifty", "thousand", "idle", "four")
plane = ControlPlane(options.run)


class Seen:
    """When what happened first."""

    def __init__(self):
        self.created, self.up, self.running, self.succeeded = {}, {}, {}, {}
        self.changed = threading.Event()

    def pod(self, now, kind, pod):
        name = pod["metadata"]["name"]
        if kind != "DELETED" and pod["metadata"]["labels"].get("training.kubeflow.org/job-role") == "worker":
            self.created.setdefault(name, now)
        if pod.get("status", {}).get("phase") == "Running":
            self.up.setdefault(name, now)
        self.changed.set()

    def job(self, now, _, job):
        for condition, times in (("Running", self.running), ("Succeeded", self.succeeded)):
            if is_true(job, condition):
                times.setdefault(job["metadata"]["name"], now)
        self.changed.set()

    def wait(self, done):
        end = min(time.monotonic() + WAIT_SECONDS, END)
        while not done() and time.monotonic() < end:
            self.changed.wait(0.5)
            self.changed.clear()


def last(times, wanted, start):
    return max(times.values()) - start if len(times) == wanted else None


def measure(operator, jobs, workers, keep=False):
    namespace, seen = plane.new_namespace(), Seen()
    watches = [
        Watch(plane, f"/api/v1/namespaces/{namespace}/pods", seen.pod),
        Watch(plane, JOBS.format(namespace), seen.job),
    ]
    position = plane.audit_position()
    operator.forget_peak()
    cpu, control, start = operator.cpu(), plane.cpu(), time.monotonic()
    plane.submit_all(namespace, [mpijob(f"j{number}", workers) for number in range(jobs)])
    seen.wait(lambda: len(seen.running) == jobs)
    used = {"cpu": operator.cpu() - cpu, "control cpu": plane.cpu() - control}
    # Where not all ran in time, their ends are not waited for as well.
    if len(seen.running) == jobs:
        seen.wait(lambda: len(seen.succeeded) == jobs)
    time.sleep(SETTLE_SECONDS)
    calls = plane.audited(position)
    memory = operator.memory()
    for watch in watches:
        watch.stop()
    if not keep:
        plane.remove(namespace)
    return {
        "created": last(seen.created, jobs * workers, start),
        "up": last(seen.up, jobs * (workers + 1), start),
        "running": last(seen.running, jobs, start),
        "succeeded": last(seen.succeeded, jobs, start),
        "running seen": len(seen.running),
        "calls": sum(calls.values()),
        "conflicts": sum(count for name, count in calls.items() if name.endswith(" 409")),
        **used,
        **memory,
        "calls by kind": dict(calls.most_common()),
        "namespace": namespace,
    }


MODEL = "model"
GROUPS = [
    [
        ("/api/v1/namespaces/{}/services", MODEL),
        ("/api/v1/namespaces/{}/configmaps", f"{MODEL}-config"),
        ("/api/v1/namespaces/{}/secrets", f"{MODEL}-ssh"),
    ],
    [
        *(("/api/v1/namespaces/{}/pods", f"{MODEL}-worker-{index}") for index in range(4)),
        ("/apis/batch/v1/namespaces/{}/jobs", f"{MODEL}-launcher"),
    ],
]


def model():
    """What our operator makes of a job with four Workers, to be created without one: groups of (path, object)."""
    namespace = plane.new_namespace()
    operator = Operator(plane, "ours", options.ours)
    plane.call("POST", JOBS.format(namespace), mpijob(MODEL, 4))
    groups: list[list] = []
    for group in GROUPS:
        groups.append([])
        for path, name in group:
            found: dict = {}
            while "metadata" not in found or "uid" not in found["metadata"]:
                found = plane.call("GET", f"{path.format(namespace)}/{name}")
                time.sleep(0.05)
            groups[-1].append((path, bare(found)))
    operator.stop()
    plane.remove(namespace)
    return groups


def bare(found):
    metadata = {key: found["metadata"][key] for key in ("name", "labels", "annotations") if key in found["metadata"]}
    kept = {key: value for key, value in found.items() if key in ("apiVersion", "kind", "data", "type")}
    spec = found.get("spec", {})
    kind = found["kind"]
    if kind == "Service":
        spec = {key: spec[key] for key in ("clusterIP", "selector", "publishNotReadyAddresses") if key in spec}
    if kind == "Job":
        del spec["selector"]
        labels = spec["template"]["metadata"]["labels"]
        spec["template"]["metadata"] = {
            "labels": {key: value for key, value in labels.items() if key.startswith("training.")}
        }
    if kind == "Pod":
        spec = {
            name: value
            for name, value in spec.items()
            if name not in ("nodeName", "serviceAccount", "serviceAccountName", "tolerations")
        }
        spec["volumes"] = [volume for volume in spec["volumes"] if "projected" not in volume]
        volumes = {volume["name"] for volume in spec["volumes"]}
        for container in spec["containers"]:
            container["volumeMounts"] = [mount for mount in container["volumeMounts"] if mount["name"] in volumes]
    return {**kept, "metadata": metadata, **({"spec": spec} if spec else {})}


def at_once(tasks, count):
    """Runs the tasks, so many at once, on connections that are open; returns the seconds."""
    waiting: queue.SimpleQueue = queue.SimpleQueue()
    ready = threading.Barrier(count + 1)
    for task in tasks:
        waiting.put(task)

    def work():
        plane.call("GET", "/api/v1/namespaces?limit=1")
        ready.wait()
        while True:
            try:
                task = waiting.get_nowait()
            except queue.Empty:
                return
            task()

    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    ready.wait()
    start = time.monotonic()
    for thread in threads:
        thread.join()
    return time.monotonic() - start


def posts(objects, namespace):
    """A create of each, made ready before the clock starts."""
    prepared = [(path.format(namespace), json.dumps(one).encode()) for path, one in objects]
    return [functools.partial(plane.call, "POST", path, body, accepted=(201,)) for path, body in prepared]


def floor(groups, pods, count):
    """Seconds that bare creates of so many Workers take."""
    namespace = plane.new_namespace()
    path, worker = groups[1][0]
    workers = [
        (path, {**worker, "metadata": {**worker["metadata"], "name": f"bare-{number}"}}) for number in range(pods)
    ]
    took = at_once(posts(workers, namespace), count)
    plane.remove(namespace)
    return took


def floor_of_jobs(groups, jobs, count):
    """Bare creates of all that the operator makes of so many jobs with four Workers: seconds until all Workers are created, until all
    pods run, and the control plane's CPU seconds."""
    namespace, seen = plane.new_namespace(), Seen()
    watch = Watch(plane, f"/api/v1/namespaces/{namespace}/pods", seen.pod)

    def named(group, number):
        return [(path, json.loads(json.dumps(one).replace(MODEL, f"bare{number}"))) for path, one in group]

    steps = [posts([one for number in range(jobs) for one in named(group, number)], namespace) for group in groups]
    control, start = plane.cpu(), time.monotonic()
    for step in steps:
        at_once(step, count)
    seen.wait(lambda: len(seen.up) == jobs * 5)
    result = {
        "created": last(seen.created, jobs * 4, start),
        "up": last(seen.up, jobs * 5, start),
        "control cpu": plane.cpu() - control,
    }
    watch.stop()
    plane.remove(namespace)
    return result


def idle(operator):
    many = measure(operator, IDLE_JOBS, 4, keep=True)
    time.sleep(5)
    operator.forget_peak()
    position, cpu, since = plane.audit_position(), operator.cpu(), time.monotonic()
    time.sleep(IDLE_SECONDS)
    # All of it before the jobs are removed, which is work again.
    used = (operator.cpu() - cpu) * IDLE_SECONDS / (time.monotonic() - since)
    memory, calls = operator.memory(), plane.audited(position)
    plane.remove(many["namespace"])
    return {**memory, "calls": sum(calls.values()), "calls by kind": dict(calls), "cpu": used, "many": many}


def once(which, name):
    """One run of a scenario, with an operator of its own; nothing where too little time is left."""
    if END - time.monotonic() < (10 if options.small else TAKES[name]):
        print(which, name, "is left out: the time is up", flush=True)
        return []
    program = options.ours if which == "ours" else options.upstream
    operator = Operator(plane, which, program, RAISED if which == "upstream" and name in RAISED_FOR else ())
    try:
        result = idle(operator) if name == "idle" else measure(operator, *SCENARIOS[name])
    finally:
        operator.stop()
    print(which, name, json.dumps(result), flush=True)
    return [result]


def middle(results, key, digits=2, of=statistics.median):
    values = [result[key] for result in results if result[key] is not None]
    return shown(of(values), digits) if values else "–"


def middles(mine, theirs, key, digits=2, of=statistics.median) -> tuple[str, str]:
    return middle(mine, key, digits, of), middle(theirs, key, digits, of)


def shown(value, digits=2):
    return f"{value:.{digits}f}" if isinstance(value, float) else str(value)


def table(floors, bare_jobs, ours, upstream):
    goals = {"hundred": "< 0.4", "thousand": "< 4.5"}
    rows = ["| what | ours | upstream | floor | ours ÷ floor | goal |", "|---|---|---|---|---|---|"]

    def row(what, mine, theirs, bare=None, goal="–"):
        ratio = shown(float(mine) / bare) if bare and mine != "–" else ""
        rows.append(f"| {what} | {mine} | {theirs} | {shown(bare) if bare else ''} | {ratio} | {goal} |")

    for name, (jobs, workers) in SCENARIOS.items():
        mine, theirs = ours.get(name, []), upstream.get(name, [])
        if not mine:
            continue
        size = f"{jobs} × {workers}"
        both = functools.partial(middles, mine, theirs)
        row(f"{size}: all Workers created, s", *both("created"), floors.get(jobs * workers), goals.get(name, "–"))
        if name == "fifty":
            row(f"{size}: all Workers created, s; beside the second floor", *both("created"), bare_jobs["created"])
            row(f"{size}: all pods up, s; beside the second floor", *both("up"), bare_jobs["up"])
            row(f"{size}: all jobs Running, s; beside the second floor", *both("running"), bare_jobs["up"], "< 2.5")
            row(
                f"{size}: the control plane's CPU until then, s; beside the second floor",
                *both("control cpu"),
                bare_jobs["control cpu"],
            )
        else:
            row(f"{size}: all jobs Running, s", *both("running"))
        row(f"{size}: the operator's CPU until then, s", *both("cpu"))
        row(f"{size}: jobs whose Running was seen, of {jobs}", *both("running seen", digits=0, of=min), goal="all")
        row(f"{size}: API calls", *both("calls", digits=0), goal="≤ 14" if name == "four" else "–")
        row(f"{size}: writes lost to a conflict", *both("conflicts", digits=0, of=max), goal="0")
        row(f"{size}: most resident, MiB", *both("peak", digits=1), goal="< 60" if name == "thousand" else "–")
    mine, theirs = ours.get("idle", []), upstream.get("idle", [])
    if mine:
        both = functools.partial(middles, mine, theirs, digits=1)
        what = f"idle with {IDLE_JOBS} finished jobs"
        row(f"{what}: resident, MiB", *both("resident"), goal="< 25")
        row(f"{what}: of it not of files, MiB", *both("heap"))
        row(f"{what}: API calls in {IDLE_SECONDS} s but for the lease", *both("calls", digits=0), goal="0")
        row(f"{what}: CPU in {IDLE_SECONDS} s, s", *both("cpu", digits=2))
    return rows


def report(floors, bare_jobs, ours, upstream, load):
    version = version_of(options.ours)
    runs = ", ".join(f"{name} {len(results)}" for name, results in ours.items())
    lines = [
        "# The operator beside MPI Operator v0.8.2",
        "",
        f"{platform.system()} {platform.release()}, {os.cpu_count()} cores, load before {load[0]:.1f}, after {os.getloadavg()[0]:.1f}; "
        f"Kubernetes {plane.version()} with etcd without fsync, its controller manager with {plane.flags_of('kube-controller-manager')}, "
        f"40 fake nodes (kwok); {version} against mpi-operator v0.8.2. Medians of our runs ({runs}), each with an operator of its own. "
        "A job's Launcher ends 5 s after its start.",
        "",
        f"Each with its default flags, but upstream's for 1 × {SCENARIOS['thousand'][1]} and idle with `{' '.join(RAISED)}`, as it would take minutes. "
        f"A dash: not all of it was seen within {WAIT_SECONDS} s, or there was no time left.",
        "",
        f"The floor is what bare creates of the same pods take in the same run, the best of {', '.join(map(str, AT_ONCE))} at once. The second floor "
        "is what bare creates of everything that the operator makes take until all pods, the Launchers' too, run: the time of API server, Job "
        "controller, scheduler and nodes.",
        "",
        *table(floors, bare_jobs, ours, upstream),
        "",
    ]
    for name in ("four", "idle"):
        for result in ours.get(name, [])[-1:]:
            calls = ", ".join(f"{count} {kind}" for kind, count in result["calls by kind"].items()) or "none"
            lines += [f"Our calls, {name}: {calls}.", ""]
    lines += [
        "Repeat with `python3 bench/operator/run.py --run FOLDER --ours PROGRAM --upstream PROGRAM`; the file says what FOLDER has to hold."
    ]
    save(options.report, lines)


def main():
    load = os.getloadavg()
    plane.call("POST", "/api/v1/namespaces", {"metadata": {"name": "mpi-operator"}})
    groups, floors = model(), {}
    chosen = options.scenarios.split(",")
    for count in sorted({jobs * workers for name, (jobs, workers) in SCENARIOS.items() if name in chosen}):
        runs = {parallel: floor(groups, count, parallel) for parallel in (AT_ONCE if count < 1000 else AT_ONCE[1:])}
        floors[count] = min(runs.values())
        print("floor", count, runs, flush=True)
    bare = [floor_of_jobs(groups, SCENARIOS["fifty"][0], parallel) for parallel in AT_ONCE] if "fifty" in chosen else []
    print("floor of jobs", bare, flush=True)
    bare_jobs = {
        key: min((run[key] for run in bare if run[key] is not None), default=None)
        for key in ("created", "up", "control cpu")
    }
    ours = {name: once("ours", name) for name in chosen}
    others = [] if options.skip_upstream else [name for name in UPSTREAM_ORDER if name in chosen]
    upstream = {name: once("upstream", name) for name in others}
    more = [name for name in chosen if name != "idle"]
    while more and END - time.monotonic() > sum(TAKES[name] for name in more):
        for name in more:
            ours[name] += once("ours", name)
        if options.small:
            break
    report(floors, bare_jobs, ours, upstream, load)


if __name__ == "__main__":
    sys.exit(main())
