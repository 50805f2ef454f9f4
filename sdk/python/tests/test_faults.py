"""A bad network, a service that is away, and wrong answers."""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from faults import FULL, NOT_THE_SERVICE, TOO_MANY, Proxy, proxy
from local_cluster import IMAGE, Cluster

from openshift_ai.training import (
    Backoff,
    FieldFault,
    MPIJobClient,
    TooManyRequestsError,
    TrainingError,
    UnauthenticatedError,
    UnavailableError,
    UsageError,
)

QUICK = Backoff(attempts=4, first=0.01, longest=2)
#: Writes numbers, slowly at first, so that connections break within.
COUNTS = [
    "python",
    "-uc",
    "import time\nfor i in range(2000):\n    print('line', i)\n    time.sleep(0.002 if i < 300 else 0)",
]


@pytest.fixture
def bad(cluster: Cluster) -> Iterator[Proxy]:
    with proxy(cluster.url, cluster.ca) as made:
        yield made


@pytest.fixture
def behind(bad: Proxy, cluster: Cluster, namespace: str) -> Iterator[MPIJobClient]:
    with MPIJobClient(bad.url, token=cluster.token, namespace=namespace, backoff=QUICK) as made:
        yield made


def test_a_request_is_repeated_within_bounds(bad: Proxy, behind: MPIJobClient) -> None:
    bad.refuse(2)
    assert behind.whoami().user
    assert bad.connections == 3
    bad.cut_all()
    assert behind.whoami().user, "a kept connection that broke meanwhile is replaced"
    bad.cut_all()
    before = bad.connections
    bad.refuse(9)
    with pytest.raises(UnavailableError, match="does not answer") as caught:
        behind.whoami()
    assert caught.value.retryable
    assert bad.connections - before == QUICK.attempts
    bad.faults.clear()


def test_too_many_requests_wait_as_long_as_the_service_says(bad: Proxy, behind: MPIJobClient) -> None:
    bad.answer(TOO_MANY)
    began = time.monotonic()
    assert behind.whoami().user
    assert 1 <= time.monotonic() - began < 10
    with MPIJobClient(bad.url, token="x", backoff=Backoff(attempts=1)) as once:
        bad.answer(TOO_MANY)
        with pytest.raises(TooManyRequestsError) as caught:
            once.whoami()
    assert (caught.value.code, caught.value.retry_after, caught.value.status) == ("TooManyRequests", 1, 429)


def test_an_answer_that_asks_for_a_longer_wait_than_the_longest_is_raised_at_once(bad: Proxy, cluster: Cluster) -> None:
    with MPIJobClient(bad.url, token=cluster.token) as client:
        bad.answer(FULL)
        began = time.monotonic()
        with pytest.raises(UnavailableError, match="full") as caught:
            client.whoami()
        assert time.monotonic() - began < 5
        assert (caught.value.retry_after, caught.value.reason, bad.faults) == (30, "StorageFull", [])


