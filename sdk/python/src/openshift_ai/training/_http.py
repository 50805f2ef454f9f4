"""Requests and responses of the service as values: addresses, queries, problems. It makes no request itself."""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from . import _errors
from ._errors import FieldFault, TrainingError, UnavailableError
from ._signin import LOOPBACK
from ._version import __version__

if TYPE_CHECKING:
    import ssl

    import httpx

    from ._models import Method

#: The longest wait that a response may ask for before the request is given up.
LONGEST_RETRY_AFTER = 60.0
#: The longest line of a stream.
LONGEST_LINE = 16 << 20
NOT_FOUND = 404
#: What to do if a service on this machine does not answer.
LOCAL_HINT = "if it is that of the local cluster, start it with: odh local up"
#: The reason of an error because of a certificate.
NOT_TRUSTED = "CertificateNotTrusted"
USER_AGENT = f"openshift-ai-training/{__version__} python/{platform.python_version()}"

_KINDS: list[type[TrainingError]] = [
    _errors.UsageError,
    _errors.UnauthenticatedError,
    _errors.ForbiddenError,
    _errors.NotFoundError,
    _errors.InvalidSpecError,
    _errors.QuotaExceededError,
    _errors.ConflictError,
    _errors.UnavailableError,
    _errors.TooManyRequestsError,
]
_BY_CODE: dict[str, type[TrainingError]] = {
    **{kind.code: kind for kind in _KINDS},
    "StillRunning": _errors.ConflictError,
}
_BY_STATUS: dict[int, type[TrainingError]] = {
    400: _errors.UsageError,
    401: _errors.UnauthenticatedError,
    403: _errors.ForbiddenError,
    404: _errors.NotFoundError,
    409: _errors.ConflictError,
    422: _errors.InvalidSpecError,
    429: _errors.TooManyRequestsError,
}
#: The least status of a fault of the server's side.
_SERVER_FAULT = 500


def address(method: Method, path: Mapping[str, str]) -> str:
    """The path of a method with its parameters."""
    return re.sub(r"\{(\w+)\}", lambda found: quote(path[found[1]], safe=""), method.path)


def query(method: Method, parameters: Mapping[str, Any]) -> list[tuple[str, str | int | float | bool | None]]:
    """The query of a method: a list gives one pair for each item, `None` none."""
    pairs: list[tuple[str, str | int | float | bool | None]] = []
    for name, value in parameters.items():
        if value is None:
            continue
        if name not in method.query:
            raise TypeError(f"{method.path} has no parameter {name!r}")
        values = value if isinstance(value, (list, tuple, set, frozenset)) else [value]
        pairs += [(name, str(one).lower() if isinstance(one, bool) else str(one)) for one in values]
    return pairs


def problem(found: Mapping[str, Any], retry_after: float | None = None, status: int | None = None) -> TrainingError:
    """The error of a problem document, in a response with this status or in a stream."""
    said = found.get("status")
    status = said if isinstance(said, int) else status
    code = str(found.get("code") or "")
    kind = _BY_CODE.get(code) or _BY_STATUS.get(status or 0)
    if kind is None:
        kind = UnavailableError if (status or 0) >= _SERVER_FAULT else TrainingError
    fields = [
        FieldFault(str(fault.get("path", "")), str(fault.get("fault", "")), str(fault.get("fix", "")))
        for fault in found.get("fields") or []
    ]
    return kind(
        str(found.get("message") or found.get("detail") or found.get("title") or f"HTTP {status}"),
        code=code or None,
        reason=str(found.get("reason") or ""),
        hint=str(found.get("hint") or ""),
        fields=fields,
        status=status,
        retry_after=retry_after,
    )


def refusal(url: str, status: int, headers: Mapping[str, str], body: bytes) -> TrainingError:
    """The error of a response that is not a success."""
    wait = headers.get("retry-after", "")
    retry_after = min(float(wait), LONGEST_RETRY_AFTER) if wait.isdecimal() else None
    if headers.get("content-type", "").startswith("application/problem+json"):
        try:
            return problem(json.loads(body), retry_after, status)
        except ValueError:
            pass
    kind = _BY_STATUS.get(status, UnavailableError if status >= _SERVER_FAULT else TrainingError)
    said = body[:200].decode(errors="replace").strip()
    return kind(
        f"{url} answers with HTTP {status}, but not as the training service does",
        reason="NotTheService",
        details=[said] if said else [],
        hint="check the address of the service, and proxies on the way to it",
        status=status,
        retry_after=retry_after,
    )


def lacks(method: Method, path: str, error: TrainingError) -> TrainingError | None:
    """The error of a service that does not have a method, if this 404 means that: it then names the path that was asked for."""
    if error.status != NOT_FOUND or path not in error.message:
        return None
    return _errors.UsageError(
        f"this training service has no {method.verb} {method.path}",
        reason="NotSupported",
        hint=f"the service is older than this package ({__version__}), or the address is not that of its root",
        status=error.status,
    )


#: Packages that raise the timeouts of the network.
_NETWORK = frozenset({"httpcore", "httpx", "anyio", "asyncio", "socket", "ssl"})


def _of_caller(error: BaseException) -> TimeoutError | None:
    """A timeout that was raised elsewhere than where the network is read and written, and that httpx took for one of these."""
    cause: BaseException | None = error
    while cause is not None:
        place = cause.__traceback__
        while place is not None and place.tb_next is not None:
            place = place.tb_next
        if isinstance(cause, TimeoutError) and place is not None:
            package = str(place.tb_frame.f_globals.get("__name__", "")).split(".")[0]
            if package not in _NETWORK:
                return cause
        cause = cause.__cause__ or cause.__context__
    return None


def unreached(url: str, error: httpx.TransportError | httpx.StreamError | ssl.SSLError) -> UnavailableError:
    """The error of a request that got no complete response.

    Raises what the caller's own code has raised meanwhile, such as a handler of `signal.alarm`: it is not the network's.
    """
    import ssl

    if (own := _of_caller(error)) is not None:
        raise own
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError) or "CERTIFICATE_VERIFY_FAILED" in str(cause):
            return UnavailableError(
                f"the certificate of {url} is not trusted: {cause}",
                reason=NOT_TRUSTED,
                hint="give ca= or set ODH_TRAINING_CA to a file with the certificate authority of the service",
                retryable=False,
            )
        cause = cause.__cause__ or cause.__context__
    what = str(error) or type(error).__name__
    is_here = urlsplit(url).hostname in LOOPBACK
    return UnavailableError(
        f"{url} does not answer: {what}",
        reason=type(error).__name__,
        hint=LOCAL_HINT if is_here else "check that the service runs and can be reached from here",
    )
