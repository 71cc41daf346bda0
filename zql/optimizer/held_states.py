"""Aggregates of which DuckDB holds the states of all groups in memory, however many there are.

The states of others go to disk when memory ends. Quantiles keep their values in vectors of their
own, which do not, lists and texts in pieces that are chained to each other; the first `n` values
have a heap for each group, and sketches are as big for one row as for a million.
docs/decisions/0025-partitions-by-hash.md has what was measured.
"""

from __future__ import annotations

from zql.expr import expression as ex
from zql.logical import plan as lp
from zql.optimizer.facts import has_subquery
from zql.tree import Node, children, walk

_HELD = frozenset(
    [
        "median",
        "mad",
        "quantile",
        "quantile_cont",
        "quantile_disc",
        "approx_quantile",
        "reservoir_quantile",
        "approx_top_k",
        "approx_count_distinct",
        "list",
        "array_agg",
        "string_agg",
        "group_concat",
        "listagg",
    ]
)
_HELD_WITH_COUNT = {"max": 2, "min": 2} | dict.fromkeys(
    ["arg_max", "arg_min", "argmax", "argmin", "max_by", "min_by"], 3
)
"""Those that are held when so many arguments are given: the last says how many values."""


def holds_states(plan: lp.Aggregate) -> bool:
    """Whether memory must hold a state of each group that does not go to disk."""
    return any(is_held(node) for a in plan.aggregates for node in walk(a.expr))


def is_held(node: Node) -> bool:
    """Whether it is such an aggregate."""
    if not isinstance(node, ex.Call) or not node.aggregate or node.window is not None:
        return False
    name = node.name[-1].lower()
    if node.distinct and name not in ("min", "max"):
        return True
    return name in _HELD or len(node.args) == _HELD_WITH_COUNT.get(name)


def sees_rows_once(plan: lp.Aggregate) -> bool:
    """Whether rows that are alike count as one for all aggregates."""
    calls = (n for a in plan.aggregates for n in walk(a.expr) if isinstance(n, ex.Call))
    return all(
        call.distinct or (call.name[-1].lower() in ("min", "max") and len(call.args) == 1)
        for call in calls
        if call.aggregate and call.window is None
    )


def can_be_parted(plan: lp.Aggregate) -> bool:
    """Whether groups by keys can be computed some at a time, over rows dealt out by the keys.

    Not where a collation says which keys are equal: rows on their way between stages have none.
    """
    if not plan.keys or plan.sets or any(map(has_subquery, (*plan.keys, *plan.aggregates))):
        return False
    if any(isinstance(node, ex.Collate) for node in walk(plan)):
        return False
    keys = frozenset(key.expr for key in plan.keys)
    return not any(_seen_bare(a.expr, keys) for a in plan.aggregates)


def _seen_bare(node: Node, keys: frozenset[ex.Expr]) -> bool:
    """Whether a column stands beside the aggregates that is no part of a key."""
    if isinstance(node, ex.Call) and node.aggregate and node.window is None:
        return False
    if isinstance(node, ex.Expr) and node in keys:
        return False
    if isinstance(node, ex.Column):
        return True
    return any(_seen_bare(child, keys) for child in children(node))
