#!/usr/bin/env python3
"""Our operator beside MPI Operator v0.8.2 on a real control plane, all in one run. Python's standard library only.

usage: run.py --run FOLDER --ours PROGRAM --upstream PROGRAM [--repeat 3] [--report FILE]

FOLDER is that of a control plane at https://127.0.0.1:6443 that has MPIJobs' definition and fake nodes (kwok) which let pods run
at once and Launchers end after 5 s: `pki/tokens.csv` and `pki/ca.crt`, `operator.kubeconfig` (user `operator`), `audit.log` with that
user's requests. The floor is what bare creates of the same pods take, so many at once, measured in the same run.
"""

import argparse
import collections
import http.client
import json
import os
import pathlib
import platform
import queue
import re
import signal
import ssl
import statistics
import subprocess
import sys
import threading
import time

PORT = 6443
WAIT_SECONDS = 600
SETTLE_SECONDS = 3
AUDIT_SECONDS = 2.5
AT_ONCE = (16, 32, 64)

parser = argparse.ArgumentParser()
parser.add_argument("--run", type=pathlib.Path)
parser.add_argument("--ours")
parser.add_argument("--upstream")
parser.add_argument("--repeat", type=int, default=3)
parser.add_argument("--report", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[1] / "reports" / "operator.md")
parser.add_argument("--skip-upstream", action="store_true", help="for a first look")
parser.add_argument("--scenarios", default="four,hundred,thousand,fifty,idle")
parser.add_argument("--upstream-scenarios", help="fewer for upstream, whose default flags take minutes for the large ones")
options = parser.parse_args()
if not (options.run and options.ours and options.upstream):
    print("bench/operator needs a real control plane and upstream's program; nothing is measured without them.", __doc__, sep="\n\n")
    sys.exit(0)

TOKEN = next(line.split(",")[0] for line in open(options.run / "pki/tokens.csv") if line.split(",")[1] == "admin")
CONTEXT = ssl.create_default_context(cafile=str(options.run / "pki/ca.crt"))
HEADERS = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json", "Accept": "application/json"}
JOBS = "/apis/kubeflow.org/v2beta1/namespaces/{}/mpijobs"
local = threading.local()


def call(method, path, body=None, accepted=(200, 201, 202, 404, 409)):
    data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
    for last in (False, True):
        if getattr(local, "connection", None) is None:
            local.connection = http.client.HTTPSConnection("127.0.0.1", PORT, context=CONTEXT, timeout=120)
        try:
            local.connection.request(method, path, data, HEADERS)
            answer = local.connection.getresponse()
            text = answer.read()
            break
        except (http.client.HTTPException, OSError):
            local.connection = None
            if last:
                raise
    if answer.status not in accepted:
        raise SystemExit(f"{method} {path}: {answer.status} {text[:300]!r}")
    return json.loads(text) if text else {}


class Watch(threading.Thread):
    """Calls back with (time, kind of event, object) from now on."""

    def __init__(self, path, look):
        super().__init__(daemon=True)
        self.path, self.look, self.ends = path, look, False
        self.version = call("GET", path)["metadata"]["resourceVersion"]
        self.start()

    def run(self):
        while not self.ends:
            self.connection = http.client.HTTPSConnection("127.0.0.1", PORT, context=CONTEXT, timeout=3600)
            try:
                self.connection.request("GET", f"{self.path}?watch=1&resourceVersion={self.version}", headers=HEADERS)
                answer = self.connection.getresponse()
                while line := answer.readline():
                    now, event = time.monotonic(), json.loads(line)
                    self.version = event["object"]["metadata"]["resourceVersion"]
                    self.look(now, event["type"], event["object"])
            except (OSError, ValueError, AttributeError, http.client.HTTPException):
                if not self.ends:
                    time.sleep(0.1)

    def stop(self):
        self.ends = True
        self.connection.sock and self.connection.sock.shutdown(2)


