"""Why a condition or a LIMIT stands where it does, and no lower."""

from __future__ import annotations

from collections.abc import Sequence

from zql.expr import expression as ex
from zql.logical import plan as lp
from zql.optimizer.facts import (
    columns_of,
    conjuncts,
    has_subquery,
    has_window,
    is_volatile,
    may_fail,
    output_names,
)

Reason = tuple[lp.LogicalPlan, str]
"""The operator that is not passed, and why; an empty text when there is nothing to tell."""

_IN_THE_WAY = "it can fail, and rows that would make it fail may be gone behind it"


def why_filter_stays(part: ex.Expr, filter: lp.Filter) -> Reason:
    """What keeps a condition of a filter from moving down."""
    below = filter.input
    while isinstance(below, lp.Filter):
        if has_window(below.predicate):
            return below, "the condition there looks at all the rows that come to it"
        below = below.input
    if _is_leaf(below):
        return below, ""
    if has_window(filter.predicate):
        return below, "its window function looks at all the rows that come here"
    if is_volatile(part):
        return below, "it may answer otherwise for other rows (volatile)"
    reason = _why_not_below(part, below)
    if not reason and _is_guarded(part, filter):
        reason = "it can fail, and what stands before it may be its guard"
    return below, reason


def _is_leaf(plan: lp.LogicalPlan) -> bool:
    leaves = (
        lp.Scan,
        lp.MemoryScan,
        lp.Values,
        lp.TableFunction,
        lp.DuckdbQuery,
        lp.RoundRows,
        lp.StageResult,
        lp.BatchInput,
        lp.Rejects,
    )
    return isinstance(plan, leaves)


def _is_guarded(part: ex.Expr, filter: lp.Filter) -> bool:
    return may_fail(part) and len(conjuncts(filter.predicate)) > 1


def _why_not_below(part: ex.Expr, below: lp.LogicalPlan) -> str:
    used = columns_of(part)
    match below:
        case lp.Project():
            return _why_not_below_project(part, below)
        case lp.Apply():
            made = [c for c in below.calls if c.column.name in used]
            if isinstance(part, ex.Column) and made:
                return ""  # the call itself
            if made:
                return "it uses its result" if len(below.calls) == 1 else "it uses their results"
            return _why_on_every_row(below.calls)
        case lp.Check():
            return "every row is checked first"
        case lp.MapRows() | lp.Reduce():
            return "it is about the rows that the function makes"
        case lp.Limit():
            return "LIMIT counts the rows that come without it"
        case lp.Aggregate():
            on_keys = used <= {a.column.name for a in below.keys}
            return "no rule moves conditions on keys" if on_keys else "it is about groups"
        case lp.Fold():
            on_keys = used <= {k.name for k in below.keys}
            return "no rule moves conditions on keys" if on_keys else "it is about groups"
        case lp.DistinctOn():
            return "another row would be the first of its key"
        case lp.Distinct():
            return _IN_THE_WAY if may_fail(part) else ""
        case lp.Unnest():
            made_here = {below.column.name} | ({below.position.name} if below.position else set())
            if used & made_here:
                return "it uses the element"
            return _IN_THE_WAY if may_fail(part) else ""
        case lp.Join():
            return _why_not_below_join(part, below, used)
        case lp.Lateral():
            left = used <= output_names(below.left)
            return _IN_THE_WAY if left and may_fail(part) else "the query there is asked first"
        case lp.RecursiveUnion():
            return "the rounds go on from rows that it would leave out"
        case lp.SetOperation():
            if below.kind != "UNION" or not below.all:
                return "whole rows are compared there"
            return "the branches have other types, or it holds a subquery"
        case _:
            return ""


def _why_on_every_row(calls: Sequence[lp.PythonColumn | lp.MapRows]) -> str:
    if any(call.function.volatile for call in calls):
        return "that is VOLATILE, and is called for every row"
    failing = any(call.on_error for call in calls)
    return "that has ON ERROR, and every row that fails counts" if failing else ""


def _why_not_below_project(part: ex.Expr, below: lp.Project) -> str:
    values = [a.expr for a in below.assigns]
    if any(has_window(v) for v in values):
        return "a window function there looks at all the rows"
    if any(is_volatile(v) for v in values):
        return "a volatile value there is made for all the rows"
    if has_subquery(part) or any(has_subquery(v) for v in values):
        return "there is a subquery in the way"
    return ""


def _why_not_below_join(part: ex.Expr, join: lp.Join, used: frozenset[str]) -> str:
    if has_subquery(part):
        return "it holds a subquery"
    left, right = used <= output_names(join.left), used <= output_names(join.right)
    if not left and not right:
        return "it looks at both sides"
    if join.kind in ("FULL", "LEFT", "RIGHT", "ASOF", "ASOF LEFT") and may_stay(join, left):
        return "rows without a partner are made there, and it sees their NULLs"
    return _IN_THE_WAY if may_fail(part) else ""


def may_stay(join: lp.Join, left: bool) -> bool:
    """Whether a side of an outer join is one that gets NULLs, or is not filtered before it."""
    kept = {"LEFT": left, "RIGHT": not left}.get(join.kind, False)
    return not kept


def why_limit_stays(limit: lp.Limit) -> str:
    """What keeps a LIMIT from moving down, where one might expect it; empty for nothing to tell."""
    match limit.input:
        case lp.Check():
            return "every row is checked first"
        case lp.Filter():
            return "it takes the first rows that pass"
        case lp.Unnest():
            return "a row gives any number of elements"
        case lp.Reduce():
            return "a group gives any number of records"
        case lp.MapRows(is_of_many=True):
            return "the function gives any number of records"
        case lp.MapRows() as rows if rows.kind != "MAP":
            return "a row gives any number of records"
        case lp.MapRows() as rows if rows.on_every_row:
            return _why_on_every_row((rows,))
        case lp.Apply() as apply if any(c.on_every_row for c in apply.calls):
            return _why_on_every_row(apply.calls)
        case lp.Project() as project if any(has_window(a.expr) for a in project.assigns):
            return "a window function there looks at all the rows"
        case lp.Project() as project if any(is_volatile(a.expr) for a in project.assigns):
            return "a volatile value there is made for all the rows"
        case _:
            return ""
