#!/usr/bin/env python3
"""Types every verb of `odh training` on a cluster and checks how it ends and what it says.

    verbs.py --odh ODH --on embedded
    verbs.py --odh ODH --on real --operator PROGRAM --crd FILE --binaries DIR [--upstream]     (in `conformance with --controllers`)

The same commands everywhere, with the same exit codes and the same words: on the embedded cluster, where the jobs really
run, and on a real kube-apiserver ($ODH_REAL_KUBECONFIG) with our operator or with upstream's. There kwok plays the node: its pods run at once, their
logs are a file's, a Launcher ends as its annotation `verbs/ends` says. `cargo xtask verbs` calls it.
"""

import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import kwok

WAIT_SECONDS = 90
NAMESPACE = "verbs"

# A Launcher ends a while after its start, if it is to end.
LAUNCHER_ENDS = [
    f"""
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {{name: launcher-{word}}}
spec:
  resourceRef: {{apiGroup: v1, kind: Pod}}
  selector:
    matchExpressions:
    - {{key: '.metadata.deletionTimestamp', operator: DoesNotExist}}
    - {{key: '.status.phase', operator: In, values: [Running]}}
    - {{key: '.metadata.annotations["verbs/ends"]', operator: In, values: ["{word}"]}}
  delay: {{durationMilliseconds: 1500}}
  next:
    statusTemplate: |
      conditions:
      - {{type: PodScheduled, status: "True", lastTransitionTime: {{{{ Now | Quote }}}}}}
      - {{type: Ready, status: "False", reason: PodCompleted, lastTransitionTime: {{{{ Now | Quote }}}}}}
      containerStatuses:
      {{{{ range .spec.containers }}}}
      - {{name: {{{{ .name | Quote }}}}, image: {{{{ .image | Quote }}}}, imageID: "", ready: false, restartCount: 0, state: {{terminated: {{exitCode: {code}, reason: {reason}, startedAt: {{{{ Now | Quote }}}}, finishedAt: {{{{ Now | Quote }}}}}}}}}}
      {{{{ end }}}}
      phase: {phase}
"""
    for word, code, reason, phase in (("well", 0, "Completed", "Succeeded"), ("badly", 3, "Error", "Failed"))
]
# Logs are a file's, and commands run on this machine.
LOGS = """
apiVersion: kwok.x-k8s.io/v1alpha1
kind: ClusterLogs
metadata: {name: all}
spec: {logs: [{logsFile: LOG}]}
"""
COMMANDS = """
apiVersion: kwok.x-k8s.io/v1alpha1
kind: ClusterExec
metadata: {name: all}
spec: {execs: [{local: {}}]}
"""
LOG_LINES = """2026-01-01T00:00:01.000000000Z stdout F loss is 0.5
2026-01-01T00:00:02.000000000Z stdout F loss is nan
"""


def job(name: str, ends: str, command: str) -> str:
    return f"""apiVersion: kubeflow.org/v2beta1
kind: MPIJob
metadata: {{name: {name}, labels: {{sweep: "7"}}}}
spec:
  runPolicy: {{backoffLimit: 0}}
  mpiReplicaSpecs:
    Launcher:
      restartPolicy: Never
      template:
        metadata: {{annotations: {{verbs/ends: {ends}}}}}
        spec: {{containers: [{{name: mpi, image: local, command: [sh, -c, '{command}']}}]}}
    Worker:
      replicas: 2
      template:
        spec: {{containers: [{{name: mpi, image: local, env: [{{name: API_TOKEN, value: hush}}]}}]}}
"""


