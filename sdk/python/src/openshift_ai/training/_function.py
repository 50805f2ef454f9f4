"""Makes a program of a function: its source, and a call with its arguments.

An exception in one rank has to end the job. If the process merely ended, mpi4py would wait in `MPI_Finalize` for
ranks that wait for this one, so the program prints the traceback and aborts.
"""

from __future__ import annotations
import __future__

import builtins
import functools
import inspect
import io
import json
import symtable
import tokenize
from collections.abc import Callable, Mapping
from typing import Any

from ._errors import InvalidSpecError, field_error

#: Names that every module has.
_OF_EVERY_MODULE = {"__name__", "__file__", "__doc__", "__builtins__", "__spec__", "__loader__", "__package__"}
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


def program(function: Callable[..., Any], arguments: Mapping[str, Any]) -> str:
    """The source of a program that calls a function, or a partial of one, with arguments.

    Raises `InvalidSpecError` if the function cannot be shipped, or would fail for a name or an argument.
    """
    positional: tuple[Any, ...] = ()
    if isinstance(function, functools.partial):
        positional, arguments = function.args, {**function.keywords, **arguments}
        function = function.func
    name = getattr(function, "__name__", "")
    source = _source(function, name)
    if function.__closure__:
        names = ", ".join(function.__code__.co_freevars)
        raise _refused(f"is a function that uses {names} of what is around it", "pass them in code_arguments")
    source = _future(function) + source
    _check_names(function, source)
    try:
        inspect.signature(function).bind(*positional, **arguments)
    except TypeError as error:
        raise _refused(f"is a function that cannot be called so: {error}", "correct code_arguments") from None
    try:
        written = json.dumps([positional, dict(arguments)])
    except (TypeError, ValueError) as error:
        raise _refused(
            f"has arguments that JSON cannot write: {error}", "pass numbers, texts, lists and maps"
        ) from error
    return source + _CALL.format(name=name, arguments=written)


def _future(function: Callable[..., Any]) -> str:
    """The line that leaves annotations alone, if the function was defined below one."""
    is_below = function.__code__.co_flags & __future__.annotations.compiler_flag
    return "from __future__ import annotations\n\n" if is_below else ""


def _check_names(function: Callable[..., Any], source: str) -> None:
    """Refuses a function that uses what its file here has and the program does not: each would be a NameError."""
    used, defined = _globals(symtable.symtable(source, "function", "exec"))
    free = sorted(used - defined - set(dir(builtins)) - _OF_EVERY_MODULE)
    if not free:
        return
    of_file = function.__globals__
    modules = {name: of_file[name].__name__ for name in free if inspect.ismodule(of_file.get(name))}
    lines = [f"import {module}" + ("" if module == name else f" as {name}") for name, module in modules.items()]
    fixes = [f"write {', '.join(lines)} within the function"] if modules else []
    if len(modules) < len(free):
        fixes.append("define within the function what it uses, and pass values in code_arguments")
    raise _refused(f"is a function that uses {', '.join(free)}, which it does not define", "; ".join(fixes))


def _globals(table: symtable.SymbolTable) -> tuple[set[str], set[str]]:
    """The names of the module that a block and those within it use, and those that they define."""
    used, defined = set(), set()
    is_module = table.get_type() == "module"
    for symbol in table.get_symbols():
        if is_module or symbol.is_global():
            used |= {symbol.get_name()} if symbol.is_referenced() else set()
            defined |= {symbol.get_name()} if symbol.is_assigned() or symbol.is_imported() else set()
    for child in table.get_children():
        inner_used, inner_defined = _globals(child)
        used |= inner_used
        defined |= inner_defined
    return used, defined


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