class Operator:
    def __init__(self, which):
        self.which = which
        program = options.ours if which == "ours" else options.upstream
        self.log = open(options.run / f"bench-{which}.log", "ab")
        environment = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
        command = [program, f"--kubeConfig={options.run}/operator.kubeconfig"]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, env=environment)
        self.pid = self.process.pid
        lease = "/apis/coordination.k8s.io/v1/namespaces/mpi-operator/leases/mpi-operator"
        end = time.monotonic() + 30
        while time.monotonic() < end and not self.is_ready(lease):
            if self.process.poll() is not None:
                raise SystemExit(f"{program} ended, see {self.log.name}")
            time.sleep(0.1)
        time.sleep(1)

    def is_ready(self, lease):
        if self.which == "upstream":
            return bool(call("GET", lease).get("spec", {}).get("holderIdentity"))
        connection = http.client.HTTPConnection("127.0.0.1", 8080, timeout=2)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except OSError:
            return False

    def memory(self):
        text = open(f"/proc/{self.pid}/status").read()
        found = dict(re.findall(r"^(VmHWM|VmRSS):\s+(\d+)", text, re.M))
        return int(found["VmRSS"]) / 1024, int(found["VmHWM"]) / 1024

    def cpu(self):
        fields = open(f"/proc/{self.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def forget_peak(self):
        open(f"/proc/{self.pid}/clear_refs", "w").write("5")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)
        call("DELETE", "/apis/coordination.k8s.io/v1/namespaces/mpi-operator/leases/mpi-operator")


def audit_position():
    time.sleep(AUDIT_SECONDS)
    return os.path.getsize(options.run / "audit.log")


def audited(position):
    """Requests of the operator since then, by verb, resource and, where refused, code; leases and watches apart."""
    time.sleep(AUDIT_SECONDS)
    counts = collections.Counter()
    with open(options.run / "audit.log") as log:
        log.seek(position)
        for line in log:
            event = json.loads(line)
            target = event.get("objectRef", {})
            if event["stage"] != "ResponseComplete" or target.get("resource") == "leases" or event["verb"] == "watch":
                continue
            code = event.get("responseStatus", {}).get("code", 200)
            resource = target.get("resource", "?") + ("/" + target["subresource"] if target.get("subresource") else "")
            counts[f"{event['verb']} {resource}" + (f" {code}" if code >= 400 else "")] += 1
    return counts


