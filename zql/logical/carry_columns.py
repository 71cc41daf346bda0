"""Hidden columns taken along through operators that make their rows of one row each."""

from __future__ import annotations

from dataclasses import replace

from zql.expr.expression import Column
from zql.logical import plan as lp


def carry_columns(
    plan: lp.LogicalPlan, source: lp.LogicalPlan, columns: tuple[Column, ...]
) -> lp.LogicalPlan | None:
    """The plan with `columns` of the `source` below it among its own.

    None when a row of the plan does not come from one row of the source.
    """
    if plan is source:
        return plan
    if not isinstance(
        plan,
        lp.Filter | lp.Sort | lp.Limit | lp.Unnest | lp.Project | lp.Apply | lp.MapRows | lp.Check,
    ):
        return None
    if isinstance(plan, lp.MapRows) and plan.is_of_many:
        return None
    inner = carry_columns(plan.input, source, columns)
    return None if inner is None else passing_on(lp.with_input(plan, inner), columns)


def passing_on(plan: lp.LogicalPlan, columns: tuple[Column, ...]) -> lp.LogicalPlan:
    """The operator with these columns of its input among its own."""
    missing = tuple(c for c in columns if c not in plan.columns)
    match plan:
        case lp.Project():
            return replace(plan, assigns=plan.assigns + tuple(lp.Assign(c, c) for c in missing))
        case lp.MapRows():
            return replace(plan, carried=plan.carried + missing)
        case _:
            return plan
