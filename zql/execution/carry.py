"""Takes columns through a plan that say which row each row came from."""

from __future__ import annotations

from dataclasses import replace

from zql.errors import InternalError
from zql.expr.expression import Binary, Call, Column, Literal, Window
from zql.logical.plan import (
    Assign,
    BatchInput,
    Check,
    Filter,
    Join,
    Limit,
    LogicalPlan,
    Project,
    Scan,
    ScanColumn,
    Unnest,
)
from zql.physical.broadcast import cut_at_joins
from zql.physical.fuse import over
from zql.tree import walk


def carried(plan: LogicalPlan, column: Column) -> LogicalPlan | None:
    """The plan with `column` of its batch input among its columns; None when it cannot be.

    A row that a join makes has it of its left side.
    """
    match plan:
        case BatchInput():
            return replace(plan, columns=(*plan.columns, column))
        case Filter() | Unnest() | Check():
            inner = carried(plan.input, column)
            return None if inner is None else replace(plan, input=inner)
        case Join():
            left = carried(plan.left, column)
            return None if left is None else replace(plan, left=left)
        case Project():
            inner = carried(plan.input, column)
            if inner is None:
                return None
            return replace(plan, input=inner, assigns=(*plan.assigns, Assign(column, column)))
        case _:
            return None


def numbered_below(plan: LogicalPlan, number: Column) -> tuple[LogicalPlan, LogicalPlan]:
    """A plan of joins with the numbers (from 0) of the rows that the first of them takes, as they
    come, among its columns; and those rows.
    """
    found = cut_at_joins(plan)
    joined = None if found is None else carried(found[1], number)
    if found is None or joined is None:
        raise InternalError("rows that are joined cannot be numbered")
    rows, passed = found[0], tuple(Assign(c, c) for c in found[0].columns)
    place = Binary("-", Call(("row_number",), (), window=Window()), Literal(1))
    return over(joined, Project(rows, (*passed, Assign(number, place)))), rows


def with_place(plan: LogicalPlan, row: Column, file: Column) -> LogicalPlan | None:
    """The plan with the number of the row in its file (from 0) and the file's name as columns.

    None when rows do not come from one row of one scan, or would be others the next time.
    """
    if any(isinstance(node, Call) and node.volatile for node in walk(plan)):
        return None
    return _placed(plan, row, file)


def _placed(plan: LogicalPlan, row: Column, file: Column) -> LogicalPlan | None:
    match plan:
        case Scan():
            extra = (
                ScanColumn(row, "file_row_number", "row"),
                ScanColumn(file, "filename", "filename"),
            )
            return replace(plan, columns_read=plan.columns_read + extra)
        case Filter() | Unnest() | Limit() | Check():
            inner = _placed(plan.input, row, file)
            return None if inner is None else replace(plan, input=inner)
        case Project():
            inner = _placed(plan.input, row, file)
            if inner is None:
                return None
            extra_assigns = (Assign(row, row), Assign(file, file))
            return replace(plan, input=inner, assigns=plan.assigns + extra_assigns)
        case _:
            return None
