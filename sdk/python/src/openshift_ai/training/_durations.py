"""Durations as people write and read them."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds(duration: float | str | timedelta | None) -> float | None:
    """The seconds of a number, a timedelta, or a text such as `90s`, `10m` or `1h30m`."""
    if duration is None:
        return None
    if isinstance(duration, timedelta):
        return duration.total_seconds()
    if isinstance(duration, (int, float)):
        return float(duration)
    if not re.fullmatch(r"(\d+[smhd])+", duration):
        raise ValueError(f"{duration!r} is not a duration; write 90s, 10m, 2h or 1h30m")
    return float(sum(int(number) * _UNITS[unit] for number, unit in re.findall(r"(\d+)([smhd])", duration)))


def age(since: datetime | None, until: datetime | None = None) -> str:
    """How long something took, or has taken so far."""
    if since is None:
        return "-"
    total = max(int(((until or datetime.now(timezone.utc)) - since).total_seconds()), 0)
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if total >= length:
            rest = total % length // {"d": 3600, "h": 60, "m": 1}[unit]
            return f"{total // length}{unit}{rest}{ {'d': 'h', 'h': 'm', 'm': 's'}[unit] }"
    return f"{total}s"
