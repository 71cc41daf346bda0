"""`fuse_steps`: neighbouring SQL steps of a stage become one SELECT."""

from __future__ import annotations

from dataclasses import replace

from zql.logical import plan as lp
from zql.physical.plan import PhysicalPlan, RunSql, Stage, Step
from zql.tree import Node, map_children


def fuse_steps(plan: PhysicalPlan) -> PhysicalPlan:
    """Every stage with as few SQL steps as its Python calls allow."""
    return replace(plan, stages=tuple(_fused(stage) for stage in plan.stages))


def _fused(stage: Stage) -> Stage:
    steps: list[Step] = []
    for step in stage.steps:
        if isinstance(step, RunSql) and steps and isinstance(steps[-1], RunSql):
            steps[-1] = RunSql(over(step.plan, steps[-1].plan))
        else:
            steps.append(step)
    return replace(stage, steps=tuple(steps))


def over(plan: lp.LogicalPlan, below: lp.LogicalPlan) -> lp.LogicalPlan:
    """`plan` with its batch input replaced by `below`; subqueries have none."""

    def visit(node: Node) -> Node:
        if isinstance(node, lp.BatchInput):
            return below
        return map_children(node, visit) if isinstance(node, lp.LogicalPlan) else node

    fused = visit(plan)
    if not isinstance(fused, lp.LogicalPlan):
        raise TypeError(plan)
    return fused
