"""SHUFFLE and DISTRIBUTE: rows in another order, and the files that the WRITE behind makes of them.

`INTO n SHARDS` and the keys of DISTRIBUTE stay with the rows (`Scope.shards`) through operators
that make each row of one row, up to the WRITE.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from zql.errors import BindError
from zql.expr import expression as ex
from zql.logical import plan as lp
from zql.logical.bind_expression import ExpressionBinder
from zql.logical.bind_sample import PLACE, seed_of, ticketed, with_column
from zql.logical.carry_columns import carry_columns
from zql.logical.constants import constant_value, shown
from zql.logical.context import Context
from zql.logical.scope import Scope, Shards
from zql.logical.stable_hash import hash_of
from zql.source import Span
from zql.syntax import ast


def shuffle(context: Context, scope: Scope, op: ast.Shuffle) -> Scope:
    """The rows in an order by chance; with a seed, in one that the seed and the input decide."""
    seed = None if op.seed is None else seed_of(context, op.seed, "SEED")
    plan, place, ticket = ticketed(context, scope.plan, seed)
    plan = lp.Sort(plan, (ex.SortKey(ticket), ex.SortKey(place)), shuffles=True)
    count = _count(context, op.shards)
    shards = None if count is None else Shards(count, span=op.span)
    return replace(scope, plan=plan, shards=shards)


def distribute(
    context: Context, scope: Scope, op: ast.Distribute, outer: tuple[Scope, ...]
) -> Scope:
    """The rows with the number that says which shard they go to."""
    binder = ExpressionBinder(context, (scope, *outer), row_by_row="DISTRIBUTE")
    keys = [binder.bind(e) for e in op.keys]
    number: ex.Expr = ex.Binary("-", PLACE, ex.Literal(1))
    if keys:
        number = ex.Literal(0)
        for key, type_ in zip(keys, binder.types(keys), strict=True):
            number = hash_of(key, type_, number)
    column = context.names.column("shard", "BIGINT")
    shards = Shards(_count(context, op.shards), column, op.span)
    return replace(scope, plan=with_column(scope.plan, column, number), shards=shards)


def _count(context: Context, expr: ex.Expr | None) -> int | None:
    if expr is None:
        return None
    value = None if isinstance(expr, ex.Name) else constant_value(context, expr)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise BindError(
            "INTO takes a number of shards, at least 1"
            + ("" if value is None else f", not {shown(value)}"),
            code="T314",
            span=expr.span,
        )
    return value


def keep_shards(before: Scope, after: Scope) -> Scope:
    """The scope behind an operator: what is said of shards stays, or ends there."""
    shards = before.shards
    if shards is None or (after.shards is not None and after.shards is not shards):
        return after
    columns = () if shards.number is None else (shards.number,)
    plan = carry_columns(after.plan, before.plan, columns)
    return replace(after, shards=None) if plan is None else replace(after, plan=plan, shards=shards)


def shards_option(
    scope: Scope, uri: str, options: Mapping[str, Any], spans: Mapping[str, Span | None]
) -> Mapping[str, Any]:
    """The options of a WRITE with the number of shards that its input asks for.

    Raises `BindError` when it asks for another number, or does not say one that is needed.
    """
    shards = scope.shards
    if shards is None:
        return options
    asked = options.get("shards")
    if shards.count is not None:
        if asked is not None and asked != shards.count:
            raise BindError(
                f'INTO {shards.count} SHARDS, and the option "shards" says {asked}',
                code="P442",
                span=spans.get("shards"),
                hint="leave one of them away",
            )
        return {**options, "shards": shards.count}
    if asked is None and ("{shard" in uri or uri.endswith("/")):
        raise BindError(
            "DISTRIBUTE does not say how many shards there are to be",
            code="P443",
            span=shards.span,
            hint="DISTRIBUTE .. INTO 16 SHARDS, or WRITE .. OPTIONS (shards = 16)",
        )
    return options


def dealt(
    context: Context, scope: Scope, table: lp.LogicalPlan, options: Mapping[str, Any]
) -> tuple[lp.LogicalPlan, ex.Column | None]:
    """The rows of a WRITE by their shards, and the column that says which; None when any may do.

    `table` is the scope's plan with nothing but the columns to write. Rows of one shard keep their
    order.
    """
    count = options.get("shards")
    if scope.shards is None or scope.shards.number is None or not count or count == 1:
        return table, None
    shard = context.names.column("shard", "BIGINT")
    place = context.names.column("place", "BIGINT")
    number = ex.Binary("%", scope.shards.number, ex.Literal(count))
    columns = table.columns
    plan: lp.LogicalPlan = with_column(with_column(scope.plan, shard, number), place, PLACE)
    plan = lp.Sort(plan, (ex.SortKey(shard), ex.SortKey(place)))
    return lp.Project(plan, tuple(lp.Assign(c, c) for c in (*columns, shard))), shard
