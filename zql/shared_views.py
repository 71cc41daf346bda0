"""Views that several statements of a script write from: computed once, when that is cheaper.

A view is a name for a query, and what reads it pays for it. Where a view calls Python, groups,
joins or sorts, and a later statement of the script that writes reads it too, its rows are kept at
the first of them and read again at the others, as long as it still means the same: the same plan
over the same versions of the same files. A view whose rows may differ from reading to reading
(`random()`, VOLATILE functions) is never shared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from zql.logical import plan as lp
from zql.logical.catalog import ObjectTable
from zql.logical.context import Declarations
from zql.optimizer.facts import calls_python, has_window, is_volatile
from zql.queries import schema_of
from zql.syntax import ast
from zql.tree import Node, node, walk

_COSTLY = (
    lp.MapRows
    | lp.Reduce
    | lp.Fold
    | lp.Apply
    | lp.Aggregate
    | lp.Distinct
    | lp.DistinctOn
    | lp.Join
    | lp.Sort
)


@node
class SharedView:
    """A view to be kept: `plan` stores its rows; `readers` are the numbers of the statements."""

    name: str
    plan: lp.Store
    readers: tuple[int, ...]


class SharedViews:
    """What is shared in one script; `writers` are its statements that write, by number."""

    def __init__(self, writers: Mapping[int, ast.Statement]) -> None:
        self._writers = writers
        self._kept: dict[str, lp.Query] = {}

    def wanted(
        self, number: int, declarations: Declarations, bind: Callable[[ast.Query], lp.Root]
    ) -> Iterator[SharedView]:
        """The views that a statement should find kept, those that are not yet or have changed.

        `bind` may raise; then nothing is shared, and the statement's own binding tells why.
        """
        views = declarations.views
        for name in self._candidates(number, views):
            readers = [n for n, s in self._writers.items() if name in _views_in(s, views)]
            later = [n for n in readers if n > number]
            plan = bind(ast.Query((ast.NameSource(name),)))
            if not isinstance(plan, lp.Query) or not _worth(plan):
                continue
            if self._kept.get(name) == plan:
                continue
            self._kept.pop(name, None)
            if later:
                store = lp.Store(plan.input, key_of(name), plan.names)
                yield SharedView(name, store, tuple(n for n in readers if n >= number))
                self._kept[name] = plan

    @contextmanager
    def read(self, number: int, declarations: Declarations) -> Iterator[None]:
        """While it is open, the kept views that the statement reads are tables."""
        if number not in self._writers:
            yield
            return
        names = self._candidates(number, declarations.views)
        declarations.shared = {
            name: ObjectTable(key_of(name), schema_of(self._kept[name]))
            for name in names
            if name in self._kept
        }
        try:
            yield
        finally:
            declarations.shared = {}

    def _candidates(self, number: int, views: Mapping[str, ast.CreateView]) -> list[str]:
        """The topmost views that a statement reads and others have read or will read."""
        others = [s for n, s in self._writers.items() if n > number]
        read_later = {name for s in others for name in _views_in(s, views)}
        found: list[str] = []
        todo = _views_in(self._writers[number], views, deep=False)
        while todo:
            name = todo.pop(0)
            if name in read_later or name in self._kept:
                found.append(name)
            else:
                todo += _views_in(views[name], views, deep=False)
        return found


def key_of(name: str) -> str:
    """The key of a kept view among the session's tables: no name that a script can write."""
    return f"view {name}"


def _worth(plan: lp.Query) -> bool:
    nodes = list(walk(plan))
    if any(is_volatile(node) for node in nodes if not isinstance(node, lp.LogicalPlan)):
        return False
    return any(isinstance(node, _COSTLY) or _is_costly(node) for node in nodes)


def _is_costly(node: Node) -> bool:
    return calls_python(node) or has_window(node)


def _views_in(
    statement: ast.Statement, views: Mapping[str, ast.CreateView], *, deep: bool = True
) -> list[str]:
    """The views that a statement reads, in its order; with `deep` those that they read too."""
    found: dict[str, None] = {}
    todo: list[Node] = [statement]
    while todo:
        local = _local_names(todo[-1])
        for part in walk(todo.pop()):
            match part:
                case ast.NameSource(name=name, module=""):
                    pass
                case _:
                    continue
            if name in views and name not in found and name not in local:
                found[name] = None
                if deep:
                    todo.append(views[name].query)
    return list(found)


def _local_names(root: Node) -> set[str]:
    """Names that WITH gives to other queries."""
    return {n.name.text for n in walk(root) if isinstance(n, ast.CommonQuery)}


def writers_of(
    statements: Sequence[ast.Statement], writes: Callable[[ast.Statement], bool]
) -> dict[int, ast.Statement]:
    """The statements that write, by their numbers from 1."""
    return {n: s for n, s in enumerate(statements, 1) if writes(s)}
