"""Several jobs, run as a script in a pipeline runs them."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from local_cluster import IMAGE, Cluster

from openshift_ai.training import (
    INFRASTRUCTURE,
    Backoff,
    ConflictError,
    JobFailedError,
    JobStatus,
    MPIJobClient,
    MPIJobSpec,
    NotFoundError,
    Retries,
    Step,
    TrainingTimeoutError,
    WebhookError,
    exit_code,
    more_memory,
    verify_webhook,
)


def spec(name: str, program: str, **fields: Any) -> MPIJobSpec:
    from openshift_ai.training._spec import made

    return made({"name": name, "image": IMAGE, "command": ["sh", "-c", program], "retries": 0, **fields})


def test_a_chain_passes_outputs_on_and_runs_what_is_for_the_outcome(client: MPIJobClient) -> None:
    def evaluate(previous: Any) -> MPIJobSpec:
        return spec("evaluate", "echo got $CHECKPOINT; exit 3", env={"CHECKPOINT": previous.outputs["checkpoint"]})

    results = client.chain(
        [
            spec("train", "echo odh-output checkpoint=/old; echo odh-output checkpoint=/data/10"),
            Step(spec("sorry", "true"), when="failure"),
            Step(evaluate),
            Step(spec("publish", "true")),
            Step(spec("clean", "true"), when="always"),
        ],
        timeout=60,
    )
    assert [(result.job.name, result.has_succeeded) for result in results] == [
        ("train", True),
        ("evaluate", False),
        ("clean", True),
    ]
    assert results[0].outputs == {"checkpoint": "/data/10"}
    assert results[1].job.get_logs(grep="^got") == "got /data/10"
    with pytest.raises(ValueError, match="none of"):
        Step(evaluate, when="sometimes")


def test_a_sweep_stays_within_its_bound_and_keeps_the_order(client: MPIJobClient) -> None:
    most = 0

    def count(_: JobStatus) -> None:
        nonlocal most
        most = max(most, sum(not job.status.has_ended for job in client.list()))

    specs = [spec(f"lr-{index}", f"exit {5 if index == 1 else 0}") for index in range(4)]
    results = client.sweep(specs, at_most=2, timeout=90, on_change=count)
    assert [result.job.name for result in results] == ["lr-0", "lr-1", "lr-2", "lr-3"]
    assert [result.has_succeeded for result in results] == [True, False, True, True]
    assert results[1].error is not None
    assert results[1].error.exit_code == 5
    assert 1 <= most <= 2
    with pytest.raises(ValueError, match="at_most"):
        client.sweep(specs, at_most=0)
    stopped = client.sweep(
        [one.with_changes(name=f"s-{one.name}") for one in specs[1:]], at_most=1, stop_on_failure=True
    )
    assert [result.job.name for result in stopped] == ["s-lr-1"]


def test_a_job_is_run_again_after_the_causes_that_are_named(client: MPIJobClient) -> None:
    changed = []

    def slower(one: MPIJobSpec, attempt: int) -> MPIJobSpec:
        changed.append(attempt)
        return one.with_changes(env={"ATTEMPT": attempt + 1})

    quick = Backoff(attempts=100, first=0.01, longest=0.02)
    job = spec("flaky", "test $ATTEMPT = 2", env={"ATTEMPT": 1})
    result = client.run(job, retries=Retries(attempts=3, changes={"RankExited": slower}, backoff=quick), timeout=90)
    assert (result.has_succeeded, result.attempts, result.job.name, changed) == (True, 2, "flaky-2", [1])
    assert [(failure.cause, failure.job.name) for failure in result.failures] == [("RankExited", "flaky")]
    failed = client.run(spec("wrong", "exit 9"), retries=Retries(attempts=3, backoff=quick))
    assert (failed.attempts, failed.has_succeeded) == (1, False), "the program's fault is not repeated"
    assert failed.error is not None
    assert exit_code(failed.error) == 100
    slow = Retries(causes=frozenset({"RankExited"}), backoff=Backoff(first=1000, longest=1000))
    with pytest.raises(TrainingTimeoutError, match="no time left"):
        client.run(spec("late", "exit 9"), retries=slow, timeout=30)


def test_memory_is_raised_within_bounds() -> None:
    one = spec("x", "x", memory_per_worker="1.5Gi")
    changed = [change(one, 1) for change in (more_memory(), more_memory(4, most="4Gi"))]
    limits = [more.worker_spec.resources.limits["memory"] for more in changed if more]
    assert limits == ["3072Mi", "4096Mi"]
    assert more_memory(2, most="1536Mi")(one, 1) is None, "the Workers have the most already"
    error = JobFailedError("x", job=JobStatus(phase="Failed", cause="OutOfMemory"), failure=None)
    assert Retries(changes={"OutOfMemory": more_memory(most="1Gi")}).next(one, 1, error) is None
    with pytest.raises(ValueError, match="no memory limit"):
        more_memory()(spec("x", "x"), 1)
    with pytest.raises(ValueError, match="more than 1"):
        more_memory(1)
    assert "OutOfMemory" not in INFRASTRUCTURE


def test_a_missing_program_names_what_brings_it_there() -> None:
    missing = JobFailedError("x", job=JobStatus(phase="Failed", cause="ExecutableNotFound"), failure=None)
    assert "code=" in missing.hint
    assert "workdir=" in missing.hint
    assert JobFailedError("x", job=JobStatus(phase="Failed", cause="OutOfMemory"), failure=None).hint == ""


def test_waits_grow_and_are_bounded() -> None:
    steady = Backoff(attempts=5, first=1, factor=2, longest=5, jitter=0)
    assert [steady.wait(failures) for failures in range(1, 6)] == [1, 2, 4, 5, None]
    assert steady.wait(1, at_least=5) == 5
    assert steady.wait(1, at_least=9) is None, "a longer wait than the longest is none"
    random = [Backoff(first=1).wait(1) or 0 for _ in range(50)]
    assert 0.5 <= min(random) < max(random) <= 1
    assert Backoff(attempts=10**6).wait(10**5) is not None


def test_errors_have_the_exit_codes_of_the_command_line(client: MPIJobClient) -> None:
    client.create_mpijob(spec("taken", "true", suspend=True))
    with pytest.raises(ConflictError) as taken:
        client.create_mpijob(spec("taken", "true"))
    with pytest.raises(NotFoundError) as none:
        client.get("none")
    codes = [exit_code(error) for error in (None, taken.value, none.value, KeyboardInterrupt(), ValueError())]
    assert codes == [0, 7, 3, 130, 1]


def run_script(script: Path, cluster: Cluster, namespace: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-W", "ignore::openshift_ai.training.JobWarning", str(script), *words],
        env={
            **os.environ,
            "ODH_TRAINING_URL": cluster.url,
            "ODH_TRAINING_TOKEN": cluster.token,
            "ODH_TRAINING_CA": cluster.ca,
            "NAMESPACE": namespace,
        },
        cwd=script.parent,
        capture_output=True,
        text=True,
        check=False,
        timeout=90,
    )


def test_a_script_of_a_pipeline_gives_a_job_that_ran_out_of_memory_more_of_it(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    script = tmp_path / "ci.py"
    script.write_text(CI)
    # The second attempt has 512 MiB.
    hungry = "python3 -c 'print(len(bytearray(300 << 20)))'"
    done = run_script(script, cluster, namespace, "hungry", hungry, "128Mi")
    assert done.returncode == 0, done.stderr
    with MPIJobClient(cluster.url, token=cluster.token, ca=cluster.ca, namespace=namespace) as client:
        conditions = {condition.type: condition.status for condition in client.get("hungry").details().conditions}
    # Where nobody may create cgroups, limits are not enforced, and the first attempt succeeds.
    is_enforced = conditions.get("LimitsNotEnforced") != "True"
    assert done.stdout.split() == (["OutOfMemory", "hungry-2", "succeeded"] if is_enforced else ["hungry", "succeeded"])
    last = tmp_path / ("artifacts-hungry-2" if is_enforced else "artifacts-hungry")
    assert "314572800" in "".join(path.read_text() for path in last.glob("*-launcher*.log"))
    if is_enforced:
        assert "memory: 512Mi" in (last / "job.yaml").read_text()
        failed = (tmp_path / "artifacts-hungry/status.json").read_text()
        assert '"cause": "OutOfMemory"' in failed


def test_a_script_of_a_pipeline_ends_with_the_exit_code_of_its_job(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    script = tmp_path / "ci.py"
    script.write_text(CI)
    done = run_script(script, cluster, namespace, "bad", "echo broken; exit 4", "1Gi")
    assert (done.returncode, done.stdout.split()[0]) == (100, "bad"), done.stderr
    kept = {path.name.split("-launcher")[0] for path in (tmp_path / "artifacts-bad").iterdir()}
    assert kept >= {"job.yaml", "status.json", "events.txt", "bad"}


CI = """
import os, sys
from openshift_ai.training import Backoff, MPIJobClient, MPIJobSpec, Retries, exit_code, more_memory

