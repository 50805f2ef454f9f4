"""Reads YAML as programs write it: kubeconfigs, and the metadata of a manifest.

Block mappings, block sequences, plain and quoted scalars, block scalars and empty or one-line flow collections. It must not
guess: what else YAML has (anchors, tags, several documents) is an error that names the line. JSON is read as well.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

_KEY = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s#&*!|>'"%@`{}\[\],][^#]*?)\s*:(?:\s+(.*)|$)""")
_NUMBER = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_WORDS: dict[str, Any] = {"null": None, "~": None, "": None, "true": True, "false": False}
_MOST_LEVELS = 50


class YamlError(ValueError):
    """A line that cannot be read."""


class _Line(NamedTuple):
    number: int
    indent: int
    text: str


def read(text: str) -> Any:
    """Returns the value of a document.

    Raises `YamlError` with the number of the line that cannot be read.
    """
    if text.lstrip().startswith(("{", "[")):
        try:
            return json.loads(text)
        except ValueError as error:
            raise YamlError(f"it is not JSON: {error}") from error
    return _Reader(text).document()


class _Reader:
    def __init__(self, text: str) -> None:
        self.raw = text.splitlines()
        self.at = 0

    def document(self) -> Any:
        first = self.peek()
        if first is not None and first.text == "---":
            self.at += 1
            first = self.peek()
        if first is None:
            return None
        value = self.block(first.indent, 0)
        rest = self.peek()
        if rest is not None:
            self.fail(rest, "is indented less than the lines before, or is another document")
        return value

    def fail(self, line: _Line, fault: str) -> None:
        raise YamlError(f"line {line.number}: {line.text[:60]!r} {fault}")

    def peek(self) -> _Line | None:
        """The next line that is neither empty nor a comment."""
        while self.at < len(self.raw):
            text = self.raw[self.at]
            stripped = text.strip()
            if stripped and not stripped.startswith("#"):
                line = _Line(self.at + 1, len(text) - len(text.lstrip(" ")), stripped)
                if line.text.startswith("\t") or text[: line.indent + 1].endswith("\t"):
                    self.fail(line, "is indented with a tab")
                return line
            self.at += 1
        return None

    def block(self, indent: int, level: int) -> Any:
        line = self.peek()
        if line is None or line.indent < indent:
            return None
        if level > _MOST_LEVELS:
            self.fail(line, "is nested too deeply")
        if line.text.startswith("- ") or line.text == "-":
            return self.sequence(line.indent, level)
        if _KEY.fullmatch(line.text):
            return self.mapping(line.indent, level)
        self.at += 1
        return self.scalar(line, line.text)

    def sequence(self, indent: int, level: int) -> list[Any]:
        items = []
        while (line := self.peek()) and line.indent == indent and (line.text.startswith("- ") or line.text == "-"):
            rest = line.text[1:].lstrip()
            if not rest:
                self.at += 1
                items.append(self.nested(indent + 1, level))
                continue
            # What follows the dash is a block of its own, indented to where it begins.
            inner = indent + len(line.text) - len(rest)
            self.raw[self.at] = " " * inner + rest
            items.append(self.block(inner, level + 1))
        return items

    def mapping(self, indent: int, level: int) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        while (line := self.peek()) and line.indent == indent:
            found = _KEY.fullmatch(line.text)
            if not found:
                self.fail(line, "is not `key: value`")
                break
            key, rest = str(self.scalar(line, found[1], is_key=True)), (found[2] or "").strip()
            if key in fields:
                self.fail(line, "is written twice")
            self.at += 1
            fields[key] = self.value(line, rest, indent, level)
        extra = self.peek()
        if extra and extra.indent > indent:
            self.fail(extra, "is indented more than the line before")
        return fields

    def value(self, line: _Line, rest: str, indent: int, level: int) -> Any:
        if rest[:1] in ("|", ">"):
            return self.text(line, rest, indent)
        if rest == "" or rest.startswith("#"):
            following = self.peek()
            # A sequence may stand as far left as its key.
            at_key = following is not None and following.indent == indent and following.text.startswith("-")
            return self.nested(indent if at_key else indent + 1, level)
        return self.scalar(line, rest)

    def nested(self, indent: int, level: int) -> Any:
        return self.block(indent, level + 1)

    def text(self, line: _Line, head: str, indent: int) -> str:
        mark = head.split("#", maxsplit=1)[0].strip()
        if not re.fullmatch(r"[|>][-+]?", mark):
            self.fail(line, "has an unsupported block scalar")
        lines: list[str] = []
        while self.at < len(self.raw):
            raw = self.raw[self.at]
            if raw.strip() and len(raw) - len(raw.lstrip(" ")) <= indent:
                break
            lines.append(raw)
            self.at += 1
        margin = min((len(raw) - len(raw.lstrip(" ")) for raw in lines if raw.strip()), default=0)
        body = "\n".join(raw[margin:] for raw in lines)
        stripped = body.rstrip("\n")
        if mark[0] == ">":
            stripped = re.sub(r"(?<=[^\n])\n(?=[^\n ])", " ", stripped)
            stripped = re.sub(r"\n\n", "\n", stripped)
        if mark.endswith("-") or not stripped:
            return stripped
        return body + "\n" if mark.endswith("+") else stripped + "\n"

    def scalar(self, line: _Line, text: str, *, is_key: bool = False) -> Any:
        if text.startswith('"'):
            return self.quoted(line, text, re.match(r'"(?:[^"\\]|\\.)*"', text))
        if text.startswith("'"):
            return self.quoted(line, text, re.match(r"'(?:[^']|'')*'", text))
        plain = re.split(r"\s+#", text)[0].strip()
        if is_key:
            return plain
        if plain[:1] in ("{", "["):
            return self.flow(line, plain)
        if plain[:1] in ("&", "*", "!", "|", ">", "%", "@", "`"):
            self.fail(line, "uses YAML that is not supported here (an anchor, alias or tag)")
        if plain.lower() in _WORDS and plain in (plain.lower(), plain.title(), plain.upper()):
            return _WORDS[plain.lower()]
        return int(plain) if _NUMBER.fullmatch(plain) else plain

    def quoted(self, line: _Line, text: str, found: re.Match[str] | None) -> str:
        after = text[found.end() :].strip() if found else "?"
        if found is None or (after and not after.startswith("#")):
            self.fail(line, "has a quote that does not end on its line")
            return ""
        if text.startswith("'"):
            return found[0][1:-1].replace("''", "'")
        try:
            return str(json.loads(found[0]))
        except ValueError:
            self.fail(line, "has an escape that JSON does not have")
            return ""

    def flow(self, line: _Line, text: str) -> Any:
        if text in ("{}", "[]"):
            return {} if text == "{}" else []
        try:
            return json.loads(text)
        except ValueError:
            pass
        if text.startswith("[") and text.endswith("]") and not re.search(r"[\[\]{}'\":]", text[1:-1]):
            return [self.scalar(line, item.strip()) for item in text[1:-1].split(",")]
        self.fail(line, "has a flow collection that is not supported here")
        return None


def namespace_of(manifest: str) -> str | None:
    """Returns the namespace that a manifest names, whatever YAML the rest of it is written in."""
    if manifest.lstrip().startswith("{"):
        try:
            document = json.loads(manifest)
        except ValueError:
            # The service reports where the fault is.
            return None
        metadata = document.get("metadata") if isinstance(document, dict) else None
        found = metadata.get("namespace") if isinstance(metadata, dict) else None
        return found if isinstance(found, str) else None
    block = re.search(r"^metadata:[ \t]*(?:#.*)?\n((?:[ \t]+.*\n|[ \t]*\n|#.*\n)+)", manifest + "\n", re.MULTILINE)
    if not block:
        return None
    margin = min(len(line) - len(line.lstrip()) for line in block[1].splitlines() if line.strip())
    named = re.search(rf"^[ ]{{{margin}}}namespace:[ \t]*(.*?)[ \t]*(?:#.*)?$", block[1], re.MULTILINE)
    return (named[1].strip("'\"") or None) if named else None
