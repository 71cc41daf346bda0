"""Operators over all groups at once: what PARTITION BY .. THEN makes of its subpipe.

Each operator becomes one that gives, for each group, what the plain one would give for that group
alone, and keeps the key columns. The rows of a group stand in its own order; how the groups lie
among each other is open.
"""

from __future__ import annotations

from dataclasses import replace

from zql.expr import expression as ex
from zql.logical import plan as lp
from zql.logical.carry_columns import passing_on
from zql.tree import Node, children, map_children, walk

Keys = tuple[ex.Column, ...]

_FROM_LEFT = ("INNER", "LEFT", "CROSS", "SEMI", "ANTI", "ASOF", "ASOF LEFT")
"""Joins whose rows come from rows on the left: what is there on the right comes to every group."""


class NoForm(Exception):  # noqa: N818 - no error of its own: the binder makes one of it
    """An operator cannot be done for all groups at once; `what` is its name, if it needs one."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


def partitioned(plan: lp.LogicalPlan, source: lp.LogicalPlan, keys: Keys) -> lp.LogicalPlan:
    """The operators above `source` by groups; `keys` are columns of it. Raises `NoForm`."""
    if plan is source:
        return plan
    _check_expressions(plan, source)
    match plan:
        case lp.Limit():
            return _limit(plan, partitioned(plan.input, source, keys), keys)
        case lp.Join():
            if plan.kind not in _FROM_LEFT or _holds(plan.right, source):
                raise NoForm(f"{plan.kind} JOIN")
            return replace(plan, left=partitioned(plan.left, source, keys))
        case lp.Lateral() if not _holds(plan.right, source):
            return replace(plan, left=partitioned(plan.left, source, keys))
        case (
            lp.Project()
            | lp.Filter()
            | lp.Sort()
            | lp.Unnest()
            | lp.MapRows()
            | lp.Check()
            | lp.Aggregate()
            | lp.Distinct()
            | lp.DistinctOn()
        ):
            below = partitioned(plan.input, source, keys)
            return _by(lp.with_input(_windows_by(plan, keys), below), keys)
        case _:
            raise NoForm("")


def _by(plan: lp.LogicalPlan, keys: Keys) -> lp.LogicalPlan:
    """An operator with the keys among its own, and among its columns."""
    match plan:
        case lp.Aggregate():
            own, count = tuple(lp.Assign(k, k) for k in keys), len(keys)
            sets = tuple((*range(count), *(i + count for i in s)) for s in plan.sets)
            return replace(plan, keys=own + plan.keys, sets=sets)
        case lp.DistinctOn():
            return replace(plan, on=(*keys, *plan.on))
        case _:
            return passing_on(plan, keys)


def _limit(plan: lp.Limit, below: lp.LogicalPlan, keys: Keys) -> lp.LogicalPlan:
    """The rows by their number in the group; of sorted rows only those that stay are sorted."""
    order: tuple[ex.SortKey, ...] = ()
    if isinstance(below, lp.Sort) and below is not plan.input:
        order, rows = below.keys, below.input
    else:
        rows = below
    number = ex.Call(("row_number",), window=ex.Window(keys, order))
    first = ex.Literal(plan.offset + 1)
    if plan.count is None:
        chosen: ex.Expr = ex.Binary(">=", number, first)
    else:
        chosen = ex.Between(number, first, ex.Literal(plan.offset + plan.count))
    kept = lp.Filter(rows, chosen)
    return lp.Sort(kept, order) if order else kept


def in_key_order(
    plan: lp.LogicalPlan, source: lp.LogicalPlan, keys: Keys, place: ex.Column
) -> lp.LogicalPlan:
    """Groups in the order of their keys, each with its rows in their order."""
    by_keys = tuple(ex.SortKey(k) for k in keys)
    # The source itself stays as it is: a PARTITION BY around this one looks for it.
    if isinstance(plan, lp.Sort) and plan is not source:
        return replace(plan, keys=by_keys + plan.keys)
    if _is_open(plan):
        return lp.Sort(plan, by_keys)
    passed = tuple(lp.Assign(c, c) for c in plan.columns)
    number = ex.Call(("row_number",), window=ex.Window())
    placed = lp.Project(plan, (*passed, lp.Assign(place, number)))
    return lp.Sort(placed, (*by_keys, ex.SortKey(place)))


def _is_open(plan: lp.LogicalPlan) -> bool:
    """Whether the rows are in no order of their own."""
    while isinstance(plan, lp.Project | lp.Filter):
        plan = plan.input
    return isinstance(plan, lp.Aggregate | lp.Distinct | lp.Join | lp.Lateral)


def _windows_by(plan: lp.LogicalPlan, keys: Keys) -> lp.LogicalPlan:
    """The operator with the keys added to the windows of its own expressions."""

    def visit(node: Node) -> Node:
        if isinstance(node, lp.LogicalPlan):
            return node
        node = map_children(node, visit)
        if isinstance(node, ex.Window):
            return replace(node, partition=(*keys, *node.partition))
        return node

    return map_children(plan, visit)


def _check_expressions(plan: lp.LogicalPlan, source: lp.LogicalPlan) -> None:
    """A subquery that reads the rows of the group would read those of all groups."""
    for node in _outside_plans(plan):
        if isinstance(node, ex.Subquery) and _holds(node.query, source):
            raise NoForm("a subquery over the group")


def _outside_plans(plan: lp.LogicalPlan) -> list[Node]:
    found: list[Node] = []
    todo = [c for c in children(plan) if not isinstance(c, lp.LogicalPlan)]
    while todo:
        node = todo.pop()
        found.append(node)
        todo += [c for c in children(node) if not isinstance(c, lp.LogicalPlan)]
    return found


def _holds(plan: Node, source: lp.LogicalPlan) -> bool:
    return any(node is source for node in walk(plan))


def reads_again(plan: lp.LogicalPlan, source: lp.LogicalPlan) -> bool:
    """Whether a plan over `source` also reads, beside it, what that is made of: a copy of it."""

    def tables(node: Node, inside: bool) -> set[object]:
        if isinstance(node, lp.Scan):
            return {(node.name, node.format)}
        if isinstance(node, lp.MemoryScan):
            return {node.key}
        if isinstance(node, lp.CommonRows):
            return {node.number}
        if isinstance(node, lp.Values | lp.TableFunction):
            return {(type(node), len(node.columns))}
        below = (c for c in children(node) if inside or c is not source)
        return {table for child in below for table in tables(child, inside)}

    return bool(tables(plan, False) & tables(source, True)) if plan is not source else False
