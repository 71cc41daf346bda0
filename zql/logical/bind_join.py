"""JOIN in a pipe and in FROM: both sides' columns side by side, shared ones of USING once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from zql.errors import BindError
from zql.expr import expression as ex
from zql.logical import plan as lp
from zql.logical.bind_expression import ExpressionBinder
from zql.logical.bind_hints import strategy_of
from zql.logical.bind_lateral import check_kind, is_lateral, lateral_plan
from zql.logical.bind_unnest import elements_of, join_unnest
from zql.logical.context import Context, unknown
from zql.logical.instances import inlined
from zql.logical.scope import Scope, Visible, matching
from zql.source import Span
from zql.syntax import ast

BindItem = Callable[[Context, ast.FromItem, tuple[Scope, ...]], Scope]


def join(
    context: Context, left: Scope, clause: ast.Join, outer: tuple[Scope, ...], bind_item: BindItem
) -> Scope:
    """The scope behind a JOIN. Raises `BindError`."""
    elements = elements_of(clause.right)
    if elements is not None:
        return join_unnest(context, left, clause, elements, outer)
    lateral = is_lateral(clause.right)
    if lateral:
        check_kind(clause)
    right = bind_item(context, clause.right, (left, *outer) if lateral else outer)
    if lateral:
        right = inlined(context, right, clause.span)
    _check_aliases(left, right, clause.span)
    shared = _shared_names(left, right, clause)
    both = _side_by_side(left, right, lp.Join(left.plan, right.plan, clause.kind))
    if shared:
        equal, pairs = _using(left, right, shared)
        equal = _typed(context, both, outer, equal, clause.span)
        joined = _joined(both, left, right, clause, equal)
        return _merged(context, joined, clause.kind, pairs)
    on, condition = clause.on, None
    if on is not None:
        binder = ExpressionBinder(context, (both, *outer), row_by_row="ON")
        bound = context.attempt(lambda: binder.boolean(binder.bind(on), "ON"))
        condition = bound if bound is not None else ex.Literal(True)
    elif clause.kind != "CROSS" and not lateral:
        raise BindError(
            f"{clause.kind} JOIN needs ON or USING",
            code="P403",
            span=clause.span,
            hint="|> CROSS JOIN .. for every pair of rows",
        )
    return _joined(both, left, right, clause, condition)


def _check_aliases(left: Scope, right: Scope, span: Span | None) -> None:
    names = {alias.casefold() for alias, _ in left.aliases}
    for alias, _ in right.aliases:
        if alias.casefold() in names:
            raise BindError(
                f'two tables are called "{alias}"',
                code="N212",
                span=span,
                hint="give one of them an alias with AS",
            )


def _shared_names(
    left: Scope, right: Scope, clause: ast.Join
) -> tuple[tuple[str, Span | None], ...]:
    if clause.natural:
        shared = tuple((n, clause.span) for n in left.names if n in right.names)
        if not shared:
            raise BindError(
                "NATURAL JOIN of tables without a common column",
                code="N213",
                span=clause.span,
                hint="say what fits together: |> JOIN .. ON a.x = b.y",
                notes=(
                    f"on the left: {', '.join(left.names[:12])}",
                    f"on the right: {', '.join(right.names[:12])}",
                ),
            )
        return shared
    return tuple((i.text, i.span) for i in clause.using)


def _using(
    left: Scope, right: Scope, shared: tuple[tuple[str, Span | None], ...]
) -> tuple[ex.Expr, list[tuple[Visible, Visible]]]:
    pairs: list[tuple[Visible, Visible]] = []
    for name, span in shared:
        sides = []
        for scope, side in ((left, "left"), (right, "right")):
            found = matching(scope.visible, name)
            if not found:
                error = unknown("column", name, list(scope.names), span)
                error.message += f" on the {side} side of the JOIN"
                error.hint = error.hint or "when its name differs: ON left_name = right_name"
                raise error
            if len(found) > 1:
                raise BindError(
                    f'"{name}" is ambiguous on the {side} side',
                    code="N202",
                    span=span,
                    hint=f"write ON with the tables' aliases: {found[0].origin or 't'}.{name} = ..",
                )
            sides.append(found[0])
        if any(sides[0] is left for left, _ in pairs):
            raise BindError(f'USING names "{name}" twice', code="N208", span=span)
        pairs.append((sides[0], sides[1]))
    equal = tuple(ex.Binary("=", a.column, b.column) for a, b in pairs)
    return (equal[0] if len(equal) == 1 else ex.Logical("AND", equal)), pairs


def _typed(
    context: Context,
    both: Scope,
    outer: tuple[Scope, ...],
    condition: ex.Expr,
    span: Span | None,
) -> ex.Expr:
    binder = ExpressionBinder(context, (both, *outer))
    return binder.boolean(replace(condition, span=span), "USING")


def _side_by_side(left: Scope, right: Scope, plan: lp.Join) -> Scope:
    return Scope(
        plan,
        left.visible + right.visible,
        left.aliases + right.aliases,
        left.virtual + right.virtual,
        left.carried + right.carried,
    )


def _joined(
    both: Scope, left: Scope, right: Scope, clause: ast.Join, condition: ex.Expr | None
) -> Scope:
    if is_lateral(clause.right):
        return both.over(lateral_plan(left, right, clause.kind, condition, clause.span))
    plan = lp.Join(left.plan, right.plan, clause.kind, condition, strategy_of(clause))
    return (left if clause.kind in ("SEMI", "ANTI") else both).over(plan)


def _merged(
    context: Context, scope: Scope, kind: str, pairs: list[tuple[Visible, Visible]]
) -> Scope:
    """USING: each shared column once, in its left place, with the value of the side that has it."""
    if kind in ("SEMI", "ANTI"):
        return scope
    gone = {second.column.name for _, second in pairs}
    merged: dict[str, Visible] = {}
    extra: list[lp.Assign] = []
    for first, second in pairs:
        if kind == "RIGHT":
            merged[first.column.name] = Visible(first.name, second.column)
        elif kind == "FULL":
            value = ex.Call(("coalesce",), (first.column, second.column))
            column = context.names.column(first.name, context.types((value,))[0])
            extra.append(lp.Assign(column, value))
            merged[first.column.name] = Visible(first.name, column)
        else:
            merged[first.column.name] = Visible(first.name, first.column)
    visible = tuple(
        merged.get(v.column.name, v) for v in scope.visible if v.column.name not in gone
    )
    plan = scope.plan
    if extra:
        plan = lp.Project(plan, tuple(lp.Assign(c, c) for c in plan.columns) + tuple(extra))
    return replace(scope, plan=plan, visible=visible)
