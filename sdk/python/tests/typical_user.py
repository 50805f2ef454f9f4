"""What users write. It is only checked by the type checker, in its strictest mode, and never run."""

from __future__ import annotations

from datetime import timedelta

from openshift_ai.training import (
    AsyncMPIJobClient,
    ClaimVolume,
    JobFailedError,
    JobStatus,
    LogLine,
    MPIJob,
    MPIJobClient,
    MPIJobSpec,
    QuotaExceededError,
    Retries,
    Step,
    TrainingError,
    WorkerSpec,
    exit_code,
    more_memory,
)


def train(steps: int) -> None:
    print(steps)


def spec(rate: float) -> MPIJobSpec:
    return MPIJobSpec(
        name=f"lr-{round(rate * 100)}",
        image="quay.io/x/horovod",
        command=["python", "train.py"],
        worker_spec=WorkerSpec(replicas=4, resources={"limits": {"cpu": 8, "memory": "32Gi", "nvidia.com/gpu": 2}}),
        env={"LR": rate},
        volumes=[ClaimVolume(claim="data", path="/data", read_only=True)],
        mpi="OpenMPI",
    )


def main() -> int:
    with MPIJobClient(namespace="team") as client:
        try:
            job: MPIJob = client.create_mpijob(name="a", image="b", code=train, code_arguments={"steps": 3}, workers=2)
            job.monitor(lambda status: print(status.phase, status.workers_running))
            status: JobStatus = job.wait_for_completion(timeout=timedelta(hours=1))
            lines: list[LogLine] = list(job.logs(follow=True, worker=[0, 1], since="10m", level="warning"))
            text: str = job.get_logs(worker=0)
            for change in client.watch(phase="Running"):
                print(change.type, change.status.summary)
            results = client.sweep([spec(0.1), spec(0.2)], at_most=2)
            client.chain([spec(0.1), Step(spec(0.2), when="failure")])
            result = client.run(spec(0.1), retries=Retries(changes={"OutOfMemory": more_memory(2)}))
            print(status.finished, lines, text, [one.outputs for one in results], result.error)
        except QuotaExceededError as error:
            print(error.hint)
        except JobFailedError as error:
            print(error.cause, error.exit_code)
            return exit_code(error)
        except TrainingError as error:
            print(error.code, error.retryable, [fault.path for fault in error.fields])
    return 0


async def asynchronous() -> None:
    async with AsyncMPIJobClient() as client:
        job = await client.create_mpijob(spec(0.3), wait_for_start=True)
        async for line in job.logs(follow=True):
            print(line.pod, line)
        print((await job.details()).failure, [found.name async for found in client.list(sort="-created")])
