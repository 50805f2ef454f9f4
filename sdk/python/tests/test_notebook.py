"""What is shown in a notebook, and a notebook that is executed."""

from __future__ import annotations

import json
import re
import sys
import threading
from pathlib import Path
from typing import Any

import nbformat
import pytest
from local_cluster import IMAGE, Cluster, printed
from nbclient import NotebookClient

from openshift_ai.training import JobDetails, JobStatus, JobWarning, LiveView, MPIJobClient, _html, show
from openshift_ai.training._durations import age
from openshift_ai.training._plot import chart
from openshift_ai.training._status import Metrics

NOTEBOOKS = Path(__file__).parents[3] / "examples/notebooks"
EVIL = "<script>alert('x')</script>&\""
SLOW = ["sh", "-c", "for i in 1 2 3; do echo step $i; sleep 0.4; done"]


def execute(name: str, cluster: Cluster, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs a notebook from the first cell to the last; returns it with its outputs."""
    notebook = nbformat.read(NOTEBOOKS / name, as_version=4)
    # A kernel of this Python, whatever others are installed.
    kernel = tmp_path / "kernels/python3"
    kernel.mkdir(parents=True)
    arguments = [sys.executable, "-W", "error:::openshift_ai", "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (kernel / "kernel.json").write_text(json.dumps({"argv": arguments, "display_name": "x", "language": "python"}))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    config = cluster.kubeconfig.read_text().replace("namespace: default", f"namespace: {namespace}")
    (tmp_path / "kubeconfig").write_text(config)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "kubeconfig"))
    monkeypatch.setenv("ODH_HOME", str(cluster.home))
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute(cwd=str(tmp_path))
    return notebook


# ipykernel and zmq of other people warn about each other; the cells themselves run with warnings as errors.
@pytest.mark.filterwarnings("default")
def test_the_programs_of_the_requirements_run_in_a_notebook(
    cluster: Cluster, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.namespace("ml-team")
    cluster.grow()
    notebook = execute("programs.ipynb", cluster, namespace, tmp_path, monkeypatch)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for cell, name in zip(cells, ("requirements.py", "short.py"), strict=True):
        assert cell.source == (Path(__file__).parent / "programs" / name).read_text().rstrip("\n")
    # Warnings and what a job waits for are on stderr.
    texts = [[one.get("text", "") for one in cell.outputs if one.get("name") == "stdout"] for cell in cells]
    whole, short = ["".join(text).splitlines() for text in texts]
    assert whole[-1] == "Job status: Succeeded, Workers running: 0"
    assert printed(short) == [f"rank {rank} of 4 trains" for rank in range(4)]


@pytest.mark.filterwarnings("default")
def test_the_example_notebook_runs_from_the_first_cell_to_the_last(
    cluster: Cluster, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notebook = execute("training.ipynb", cluster, namespace, tmp_path, monkeypatch)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    text = "".join(output.get("text", "") for output in outputs)
    assert "signed in as kubernetes-admin" in text
    assert "step=3 total=9" in text
    assert "{'total': '9'}" in text
    assert re.search(r"^Succeeded after [0-9ms]+$", text, re.MULTILINE)
    html = "".join(output.get("data", {}).get("text/html", "") for output in outputs)
    assert "notebook" in html
    assert "✔ Succeeded" in html


def test_every_text_of_a_job_is_escaped(client: MPIJobClient) -> None:
    status = {"kind": "MPIJob", "namespace": EVIL, "name": EVIL, "phase": EVIL, "phaseReason": EVIL}
    failure = {"cause": EVIL, "message": EVIL, "suggestion": EVIL, "evidence": [EVIL]}
    pod = {"name": EVIL, "role": EVIL, "state": EVIL, "node": EVIL}
    row = JobStatus.model_validate(status)
    details = JobDetails.model_validate({"row": status, "failure": failure, "pods": [pod]})
    assert "<script" not in details._repr_html_()
    assert "<script" not in _html.live(row, [EVIL], EVIL)
    assert "<script" not in chart(EVIL, [(EVIL, [0, 1], [1, 2])])
    client.create_mpijob(name="shown", image=IMAGE, command=["x"], suspend=True)
    assert "shown" in client.get("shown")._repr_html_()
    assert "<table" in client.jobs()._repr_html_()
    assert "No jobs" in client.jobs(search="nothing")._repr_html_()


def test_each_gpu_of_each_pod_is_a_line_of_a_chart() -> None:
    def gpu(number: str, values: list[int]) -> dict[str, Any]:
        common = {"source": "prometheus", "start": "2026-01-31T00:00:00Z", "seconds": [0, 15]}
        return {"name": "gpuUtilizationPercent", "gpu": number, "values": values, **common}

    pods = [
        {"name": "a-worker-0", "role": "Worker", "index": 0, "measured": [gpu("0", [90, 91]), gpu("1", [5, 6])]},
        {"name": "a-worker-1", "role": "Worker", "index": 1, "measured": []},
    ]
    drawn = Metrics.model_validate({"pods": pods})._repr_html_()
    assert "<b>GPU utilization (%)</b> (5 to 91): a-worker-0 GPU 0, a-worker-0 GPU 1" in drawn
    assert "Network" not in drawn


def test_times_are_short() -> None:
    from datetime import datetime, timedelta, timezone

    began = datetime(2026, 1, 31, tzinfo=timezone.utc)
    lengths = [5, 65, 3_661, 90_061]
    assert [age(began, began + timedelta(seconds=s)) for s in lengths] == ["5s", "1m5s", "1h1m", "1d1h"]
    assert age(None) == "-"


def test_a_live_view_follows_the_job_and_ends_with_it(client: MPIJobClient, capsys: pytest.CaptureFixture[str]) -> None:
    job = client.create_mpijob(name="live", image=IMAGE, command=SLOW, in_launcher=True)
    view = show(job)
    assert view.wait(60)
    assert view.status.has_succeeded
    assert view.lines == ["step 1", "step 2", "step 3"]
    printed = capsys.readouterr().out
    assert [line for line in printed.splitlines() if line.startswith("step")] == view.lines
    assert "live: Succeeded" in printed
    assert "step 3" in view._repr_html_()
    view.close()


def test_a_live_view_says_what_the_job_waits_for(client: MPIJobClient, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.warns(JobWarning, match=r"stuck: it waits: "):
        job = client.create_mpijob(name="stuck", image=IMAGE, command=["x"], workers=1, memory_per_worker="900Ti")
    view = show(job)
    # The view does not end: each round waits for it a moment.
    has_note = any("Unschedulable" in view.note or view.wait(0.2) for _ in range(300))
    drawn = view._repr_html_()
    view.close()
    assert has_note, view.note
    assert not view.status.has_ended
    assert re.search(r'role="status">[^<]*Unschedulable', drawn)
    # Its state, and below that what it waits for.
    printed = capsys.readouterr().out
    assert re.search(r"^stuck: Unschedulable: .*memory", printed, re.MULTILINE), printed
    assert view.lines == []
    job.delete(force=True)


def test_a_live_view_that_is_closed_leaves_the_job(client: MPIJobClient) -> None:
    job = client.create_mpijob(
        name="closed", image=IMAGE, command=["sh", "-c", "echo x; exec sleep 1000"], in_launcher=True
    )
    view = LiveView(job).start()
    job.wait_until("Running", 60)
    view.close()
    assert not client.get("closed").status.has_ended
    job.delete(force=True, wait=True)
    for thread in threading.enumerate():
        if thread.name == "live-closed":
            thread.join(30)
            assert not thread.is_alive()


def test_the_widget_shows_the_view_and_ends_the_job(client: MPIJobClient) -> None:
    from openshift_ai.training._widget import JobWidget

    job = client.create_mpijob(name="widget", image=IMAGE, command=["x"], suspend=True)
    view = LiveView(job)
    widget = JobWidget(view, job.delete)
    widget.redraw(view)
    assert "widget" in widget.content
    assert not widget.has_ended
    widget._asked(widget, {"action": "other"}, [])
    assert client.get("widget").name == "widget"
    widget._asked(widget, {"action": "delete"}, [])
    assert client.jobs() == [] or client.get("widget").status.deleting
