"""`check_every_row`: an ASSERT whose reader may stop early, or look at some rows, gets a stage.

DuckDB moves a later filter, or the range of a join's keys, below the condition of an ASSERT, and a
LIMIT ends the reading: rows would go unchecked. Where such a reader stands above, the checked rows
are kept first. Where all rows go on into files, groups or a sort, the check stays part of the
statement and costs nothing more.

This rule is no option: it is what ASSERT says.
"""

from __future__ import annotations

from dataclasses import replace

from zql.expr import expression as ex
from zql.logical import plan as lp
from zql.tree import Node, map_children, walk


def check_every_row(plan: lp.LogicalPlan) -> lp.LogicalPlan:
    """The plan with each `Check` kept whose rows might not all be asked for."""
    if not any(isinstance(node, lp.Check) for node in walk(plan)):
        return plan
    return _visit(plan, False)


def _visit(plan: lp.LogicalPlan, some: bool) -> lp.LogicalPlan:
    """`some`: whether an operator above may want only some rows of the plan."""
    below = _below(plan, some)

    def child(node: Node) -> Node:
        if isinstance(node, lp.LogicalPlan):
            return _visit(node, below)
        if isinstance(node, ex.Subquery):
            query: lp.LogicalPlan = node.query  # type: ignore[assignment]
            return map_children(replace(node, query=_visit(query, True)), of_expression)
        return map_children(node, child)

    def of_expression(node: Node) -> Node:
        return node if isinstance(node, lp.LogicalPlan) else child(node)

    plan = map_children(plan, child)
    if isinstance(plan, lp.Check) and some:
        return replace(plan, kept=True)
    return plan


def _below(plan: lp.LogicalPlan, some: bool) -> bool:
    match plan:
        case lp.Write() | lp.Store() | lp.Finish() | lp.Common() | lp.Program():
            return False
        case lp.Check():
            # Behind another check that is kept, every row is asked for.
            return False if some else some
        case lp.Filter() | lp.Limit() | lp.Join() | lp.Lateral() | lp.RecursiveUnion() | lp.Query():
            return True
        case lp.SetOperation():
            return some or not (plan.kind == "UNION" and plan.all)
        case _:
            return some
