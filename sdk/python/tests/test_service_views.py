"""Templates, metrics, numbers of the cluster: what the service keeps and computes."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from local_cluster import IMAGE, Cluster

from openshift_ai.training import (
    InvalidSpecError,
    MPIJobClient,
    MPIJobSpec,
    NotFoundError,
    ScratchVolume,
    TemplateParameter,
)
from openshift_ai.training import _models as models

REPORTS = ["sh", "-c", "for i in 1 2 3; do echo step=$i loss=0.$i rate 1.$i; sleep 0.3; done"]


def test_jobs_are_made_from_templates(client: MPIJobClient) -> None:
    spec = MPIJobSpec(name="tune", image=IMAGE, command=["x"], env={"LR": 0.1}, suspend=True)
    rate = TemplateParameter(name="rate", type="number", default="0.1", sets=["env.LR"])
    saved = client.save_template("tune", spec, description="The usual", parameters=[rate])
    assert (saved.name, saved.version, saved.kind) == ("tune", 1, "MPIJob")
    job = client.create_from_template("tune", "tune-7", parameters={"rate": 0.5}, set=["workers=3"])
    assert (job.name, job.status.workers_total) == ("tune-7", 3)
    assert "0.5" in job.to_yaml()
    again = client.save_template("tune", job)
    assert (again.version, again.versions) == (2, [1, 2])
    assert client.template("tune", version=1).description == "The usual"
    assert [(template.name, template.manifest) for template in client.templates()] == [("tune", "")]
    assert "kind: MPIJob" in client.template("tune").manifest
    with pytest.raises(InvalidSpecError, match="rate"):
        client.create_from_template("tune", "tune-8", parameters={"rate": "fast"}, version=1)
    client.delete_template("tune")
    with pytest.raises(NotFoundError):
        client.template("tune")


def test_metrics_are_read_and_drawn(client: MPIJobClient) -> None:
    job = client.create_mpijob(name="learns", image=IMAGE, command=REPORTS, in_launcher=True)
    job.wait_for_completion(60)
    found = job.metrics(patterns=["rate (?<rate>[0-9.]+)"])
    for name, values in (("loss", [0.1, 0.2, 0.3]), ("rate", [1.1, 1.2, 1.3])):
        assert [value for _, value in found.series(name)] == values
        assert found.steps(name) == list(enumerate(values, 1))
    times = [at for at, _ in found.series("loss")]
    assert times == sorted(set(times)), "finer than seconds"
    assert found.series("accuracy") == []
    drawn = found._repr_html_()
    assert "<svg" in drawn
    assert "loss" in drawn


def test_quotas_and_the_cluster_are_shown_in_numbers(cluster: Cluster, namespace: str, client: MPIJobClient) -> None:
    assert client.quota() is None
    quota = {"metadata": {"name": "small"}, "spec": {"hard": {"requests.nvidia.com/gpu": "4"}}}
    cluster.apply(f"/api/v1/namespaces/{namespace}/resourcequotas", quota)
    found = client.quota()
    assert found is not None
    assert [(r.resource, r.hard) for r in found.resources] == [("requests.nvidia.com/gpu", "4")]
    assert client.overview().nodes[0].gpus >= 8
    gpus = client.gpus(namespace=namespace).cluster
    assert gpus is not None
    assert sum(one.gpus for one in gpus.sums) >= 8
    assert client.sign_in_address().path.startswith("/")
    assert client.availability(name="x", image=IMAGE, command=["x"], gpus_per_worker=1).start == "Now"
    assert client.capacity(workers=1, gpus_per_worker=1, cpu_per_worker="100m").start == "Now"
    assert client.capacity(workers=10_000, gpus_per_worker=8).start == "Never"


def test_every_method_of_the_contract_is_used() -> None:
    from pathlib import Path

    package = Path(models.__file__).parent
    used = "".join(path.read_text() for path in (package / "_async").glob("*.py"))
    methods = [name for name, value in vars(models).items() if isinstance(value, models.Method)]
    assert len(methods) > 15
    # The operator's webhook calls the first, a form the others.
    unused = [name for name in methods if f"models.{name}" not in used]
    assert unused == ["RECORD_ADMISSIONS", "LIST_CHOICES", "RENDER_JOB"]


def test_copies_of_a_job_are_related_to_it(client: MPIJobClient, namespace: str) -> None:
    job = client.create_mpijob(name="first", image=IMAGE, command=["true"], suspend=True)
    job.clone(new_name="second")
    next(change for change in client.watch(timeout=60) if change.status.name == "second")
    found = [(related.job and related.job.name, related.origin) for related in job.related()]
    assert found == [("first", ""), ("second", "first")]
    assert namespace in [found.name for found in client.namespaces(kind="mpijob")]


def test_files_of_a_running_job_are_listed_and_downloaded(client: MPIJobClient, tmp_path: Path) -> None:
    command = ["sh", "-c", "echo kept > /scratch/result.txt; sleep 600"]
    spec = MPIJobSpec(name="writes", image=IMAGE, command=command, volumes=[ScratchVolume(path="/scratch")])
    job = client.create_mpijob(spec)
    job.wait_until("Running", 60)
    assert ("/scratch", 0) in [(volume.path, volume.worker) for volume in job.artifacts()]
    deadline = time.monotonic() + 60
    while not (files := job.artifacts("/scratch", worker=0)):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert [(file.name, file.type) for file in files] == [("result.txt", "file")]
    saved = job.download(files[0].path, tmp_path, worker=0)
    assert (saved, saved.read_text()) == (tmp_path / "result.txt", "kept\n")
    with pytest.raises(InvalidSpecError, match="not in a volume"):
        job.download("/etc/passwd", tmp_path / "passwd")
    assert not (tmp_path / "passwd").exists()
    job.delete()


def test_a_jobs_history_is_kept_and_its_use_is_summed(client: MPIJobClient, namespace: str) -> None:
    job = client.create_mpijob(name="kept", image=IMAGE, command=["true"], cpu_per_worker="100m")
    job.wait_for_completion(60)
    job.delete(wait=True)
    found = job.history()
    assert (found.uid, found.phase) == (job.uid, "Succeeded")
    assert [state.phase for state in found.states][-1] == "Succeeded"
    # Usage is stored every few seconds.
    deadline = time.monotonic() + 60
    while not (usage := client.usage(by=["job"], since="1d").usage):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert [row.job for row in usage] == ["kept"]
    # One run is too few for a figure.
    advice = client.advice()
    judged = [role.memory for program in advice.programs for role in program.roles]
    assert all(memory and memory.verdict == "Unknown" for memory in judged)
    assert advice.basis
    operations = list(client.audit(namespace=namespace))
    assert {line.verb for operation in operations for line in operation.lines} >= {"CreateJob", "DeleteJob"}
    numbers = [int(line.number) for operation in operations for line in operation.lines]
    exported = list(client.export_audit(after=min(numbers) - 1, through=min(numbers)))
    assert len(exported) == 1


def test_rules_say_who_is_notified_and_their_webhooks_are_verified(client: MPIJobClient) -> None:
    made = client.put_notification_rule("failures", url="https://example.invalid/hook", phases=["Failed"])
    assert (made.name, made.phases, made.enabled) == ("failures", ["Failed"], True)
    assert made.secret.startswith("whsec_")
    assert client.notification_rule("failures").secret == "", "the key is shown once"
    job = client.create_mpijob(name="told", image=IMAGE, command=["x"], suspend=True)
    assert job.notify(url="https://example.invalid/hook").job_uid == job.uid
    assert [rule.name for rule in client.notification_rules()] == ["failures", "job-told"]
    long = client.put_notification_rule("long", url="https://example.invalid/hook", runs_longer_than="24h")
    assert (long.runs_longer_than, long.stalled, long.quota_percent) == ("1d", False, None)
    assert client.alerts().alerts == []
    client.delete_notification_rule("long")
    sent = client.test_notification_rule("failures")
    assert sent.id in {delivery.id for delivery in client.deliveries()}
    client.delete_notification_rule("failures")
    with pytest.raises(NotFoundError):
        client.notification_rule("failures")
