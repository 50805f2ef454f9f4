"""Code that is shipped with a job: functions, folders and files."""

from __future__ import annotations

import functools
import math as np
import random
from pathlib import Path
from typing import Any

import pytest
import yaml
from local_cluster import IMAGE, printed

from openshift_ai.training import InvalidSpecError, JobFailedError, MPIJobClient, _function
from openshift_ai.training._checks import faults
from openshift_ai.training._files import LEFT_OUT, SECRETS, Link, files_of
from openshift_ai.training._request import body
from openshift_ai.training._spec import made

REPOSITORY = Path(__file__).parents[3]
BASE: dict[str, Any] = {"name": "resnet", "image": IMAGE}


def train(steps: int, name: str = "x") -> None:
    import os

    print(
        "trained",
        steps,
        name,
        "rank",
        os.environ["OMPI_COMM_WORLD_RANK"],
        "code",
        any("ODH_CODE" in v for v in os.environ),
    )


def test_a_function_runs_on_every_rank(client: MPIJobClient) -> None:
    job = client.create_mpijob(
        name="function", image=IMAGE, code=train, code_arguments={"steps": 3, "name": "it's"}, workers=2, retries=0
    )
    job.wait_for_completion(60)
    assert printed(job.logs()) == [f"trained 3 it's rank {rank} code False" for rank in range(2)]


def one_rank_raises() -> None:
    from mpi4py import MPI

    if MPI.COMM_WORLD.rank == 1:
        raise ValueError("bad")
    MPI.COMM_WORLD.Barrier()


def one_rank_leaves() -> None:
    import sys

    from mpi4py import MPI

    if MPI.COMM_WORLD.rank == 1:
        sys.exit("no data")
    MPI.COMM_WORLD.Barrier()


def one_rank_raises_without_mpi() -> None:
    import os

    if os.environ["OMPI_COMM_WORLD_RANK"] == "1":
        raise KeyError("LR")


def test_a_function_that_raises_in_one_rank_ends_the_job(client: MPIJobClient) -> None:
    cases = [
        (one_rank_raises, "RankAborted", ["ValueError: bad"]),
        (one_rank_leaves, "RankAborted", []),
        (one_rank_raises_without_mpi, "RankExited", ["KeyError: 'LR'"]),
    ]
    for function, cause, last in cases:
        name = function.__name__.replace("_", "-")
        job = client.create_mpijob(name=name, image=IMAGE, code=function, workers=2, retries=0)
        with pytest.raises(JobFailedError) as caught:
            job.wait_for_completion(60)
        error = caught.value
        assert (error.cause, error.traceback[-1:]) == (cause, tuple(last)), str(error)
        assert not any("_odh_run" in line for line in error.traceback), "the traceback is the function's"
    assert "no data" in client.get("one-rank-leaves").get_logs()


def test_a_folder_runs_on_every_rank_and_ranks_of_a_worker_share_it(client: MPIJobClient, tmp_path: Path) -> None:
    (tmp_path / "pack/inner").mkdir(parents=True)
    (tmp_path / "pack/__pycache__").mkdir()
    (tmp_path / "pack/__pycache__/x.pyc").write_bytes(b"x")
    (tmp_path / "pack/inner/__init__.py").write_text("VALUE = 42\n")
    # Noise that does not compress: several variables are needed.
    noise = random.Random(1).randbytes(150_000)
    (tmp_path / "pack/noise").write_bytes(noise)
    (tmp_path / "pack/main.py").write_text(
        "import os, inner\nprint(inner.VALUE, len(open('noise', 'rb').read()), os.listdir('.').count('__pycache__'))\n"
    )
    job = client.create_mpijob(
        name="folder", image=IMAGE, command=["python", "main.py"], code=tmp_path / "pack", workers=1, slots=2, retries=0
    )
    job.wait_for_completion(60)
    assert [line.split()[:2] for line in printed(job.logs())] == [["42", "150000"]] * 2


