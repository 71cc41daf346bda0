"""Volatile values are made before they are aggregated, each for itself.

DuckDB takes two aggregates of the same text for one, volatile or not: `max(random())` beside
`max(random())` would be the same number twice.
"""

from __future__ import annotations

from dataclasses import replace

from zql.expr import expression as ex
from zql.logical import plan as lp
from zql.logical.scope import Names
from zql.optimizer.facts import is_volatile
from zql.tree import Node, map_children


def volatile_values_first(plan: lp.Aggregate) -> lp.Aggregate:
    """The same groups, over columns where an aggregate was given something volatile.

    The new columns have no type: this is for a plan about to become SQL.
    """
    if not any(is_volatile(a) for a in plan.aggregates):
        return plan
    names = Names({c.name.casefold() for c in plan.input.columns})
    made: list[lp.Assign] = []

    def hoisted(part: Node) -> Node:
        if not is_volatile(part):
            return part
        if not isinstance(part, ex.Expr):
            return map_children(part, hoisted)
        made.append(lp.Assign(names.column("value", ""), part))
        return made[-1].column

    def visit(node: Node) -> Node:
        if isinstance(node, ex.Subquery):
            return node
        if isinstance(node, ex.Call) and node.aggregate and node.window is None:
            return map_children(node, hoisted)
        return map_children(node, visit)

    aggregates = tuple(map_children(a, visit) for a in plan.aggregates)
    passed = tuple(lp.Assign(c, c) for c in plan.input.columns)
    return replace(plan, input=lp.Project(plan.input, (*passed, *made)), aggregates=aggregates)
