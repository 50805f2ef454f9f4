"""How often and when something is tried again. Everything is bounded."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Backoff:
    """Exponential waits with jitter."""

    attempts: int = 5
    """The most attempts, the first one included."""
    first: float = 0.2
    """The seconds to wait before the second attempt."""
    factor: float = 2.0
    """How much longer each further wait is."""
    longest: float = 10.0
    """The longest wait. An answer that asks for a longer one is not waited for: its error is raised at once."""
    jitter: float = 0.5
    """The part of a wait that is random, from 0 to 1, so that many clients do not come back together."""

    def wait(self, failures: int, at_least: float | None = None) -> float | None:
        """The seconds to wait after this many failures in a row; `None` if that were enough, or the wait too long."""
        if failures >= self.attempts or (at_least or 0.0) > self.longest:
            return None
        # A factor to the power of a large number of failures is larger than any float.
        planned = min(self.first * self.factor ** min(failures - 1, 64), self.longest)
        spread = planned * (1 - self.jitter * random.random())  # noqa: S311 - not a secret
        return max(spread, at_least or 0.0)
