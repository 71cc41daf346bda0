"""`partition_aggregates`: what cannot spill is computed a part of the groups at a time.

DuckDB holds the states of some aggregates in memory, those of all groups together
(`zql/optimizer/held_states.py`): a median by a million keys fails however large the disk is. Dealt
to partitions by a hash of the keys, the rows of each group are in one of them, and a partition
needs memory for its own groups only. Small files are left alone; of others, and of rows whose
number nobody knows before they are there, the run decides.
"""

from __future__ import annotations

from dataclasses import replace

from zql.expr import expression as ex
from zql.logical import plan as lp
from zql.optimizer.facts import free_columns
from zql.optimizer.held_states import can_be_parted, holds_states
from zql.optimizer.known_sizes import gives_any_number, known_bytes
from zql.tree import Node, map_children, walk

WORTH_BYTES = 128 << 20
_PARTITION_BYTES = 16 << 20
_UNKNOWN_PARTS = 64
_MOST = 256


def partition_aggregates(plan: lp.LogicalPlan) -> lp.LogicalPlan:
    """The plan with each such group divided into parts."""
    groups = (node for node in walk(plan) if isinstance(node, lp.Aggregate))
    return in_parts(plan, None) if any(map(holds_states, groups)) else plan


def in_parts(plan: lp.LogicalPlan, asked: int | None) -> lp.LogicalPlan:
    """The plan with groups divided into the parts that are `asked` for, or as its input says.

    A shuffle that is divided anyhow has as many parts as are asked for.
    """

    def child(node: Node) -> Node:
        if isinstance(node, lp.RecursiveUnion):
            return replace(node, input=in_parts(node.input, asked))
        if isinstance(node, lp.Lateral):
            return replace(node, left=in_parts(node.left, asked))
        if isinstance(node, lp.LogicalPlan):
            return in_parts(node, asked)
        if isinstance(node, ex.Subquery) and free_columns(node.query):
            return node
        return map_children(node, child)

    plan = map_children(plan, child)
    if isinstance(plan, lp.Aggregate) and holds_states(plan) and can_be_parted(plan):
        return replace(plan, parts=asked or _parts(plan.input))
    if isinstance(plan, lp.Sort) and plan.parts > 1:
        return replace(plan, parts=asked or plan.parts)
    return plan


def _parts(rows: lp.LogicalPlan) -> int:
    """A power of two, from what is known of the rows; 1 when they are few."""
    size = known_bytes(rows)
    if size >= WORTH_BYTES:
        return min(_MOST, 1 << (size // _PARTITION_BYTES).bit_length())
    return _UNKNOWN_PARTS if any(map(gives_any_number, walk(rows))) else 1
