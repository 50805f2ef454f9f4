"""TLS: which certificates are trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl


def context(file: str | None = None, text: str | None = None) -> ssl.SSLContext:
    """Trusts the authorities of a file or a text, or without either those of the machine.

    Raises `ssl.SSLError` if the file or the text has none: for an empty text, Python would trust those of the machine.
    """
    import ssl

    if text is not None and not text.strip():
        raise ssl.SSLError(1, "it is empty")
    return ssl.create_default_context(cafile=file, cadata=text)
