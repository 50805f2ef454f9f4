"""What is different in asynchronous code. `_sync/runtime.py` has the same names."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
#: The service permits 50 open streams to one user; what is left is for other requests.
MOST_CONNECTIONS = 60
#: How long a connection that is not used is kept.
KEPT_SECONDS = 30.0
#: What a callback may return.
MaybeAwaitable = Awaitable[Any] | None


async def sleep(seconds: float) -> None:
    """Waits."""
    await asyncio.sleep(seconds)


async def in_thread(function: Callable[[], T]) -> T:
    """Calls a function that reads files or starts programs without holding up others."""
    return await asyncio.to_thread(function)


async def settled(result: Any) -> None:
    """Waits for what a callback returned, if it is asynchronous."""
    if isinstance(result, Awaitable):
        await result


def http_client(**options: Any) -> httpx.AsyncClient:
    """A client of httpx."""
    import httpx

    options["limits"] = httpx.Limits(max_connections=MOST_CONNECTIONS, keepalive_expiry=KEPT_SECONDS)
    return httpx.AsyncClient(**options)


def close_with(owner: object, client: httpx.AsyncClient) -> None:
    """Does nothing: only a running loop can close the connections, which is what `async with` is for."""
