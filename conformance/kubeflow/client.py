"""Uses TrainJobs with MPI by Kubeflow's own SDK, unmodified: creates, lists, follows, reads the logs and events of, and
deletes them. The cluster is that of KUBECONFIG. Exits with 0 if everything works, and the SDK had nothing to warn of.
"""

import logging
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from kubeflow.trainer import CustomTrainer, KubernetesBackendConfig, TrainerClient
from kubernetes import client as kubernetes
from kubernetes import config

NAMESPACE = "default"
RUNTIME = "openmpi"
PATIENCE_SECONDS = 120
NODES = 2


class Warnings(logging.Handler):
    """Keeps what is logged as a warning or worse."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(record.getMessage())


def train(gate: str, fail: bool) -> None:
    """What every rank runs. The SDK sends its source, so it imports what it uses."""
    import os
    import sys
    import time

    from mpi4py import MPI

    world = MPI.COMM_WORLD
    print(f"rank {world.rank} of {world.size} is ready", flush=True)
    while not os.path.exists(gate):
        time.sleep(0.05)
    total = world.allreduce(world.rank + 1)
    if fail and world.rank == 1:
        print("no data", file=sys.stderr, flush=True)
        sys.exit(3)
    print(f"rank {world.rank} has the sum {total}", flush=True)


def until(what: str, holds: Callable[[], bool]) -> None:
    """Polls until something holds."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"after {PATIENCE_SECONDS} s still not: {what}"
        time.sleep(0.05)


def a_job_succeeds(trainer: TrainerClient, gate: Path) -> None:
    """Create, list, follow while it runs, read the logs, delete."""
    arguments = {"gate": str(gate), "fail": False}
    found = trainer.get_runtime(RUNTIME)
    name = trainer.train(
        runtime=found,
        trainer=CustomTrainer(func=train, func_args=arguments, num_nodes=NODES, env={"OMP_NUM_THREADS": "1"}),
    )
    assert [job.name for job in trainer.list_jobs(runtime=found)] == [name]
    running = trainer.wait_for_job_status(name, status={"Running"}, timeout=PATIENCE_SECONDS, polling_interval=1)
    assert sorted(step.name for step in running.steps) == ["node-0", "node-1"], running
    lines = []
    # The stream ends with the job, which waits for the gate.
    for line in trainer.get_job_logs(name, follow=True):
        lines.append(line)
        if sum(" is ready" in line for line in lines) == NODES:
            gate.touch()
    assert any("rank 1 has the sum 3" in line for line in lines), lines
    done = trainer.wait_for_job_status(name, timeout=PATIENCE_SECONDS, polling_interval=1)
    assert (done.status, done.num_nodes) == ("Complete", NODES), done
    assert "rank 0 has the sum 3" in "\n".join(trainer.get_job_logs(name))
    reasons = {event.reason for event in trainer.get_job_events(name)}
    assert "AllJobsCompleted" in reasons, reasons
    delete(trainer, name)


def a_job_fails(trainer: TrainerClient, gate: Path) -> None:
    """The SDK reports it, and its message names the rank and the cause."""
    arguments = {"gate": str(gate), "fail": True}
    name = trainer.train(runtime=RUNTIME, trainer=CustomTrainer(func=train, func_args=arguments, num_nodes=NODES))
    failed = trainer.wait_for_job_status(name, status={"Failed"}, timeout=PATIENCE_SECONDS, polling_interval=1)
    assert failed.status == "Failed", failed
    messages = [event.message for event in trainer.get_job_events(name) if event.reason == "FailedJobs"]
    assert any("exited with code 3" in message for message in messages), messages
    delete(trainer, name)


def delete(trainer: TrainerClient, name: str) -> None:
    trainer.delete_job(name)
    assert trainer.list_jobs() == []
    pods = kubernetes.CoreV1Api()
    selected = f"jobset.sigs.k8s.io/jobset-name={name}"
    until("its pods are gone", lambda: not pods.list_namespaced_pod(NAMESPACE, label_selector=selected).items)


def main() -> None:
    """Runs all of it."""
    config.load_kube_config()
    warnings = Warnings()
    logging.getLogger("kubeflow").addHandler(warnings)
    trainer = TrainerClient(backend_config=KubernetesBackendConfig(namespace=NAMESPACE))
    runtimes = {runtime.name for runtime in trainer.list_runtimes()}
    assert {"openmpi", "mpich", "intel-mpi", "deepspeed-distributed", "horovod"} <= runtimes, runtimes
    # Pods see this folder; each has a /tmp of its own.
    with tempfile.TemporaryDirectory(prefix="kubeflow-", dir="/var/tmp") as folder:
        os.chmod(folder, 0o755)
        a_job_succeeds(trainer, Path(folder, "gate"))
        open_gate = Path(folder, "open")
        open_gate.touch()
        a_job_fails(trainer, open_gate)
    assert not warnings.found, warnings.found


if __name__ == "__main__":
    main()
