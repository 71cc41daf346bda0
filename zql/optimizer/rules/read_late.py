"""`read_late`: DISTINCT ON finds its rows by the columns that say which, and reads the others then.

The first row of each key is found among narrow rows: the key, what they are ordered by, and their
places in the files. Those places are joined with the files again, for the columns that are wide.
Wide columns of rows that are dropped then stand in no table, and those of rows that are kept in
none that is sorted by key. The files are read twice, so they have to be local, and Parquet, where a
reader tells places and skips columns.
"""

from __future__ import annotations

from dataclasses import replace

from zql.expr import expression as ex
from zql.logical import plan as lp
from zql.logical.row_places import told_by_reader
from zql.logical.scope import Names
from zql.optimizer.facts import (
    calls_python,
    columns_of,
    has_subquery,
    has_window,
    is_volatile,
    unused_names,
)
from zql.tree import Node, children, rewrite_up, walk

_WIDE = ("VARCHAR", "BLOB", "JSON", "STRUCT", "MAP", "UNION")


def read_late(plan: lp.LogicalPlan) -> lp.LogicalPlan:
    """The plan with each such DISTINCT ON over few columns, joined with the rest."""
    if not any(isinstance(n, lp.DistinctOn) for n in walk(plan)):
        return plan
    names = unused_names(plan)

    def visit(node: Node) -> Node:
        return _late(node, names) if isinstance(node, lp.DistinctOn) else node

    changed: lp.LogicalPlan = rewrite_up(plan, visit)
    return changed


def _late(plan: lp.DistinctOn, names: Names) -> lp.LogicalPlan:
    used = frozenset(n for e in (*plan.on, *plan.order) for n in columns_of(e))
    early = tuple(c for c in plan.columns if c.name in used)
    late = tuple(c for c in plan.columns if c.name not in used)
    if not any(_is_wide(c) for c in late) or not _can_be_read_twice(plan):
        return plan
    place, found = names.column("place", "BIGINT"), names.column("place", "BIGINT")
    rows = told_by_reader(_only(plan.input, late), place)
    narrow = told_by_reader(_only(plan.input, early), found)
    if rows is None or narrow is None:
        return plan
    again = {c: names.column(c.name, c.type) for c in early}
    firsts = lp.Project(
        replace(plan, input=narrow, place=found),
        (lp.Assign(found, found), *(lp.Assign(new, c) for c, new in again.items())),
    )
    joined = lp.Join(rows, firsts, "INNER", ex.Binary("=", place, found))
    in_places = lp.Sort(joined, (ex.SortKey(place),))
    return lp.Project(in_places, tuple(lp.Assign(c, again.get(c, c)) for c in plan.columns))


def _only(plan: lp.LogicalPlan, columns: tuple[ex.Column, ...]) -> lp.Project:
    return lp.Project(plan, tuple(lp.Assign(c, c) for c in columns))


def _is_wide(column: ex.Column) -> bool:
    return column.type.startswith(_WIDE) or column.type.endswith("]")


def _can_be_read_twice(plan: lp.DistinctOn) -> bool:
    """Whether its input is rows of local files that come out the same both times."""
    below = plan.input
    expressions: list[Node] = [*plan.on, *plan.order]
    while isinstance(below, lp.Filter | lp.Project):
        expressions += [c for c in children(below) if not isinstance(c, lp.LogicalPlan)]
        below = below.input
    refused = (is_volatile, calls_python, has_subquery, has_window)
    if any(f(e) for e in expressions for f in refused):
        return False
    if not isinstance(below, lp.Scan) or below.on_error is not None:
        return False
    return not any("://" in file.path for file in below.files)
