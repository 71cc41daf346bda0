"""`broadcast_joins`: tasks of Python join their rows to few others themselves.

A join ends a stage of tasks: their rows are kept, as wide as they are, and joined in a statement,
and rows that go from a join to Python are kept as well. Where the right side is small it is
computed once, and each task joins its own rows to all of it (`zql/physical/split.py`), so that
none are kept for the join alone. That holds for kinds of joins whose rows come of the left side:
which of the right side's rows found nobody, no task knows.

What only looks small is left alone: rows that a run has yet to count, and joins below the right
side, which may multiply. So is what would make the tasks' results harder to find again.
"""

from __future__ import annotations

from dataclasses import replace

from zql.expr import expression as ex
from zql.logical import plan as lp
from zql.optimizer.facts import (
    calls_python,
    columns_of,
    conjuncts,
    free_columns,
    has_subquery,
    is_volatile,
    output_names,
)
from zql.optimizer.known_sizes import known_bytes
from zql.tree import Node, map_children, walk

WORTH_BYTES = 32 << 20
"""Of the left side: below, rows are joined and kept in less time than workers need to begin."""
MOST_BYTES = 16 << 20
"""Of the right side: each task reads it and makes a hash table of it."""
SHARE = 16
"""The left side is so many times as large at least: else it is not much that need not be kept."""
_KINDS = frozenset({"INNER", "LEFT", "SEMI", "ANTI"})
_SMALL = (
    lp.Scan
    | lp.Values
    | lp.Filter
    | lp.Project
    | lp.Unnest
    | lp.Aggregate
    | lp.Distinct
    | lp.DistinctOn
    | lp.Sort
    | lp.Limit
    | lp.SetOperation
)
"""Operators that give about as many rows as there are to be read, or fewer."""


def broadcast_joins(plan: lp.LogicalPlan) -> lp.LogicalPlan:
    """The plan with such joins marked, if there are tasks."""
    return _visit(plan) if any(map(_makes_tasks, walk(plan))) else plan


def _makes_tasks(node: Node) -> bool:
    return isinstance(node, lp.PythonOperator) or (isinstance(node, lp.Scan) and bool(node.own))


def _visit(plan: lp.LogicalPlan) -> lp.LogicalPlan:
    def child(node: Node) -> Node:
        if isinstance(node, lp.RecursiveUnion):
            return replace(node, input=_visit(node.input))
        if isinstance(node, lp.Lateral):
            return replace(node, left=_visit(node.left))
        if isinstance(node, lp.LogicalPlan):
            return _visit(node)
        if isinstance(node, ex.Subquery) and free_columns(node.query):
            return node
        return map_children(node, child)

    plan = map_children(plan, child)
    if isinstance(plan, lp.Join) and _can_be(plan) and (_is_asked(plan) or _is_worth_it(plan)):
        return replace(plan, broadcast=True)
    return plan


def _can_be(join: lp.Join) -> bool:
    """Whether each row of the result comes of one on the left, by what is known of it alone."""
    if join.kind not in _KINDS or join.condition is None or join.resources is not None:
        return False
    if calls_python(join.condition) or has_subquery(join.condition):
        return False
    return not (is_volatile(join.condition) or free_columns(join) or lp.open_rounds(join))


def _is_asked(join: lp.Join) -> bool:
    return join.strategy == "broadcast"


def _is_worth_it(join: lp.Join) -> bool:
    if join.strategy or not _has_equal_keys(join):
        return False
    left = known_bytes(join.left)
    if left < WORTH_BYTES or not all(map(_is_surely_small, walk(join.right))):
        return False
    return known_bytes(join.right) <= min(MOST_BYTES, left // SHARE)


def _has_equal_keys(join: lp.Join) -> bool:
    """Whether DuckDB can look rows up: else it compares each with each."""
    left, right = output_names(join.left), output_names(join.right)

    def is_key(part: ex.Expr) -> bool:
        if not isinstance(part, ex.Binary) or part.op not in ("=", "=="):
            return False
        one, other = columns_of(part.left), columns_of(part.right)
        return bool(one and other) and (
            (one <= left and other <= right) or (one <= right and other <= left)
        )

    return join.condition is not None and any(map(is_key, conjuncts(join.condition)))


def _is_surely_small(node: Node) -> bool:
    """Whether a part of the right side keeps what is known of its size, and is the same again."""
    if isinstance(node, lp.Scan):
        return node.own is None
    if isinstance(node, ex.Expr):
        return not is_volatile(node)
    return not isinstance(node, lp.LogicalPlan) or isinstance(node, _SMALL)
