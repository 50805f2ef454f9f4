"""What can be done with jobs."""

from __future__ import annotations

import asyncio
import re
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from local_cluster import IMAGE, Cluster, printed

from openshift_ai.training import (
    AsyncMPIJobClient,
    ConflictError,
    ForbiddenError,
    InvalidSpecError,
    JobCancelledError,
    JobChange,
    JobFailedError,
    JobList,
    JobStatus,
    JobWarning,
    LogLine,
    MPIJob,
    MPIJobClient,
    MPIJobSpec,
    NotFoundError,
    QuotaExceededError,
    TrainingTimeoutError,
    WaitInterrupted,
    exit_code,
)
from openshift_ai.training._traceback import last_traceback, last_words

SAYS_ITS_RANK = ["python", "-c", "import os; print('I am rank', os.environ['OMPI_COMM_WORLD_RANK'])"]
#: Runs until it is ended.
FOREVER = ["sh", "-c", "echo began; exec sleep 1000"]


def test_a_job_passes_through_its_phases_and_its_output_is_read(client: MPIJobClient, tmp_path: Path) -> None:
    # Its Workers stay, so that what they said can be read later.
    job = client.create_mpijob(
        name="pi", image=IMAGE, command=SAYS_ITS_RANK, workers=2, clean_pod_policy="None", wait_for_start=True
    )
    assert job.status.phase in ("Running", "Succeeded")
    seen = [status.phase for status in job.watch(timeout=60)]
    assert seen[-1] == "Succeeded"
    assert job.wait_for_completion(timeout=timedelta(seconds=5)).has_succeeded
    assert job.wait_until("Running").phase == "Succeeded", "the phase has been passed"
    status = job.status
    assert (status.workers_total, status.workers_running, status.workers_failed) == (2, 2, 0)
    assert (status.workers_pending, status.state) == (0, "Succeeded")
    assert re.fullmatch(rf"<MPIJob {job.namespace}/pi: Succeeded after [0-9ms]+>", repr(job))
    assert job.status.created is not None
    assert job.status.finished is not None
    lines = list(job.logs())
    assert printed(lines) == ["I am rank 0", "I am rank 1"]
    assert all(line.pod.startswith("pi-launcher") and line.written for line in lines)
    assert job.get_logs(grep="rank 1") == "I am rank 1"
    assert job.get_logs(launcher=True, tail=1) in lines
    assert job.get_logs(worker=0) == "I am rank 0"
    with pytest.raises(NotFoundError, match=r"rank 9: the job has slots for ranks 0 to 1") as missing:
        job.get_logs(rank=9)
    assert missing.value.reason == "NoLines"
    assert "odh-launch" in "\n".join(job.logs(worker=0, agents=True))
    assert {line.pod for line in job.logs(all=True, agents=True)} >= {"pi-worker-0", "pi-worker-1"}
    assert "Scheduled" in {event.reason for event in job.events()}
    details = job.details()
    assert details.row_status.key == status.key
    assert [pod.role for pod in details.pods] == ["Launcher", "Worker", "Worker"]
    written = job.save(tmp_path / "kept")
    assert {path.name for path in written} >= {"job.yaml", "status.json", "events.txt", "pi-worker-0.log"}
    assert "I am rank 0" in next(path for path in written if "launcher" in path.name).read_text()


def test_a_failure_says_cause_evidence_and_fix(client: MPIJobClient) -> None:
    job = client.create_mpijob(name="bad", image=IMAGE, command=["sh", "-c", "echo ERROR: no data; exit 7"])
    assert job.wait_for_completion(60, raise_on_failure=False).phase == "Failed"
    with pytest.raises(JobFailedError) as caught:
        job.wait_for_completion()
    error = caught.value
    assert (error.code, error.cause, error.exit_code, error.retryable) == ("JobFailed", "RankExited", 7, False)
    assert re.fullmatch(r"Failed \(RankExited\) after [0-9ms]+", job.status.summary)
    assert error.details
    assert error.hint
    assert error.job.phase == "Failed"
    for part in ("bad failed: RankExited", error.details[-1], "What to do:"):
        assert part in str(error)
    assert error.details[0] == error.last_lines[-1] == "ERROR: no data"
    with pytest.raises(JobFailedError):
        job.wait_until("Succeeded")
    assert [(line, line.level) for line in job.logs(level="error", grep="no data")] == [("ERROR: no data", "error")]
    assert set(error.details) & {str(line) for line in job.logs() if line.evidence}