def test_the_first_wait_that_is_noticed_is_logged_once(
    bad: Proxy, cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    slow = Backoff(attempts=4, first=1.1, factor=1, jitter=0)
    with MPIJobClient(bad.url, token=cluster.token, backoff=slow) as client:
        bad.refuse(2)
        assert client.whoami().user
    told = [record.getMessage() for record in caplog.records if record.name == "openshift_ai.training"]
    assert len(told) == 1, told
    assert "does not answer" in told[0]
    assert told[0].endswith("; trying again in 1 s")


def test_an_answer_that_is_not_the_services_is_plainly_said(bad: Proxy, cluster: Cluster) -> None:
    with MPIJobClient(bad.url, token="x", backoff=Backoff(attempts=1)) as once:
        bad.answer(NOT_THE_SERVICE)
        with pytest.raises(UnavailableError, match="HTTP 502, but not as the training service does") as refused:
            once.whoami()
        assert "no route" in str(refused.value)
        bad.answer(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
        with pytest.raises(TrainingError, match="not as the training service does"):
            once.whoami()
        for line in (b"<html>", b"7"):
            bad.answer(
                b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b\n" % (len(line) + 1, line)
            )
            with pytest.raises(TrainingError, match="a line that is not JSON") as caught:
                next(once.watch(all_namespaces=True))
            assert not caught.value.retryable


def test_a_creation_whose_answer_is_lost_creates_one_job(bad: Proxy, behind: MPIJobClient) -> None:
    bad.drop_answer()
    job = behind.create_mpijob(name="once", image=IMAGE, command=["x"], suspend=True)
    assert [found.uid for found in behind.list()] == [job.uid]
    bad.cut_all()
    bad.drop_answer()
    copied = job.clone(set=["suspend=true"])
    assert sorted(found.name for found in behind.list()) == sorted([job.name, copied.name])


def test_logs_continue_after_breaks_without_loss_and_without_doubles(bad: Proxy, behind: MPIJobClient) -> None:
    job = behind.create_mpijob(name="counts", image=IMAGE, command=COUNTS, in_launcher=True, retries=0)
    job.wait_until("Running", 60)
    bad.cut_all()
    bad.cut_after(1, 700, 5_000, 5_001, 30_000)
    lines = list(job.logs(follow=True))
    assert not bad.faults, "every break has happened"
    assert lines == [f"line {index}" for index in range(2000)]
    bad.cut_all()
    bad.cut_after(50_000, 100_000)
    assert list(job.logs()) == lines
    assert list(job.logs(tail=3)) == lines[-3:]


def test_a_log_goes_on_at_the_last_place_of_each_pod() -> None:
    from openshift_ai.training._resume import LogPosition

    def line(pod: str, cursor: str, *also: tuple[str, str]) -> dict[str, Any]:
        others = [{"pod": other, "cursor": place} for other, place in also]
        return {"type": "line", "pod": pod, "text": cursor, "cursor": cursor, "also": others}

    position = LogPosition({"tail": 100})
    assert position.query() == {"tail": 100, "cursor": None}
    position.lines([line("a", "a1"), line("b", "b1"), {"type": "note", "text": "x"}, line("a", "a2", ("c", "c1"))])
    assert position.query()["cursor"] == ["a2", "b1", "c1"]
    assert position.notes([{"type": "note", "text": "x"}, {"type": "waiting", "pod": "a", "text": "a node"}] * 2) == [
        "x",
        "a waits for a node",
    ]
    position.lines([line("b", "", ("c", ""))])
    assert position.query()["cursor"] == ["a2", "b1", "c1"], "lines before it are still to come"


def test_a_wait_survives_breaks(bad: Proxy, behind: MPIJobClient) -> None:
    job = behind.create_mpijob(name="waits", image=IMAGE, command=["sleep", "2"], workers=1)
    bad.cut_all()
    bad.cut_after(1, 300, 400)
    seen = [status.model_dump_json() for status in job.watch(timeout=60)]
    assert job.status.has_succeeded
    assert len(seen) == len(set(seen)), "what is repeated after a break is not reported again"


def test_a_service_that_restarts_is_waited_for(cluster: Cluster, namespace: str) -> None:
    with MPIJobClient(cluster.url, token=cluster.token, ca=cluster.ca, namespace=namespace) as client:
        client.create_mpijob(name="before", image=IMAGE, command=["x"], suspend=True)
        changes = client.watch(timeout=120)
        assert next(changes).status.name == "before"
        cluster.local("down")

        def up() -> None:
            cluster.up()
            with MPIJobClient(cluster.url, token=cluster.token, ca=cluster.ca, namespace=namespace) as other:
                other.create_mpijob(name="after", image=IMAGE, command=["x"], suspend=True)

        thread = threading.Thread(target=up)
        thread.start()
        names = []
        for change in changes:
            names.append((change.type, change.status.name))
            if ("added", "after") in names:
                break
        thread.join()
        assert ("added", "before") not in names, "the snapshot of the new service brings nothing that was known"
        assert ("deleted", "before") not in names


def test_a_service_that_is_away_or_not_trusted_is_plainly_said(cluster: Cluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nowhere = f"https://127.0.0.1:{taken.getsockname()[1] + 1}"
    with (
        MPIJobClient(nowhere, token="x", backoff=QUICK) as client,
        pytest.raises(UnavailableError, match="does not answer") as away,
    ):
        client.whoami()
    assert "odh local up" in away.value.hint
    assert away.value.__suppress_context__, "the traceback has no errors of the HTTP library"
    with MPIJobClient(cluster.url, token="x") as client, pytest.raises(UnavailableError) as caught:
        client.whoami()
    assert (caught.value.reason, caught.value.retryable) == ("CertificateNotTrusted", False)
    assert "ODH_TRAINING_CA" in caught.value.hint
    with MPIJobClient(cluster.url, token="wrong", ca=cluster.ca) as client, pytest.raises(UnauthenticatedError):
        client.whoami()


def test_a_slow_service_is_not_waited_for_longer_than_asked(cluster: Cluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        began = time.monotonic()
        with (
            MPIJobClient(url, token="x", timeout=0.2, backoff=Backoff(attempts=2, first=0.01)) as client,
            pytest.raises(UnavailableError, match="does not answer"),
        ):
            client.whoami()
        assert time.monotonic() - began < 5


def test_a_timeout_of_the_callers_own_is_not_taken_for_one_of_the_network(cluster: Cluster) -> None:
    def too_late(_signal: int, _frame: object) -> None:
        raise TimeoutError("mine")

    before = signal.signal(signal.SIGALRM, too_late)
    try:
        # It accepts connections, and says nothing.
        with socket.create_server(("127.0.0.1", 0)) as silent:
            url = f"https://127.0.0.1:{silent.getsockname()[1]}"
            with MPIJobClient(url, token="x", ca=cluster.ca) as client:
                signal.setitimer(signal.ITIMER_REAL, 0.5)
                with pytest.raises(TimeoutError, match=r"^mine$"):
                    client.get("pi", namespace="team")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_newer_service_is_understood(bad: Proxy, behind: MPIJobClient) -> None:
    row = b'{"kind":"MPIJob","namespace":"n","name":"x","phase":"Hibernating","workers":{"of":2,"frozen":2},"since":7}'
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
    body = b'{"row":%b,"horoscope":{}}' % row
    bad.answer(head % len(body) + body)
    job = behind.get("x")
    assert (job.status.phase, job.status.workers_total, job.status.has_ended) == ("Hibernating", 2, False)


def test_an_older_service_is_plainly_said(cluster: Cluster) -> None:
    from openshift_ai.training._models import Method

    with (
        MPIJobClient(cluster.url, token=cluster.token, ca=cluster.ca) as client,
        pytest.raises(UsageError, match="has no GET /api/v1/later") as caught,
    ):
        client.transport.call(Method("GET", "/api/v1/later"), {})
    assert caught.value.reason == "NotSupported"
    assert "older" in caught.value.hint


def test_a_fault_that_the_message_says_is_not_said_twice() -> None:
    fault = FieldFault("worker", "cannot be set", "use workers")
    assert str(TrainingError("worker: cannot be set; use workers", fields=[fault])).count("cannot be set") == 1
    assert str(TrainingError("found 2 errors", fields=[fault])).count("cannot be set") == 1