def test_folders_of_a_list_keep_their_names_and_two_files_of_one_path_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("main.py", "one/main.py", "two/main.py", "two/deep/__init__.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    monkeypatch.chdir(tmp_path / "two")
    assert sorted(files_of(".")) == ["deep/__init__.py", "main.py"]
    assert sorted(files_of(["."])) == ["two/deep/__init__.py", "two/main.py"]
    found = files_of(["../main.py", tmp_path / "one", "deep"])
    assert found == {path: path.encode() for path in ("main.py", "one/main.py")} | {
        "deep/__init__.py": b"two/deep/__init__.py"
    }
    with pytest.raises(InvalidSpecError, match=r"two files main\.py, of \.\./one/main\.py and main\.py"):
        files_of(["../one/main.py", "main.py"])


def test_a_link_that_leads_out_of_a_shipped_folder_is_refused(tmp_path: Path) -> None:
    secret = tmp_path / "id_ed25519"
    secret.write_text("SECRET")
    (tmp_path / "repo/data").mkdir(parents=True)
    (tmp_path / "repo/data/train.csv").write_text("1")
    for name, target in (("config.txt", "../id_ed25519"), ("all", str(tmp_path)), ("deep", "data/up")):
        link = tmp_path / "repo" / name
        link.symlink_to(target)
        (tmp_path / "repo/data/up").unlink(missing_ok=True)
        (tmp_path / "repo/data/up").symlink_to(secret)
        for code in (tmp_path / "repo", [tmp_path / "repo"]):
            with pytest.raises(InvalidSpecError, match="leads out of the folder"):
                files_of(code)
        link.unlink()
    (tmp_path / "repo/data/up").unlink()
    (tmp_path / "repo/.env").write_text("SECRET")
    (tmp_path / "repo/settings").symlink_to(".env")
    with pytest.raises(InvalidSpecError, match=r"has the link settings .* to \.env, which is not shipped"):
        files_of(tmp_path / "repo")
    link = tmp_path / "key"
    link.symlink_to(secret)
    assert files_of(link) == {"key": b"SECRET"}, "it is named"


def test_links_within_a_shipped_folder_stay_links(client: MPIJobClient, tmp_path: Path) -> None:
    (tmp_path / "data/of").mkdir(parents=True)
    (tmp_path / "data/of/text").write_text("seven")
    (tmp_path / "data/again").symlink_to("of/text")
    (tmp_path / "data/of/whole").symlink_to(tmp_path / "data/of", target_is_directory=True)
    (tmp_path / "data/of/broken").symlink_to("nowhere")
    assert files_of(tmp_path / "data") == {
        "again": Link("of/text"),
        "of/text": b"seven",
        "of/whole": Link("."),
    }
    command = ["cat", "data/again", "data/of/whole/text"]
    job = client.create_mpijob(name="links", image=IMAGE, command=command, code=[tmp_path / "data"], retries=0)
    job.wait_for_completion(60)
    assert printed(job.logs()) == ["sevenseven"]


def test_the_command_line_leaves_out_the_same_files() -> None:
    shared = yaml.safe_load((REPOSITORY / "openapi/shipped.yaml").read_text())
    assert set(LEFT_OUT) == set(shared["useless"])
    assert list(SECRETS) == shared["secrets"]


def test_files_that_usually_hold_secrets_are_shipped_only_by_their_names(tmp_path: Path) -> None:
    names = ["main.py", ".env", ".env.local", "key.pem", ".netrc", ".aws/credentials", "sub/.kube/config", ".ssh/id"]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    assert list(files_of(tmp_path)) == ["main.py"]
    assert sorted(files_of([tmp_path / "main.py", tmp_path / ".env", tmp_path / ".aws"])) == [
        ".aws/credentials",
        ".env",
        "main.py",
    ]


if True:

    def indented() -> str:
        """Has texts that begin at the margin."""
        table = """
first
  second
"""
        number = 3
        shown = f"""
{number}
at the margin {"a"}
"""
        # A comment at the margin.
        return table + shown


def test_a_function_in_a_block_keeps_texts_that_begin_at_the_margin() -> None:
    program = _function.program(indented, {})
    loaded: dict[str, Any] = {"__name__": "loaded"}
    exec(program, loaded)
    assert loaded["indented"]() == indented() == "\nfirst\n  second\n\n3\nat the margin a\n"


def test_a_function_that_cannot_be_shipped_says_why() -> None:
    def decorator(function: Any) -> Any:
        return function

    @decorator
    def decorated() -> None: ...

    async def waits() -> None: ...

    for function, fault in ((decorated, "decorators"), (waits, "asynchronous"), (lambda: None, "not a plain")):
        with pytest.raises(InvalidSpecError, match=fault):
            _function.program(function, {})


LR = 0.1


def uses_its_file(steps: int) -> None:
    class Net:
        depth = 2
        width = depth * 2

    def inner() -> None:
        print([np.sqrt(LR) for _ in range(steps)], nosuch, train)  # type: ignore[name-defined]  # noqa: F821

    inner()


def uses_what_it_has(steps: int, *rest: int, name: str = "x") -> JobFailedError | None:
    """The annotation is not evaluated, and every name is of the function or of Python."""
    global count  # noqa: PLW0603
    import math as np

    try:
        count = len(rest) + np.sqrt(steps)  # type: ignore[name-defined]
    except ValueError as error:
        print(error, __name__, __file__)
    if steps > 0:
        uses_what_it_has(steps - 1, name=name)
    return None


def test_names_that_a_function_does_not_define_are_refused() -> None:
    with pytest.raises(InvalidSpecError, match="uses LR, nosuch, np, train, which it does not define") as caught:
        body(made({**BASE, "code": uses_its_file, "code_arguments": {"steps": 1}}))
    assert caught.value.hint.startswith("write import math as np within the function; ")
    assert body(made({**BASE, "code": uses_what_it_has, "code_arguments": {"steps": 1}}))


def test_arguments_that_do_not_fit_a_function_are_refused() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({}, "missing a required argument: 'steps'"),
        ({"steps": 1, "stepz": 2}, "got an unexpected keyword argument 'stepz'"),
    ]
    for arguments, fault in cases:
        with pytest.raises(InvalidSpecError, match=fault):
            body(made({**BASE, "code": train, "code_arguments": arguments}))