def test_a_failure_shows_what_the_rank_that_failed_said_before_what_its_launcher_did(client: MPIJobClient) -> None:
    program = (
        "import os; rank = os.environ['OMPI_COMM_WORLD_RANK']; print('data set of rank', rank, 'is missing'); exit(3)"
    )
    job = client.create_mpijob(name="exits", image=IMAGE, workers=2, command=["python", "-c", program])
    with pytest.raises(JobFailedError) as caught:
        job.wait_for_completion(60)
    error = caught.value
    assert re.fullmatch(r"data set of rank \d is missing", error.details[0])
    assert error.details[: len(error.last_lines)] == error.last_lines
    assert not any("mpirun" in line or "---" in line for line in error.last_lines)


def test_the_last_lines_of_a_program_are_those_of_the_rank_that_failed() -> None:
    rule = "-" * 74
    report = [
        rule,
        "mpirun detected that one or more processes exited with non-zero status:",
        "",
        "  Exit code: 3",
        rule,
    ]
    untagged = ["epoch 1", "data set /data/train.csv is missing", *report, "odh-launch: session 1 ends"]
    assert last_words(untagged, 1) == ("epoch 1", "data set /data/train.csv is missing")
    tagged = ["[1,0]<stdout>:waits", "[1,1]<stderr>: no data", "[1,0]<stdout>:still waits", *report]
    assert last_words(tagged, 1) == ("no data",)
    assert last_words(tagged, 7) == last_words(tagged) == ("waits", "no data", "still waits")
    assert last_words([*report[1:], "giving up"]) == ("  Exit code: 3", "giving up")
    assert last_words(report) == ()
    assert len(last_words([f"line {number}" for number in range(40)])) == 10


def test_a_failure_shows_the_traceback_of_the_rank_that_failed(client: MPIJobClient) -> None:
    program = "import os; rank = os.environ['OMPI_COMM_WORLD_RANK']; {'0': 1}[rank]"
    job = client.create_mpijob(name="raises", image=IMAGE, workers=2, command=["python", "-c", program])
    with pytest.raises(JobFailedError) as caught:
        job.wait_for_completion(60)
    error = caught.value
    assert error.traceback[0] == "Traceback (most recent call last):"
    assert error.traceback[-1] == "KeyError: '1'"
    assert error.details == error.traceback
    assert "  KeyError: '1'" in str(error) or "KeyError: '1'" in error.message


def test_the_last_traceback_is_found_among_the_lines_of_other_ranks() -> None:
    lines = [
        "[1,0]<stderr>:Traceback (most recent call last):",
        '[1,0]<stderr>:  File "train.py", line 9, in <module>',
        "[1,1]<stdout>:step 3",
        "[1,0]<stderr>:    loss = losses[step]",
        "[1,0]<stderr>:KeyError: 'missing'",
        "--------------------------------------------------------------------------",
        "mpirun detected that one or more processes exited with non-zero status",
    ]
    assert last_traceback(lines) == (
        "Traceback (most recent call last):",
        '  File "train.py", line 9, in <module>',
        "    loss = losses[step]",
        "KeyError: 'missing'",
    )
    assert last_traceback([line.split(":", 1)[1] if line.startswith("[1,0]") else line for line in lines])[-1] == (
        "KeyError: 'missing'"
    )
    # Open MPI 5 and MPICH put a space behind their tags.
    for spaced in (
        [line.replace(">:", ">: ") for line in lines],
        [re.sub(r"^\[1,(\d)\]<\w+>:", r"[\1] ", line) for line in lines],
    ):
        assert last_traceback(spaced) == last_traceback(lines)
    assert last_traceback(lines[-2:]) == ()
    long = ["Traceback (most recent call last):", *[f"  frame {number}" for number in range(40)], "ValueError: no"]
    assert (len(last_traceback(long)), last_traceback(long)[-1]) == (10, "ValueError: no")


