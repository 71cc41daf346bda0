"""Rows of equal keys brought together: sorted by DuckDB, marked where groups begin."""

from __future__ import annotations

from zql.expr import expression as ex
from zql.logical import plan as lp
from zql.logical.row_places import numbered

STARTS = "zql starts"
"""A hidden column: 1 where a group begins, else 0; of the first row it may say either."""

_PLACE = "zql place"


def exchange(reduce: lp.Reduce, input: lp.LogicalPlan) -> lp.LogicalPlan:
    """The rows of `input` as a REDUCE or COMBINE takes them.

    They have the columns that it uses, or keeps of groups that fail.
    """
    kept = reduce.on_error.kept if reduce.on_error is not None else ()
    used = (*(c for _, c in reduce.record), *_of_args(reduce), *kept)
    return together(input, reduce.keys, used, reduce.order)


def together(
    input: lp.LogicalPlan,
    group_by: tuple[ex.Column, ...],
    taken: tuple[ex.Column, ...],
    by: tuple[ex.SortKey, ...] = (),
) -> lp.LogicalPlan:
    """The rows of `input` by group: by keys, by an order, by their places.

    The columns are the keys, those that are `taken`, and STARTS when there are keys.
    """
    used = tuple(dict.fromkeys((*group_by, *taken)))
    passed = tuple(lp.Assign(c, c) for c in used)
    if not group_by and not by:
        return lp.Project(input, passed or _one_column(input))
    place = ex.Column(_PLACE, "BIGINT")
    order = tuple(k.expr for k in by if isinstance(k.expr, ex.Column))
    sorted_by = tuple(dict.fromkeys((*used, *order)))
    placed = numbered(lp.Project(input, tuple(lp.Assign(c, c) for c in sorted_by)), place)
    keys = (*(ex.SortKey(key) for key in group_by), *by, ex.SortKey(place))
    rows = lp.Sort(placed, keys)
    return lp.Project(rows, (*passed, *_starts(group_by)) or _one_column(rows))


def _of_args(reduce: lp.Reduce) -> list[ex.Column]:
    return [a for a in reduce.args if isinstance(a, ex.Column)]


def _one_column(plan: lp.LogicalPlan) -> tuple[lp.Assign, ...]:
    """A column for rows of which nothing is wanted but that they are there."""
    return tuple(lp.Assign(c, c) for c in plan.columns[:1])


def _starts(keys: tuple[ex.Column, ...]) -> tuple[lp.Assign, ...]:
    """Whether a key differs from that of the row before, as a number."""
    if not keys:
        return ()
    before = (ex.Call(("lag",), (key,), window=ex.Window()) for key in keys)
    differ = tuple(
        ex.Is(key, "DISTINCT", other=other) for key, other in zip(keys, before, strict=True)
    )
    any_differs = differ[0] if len(differ) == 1 else ex.Logical("OR", differ)
    return (lp.Assign(ex.Column(STARTS, "TINYINT"), ex.Cast(any_differs, "TINYINT")),)
