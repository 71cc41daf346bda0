"""`merge_projections`: a projection of a projection becomes one, where nothing is computed twice.

DuckDB would do it itself; here it keeps the stages readable and rows narrow between steps.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from zql.expr import expression as ex
from zql.logical import plan as lp
from zql.optimizer.facts import has_subquery, has_window, is_volatile, substituted
from zql.resources import most
from zql.tree import Node, rewrite_up, walk


def merge_projections(plan: lp.LogicalPlan) -> lp.LogicalPlan:
    """Neighbouring projections merged; one that passes on all its input goes."""
    merged: lp.LogicalPlan = rewrite_up(plan, _merge)
    return merged


def _merge(node: Node) -> Node:
    if not isinstance(node, lp.Project):
        return node
    if all(a.expr == a.column for a in node.assigns) and node.columns == node.input.columns:
        return node.input
    inner = node.input
    if not isinstance(inner, lp.Project) or not _may_merge(node, inner):
        return node
    values = {a.column.name: a.expr for a in inner.assigns}
    assigns = tuple(replace(a, expr=substituted(a.expr, values)) for a in node.assigns)
    resources = most(r for r in (node.resources, inner.resources) if r is not None)
    return replace(node, input=inner.input, assigns=assigns, resources=resources)


def _may_merge(outer: lp.Project, inner: lp.Project) -> bool:
    if outer.resources is not None and inner.resources is not None:  # a stage may end between
        return False
    if any(has_subquery(a.expr) for a in outer.assigns):
        return False
    uses = Counter(n.name for a in outer.assigns for n in walk(a.expr) if isinstance(n, ex.Column))
    over_windows = any(has_window(a.expr) for a in outer.assigns)
    for assign in inner.assigns:
        if isinstance(assign.expr, ex.Column):
            continue
        fixed = is_volatile(assign.expr) or has_window(assign.expr) or has_subquery(assign.expr)
        if fixed or over_windows or uses[assign.column.name] > 1:
            return False
    return True
