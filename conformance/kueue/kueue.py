#!/usr/bin/env python3
"""Runs TrainJobs and MPIJobs through a queue of the real Kueue: held, admitted, evicted, resumed, finished.

    kueue.py --odh ODH --kueue PROGRAM --manifests DIR --jobset FILE --on embedded
    kueue.py --kueue PROGRAM --manifests DIR --jobset FILE --on real --operator PROGRAM --binaries DIR
                                                                     (in `conformance with --controllers`)

On the embedded cluster, where the jobs really run with `mpirun`, and on a real kube-apiserver ($ODH_REAL_KUBECONFIG) with
the operator under the rights of `deploy/`, its webhooks called through their Service. There kwok plays the node, and this
program ends the Launcher's pod. `cargo xtask kueue` calls it, with a network of its own for the real one.
"""

import argparse
import base64
import json
import os
import pathlib
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "conformance"))

import kwok

NAMESPACE = "queued"
WAIT_SECONDS = 120
FLAVOR = {"pool": "paper"}
# The label by which the pods of each kind are found: what Kueue itself looks for.
PODS_OF = {"trainjob": "jobset.sigs.k8s.io/jobset-name", "mpijob": "training.kubeflow.org/job-name"}

# As much as the three pods of one job ask for, so that a second one has to wait.
QUEUE = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: paper}
spec: {nodeLabels: {pool: paper}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: team}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu]
    flavors: [{name: paper, resources: [{name: cpu, nominalQuota: "0.3"}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: team, namespace: queued}
spec: {clusterQueue: team}
"""
CPU_OF_A_POD = {"requests": {"cpu": "100m"}}


class Cluster:
    """A cluster to which the queue is added, and what this program started for it."""

    def __init__(self, options: argparse.Namespace):
        self.options = options
        # Below /var/tmp: pods see it, whatever they have at /tmp.
        self.folder = tempfile.TemporaryDirectory(prefix="odh-kueue-", dir="/var/tmp")
        self.path = pathlib.Path(self.folder.name)
        os.chmod(self.path, 0o755)
        self.environment = {**os.environ, "HOME": str(self.path), "ODH_HOME": str(self.path / "state"), "NO_COLOR": "1"}
        self.environment.pop("KUBECONFIG", None)
        self.started: list[tuple[str, subprocess.Popen]] = []
        self.kubeconfig = str(self.path / "kubeconfig")
        own = pathlib.Path(options.binaries) / "kubectl"
        self.kubectl_program = str(own) if own.is_file() else str(options.kubectl)

    def kubectl(self, *words: str, text: str = "", check: bool = True) -> str:
        command = [self.kubectl_program, "--kubeconfig", self.kubeconfig, *words]
        done = subprocess.run(command, input=text, text=True, capture_output=True, timeout=90, check=False)
        if done.returncode and check:
            raise SystemExit(f"kubectl {' '.join(words)}: {done.stderr}")
        return done.stdout

    def apply(self, text: str) -> None:
        self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", text=text)

    def get(self, *words: str) -> dict:
        text = self.kubectl("get", *words, "-n", NAMESPACE, "-o", "json", "--ignore-not-found")
        return json.loads(text) if text.strip() else {}

    def start(self, name: str, words: list[str]) -> None:
        with (self.path / f"{name}.log").open("w") as log:
            process = subprocess.Popen(
                words, cwd=self.path, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self.started.append((name, process))

    def logs(self) -> str:
        texts = ((name, (self.path / f"{name}.log").read_text()) for name, _ in self.started)
        return "\n".join(f"--- {name}\n" + "\n".join(text.splitlines()[-25:]) for name, text in texts)

    def stop(self) -> None:
        for _, process in reversed(self.started):
            process.send_signal(signal.SIGTERM)
        for _, process in self.started:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
        if self.options.on == "embedded":
            subprocess.run(
                [self.options.odh, "local", "down", "--purge", "--yes"],
                env=self.environment,
                capture_output=True,
                check=False,
            )
        self.folder.cleanup()

    def until(self, what: str, look):
        """Returns what `look` finds, once it finds something."""
        ends = time.monotonic() + WAIT_SECONDS
        while True:
            if found := look():
                print(f"  {what}")
                return found
            for name, process in self.started:
                if process.poll() is not None:
                    raise SystemExit(f"{name} has ended with {process.returncode}\n{self.logs()}")
            if time.monotonic() > ends:
                state = self.kubectl(
                    "get", "trainjobs,mpijobs,workloads,pods", "-n", NAMESPACE, "-o", "wide", check=False
                )
                raise SystemExit(f"after {WAIT_SECONDS} s it is not so: {what}\n{state}\n{self.logs()}")
            time.sleep(0.2)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def on_embedded(cluster: Cluster) -> None:
    up = subprocess.run(
        [cluster.options.odh, "local", "up", "--image", cluster.options.image],
        env=cluster.environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if up.returncode:
        raise SystemExit(f"odh local up: {up.stderr}")
    config = subprocess.run(
        [cluster.options.odh, "local", "kubeconfig"],
        env=cluster.environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    pathlib.Path(cluster.kubeconfig).write_text(config.stdout)
    cluster.kubectl("create", "namespace", NAMESPACE)
    cluster.kubectl("label", "node", "--all", "pool=paper")


def on_real(cluster: Cluster) -> None:
    """A node of kwok's, the scheduler, the definitions, and the operator as `deploy/` has it."""
    binaries = pathlib.Path(cluster.options.binaries)
    shutil.copy(os.environ["ODH_REAL_KUBECONFIG"], cluster.kubeconfig)
    (cluster.path / "kwok.yaml").write_text("---\n".join([kwok.NODE, kwok.POD_RUNS, kwok.POD_GOES]))
    for name in (NAMESPACE, "mpi-operator"):
        cluster.kubectl("create", "namespace", name)
        # No controller makes it here.
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": name}}
        cluster.apply(json.dumps(account))
    labels = {"kubernetes.io/hostname": "paper", **FLAVOR}
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "paper", "labels": labels, "annotations": {"kwok.x-k8s.io/node": "fake"}},
    }
    cluster.apply(json.dumps(node))
    cluster.start(
        "kwok",
        [
            str(binaries / "kwok"),
            "--kubeconfig",
            cluster.kubeconfig,
            "--config",
            str(cluster.path / "kwok.yaml"),
            "--manage-all-nodes=false",
            "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
            f"--server-address=127.0.0.1:{free_port()}",
            "--node-ip=127.0.0.1",
            "--node-lease-duration-seconds=0",
        ],
    )
    cluster.start(
        "scheduler",
        [
            str(binaries / "kube-scheduler"),
            "--kubeconfig",
            cluster.kubeconfig,
            "--leader-elect=false",
            "--secure-port=0",
        ],
    )
    deploy = ROOT / "deploy"
    definitions = [deploy / "crd/kubeflow.org_mpijobs.yaml", *sorted((deploy / "crd/trainer").glob("trainer.*.yaml"))]
    install_definitions(cluster, [path.read_text() for path in definitions])
    for path in (
        "base/service-account.yaml",
        "base/role.yaml",
        "base/service.yaml",
        "base/webhook.yaml",
        "components/trainjob/role.yaml",
        "components/trainjob/webhook.yaml",
    ):
        cluster.kubectl("apply", "--server-side", "-n", "mpi-operator", "-f", str(deploy / path))
    progress = {"spec": {"ports": [{"name": "webhook", "port": 443}, {"name": "progress", "port": 10443}]}}
    cluster.kubectl(
        "patch", "service", "mpi-operator", "-n", "mpi-operator", "--type=merge", "-p", json.dumps(progress)
    )
    # What kube-proxy would do: the address of the Service is one of this network's own.
    address = cluster.kubectl(
        "get", "service", "mpi-operator", "-n", "mpi-operator", "-o", "jsonpath={.spec.clusterIP}"
    )
    subprocess.run(["ip", "address", "add", f"{address}/32", "dev", "lo"], check=True)
    token = cluster.kubectl("create", "token", "mpi-operator", "-n", "mpi-operator", "--duration=2h").strip()
    config = json.loads(cluster.kubectl("config", "view", "--raw", "-o", "json"))
    config["users"] = [{"name": config["users"][0]["name"], "user": {"token": token}}]
    (cluster.path / "operator.kubeconfig").write_text(json.dumps(config))
    cluster.start(
        "operator",
        [
            cluster.options.operator,
            f"--kubeConfig={cluster.path}/operator.kubeconfig",
            "--trainjobs",
            "--default-launch=agent",
            "--webhook-port=443",
            "--progress-port=10443",
            "--health-port=0",
        ],
    )
    trusted = [
        "get",
        "validatingwebhookconfiguration",
        "mpi-operator-trainjobs",
        "-o",
        "jsonpath={.webhooks[0].clientConfig.caBundle}",
    ]
    cluster.until("the operator has filled in the authority of its webhooks", lambda: cluster.kubectl(*trusted))
    runtime = (deploy / "runtimes/openmpi.yaml").read_text()
    cluster.apply(runtime)


