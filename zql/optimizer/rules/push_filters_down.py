"""`push_filters_down`: conditions move towards the scan, so that less is read and computed.

They pass projections (written over what the columns stand for), sorts, DISTINCT, UNNEST, joins and
Python calls whose result they do not need. They never pass LIMIT, a window function, or anything
volatile, and a condition that can fail never passes another condition: that may be its guard.
"""

from __future__ import annotations

from dataclasses import replace

from zql.expr import expression as ex
from zql.logical import plan as lp
from zql.optimizer.facts import (
    columns_of,
    conjunction,
    conjuncts,
    has_subquery,
    has_window,
    is_volatile,
    may_fail,
    output_names,
    substituted,
)
from zql.tree import Node, rewrite_down


def push_filters_down(plan: lp.LogicalPlan) -> lp.LogicalPlan:
    """Each condition as far down as it may go."""
    pushed: lp.LogicalPlan = rewrite_down(plan, _push)
    return pushed


def _push(node: Node) -> Node:
    """One filter moved below its input as long as that is possible."""
    if not isinstance(node, lp.Filter) or has_window(node.predicate):
        return node  # a window looks at the very rows that come here
    stays: list[ex.Expr] = []
    moves: list[ex.Expr] = []
    for part in conjuncts(node.predicate):
        guarded = bool(stays) and may_fail(part)
        may_move = not guarded and not is_volatile(part) and _may_pass(part, node.input)
        (moves if may_move else stays).append(part)
    if not moves:
        return node
    below = _below(conjunction(tuple(moves)), node.input)
    return _push(lp.Filter(below, conjunction(tuple(stays)))) if stays else _push(below)


def _may_pass(part: ex.Expr, input: lp.LogicalPlan) -> bool:
    used = columns_of(part)
    match input:
        case lp.Project():
            values = [a.expr for a in input.assigns]
            plain = not any(has_window(v) or is_volatile(v) or has_subquery(v) for v in values)
            return plain and not has_subquery(part)
        case lp.Apply():
            made = {c.column.name for c in input.calls}
            return not (used & made) and not any(c.on_every_row for c in input.calls)
        case lp.Sort():
            return True
        case lp.Distinct():
            return not may_fail(part)
        case lp.Unnest():
            made = {input.column.name} | ({input.position.name} if input.position else set())
            # A row without elements goes without the condition having looked at it.
            return not used & made and not may_fail(part)
        case lp.Join():
            return (
                not may_fail(part)
                and not has_subquery(part)
                and _join_side(used, input) is not None
            )
        case lp.Lateral():
            left = used <= output_names(input.left)
            return left and not may_fail(part) and not has_subquery(part)
        case lp.SetOperation():
            same = all(
                [c.type for c in i.columns] == [c.type for c in input.columns] for i in input.inputs
            )
            return input.kind == "UNION" and input.all and same and not has_subquery(part)
        case lp.Filter():
            # Only worth it, and only without end, when the condition then passes a Python call.
            before = input.predicate
            guarded = may_fail(part) or is_volatile(before) or has_window(before)
            return (
                not guarded and isinstance(input.input, lp.Apply) and _may_pass(part, input.input)
            )
        case _:
            return False


def _join_side(used: frozenset[str], join: lp.Join) -> str | None:
    if used <= output_names(join.left) and join.kind in ("INNER", "CROSS", "LEFT", "SEMI", "ANTI"):
        return "left"
    if used <= output_names(join.right) and join.kind in ("INNER", "CROSS", "RIGHT"):
        return "right"
    return None


def _below(predicate: ex.Expr, input: lp.LogicalPlan) -> lp.LogicalPlan:
    """The input with the predicate below it."""
    match input:
        case lp.Project():
            values = {a.column.name: a.expr for a in input.assigns}
            return replace(input, input=lp.Filter(input.input, substituted(predicate, values)))
        case lp.Join():
            left, right = input.left, input.right
            for part in conjuncts(predicate):
                if _join_side(columns_of(part), input) == "left":
                    left = lp.Filter(left, part)
                else:
                    right = lp.Filter(right, part)
            return replace(input, left=left, right=right)
        case lp.Lateral():
            return replace(input, left=lp.Filter(input.left, predicate))
        case lp.SetOperation():
            return replace(
                input, inputs=tuple(_in_branch(predicate, input, i) for i in input.inputs)
            )
        case lp.Apply() | lp.Sort() | lp.Distinct() | lp.Unnest() | lp.Filter():
            return replace(input, input=lp.Filter(input.input, predicate))
        case _:
            raise TypeError(input)


def _in_branch(
    predicate: ex.Expr, union: lp.SetOperation, branch: lp.LogicalPlan
) -> lp.LogicalPlan:
    values = {u.name: b for u, b in zip(union.columns, branch.columns, strict=True)}
    return lp.Filter(branch, substituted(predicate, values))