# What is typed, how it ends, and what it says; "…" stands before a command that is tried until it is so.
STEPS = [
    ("preflight", 0, "yes"),
    ("preflight -f good.yaml", 0, "no problems found"),
    ("create -f good.yaml --dry-run=server", 0, "mpijob/good created (server dry run)"),
    ("create -f good.yaml", 0, "mpijob/good created"),
    ("create -f good.yaml", 7, "already exists"),
    ("create -f bad.yaml -o name", 0, "mpijob/bad"),
    ("create -f long.yaml -o jsonpath={.metadata.name}", 0, "long"),
    ("create -f faults.yaml", 5, 'spec.slotPerWorker: unknown field; did you mean "slotsPerWorker"?'),
    ("create -f missing.yaml", 3, "file not found: missing.yaml"),
    ("create mpijob flags --image local --workers 1 --dry-run=client -o name -- true", 0, "mpijob/flags"),
    ("wait mpijob good --timeout 90s", 0, "mpijob/good succeeded"),
    ("wait mpijob bad --timeout 90s", 100, "mpijob/bad failed"),
    ("wait mpijob bad --propagate-exit-code -o json", 3, '"code":3'),
    ("…get mpijob long", 0, "Running"),
    ("wait mpijob long --timeout 1s", 8, "is still running"),
    ("get mpijob good -o name", 0, "mpijob/good"),
    ("get mpijob god", 3, 'did you mean "good"?'),
    ("get mpijob good -o json", 0, '"kind": "MPIJob"'),
    ("list", 0, "Succeeded"),
    ("list --status failed -o name", 0, "mpijob/bad"),
    ("list -l sweep=7 -o custom-columns=NAME:.metadata.name", 0, "long"),
    ("list --as nobody", 4, "User 'nobody' lacks 'list' permission for MPIJobs in namespace 'verbs'"),
    ("describe mpijob bad", 0, "Failed"),
    ("…describe mpijob long", 0, "long-worker-1"),
    ("explain mpijob bad", 0, "Failed"),
    ("explain mpijob long -o json", 0, '"state"'),
    ("explain mpijob good", 0, "Succeeded"),
    ("events mpijob good", 0, "MPIJob"),
    ("logs mpijob bad", 0, "loss is nan"),
    ("logs mpijob bad --tail 1 -o json", 0, '"line":"loss is nan"'),
    ("logs mpijob long --worker 7", 3, "there is no Worker 7"),
    ("top --once", 0, "long"),
    ("top mpijob long -o json", 0, '"items"'),
    ("exec mpijob long --worker 1 -- echo hello", 0, "hello"),
    ("exec mpijob long -- sh -c exit\u00a07", 7, ""),
    ("cp output.log long:/tmp/odh-verbs.log --worker 1", 0, "output.log -> long:/tmp/odh-verbs.log"),
    ("cp long:/etc/passwd copied.log --worker 1", 0, "long:/etc/passwd -> copied.log"),
    ("port-forward mpijob long --worker 7 --port 8080", 3, "there is no pod for Worker 7"),
    ("diff -f long.yaml", 0, "no differences"),
    ("diff -f labelled.yaml --exit-code", 1, "+    team: vision"),
    ("apply -f labelled.yaml --dry-run", 0, "mpijob/long changed (server dry run)"),
    ("apply -f labelled.yaml", 0, "mpijob/long changed"),
    ("apply -f labelled.yaml", 0, "mpijob/long unchanged"),
    ("scale mpijob good --workers 3", 7, "has ended, so its Workers cannot change"),
    ("scale mpijob long --workers 3", 0, "mpijob/long scaled to 3 Workers"),
    ("…describe mpijob long", 0, "long-worker-2"),
    ("runtimes -o name", 0, "openmpi"),
    ("suspend mpijob long", 0, "mpijob/long suspended"),
    ("…explain mpijob long", 0, "odh training resume mpijob long"),
    ("…list --status suspended -o name", 0, "mpijob/long"),
    ("resume mpijob long", 0, "mpijob/long resumed"),
    ("…get mpijob long", 0, "Running"),
    ("suspend mpijob bad", 7, "it cannot be suspended"),
    ("retry mpijob bad --wait --timeout 90s", 100, "mpijob/bad-retry-2 failed"),
    ("retry mpijob long", 7, "has not ended"),
    (
        "clone mpijob good --name twin --set workers=1 --set worker.memory=64Mi --wait --timeout 90s",
        0,
        "mpijob/twin succeeded",
    ),
    ("compare mpijob good twin", 0, "resources.limits.memory"),
    ("compare mpijob bad -o json", 0, '"bad-retry-2"'),
    ("export mpijob good", 0, "kind: MPIJob"),
    ("templates save mpijob good --name base", 0, "template/base saved"),
    ("templates list", 0, "base"),
    ("templates show base -o json", 0, '"kind": "MPIJob"'),
    ("templates use base --name from-base --wait --timeout 90s", 0, "mpijob/from-base succeeded"),
    ("templates delete base", 0, "template/base deleted"),
    ("support-bundle mpijob bad --file bundle.tar.gz", 0, "bundle.tar.gz"),
    ("diagnose output.log --exit-code 137", 0, "RankKilled"),
    ("usage --by job", 0, "memory (GiB)"),
    ("audit --object good", 0, "create"),
    ("capacity --cpu 1m", 0, "Workers that fit now:"),
    ("capacity", 2, "nothing is requested"),
    ("advice", 0, "no program has run often enough for advice"),
    ("notifications put bad-runs --phase failed --url https://example.com/hook", 0, "notification/bad-runs configured"),
    ("notifications list", 0, "https://example.com/hook"),
    ("notifications test bad-runs", 0, "a test is on its way"),
    ("…notifications deliveries", 0, "bad-runs"),
    ("notifications put long --longer-than 24h --url https://example.com/hook", 0, "notification/long configured"),
    ("notifications alerts", 0, "no condition of a rule holds now"),
    ("notifications delete long", 0, "notification/long deleted"),
    ("notifications delete bad-runs", 0, "notification/bad-runs deleted"),
    ("cancel mpijob good", 7, "has already succeeded, so it cannot be cancelled"),
    ("cancel mpijob long", 0, "mpijob/long cancelled"),
    ("wait mpijob long --timeout 90s", 103, "mpijob/long was cancelled"),
    ("delete mpijob good bad bad-retry-2 no-such twin --yes", 3, "mpijob/twin deleted"),
    ("delete mpijob -l sweep=7 --yes -o name", 0, "mpijob/long"),
    ("list", 0, "No training jobs"),
]
# What is otherwise on the real server: kwok's `exec` reports an exit code as an internal error, and never sees the end of the
# standard input (kubectl waits there forever, too), so that command is left out; no operator serves TrainJobs there.
ON_REAL = {
    "exec mpijob long -- sh -c exit\u00a07": (1, "exit status 7"),
    "cp output.log long:/tmp/odh-verbs.log --worker 1": None,
    "runtimes -o name": (3, "does not support TrainJobs"),
    # There is no training service.
    **{
        line: (3, "names no training service")
        for line, code, _ in STEPS
        if code == 0 and line.removeprefix("…").startswith(("usage", "audit", "capacity", "advice", "notifications"))
    },
}
# Upstream's operator does not know the annotation that cancels a job.
BY_UPSTREAM = {"wait mpijob long --timeout 90s": None}


