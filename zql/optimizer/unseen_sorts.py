"""Sorts whose order nothing above them can see: EXPLAIN names them, and a script is warned."""

from __future__ import annotations

from collections.abc import Iterator

from zql.logical import plan as lp
from zql.optimizer.rules.keep_row_order import sees_order
from zql.tree import children


def unseen_sorts(plan: lp.LogicalPlan, seen: bool = True) -> Iterator[lp.Sort]:
    """The sorts of a bound plan that are for nobody; `seen`: whether its own order is."""
    if isinstance(plan, lp.Sort) and not seen:
        yield plan
    below = sees_order(plan, seen)
    for child in children(plan):
        if isinstance(child, lp.LogicalPlan):
            yield from unseen_sorts(child, below)
