"""Writes `docs/reference/sdk.md` from the docstrings of everything public."""

from __future__ import annotations

import ast
from itertools import pairwise
from pathlib import Path

HEAD = """# Python SDK

<!-- Generated from the docstrings of sdk/python by tools/generate.py. -->

Everything is in `openshift_ai.training`. `MPIJobClient`, `MPIJob` and the functions have asynchronous twins, `AsyncMPIJobClient`
(`AsyncTrainingClient`) and `AsyncMPIJob`, with the same methods to be awaited, and iterators for `async for`.
"""
#: Sections, and the names in each; what is public and in none of them is an error.
SECTIONS: dict[str, list[str]] = {
    "Clients and jobs": ["MPIJobClient", "TrainingClient", "MPIJob", "JobList"],
    "Specifications": [
        "MPIJobSpec",
        "WorkerSpec",
        "LauncherSpec",
        "Resources",
        "MPIConfig",
        "Scheduling",
        "Toleration",
        "FailurePolicy",
        "ClaimVolume",
        "SecretVolume",
        "ConfigMapVolume",
        "ScratchVolume",
        "SecretKey",
        "ConfigMapKey",
    ],
    "Status and output": ["JobStatus", "JobDetails", "JobChange", "LogLine", "Metrics", "UsageReport"],
    "Pipelines": [],
    "Notebooks": [],
    "Answers of the service": [],
    "Errors": [],
}


def public(package: Path) -> dict[str, str]:
    """The module of every public name."""
    tree = ast.parse((package / "__init__.py").read_text())
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_PLACES":
            places: dict[str, str] = ast.literal_eval(node.value)
            return places
    raise ValueError("_PLACES is missing")


def section_of(name: str, module: str) -> str:
    for section, names in SECTIONS.items():
        if name in names:
            return section
    by_module = {
        "_errors": "Errors",
        "_models": "Answers of the service",
        "_sync.pipelines": "Pipelines",
        "_retries": "Pipelines",
        "_backoff": "Pipelines",
        "_webhook": "Pipelines",
        "_exit_codes": "Pipelines",
        "_live": "Notebooks",
        "_plot": "Notebooks",
    }
    return by_module[module]


def signature(function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """The arguments without `self`, and what is returned."""
    arguments = ast.unparse(function.args)
    for own in ("self, ", "cls, ", "self", "cls"):
        if arguments == own or (own.endswith(", ") and arguments.startswith(own)):
            arguments = arguments.removeprefix(own)
            break
    returns = f" -> {ast.unparse(function.returns)}" if function.returns else ""
    return f"({arguments}){returns}"


def is_property(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(ast.unparse(mark) == "property" for mark in function.decorator_list)


def fields(node: ast.ClassDef) -> list[str]:
    """Attributes that have a docstring after them."""
    lines = []
    bodies = [node.body, *[f.body for f in node.body if isinstance(f, ast.FunctionDef) and f.name == "__init__"]]
    for body in bodies:
        for at, after in pairwise(body):
            if not (isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)):
                continue
            if isinstance(at, ast.AnnAssign):
                kind, name = ast.unparse(at.annotation), ast.unparse(at.target)
                is_given = at.value is not None and "Field(" not in ast.unparse(at.value)
                default = f" = {ast.unparse(at.value)}" if at.value is not None and is_given else ""
            elif isinstance(at, ast.Assign) and ast.unparse(at.targets[0]).startswith("self."):
                kind, name, default = "", ast.unparse(at.targets[0]).removeprefix("self."), ""
            else:
                continue
            shown = f"{name}: {kind}{default}" if kind else name
            lines.append(f"- `{shown}`: {one_line(str(after.value.value))}")
    return lines


def one_line(text: str) -> str:
    return " ".join(text.split())


def paragraphs(text: str | None) -> list[str]:
    return [one_line(part) for part in (text or "").split("\n\n") if part.strip()]


def target(node: ast.stmt) -> str | None:
    return ast.unparse(node.targets[0]) if isinstance(node, ast.Assign) else None


def described(name: str, node: ast.stmt, after: list[ast.stmt]) -> list[str]:
    """The lines of one public name."""
    if isinstance(node, ast.Assign):
        said = after[0].value if isinstance(after[0], ast.Expr) else None
        return [f"### `{name}`", *paragraphs(str(said.value) if isinstance(said, ast.Constant) else "")]
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return [f"### `{name}{signature(node)}`", *paragraphs(ast.get_docstring(node))]
    if not isinstance(node, ast.ClassDef):
        raise ValueError(f"{name} is neither a class nor a function")
    bases = ", ".join(ast.unparse(base) for base in node.bases)
    lines = [f"### `{name}({bases})`" if bases else f"### `{name}`", *paragraphs(ast.get_docstring(node))]
    attributes = fields(node)
    methods = []
    for member in node.body:
        if not isinstance(member, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        text = paragraphs(ast.get_docstring(member))
        if member.name == "__init__" and text:
            methods.append("\n\n".join([f"#### `{name}{signature(member)}`", *text[1:]]))
        if member.name.startswith("_"):
            continue
        if is_property(member):
            returns = f": {ast.unparse(member.returns)}" if member.returns else ""
            attributes.append(f"- `{member.name}{returns}`: {' '.join(text)}")
        else:
            methods.append("\n\n".join([f"#### `{member.name}{signature(member)}`", *text]))
    return [*lines, *(["\n".join(attributes)] if attributes else []), *methods]


def generate(package: Path, generated: dict[Path, str]) -> str:
    """Returns the text of the document. Texts of generated modules are taken from the map."""
    sections: dict[str, list[str]] = {name: [] for name in SECTIONS}
    order = [name for names in SECTIONS.values() for name in names]
    places = public(package)
    for name in sorted(places, key=lambda name: (order.index(name) if name in order else len(order), name)):
        module = places[name]
        if module.startswith("_async."):
            continue
        path = package / f"{module.replace('.', '/')}.py"
        tree = ast.parse(generated.get(path) or path.read_text())
        node = next(n for n in tree.body if name in (getattr(n, "name", None), target(n)))
        after = tree.body[tree.body.index(node) + 1 :]
        sections[section_of(name, module)] += described(name, node, after)
    parts = [HEAD.rstrip()]
    for section, lines in sections.items():
        if lines:
            parts += [f"## {section}", *lines]
    return "\n\n".join(parts) + "\n"