def install_definitions(cluster: Cluster, texts: list[str]) -> None:
    names = []
    for text in texts:
        names += cluster.kubectl("apply", "--server-side", "-o", "name", "-f", "-", text=text).split()
    cluster.kubectl("wait", "--for=condition=Established", "--timeout=60s", *names)


def certificate(folder: pathlib.Path) -> bytes:
    """Makes a key and a certificate for loopback, signed by an authority; returns the authority."""

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    (folder / "of").write_text(
        "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth\nbasicConstraints=critical,CA:FALSE\n"
    )
    openssl("req", "-x509", *key, "-days", "2", "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.crt")
    openssl("req", *key, "-subj", "/CN=kueue", "-keyout", "tls.key", "-out", "tls.csr")
    openssl(
        "x509",
        "-req",
        "-in",
        "tls.csr",
        "-CA",
        "ca.crt",
        "-CAkey",
        "ca.key",
        "-CAcreateserial",
        "-days",
        "2",
        "-extfile",
        "of",
        "-out",
        "tls.crt",
    )
    return (folder / "ca.crt").read_bytes()


def add_kueue(cluster: Cluster) -> None:
    """The real Kueue, as a process whose webhooks are called at loopback."""
    manifests = pathlib.Path(cluster.options.manifests) / "config/components"
    definitions = [path.read_text() for path in sorted((manifests / "crd/bases").glob("*.yaml"))]
    install_definitions(cluster, [*definitions, pathlib.Path(cluster.options.jobset).read_text()])
    place = cluster.path / "certificates"
    place.mkdir()
    authority, port, health = certificate(place), free_port(), free_port()
    (cluster.path / "kueue.yaml").write_text(
        json.dumps(
            {
                "apiVersion": "config.kueue.x-k8s.io/v1beta2",
                "kind": "Configuration",
                "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
                "metrics": {"bindAddress": "0"},
                "webhook": {"host": "127.0.0.1", "port": port, "certDir": str(place)},
                "leaderElection": {"leaderElect": False},
                "internalCertManagement": {"enable": False},
                "waitForPodsReady": {"timeout": "10m"},
                "integrations": {"frameworks": ["kubeflow.org/mpijob", "trainer.kubeflow.org/trainjob"]},
            }
        )
    )
    cluster.environment["KUBECONFIG"] = cluster.kubeconfig
    # It looks for one of its certificates at a fixed path, whether it serves metrics or not.
    place_it = (
        'mount -t tmpfs none /etc && mkdir -p /etc/kueue/metrics && cp -r "$0" /etc/kueue/metrics/certs && exec "$@"'
    )
    own_files = ["unshare", "--map-root-user", "--mount", "sh", "-c", place_it, str(place)]
    cluster.start(
        "kueue",
        [
            *own_files,
            cluster.options.kueue,
            f"--config={cluster.path}/kueue.yaml",
            "--feature-gates=VisibilityOnDemand=false",
        ],
    )
    del cluster.environment["KUBECONFIG"]

    def is_ready() -> bool:
        try:
            return urllib.request.urlopen(f"http://127.0.0.1:{health}/readyz", timeout=5).status == 200
        except OSError:
            return False

    cluster.until("Kueue is ready", is_ready)
    names = {"mpijob", "trainjob", "workload", "clusterqueue", "resourceflavor"}
    shown = cluster.kubectl("create", "--dry-run=client", "-o", "json", "-f", str(manifests / "webhook/manifests.yaml"))
    for configuration in documents(shown):
        # Only what this queue serves: its others would ask it about every pod and Deployment.
        hooks = [
            hook
            for hook in configuration["webhooks"]
            if any(f"v1{name}" in hook["name"] or hook["name"][1:].startswith(name) for name in names)
        ]
        for hook in hooks:
            path = hook["clientConfig"].pop("service")["path"]
            hook["clientConfig"] = {
                "url": f"https://127.0.0.1:{port}{path}",
                "caBundle": base64.b64encode(authority).decode(),
            }
        configuration["metadata"]["name"] = f"kueue-{configuration['metadata']['name']}"
        cluster.apply(json.dumps({**configuration, "webhooks": hooks}))
        print("  webhooks of Kueue:", ", ".join(hook["name"] for hook in hooks))
    cluster.apply(QUEUE)