def mpijob(name, workers):
    def template(container):
        return {"spec": {"containers": [container], "terminationGracePeriodSeconds": 5}}

    gpu = {"nvidia.com/gpu": "1"}
    launcher = {"name": "launch", "image": "x", "command": ["mpirun"], "resources": {"requests": {"cpu": "100m"}}}
    worker = {"name": "work", "image": "x", "resources": {"requests": {"cpu": "1", **gpu}, "limits": gpu}}
    specs = {"Launcher": {"replicas": 1, "template": template(launcher)}, "Worker": {"replicas": workers, "template": template(worker)}}
    return {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": name}, "spec": {"mpiReplicaSpecs": specs}}


numbers = iter(range(10**6))


def new_namespace():
    name = f"bench-{os.getpid()}-{next(numbers)}"
    call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    while call("GET", f"/api/v1/namespaces/{name}/serviceaccounts/default").get("kind") != "ServiceAccount":
        time.sleep(0.05)
    return name


def is_true(job, condition):
    conditions = job.get("status", {}).get("conditions", [])
    return any(one["type"] == condition and one["status"] == "True" for one in conditions)


class Seen:
    """When what happened first."""

    def __init__(self):
        self.created, self.running, self.succeeded = {}, {}, {}
        self.changed = threading.Event()

    def pod(self, now, kind, pod):
        if kind != "DELETED" and pod["metadata"]["labels"].get("training.kubeflow.org/job-role") == "worker":
            self.created.setdefault(pod["metadata"]["name"], now)
        self.changed.set()

    def job(self, now, _, job):
        for condition, times in (("Running", self.running), ("Succeeded", self.succeeded)):
            if is_true(job, condition):
                times.setdefault(job["metadata"]["name"], now)
        self.changed.set()

    def wait(self, done):
        end = time.monotonic() + WAIT_SECONDS
        while not done() and time.monotonic() < end:
            self.changed.wait(0.5)
            self.changed.clear()


def measure(operator, jobs, workers, keep=False):
    namespace, seen = new_namespace(), Seen()
    watches = [Watch(f"/api/v1/namespaces/{namespace}/pods", seen.pod), Watch(JOBS.format(namespace), seen.job)]
    position = audit_position()
    operator.forget_peak()
    cpu, start = operator.cpu(), time.monotonic()
    submit_all(namespace, jobs, workers)
    seen.wait(lambda: len(seen.succeeded) == jobs)
    time.sleep(SETTLE_SECONDS)
    calls = audited(position)
    resident, peak = operator.memory()
    for watch in watches:
        watch.stop()
    if not keep:
        remove(namespace)
    last = lambda times, wanted: max(times.values()) - start if len(times) == wanted else None
    return {
        "created": last(seen.created, jobs * workers),
        "running": last(seen.running, jobs),
        "succeeded": last(seen.succeeded, jobs),
        "running seen": len(seen.running),
        "calls": sum(calls.values()),
        "conflicts": sum(count for name, count in calls.items() if name.endswith(" 409")),
        "cpu": operator.cpu() - cpu,
        "resident": resident,
        "peak": peak,
        "calls by kind": dict(calls.most_common()),
        "namespace": namespace,
    }


def submit_all(namespace, jobs, workers):
    def submit(names):
        for name in names:
            call("POST", JOBS.format(namespace), mpijob(name, workers), accepted=(201,))

    names = [f"j{number}" for number in range(jobs)]
    threads = [threading.Thread(target=submit, args=(names[first::4],)) for first in range(min(4, jobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def remove(namespace):
    call("DELETE", JOBS.format(namespace), {"propagationPolicy": "Background"})
    end = time.monotonic() + 300
    while time.monotonic() < end and call("GET", f"/api/v1/namespaces/{namespace}/pods?limit=1")["items"]:
        time.sleep(0.5)
    call("DELETE", f"/api/v1/namespaces/{namespace}")
    time.sleep(1)


def worker_template():
    """A Worker's pod as our operator makes it, to be created without one."""
    namespace = new_namespace()
    operator = Operator("ours")
    call("POST", JOBS.format(namespace), mpijob("model", 1))
    pod = {}
    while "spec" not in pod:
        pod = call("GET", f"/api/v1/namespaces/{namespace}/pods/model-worker-0")
        time.sleep(0.05)
    operator.stop()
    remove(namespace)
    spec = {name: value for name, value in pod["spec"].items() if name not in ("nodeName", "serviceAccount", "serviceAccountName", "tolerations")}
    spec["volumes"] = [volume for volume in spec["volumes"] if "projected" not in volume]
    kept = {volume["name"] for volume in spec["volumes"]}
    for container in spec["containers"]:
        container["volumeMounts"] = [mount for mount in container["volumeMounts"] if mount["name"] in kept]
    return {"metadata": {"labels": pod["metadata"]["labels"]}, "spec": spec}


def floor(template, pods, at_once):
    """Seconds that bare creates take."""
    namespace, waiting = new_namespace(), queue.SimpleQueue()
    for number in range(pods):
        metadata = {**template["metadata"], "name": f"bare-{number}"}
        waiting.put(json.dumps({**template, "metadata": metadata}).encode())
    path = f"/api/v1/namespaces/{namespace}/pods"
    ready = threading.Barrier(at_once + 1)

    def create():
        call("GET", f"{path}?limit=1")
        ready.wait()
        while True:
            try:
                body = waiting.get_nowait()
            except queue.Empty:
                return
            call("POST", path, body, accepted=(201,))

    threads = [threading.Thread(target=create) for _ in range(at_once)]
    for thread in threads:
        thread.start()
    ready.wait()
    start = time.monotonic()
    for thread in threads:
        thread.join()
    took = time.monotonic() - start
    call("DELETE", path)
    remove(namespace)
    return took


def idle(operator, seconds=30):
    result = measure(operator, 200, 4, keep=True)
    time.sleep(10)
    operator.forget_peak()
    position, cpu = audit_position(), operator.cpu()
    time.sleep(seconds)
    calls = audited(position)
    resident, _ = operator.memory()
    remove(result["namespace"])
    return {"resident": resident, "calls": sum(calls.values()), "cpu": operator.cpu() - cpu, "seconds": seconds, "many": result}


SCENARIOS = {"four": (1, 4), "hundred": (1, 100), "thousand": (1, 1000), "fifty": (50, 4)}


def measured(which, repeat):
    results = {}
    chosen = options.scenarios if which == "ours" else options.upstream_scenarios or options.scenarios
    for name in chosen.split(","):
        operator = Operator(which)
        try:
            if name == "idle":
                results[name] = [idle(operator)]
            else:
                # Upstream's default flags take minutes for the large ones; once is enough to see.
                runs = repeat if which == "ours" or name in ("four",) else 1
                results[name] = [measure(operator, *SCENARIOS[name]) for _ in range(runs)]
        finally:
            operator.stop()
        for result in results[name]:
            print(which, name, json.dumps(result), flush=True)
    return results


def median(results, key):
    values = [result[key] for result in results if result[key] is not None]
    return statistics.median(values) if values else None


def shown(value, digits=2):
    return "–" if value is None else f"{value:.{digits}f}" if isinstance(value, float) else str(value)


def report(floors, ours, upstream, load):
    version = subprocess.run([options.ours, "--version"], capture_output=True, text=True).stdout.strip()
    lines = [
        "# The operator beside MPI Operator v0.8.2",
        "",
        f"{platform.system()} {platform.release()}, {os.cpu_count()} cores, load before {load[0]:.1f}, after {os.getloadavg()[0]:.1f}; "
        f"Kubernetes {call('GET', '/version')['gitVersion']} with etcd without fsync, 40 fake nodes (kwok); {version} against mpi-operator v0.8.2, "
        "each with its default flags; medians. A job's Launcher ends 5 s after its start.",
        "",
        "The floor is what bare creates of the same pods take in the same run, the best of " + ", ".join(map(str, AT_ONCE)) + " at once.",
        "",
        "| what | ours | upstream | floor | ours ÷ floor | goal |",
        "|---|---|---|---|---|---|",
    ]
    goals = {"hundred": "< 0.4 s", "thousand": "< 4.5 s", "fifty": "Running < 2.5 s"}
    for name, (jobs, workers) in SCENARIOS.items():
        if name not in ours:
            continue
        theirs = upstream.get(name, [])
        bare = floors.get(jobs * workers)
        created, goal = median(ours[name], "created"), goals.get(name, "–")
        ratio = created / bare if bare and created else None
        value = median(theirs, "created") if theirs else None
        lines.append(f"| {jobs} × {workers}: all Workers created, s | {shown(created)} | {shown(value)} | {shown(bare)} | {shown(ratio)} | {goal if 'Running' not in goal else '–'} |")
        value = median(theirs, "running") if theirs else None
        lines.append(f"| {jobs} × {workers}: all jobs Running, s | {shown(median(ours[name], 'running'))} | {shown(value)} | | | {goal if 'Running' in goal else '–'} |")
        worst = [f"{min(result['running seen'] for result in results)} of {jobs}" if results else "–" for results in (ours[name], theirs)]
        lines.append(f"| {jobs} × {workers}: jobs whose Running was seen | {worst[0]} | {worst[1]} | | | all |")
        counts = [shown(median(results, "calls") if results else None, 0) for results in (ours[name], theirs)]
        lines.append(f"| {jobs} × {workers}: API calls | {counts[0]} | {counts[1]} | | | {'≤ 14' if name == 'four' else '–'} |")
        counts = [shown(max(result["conflicts"] for result in results) if results else None) for results in (ours[name], theirs)]
        lines.append(f"| {jobs} × {workers}: writes lost to a conflict | {counts[0]} | {counts[1]} | | | 0 |")
        peaks = [shown(median(results, "peak") if results else None, 1) for results in (ours[name], theirs)]
        lines.append(f"| {jobs} × {workers}: most resident, MiB | {peaks[0]} | {peaks[1]} | | | {'< 60' if name == 'thousand' else '–'} |")
    if "idle" in ours:
        theirs = upstream.get("idle", [None])[0]
        mine = ours["idle"][0]
        value = lambda key, digits=1: (shown(mine[key], digits), shown(theirs[key], digits) if theirs else "–")
        resident, calls, cpu = value("resident"), value("calls", 0), value("cpu", 2)
        lines.append(f"| idle with 200 finished jobs: resident, MiB | {resident[0]} | {resident[1]} | | | < 25 |")
        lines.append(f"| idle with 200 finished jobs: API calls in {mine['seconds']} s but for the lease | {calls[0]} | {calls[1]} | | | 0 |")
        lines.append(f"| idle with 200 finished jobs: CPU in {mine['seconds']} s, s | {cpu[0]} | {cpu[1]} | | | – |")
    lines += ["", "Calls of ours for 1 × 4: " + ", ".join(f"{count} {name}" for name, count in ours["four"][-1]["calls by kind"].items()) + "." if "four" in ours else ""]
    lines += ["", "Repeat with `python3 bench/operator/run.py --run FOLDER --ours PROGRAM --upstream PROGRAM`; the file says what FOLDER has to hold."]
    options.report.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


def main():
    load = os.getloadavg()
    call("POST", "/api/v1/namespaces", {"metadata": {"name": "mpi-operator"}})
    template, floors = worker_template(), {}
    pods = {jobs * workers for name, (jobs, workers) in SCENARIOS.items() if name in options.scenarios}
    for count in sorted(pods):
        runs = {at_once: [floor(template, count, at_once) for _ in range(2)] for at_once in AT_ONCE}
        floors[count] = min(min(times) for times in runs.values())
        print("floor", count, runs, flush=True)
    ours = measured("ours", options.repeat)
    upstream = {} if options.skip_upstream else measured("upstream", options.repeat)
    report(floors, ours, upstream, load)


if __name__ == "__main__":
    sys.exit(main())