def test_a_wait_ends_in_time_and_the_job_goes_on(client: MPIJobClient) -> None:
    with pytest.warns(JobWarning, match=r"^long: worker_spec\.resources\.limits: not set;"):
        job = client.create_mpijob(name="long", image=IMAGE, command=FOREVER, workers=1)
    with pytest.raises(TrainingTimeoutError, match=r"has not ended within 1 s.*") as caught:
        job.wait_for_completion(timeout=1)
    assert isinstance(caught.value, TimeoutError)
    assert "client.get('long'" in caught.value.hint
    with pytest.warns(JobWarning, match=r"stuck: it waits: "):
        stuck = client.create_mpijob(name="stuck", image=IMAGE, command=FOREVER, workers=1, memory_per_worker="900Ti")
    notes: list[str] = []
    with pytest.raises(TrainingTimeoutError, match=r"it waits: .*") as caught:
        stuck.wait_for_completion(timeout=6, on_note=notes.append)
    assert len([note for note in notes if note.startswith("stuck: Pending (Unschedulable): ")]) == 1, notes
    followed: list[str] = []

    def cancel(note: str) -> None:
        followed.append(note)
        stuck.cancel()

    assert list(stuck.logs(follow=True, on_note=cancel)) == []
    assert followed, "it is said what is waited for"
    assert caught.value.reason == "Unschedulable"
    assert caught.value.details
    stuck.delete(wait=True)
    job.wait_until("Running", timeout=60)
    began = job.logs(follow=True)
    assert next(began) == "began"
    job.suspend()
    assert any(status.phase_reason == "Suspended" for status in job.watch(timeout=60))
    assert job.status.summary == "Pending (Suspended)"
    job.resume()
    assert job.wait_until("Running", timeout=60).summary.startswith("Running, ")
    job.delete(wait=True)
    with pytest.raises(JobCancelledError, match="deleted"):
        job.wait_for_completion(timeout=10)
    job.delete()
    with pytest.raises(NotFoundError):
        job.refresh()


def test_a_job_that_succeeds_with_the_machines_own_programs_is_warned_of(client: MPIJobClient) -> None:
    image = "example/nobody-mapped-it:1"
    job = client.create_mpijob(name="unmapped", image=image, command=["true"], in_launcher=True, workers=1)
    notes: list[str] = []
    assert job.wait_for_completion(60, on_note=notes.append).has_succeeded
    assert len([note for note in notes if note.startswith(f'unmapped: The image "{image}" is not mapped')]) == 1, notes
    details = job.details()
    assert len(details.warnings) == 1
    assert "is not mapped" in details._repr_html_()


def test_a_cancelled_job_ends_and_stays(client: MPIJobClient) -> None:
    job = client.create_mpijob(name="enough", image=IMAGE, command=FOREVER, workers=1)
    job.wait_until("Running", timeout=60)
    job.cancel()
    with pytest.raises(JobCancelledError, match="cancelled") as caught:
        job.wait_for_completion(timeout=60)
    assert exit_code(caught.value) == 103, "as odh"
    status = job.refresh()
    assert (status.state, status.phase, status.cause) == ("Cancelled", "Failed", "Cancelled")
    job.delete()


def test_a_job_that_is_deleted_ends_the_wait_for_it(client: MPIJobClient) -> None:
    job = client.create_mpijob(name="gone", image=IMAGE, command=FOREVER, workers=1)

    def delete_when_it_runs(status: JobStatus) -> None:
        if status.phase == "Running":
            client.get("gone").delete(force=True)

    with pytest.raises(JobCancelledError):
        job.monitor(delete_when_it_runs, timeout=60)


def test_ctrl_c_leaves_the_job_and_says_how_to_come_back(client: MPIJobClient) -> None:
    job = client.create_mpijob(name="left", image=IMAGE, command=FOREVER, workers=1)

    def interrupt(_: JobStatus) -> None:
        raise KeyboardInterrupt

    with pytest.raises(WaitInterrupted, match=r"goes on.*client\.get\('left', namespace='[a-z0-9-]+'\)") as caught:
        job.monitor(interrupt)
    assert isinstance(caught.value, KeyboardInterrupt)
    again = client.get("left")
    assert not again.status.deleting
    job.take(again.status)
    assert job.status is again.status


