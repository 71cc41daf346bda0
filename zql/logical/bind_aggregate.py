"""AGGREGATE .. GROUP [AND ORDER] BY: keys first, then aggregates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from zql.errors import BindError, ErrorList
from zql.expr import expression as ex
from zql.logical import plan as lp
from zql.logical.bind_call import aggregate_error
from zql.logical.bind_expression import ExpressionBinder
from zql.logical.bind_select import Made, check_unique, first_aggregate, has_window
from zql.logical.context import Context
from zql.logical.scope import Scope, Visible
from zql.syntax import ast
from zql.tree import Node, children, map_children, walk


def aggregate(context: Context, scope: Scope, op: ast.Aggregate, outer: tuple[Scope, ...]) -> Scope:
    """One row for each group. Raises or reports `BindError`."""
    siblings = tuple(i.alias.text for i in op.items + op.keys if i.alias)
    binder = ExpressionBinder(context, (scope, *outer), siblings=siblings)
    keys = [m for i in op.keys if (m := context.attempt(lambda i=i: grouping_key(binder, i)))]  # type: ignore[misc]
    made = [m for i in op.items if (m := context.attempt(lambda i=i: aggregate_item(binder, i)))]  # type: ignore[misc]
    both = keys + made
    check_unique(context, both, "AGGREGATE")
    if len(both) < len(keys) + len(made):
        raise ErrorList(context.errors)
    # Apart: beside an aggregate a key would be a column that is not grouped.
    types = binder.types([m.expr for m in keys]) + binder.types([m.expr for m in made])
    columns = []
    for m, type_ in zip(keys + made, types, strict=True):
        columns.append(context.names.column(m.name, type_))
    assigns = [lp.Assign(c, m.expr) for c, m in zip(columns, keys + made, strict=True)]
    plan: lp.LogicalPlan = lp.Aggregate(
        scope.plan, tuple(assigns[: len(keys)]), tuple(assigns[len(keys) :])
    )
    order = _order(op, columns)
    if order:
        plan = lp.Sort(plan, order)
    visible = tuple(Visible(m.name, c) for m, c in zip(keys + made, columns, strict=True))
    return Scope(plan, visible)


def _order(op: ast.Aggregate, columns: list[ex.Column]) -> tuple[ex.SortKey, ...]:
    """Keys with a suffix first, then aggregates; GROUP AND ORDER BY adds the other keys."""
    items = op.keys + op.items
    if len(items) != len(columns):
        return ()
    keys, aggregates = list(range(len(op.keys))), list(range(len(op.keys), len(items)))
    chosen = [i for i in keys if items[i].order] + [i for i in aggregates if items[i].order]
    if op.ordered:
        chosen += [i for i in keys if i not in chosen]
    return tuple(
        ex.SortKey(columns[i], items[i].order == "DESC", items[i].nulls_first) for i in chosen
    )


def grouping_key(binder: ExpressionBinder, item: ast.AggregateItem | ast.SelectItem) -> Made:
    """A key of GROUP BY bound. Raises `BindError`."""
    if isinstance(item.expr, ex.Literal) and isinstance(item.expr.value, int) and not item.alias:
        raise BindError(
            "GROUP BY takes expressions, not positions",
            code="T310",
            span=item.expr.span,
            hint="write the column's name",
        )
    name = item.alias.text if item.alias else binder.column_name(item.expr)
    return checked_key(Made(name, binder.bind(item.expr), item.expr.span))


def checked_key(made: Made) -> Made:
    """The key itself. Raises `BindError` for an aggregate or a window function."""
    if has_window(made.expr):
        raise BindError(
            "a window function cannot stand in GROUP BY",
            code="T311",
            span=made.span,
            hint="make it a column before: |> EXTEND .. OVER (..) AS name",
        )
    call = first_aggregate(made.expr)
    if call is not None:
        raise aggregate_error(call, "it cannot be a key of GROUP BY", "put it before GROUP BY")
    return made


def aggregate_item(binder: ExpressionBinder, item: ast.AggregateItem) -> Made:
    """An item of AGGREGATE bound: each has an aggregate in it. Raises `BindError`."""
    name = item.alias.text if item.alias else binder.column_name(item.expr)
    made = Made(name, binder.bind(item.expr), item.expr.span)
    checked_item(made)
    return replace(made, expr=typed_below_python(made.expr, lambda e: binder.types((e,))[0]))


def typed_below_python(expr: ex.Expr, type_of: Callable[[ex.Expr], str]) -> ex.Expr:
    """When Python is called over aggregates, or is one of several, these carry their types: they
    become columns.
    """
    over = any(isinstance(n, ex.PythonCall) and first_aggregate(n) for n in walk(expr))
    beside = not isinstance(expr, ex.PythonAggregateCall) and any(
        isinstance(n, ex.PythonAggregateCall) for n in walk(expr)
    )
    if not over and not beside:
        return expr

    def visit(node: Node) -> Node:
        if isinstance(node, ex.Subquery):
            return node
        if isinstance(node, ex.Call) and node.aggregate and node.window is None:
            type_ = type_of(node)
            return ex.Cast(node, type_, span=node.span) if type_ else node
        return map_children(node, visit)

    typed = visit(expr)
    return typed if isinstance(typed, ex.Expr) else expr


def checked_item(made: Made) -> None:
    """Raises `BindError` for what has no aggregate, or a column outside of one."""
    if has_window(made.expr):
        raise BindError(
            "a window function cannot stand in AGGREGATE",
            code="T311",
            span=made.span,
            hint="make it a column before: |> EXTEND .. OVER (..) AS name",
        )
    if first_aggregate(made.expr) is None:
        raise BindError(
            "this item has no aggregate",
            code="T312",
            span=made.span,
            hint="keys stand behind GROUP BY and come out by themselves",
        )
    bare = _bare_column(made.expr)
    if bare is not None:
        raise BindError(
            f'"{bare.span.text if bare.span else bare.name}" is neither grouped nor aggregated',
            code="T313",
            span=bare.span or made.span,
            hint="put it behind GROUP BY, or in an aggregate: any_value(..)",
        )


def _bare_column(expr: ex.Expr) -> ex.Column | None:
    todo: list[object] = [expr]
    while todo:
        node = todo.pop()
        if isinstance(node, ex.Call) and node.aggregate and node.window is None:
            continue
        if isinstance(node, ex.Subquery):
            continue
        if isinstance(node, ex.Column):
            return node
        if isinstance(node, ex.Expr | ex.SortKey | ex.NamedArgument):
            todo.extend(children(node))
    return None
