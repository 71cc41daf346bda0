"""Expressions whose value is known while binding: options, numbers of rows, seeds."""

from __future__ import annotations

from typing import Any

from zql.errors import BindError
from zql.expr import expression as ex
from zql.logical import plan as lp
from zql.logical.bind_expression import ExpressionBinder
from zql.logical.context import Context, Given
from zql.logical.scope import Scope
from zql.tree import walk


def constant_value(context: Context, expr: ex.Expr) -> Any:
    """The Python value of a constant expression, as options and hints have them."""
    if isinstance(expr, ex.Name) and len(expr.parts) == 1:
        argument = context.frame.arguments.get(expr.parts[0])
        if not isinstance(argument, Given):
            return expr.parts[0]
        expr = argument.value
    if isinstance(expr, ex.Parameter):
        expr = ExpressionBinder(context, ()).parameter(expr)
    if isinstance(expr, ex.Literal) and not expr.type:
        return expr.value
    if isinstance(expr, ex.Array | ex.Row):
        return tuple(constant_value(context, i) for i in expr.items)
    if isinstance(expr, ex.Struct):
        return {k: constant_value(context, v) for k, v in expr.entries}
    binder = ExpressionBinder(context, (Scope(lp.Values((), ()), ()),))
    bound = expr if isinstance(expr, ex.Literal) else binder.bind(expr)
    no_python(bound, "a constant")
    return context.at(expr.span, lambda: context.catalog.evaluate(bound))


def shown(value: object) -> str:
    """A constant as a message has it: text in quotes, numbers as they are written."""
    return repr(value) if isinstance(value, str) else str(value)


def no_python(expr: ex.Expr, where: str) -> None:
    """Raises `BindError` for a Python call where there are no rows to call it for."""
    for found in walk(expr):
        if isinstance(found, ex.PythonCall):
            raise BindError(
                f"a Python function cannot stand in {where}",
                code="P407",
                span=found.span or expr.span,
                hint="|> EXTEND or |> SELECT calls it for each row",
            )
