"""PyTorchJobs and TFJobs: the calls are those of MPIJobs. Nothing runs them here, so the tests play their operators.
TrainJobs are run by their runtimes."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

import pytest
import yaml
from local_cluster import IMAGE, Cluster

from openshift_ai.training import ConflictError, ForbiddenError, MPIJob, MPIJobClient, NotFoundError
from openshift_ai.training._sync.client import Kind

POD = {"spec": {"containers": [{"name": "pytorch", "image": IMAGE}]}}
#: The version, and the specification, of a job of each kind.
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "PyTorchJob": (
        "kubeflow.org/v1",
        {"pytorchReplicaSpecs": {"Master": {"template": POD}, "Worker": {"replicas": 1, "template": POD}}},
    ),
    "TFJob": ("kubeflow.org/v1", {"tfReplicaSpecs": {"Worker": {"replicas": 2, "template": POD}}}),
}


def manifest(kind: str, name: str) -> str:
    version, spec = KINDS[kind]
    return json.dumps({"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec})


def says(cluster: Cluster, job: MPIJob, reason: str) -> None:
    """Writes an event about a job, as its operator would."""
    about = {"kind": job.kind, "apiVersion": KINDS[job.kind][0], "name": job.name, "uid": job.uid}
    now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    event = {
        "metadata": {"name": f"{job.name}.1"},
        "involvedObject": {**about, "namespace": job.namespace},
        "reason": reason,
        "message": "played",
        "type": "Normal",
        "firstTimestamp": now,
        "lastTimestamp": now,
    }
    cluster.apply(f"/api/v1/namespaces/{job.namespace}/events", event)


@pytest.mark.parametrize("word", ["pytorchjob", "tfjob"])
def test_a_job_of_another_operator_is_used_in_the_same_way(cluster: Cluster, client: MPIJobClient, word: Kind) -> None:
    kind = next(kind for kind in KINDS if kind.lower() == word)
    job = client.create(manifest(kind, "other"))
    assert (job.kind, job.name, job.status.workers_total) == (kind, "other", 2)
    with pytest.raises(ConflictError):
        client.create(manifest(kind, "other"))
    # The service may have started before the kind was there; it looks again after half a minute.
    seen = next(change.status for change in client.watch(kind=word, timeout=90) if change.status.name == "other")
    assert seen.uid == job.uid
    assert [found.kind for found in client.list(kind=word)] == [kind]
    assert list(client.list(kind="mpijob")) == []
    again = client.get("other", kind=word)
    assert again.uid == job.uid
    assert again.suspend().phase_reason == "Suspended"
    assert client.get("other", kind=word).status.phase_reason == "Suspended"
    assert job.resume().phase_reason != "Suspended"
    says(cluster, job, "Played")
    assert [event.reason for event in job.events()] == ["Played"]
    with pytest.raises(NotFoundError, match="other"):
        job.get_logs()
    exported = yaml.safe_load(job.to_yaml())
    assert (exported["kind"], exported["metadata"]["name"]) == (kind, "other")
    copied = job.clone(new_name="copied")
    assert (copied.kind, copied.name) == (kind, "copied")
    assert client.compare(["other", "copied"], kind=word).columns == ["other", "copied"]
    assert client.batch("suspend", ["copied"], kind=word).failed == 0
    copied.delete(wait=True)
    job.delete(wait=True)
    with pytest.raises(NotFoundError):
        client.get("other", kind=word)


def test_a_trainjob_is_used_in_the_same_way(client: MPIJobClient) -> None:
    spec = {"runtimeRef": {"name": "openmpi"}, "trainer": {"numNodes": 2, "image": IMAGE}, "suspend": True}
    content = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "metadata": {"name": "other"}}
    job = client.create(json.dumps({**content, "spec": spec}))
    assert (job.kind, job.name) == ("TrainJob", "other")
    with pytest.raises(ConflictError):
        client.create(json.dumps({**content, "spec": spec}))
    seen = next(change.status for change in client.watch(kind="trainjob", timeout=90) if change.status.name == "other")
    assert seen.uid == job.uid
    assert [found.kind for found in client.list(kind="trainjob")] == ["TrainJob"]
    assert client.get("other", kind="trainjob").uid == job.uid
    exported = yaml.safe_load(job.to_yaml())
    assert (exported["kind"], exported["spec"]["runtimeRef"]["name"]) == ("TrainJob", "openmpi")
    job.delete(wait=True)
    with pytest.raises(NotFoundError):
        client.get("other", kind="trainjob")


def test_a_preflight_is_for_a_kind(cluster: Cluster, namespace: str) -> None:
    token = cluster.user(namespace, "nobody", None)
    with MPIJobClient(cluster.url, token=token, ca=cluster.ca, namespace=namespace) as client:
        with pytest.raises(ForbiddenError, match="'create' for PyTorchJobs"):
            client.preflight(kind="pytorchjob")
        with pytest.raises(ForbiddenError, match="'create' for MPIJobs"):
            client.preflight()
