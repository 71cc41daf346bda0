"""The arguments of a call of a Python function, against the function's parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard

from zql.errors import BindError
from zql.expr import expression as ex
from zql.expr.functions import PythonFunction
from zql.logical.bind_name import NameBinder
from zql.logical.catalog import Shared
from zql.logical.context import unknown
from zql.source import Span
from zql.tree import walk

Keywords = tuple[tuple[str, ex.Expr], ...]
_NO_VALUE = (ex.SharedObject, ex.TaskContext)


def bind_arguments(
    binder: NameBinder,
    args: Sequence[ex.Expr | ex.NamedArgument],
    function: PythonFunction,
    span: Span | None,
    record: int = 0,
) -> tuple[tuple[ex.Expr, ...], Keywords]:
    """Positional and named arguments checked against a Python function's parameters.

    The first `record` parameters are taken by the record itself, or by what else the operator
    hands over, when there is no positional argument.
    """
    positional = tuple(
        binder.python_argument(a) for a in args if not isinstance(a, ex.NamedArgument)
    )
    named = [a for a in args if isinstance(a, ex.NamedArgument)]
    parameters = [p for p in function.parameters if not p.variadic]
    variadic = any(p.variadic for p in function.parameters)
    taken = len(positional) or record
    if taken > len(parameters) and not variadic:
        raise BindError(
            f"{function.name} takes {len(parameters)} argument{'s' * (len(parameters) != 1)}, "
            f"{taken} are given",
            code="T307",
            span=span,
            hint=f"parameters: {', '.join(p.name for p in parameters) or 'none'}",
        )
    names = [p.name for p in parameters]
    for argument in named:
        if argument.name not in names and not variadic:
            error = unknown("parameter", argument.name, names, argument.span or span, "N206")
            error.notes = (f"parameters of {function.name}: {', '.join(names) or 'none'}",)
            raise error
        if argument.name in names[:taken]:
            raise BindError(
                f'"{argument.name}" is given twice',
                code="N206",
                span=argument.span or span,
                hint="its place among the arguments gives it a value already",
            )
    given = {a.name for a in named} | set(names[:taken])
    missing = [p.name for p in parameters if p.required and p.name not in given]
    if missing:
        raise BindError(
            f"{function.name} needs {', '.join(missing)}",
            code="T307",
            span=span,
            hint=f"parameters: {', '.join(names)}",
        )
    if function.needs:
        raise BindError(
            f"{function.name} is a class, and is made with {', '.join(function.needs)}",
            code="P448",
            span=span,
            hint=f"CREATE TEMP FUNCTION .. LANGUAGE python OPTIONS (library = '..', entry_point = "
            f"'{function.qualname}', init = {{{function.needs[0]}: ..}})",
        )
    keywords = [(a.name, binder.python_argument(a.value)) for a in named]
    if function.declared:
        positional, keywords = with_defaults(function, positional, keywords, record)
    if function.context:
        values = binder.context.declarations.parameters.values()
        asks = function.asks
        objects = tuple(
            v for v in values if isinstance(v, ex.SharedObject) and (asks is None or v.name in asks)
        )
        keywords.append(("ctx", ex.TaskContext(objects)))
    return positional, tuple(keywords)


def with_defaults(
    function: PythonFunction,
    positional: tuple[ex.Expr, ...],
    keywords: list[tuple[str, ex.Expr]],
    record: int,
) -> tuple[tuple[ex.Expr, ...], list[tuple[str, ex.Expr]]]:
    """Arguments of a declared function with its defaults; by place where Python takes them so."""
    given = dict(keywords)
    places = [] if record and not positional else list(positional)
    by_place = not (record and not positional)
    named: list[tuple[str, ex.Expr]] = []
    for parameter in function.parameters[record if not by_place else len(positional) :]:
        value = given.pop(parameter.name, parameter.default)
        if value is None:
            continue
        if by_place and not parameter.keyword_only:
            places.append(value)
        else:
            named.append((parameter.name, value))
    return tuple(places), [*named, *given.items()]


def check_single_values(
    function: PythonFunction, args: Sequence[ex.Expr], keywords: Keywords
) -> None:
    """Raises `BindError` where a parameter that takes no list is given more than one value."""
    places = dict(enumerate(function.parameters))
    given = [(places.get(i), value) for i, value in enumerate(args)]
    given += [(next((p for p in places.values() if p.name == k), None), v) for k, v in keywords]
    for parameter, value in given:
        if parameter is None or parameter.form:
            continue
        if any(isinstance(n, ex.Column | ex.PythonCall | ex.Subquery) for n in walk(value)):
            raise BindError(
                f"{function.name} has a batch_size, and its {parameter.name} takes one value for "
                "all rows",
                code="P461",
                span=value.span,
                hint=f"annotate it as a list of them: {parameter.name}: list[..]",
            )


def without_shared(
    args: tuple[ex.Expr, ...], keywords: Keywords
) -> tuple[tuple[ex.Expr, ...], Keywords, Shared]:
    """The arguments that come from rows, and shared objects by their place or name."""
    every: list[tuple[int | str, ex.Expr]] = [*enumerate(args), *keywords]
    shared = tuple((at, value) for at, value in every if has_no_value(value))
    return (
        tuple(value for value in args if not has_no_value(value)),
        tuple((k, value) for k, value in keywords if not has_no_value(value)),
        shared,
    )


def has_no_value(argument: ex.Expr) -> TypeGuard[ex.SharedObject | ex.TaskContext]:
    """Whether it is handed over as it is: rows have no values of it."""
    return isinstance(argument, _NO_VALUE)
