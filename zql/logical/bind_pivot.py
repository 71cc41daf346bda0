"""PIVOT and UNPIVOT: values become columns, columns become rows.

Neither needs a node of its own: PIVOT is an aggregation with a FILTER for each value, UNPIVOT the
elements of a list of (name, value) pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from zql.errors import BindError
from zql.expr import expression as ex
from zql.logical import plan as lp
from zql.logical.bind_aggregate import aggregate_item
from zql.logical.bind_expression import ExpressionBinder
from zql.logical.bind_select import Made, check_unique, first_aggregate, has_window
from zql.logical.catalog import TypeProblem
from zql.logical.common_types import common_type
from zql.logical.constants import no_python
from zql.logical.context import Context, unknown
from zql.logical.conversion import kind_of
from zql.logical.scope import Scope, Visible, matching
from zql.syntax import ast
from zql.tree import Node, map_children, walk

_TEXT_AND_OTHERS = {"text", "integer", "float", "boolean"}


def pivot(context: Context, scope: Scope, op: ast.Pivot, outer: tuple[Scope, ...]) -> Scope:
    """A column for each aggregate of each value; grouped by the columns that PIVOT does not use.

    Without such columns one row comes out. Raises `BindError`.
    """
    binder = ExpressionBinder(context, (scope, *outer))
    looked_at = _input(binder, op)
    aggregates = [aggregate_item(binder, ast.AggregateItem(i.expr, i.alias)) for i in op.aggregates]
    used = {n.name for e in (looked_at, *(m.expr for m in aggregates)) for n in _columns(e)}
    keys = [v for v in scope.visible if v.column.name not in used]
    made = [Made(v.name, v.column, op.span, v.origin) for v in keys]
    plan, column = _as_column(context, scope.plan, looked_at, binder)
    for item in op.values:
        name, value = _value(binder, item, column)
        test = ex.Is(column, "DISTINCT", negated=True, other=value)
        for aggregate, written in zip(aggregates, op.aggregates, strict=True):
            plain = len(aggregates) == 1 and written.alias is None
            label = name if plain else f"{aggregate.name}_{name}"
            made.append(Made(label, _filtered(aggregate.expr, test), item.span))
    check_unique(context, made, "PIVOT")
    types = binder.types([m.expr for m in made])
    assigns = [
        lp.Assign(context.names.column(m.name, t), m.expr) for m, t in zip(made, types, strict=True)
    ]
    plan = lp.Aggregate(plan, tuple(assigns[: len(keys)]), tuple(assigns[len(keys) :]))
    visible = tuple(Visible(m.name, a.column) for m, a in zip(made, assigns, strict=True))
    return _under_alias(Scope(plan, visible), op.alias)


def _under_alias(scope: Scope, alias: ast.Identifier | None) -> Scope:
    return scope.with_alias(alias.text) if alias else scope


def _input(binder: ExpressionBinder, op: ast.Pivot) -> ex.Expr:
    """The expression behind FOR, which is looked at row by row."""
    bound = binder.bind(op.input)
    call = first_aggregate(bound)
    if call is not None or has_window(bound):
        raise BindError(
            "PIVOT .. FOR takes an expression over one row",
            code="T309",
            span=(call.span if call else None) or op.input.span,
            hint="make it a column before: |> EXTEND .. AS name",
        )
    return bound


def _columns(expr: ex.Expr) -> list[ex.Column]:
    return [n for n in walk(expr) if isinstance(n, ex.Column)]


def _as_column(
    context: Context, plan: lp.LogicalPlan, input: ex.Expr, binder: ExpressionBinder
) -> tuple[lp.LogicalPlan, ex.Column]:
    """A plan with the expression as a column, so that it is computed once for all values."""
    (type_,) = binder.types((input,))
    if isinstance(input, ex.Column):
        return plan, input
    column = context.names.column("pivot", type_)
    passed = tuple(lp.Assign(c, c) for c in plan.columns)
    return lp.Project(plan, (*passed, lp.Assign(column, input))), column


def _value(binder: ExpressionBinder, item: ast.SelectItem, input: ex.Column) -> tuple[str, ex.Expr]:
    """A listed value and the name of its column: its alias, else its text."""
    if any(isinstance(n, ex.Name) for n in walk(item.expr)):
        raise BindError(
            "PIVOT lists constant values",
            code="T326",
            span=item.expr.span,
            hint=f"text needs single quotes: '{item.expr.span.text}'" if item.expr.span else None,
        )
    value = binder.bind(item.expr)
    no_python(value, "the values of PIVOT")
    (type_,) = binder.types((value,))
    kinds = {kind_of(type_), kind_of(input.type)}
    if len(kinds) > 1 and "text" in kinds and kinds <= _TEXT_AND_OTHERS:
        raise BindError(
            f"PIVOT lists a {type_} where the rows have {input.type}",
            code="T316",
            span=item.expr.span,
            hint="CAST one of them",
        )
    binder.types((ex.Is(input, "DISTINCT", negated=True, other=value),))
    if item.alias:
        return item.alias.text, value
    try:
        text = binder.context.catalog.evaluate(ex.Cast(value, "VARCHAR"))
    except TypeProblem as problem:
        raise BindError(problem.message, code="T326", span=item.expr.span) from None
    return "NULL" if text is None else str(text), value


def _filtered(expr: ex.Expr, test: ex.Expr) -> ex.Expr:
    """The expression with its aggregates over the rows that pass the test."""

    def visit(node: Node) -> Node:
        if isinstance(node, ex.Subquery):
            return node
        if isinstance(node, ex.Call) and node.aggregate and node.window is None:
            both = test if node.filter is None else ex.Logical("AND", (test, node.filter))
            return replace(node, filter=both)
        return map_children(node, visit)

    filtered = visit(expr)
    if not isinstance(filtered, ex.Expr):
        raise TypeError(expr)
    return filtered


# ---- UNPIVOT -----------------------------------------------------------------------------------


def unpivot(context: Context, scope: Scope, op: ast.Unpivot) -> Scope:
    """A row for each listed column of each row, in that order; other columns stay at the left.

    NULLs are left out unless INCLUDE NULLS. Raises `BindError`.
    """
    listed = [_listed(scope, column) for column in op.columns]
    _no_column_twice(op.columns, listed)
    gone = {v.column.name for v in listed}
    kept = tuple(v for v in scope.visible if v.column.name not in gone)
    _free_names(op, kept)
    type_ = _common_type(context, op.columns, listed)
    labels = [c.label or v.name for c, v in zip(op.columns, listed, strict=True)]
    pairs = ex.Array(
        tuple(
            ex.Struct((("name", ex.Literal(label)), ("value", ex.Cast(v.column, type_))))
            for label, v in zip(labels, listed, strict=True)
        )
    )
    pair = context.names.column("pair", f'STRUCT("name" VARCHAR, "value" {type_})')
    value = context.names.column(op.value.text, type_)
    name = context.names.column(op.name.text, "VARCHAR")
    plan: lp.LogicalPlan = lp.Unnest(scope.plan, pairs, pair)
    if not op.include_nulls:
        plan = lp.Filter(plan, ex.Is(ex.FieldAccess(pair, "value"), "NULL", negated=True))
    plan = lp.Project(
        plan,
        (
            *(lp.Assign(v.column, v.column) for v in kept),
            lp.Assign(value, ex.FieldAccess(pair, "value")),
            lp.Assign(name, ex.FieldAccess(pair, "name")),
        ),
    )
    new = (Visible(op.value.text, value), Visible(op.name.text, name))
    return _under_alias(Scope(plan, (*kept, *new)), op.alias)


def _listed(scope: Scope, column: ast.UnpivotColumn) -> Visible:
    parts = column.column.parts
    if len(parts) > 1:
        raise BindError(
            f"UNPIVOT takes plain columns, not {'.'.join(parts)}",
            code="N216",
            span=column.column.span,
        )
    found = matching(scope.visible, parts[0])
    if len(found) > 1:
        raise BindError(
            f'"{parts[0]}" stands for {len(found)} columns', code="N202", span=column.column.span
        )
    if not found:
        raise unknown("column", parts[0], scope.names, column.column.span)
    return found[0]


def _no_column_twice(columns: Sequence[ast.UnpivotColumn], listed: Sequence[Visible]) -> None:
    seen: set[str] = set()
    for column, visible in zip(columns, listed, strict=True):
        if visible.column.name in seen:
            raise BindError(
                f'UNPIVOT lists "{visible.name}" twice', code="N208", span=column.column.span
            )
        seen.add(visible.column.name)


def _free_names(op: ast.Unpivot, kept: Sequence[Visible]) -> None:
    taken = {v.name for v in kept}
    for new in (op.value, op.name):
        if new.text in taken:
            raise BindError(
                f'UNPIVOT adds "{new.text}", which is there already',
                code="N214",
                span=new.span,
                hint="give the new column another name",
            )
        taken.add(new.text)


def _common_type(
    context: Context, columns: Sequence[ast.UnpivotColumn], listed: Sequence[Visible]
) -> str:
    """The type that holds the values of all the columns; numbers beside text are an error."""
    first, types = listed[0], [v.column.type for v in listed]
    for i in range(1, len(listed)):
        if common_type(context, types[: i + 1]) is None:
            raise BindError(
                f'UNPIVOT: "{first.name}" is {types[0]} and "{listed[i].name}" is {types[i]}',
                code="T316",
                span=columns[i].column.span,
                hint=f"CAST one of them before: |> SET {listed[i].name} = CAST(.. AS ..)",
            )
    return common_type(context, types) or types[0]
