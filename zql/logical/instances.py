"""The same table read several times in one plan: copies whose columns have names of their own."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar, cast

from zql.errors import BindError
from zql.expr import expression as ex
from zql.logical import plan as lp
from zql.logical.context import Context, LocalTable
from zql.logical.doubts import volatile_function
from zql.logical.scope import Names, Scope, Visible
from zql.source import Span
from zql.tree import Node, map_children, walk

N = TypeVar("N", bound=Node)


def take(context: Context, table: LocalTable, name: str, span: Span | None) -> Scope:
    """The scope of a local table where FROM names it; its hidden columns are carried along."""
    if table.instances:
        operators = sum(isinstance(n, lp.LogicalPlan) for n in walk(table.scope.plan))
        context.grow(name, operators, span)
    scope = table.scope if not table.instances else copied(context.names, table.scope)
    table.instances.append(scope)
    visible = tuple(replace(v, origin=name) for v in scope.visible)
    carried = tuple(c.name for c in scope.kept_columns())
    return Scope(scope.plan, visible, ((name, visible),), carried=carried)


def inlined(context: Context, scope: Scope, span: Span | None) -> Scope:
    """A part that DuckDB runs by itself, a subquery say: rows that pipelines share are computed in
    it anew. Raises `BindError` when they would be others there.
    """
    commons = {common.number: common for common in context.commons}
    if not any(isinstance(n, lp.CommonRows) for n in walk(scope.plan)):
        return scope

    def visit(node: Node) -> Node:
        if not isinstance(node, lp.CommonRows):
            return map_children(node, visit)
        common = commons[node.number]
        if function := volatile_function(common.input):
            raise BindError(
                f"{common.name} of rows that {function}(..) makes cannot stand in a subquery",
                code="P412",
                span=span,
                hint="CREATE TEMP TABLE keeps the rows: read it in the subquery",
            )
        rows = tuple(Visible(c.name, c) for c in common.columns)
        again = copied(context.names, Scope(cast("lp.LogicalPlan", visit(common.input)), rows))
        new = {old.name: v.column for old, v in zip(common.columns, again.visible, strict=True)}
        return lp.Project(again.plan, tuple(lp.Assign(c, new[c.name]) for c in node.columns))

    # Rows that are shared have the same columns wherever they are read: around the subquery too.
    return copied(context.names, scope.over(cast("lp.LogicalPlan", visit(scope.plan))))


def copied(names: Names, scope: Scope) -> Scope:
    """The same rows in a plan that shares no column with the first one."""
    renamed: dict[str, str] = {}
    rounds: dict[str, str] = {}
    for node in walk(scope.plan):
        if isinstance(node, lp.RecursiveUnion):
            rounds[node.name] = names.fresh(node.name)
        if isinstance(node, lp.LogicalPlan):
            for column in node.columns:
                if column.name not in renamed:
                    renamed[column.name] = names.fresh(column.name)

    def visit(node: N) -> N:
        if isinstance(node, ex.Column):
            return cast("N", replace(node, name=renamed.get(node.name, node.name)))
        if isinstance(node, lp.CommonRows):
            # Its columns are those of the rows that are computed once, and keep their names.
            return cast("N", lp.Project(node, tuple(lp.Assign(visit(c), c) for c in node.columns)))
        if isinstance(node, lp.RoundRows | lp.RecursiveUnion) and node.name in rounds:
            node = replace(node, name=rounds[node.name])
        if isinstance(node, lp.RoundRows):
            sources = tuple(renamed.get(s, s) for s in node.sources)
            node = replace(node, sources=sources)
        changed: N = map_children(node, visit)
        return changed

    def again(columns: tuple[Visible, ...]) -> tuple[Visible, ...]:
        return tuple(replace(v, column=visit(v.column)) for v in columns)

    return Scope(
        visit(scope.plan),
        again(scope.visible),
        tuple((alias, again(columns)) for alias, columns in scope.aliases),
        again(scope.virtual),
        tuple(renamed.get(c, c) for c in scope.carried),
    )
