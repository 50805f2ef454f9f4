"""Modules that are imported when something in them is first used.

pydantic takes most of the time of an import, so the modules that need it wait until a job is described or read.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Module:
    """Stands for a module of this package until a name of it is used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(import_module(f"{__package__}.{self._name}"), attribute)
        setattr(self, attribute, value)
        return value
