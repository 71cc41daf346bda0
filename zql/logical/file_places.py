"""The file of each row and its number there, taken along as columns to where rows are rejected."""

from __future__ import annotations

from dataclasses import replace

from zql.expr import expression as ex
from zql.expr.expression import Column
from zql.logical import plan as lp
from zql.logical.carry_columns import carry_columns
from zql.logical.scope import Names
from zql.tree import Node, children, map_children, walk

_KINDS = (("filename", "filename", "VARCHAR"), ("row", "file_row_number", "BIGINT"))


def with_file_places(
    plan: lp.LogicalPlan, names: Names
) -> tuple[lp.LogicalPlan, tuple[Column, ...]]:
    """The plan, and its columns that hold the file and the number there (from 0) of each row.

    There are none when a row does not come from one row of one scan.
    """
    below = plan
    while isinstance(
        below, lp.Filter | lp.Sort | lp.Limit | lp.Unnest | lp.Project | lp.MapRows | lp.Check
    ):
        below = below.input
    if not isinstance(below, lp.Scan):
        return plan, ()
    scan, columns = _placed(below, names)
    carried = carry_columns(_in_place_of(below, scan, plan), scan, columns)
    return (plan, ()) if carried is None else (carried, columns)


def stand_in_files(plan: lp.LogicalPlan) -> bool:
    """Whether rows reach Python as they are read: then their numbers in the file are known."""
    while not isinstance(plan, lp.Scan):
        if isinstance(plan, lp.Filter | lp.Project | lp.Unnest | lp.Check):
            own = [c for c in children(plan) if not isinstance(c, lp.LogicalPlan)]
            if any(_sees_others(n) for c in own for n in walk(c)):
                return False
        elif not isinstance(plan, lp.MapRows) or plan.is_of_many:
            return False
        plan = plan.input
    return True


def _sees_others(node: Node) -> bool:
    return isinstance(node, ex.Subquery) or (isinstance(node, ex.Call) and node.window is not None)


def _placed(scan: lp.Scan, names: Names) -> tuple[lp.Scan, tuple[Column, ...]]:
    """The scan with both columns; those that it has are taken."""
    columns = []
    for kind, source, type_ in _KINDS:
        found = next((c.column for c in scan.columns_read if c.kind == kind), None)
        if found is None:
            found = names.column(source, type_)
            read = lp.ScanColumn(found, source, kind)
            scan = replace(scan, columns_read=(*scan.columns_read, read))
        columns.append(found)
    return scan, tuple(columns)


def _in_place_of(scan: lp.Scan, placed: lp.Scan, plan: lp.LogicalPlan) -> lp.LogicalPlan:
    """The plan over the other scan; only its own inputs are looked at, no subqueries."""
    if plan is scan:
        return placed

    def visit(node: Node) -> Node:
        return _in_place_of(scan, placed, node) if isinstance(node, lp.LogicalPlan) else node

    return map_children(plan, visit)
