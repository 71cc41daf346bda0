"""SELECT .. FROM .. WHERE .. in SQL's order, made of the operators that pipes have.

FROM, WHERE, GROUP BY, HAVING; then the list, QUALIFY, DISTINCT, ORDER BY, LIMIT. A name in the list
is a column of the input, never one that the list itself makes. GROUP BY, HAVING, QUALIFY and
ORDER BY also see those; a column of the input wins, but where ORDER BY is a name by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from zql.errors import BindError, ErrorList
from zql.expr import expression as ex
from zql.logical import plan as lp
from zql.logical.bind_call import aggregate_error
from zql.logical.bind_expression import ExpressionBinder
from zql.logical.bind_operator import limit
from zql.logical.bind_select import (
    Made,
    bound_items,
    check_unique,
    first_aggregate,
    has_window,
    named_windows,
    typed,
)
from zql.logical.bind_source import bind_items
from zql.logical.context import Context
from zql.logical.grouped_select import Grouping, behind, grouping
from zql.logical.scope import Scope, Visible
from zql.syntax import ast
from zql.tree import Node, map_children, record, walk


def select_query(
    context: Context,
    source: ast.SelectSource,
    outer: tuple[Scope, ...],
    columns: frozenset[str] | None,
) -> Scope:
    """The scope behind a SELECT. Raises or reports `BindError`."""
    scope = _rows(context, source, outer, columns)
    siblings = tuple(i.alias.text for i in source.items if i.alias)
    binder = ExpressionBinder(context, (scope, *outer), siblings=siblings)
    binder = named_windows(replace(binder, grouped=source.keys is not None), source.windows)
    made = bound_items(binder, source.items)
    count = len(made)
    check_unique(context, made, "SELECT")
    if len(made) < count:  # positions would mean others
        raise ErrorList(context.errors)
    if not made:
        raise BindError("SELECT leaves no column", code="N215", span=source.span)
    query = _Select(source, replace(binder, outputs={m.name: m.expr for m in made}), made)
    query.bind_clauses()
    if query.is_grouped:
        query.group()
    return query.result()


def _rows(
    context: Context,
    source: ast.SelectSource,
    outer: tuple[Scope, ...],
    columns: frozenset[str] | None,
) -> Scope:
    """FROM and WHERE."""
    if source.sources:
        scope = bind_items(context, source.sources, outer, columns)
    else:
        row = lp.Values((context.names.column("_row", "INTEGER"),), ((ex.Literal(0),),))
        scope = Scope(row, ())
    if source.where is None:
        return scope
    binder = ExpressionBinder(context, (scope, *outer))
    predicate = context.attempt(lambda: _row_predicate(binder, source.where, "WHERE"))
    return scope if predicate is None else scope.over(lp.Filter(scope.plan, predicate))


def _row_predicate(binder: ExpressionBinder, expr: ex.Expr | None, word: str) -> ex.Expr:
    if expr is None:
        raise TypeError(word)
    bound = binder.bind(expr)
    call = first_aggregate(bound)
    if call is not None and word == "WHERE":
        raise aggregate_error(call, "WHERE works row by row", "HAVING looks at groups")
    _no_window(bound, word)
    return binder.boolean(bound, word) if word == "WHERE" else bound


def _no_window(expr: ex.Expr, word: str) -> None:
    if has_window(expr):
        raise BindError(
            f"a window function cannot stand in {word}",
            code="T311",
            span=expr.span,
            hint="QUALIFY looks at window functions",
        )


@record
class _Select:
    """A SELECT whose list is bound; the other clauses follow, then its plan."""

    source: ast.SelectSource
    binder: ExpressionBinder
    made: list[Made]
    having: ex.Expr | None = None
    qualify: ex.Expr | None = None
    order: tuple[ex.SortKey, ...] = ()
    distinct_on: tuple[ex.Expr, ...] = ()

    @property
    def context(self) -> Context:
        return self.binder.context

    # ---- clauses -------------------------------------------------------------------------------

    def bind_clauses(self) -> None:
        source, context, binder = self.source, self.context, self.binder
        if source.having is not None:
            self.having = context.attempt(lambda: _row_predicate(binder, source.having, "HAVING"))
        qualify = source.qualify
        if qualify is not None:
            self.qualify = context.attempt(lambda: binder.bind(qualify))
        keys = [context.attempt(lambda k=k: self.sort_key(k)) for k in source.order]  # type: ignore[misc]
        self.order = tuple(k for k in keys if k is not None)
        if isinstance(source.distinct, tuple):
            on = [context.attempt(lambda e=e: self.output(e, "ON")) for e in source.distinct]  # type: ignore[misc]
            self.distinct_on = tuple(e for e in on if e is not None)

    def sort_key(self, key: ex.SortKey) -> ex.SortKey:
        return replace(key, expr=self.output(key.expr, "ORDER BY"))

    def output(self, expr: ex.Expr, word: str) -> ex.Expr:
        """An expression that may be a column of the list: by its position, or by its name."""
        if isinstance(expr, ex.Literal) and isinstance(expr.value, int | str) and not expr.type:
            return self.position(expr, word)
        if isinstance(expr, ex.Name) and len(expr.parts) == 1 and word != "GROUP BY":
            named = [m.expr for m in self.made if m.name == expr.parts[0]]
            named = named or [m.expr for m in self.made if _same(m.name, expr.parts[0])]
            if len(named) == 1:
                found: ex.Expr = named[0]
                return found
        return self.binder.bind(expr)

    def position(self, literal: ex.Literal, word: str) -> ex.Expr:
        value: object = literal.value
        count = len(self.made)
        if isinstance(value, str):
            raise BindError(
                f"{word} of a text sorts nothing" if word == "ORDER BY" else f"{word} of a text",
                code="T310",
                span=literal.span,
                hint=f'a column stands in double quotes, or in none: "{value}"',
            )
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= count:
            raise BindError(
                f"{word} {literal.value}: the list has {count} column{'s' if count > 1 else ''}",
                code="T310",
                span=literal.span,
            )
        return self.made[value - 1].expr

    # ---- groups --------------------------------------------------------------------------------

    @property
    def is_grouped(self) -> bool:
        exprs = [m.expr for m in self.made] + [k.expr for k in self.order]
        exprs += [self.qualify] if self.qualify is not None else []
        return (
            self.source.keys is not None
            or self.source.having is not None
            or any(first_aggregate(e) is not None for e in exprs)
        )

    def group(self) -> None:
        """Everything over the columns of the groups, behind GROUP BY and HAVING."""
        groups = grouping(self.binder, self.source, self.made, self.key)
        order = self.order or self.key_order()
        made = [self.context.attempt(lambda m=m: self.regrouped(groups, m)) for m in self.made]  # type: ignore[misc]
        self.made = [m for m in made if m is not None]
        self.order = tuple(replace(k, expr=groups.over(k.expr)) for k in order)
        self.distinct_on = tuple(groups.over(e) for e in self.distinct_on)
        self.qualify = groups.over(self.qualify) if self.qualify is not None else None
        having = groups.over(self.having) if self.having is not None else None
        plan: lp.LogicalPlan = groups.plan()
        if having is not None:
            plan = lp.Filter(plan, self.binder.boolean(having, "HAVING"))
        scope = behind(groups, plan)
        self.binder = replace(self.binder, scopes=(scope, *self.binder.scopes[1:]))

    @staticmethod
    def regrouped(groups: Grouping, made: Made) -> Made:
        return replace(made, expr=groups.over(made.expr))

    def key(self, item: ast.AggregateItem) -> Made:
        """A key of GROUP BY: a position, a column of the input, or one of the list."""
        if item.alias is not None:
            raise BindError(
                "GROUP BY of SELECT gives no names",
                code="T334",
                span=item.alias.span,
                hint="the list does: SELECT .. AS name",
            )
        return Made(
            self.binder.column_name(item.expr), self.output(item.expr, "GROUP BY"), item.expr.span
        )

    def key_order(self) -> tuple[ex.SortKey, ...]:
        """GROUP AND ORDER BY, or DESC behind a key."""
        keys = [k for k in self.source.keys or () if self.source.ordered or k.order]
        suffixed = sorted(keys, key=lambda k: not k.order)
        return tuple(
            ex.SortKey(self.output(k.expr, "GROUP BY"), k.order == "DESC", k.nulls_first)
            for k in suffixed
        )

    # ---- the plan ------------------------------------------------------------------------------

    def result(self) -> Scope:
        """The list, QUALIFY, DISTINCT, ORDER BY, LIMIT."""
        columns = typed(self.binder, self.made)
        assigns = [lp.Assign(c, m.expr) for c, m in zip(columns, self.made, strict=True)]
        condition = self.qualified(assigns)
        on = tuple(self.column(assigns, e, "key") for e in self.distinct_on)
        order = tuple(replace(k, expr=self.sorted_by(assigns, k.expr)) for k in self.order)
        plan: lp.LogicalPlan = lp.Project(self.binder.scope.plan, tuple(assigns))
        if condition is not None:
            plan = lp.Filter(plan, condition)
        if self.source.distinct is True:
            plan = lp.Distinct(_only(plan, columns))
        elif on:
            plan = lp.DistinctOn(plan, on, order)
        if order:
            plan = lp.Sort(plan, order)
        visible = tuple(
            Visible(m.name, c, m.origin) for m, c in zip(self.made, columns, strict=True)
        )
        scope = Scope(plan, visible)
        if self.source.limit is not None:
            scope = limit(self.context, scope, self.source.limit)
        return scope.over(_only(scope.plan, columns))

    def qualified(self, assigns: list[lp.Assign]) -> ex.Expr | None:
        """QUALIFY: a filter below the list, or the condition of one above it.

        Window functions of the list see the rows that QUALIFY takes away, so then it is above.
        """
        binder = self.binder
        if self.qualify is None:
            return None
        condition = binder.boolean(self.qualify, "QUALIFY")
        others = [*(m.expr for m in self.made), *(k.expr for k in self.order), *self.distinct_on]
        if not any(has_window(e) for e in others):
            scope = binder.scope.over(lp.Filter(binder.scope.plan, condition))
            self.binder = replace(binder, scopes=(scope, *binder.scopes[1:]))
            return None
        return _above(condition, assigns) or self.column(assigns, condition, "qualify")

    def sorted_by(self, assigns: list[lp.Assign], expr: ex.Expr) -> ex.Expr:
        """A key of ORDER BY above the list: behind DISTINCT there is nothing but its columns."""
        if self.source.distinct is not True:
            return self.column(assigns, expr, "order")
        above = _above(expr, assigns)
        if above is None:
            raise BindError(
                "ORDER BY of SELECT DISTINCT takes columns of its list",
                code="T335",
                span=expr.span,
                hint="rows that differ in others are one row by then",
            )
        return above

    def column(self, assigns: list[lp.Assign], expr: ex.Expr, name: str) -> ex.Column:
        """The column of an expression beside the list's; an equal one of the list is taken."""
        for assign in assigns:
            if assign.expr == expr:
                return assign.column
        if isinstance(expr, ex.Column) and expr in self.binder.scope.plan.columns:
            taken = any(a.column.name == expr.name for a in assigns)
            column = self.context.names.column(expr.name, expr.type) if taken else expr
        else:
            column = self.context.names.column(name, self.binder.types((expr,))[0])
        assigns.append(lp.Assign(column, expr))
        return column


def _only(plan: lp.LogicalPlan, columns: Sequence[ex.Column]) -> lp.LogicalPlan:
    if tuple(columns) == plan.columns:
        return plan
    return lp.Project(plan, tuple(lp.Assign(c, c) for c in columns))


def _above(expr: ex.Expr, assigns: Sequence[lp.Assign]) -> ex.Expr | None:
    """An expression over the columns of a projection, when it needs no others; else None."""

    def visit(node: Node) -> Node:
        for assign in assigns:
            if node == assign.expr:
                return assign.column
        return map_children(node, visit)

    above = cast("ex.Expr", visit(expr))
    used = {n.name for n in walk(above) if isinstance(n, ex.Column)}
    if has_window(above) or used - {a.column.name for a in assigns}:
        return None
    return above


def _same(a: str, b: str) -> bool:
    return a.casefold() == b.casefold()
