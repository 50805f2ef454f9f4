"""Reads YAML: kubeconfigs, and the namespace of a manifest. PyYAML is imported when it is first needed."""

from __future__ import annotations

import json
from typing import Any


def read(text: str) -> Any:
    """The value of a document, YAML or JSON. Raises `ValueError` with what cannot be read."""
    import yaml

    try:
        # JSON may be indented with tabs, which YAML does not permit.
        return json.loads(text)
    except ValueError:
        pass
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"it is not YAML: {error}") from error


def namespace_of(manifest: str) -> str | None:
    """The namespace that a manifest has in its metadata. The service says what is wrong with one that cannot be read."""
    try:
        metadata = read(manifest)["metadata"]
        namespace = metadata["namespace"]
    except (ValueError, TypeError, KeyError, IndexError):
        return None
    return namespace if isinstance(namespace, str) and namespace else None
