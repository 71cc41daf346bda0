"""RECURSIVE UNION: a step over the rows that the last round added, until it adds none.

The input fixes the columns and their types. The step's are cast to them where nothing is lost: a
fraction for an integer is an error here, an integer that is too large one when it comes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from zql.errors import BindError
from zql.expr import expression as ex
from zql.logical import plan as lp
from zql.logical.bind_source import visible_only
from zql.logical.common_types import common_type
from zql.logical.context import UNKNOWN, Context
from zql.logical.conversion import kind_of
from zql.logical.doubts import swapped
from zql.logical.instances import inlined
from zql.logical.scope import Scope, Visible, matching
from zql.source import Span
from zql.syntax import ast
from zql.tree import walk

WITHOUT_PYTHON = "the step of RECURSIVE UNION"


def recursive_union(
    context: Context, scope: Scope, op: ast.RecursiveUnion, outer: tuple[Scope, ...]
) -> Scope:
    """The input's rows and all that the step makes of them. Raises `BindError`."""
    start = visible_only(scope, op.span)
    _check_types(start, op)
    alias = op.alias.text if op.alias else ""
    name = context.names.fresh(f"rounds of {alias}" if alias else "rounds")
    columns = tuple(context.names.column(v.name, v.column.type) for v in start.visible)
    sources = tuple(c.name for c in columns)

    def rows() -> Scope:
        """The rows of the last round; each use has columns of its own."""
        own = tuple(context.names.column(v.name, v.column.type) for v in start.visible)
        visible = tuple(Visible(v.name, c) for v, c in zip(start.visible, own, strict=True))
        found = Scope(lp.RoundRows(name, own, sources), visible)
        return found.with_alias(alias) if alias else found

    step = inlined(context, _step(context, op, rows, outer), op.span)
    if not any(isinstance(n, lp.RoundRows) and n.name == name for n in walk(step.plan)):
        raise BindError(
            "the step does not read the rows of the round before",
            code="P414",
            span=op.step.span or op.span,
            hint=f"as it is, it needs no recursion: begin it with FROM {alias}, or JOIN {alias}"
            if alias
            else "begin it with |>, or name the rows: RECURSIVE UNION ALL (FROM r ..) AS r",
        )
    fitting = _fitting(context, op, start, step)
    plan = lp.RecursiveUnion(name, start.plan, fitting, columns, bool(op.all))
    visible = tuple(Visible(v.name, c) for v, c in zip(start.visible, columns, strict=True))
    result = Scope(plan, visible)
    return result.with_alias(alias) if alias else result


def _step(
    context: Context,
    op: ast.RecursiveUnion,
    rows: Callable[[], Scope],
    outer: tuple[Scope, ...],
) -> Scope:
    """The step bound: a pipe goes on from the rows, a query names them by the alias."""
    names = {op.alias.text: rows} if op.alias else {}
    query = op.step
    if not query.items:
        names[""] = rows
        query = replace(query, items=(ast.NameSource("", span=op.span),))
    with context.rounds_of(names), context.without_python(WITHOUT_PYTHON):
        return visible_only(context.bind_query(query, outer), op.step.span or op.span)


def _check_types(start: Scope, op: ast.RecursiveUnion) -> None:
    for v in start.visible:
        if v.column.type == '"NULL"':
            raise BindError(
                f'"{v.name}" is NULL in every row: it has no type to go on with',
                code="T316",
                span=op.span,
                hint="CAST it in the input: CAST(NULL AS ..)",
            )


def _fitting(context: Context, op: ast.RecursiveUnion, start: Scope, step: Scope) -> lp.LogicalPlan:
    """The step's plan with the input's columns, in their order and types."""
    span = op.step.span or op.span
    given = _by_name(start, step, span) if op.by_name else _by_position(start, step, span)
    if not op.by_name:
        swapped(context.doubts, "RECURSIVE UNION", start.names, step.names, span)
    assigns = []
    for wanted, found in zip(start.visible, given, strict=True):
        type_ = wanted.column.type
        have = found.column.type if found else '"NULL"'
        if not _fits(context, have, type_):
            raise BindError(
                f'RECURSIVE UNION: "{wanted.name}" is {type_} in the input and {have} in the step',
                code="T316",
                span=span,
                hint=f"CAST it in the input: |> SET {wanted.name} = CAST({wanted.name} AS {have})",
            )
        expr: ex.Expr = found.column if found else ex.Literal(None)
        column = context.names.column(wanted.name, type_)
        assigns.append(lp.Assign(column, expr if have == type_ else ex.Cast(expr, type_)))
    return lp.Project(step.plan, tuple(assigns))


def _fits(context: Context, have: str, wanted: str) -> bool:
    """Whether a cast loses nothing: an integer that is too large for the input's type fails."""
    integers = kind_of(have) == kind_of(wanted) == "integer"
    return integers or UNKNOWN in (have, wanted) or common_type(context, (wanted, have)) == wanted


def _by_position(start: Scope, step: Scope, span: Span | None) -> Sequence[Visible]:
    if len(step.visible) != len(start.visible):
        raise BindError(
            f"RECURSIVE UNION of {len(start.visible)} columns with {len(step.visible)}",
            code="T315",
            span=span,
            hint="the step makes the columns of the input; BY NAME fills missing ones with NULL",
        )
    return step.visible


def _by_name(start: Scope, step: Scope, span: Span | None) -> Sequence[Visible | None]:
    for v in step.visible:
        if not matching(start.visible, v.name):
            raise BindError(
                f'RECURSIVE UNION: the step makes "{v.name}", which the input does not have',
                code="T315",
                span=span,
                hint=f"|> EXTEND it before, or |> DROP {v.name} in the step",
                notes=(f"columns of the input: {', '.join(start.names)}",),
            )
    return [next(iter(matching(step.visible, v.name)), None) for v in start.visible]
