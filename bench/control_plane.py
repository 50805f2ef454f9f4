"""A real control plane with fake nodes, as the benches of the operator use it. Python's standard library only.

Its FOLDER is that of a control plane at https://127.0.0.1:6443 that has MPIJobs' definition and fake nodes (kwok started with
`--config=bench/stages.yaml`): `pki/tokens.csv` and `pki/ca.crt`, `operator.kubeconfig` (user `operator`), `audit.log` with that user's
requests, `NAME.pid` of its programs. Pods run at once, and Launchers end after 5 s, but not where their pod has the annotation
`bench/keeps-running`.
"""

import collections
import http.client
import itertools
import json
import os
import pathlib
import re
import signal
import ssl
import subprocess
import threading
import time

PORT = 6443
AUDIT_SECONDS = 2.5
JOBS = "/apis/kubeflow.org/v2beta1/namespaces/{}/mpijobs"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/mpi-operator/leases/mpi-operator"
KEEPS_RUNNING = "bench/keeps-running"


class ControlPlane:
    """The API server and what the other programs of the control plane use."""

    def __init__(self, folder):
        self.folder = folder
        token = next(
            line.split(",")[0]
            for line in (folder / "pki/tokens.csv").read_text().splitlines()
            if line.split(",")[1] == "admin"
        )
        self.context = ssl.create_default_context(cafile=str(folder / "pki/ca.crt"))
        self.headers = {
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/json",
            "Accept": "application/json",
        }
        self.local = threading.local()
        self.numbers = itertools.count()

    def connect(self, timeout):
        return http.client.HTTPSConnection("127.0.0.1", PORT, context=self.context, timeout=timeout)

    def call(self, method, path, body=None, accepted=(200, 201, 202, 404, 409), content="application/json"):
        """The answer to a request of an administrator, read as JSON; the bench ends where it is none of the accepted."""
        data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        for last in (False, True):
            if getattr(self.local, "connection", None) is None:
                self.local.connection = self.connect(120)
            try:
                self.local.connection.request(method, path, data, {**self.headers, "Content-Type": content})
                answer = self.local.connection.getresponse()
                text = answer.read()
                break
            except (http.client.HTTPException, OSError):
                self.local.connection = None
                if last:
                    raise
        if answer.status not in accepted:
            raise SystemExit(f"{method} {path}: {answer.status} {text[:300]!r}")
        return json.loads(text) if text else {}

    def cpu(self):
        """CPU seconds that the control plane has used, but for the fake nodes."""
        programs = [path for path in self.folder.glob("*.pid") if path.stem != "kwok"]
        return sum(cpu_of(path.read_text().strip()) for path in programs)

    def flags_of(self, name):
        """The limits that a program of the control plane was given."""
        words = (
            pathlib.Path(f"/proc/{(self.folder / name).with_suffix('.pid').read_text().strip()}/cmdline")
            .read_text()
            .split("\0")
        )
        return (
            ", ".join(word for word in words if word.startswith(("--kube-api-qps", "--concurrent-job-syncs")))
            or "its default flags"
        )

    def version(self):
        return self.call("GET", "/version")["gitVersion"]

    def audit_position(self):
        time.sleep(AUDIT_SECONDS)
        return os.path.getsize(self.folder / "audit.log")

    def audited(self, position):
        """Requests of the operator since then, by verb, resource and, where refused, code; leases and watches apart."""
        time.sleep(AUDIT_SECONDS)
        counts: collections.Counter = collections.Counter()
        with open(self.folder / "audit.log") as log:
            log.seek(position)
            for line in log:
                event = json.loads(line)
                target = event.get("objectRef", {})
                if (
                    event["stage"] != "ResponseComplete"
                    or target.get("resource") == "leases"
                    or event["verb"] == "watch"
                ):
                    continue
                code = event.get("responseStatus", {}).get("code", 200)
                resource = target.get("resource", "?") + (
                    "/" + target["subresource"] if target.get("subresource") else ""
                )
                counts[f"{event['verb']} {resource}" + (f" {code}" if code >= 400 else "")] += 1
        return counts

    def new_namespace(self):
        name = f"bench-{os.getpid()}-{next(self.numbers)}"
        self.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        while self.call("GET", f"/api/v1/namespaces/{name}/serviceaccounts/default").get("kind") != "ServiceAccount":
            time.sleep(0.05)
        return name

    def remove(self, namespace, seconds=60):
        """Removes a namespace with all that is in it; waits for its pods to be gone, but no longer than this."""
        for path in (
            JOBS.format(namespace),
            f"/apis/batch/v1/namespaces/{namespace}/jobs",
            f"/api/v1/namespaces/{namespace}/pods",
        ):
            self.call("DELETE", path, {"propagationPolicy": "Background"})
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.call("GET", f"/api/v1/namespaces/{namespace}/pods?limit=1")["items"]:
            time.sleep(0.2)
        self.call("DELETE", f"/api/v1/namespaces/{namespace}")
        time.sleep(1)

    def submit_all(self, namespace, jobs):
        """Creates the jobs, four at a time."""

        def submit(some):
            for job in some:
                self.call("POST", JOBS.format(namespace), job, accepted=(201,))

        threads = [threading.Thread(target=submit, args=(jobs[first::4],)) for first in range(min(4, len(jobs)))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


class Watch(threading.Thread):
    """Calls back with (time, kind of event, object) from now on."""

    def __init__(self, plane, path, look):
        super().__init__(daemon=True)
        self.plane, self.path, self.look, self.ends, self.known = plane, path, look, False, {}
        self.version = plane.call("GET", path)["metadata"]["resourceVersion"]
        self.start()

    def run(self):
        while not self.ends:
            self.connection = self.plane.connect(3600)
            try:
                query = f"watch=1&allowWatchBookmarks=true&resourceVersion={self.version}"
                self.connection.request("GET", f"{self.path}?{query}", headers=self.plane.headers)
                answer = self.connection.getresponse()
                while line := answer.readline():
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        self.list_again()
                        break
                    self.version = event["object"]["metadata"]["resourceVersion"]
                    if event["type"] != "BOOKMARK":
                        self.note(event["type"], event["object"])
            except (OSError, ValueError, AttributeError, http.client.HTTPException):
                if not self.ends:
                    time.sleep(0.1)

    def note(self, kind, found):
        """Calls back, and keeps of the objects that exist what a later deletion has to say."""
        name = found["metadata"]["name"]
        if kind == "DELETED":
            self.known.pop(name, None)
        else:
            self.known[name] = {"metadata": {"name": name, "labels": found["metadata"].get("labels", {})}}
        self.look(time.monotonic(), kind, found)

    def list_again(self):
        """Makes up for events that the API server no longer has."""
        listed = self.plane.call("GET", self.path)
        names = {found["metadata"]["name"] for found in listed["items"]}
        for gone in [found for name, found in self.known.items() if name not in names]:
            self.note("DELETED", gone)
        for found in listed["items"]:
            self.note("MODIFIED", found)
        self.version = listed["metadata"]["resourceVersion"]

    def stop(self):
        self.ends = True
        self.connection.sock and self.connection.sock.shutdown(2)


class Operator:
    """A running operator, ours or upstream's."""

    def __init__(self, plane, which, program, flags=()):
        self.plane, self.which = plane, which
        self.log = open(plane.folder / f"bench-{which}.log", "ab")  # noqa: SIM115 - it is closed with the operator
        environment = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
        command = [program, f"--kubeConfig={plane.folder}/operator.kubeconfig", *flags]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, env=environment)
        self.pid = self.process.pid
        end = time.monotonic() + 60
        while time.monotonic() < end and not self.is_ready():
            if self.process.poll() is not None:
                raise SystemExit(f"{program} ended, see {self.log.name}")
            time.sleep(0.1)
        time.sleep(1)

    def is_ready(self):
        if self.which == "upstream":
            return bool(self.plane.call("GET", LEASE).get("spec", {}).get("holderIdentity"))
        connection = http.client.HTTPConnection("127.0.0.1", 8080, timeout=2)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except OSError:
            return False

    def memory(self):
        """MiB: resident now, most resident since the peak was forgotten, and of now what is not of files."""
        text = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        found = dict(re.findall(r"^(VmHWM|VmRSS|RssAnon):\s+(\d+)", text, re.M))
        return {
            "resident": int(found["VmRSS"]) / 1024,
            "peak": int(found["VmHWM"]) / 1024,
            "heap": int(found["RssAnon"]) / 1024,
        }

    def cpu(self):
        """CPU seconds used so far."""
        return cpu_of(self.pid)

    def forget_peak(self):
        pathlib.Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def stop(self):
        """Ends it as an administrator does, and takes its Lease away."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)
        self.plane.call("DELETE", LEASE)

    def kill(self):
        """Ends it as a lost node does; its Lease stays."""
        self.process.kill()
        self.process.wait(30)


def cpu_of(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def is_true(job, condition):
    conditions = job.get("status", {}).get("conditions", [])
    return any(one["type"] == condition and one["status"] == "True" for one in conditions)


def mpijob(name, workers, annotations=None, run_policy=None):
    """A job whose Workers ask for a GPU each; the annotations are those of the job and of its Launcher's pods."""

    def template(container, metadata=None):
        return {
            **({"metadata": metadata} if metadata else {}),
            "spec": {"containers": [container], "terminationGracePeriodSeconds": 5},
        }

    gpu = {"nvidia.com/gpu": "1"}
    launcher = {"name": "launch", "image": "x", "command": ["mpirun"], "resources": {"requests": {"cpu": "100m"}}}
    worker = {"name": "work", "image": "x", "resources": {"requests": {"cpu": "1", **gpu}, "limits": gpu}}
    said = {"annotations": annotations} if annotations else {}
    launcher = template(launcher, said)
    specs = {
        "Launcher": {"replicas": 1, "template": launcher},
        "Worker": {"replicas": workers, "template": template(worker)},
    }
    spec = {"mpiReplicaSpecs": specs, **({"runPolicy": run_policy} if run_policy else {})}
    return {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": name, **said}, "spec": spec}