def test_jobs_are_listed_over_pages_and_filtered(client: MPIJobClient, namespace: str) -> None:
    for index in range(7):
        labels = {"parity": "even" if index % 2 == 0 else "odd"}
        client.create_mpijob(name=f"j{index}", image=IMAGE, command=["x"], labels=labels, suspend=True)
    assert [job.name for job in client.list(sort="name", page=2)] == [f"j{index}" for index in range(7)]
    assert [job.name for job in client.list(labels={"parity": "odd"}, sort="-name")] == ["j5", "j3", "j1"]
    assert [job.name for job in client.list(search="j4")] == ["j4"]
    assert list(client.list(phase="Running")) == []
    assert isinstance(client.jobs(limit=3), JobList)
    assert len(client.jobs(limit=3)) == 3
    assert {job.namespace for job in client.list(all_namespaces=True, phase="Suspended")} >= {namespace}
    assert "j0" in str(client.jobs())
    done = client.batch(
        "delete", labels={"parity": "even"}, since=datetime.now().astimezone() - timedelta(days=1), dry_run=True
    )
    assert [result.outcome for result in done.results] == ["selected"] * 4
    assert client.batch("delete", ["j1", "none"]).failed == 1


def test_a_watch_reports_what_is_added_changed_and_deleted(client: MPIJobClient) -> None:
    client.create_mpijob(name="one", image=IMAGE, command=["x"], suspend=True)
    seen = []
    for change in client.watch(timeout=60):
        assert isinstance(change, JobChange)
        seen.append((change.type, change.status.name))
        if seen == [("added", "one")]:
            client.create_mpijob(name="two", image=IMAGE, command=["x"], suspend=True)
        if seen[-1] == ("added", "two"):
            client.get("one").delete()
        if seen[-1] == ("deleted", "one"):
            break
    assert seen[0] == ("added", "one")
    assert seen.count(("added", "two")) == 1
    with pytest.raises(TrainingTimeoutError):
        for _ in client.watch(timeout=0.5):
            pass


def test_a_job_is_run_again_copied_compared_and_exported(client: MPIJobClient) -> None:
    first = client.create_mpijob(name="first", image=IMAGE, command=SAYS_ITS_RANK, env={"LR": 0.1})
    first.wait_for_completion(60)
    copied = first.clone(new_name="second", set=["env.LR=0.2"])
    again = first.retry()
    assert (copied.name, again.name != first.name) == ("second", True)
    compared = client.compare(["first", "second"])
    assert compared.columns == ["first", "second"]
    assert any("LR" in line.field and line.values == ["0.1", "0.2"] for line in compared.differences)
    text = first.to_yaml()
    with pytest.raises(ConflictError) as caught:
        client.from_yaml(text)
    assert (caught.value.reason, caught.value.retryable) == ("AlreadyExists", False)
    first.delete(wait=True)
    assert client.from_yaml(text).wait_for_completion(60).has_succeeded
    assert first.export("cli").startswith("odh training create mpijob first")


def test_a_manifest_in_a_file_is_created_in_its_own_namespace(
    cluster: Cluster, client: MPIJobClient, namespace: str, tmp_path: Path
) -> None:
    spec = MPIJobSpec(name="file", image=IMAGE, command=["x"], suspend=True)
    manifest = client.validate(spec).manifest
    assert list(client.list()) == [], "validating creates nothing"
    (tmp_path / "job.yaml").write_text(manifest)
    with MPIJobClient(cluster.url, token=cluster.token, ca=cluster.ca, namespace="elsewhere") as other:
        assert MPIJob.from_yaml(other, tmp_path / "job.yaml").namespace == namespace
    assert client.validate(manifest.replace("name: file", "name: other")).job is not None


