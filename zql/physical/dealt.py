"""Rows dealt to partitions: by a hash of grouping keys, for groups, or by ranges, for a sort.

`KEY_HASH` is the one hash by which rows are dealt so. It is that of DuckDB's own GROUP BY: what it
takes for equal has one hash (0.0 and -0.0, every NaN, a month and thirty days, wherever they are
nested), and nothing else would know that as well. It may be another one in another version of
DuckDB, so nothing that outlives a run may depend on it: files are dealt by `stable_hash`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from zql.errors import InternalError
from zql.expr import expression as ex
from zql.logical import plan as lp
from zql.logical.scope import Names
from zql.optimizer.facts import columns_of, is_volatile, unused_names
from zql.optimizer.held_states import sees_rows_once
from zql.optimizer.rules.partition_sorts import can_be_ranged
from zql.physical.plan import Keep, RunSql, Spread, Stage
from zql.resources import most
from zql.tree import Node, map_children

KEY_HASH = "DuckDB's hash"
"""Its name in plans, in what results are found by, and in EXPLAIN."""

SORT_KEY = "create_sort_key"
"""DuckDB's function which makes of the keys of a sort one value that is ordered as they are."""


def key_ticket(keys: tuple[ex.Expr, ...]) -> ex.Expr:
    """A number from 0 on, below 2**63, that is the same for keys that GROUP BY takes for equal.

    The hash is hashed once more: by its own digits DuckDB finds the places in its tables, where
    rows whose hashes begin alike would meet.
    """
    once = ex.Call(("hash",), keys)
    twice = ex.Call(("hash",), (once,))
    return ex.Cast(ex.Binary(">>", twice, ex.Literal(1)), "BIGINT")


def dealt(
    plan: lp.Aggregate, input: lp.LogicalPlan
) -> tuple[lp.Project, Spread, Callable[[lp.StageResult], lp.Aggregate]]:
    """The rows that the groups of `plan` are made of, how they are dealt, and the groups over them.

    The columns of the rows are the keys, what the aggregates take, computed, and a ticket. Those
    that had no name before have no type either: DuckDB reads back what it has written. Of rows that
    are alike one is dealt where the aggregates would see but one.
    """
    taken = _Taken(unused_names(plan))
    keys = tuple(
        lp.Assign(key.column, taken.column(key.expr, key.column.name, key.column.type))
        for key in plan.keys
    )
    aggregates = tuple(replace(a, expr=taken.made_of(a.expr, plan.keys)) for a in plan.aggregates)
    ticket = taken.names.column("ticket", "BIGINT")
    columns = tuple(key.expr for key in keys if isinstance(key.expr, ex.Column))
    values: lp.LogicalPlan = lp.Project(input, tuple(taken.assigns))
    if sees_rows_once(plan):
        values = lp.Distinct(values)
    passed = tuple(lp.Assign(c, c) for c in values.columns)
    rows = lp.Project(values, (*passed, lp.Assign(ticket, key_ticket(columns))))
    spread = Spread(ticket, None, plan.parts, columns, KEY_HASH)

    def groups(source: lp.StageResult) -> lp.Aggregate:
        return replace(plan, input=source, keys=keys, aggregates=aggregates, parts=1)

    return rows, spread, groups


def ranged(plan: lp.Sort, input: lp.LogicalPlan) -> tuple[lp.Project, Spread]:
    """The rows with a ticket that is ordered as they shall be, and how they are dealt by it."""
    ticket = unused_names(plan).column("ticket", "BLOB")
    args: list[ex.Expr] = []
    for key in plan.keys:
        nulls = "FIRST" if key.nulls_first else "LAST"
        order = f"{'DESC' if key.descending else 'ASC'} NULLS {nulls}"
        args += (key.expr, ex.Literal(order))
    passed = tuple(lp.Assign(c, c) for c in plan.columns)
    made = lp.Assign(ticket, ex.Call((SORT_KEY,), tuple(args)))
    return lp.Project(input, (*passed, made)), Spread(ticket, None, plan.parts, order=plan.keys)


def sorted_alone(rows: Stage) -> Stage:
    """A stage that keeps the rows sorted which `rows` would deal to ranges."""
    sort, tables = _sort_of(rows)
    whole: lp.LogicalPlan = lp.Shared(sort, tables) if tables else sort
    return replace(rows, steps=(RunSql(whole),), sink=Keep(), row_local=False)


def sorted_whole(stage: Stage, rows: Stage) -> Stage:
    """A stage over rows that `rows` would deal to ranges, which it sorts in its own statement."""
    sort, tables = _sort_of(rows)

    def visit(node: Node) -> Node:
        if isinstance(node, lp.StageResult) and node.stage == rows.id:
            return sort
        return map_children(node, visit)

    steps = tuple(map_children(step, visit) for step in stage.steps)
    if tables:
        (step,) = (s for s in steps if isinstance(s, RunSql))
        steps = (RunSql(lp.Shared(step.plan, tables)),)
    asked = most(each.resources for each in (stage, rows) if each.resources is not None)
    return replace(stage, steps=steps, row_local=False, resources=asked)


