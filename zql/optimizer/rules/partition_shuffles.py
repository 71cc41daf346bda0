"""`partition_shuffles`: SHUFFLE of large files goes through an exchange, not through a sort.

A sort by tickets moves wide rows several times and wants all of them in memory at once. Tickets are
spread evenly, so the rows can be dealt to partitions by ranges of them as they are read, and each
partition be put in order when it is written: the same order in a memory that does not depend on how
many rows there are. Small files are left to DuckDB, which needs no stage more for them, and so is a
SHUFFLE under a LIMIT, which keeps the first rows alone.
"""

from __future__ import annotations

from dataclasses import replace

from zql.logical import plan as lp
from zql.tree import Node, map_children, walk

_WORTH_BYTES = 128 << 20
_PARTITION_BYTES = 64 << 20
"""Of files: packed rows. In memory they are about three times that."""
_MOST = 256


def partition_shuffles(plan: lp.LogicalPlan) -> lp.LogicalPlan:
    """The plan with each such sort divided into parts."""
    return _visit(plan, limited=False)


def _visit(plan: lp.LogicalPlan, limited: bool) -> lp.LogicalPlan:
    """`limited`: whether only the first rows are wanted."""
    below = isinstance(plan, lp.Limit) or (limited and isinstance(plan, lp.Project))

    def child(node: Node) -> Node:
        return _visit(node, below) if isinstance(node, lp.LogicalPlan) else node

    plan = map_children(plan, child)
    if isinstance(plan, lp.Sort) and plan.shuffles and plan.parts == 1 and not limited:
        size = sum(f.size for n in walk(plan) if isinstance(n, lp.Scan) for f in n.files)
        if size >= _WORTH_BYTES:
            return replace(plan, parts=_parts(size))
    return plan


def _parts(size: int) -> int:
    """A power of two: so few that partitions are large, so many that one can be held."""
    return min(_MOST, 1 << (size // _PARTITION_BYTES).bit_length())
