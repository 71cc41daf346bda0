"""`partition_sorts`: rows that are sorted and may not fit into memory are dealt to ranges first.

DuckDB merges sorted runs with a part of each in memory, and fails where rows are wide. Dealt to
ranges of what they are sorted by, rows are put in order a range at a time. Small files are left
alone, and groups, which are few and narrow; of others, and of rows whose number nobody knows before
they are there, the run decides. A sort under a LIMIT keeps the first rows alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from zql.expr import expression as ex
from zql.logical import plan as lp
from zql.optimizer.facts import free_columns, has_subquery
from zql.optimizer.known_sizes import bytes_read, gives_any_number
from zql.tree import Node, children, map_children, walk

WORTH_BYTES = 128 << 20
_PARTITION_BYTES = 64 << 20
_UNKNOWN_PARTS = 64
_MOST = 256

_OTHER_ORDER = re.compile(r"\b(INTERVAL|BIT|TIME WITH TIME ZONE|VARIANT)\b")
"""Types that DuckDB's sort keys, as values, order in another way than ORDER BY does."""


def partition_sorts(plan: lp.LogicalPlan) -> lp.LogicalPlan:
    """The plan with each such sort divided into parts."""
    return sorts_in_parts(plan, None)


def sorts_in_parts(plan: lp.LogicalPlan, asked: int | None) -> lp.LogicalPlan:
    """The plan with sorts divided into the parts that are `asked` for, or as their inputs say."""
    return _visit(plan, asked, limited=False)


def _visit(plan: lp.LogicalPlan, asked: int | None, limited: bool) -> lp.LogicalPlan:
    """`limited`: whether only the first rows are wanted."""
    below = isinstance(plan, lp.Limit) or (limited and isinstance(plan, lp.Project))

    def child(node: Node) -> Node:
        if isinstance(node, lp.RecursiveUnion):
            return replace(node, input=_visit(node.input, asked, limited=False))
        if isinstance(node, lp.Lateral):
            return replace(node, left=_visit(node.left, asked, limited=False))
        if isinstance(node, lp.LogicalPlan):
            return _visit(node, asked, below)
        if isinstance(node, ex.Subquery) and free_columns(node.query):
            return node
        return map_children(node, child)

    plan = map_children(plan, child)
    if isinstance(plan, lp.Sort) and not plan.shuffles and not limited and can_be_ranged(plan):
        return replace(plan, parts=asked or _parts(plan))
    return plan


def can_be_ranged(plan: lp.Sort) -> bool:
    """Whether a value can be made of the keys of each row which is in the order of the rows.

    Not where a collation says what the order is: rows on their way between stages have none.
    """
    if any(isinstance(node, ex.Collate) for node in walk(plan)):
        return False
    return not any(has_subquery(key) for key in plan.keys) and all(map(_is_ordered, plan.keys))


def _is_ordered(key: ex.SortKey) -> bool:
    kind = key.expr.type if isinstance(key.expr, ex.Column) else key.type
    return bool(kind) and not _OTHER_ORDER.search(kind)


def _parts(plan: lp.Sort) -> int:
    """A power of two, from what is known of the rows; 1 when they are few."""
    nodes = list(_passed(plan.input))
    size = bytes_read(nodes)
    if size >= WORTH_BYTES:
        return min(_MOST, 1 << (size // _PARTITION_BYTES).bit_length())
    written = any(key.span is not None for key in plan.keys)
    return _UNKNOWN_PARTS if written and any(map(gives_any_number, nodes)) else 1


def _passed(plan: lp.LogicalPlan) -> Iterator[Node]:
    """What gives the rows that come out of a plan, other than groups and the first of others."""
    if isinstance(plan, lp.Aggregate | lp.Fold | lp.Limit):
        return
    yield plan
    for child in children(plan):
        if isinstance(child, lp.LogicalPlan):
            yield from _passed(child)
