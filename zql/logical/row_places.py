"""The place of each row in the input, as a column to sort by."""

from __future__ import annotations

from dataclasses import replace

from zql.expr import expression as ex
from zql.logical import plan as lp

PLACED_FORMATS = frozenset({"parquet"})
"""Formats whose readers tell places themselves.

`row_number() OVER ()` lets DuckDB read with one thread only; theirs do not.
"""


def numbered(plan: lp.LogicalPlan, place: ex.Column) -> lp.LogicalPlan:
    """The plan with a column more, which grows along its rows: BIGINT, and not without gaps."""
    found = told_by_reader(plan, place)
    if found is not None:
        return found
    passed = tuple(lp.Assign(c, c) for c in plan.columns)
    number = ex.Call(("row_number",), window=ex.Window())
    return lp.Project(plan, (*passed, lp.Assign(place, number)))


def told_by_reader(plan: lp.LogicalPlan, place: ex.Column) -> lp.LogicalPlan | None:
    """The plan with that column read from its files; None where no reader can tell."""
    match plan:
        case lp.Scan() if plan.format in PLACED_FORMATS:
            column = lp.ScanColumn(place, "", "place")
            return replace(plan, columns_read=(*plan.columns_read, column))
        case lp.Filter():
            inner = told_by_reader(plan.input, place)
            return None if inner is None else replace(plan, input=inner)
        case lp.Project():
            inner = told_by_reader(plan.input, place)
            if inner is None:
                return None
            return replace(plan, input=inner, assigns=(*plan.assigns, lp.Assign(place, place)))
        case _:
            return None
