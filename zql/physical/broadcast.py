"""Joins of tasks to few rows, which each task has all of: the exchange called broadcast.

Such a join is a step of its own over the rows of the step before. The right side, until the tasks
become a stage, is the plan that computes it; then it is the result of a stage before them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeGuard

from zql.logical import plan as lp
from zql.optimizer.facts import has_subquery, has_window
from zql.physical.plan import RunSql, Step
from zql.tree import children, walk

RowWise = lp.Filter | lp.Project | lp.Unnest | lp.Check


def has_join(plan: lp.LogicalPlan) -> bool:
    """Whether tasks join their rows to others in a plan, which is that of one of their steps."""
    return any(isinstance(node, lp.Join) for node in walk(plan))


def may_follow_joins(call: lp.PythonOperator) -> bool:
    """Whether Python may work on rows that its own tasks have joined.

    A shard is what a task reads. And a call that a worker had to be ended for is known by the
    number of its row, which rows that a join has multiplied have in common.
    """
    if isinstance(call, lp.MapRows) and call.kind == "MAP SHARDS":
        return False
    return all(function.timeout is None for function in lp.called_functions(call))


def is_row_wise(plan: lp.LogicalPlan) -> TypeGuard[RowWise]:
    """Whether each row comes from one row of the input, in its order."""
    if not isinstance(plan, RowWise):
        return False
    own = [c for c in children(plan) if not isinstance(c, lp.LogicalPlan)]
    return not any(has_window(n) or has_subquery(n) for n in own)


def cut_at_joins(plan: lp.LogicalPlan) -> tuple[lp.LogicalPlan, lp.LogicalPlan] | None:
    """The rows that the first join takes, and what a plan makes of them, over `BatchInput`.

    None when the plan does more with them than joins to few rows, and SQL row by row.
    """
    if isinstance(plan, lp.Join) and plan.broadcast:
        found = cut_at_joins(plan.left)
        if found is None:
            return plan.left, replace(plan, left=lp.BatchInput(plan.left.columns))
        return found[0], replace(plan, left=found[1])
    if not is_row_wise(plan):
        return None
    found = cut_at_joins(plan.input)
    return None if found is None else (found[0], lp.with_input(plan, found[1]))


def without_last_joins(steps: tuple[Step, ...]) -> tuple[tuple[Step, ...], tuple[RunSql, ...]]:
    """The steps up to the last that is no SQL, and that SQL which joins nothing; then the rest."""
    last: list[RunSql] = []
    cut = len(steps)
    for i in range(len(steps) - 1, 0, -1):
        step = steps[i]
        if not isinstance(step, RunSql):
            break
        last.insert(0, step)
        if has_join(step.plan):
            cut = i
    return steps[:cut], tuple(last[len(last) - (len(steps) - cut) :])


def with_right_sides(
    steps: tuple[Step, ...], right_side: Callable[[lp.LogicalPlan], lp.LogicalPlan]
) -> tuple[Step, ...]:
    """The steps with the right sides of joins computed before; below first."""

    def visit(plan: lp.LogicalPlan) -> lp.LogicalPlan:
        if isinstance(plan, lp.Join):
            return replace(plan, left=visit(plan.left), right=right_side(plan.right))
        return lp.with_input(plan, visit(plan.input)) if isinstance(plan, RowWise) else plan

    return tuple(RunSql(visit(s.plan)) if isinstance(s, RunSql) else s for s in steps)
