"""TABLESAMPLE: rows chosen by chance, or by a hash of their places when a seed is given."""

from __future__ import annotations

from decimal import Decimal
from math import isfinite
from typing import TYPE_CHECKING, Any

from zql.errors import BindError
from zql.expr import expression as ex
from zql.logical import plan as lp
from zql.logical.bind_expression import ExpressionBinder
from zql.logical.constants import constant_value, shown
from zql.logical.context import Context
from zql.logical.scope import Scope
from zql.logical.stable_hash import LARGEST, hash_of
from zql.syntax import ast

if TYPE_CHECKING:
    from fractions import Fraction

PLACE = ex.Call(("row_number",), window=ex.Window())
"""The place of a row in its input, from 1."""

RANDOM = ex.Call(("random",), volatile=True)


def sample(context: Context, scope: Scope, op: ast.Sample, outer: tuple[Scope, ...] = ()) -> Scope:
    """The rows that are chosen, in the order of the input. Raises `BindError`."""
    seed = None if op.seed is None else seed_of(context, op.seed, "REPEATABLE")
    if op.method == "BERNOULLI":
        return scope.over(_bernoulli(context, scope.plan, _percentage(context, op.size), seed))
    count = _rows(context, op.size)
    binder = ExpressionBinder(context, (scope, *outer), row_by_row="TABLESAMPLE")
    keys = tuple(binder.bind(e) for e in op.partition)
    binder.types(keys)
    return scope.over(_reservoir(context, scope.plan, count, keys, seed))


def seed_of(context: Context, expr: ex.Expr, word: str) -> int:
    """A seed: a whole number that is known beforehand. Raises `BindError`."""
    value = _constant(context, expr, word, "whole number")
    if not isinstance(value, int) or isinstance(value, bool):
        raise BindError(
            f"{word} takes a whole number, not {shown(value)}", code="T314", span=expr.span
        )
    return value


def with_column(plan: lp.LogicalPlan, column: ex.Column, value: ex.Expr) -> lp.Project:
    """The plan with a computed column more."""
    passed = tuple(lp.Assign(c, c) for c in plan.columns)
    return lp.Project(plan, (*passed, lp.Assign(column, value)))


def ticketed(
    context: Context, plan: lp.LogicalPlan, seed: int | None
) -> tuple[lp.LogicalPlan, ex.Column, ex.Column]:
    """The plan with the place of each row and its ticket: a number by chance, or of its place."""
    place = context.names.column("place", "BIGINT")
    plan = with_column(plan, place, PLACE)
    if seed is None:
        ticket = context.names.column("ticket", "DOUBLE")
        return with_column(plan, ticket, RANDOM), place, ticket
    ticket = context.names.column("ticket", "BIGINT")
    return with_column(plan, ticket, hash_of(place, "BIGINT", ex.Literal(seed))), place, ticket


def _bernoulli(
    context: Context, plan: lp.LogicalPlan, percent: Fraction, seed: int | None
) -> lp.LogicalPlan:
    if seed is None:
        return lp.Filter(plan, ex.Binary("<", RANDOM, ex.Literal(float(percent / 100))))
    plan, _, ticket = ticketed(context, plan, seed)
    below = int(percent / 100 * (LARGEST + 1))
    return lp.Filter(plan, ex.Binary("<", ticket, ex.Literal(below)))


def _reservoir(
    context: Context,
    plan: lp.LogicalPlan,
    count: int,
    keys: tuple[ex.Expr, ...],
    seed: int | None,
) -> lp.LogicalPlan:
    """The rows with the lowest tickets, put back in their places."""
    plan, place, ticket = ticketed(context, plan, seed)
    order = (ex.SortKey(ticket), ex.SortKey(place))
    if keys:
        rank = ex.Call(("row_number",), window=ex.Window(keys, order))
        chosen: lp.LogicalPlan = lp.Filter(plan, ex.Binary("<=", rank, ex.Literal(count)))
    else:
        chosen = lp.Limit(lp.Sort(plan, order), count)
    return lp.Sort(chosen, (ex.SortKey(place),))


def _percentage(context: Context, expr: ex.Expr) -> Fraction:
    value = _constant(context, expr, "BERNOULLI", "percentage")
    number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    if not number or not isfinite(value) or not 0 <= value <= 100:
        raise BindError(
            f"BERNOULLI takes a percentage from 0 to 100, not {shown(value)}",
            code="T314",
            span=expr.span,
        )
    from fractions import Fraction

    return Fraction(value)


def _rows(context: Context, expr: ex.Expr) -> int:
    value = _constant(context, expr, "RESERVOIR", "number of rows")
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise BindError(
            f"RESERVOIR takes a number of rows, not {shown(value)}", code="T314", span=expr.span
        )
    return value


def _constant(context: Context, expr: ex.Expr, word: str, what: str) -> Any:
    if isinstance(expr, ex.Name):
        raise BindError(f"{word} takes a constant {what}", code="T314", span=expr.span)
    return constant_value(context, expr)
