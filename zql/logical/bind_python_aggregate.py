"""Calls of Python aggregates: a class takes the rows of a group and gives one value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from zql.errors import BindError
from zql.expr import expression as ex
from zql.expr.functions import AggregateClass, PythonFunction
from zql.logical.catalog import IN_EXPRESSION, ProbeWay
from zql.logical.context import Context, unknown
from zql.source import Span
from zql.tree import Node, walk

Keywords = tuple[tuple[str, ex.Expr], ...]

_PROBED = ProbeWay("AGGREGATE")


class Binder(Protocol):
    """What binding a call needs of the binder of the expression that it stands in."""

    @property
    def context(self) -> Context: ...

    def bind(self, expr: ex.Expr) -> ex.Expr: ...

    def boolean(self, expr: ex.Expr, what: str) -> ex.Expr: ...

    def check_place(self, call: ex.Call, aggregate: bool, python: bool = False) -> None: ...

    def check_inner(self, call: ex.Call) -> None: ...

    def given(
        self,
        args: Sequence[ex.Expr | ex.NamedArgument],
        function: PythonFunction,
        span: Span | None,
    ) -> tuple[tuple[ex.Expr, ...], Keywords]: ...

    def typed_arguments(
        self, args: tuple[ex.Expr, ...], keywords: Keywords
    ) -> tuple[tuple[ex.Expr, ...], Keywords]: ...

    def as_declared(
        self, function: PythonFunction, args: tuple[ex.Expr, ...], keywords: Keywords
    ) -> tuple[tuple[ex.Expr, ...], Keywords]: ...

    def is_type(self, type: str) -> bool: ...

    def probed(
        self,
        function: PythonFunction,
        args: tuple[ex.Expr, ...],
        keywords: Keywords,
        span: Span | None,
        way: ProbeWay = IN_EXPRESSION,
        condition: ex.Expr | None = None,
    ) -> PythonFunction: ...


def python_aggregate(
    binder: Binder, call: ex.Call, function: PythonFunction, kind: AggregateClass
) -> ex.PythonAggregateCall:
    """The bound call. Raises `BindError`."""
    name = ".".join(call.name)
    _check_clauses(call, name)
    if binder.context.limited(function).timeout is not None:
        raise BindError(
            f"{name} is an aggregate, whose calls cannot have a time limit yet",
            code="P404",
            span=call.span,
            hint="|> REDUCE takes one: @{timeout = '10s'}",
        )
    binder.check_place(call, aggregate=True, python=True)
    args, keywords, made_with = _arguments(binder, call, function, kind)
    condition = None
    if call.filter is not None:
        condition = binder.boolean(binder.bind(call.filter), "FILTER")
    ordered_by = tuple(binder.bind(key.expr) for key in call.order)
    _check_operands((*ordered_by, *([condition] if condition is not None else [])), call, name)
    ordered_by, _ = binder.typed_arguments(ordered_by, ())
    if not function.returns:
        function = binder.probed(
            function, args, (*keywords, *made_with), call.span, _PROBED, condition
        )
        function = replace(function, fields=None)
    elif not binder.is_type(function.returns):
        raise BindError(
            f"{function.name} is declared to return {function.returns}, which is no type",
            code="T323",
            span=call.span,
            hint="types are DuckDB's: BIGINT, DOUBLE, VARCHAR, DATE, VARCHAR[], ..",
        )
    function = binder.context.limited(function)
    bound = ex.PythonAggregateCall(
        call.name,
        (*args, *(ex.NamedArgument(k, v) for k, v in keywords)),
        distinct=call.distinct,
        order=tuple(replace(k, expr=e) for k, e in zip(call.order, ordered_by, strict=True)),
        filter=condition,
        volatile=function.volatile,
        aggregate=True,
        function=function,
        made_with=made_with,
        span=call.span,
        name_span=call.name_span,
    )
    binder.check_inner(bound)
    return bound


def _check_clauses(call: ex.Call, name: str) -> None:
    if call.window is not None:
        raise BindError(
            f"{name} is a Python aggregate, which has no OVER yet",
            code="P404",
            span=call.span,
            hint="|> AGGREGATE it, and |> JOIN the result to the rows",
        )
    if call.star or call.within_group or call.ignore_nulls is not None:
        raise BindError(
            f"{name} is a Python aggregate: it takes arguments, DISTINCT, ORDER BY and FILTER",
            code="T305",
            span=call.span,
            hint="what it makes of NULL is said by the annotations of its step",
        )


def _arguments(
    binder: Binder, call: ex.Call, function: PythonFunction, kind: AggregateClass
) -> tuple[tuple[ex.Expr, ...], Keywords, Keywords]:
    """The arguments of `step`, its named ones, and those of `__init__`, in declared types."""
    making = {p.name for p in kind.parameters} - {p.name for p in function.parameters}
    of_init: list[ex.NamedArgument] = []
    of_step: list[ex.Expr | ex.NamedArgument] = []
    _check_names(call, function, kind)
    for arg in call.args:
        if isinstance(arg, ex.NamedArgument) and arg.name in making:
            of_init.append(arg)
        else:
            of_step.append(arg)
    args, keywords = binder.given(of_step, function, call.span)
    _check_operands((*args, *(v for _, v in keywords)), call, ".".join(call.name))
    args, keywords = binder.as_declared(function, *binder.typed_arguments(args, keywords))
    maker = replace(function, parameters=kind.parameters, context=kind.context)
    _, made_with = binder.given(of_init, maker, call.span)
    _, made_with = binder.as_declared(maker, (), binder.typed_arguments((), made_with)[1])
    for given, (name, value) in zip(of_init, made_with, strict=False):
        if any(isinstance(n, ex.Column | ex.PythonCall | ex.Subquery) for n in walk(value)):
            raise BindError(
                f'"{name}" goes to __init__, before there is a row: it cannot depend on one',
                code="P450",
                span=given.span or call.span,
                hint="a parameter of step gets a value of each row",
            )
    return args, keywords, made_with


def _check_names(call: ex.Call, function: PythonFunction, kind: AggregateClass) -> None:
    """Raises `BindError` for a named argument that neither `step` nor `__init__` has."""
    if any(p.variadic for p in function.parameters):
        return
    names = list(dict.fromkeys(p.name for p in (*function.parameters, *kind.parameters)))
    for arg in call.args:
        if isinstance(arg, ex.NamedArgument) and arg.name not in names:
            raise unknown("parameter", arg.name, names, arg.span or call.span, "N206")


def _check_operands(operands: Sequence[ex.Expr], call: ex.Call, name: str) -> None:
    """Raises `BindError` for a lambda's variable, and for an aggregate, in what is aggregated."""
    nodes: list[Node] = [n for operand in operands for n in walk(operand)]
    if any(isinstance(n, ex.Variable) for n in nodes):
        raise BindError(
            "a Python aggregate cannot be called inside a lambda",
            code="P407",
            span=call.span,
            hint="|> UNNEST the list, and |> AGGREGATE its elements",
        )
    if any(isinstance(n, ex.Call) and n.aggregate and n.window is None for n in nodes):
        raise BindError(
            f"{name}(..) is an aggregate: it cannot be one of another aggregate",
            code="T309",
            span=call.span,
            hint="|> AGGREGATE the inner one first, then |> AGGREGATE its result",
        )