def documents(text: str) -> list[dict]:
    """The objects that kubectl writes one after another."""
    decoder = json.JSONDecoder()
    found: list[dict] = []
    while text := text.strip():
        one, end = decoder.raw_decode(text)
        found += one["items"] if one["kind"] == "List" else [one]
        text = text[end:]
    return found


def add_runtime(cluster: Cluster) -> None:
    """The shipped runtime for Open MPI as a platform team would have it: its nodes ask for something.

    Trainer gives a TrainJob's own `resourcesPerNode` to the Launcher alone, unless that is a node, too.
    """
    shipped = json.loads(cluster.kubectl("get", "clustertrainingruntime", "openmpi", "-o", "json"))
    node = next(job for job in shipped["spec"]["template"]["spec"]["replicatedJobs"] if job["name"] == "node")
    node["template"]["spec"]["template"]["spec"]["containers"][0]["resources"] = CPU_OF_A_POD
    cluster.apply(json.dumps({**shipped, "metadata": {"name": "team", "labels": shipped["metadata"]["labels"]}}))


class Job:
    """A job of either kind in the queue, and how it ends here."""

    def __init__(self, cluster: Cluster, kind: str, name: str):
        self.cluster, self.kind, self.name = cluster, kind, name
        self.gate = cluster.path / f"{name}-may-end"

    def create(self) -> None:
        script = f"while [ ! -e {self.gate} ]; do sleep 0.2; done; echo done"
        metadata = {"name": self.name, "namespace": NAMESPACE, "labels": {"kueue.x-k8s.io/queue-name": "team"}}
        command = ["mpirun", "--allow-run-as-root", "sh", "-c"]
        if self.kind == "trainjob":
            trainer = {"numNodes": 2, "resourcesPerNode": CPU_OF_A_POD, "command": command, "args": [script]}
            job = {
                "apiVersion": "trainer.kubeflow.org/v1alpha1",
                "kind": "TrainJob",
                "metadata": metadata,
                "spec": {"runtimeRef": {"name": "team"}, "trainer": trainer},
            }
        else:

            def replica(count: int, **more: object) -> dict:
                container = {
                    "name": "mpi",
                    "image": "quay.io/opendatahub/mpi-examples:openmpi",
                    "resources": CPU_OF_A_POD,
                    **more,
                }
                return {"replicas": count, "template": {"spec": {"containers": [container]}}}

            job = {
                "apiVersion": "kubeflow.org/v2beta1",
                "kind": "MPIJob",
                "metadata": metadata,
                "spec": {"mpiReplicaSpecs": {"Launcher": replica(1, command=[*command, script]), "Worker": replica(2)}},
            }
        self.cluster.kubectl("create", "-f", "-", text=json.dumps(job))

    def get(self) -> dict:
        return self.cluster.get(self.kind, self.name)

    def pods(self) -> list[dict]:
        return self.cluster.get("pods", "-l", f"{PODS_OF[self.kind]}={self.name}").get("items", [])

    def workload(self) -> dict:
        for workload in self.cluster.get("workloads.kueue.x-k8s.io").get("items", []):
            if any(owner["name"] == self.name for owner in workload["metadata"].get("ownerReferences", [])):
                return workload
        return {}

    def says(self, what: str) -> dict:
        """The workload's condition of this type, if it is true."""
        conditions = self.workload().get("status", {}).get("conditions", [])
        return next((one for one in conditions if one["type"] == what and one["status"] == "True"), {})

    def is_suspended(self) -> bool:
        spec = self.get()["spec"]
        return bool(spec.get("suspend", spec.get("runPolicy", {}).get("suspend")))

    def flavored(self) -> bool:
        """Whether the job's own templates, or its patches, have what an admission adds."""
        return '"pool": "paper"' in json.dumps(self.get()["spec"])

    def is_over(self) -> str:
        conditions = self.get().get("status", {}).get("conditions", [])
        return next(
            (
                one["type"]
                for one in conditions
                if one["type"] in ("Complete", "Succeeded", "Failed") and one["status"] == "True"
            ),
            "",
        )

    def make_active(self, active: bool) -> None:
        self.cluster.kubectl(
            "patch",
            "workload.kueue.x-k8s.io",
            self.workload()["metadata"]["name"],
            "-n",
            NAMESPACE,
            "--type=merge",
            "-p",
            json.dumps({"spec": {"active": active}}),
        )

    def runs(self, when: str) -> None:
        def all_there() -> bool:
            pods = self.pods()
            running = [
                pod
                for pod in pods
                if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
            ]
            return len(running) == len(pods) == 3 and bool(self.says("PodsReady"))

        self.cluster.until(
            f"{self.name} is admitted{when}, its three pods run, and the queue has seen them ready", all_there
        )
        assert not self.is_suspended() and self.says("Admitted"), self.get()
        for pod in self.pods():
            assert FLAVOR.items() <= pod["spec"].get("nodeSelector", {}).items(), pod["spec"]

    def waits(self) -> None:
        def held() -> bool:
            workload = self.workload()
            conditions = {one["type"]: one["status"] for one in workload.get("status", {}).get("conditions", [])}
            return conditions.get("QuotaReserved") == "False"

        self.cluster.until(f"{self.name} is held: no quota is reserved", held)
        assert self.is_suspended() and not self.pods() and not self.flavored(), self.get()

    def evict(self) -> None:
        self.make_active(False)
        self.cluster.until(
            f"{self.name} is evicted: suspended, without pods, its templates as they were given",
            lambda: self.is_suspended() and not self.pods() and not self.flavored() and self.says("Evicted"),
        )

    def ends(self) -> None:
        if self.cluster.options.on == "embedded":
            self.gate.write_text("")
        else:
            self.end_launcher()
        over = self.cluster.until(f"{self.name} has succeeded", self.is_over)
        assert over in ("Complete", "Succeeded"), self.get()
        self.cluster.until(f"the queue has seen that {self.name} is finished", lambda: self.says("Finished"))

    def end_launcher(self) -> None:
        """Sets the status of the Launcher's pod as a kubelet does when its program exits with code 0."""
        launcher = next(pod for pod in self.pods() if "launcher" in pod["metadata"]["name"])
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        ended = {"exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now}
        containers = [
            {**one, "ready": False, "state": {"terminated": ended}} for one in launcher["status"]["containerStatuses"]
        ]
        conditions = [
            {**one, "status": "False"} if one["type"] == "Ready" else one for one in launcher["status"]["conditions"]
        ]
        status = {"status": {"phase": "Succeeded", "containerStatuses": containers, "conditions": conditions}}
        self.cluster.kubectl(
            "patch",
            "pod",
            launcher["metadata"]["name"],
            "-n",
            NAMESPACE,
            "--subresource=status",
            "--type=merge",
            "-p",
            json.dumps(status),
        )

    def remove(self) -> None:
        self.cluster.kubectl("delete", self.kind, self.name, "-n", NAMESPACE, "--wait=false")
        self.cluster.until(f"{self.name} is gone with its pods", lambda: not self.get() and not self.pods())


def reports_progress(cluster: Cluster, job: Job) -> None:
    """The Launcher's pod reports through the operator's Service, with the token that its volume would have."""
    launcher = next(pod for pod in job.pods() if "launcher" in pod["metadata"]["name"])
    environment = {one["name"]: one.get("value", "") for one in launcher["spec"]["containers"][0]["env"]}
    url = environment["KUBEFLOW_TRAINER_SERVER_URL"]
    sources = [
        source for volume in launcher["spec"]["volumes"] for source in volume.get("projected", {}).get("sources", [])
    ]
    audience = next(
        source["serviceAccountToken"]["audience"]
        for source in sources
        if "audience" in source.get("serviceAccountToken", {})
    )
    authority = next(source["configMap"] for source in sources if "configMap" in source)
    token = cluster.kubectl(
        "create",
        "token",
        "default",
        "-n",
        NAMESPACE,
        f"--audience={audience}",
        "--bound-object-kind=Pod",
        f"--bound-object-name={launcher['metadata']['name']}",
    ).strip()
    trusted = cluster.get("configmap", authority["name"])["data"][authority["items"][0]["key"]]
    host = url.split("/")[2]
    name, port = host.split(":")
    address = cluster.kubectl(
        "get", "service", "mpi-operator", "-n", "mpi-operator", "-o", "jsonpath={.spec.clusterIP}"
    )
    report = {
        "trainerStatus": {
            "progressPercentage": 40,
            "metrics": [{"name": "loss", "value": "0.25"}],
            "lastUpdatedTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
    }
    body = json.dumps(report).encode()
    context = ssl.create_default_context(cadata=trusted)
    # By the name that the pod has; this machine has no DNS for it.
    with context.wrap_socket(socket.create_connection((address, int(port)), 30), server_hostname=name) as connection:
        head = [
            f"POST {url.split(host)[1]} HTTP/1.1",
            f"Host: {host}",
            f"Authorization: Bearer {token}",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            "Connection: close",
        ]
        connection.sendall("\r\n".join([*head, "", ""]).encode() + body)
        answer = b"".join(iter(lambda: connection.recv(65536), b"")).decode()
    assert answer.startswith("HTTP/1.1 200"), answer
    status = job.get()["status"]["trainerStatus"]
    assert status["progressPercentage"] == 40 and status["metrics"] == [{"name": "loss", "value": "0.25"}], status
    print(f"  {job.name} has reported its progress through the Service")


def go_through(cluster: Cluster, kind: str) -> None:
    """One job holds the queue, another waits; the first is evicted, the other ends, the first goes on."""
    print(f"{kind}s in the queue:")
    first, second = Job(cluster, kind, f"{kind}-first"), Job(cluster, kind, f"{kind}-second")
    first.create()
    first.runs("")
    second.create()
    second.waits()
    first.evict()
    second.runs(" in its place")
    if cluster.options.on == "real":
        reports_progress(cluster, second)
    second.ends()
    first.make_active(True)
    first.runs(" again")
    first.ends()
    for job in (first, second):
        job.remove()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--on", choices=["embedded", "real"], required=True)
    parser.add_argument("--kueue", required=True, help="the program kueue")
    parser.add_argument("--manifests", required=True, help="the source of Kueue, for its definitions and webhooks")
    parser.add_argument("--jobset", required=True, help="the definition of JobSet, which Kueue watches")
    parser.add_argument("--odh")
    parser.add_argument("--image", help="NAME=DIR, what the jobs run in on the embedded cluster")
    parser.add_argument("--operator")
    parser.add_argument("--binaries", default=".")
    parser.add_argument("--kubectl", default="kubectl")
    options = parser.parse_args()
    cluster = Cluster(options)
    try:
        (on_embedded if options.on == "embedded" else on_real)(cluster)
        add_kueue(cluster)
        add_runtime(cluster)
        for kind in PODS_OF:
            go_through(cluster, kind)
    finally:
        cluster.stop()
    print("every step was as it should be")


if __name__ == "__main__":
    main()