def test_a_partial_is_called_with_its_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    def show(*words: str, end: str) -> None:
        print(*words, end=end)

    source = _function.program(functools.partial(functools.partial(show, "a"), "b", end="!"), {"end": "?"})
    exec(source, {"__name__": "__main__"})
    assert capsys.readouterr().out == "a b?"
    with pytest.raises(InvalidSpecError, match="multiple values"):
        _function.program(functools.partial(train, 3), {"steps": 4})


def test_code_that_cannot_be_shipped_is_refused(tmp_path: Path) -> None:
    large = tmp_path / "large.bin"
    large.write_bytes(random.Random(1).randbytes(300_000))
    word = "captured"

    def closure() -> None:
        print(word)

    cases: list[tuple[dict[str, Any], str]] = [
        ({"code": large, "command": ["x"]}, "more than 256 KiB"),
        ({"code": [tmp_path / "none.py"], "command": ["x"]}, "neither a file nor a folder"),
        ({"code": closure}, "uses word"),
        ({"code": lambda: None}, "not a plain function"),
        ({"code": len}, "source cannot be read"),
        ({"code": train, "code_arguments": {"steps": {1, 2}}}, "JSON cannot write"),
    ]
    for fields, fault in cases:
        with pytest.raises(InvalidSpecError, match=fault):
            body(made({**BASE, **fields}))
    paths: list[tuple[dict[str, Any], list[str]]] = [
        ({"code": large, "command": ["mpirun", "x"]}, ["code"]),
        ({"code": train, "command": ["python", "x.py"]}, ["command"]),
        ({"code": train, "in_launcher": True}, ["code"]),
        ({"code": large, "command": ["x"], "code_arguments": {"steps": 1}}, ["code_arguments"]),
        ({"code": "nosuch.py"}, ["command", "code"]),
    ]
    for fields, wanted in paths:
        assert [fault.path for fault in faults(made({**BASE, **fields}))] == wanted
    with pytest.raises(InvalidSpecError, match=r"code names nosuch\.py, which is neither a file nor a folder"):
        body(made({**BASE, "code": "nosuch.py"}))
