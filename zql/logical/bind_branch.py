"""Operators that hold pipelines: rows computed once for several readers, branches and their merge.

TEE and FORK stand in a statement's own pipeline only; SWITCH whose branches give rows, and IF,
stand anywhere.
"""

from __future__ import annotations

from dataclasses import replace

from zql.errors import BindError
from zql.expr import expression as ex
from zql.logical import plan as lp
from zql.logical.bind_expression import ExpressionBinder
from zql.logical.bind_operator import common_type_of
from zql.logical.bind_source import visible_only
from zql.logical.constants import constant_value
from zql.logical.context import Context, Given
from zql.logical.scope import Scope, Visible
from zql.source import Span
from zql.syntax import ast
from zql.tree import walk

DROPPED = "rows_dropped"
"""The counter of rows for which no branch of a SWITCH is true."""


def shared(context: Context, scope: Scope, name: str, outer: tuple[Scope, ...]) -> Scope:
    """The same rows and names, computed once however many pipelines read them."""
    columns = scope.kept_columns() or scope.plan.columns[:1]
    plan = scope.plan
    if columns != plan.columns:
        plan = lp.Project(plan, tuple(lp.Assign(c, c) for c in columns))
    around = {c.name for s in outer for c in s.plan.columns}
    if any(isinstance(n, ex.Column) and n.name in around for n in walk(plan)):
        raise BindError(
            f"{name} cannot stand in a subquery that looks at the outer row",
            code="P412",
            hint="write the subquery as a JOIN",
        )
    if lp.open_rounds(plan):
        raise BindError(
            f"{name} cannot stand in the step of RECURSIVE UNION",
            code="P412",
            hint="CASE in |> SELECT, or |> UNION ALL of what each branch would give",
        )
    number = len(context.commons) + 1
    context.commons.append(lp.Common(number, name, plan))
    return scope.over(lp.CommonRows(number, name, columns))


def routed(
    context: Context, scope: Scope, op: ast.Switch, outer: tuple[Scope, ...]
) -> list[tuple[ast.Subpipe, Scope]]:
    """The branches of a SWITCH with the rows of each; a last one without rows of its own is ELSE.

    Rows that no branch takes are dropped and counted.
    """
    binder = ExpressionBinder(context, (scope, *outer), row_by_row="WHEN")
    whens = []
    for number, (condition, _) in enumerate(op.branches, 1):
        bound = binder.boolean(binder.bind(condition), "WHEN")
        whens.append((bound, ex.Literal(number)))
    column = context.names.column("branch", "INTEGER")
    choice = ex.Case(None, tuple(whens), ex.Literal(0), span=op.span)
    passed = tuple(lp.Assign(c, c) for c in scope.kept_columns())
    wide = replace(scope, plan=lp.Project(scope.plan, (*passed, lp.Assign(column, choice))))
    # The number of the branch must outlive the narrowing to what names can reach.
    reachable = replace(wide, virtual=(*wide.virtual, Visible("", column, hidden=True)))
    once = context.at(op.span, lambda: shared(context, reachable, "SWITCH", outer))
    once = replace(once, virtual=scope.virtual)

    def rows(number: int) -> Scope:
        mine = ex.Binary("=", column, ex.Literal(number))
        return once.over(lp.Filter(once.plan, mine))

    branches = [(pipe, rows(number)) for number, (_, pipe) in enumerate(op.branches, 1)]
    if op.otherwise is not None:
        branches.append((op.otherwise, rows(0)))
    else:
        context.outputs.append(lp.Finish(rows(0).plan, DROPPED))
    return branches


def merged(context: Context, sides: list[Scope], spans: list[Span | None], op: ast.Switch) -> Scope:
    """The rows of all branches, one behind the other; they must have the same columns."""
    sides = [visible_only(side, op.span) for side in sides]
    first = sides[0]
    for number, side in enumerate(sides[1:], 2):
        if side.names != first.names:
            raise BindError(
                f"branch {number} of SWITCH gives ({', '.join(side.names)}), "
                f"the first one ({', '.join(first.names)})",
                code="T315",
                span=op.span,
                hint="end the branches with |> SELECT of the same columns, or each with WRITE",
            )
    columns = []
    for i, name in enumerate(first.names):
        types = [side.visible[i].column.type for side in sides]
        type_ = common_type_of(context, "SWITCH", name, types, spans)
        columns.append(context.names.column(name, type_))
    plan = lp.SetOperation("UNION", tuple(side.plan for side in sides), tuple(columns), True)
    return Scope(plan, tuple(Visible(n, c) for n, c in zip(first.names, columns, strict=True)))


def chosen(context: Context, op: ast.If) -> ast.Subpipe:
    """The branch of IF that is taken; conditions are constants, other branches not looked at."""
    for condition, pipe in op.branches:
        names = [
            n
            for n in walk(condition)
            if isinstance(n, ex.Name)
            and not isinstance(context.frame.arguments.get(n.parts[0]), Given)
        ]
        if names:
            raise BindError(
                f'IF is decided before there are rows: "{names[0].parts[0]}" has no value yet',
                code="T314",
                span=names[0].span,
                hint="use parameters ($name) and constants; rows are routed by SWITCH",
            )
        value = constant_value(context, condition)
        if value is not None and not isinstance(value, bool):
            raise BindError(
                f"IF needs a BOOLEAN, this is {value!r}", code="T302", span=condition.span
            )
        if value:
            return pipe
    return op.otherwise or ()


def described(context: Context, scope: Scope) -> Scope:
    """The names and types of the columns, as rows."""
    columns = tuple(context.names.column(n, "VARCHAR") for n in ("column_name", "column_type"))
    rows = tuple((ex.Literal(v.name), ex.Literal(v.column.type)) for v in scope.visible)
    names = ("column_name", "column_type")
    visible = tuple(Visible(n, c) for n, c in zip(names, columns, strict=True))
    return Scope(lp.Values(columns, rows), visible)
