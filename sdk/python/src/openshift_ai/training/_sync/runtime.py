"""What is different in synchronous code. `_async/runtime.py` has the same names."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
#: The service permits 50 open streams to one user; what is left is for other requests.
MOST_CONNECTIONS = 60
#: How long a connection that is not used is kept.
KEPT_SECONDS = 30.0
#: What a callback may return.
MaybeAwaitable = Any


def sleep(seconds: float) -> None:
    """Waits."""
    time.sleep(seconds)


def in_thread(function: Callable[[], T]) -> T:
    """Calls a function."""
    return function()


def settled(result: Any) -> None:
    """Does nothing: a callback has ended when it returns."""


def http_client(**options: Any) -> httpx.Client:
    """A client of httpx."""
    import httpx

    options["limits"] = httpx.Limits(max_connections=MOST_CONNECTIONS, keepalive_expiry=KEPT_SECONDS)
    return httpx.Client(**options)


def close_with(owner: object, client: httpx.Client) -> None:
    """Closes the connections when their owner is no longer used, and at the end of the program."""
    weakref.finalize(owner, client.close)