class Place:
    """Where the commands are typed."""

    def __init__(self, odh: str):
        self.folder = tempfile.TemporaryDirectory(prefix="odh-verbs-")
        self.path = pathlib.Path(self.folder.name)
        self.odh = odh
        self.environment = {**os.environ, "HOME": str(self.path), "ODH_HOME": str(self.path / "state"), "NO_COLOR": "1"}
        self.environment.pop("KUBECONFIG", None)
        self.started: list[subprocess.Popen] = []
        lines = {"well": "echo loss is 0.5", "badly": "echo loss is nan; exit 3", "never": "sleep 600"}
        for name, ends in (("good", "well"), ("bad", "badly"), ("long", "never")):
            (self.path / f"{name}.yaml").write_text(job(name, ends, lines[ends]))
        (self.path / "faults.yaml").write_text(
            job("faults", "well", "true").replace("spec:\n  run", "spec:\n  slotPerWorker: 2\n  run", 1)
        )
        labelled = (self.path / "long.yaml").read_text().replace('"7"', '"7", team: vision')
        (self.path / "labelled.yaml").write_text(labelled)
        (self.path / "output.log").write_text("")

    def run(self, words: list[str]) -> subprocess.CompletedProcess:
        return subprocess.run(
            [self.odh, *words],
            cwd=self.path,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def start(self, name: str, words: list[str]) -> None:
        with (self.path / f"{name}.log").open("w") as log:
            process = subprocess.Popen(
                words, cwd=self.path, env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self.started.append(process)

    def stop(self) -> None:
        for process in reversed(self.started):
            process.send_signal(signal.SIGTERM)
        for process in self.started:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
        if (self.path / "state").is_dir():
            self.run(["local", "down", "--purge"])
        self.folder.cleanup()


def kubectl(options: argparse.Namespace, kubeconfig: str, text: str, *words: str) -> None:
    command = [str(pathlib.Path(options.binaries) / "kubectl"), "--kubeconfig", kubeconfig, *words]
    done = subprocess.run(command, input=text, text=True, capture_output=True, timeout=60, check=False)
    if done.returncode:
        raise SystemExit(f"kubectl {' '.join(words)}: {done.stderr}")


def free_port() -> int:
    import socket

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def on_real(place: Place, options: argparse.Namespace) -> None:
    """A node of kwok's, the scheduler, the definition, the operator."""
    kubeconfig = os.environ["ODH_REAL_KUBECONFIG"]
    place.environment["KUBECONFIG"] = kubeconfig
    binaries = pathlib.Path(options.binaries)
    (place.path / "pod.log").write_text(LOG_LINES)
    kubelet = free_port()
    logs = LOGS.replace("LOG", str(place.path / "pod.log"))
    stages = [kwok.node_with_kubelet(kubelet), kwok.POD_RUNS, *LAUNCHER_ENDS, kwok.POD_GOES, logs, COMMANDS]
    (place.path / "kwok.yaml").write_text("---\n".join(stages))
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "paper", "annotations": {"kwok.x-k8s.io/node": "fake"}},
    }
    for name in (NAMESPACE, "mpi-operator"):
        kubectl(options, kubeconfig, "", "create", "namespace", name)
        # A controller makes it as well, some time later.
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": name}}
        kubectl(options, kubeconfig, json.dumps(account), "apply", "-f", "-")
    kubectl(options, kubeconfig, json.dumps(node), "create", "-f", "-")
    kubectl(options, kubeconfig, "", "create", "--save-config=false", "-f", options.crd)
    # Upstream's operator ends where it is not served yet.
    served = [str(binaries / "kubectl"), "--kubeconfig", kubeconfig, "get", "mpijobs.kubeflow.org"]
    ends = time.monotonic() + WAIT_SECONDS
    while subprocess.run(served, capture_output=True, timeout=60, check=False).returncode:
        if time.monotonic() > ends:
            raise SystemExit("the definition of MPIJob is not served")
        time.sleep(0.2)
    place.start(
        "kwok",
        [
            str(binaries / "kwok"),
            "--kubeconfig",
            kubeconfig,
            "--config",
            str(place.path / "kwok.yaml"),
            "--manage-all-nodes=false",
            "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
            f"--server-address=127.0.0.1:{kubelet}",
            "--node-ip=127.0.0.1",
            f"--node-port={kubelet}",
            "--node-lease-duration-seconds=0",
        ],
    )
    place.start(
        "scheduler",
        [str(binaries / "kube-scheduler"), "--kubeconfig", kubeconfig, "--leader-elect=false", "--secure-port=0"],
    )
    place.environment.pop("KUBECONFIG")
    place.start("operator", [options.operator, f"--kubeConfig={kubeconfig}"])
    place.environment["KUBECONFIG"] = kubeconfig


