"""Functions by name: those of the script, of the modules that it imports, of ZQL's own library."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

from zql.errors import BindError, ErrorList, ZqlError, did_you_mean, nearest
from zql.expr import expression as ex
from zql.expr.functions import PythonFunction
from zql.logical.context import Context, Declarations, unknown
from zql.source import Span
from zql.syntax import ast

T = TypeVar("T")
Function = ast.CreateFunction | ast.CreateTableFunction


def sql_function(
    declarations: Declarations, path: Sequence[str]
) -> tuple[ast.CreateFunction, Declarations] | None:
    """A SQL function and the declarations that its body sees; None when there is none."""
    home = _home(declarations, path, "sql_functions")
    found = home and _by_name(home.sql_functions, path[-1])
    return (found, home) if home and found else None


def table_function(
    declarations: Declarations, path: Sequence[str]
) -> tuple[ast.CreateTableFunction, Declarations] | None:
    """A table function and the declarations that its body sees; None when there is none."""
    home = _home(declarations, path, "table_functions")
    found = home and _by_name(home.table_functions, path[-1])
    return (found, home) if home and found else None


def python_function(declarations: Declarations, path: Sequence[str]) -> PythonFunction | None:
    """A Python function that the script has under a name, or a module of it; None without one.

    Names that a script gives to its functions may be written in any case.
    """
    if len(path) == 1:
        return _by_name(declarations.functions, path[0])
    if len(path) > 2:
        return None
    script = declarations.scripts.get(path[0])
    if script is not None:
        return _by_name(script.functions, path[1])
    return declarations.modules.get(path[0], {}).get(path[1])


def no_python_function(
    declarations: Declarations, path: Sequence[str], span: Span | None
) -> BindError:
    """The error of a Python function that is not there."""
    modules = {
        **declarations.modules,
        **{alias: script.functions for alias, script in declarations.scripts.items()},
    }
    if len(path) == 1:
        known = [*declarations.functions, *(f"{a}.{n}" for a, fs in modules.items() for n in fs)]
        return unknown("Python function", path[0], known, span, "N203")
    if path[0] not in modules:
        error = unknown("module", path[0], list(modules), span, "N205")
        error.hint = error.hint or "import a file first: IMPORT PYTHON 'file.py' AS name;"
        return error
    return unknown("function", path[1], list(modules[path[0]]), span, "N203")


def _home(declarations: Declarations, path: Sequence[str], kind: str) -> Declarations | None:
    """Where a function of that kind is declared: what a module imports is its own affair."""
    if len(path) == 2:
        return declarations.scripts.get(path[0])
    if len(path) > 2:
        return None
    if _by_name(getattr(declarations, kind), path[0]) is not None:
        return declarations
    return _by_name(declarations.library, path[0])


def _by_name(functions: Mapping[str, T], name: str) -> T | None:
    """By the exact name, else by the only one that differs in case."""
    if name in functions:
        return functions[name]
    folded = [n for n in functions if n.casefold() == name.casefold()]
    return functions[folded[0]] if len(folded) == 1 else None


def no_table_function(context: Context, name: ex.Name | ex.Call, span: Span | None) -> BindError:
    """The error of a table function that is not there."""
    path = name.parts if isinstance(name, ex.Name) else name.name
    declarations = context.declarations
    if len(path) == 2 and path[0] in declarations.scripts:
        known = list(declarations.scripts[path[0]].table_functions)
        error = unknown("table function", path[1], known, span, "N203")
        error.message = f'{path[0]} has no table function "{path[1]}"'
        error.args = (error.message,)
        return error
    library = [n for n, home in declarations.library.items() if n in home.table_functions]
    known = [*declarations.table_functions, *library]
    known += [f"{a}.{n}" for a, d in declarations.scripts.items() for n in d.table_functions]
    near = nearest(".".join(path), known)
    return BindError(
        f'unknown table function "{".".join(path)}"',
        code="N203",
        span=span,
        hint=did_you_mean(near) or "CREATE TEMP TABLE FUNCTION makes one",
        notes=(f"table functions here: {', '.join(known)}",) if known else (),
        candidates=near,
    )


def matched(
    name: str,
    parameters: Sequence[ast.FunctionParameter],
    args: Sequence[ex.Expr | ex.NamedArgument],
    span: Span | None,
) -> dict[str, ex.Expr]:
    """What each parameter is given, by its name; defaults are left out. Raises `BindError`."""
    names = [p.name.text for p in parameters]
    positional = [a for a in args if not isinstance(a, ex.NamedArgument)]
    if len(positional) > len(names):
        takes = f"{len(names)} argument{'' if len(names) == 1 else 's'}"
        raise BindError(
            f"{name} takes {takes}, {len(positional)} are given", code="T307", span=span,
            hint=f"parameters: {', '.join(names)}" if names else None,
        )  # fmt: skip
    given: dict[str, ex.Expr] = dict(zip(names, positional, strict=False))
    for argument in args:
        if not isinstance(argument, ex.NamedArgument):
            continue
        place = argument.span or span
        found = [n for n in names if n.casefold() == argument.name.casefold()]
        if not found:
            raise unknown("parameter", argument.name, names, place, "N206")
        if found[0] in given:
            raise BindError(f'"{found[0]}" is given twice', code="N206", span=place)
        given[found[0]] = argument.value
    missing = [p.name.text for p in parameters if p.default is None and p.name.text not in given]
    if missing:
        raise BindError(
            f"{name} needs {', '.join(missing)}",
            code="T307",
            span=span,
            hint=f"parameters: {', '.join(names)}",
        )
    return given


@contextmanager
def called(context: Context, function: Function, name: str, call: Span | None) -> Iterator[None]:
    """Errors inside the body of a function tell also where it was called."""
    before = len(context.errors)
    try:
        yield
    except ZqlError as error:
        _note(error, function, name, call)
        raise
    finally:
        for reported in context.errors[before:]:
            _note(reported, function, name, call)


def _note(error: ZqlError, function: Function, name: str, call: Span | None) -> None:
    for each in error.errors if isinstance(error, ErrorList) else [error]:
        inside = function.span is not None and each.span is not None and call is not None
        if not inside or not _holds(function.span, each.span):
            continue
        note = f"in {name}, called at {call.source.name}:{call.line}:{call.column}"  # type: ignore[union-attr]
        if note not in each.notes:
            each.notes = (*each.notes, note)


def _holds(outer: Span | None, inner: Span | None) -> bool:
    if outer is None or inner is None or outer.source != inner.source:
        return False
    return outer.start <= inner.start and inner.end <= outer.end
