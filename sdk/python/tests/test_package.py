"""The package: what it exports, how long it takes to import, what is in it once it is built and installed."""

from __future__ import annotations

import ast
import graphlib
import importlib.metadata
import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from openshift_ai import training
from openshift_ai.training import _PLACES

FOLDER = Path(__file__).parents[1]
JOB = training.JobStatus(kind="MPIJob", namespace="n", name="x", phase="Failed")
SOURCE = FOLDER / "src/openshift_ai/training"


def python(program: str, *arguments: str, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments, "-c", program],
        env={**os.environ, "PYTHONPATH": str(FOLDER / "src"), **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_public_name_is_there_for_type_checkers_and_at_run_time() -> None:
    tree = ast.parse((SOURCE / "__init__.py").read_text())
    typed = {
        alias.name: node.module
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert typed == _PLACES
    written = next(n for n in tree.body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "__all__")
    names = ast.literal_eval(written.value)
    assert sorted(names) == sorted(["__version__", *_PLACES]), "tools read it without running it"
    for name in training.__all__:
        assert getattr(training, name) is not None
    assert dir(training) == sorted(training.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        getattr(training, "Nothing")  # noqa: B009 - a type checker refuses the plain way


def test_the_client_has_a_general_name() -> None:
    assert training.TrainingClient is training.MPIJobClient
    assert training.AsyncTrainingClient is training.AsyncMPIJobClient


def imports_of(path: Path) -> set[str]:
    """The modules of the package that a module imports: at any time, or for its types only."""
    inside = path.relative_to(SOURCE).with_suffix("").parts
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = inside[: len(inside) - node.level]
            names = [node.module] if node.module else [alias.name for alias in node.names]
            found |= {".".join([*base, name]) for name in names}
    return found


def test_no_modules_import_one_another_in_a_circle() -> None:
    modules = [path for path in SOURCE.rglob("*.py") if path.parent != SOURCE or path.name != "__init__.py"]
    imports = {".".join(path.relative_to(SOURCE).with_suffix("").parts): imports_of(path) for path in modules}
    assert {"_errors", "_async.job"} <= imports["_async.client"]
    order = graphlib.TopologicalSorter(imports)
    try:
        order.prepare()
    except graphlib.CycleError as error:
        pytest.fail("a circle: " + " is imported by ".join(error.args[1]))


def test_every_error_is_in_the_tree_that_the_documentation_draws() -> None:
    from openshift_ai.training import TrainingError, _errors

    drawn = set(re.findall(r"\b\w+Error\b", _errors.__doc__ or ""))
    ours = {name for name, kind in vars(_errors).items() if isinstance(kind, type) and issubclass(kind, TrainingError)}
    assert ours <= drawn
    assert ours <= set(training.__all__)


def test_importing_is_quick_and_loads_what_is_heavy_later() -> None:
    program = (
        "import sys, time\nbegan = time.process_time()\nfrom openshift_ai.training import MPIJobClient\nclient = MPIJobClient()\n"
        "print(time.process_time() - began, *[name in sys.modules for name in ('pydantic', 'httpx', 'yaml')])"
    )
    python(program)
    measured = [python(program).split() for _ in range(3)]
    assert min(float(seconds) for seconds, *_ in measured) < 0.15
    assert measured[0][1:] == ["False", "False", "False"]


def test_the_wheel_and_the_source_distribution_work_in_a_clean_environment(tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(tmp_path), str(FOLDER)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    wheel, source = next(tmp_path.glob("*.whl")), next(tmp_path.glob("*.tar.gz"))
    modules = {str(path.relative_to(FOLDER / "src")) for path in SOURCE.rglob("*") if path.suffix in (".py", ".typed")}
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert packed == modules
    assert "openshift_ai/__init__.py" not in packed, "others may have packages below openshift_ai"
    with tarfile.open(source) as archive:
        listed = {name.split("/", 1)[1] for name in archive.getnames()}
    assert {f"src/{module}" for module in modules} <= listed
    for distribution in (wheel, source):
        works_when_installed(distribution, tmp_path / distribution.suffix)


def works_when_installed(distribution: Path, environment: Path) -> None:
    """Installs a wheel or a source distribution into an environment of its own, and uses it there."""
    venv.create(environment, with_pip=False)
    installed = environment / f"lib/python3.{sys.version_info[1]}/site-packages"
    # The dependencies, which are large, are those of this environment; the package itself is not in it.
    (installed / "dependencies.pth").write_text(site_packages())
    alone = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    pip = [sys.executable, "-m", "pip", "--python", str(environment / "bin/python"), "--quiet"]
    subprocess.run(
        [*pip, "install", "--no-index", "--no-deps", "--no-build-isolation", str(distribution)], env=alone, check=True
    )
    program = (
        "import importlib.metadata as m, openshift_ai.training as t\n"
        "print(t.__file__, t.MPIJobSpec(name='x', image='y').name, t.__version__ == m.version('openshift-ai-training'))\n"
        "print(*sorted(r.split('>')[0].split('<')[0] for r in m.requires('openshift-ai-training') if 'extra' not in r))"
    )
    done = subprocess.run(
        [environment / "bin/python", "-W", "error", "-c", program],
        env=alone,
        capture_output=True,
        text=True,
        check=True,
    )
    place, *rest = done.stdout.split()
    assert Path(place).is_relative_to(installed)
    assert rest == ["x", "True", "httpx", "pydantic", "pyyaml"]


def test_the_lock_file_has_what_these_tests_run_with() -> None:
    lock = (FOLDER / "requirements.lock").read_text()
    pins = dict(re.findall(r"^([\w.-]+)==([\w.]+) \\$", lock, re.MULTILINE))
    described = (FOLDER / "pyproject.toml").read_text()
    group = re.search(r"^dev = \[\n(.*?)^\]", described, re.MULTILINE | re.DOTALL)
    assert group
    # Packages with another version for some Pythons have a marker.
    needed = set(re.findall(r'"([\w-]+)"', group[1])) - {"ipykernel", "ipython"}
    assert needed <= set(pins)
    assert {name: importlib.metadata.version(name) for name in needed} == {name: pins[name] for name in needed}


def test_every_public_name_is_tested() -> None:
    """Names of classes and functions, and of methods and properties of those that users hold."""
    used: set[str] = set()
    for path in Path(__file__).parent.glob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Attribute(attr=name) | ast.Name(id=name) | ast.keyword(arg=str(name)):
                    used.add(name)
                case ast.Dict(keys=keys):
                    used |= {str(key.value) for key in keys if isinstance(key, ast.Constant)}
    public = {name for name in training.__all__ if not name.startswith("Async") and name != "__version__"}
    # Answers of the service are what the methods that return them are tested with.
    public = {name for name in public if _PLACES[name] != "_models"}
    held = [training.MPIJobClient, training.MPIJob, training.JobStatus, training.JobDetails, training.JobResult]
    held += [
        training.LiveView,
        training.Metrics,
        training.LogLine,
        training.MPIJobSpec,
        training.Retries,
        training.Backoff,
    ]
    members = {name for kind in held for name in vars(kind) if not name.startswith(("_", "model_"))}
    fields = set(training.MPIJobSpec.model_fields) | set(training.JobFailedError("x", job=JOB, failure=None).__dict__)
    assert sorted((public | members | fields) - used) == []


def site_packages() -> str:
    import httpx

    return str(Path(httpx.__file__).parents[1])
