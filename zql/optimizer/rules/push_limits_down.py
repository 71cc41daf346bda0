"""`push_limits_down`: LIMIT moves below what gives one row for each row, and into UNION ALL.

So that a Python function is called for the rows that are wanted, and no more. Never below anything
volatile, and never below a filter, a sort or an operator that makes other numbers of rows.
"""

from __future__ import annotations

from dataclasses import replace

from zql.logical import plan as lp
from zql.optimizer.facts import has_window, is_volatile
from zql.tree import Node, rewrite_down


def push_limits_down(plan: lp.LogicalPlan) -> lp.LogicalPlan:
    """Each LIMIT as far down as it may go."""
    pushed: lp.LogicalPlan = rewrite_down(plan, _push)
    return pushed


def _push(node: Node) -> Node:
    if not isinstance(node, lp.Limit):
        return node
    match node.input:
        case lp.Project() as project if not _sees_other_rows(project):
            return replace(project, input=replace(node, input=project.input))
        case lp.Apply() as apply if not any(c.on_every_row for c in apply.calls):
            return replace(apply, input=replace(node, input=apply.input))
        case lp.MapRows() as rows if rows.kind == "MAP" and not rows.on_every_row:
            return replace(rows, input=replace(node, input=rows.input))
        case lp.SetOperation() as union if union.kind == "UNION" and union.all:
            return _into_branches(node, union)
        case _:
            return node


def _sees_other_rows(project: lp.Project) -> bool:
    return any(has_window(a.expr) or is_volatile(a.expr) for a in project.assigns)


def _into_branches(limit: lp.Limit, union: lp.SetOperation) -> lp.Limit:
    if limit.count is None:
        return limit
    most = limit.count + limit.offset
    inputs = tuple(i if _gives_at_most(i, most) else lp.Limit(i, most) for i in union.inputs)
    if all(a is b for a, b in zip(inputs, union.inputs, strict=True)):
        return limit
    return replace(limit, input=replace(union, inputs=inputs))


def _gives_at_most(plan: lp.LogicalPlan, rows: int) -> bool:
    """Whether a LIMIT stands over it, or below what this rule has moved it past."""
    while isinstance(plan, lp.Project | lp.Apply) or (
        isinstance(plan, lp.MapRows) and plan.kind == "MAP"
    ):
        plan = plan.input
    return isinstance(plan, lp.Limit) and plan.count is not None and plan.count <= rows
