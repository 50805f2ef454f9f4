"""Exit codes of programs that run jobs: the same as those of `odh`."""

from __future__ import annotations

from ._errors import TrainingError

_CODES = {
    "Usage": 2,
    "NotFound": 3,
    "NotAllowed": 4,
    "Unauthenticated": 4,
    "Invalid": 5,
    "QuotaExceeded": 6,
    "Conflict": 7,
    "Timeout": 8,
    "JobFailed": 100,
    "JobCancelled": 103,
}
INTERRUPTED = 130


def exit_code(error: BaseException | None) -> int:
    """The exit code for the end of a program: 0 without an error, 100 for a failed job, 8 for a wait that took too long, ….

    `sys.exit(exit_code(result.error))` is the end of a script in a pipeline.
    """
    if error is None:
        return 0
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    return _CODES.get(error.code, 1) if isinstance(error, TrainingError) else 1