def cut_at_sort(stage: Stage, parts: int) -> tuple[Stage, Stage] | None:
    """A statement that ends in a sort as two stages: what reads ranges, and what deals rows to so
    many `parts` of them, under the same number. None where it does not end in one.
    """
    plan = stage.steps[0].plan if isinstance(stage.steps[0], RunSql) else None
    above: list[lp.Project | lp.Filter | lp.Unnest] = []
    sort = plan
    while isinstance(sort, lp.Project | lp.Filter | lp.Unnest):
        above.append(sort)
        sort = sort.input
    if stage.source is not None or not isinstance(sort, lp.Sort) or sort.shuffles:
        return None
    if not can_be_ranged(sort):
        return None
    project, spread = ranged(replace(sort, parts=parts), sort.input)
    rows = Stage(stage.id, None, (RunSql(project),), Keep(spread=spread), resources=stage.resources)
    read: lp.LogicalPlan = lp.StageResult(stage.id, sort.columns)
    for each in reversed(above):
        read = lp.with_input(each, read)
    return replace(stage, steps=(RunSql(read),), row_local=False), rows


def _sort_of(rows: Stage) -> tuple[lp.Sort, tuple[tuple[str, lp.LogicalPlan], ...]]:
    """The sort instead of which rows are dealt to ranges, and tables that its input reads."""
    (step,), spread = rows.steps, rows.spread
    plan = step.plan if isinstance(step, RunSql) else None
    tables = plan.tables if isinstance(plan, lp.Shared) else ()
    plan = plan.input if isinstance(plan, lp.Shared) else plan
    if not isinstance(plan, lp.Project) or spread is None:
        raise InternalError("rows are dealt out, and sorted, by SQL")
    passed = tuple(a for a in plan.assigns if a.column != spread.ticket)
    return lp.Sort(lp.Project(plan.input, passed), spread.order), tables


def undealt(groups: Stage, rows: Stage) -> Stage:
    """A stage that groups by partition as one statement, over the rows that `rows` would deal out.

    Rows that are alike stay: DuckDB lets the aggregates see one of them by itself.
    """
    (step,), (below,) = groups.steps, rows.steps
    if not isinstance(step, RunSql) or not isinstance(below, RunSql):
        raise InternalError("rows are dealt out, and grouped, by SQL")
    plan = below.plan
    tables = plan.tables if isinstance(plan, lp.Shared) else ()
    plan = plan.input if isinstance(plan, lp.Shared) else plan
    if isinstance(plan, lp.Project) and isinstance(plan.input, lp.Distinct):
        plan = replace(plan, input=plan.input.input)

    def visit(node: Node) -> Node:
        if isinstance(node, lp.StageResult) and node.stage == rows.id:
            return plan
        return map_children(node, visit)

    whole: lp.LogicalPlan = map_children(step.plan, visit)
    whole = lp.Shared(whole, tables) if tables else whole
    return replace(groups, steps=(RunSql(whole),), by_partition=False)


class _Taken:
    """Columns for expressions, each computed once unless it is volatile."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.assigns: list[lp.Assign] = []
        self._known: dict[str, ex.Column] = {}  # by repr: 1 and TRUE are equal in Python

    def column(self, expr: ex.Expr, name: str = "value", type: str = "") -> ex.Column:
        """The column that has the value of an expression of the input."""
        if repr(expr) in self._known:
            return self._known[repr(expr)]
        found = expr if isinstance(expr, ex.Column) else self.names.column(name, type)
        self.assigns.append(lp.Assign(found, expr))
        if not is_volatile(expr):
            self._known[repr(expr)] = found
        return found

    def made_of(self, expr: ex.Expr, keys: tuple[lp.Assign, ...]) -> ex.Expr:
        """An expression over aggregates, with columns in the place of what these take of a row."""
        of_keys = {key.expr for key in keys}

        def argument(node: Node) -> Node:
            if not isinstance(node, ex.Expr):
                return map_children(node, argument)
            constant = not columns_of(node) and not is_volatile(node)
            return node if constant else self.column(node)

        def visit(node: Node) -> Node:
            if isinstance(node, ex.Call) and node.aggregate and node.window is None:
                return map_children(node, argument)
            if isinstance(node, ex.Expr) and node in of_keys and not is_volatile(node):
                return self.column(node)
            return map_children(node, visit)

        made: ex.Expr = visit(expr)  # type: ignore[assignment]
        return made
