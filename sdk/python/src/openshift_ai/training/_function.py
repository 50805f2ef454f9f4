"""Makes a program of a function: its source, and a call with its arguments.

An exception in one rank has to end the job. If the process merely ended, mpi4py would wait in `MPI_Finalize` for
ranks that wait for this one, so the program prints the traceback and aborts.
"""

from __future__ import annotations

import inspect
import io
import json
import tokenize
from collections.abc import Callable
from typing import Any

from ._errors import InvalidSpecError, field_error

#: What the program does with the function. Its names are its own: the function sees none of them.
_CALL = """

def _odh_run():
    import json
    import os
    import sys

    try:
        positional, named = json.loads({arguments!r})
        {name}(*positional, **named)
        return
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
    except BaseException as error:
        status = 1
        trace = error.__traceback__.tb_next or error.__traceback__
        sys.excepthook(type(error), error.with_traceback(trace), trace)
    if not status:
        return
    sys.stdout.flush()
    sys.stderr.flush()
    # Other ranks may wait for this one, which MPI's orderly end would wait for, in turn.
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None and mpi.Is_initialized() and not mpi.Is_finalized():
        mpi.COMM_WORLD.Abort(status)
    os._exit(status & 255 or 1)


if __name__ == "__main__":
    _odh_run()
"""


def program(function: Callable[..., Any], arguments: dict[str, Any]) -> str:
    """The source of a program that calls a function with arguments. Raises `InvalidSpecError` if that cannot be."""
    name = getattr(function, "__name__", "")
    source = _source(function, name)
    if function.__closure__:
        names = ", ".join(function.__code__.co_freevars)
        raise _refused(f"is a function that uses {names} of what is around it", "pass them in code_arguments")
    try:
        written = json.dumps([[], arguments])
    except (TypeError, ValueError) as error:
        raise _refused(
            f"has arguments that JSON cannot write: {error}", "pass numbers, texts, lists and maps"
        ) from error
    return source + _CALL.format(name=name, arguments=written)


def _refused(fault: str, fix: str) -> InvalidSpecError:
    return field_error("code", fault, fix)


def _source(function: Callable[..., Any], name: str) -> str:
    try:
        block = inspect.getsource(function)
    except (OSError, TypeError) as error:
        raise _refused(
            "is a function whose source cannot be read", "define it with def, in a cell or a file"
        ) from error
    begins = block.lstrip()
    if begins.startswith("@"):
        raise _refused("is a function with decorators", "define it without them")
    if begins.startswith("async def "):
        raise _refused("is an asynchronous function", "define it with def, and call asyncio.run in it")
    if not begins.startswith("def ") or not name.isidentifier():
        raise _refused("is not a plain function", "define it with def, without decorators")
    try:
        return _at_margin(block)
    except (tokenize.TokenError, SyntaxError) as error:
        fault = f"is a function whose source cannot be read: {error}"
        raise _refused(fault, "define it in a file of its own") from error


def _at_margin(source: str) -> str:
    """The source of a block with its own indentation removed: that of lines of code, not of lines inside a text."""
    lines = source.splitlines(keepends=True)
    margin = len(lines[0]) - len(lines[0].lstrip(" \t"))
    if margin == 0:
        return source
    # Inside a block, the tokenizer accepts the indentation.
    tokens = tokenize.generate_tokens(io.StringIO("if True:\n" + source).readline)
    inside = {
        line - 1 for token in tokens if token.type in _TEXTS for line in range(token.start[0] + 1, token.end[0] + 1)
    }
    return "".join(
        line if number in inside else line[min(margin, len(line) - len(line.lstrip(" \t"))) :]
        for number, line in enumerate(lines, start=1)
    )


# A text over several lines is one token; of an f-string (Python 3.12) or t-string (3.14), each literal part is.
_TEXTS = {getattr(tokenize, kind, tokenize.STRING) for kind in ("STRING", "FSTRING_MIDDLE", "TSTRING_MIDDLE")}