def test_what_the_service_refuses_is_an_error_of_its_kind(
    cluster: Cluster, namespace: str, client: MPIJobClient
) -> None:
    token = cluster.user(namespace, "reader", "view")
    with MPIJobClient(cluster.url, token=token, ca=cluster.ca, namespace=namespace) as reader:
        with pytest.raises(
            ForbiddenError, match=f"lacks 'create' permission for MPIJobs in namespace '{namespace}'"
        ) as caught:
            reader.create_mpijob(name="x", image=IMAGE, command=["x"])
        assert (caught.value.code, caught.value.status) == ("NotAllowed", 403)
        with pytest.raises(ForbiddenError, match="'create' for MPIJobs"):
            reader.preflight()
    assert client.preflight().user
    with pytest.raises(InvalidSpecError) as invalid:
        client.create_mpijob(name="Not_A_Name", image=IMAGE, command=["x"])
    assert [fault.path for fault in invalid.value.fields] == ["metadata.name"]
    assert isinstance(invalid.value, ValueError)
    quota = {"metadata": {"name": "small"}, "spec": {"hard": {"requests.nvidia.com/gpu": "1"}}}
    cluster.apply(f"/api/v1/namespaces/{namespace}/resourcequotas", quota)
    with pytest.raises(QuotaExceededError) as exceeded:
        client.create_mpijob(name="x", image=IMAGE, command=["x"], workers=2, gpus_per_worker=2)
    assert "1" in exceeded.value.message
    assert exceeded.value.hint
    found = client.availability(name="x", image=IMAGE, command=["x"], workers=2, gpus_per_worker=2)
    assert (found.available, found.findings[0].weight) == (False, "Refused")
    assert client.availability(name="x", image=IMAGE, command=["x"]).available
    with pytest.raises(NotFoundError):
        client.get("nothing")


def test_a_repeated_creation_gives_the_same_job(client: MPIJobClient) -> None:
    made = [
        client.create_mpijob(name="once", image=IMAGE, command=["x"], suspend=True, idempotency_key="key-1")
        for _ in range(2)
    ]
    assert made[0].uid == made[1].uid
    with pytest.raises(ConflictError):
        client.create_mpijob(name="once", image=IMAGE, command=["x"], suspend=True)


def test_a_job_runs_where_the_strictest_standard_is_enforced(cluster: Cluster, namespace: str) -> None:
    cluster.label_namespace(namespace, {"pod-security.kubernetes.io/enforce": "restricted"})
    token = cluster.user(namespace, "editor", "edit")
    with MPIJobClient(cluster.url, token=token, ca=cluster.ca, namespace=namespace) as client:
        job = client.create_mpijob(name="strict", image=IMAGE, command=SAYS_ITS_RANK, workers=2)
        job.wait_for_completion(timeout=120)
        assert job.get_logs(rank=1)


def test_the_asynchronous_client_does_the_same(cluster: Cluster, namespace: str) -> None:
    async def work() -> None:
        async with AsyncMPIJobClient(cluster.url, token=cluster.token, ca=cluster.ca, namespace=namespace) as client:
            jobs = await asyncio.gather(
                *[
                    client.create_mpijob(name=f"j{index}", image=IMAGE, command=SAYS_ITS_RANK, workers=1)
                    for index in range(2)
                ]
            )
            seen: list[str] = []

            async def note(status: JobStatus) -> None:
                seen.append(status.phase)

            done = await asyncio.gather(jobs[0].monitor(note, timeout=60), jobs[1].wait_for_completion(60))
            assert [status.phase for status in done] == ["Succeeded", "Succeeded"]
            assert seen[-1] == "Succeeded"
            assert printed((await jobs[0].get_logs()).splitlines()) == ["I am rank 0"]
            assert [job.name async for job in client.list(sort="name")] == ["j0", "j1"]
            assert len(await client.jobs()) == 2
            await jobs[0].delete(wait=True)

    asyncio.run(work())


def test_both_clients_have_the_same_surface() -> None:
    import inspect

    from openshift_ai.training import AsyncMPIJob

    for ours, theirs in ((MPIJobClient, AsyncMPIJobClient), (MPIJob, AsyncMPIJob)):
        names = [{name for name in vars(kind) if not name.startswith("_")} for kind in (ours, theirs)]
        assert names[0] == names[1]
        for name in names[0]:
            parameters = [
                list(inspect.signature(member).parameters) if callable(member) else None
                for member in (vars(kind)[name] for kind in (ours, theirs))
            ]
            assert parameters[0] == parameters[1], name


def test_the_time_of_a_line_is_read_in_every_precision() -> None:
    times = ["2026-01-31T12:00:00Z", "2026-01-31T12:00:00.5Z", "2026-01-31T12:00:00.123456789Z"]
    micros = [line.written.microsecond for line in (LogLine("x", at=at) for at in times) if line.written]
    assert micros == [0, 500_000, 123_456]
    assert LogLine("x").written is None