def on_embedded(place: Place) -> None:
    up = place.run(["local", "up"])
    if up.returncode:
        raise SystemExit(f"odh local up: {up.stderr}")
    config = place.path / "kubeconfig"
    config.write_text(place.run(["local", "kubeconfig"]).stdout)
    place.environment["KUBECONFIG"] = str(config)
    # A namespace of its own, made as a person is let into one.
    made = place.run(["local", "user", "somebody", "--role", "edit", "-n", NAMESPACE])
    if made.returncode:
        raise SystemExit(f"odh local user: {made.stderr}")


def check(place: Place, line: str, code: int, text: str) -> tuple[int, str, float]:
    """The exit code, what was said, and how long it took, once it is as it should be or time is up."""
    patient, line = line.startswith("…"), line.removeprefix("…")
    words = ["training", *(word.replace("\u00a0", " ") for word in line.split(" "))]
    at = words.index("--") if "--" in words else len(words)
    words[at:at] = [] if words[1] == "diagnose" else ["-n", NAMESPACE]
    ends = time.monotonic() + WAIT_SECONDS
    while True:
        began = time.monotonic()
        done = place.run(words)
        said = done.stdout + done.stderr
        if (done.returncode == code and text in said) or not patient or time.monotonic() > ends:
            return done.returncode, said, time.monotonic() - began
        time.sleep(0.2)


