"""Writes `_models.py` from the contract of the training service, `openapi/training-v1.json`.

Responses are read tolerantly, so that an older or a newer service is understood: a field that is missing has a neutral
value, an unknown field is ignored, and a word of an enumeration is any text.
"""

from __future__ import annotations

import keyword
import re
import textwrap
from typing import Any

#: Fields that hold a time, which OpenAPI's document describes as text.
TIMES = {
    "created",
    "started",
    "runningSince",
    "finished",
    "since",
    "at",
    "modified",
    "start",
    "expires",
    "deleted",
    "from",
    "until",
    "firstNotFinite",
}
#: Models in which one of these names is something else than a time.
NOT_TIMES = {("LogItem", "at"), ("CheckAvailabilityResponse", "start"), ("CheckCapacityResponse", "start")}
#: Models of requests: users write their own (`_spec.py`). What a form asks for has one, too.
NOT_GENERATED = {"JobSpec", "RenderJobResponse"}

HEADER = '''"""The messages and methods of the training service. Generated from its contract by tools/generate.py."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel


def _time(value: Any) -> Any:
    """The service leaves a time that is not known empty, or out."""
    return value or None


Time = Annotated[datetime | None, BeforeValidator(_time)]


class Message(BaseModel):
    """A message of the service; unknown fields are those of a newer one, and are ignored."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True, defer_build=True
    )


class Method(NamedTuple):
    """A method of the service, as REST has it."""

    verb: str
    path: str
    query: frozenset[str] = frozenset()
    is_stream: bool = False
'''


def snake(name: str) -> str:
    text = re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()
    return f"{text}_" if keyword.iskeyword(text) else text


def reference(schema: dict[str, Any]) -> str | None:
    return schema["$ref"].rsplit("/", 1)[1] if "$ref" in schema else None


def typed(model: str, name: str, schema: dict[str, Any], required: bool) -> tuple[str, str]:
    """Returns the Python type of a field and its value if the service leaves it out."""
    other = reference(schema)
    if other:
        return f"{other} | None", "None"
    if name in TIMES and (model, name) not in NOT_TIMES and schema.get("type") == "string":
        return "Time", "None"
    match schema.get("type"):
        case "array":
            return f"list[{element(schema['items'])}]", "[]"
        case "object":
            return f"dict[str, {element(schema.get('additionalProperties') or {})}]", "{}"
        case "string":
            return "str", '""'
        case "boolean":
            return "bool", "False"
        case "integer":
            return ("int", "0") if required else ("int | None", "None")
        case "number":
            return ("float", "0.0") if required else ("float | None", "None")
    return "Any", "None"


def element(schema: dict[str, Any]) -> str:
    other = reference(schema)
    if other:
        return other
    names = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}
    if schema.get("type") == "array":
        return f"list[{element(schema['items'])}]"
    return names.get(str(schema.get("type")), "Any")


def docstring(text: str, indent: str) -> str:
    lines = textwrap.wrap(text.replace("\\", "\\\\"), 108 - len(indent))
    if len(lines) == 1 and len(lines[0]) < 100 - len(indent):
        return f'{indent}"""{lines[0]}"""\n'
    return f'{indent}"""{lines[0]}\n' + "".join(f"{indent}{line}\n" for line in lines[1:]) + f'{indent}"""\n'


def model(name: str, schema: dict[str, Any]) -> str:
    text = f"\n\nclass {name}(Message):\n" + docstring(schema.get("description", name), "    ")
    required = set(schema.get("required", []))
    for field, described in schema.get("properties", {}).items():
        kind, neutral = typed(name, field, described, field in required)
        if keyword.iskeyword(field):
            neutral = f'Field(default={neutral}, alias="{field}")'
        text += f"\n    {snake(field)}: {kind} = {neutral}\n"
        if described.get("description"):
            text += docstring(described["description"], "    ")
    return text


def in_order(schemas: dict[str, Any]) -> list[str]:
    """The names of models, each after those that it refers to."""
    done: list[str] = []

    def visit(name: str) -> None:
        if name in done:
            return
        for field in schemas[name].get("properties", {}).values():
            for part in (field, field.get("items", {}), field.get("additionalProperties") or {}):
                other = reference(part) if isinstance(part, dict) else None
                if other and other != name:
                    visit(other)
        done.append(name)

    for name in sorted(schemas):
        visit(name)
    return done


def methods(paths: dict[str, Any]) -> str:
    text = "\n\n"
    for path, verbs in sorted(paths.items()):
        for verb, operation in sorted(verbs.items()):
            if "operationId" not in operation:
                continue
            names = sorted(p["name"] for p in operation.get("parameters", []) if p["in"] == "query")
            content = operation["responses"]["200"]["content"]
            arguments = [f'"{verb.upper()}"', f'"{path}"']
            if names:
                listed = ", ".join(f'"{name}"' for name in names)
                arguments.append(f"query=frozenset({{{listed}}})")
            if "text/event-stream" in content:
                arguments.append("is_stream=True")
            constant = snake(operation["operationId"]).upper()
            text += f"{constant} = Method({', '.join(arguments)})\n"
            text += docstring(operation.get("summary", "") + ".", "")
    return text


def generate(contract: dict[str, Any]) -> str:
    """Returns the text of the module."""
    schemas = {name: s for name, s in contract["components"]["schemas"].items() if name not in NOT_GENERATED}
    text = HEADER + "".join(model(name, schemas[name]) for name in in_order(schemas))
    return text + methods(contract["paths"])
