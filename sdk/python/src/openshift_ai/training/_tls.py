"""TLS: which certificates are trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl


def context(file: str | None = None, text: str | None = None) -> ssl.SSLContext:
    """Trusts the authorities of a file or a text, or without either those of the machine."""
    import ssl

    return ssl.create_default_context(cafile=file, cadata=text)
