# Generated from _async/transport.py by tools/generate.py.
"""Sends requests to the service: signs in, retries within bounds what failed, and reads streams."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from .. import _http, _notes
from .._backoff import Backoff
from .._errors import ConfigurationError, TrainingError, UnauthenticatedError, UnavailableError
from .._signin import LOOPBACK, Service
from . import runtime

if TYPE_CHECKING:
    import ssl

    import httpx

    from .._models import Method

#: How long a connection may take, and a response that is not a stream.
CONNECT_SECONDS = 10.0
#: The service sends something every 15 seconds; a stream that is silent for three times as long is broken.
SILENCE_SECONDS = 45.0
#: A stream that was connected once waits for the service for about five minutes: as long as a restart may take.
STREAM_BACKOFF = Backoff(attempts=40)
#: The longest wait in seconds that is not told.
LONGEST_SILENT_WAIT = 1.0


class Transport:
    """The connection to one service."""

    def __init__(self, find: Callable[[], Service], backoff: Backoff, timeout: float) -> None:
        self._find = find
        self._timeout = timeout
        self._service: Service | None = None
        self._client: httpx.Client | None = None
        self._lock = Lock()
        #: The text of the file with certificate authorities, which is read again when it was rotated.
        self._trusted: str | None = None
        self.backoff = backoff

    def service(self) -> Service:
        """The service, once it was found."""
        if self._service is None:
            found = runtime.in_thread(self._find)
            with self._lock:
                self._service = self._service or found
        return self._service

    def _ready(self) -> tuple[Service, httpx.Client]:
        service = self.service()
        if self._client is None:
            trusted = self.trusted()
            # Others may have come here meanwhile.
            with self._lock:
                if self._client is None:
                    self._client = runtime.http_client(
                        base_url=service.url,
                        verify=trusted,
                        headers={"User-Agent": _http.USER_AGENT},
                        # A proxy cannot reach this machine's own loopback.
                        trust_env=urlsplit(service.url).hostname not in LOOPBACK,
                    )
                    runtime.close_with(self, self._client)
        return service, self._client

    def trusted(self) -> ssl.SSLContext:
        """What the service's certificate is verified with."""
        service = self.service()
        self._trusted = runtime.in_thread(lambda: _authorities(service))
        return runtime.in_thread(lambda: _context(service, self._trusted))

    def close(self) -> None:
        """Closes the connections."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def call(
        self,
        method: Method,
        path: Mapping[str, str],
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        is_done: Callable[[TrainingError], bool] | None = None,
    ) -> dict[str, Any] | None:
        """Calls a method and returns its answer.

        A request without an answer may have done its work all the same. If its retry is refused, `is_done` says whether that
        refusal means so; the answer is then `None`.
        """
        failures = 0
        is_renewed = is_told = False
        while True:
            try:
                return self._once(method, path, query, body, headers)
            except TrainingError as error:
                if not is_renewed and self._renew(error):
                    is_renewed = True
                    continue
                if failures and is_done and is_done(error):
                    return None
                failures += 1
                wait = self.backoff.wait(failures, error.retry_after) if error.retryable else None
                if wait is None:
                    raise
                is_told = is_told or _tell(error, wait)
                runtime.sleep(wait)

    def _renew(self, error: TrainingError) -> bool:
        """Whether there is another token or certificate authority than that with which a request has failed."""
        service = self.service()
        if isinstance(error, UnauthenticatedError):
            return runtime.in_thread(service.tokens.renew)
        if error.reason != _http.NOT_TRUSTED or self._client is None:
            return False
        trusted = runtime.in_thread(lambda: _authorities(service))
        if trusted == self._trusted:
            return False
        self.close()
        return True

    def _request(
        self,
        method: Method,
        path: Mapping[str, str],
        query: Mapping[str, Any] | None,
        read: float,
        **options: Any,
    ) -> tuple[httpx.Client, httpx.Request]:
        import httpx

        service, client = self._ready()
        token = runtime.in_thread(service.tokens.token)
        request = client.build_request(
            method.verb,
            _http.address(method, path),
            params=_http.query(method, query or {}),
            timeout=httpx.Timeout(self._timeout, connect=CONNECT_SECONDS, read=read, pool=None),
            **options,
        )
        request.headers["Authorization"] = f"Bearer {token}"
        return client, request

    def _once(
        self,
        method: Method,
        path: Mapping[str, str],
        query: Mapping[str, Any] | None,
        body: Mapping[str, Any] | None,
        headers: Mapping[str, str] | None,
    ) -> dict[str, Any]:
        import ssl

        import httpx

        content = {"json": body if body is not None else {}} if method.verb in ("POST", "PUT") else {}
        client, request = self._request(method, path, query, self._timeout, headers=headers, **content)
        try:
            response = client.send(request)
        except (httpx.TransportError, ssl.SSLError) as error:
            raise _http.unreached(str(client.base_url), error) from None
        if not response.is_success:
            refused = _http.refusal(str(client.base_url), response.status_code, response.headers, response.content)
            raise _http.lacks(method, request.url.path, refused) or refused
        try:
            answer = json.loads(response.content)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise _http.refusal(str(client.base_url), response.status_code, response.headers, response.content)
        return answer

    def lines(
        self,
        method: Method,
        path: Mapping[str, str],
        query: Mapping[str, Any],
        silence: float = SILENCE_SECONDS,
    ) -> Generator[list[bytes], None]:
        """Reads a stream once: lines of JSON as they arrive, several at once; an empty line is a sign of life.

        Raises `UnavailableError` if it breaks before its end.
        """
        import ssl

        import httpx

        client, request = self._request(method, path, query, silence)
        try:
            response = client.send(request, stream=True)
            try:
                if not response.is_success:
                    said = response.read()
                    raise _http.refusal(str(client.base_url), response.status_code, response.headers, said)
                rest = b""
                for chunk in response.iter_bytes():
                    found = (rest + chunk).split(b"\n")
                    rest = found.pop()
                    if len(rest) > _http.LONGEST_LINE:
                        raise TrainingError("the service sends a line that is too long", reason="LineTooLong")
                    yield found
                if rest:
                    raise UnavailableError("the service ended a stream within a line", reason="BrokenStream")
            finally:
                response.close()
        except (httpx.TransportError, httpx.StreamError, ssl.SSLError) as error:
            raise _http.unreached(str(client.base_url), error) from None

    def save(self, method: Method, path: Mapping[str, str], query: Mapping[str, Any], target: Path) -> None:
        """Saves what a method answers with as a file, which is there only once it is whole."""
        is_renewed = False
        part = target.with_name(f".{target.name}.part")
        while True:
            try:
                self._save(method, path, query, part)
                part.replace(target)
                return
            except TrainingError as error:
                if is_renewed or not self._renew(error):
                    raise
                is_renewed = True
            finally:
                part.unlink(missing_ok=True)

    def _save(self, method: Method, path: Mapping[str, str], query: Mapping[str, Any], part: Path) -> None:
        import ssl

        import httpx

        client, request = self._request(method, path, query, SILENCE_SECONDS)
        try:
            response = client.send(request, stream=True)
            try:
                if not response.is_success:
                    said = response.read()
                    refused = _http.refusal(str(client.base_url), response.status_code, response.headers, said)
                    raise _http.lacks(method, request.url.path, refused) or refused
                with part.open("wb") as file:
                    for chunk in response.iter_bytes():
                        file.write(chunk)
            finally:
                response.close()
        except (httpx.TransportError, httpx.StreamError, ssl.SSLError) as error:
            raise _http.unreached(str(client.base_url), error) from None

    def stream(
        self,
        method: Method,
        path: Mapping[str, str],
        query: Callable[[], Mapping[str, Any]],
        deadline: float | None = None,
    ) -> Generator[list[dict[str, Any]], None]:
        """Reads a stream to its end, and continues it after breaks with what `query` then returns.

        An empty list is a sign of life. With a deadline, the stream ends with `DeadlinePassed` within a second of it.
        """
        failures = 0
        is_renewed = is_told = False
        backoff = self.backoff
        while True:
            silence = SILENCE_SECONDS if deadline is None else min(SILENCE_SECONDS, deadline - monotonic())
            if silence <= 0:
                raise DeadlinePassed
            try:
                with closing(self.lines(method, path, query(), silence)) as batches:
                    for batch in batches:
                        items = _items(batch)
                        yield items
                        failures, is_renewed, is_told, backoff = 0, False, False, STREAM_BACKOFF
                        if deadline is not None and deadline - monotonic() < silence - 1:
                            # The next silence may be as long as this one, which would be too long.
                            break
                    else:
                        return
            except TrainingError as error:
                if not is_renewed and self._renew(error):
                    is_renewed = True
                    continue
                failures += 1
                at_least = error.retry_after
                if backoff is STREAM_BACKOFF and at_least is not None:
                    # A stream that was connected once is not given up for a long wait: it asks earlier.
                    at_least = min(at_least, backoff.longest)
                wait = backoff.wait(failures, at_least) if error.retryable else None
                is_late = deadline is not None and monotonic() + (wait or 0) >= deadline
                if is_late:
                    raise DeadlinePassed from error
                if wait is None:
                    raise
                is_told = is_told or _tell(error, wait)
                runtime.sleep(wait)


class DeadlinePassed(Exception):  # noqa: N818 - it never leaves this package
    """The time for a wait is over."""


def _tell(error: TrainingError, wait: float) -> bool:
    """Logs that a request is sent again after a wait, if that is long enough to be noticed; whether it is."""
    if wait <= LONGEST_SILENT_WAIT:
        return False
    _notes.log(f"{error.message}; trying again in {wait:.0f} s")
    return True


def _items(batch: list[bytes]) -> list[dict[str, Any]]:
    """The items of lines; a problem among them is raised."""
    try:
        # All lines in one call: for short lines, the call is most of the work.
        items: list[dict[str, Any]] = json.loads(b"[%b]" % b",".join([line for line in batch if line]))
        problem = next((item["problem"] for item in items if "problem" in item), None)
    except (ValueError, TypeError) as error:
        raise TrainingError(f"the service sends a line that is not JSON: {error}", reason="BrokenStream") from error
    if problem is not None:
        raise _http.problem(problem)
    return items


def _authorities(service: Service) -> str | None:
    if not isinstance(service.ca, str):
        return None
    try:
        return Path(service.ca).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the certificate authorities in {service.ca} cannot be read: {error}") from error


def _context(service: Service, text: str | None) -> ssl.SSLContext:
    import ssl

    from .._tls import context

    if service.ca is not None and not isinstance(service.ca, str):
        return service.ca
    try:
        return context(text=text)
    except ssl.SSLError as error:
        raise ConfigurationError(f"{service.ca} has no certificate authorities: {error}") from error
