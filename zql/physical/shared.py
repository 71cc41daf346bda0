"""What stands twice in a statement and is worth computing once: groups, and rows made distinct.

A view is put in the place of its name, so that the rules work on each use by itself. Uses that they
leave alike, up to the names of columns, become one WITH of the statement. Only operators that leave
the order of rows open are shared, since DuckDB keeps the rows of a WITH in any order; and nothing
that is volatile or looks at an outer row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace

from zql.expr import expression as ex
from zql.logical import plan as lp
from zql.optimizer.facts import free_columns, is_volatile
from zql.tree import Node, children, map_children, walk

Group = lp.Aggregate | lp.Distinct


@dataclass(frozen=True, slots=True)
class Shared:
    """Subplans that give the same rows: the first is computed, the others are references to it."""

    name: str
    uses: tuple[Group, ...]


def shared_groups(plan: Node) -> tuple[Shared, ...]:
    """The subplans that stand in the plan more than once, each behind those that it uses itself."""
    groups = [n for n in walk(plan) if isinstance(n, Group)]
    if len(groups) < 2:
        return ()
    similar: dict[object, list[Group]] = defaultdict(list)
    for group in groups:
        similar[_shape(group)].append(group)
    several = [g for alike in similar.values() if len(alike) > 1 for g in alike]
    found = _Uses({id(g): _unnamed(g) for g in several if not _is_bound_to_its_place(g)})
    found.visit(plan)
    shared = [uses for uses in found.uses if len(uses) > 1]
    return tuple(Shared(f"_shared_{i}", tuple(uses)) for i, uses in enumerate(shared, 1))


def computed(plan: Node) -> Iterator[Node]:
    """The nodes of a plan that are computed: of what is shared, those of its first use."""
    again = {id(use) for shared in shared_groups(plan) for use in shared.uses[1:]}
    todo = [plan]
    while todo:
        node = todo.pop()
        yield node
        todo += [child for child in reversed(children(node)) if id(child) not in again]


class _Uses:
    def __init__(self, kinds: dict[int, Node]) -> None:
        """`kinds` has, by the identity of a group, what it is without its names."""
        self.kinds = kinds
        self.known: dict[Node, list[Group]] = {}
        self.uses: list[list[Group]] = []

    def visit(self, node: Node) -> None:
        """Finds the uses below; of a group that is used again, what is inside stands there once."""
        kind = self.kinds.get(id(node)) if isinstance(node, Group) else None
        if not isinstance(node, Group) or kind is None:
            for child in children(node):
                self.visit(child)
        elif kind in self.known:
            self.known[kind].append(node)
        else:
            self.known[kind] = [node]
            for child in children(node):
                self.visit(child)
            self.uses.append(self.known[kind])


def _shape(group: Group) -> object:
    """Cheap to make, and the same for groups that are alike."""
    leaves = [
        n.name if isinstance(n, lp.Scan) else getattr(n, "key", None)
        for n in walk(group)
        if isinstance(n, lp.LogicalPlan) and not isinstance(n, lp.Filter | lp.Project)
    ]
    return type(group), tuple(c.type for c in group.columns), tuple(leaves)


def _unnamed(group: Group) -> Node:
    """The group with its columns called by the order in which they come."""
    names: dict[str, str] = {}

    def visit(node: Node) -> Node:
        if isinstance(node, ex.Column):
            return replace(node, name=names.setdefault(node.name, str(len(names))))
        return map_children(node, visit)

    return visit(group)


def _is_bound_to_its_place(group: Group) -> bool:
    return is_volatile(group) or bool(free_columns(group))
