"""PARTITION BY .. THEN (subpipe): the subpipe for each group of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from zql.errors import BindError, ErrorList
from zql.expr import expression as ex
from zql.logical import plan as lp
from zql.logical.bind_expression import ExpressionBinder
from zql.logical.bind_select import Made, check_unique, made_columns
from zql.logical.context import Context
from zql.logical.partitioned import NoForm, in_key_order, partitioned, reads_again
from zql.logical.scope import Scope, Visible
from zql.syntax import ast

BindOperator = Callable[[Scope, ast.Operator, tuple[Scope, ...]], Scope]


def partition_by(
    context: Context,
    scope: Scope,
    op: ast.PartitionBy,
    outer: tuple[Scope, ...],
    bind_operator: BindOperator,
) -> Scope:
    """The rows that the subpipe gives for the groups, in the order of the keys.

    Raises `BindError`, also for an operator that has no form by groups.
    """
    inside, keys = _with_keys(context, scope, op, outer)
    columns = tuple(k.column for k in keys)
    after = inside
    for inner in op.pipe:
        before = after
        after = bind_operator(before, inner, outer)
        try:
            partitioned(after.plan, before.plan, ())
        except NoForm as problem:
            raise _no_form(problem.what, inner) from None
        if isinstance(inner, ast.CallTable) and reads_again(after.plan, before.plan):
            raise _no_form("a table function that reads its table twice", inner)
    plan = partitioned(after.plan, inside.plan, columns)
    place = context.names.column("place", "BIGINT")
    plan = in_key_order(plan, inside.plan, columns, place)
    lacking = tuple(k for k in keys if k.name not in after.names)
    return replace(after, plan=plan, visible=lacking + after.visible, shards=None)


def _with_keys(
    context: Context, scope: Scope, op: ast.PartitionBy, outer: tuple[Scope, ...]
) -> tuple[Scope, tuple[Visible, ...]]:
    """The scope with the keys among its columns: those that are computed come at the right."""
    binder = ExpressionBinder(context, (scope, *outer))
    made = made_columns(binder, op.keys, "PARTITION BY")
    check_unique(context, made, "PARTITION BY")
    if not made:
        raise ErrorList(list(context.errors))
    scope = binder.scope
    types = binder.types([m.expr for m in made])
    keys, assigns = [], []
    for m, type_ in zip(made, types, strict=True):
        found = _there_already(scope, m)
        if found is None:
            found = Visible(m.name, context.names.column(m.name, type_))
            assigns.append(lp.Assign(found.column, m.expr))
        keys.append(found)
    if not assigns:
        return scope, tuple(keys)
    passed = tuple(lp.Assign(c, c) for c in scope.kept_columns())
    new = tuple(k for k in keys if k.column in {a.column for a in assigns})
    plan = lp.Project(scope.plan, (*passed, *assigns))
    return replace(scope, plan=plan, visible=scope.visible + new), tuple(keys)


def _there_already(scope: Scope, made: Made) -> Visible | None:
    """The visible column that a key is; another one of its name is an error."""
    for v in scope.visible:
        if v.name != made.name:
            continue
        if isinstance(made.expr, ex.Column) and v.column.name == made.expr.name:
            return v
        raise BindError(
            f'PARTITION BY adds "{made.name}", which is there already',
            code="N214",
            span=made.span,
            hint="give the key another name with AS",
        )
    return None


def _no_form(what: str, op: ast.Operator) -> BindError:
    word = what or (op.span.text.split()[0].upper() if op.span else "this operator")
    return BindError(
        f"{word} cannot stand in the subpipe of PARTITION BY",
        code="P444",
        span=op.span,
        hint="it needs the rows of one group apart from the others: put it behind the PARTITION BY",
    )