name, program, memory = sys.argv[1:]
with MPIJobClient(namespace=os.environ["NAMESPACE"]) as client:
    spec = MPIJobSpec(name=name, image="quay.io/x/horovod", command=["sh", "-c", program])
    result = client.run(
        spec.with_changes(memory_per_worker=memory),
        retries=Retries(attempts=3, changes={"OutOfMemory": more_memory(4, most="512Mi")}, backoff=Backoff(first=0.1)),
        timeout=600,
    )
    for failure in result.failures:
        client.get(failure.job.name).save(f"artifacts-{failure.job.name}")
        print(failure.cause)
    result.job.save(f"artifacts-{result.job.name}")
    print(result.job.name, result.error or "succeeded")
    sys.exit(exit_code(result.error))
"""


def signed(secret: str, identifier: str, timestamp: int, body: bytes) -> dict[str, str]:
    key = base64.b64decode(secret.removeprefix("whsec_"))
    tag = hmac.digest(key, f"{identifier}.{timestamp}.".encode() + body, hashlib.sha256)
    signature = f"v1,AAAA v1,{base64.b64encode(tag).decode()}"
    return {"Webhook-Id": identifier, "webhook-timestamp": str(timestamp), "webhook-signature": signature}


def test_a_webhook_is_verified_as_the_specification_says() -> None:
    # The example of Standard Webhooks 1.0.0, which the service's own tests have too.
    secret, body = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", b'{"test": 2432232314}'
    headers = {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }
    assert verify_webhook(secret, headers, body, now=1614265330 + 60) == {"test": 2432232314}
    now = int(time.time())
    fresh = signed(secret, "id", now, body)
    assert verify_webhook(secret, fresh, body) == {"test": 2432232314}
    wrong: list[tuple[str, dict[str, str], bytes, str]] = [
        (secret, headers, body, "TooOld"),
        (secret, fresh, body + b" ", "WrongSignature"),
        (secret, {**fresh, "Webhook-Id": "other"}, body, "WrongSignature"),
        (secret, {**fresh, "webhook-signature": "v2,x"}, body, "WrongSignature"),
        ("whsec_AAAA", fresh, body, "WrongSignature"),
        ("whsec_!", fresh, body, "WrongSecret"),
        (secret, {}, body, "NotSigned"),
        (secret, {**fresh, "webhook-timestamp": "-1"}, body, "NotSigned"),
        (secret, signed(secret, "id", now, b"[]"), b"[]", "WrongContent"),
    ]
    for key, sent, content, reason in wrong:
        with pytest.raises(WebhookError) as caught:
            verify_webhook(key, sent, content)
        assert caught.value.reason == reason


def test_an_error_of_a_job_is_shown_with_everything(client: MPIJobClient) -> None:
    status = JobStatus(kind="MPIJob", namespace="n", name="x", phase="Failed", cause="NodeLost")
    error = JobFailedError("failed", job=status, failure=None)
    assert (error.cause, str(error), error.exit_code, error.worker, error.link) == (
        "NodeLost",
        "failed",
        None,
        None,
        "",
    )
