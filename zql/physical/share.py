"""`share_groups`: what stands twice in a statement, and groups rows, is computed once.

A view is put in the place of its name, so that the rules work on each use by itself. Uses that they
leave alike, up to the names of columns, become one WITH of the statement. Only operators that leave
the order of rows open are shared, since DuckDB keeps the rows of a WITH in any order; and nothing
that is volatile or looks at an outer row.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from zql.expr import expression as ex
from zql.logical import plan as lp
from zql.optimizer.facts import free_columns, is_volatile
from zql.physical.plan import PhysicalPlan, RunSql, Stage
from zql.tree import Node, children, map_children, walk

Group = lp.Aggregate | lp.Distinct


def share_groups(plan: PhysicalPlan) -> PhysicalPlan:
    """Every stage that is one statement with its repeated groups computed once."""
    return replace(plan, stages=tuple(_shared(stage) for stage in plan.stages))


def _shared(stage: Stage) -> Stage:
    if stage.source is not None:
        return stage
    steps = (RunSql(_once(s.plan)) if isinstance(s, RunSql) else s for s in stage.steps)
    return replace(stage, steps=tuple(steps))


def _once(plan: lp.LogicalPlan) -> lp.LogicalPlan:
    """The plan with each use of what stands twice reading one table."""
    uses = _repeated(plan)
    if not uses:
        return plan
    first = {id(use): alike[0] for alike in uses for use in alike}
    names = {id(alike[0]): f"_shared_{i}" for i, alike in enumerate(uses, 1)}

    def visit(node: Node) -> Node:
        group = first.get(id(node))
        if group is None or not isinstance(node, Group):
            return map_children(node, visit)
        sources = tuple(c.name for c in group.columns)
        return lp.SharedRows(names[id(group)], node.columns, sources)

    tables = tuple((names[id(alike[0])], map_children(alike[0], visit)) for alike in uses)
    return lp.Shared(visit(plan), tables)  # type: ignore[arg-type]


def _repeated(plan: lp.LogicalPlan) -> list[list[Group]]:
    """Groups that are alike, each behind those inside of it; of what is inside, one use counts."""
    groups = [n for n in walk(plan) if isinstance(n, Group)]
    if len(groups) < 2:
        return []
    similar: dict[object, list[Group]] = defaultdict(list)
    for group in groups:
        similar[_shape(group)].append(group)
    several = [g for alike in similar.values() if len(alike) > 1 for g in alike]
    kinds = {id(g): _unnamed(g) for g in several if not _is_bound_to_its_place(g)}
    known: dict[Node, list[Group]] = {}
    found: list[list[Group]] = []

    def visit(node: Node) -> None:
        kind = kinds.get(id(node))
        if kind is not None and isinstance(node, Group):
            uses = known.setdefault(kind, [])
            uses.append(node)
            if len(uses) > 1:
                return
        for child in children(node):
            visit(child)
        if kind is not None:
            found.append(known[kind])

    visit(plan)
    return [uses for uses in found if len(uses) > 1]


def _shape(group: Group) -> object:
    """Cheap to make, and the same for groups that are alike."""
    files = tuple(n.name for n in walk(group) if isinstance(n, lp.Scan))
    return type(group), tuple(c.type for c in group.columns), files


def _unnamed(group: Group) -> Node:
    """The group with its columns called by the order in which they come."""
    names: dict[str, str] = {}

    def visit(node: Node) -> Node:
        if isinstance(node, ex.Column):
            return replace(node, name=names.setdefault(node.name, str(len(names))))
        return map_children(node, visit)

    return visit(group)


def _is_bound_to_its_place(group: Group) -> bool:
    return is_volatile(group) or bool(free_columns(group) or lp.open_rounds(group))
