"""SELECT over groups: which parts of its expressions are keys, which are aggregates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import cast

from zql.errors import BindError
from zql.expr import expression as ex
from zql.logical import plan as lp
from zql.logical.bind_aggregate import checked_key
from zql.logical.bind_expression import ExpressionBinder
from zql.logical.bind_grouping import Groups, is_sets, key_column
from zql.logical.bind_select import Made
from zql.logical.bind_type import is_grouping
from zql.logical.context import Context
from zql.logical.scope import Scope
from zql.syntax import ast
from zql.tree import Node, map_children, record, walk


@record
class Grouping:
    """The groups of a SELECT while its expressions are taken apart.

    `keys` are pairs of a bound expression and its column behind the grouping.
    """

    binder: ExpressionBinder
    keys: list[tuple[ex.Expr, ex.Column]] = field(default_factory=list)
    assigns: list[lp.Assign] = field(default_factory=list)
    inputs: list[tuple[ex.Expr, ex.Column]] = field(default_factory=list)
    sets: tuple[tuple[int, ...], ...] = ()
    aggregates: list[ex.Call] = field(default_factory=list)
    columns: list[ex.Column] = field(default_factory=list)

    @property
    def context(self) -> Context:
        return self.binder.context

    def add_key(self, name: str, expr: ex.Expr) -> None:
        """A key of GROUP BY; a column stays the column that it is."""
        if any(expr == known for known, _ in self.keys):
            return
        column = expr
        if not isinstance(column, ex.Column):
            column = self.context.names.column(name, self.binder.types((expr,))[0])
        self.keys.append((expr, column))
        self.assigns.append(lp.Assign(column, expr))

    def add_sets(self, items: Sequence[ast.AggregateItem]) -> None:
        """Keys with GROUPING SETS, ROLLUP or CUBE among them."""
        groups = Groups(self.binder)
        for item in items:
            groups.add(item)
        self.binder, pairs = groups.as_columns()
        self.inputs, self.sets = list(pairs), tuple(groups.sets)
        for made, (expr, given) in zip(groups.keys, pairs, strict=True):
            column = self.context.names.column(made.name, given.type)
            self.keys.append((expr, column))
            self.assigns.append(lp.Assign(column, given))

    def over(self, expr: ex.Expr) -> ex.Expr:
        """A bound expression over the groups' columns. Raises `BindError` for other columns."""
        here = {c.name for c in self.binder.scope.plan.columns}

        def visit(node: Node) -> Node:
            for known, column in self.keys:
                if node == known:
                    return replace(column, span=getattr(node, "span", None))
            if isinstance(node, ex.Call) and node.aggregate and node.window is None:
                return self.aggregate(node)
            if isinstance(node, ex.Column) and node.name in here:
                raise _not_grouped(node, expr)
            if isinstance(node, ex.Subquery):
                self.check_inside(node, here)
                operand = visit(node.operand) if node.operand else None
                return replace(node, operand=cast("ex.Expr | None", operand))
            return map_children(node, visit)

        return cast("ex.Expr", visit(expr))

    def check_inside(self, subquery: ex.Subquery, here: set[str]) -> None:
        """A subquery may look at the keys that are columns of the input, and at nothing else."""
        kept = {expr.name for expr, column in self.keys if expr == column}
        for node in walk(subquery.query):
            if isinstance(node, ex.Column) and node.name in here - kept:
                raise _not_grouped(node, subquery)

    def aggregate(self, call: ex.Call) -> ex.Column:
        """The column of an aggregate; equal ones are computed once, volatile ones each time."""
        if is_grouping(call):
            call = replace(call, args=tuple(key_column(a, call, self.inputs) for a in call.args))
        volatile = any(isinstance(n, ex.Call) and n.volatile for n in walk(call))
        if call in self.aggregates and not volatile:
            return self.columns[self.aggregates.index(call)]
        column = self.context.names.column(call.name[-1], self.binder.types((call,))[0])
        self.aggregates.append(call)
        self.columns.append(column)
        return column

    def plan(self) -> lp.Aggregate:
        """The grouping itself, once all expressions have been taken apart."""
        made = zip(self.columns, self.aggregates, strict=True)
        aggregates = tuple(lp.Assign(column, call) for column, call in made)
        return lp.Aggregate(self.binder.scope.plan, tuple(self.assigns), aggregates, self.sets)


def grouping(
    binder: ExpressionBinder,
    source: ast.SelectSource,
    made: Sequence[Made],
    bind_key: Callable[[ast.AggregateItem], Made],
) -> Grouping:
    """The groups of GROUP BY; without it all rows are one."""
    groups = Grouping(binder)
    keys = source.keys
    if keys is not None and not keys:  # GROUP BY ALL
        for m in made:
            if not any(isinstance(n, ex.Call) and n.aggregate for n in walk(m.expr)):
                groups.add_key(m.name, m.expr)
        return groups
    if any(is_sets(item.expr) for item in keys or ()):
        groups.add_sets(keys or ())
        return groups
    for item in keys or ():
        key = groups.context.attempt(lambda i=item: checked_key(bind_key(i)))  # type: ignore[misc]
        if key is not None:
            groups.add_key(key.name, key.expr)
    return groups


def behind(groups: Grouping, plan: lp.LogicalPlan) -> Scope:
    """The scope behind the grouping: nothing of the input has a name any more."""
    return replace(groups.binder.scope, plan=plan, visible=(), aliases=(), virtual=())


def _not_grouped(column: ex.Column, whole: ex.Expr) -> BindError:
    shown = column.span.text if column.span else column.name
    return BindError(
        f'"{shown}" is neither grouped nor aggregated',
        code="T313",
        span=column.span or whole.span,
        hint="put it behind GROUP BY, or in an aggregate: any_value(..)",
    )