def untyped(odh: str) -> list[str]:
    """The verbs of the program's own command tree that no step types."""
    tree = json.loads(
        subprocess.run(
            [odh, "help", "training", "-o", "json"], capture_output=True, text=True, check=True, timeout=60
        ).stdout
    )

    def verbs(command: dict) -> list[str]:
        below = command["commands"]
        return (
            [verb for inner in below for verb in verbs(inner)]
            if below
            else [command["command"].removeprefix("odh training ")]
        )

    typed = [line.removeprefix("…") + " " for line, _, _ in STEPS]
    return [verb for verb in verbs(tree) if not any(line.startswith(verb + " ") for line in typed)]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--odh", required=True)
    parser.add_argument("--on", choices=["embedded", "real"], required=True)
    parser.add_argument("--first", action="store_true", help="stop at the first command that is wrong")
    parser.add_argument("--operator")
    parser.add_argument("--upstream", action="store_true", help="the operator is Kubeflow's")
    parser.add_argument("--crd")
    parser.add_argument("--binaries", default=".")
    options = parser.parse_args()
    if missing := untyped(options.odh):
        raise SystemExit(f"no step types these verbs: {', '.join(missing)}")
    otherwise = {**ON_REAL, **(BY_UPSTREAM if options.upstream else {})} if options.on == "real" else {}
    place = Place(options.odh)
    wrong = 0
    try:
        on_embedded(place) if options.on == "embedded" else on_real(place, options)
        for line, usual_code, usual_text in STEPS:
            expected = otherwise.get(line, (usual_code, usual_text))
            if expected is None:
                print(f"{'left out':<13} odh training {line}", flush=True)
                continue
            code, text = expected
            found, said, seconds = check(place, line, code, text)
            right = found == code and text in said
            wrong += not right
            print(
                f"{'as it should' if right else 'WRONG':<13} exit {found:<4} {seconds:5.1f} s  odh training {line.removeprefix('…')}",
                flush=True,
            )
            if not right:
                print(
                    f"    expected exit {code} and {text!r}; it said:\n"
                    + "".join(f"    | {row}\n" for row in said.splitlines()[:40]),
                    flush=True,
                )
                if options.first:
                    break
        if wrong:
            for name in ("operator", "kwok", "scheduler"):
                log = place.path / f"{name}.log"
                if log.exists():
                    print(f"--- {name}\n{log.read_text()[-2000:]}")
    finally:
        place.stop()
    typed = len(STEPS) - list(otherwise.values()).count(None)
    print(f"{typed - wrong} of {typed} commands ended and spoke as they should")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
