"""`prune_columns`: every operator makes and reads the columns that are used above it, no others.

Python calls whose result nobody uses are not made, unless they are volatile; a function of a record
gets the keys that it looks at, when its source shows them all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from zql.expr import expression as ex
from zql.logical import plan as lp
from zql.optimizer.facts import columns_of, free_columns, is_volatile
from zql.tree import Node, map_children, walk

Wanted = frozenset[str]


def prune_columns(plan: lp.LogicalPlan) -> lp.LogicalPlan:
    """The plan without columns that have no use."""
    return _prune(plan, frozenset(c.name for c in plan.columns))


def _prune(  # noqa: C901, PLR0912 - one case for each operator
    plan: lp.LogicalPlan, wanted: Wanted
) -> lp.LogicalPlan:
    match plan:
        case lp.Scan():
            return _scan(plan, wanted)
        case lp.MemoryScan():
            return _memory_scan(plan, wanted)
        case lp.Project():
            return _project(plan, wanted)
        case lp.Apply():
            return _apply(plan, wanted)
        case lp.MapRows() | lp.Reduce():
            return _of_records(plan, wanted)
        case lp.Filter():
            return _with_input(plan, wanted | columns_of(plan.predicate))
        case lp.Sort():
            return _with_input(plan, wanted | _used(plan.keys))
        case lp.DistinctOn():
            return _with_input(plan, wanted | _used(plan.on) | _used(plan.order))
        case lp.Unnest():
            return _with_input(plan, wanted | columns_of(plan.list))
        case lp.Check():
            return _with_input(plan, wanted | _used((plan.condition, *plan.payload)))
        case lp.Limit():
            return _with_input(plan, wanted)
        case lp.Aggregate():
            return _aggregate(plan, wanted)
        case lp.Fold():
            return _fold(plan, wanted)
        case lp.Join():
            return _join(plan, wanted)
        case lp.Lateral():
            return _lateral(plan, wanted)
        case lp.SetOperation():
            return _set_operation(plan, wanted)
        case lp.RecursiveUnion():
            return _recursive_union(plan)
        case lp.Finish(counter=counter) if counter:
            return _with_input(plan, frozenset())
        case lp.Distinct() | lp.Write() | lp.Query() | lp.Finish() | lp.Store() | lp.Common():
            return _with_input(plan, frozenset(c.name for c in plan.input.columns))
        case lp.CommonRows():
            kept = tuple(c for c in plan.columns if c.name in wanted) or plan.columns[:1]
            return plan if kept == plan.columns else replace(plan, columns=kept)
        case lp.Program():
            return _program(plan)
        case lp.Shared() | lp.SharedRows():
            return plan  # of stages, where nothing is pruned any more
        case (
            lp.Values()
            | lp.TableFunction()
            | lp.DuckdbQuery()
            | lp.StageResult()
            | lp.BatchInput()
            | lp.RoundRows()
            | lp.Rejects()
        ):
            return plan


def _program(plan: lp.Program) -> lp.Program:
    """What is computed once has the columns that any of its readers uses."""
    outputs = tuple(_prune(output, frozenset()) for output in plan.outputs)
    readers: list[lp.LogicalPlan] = list(outputs)
    commons: list[lp.Common] = []
    for common in reversed(plan.commons):
        used = {
            column.name
            for reader in readers
            for node in walk(reader)
            if isinstance(node, lp.CommonRows) and node.number == common.number
            for column in node.columns
        }
        columns = [c for c in common.columns if c.name in used] or list(common.columns[:1])
        commons.insert(0, replace(common, input=_branch(common.input, columns)))
        readers.append(commons[0])
    return lp.Program(tuple(commons), outputs)  # type: ignore[arg-type]


def _used(nodes: Iterable[Node]) -> Wanted:
    return frozenset(name for node in nodes for name in columns_of(node))


def _with_input(plan: lp.LogicalPlan, wanted: Wanted) -> lp.LogicalPlan:
    """The same operator over a pruned input; subqueries in its expressions pruned by themselves."""
    before = plan.input  # type: ignore[union-attr]
    inner = _prune(before, wanted)
    plan = _subqueries(plan)
    return plan if inner is before else lp.with_input(plan, inner)


def _subqueries(node: lp.LogicalPlan) -> lp.LogicalPlan:
    """Prunes the plans of subqueries that stand in the operator's own expressions."""

    def visit(child: Node) -> Node:
        if isinstance(child, lp.LogicalPlan):
            return child
        if isinstance(child, ex.Subquery):
            plan: lp.LogicalPlan = child.query  # type: ignore[assignment]
            # EXISTS looks at rows only.
            names = [] if child.kind == "EXISTS" else [c.name for c in plan.columns]
            return map_children(replace(child, query=_prune(plan, frozenset(names))), visit)
        return map_children(child, visit)

    return map_children(node, visit)


def _scan(plan: lp.Scan, wanted: Wanted) -> lp.Scan:
    kept = tuple(c for c in plan.columns_read if c.column.name in wanted)
    kept = kept or plan.columns_read[:1]
    return plan if kept == plan.columns_read else replace(plan, columns_read=kept)


def _memory_scan(plan: lp.MemoryScan, wanted: Wanted) -> lp.MemoryScan:
    pairs = [p for p in zip(plan.columns, plan.sources, strict=True) if p[0].name in wanted]
    pairs = pairs or list(zip(plan.columns, plan.sources, strict=True))[:1]
    if len(pairs) == len(plan.columns):
        return plan
    return replace(plan, columns=tuple(c for c, _ in pairs), sources=tuple(s for _, s in pairs))


def _project(plan: lp.Project, wanted: Wanted) -> lp.LogicalPlan:
    kept = tuple(a for a in plan.assigns if a.column.name in wanted or _keeps_calls(a.expr))
    kept = kept or plan.assigns[:1]
    pruned = plan if kept == plan.assigns else replace(plan, assigns=kept)
    return _with_input(pruned, _used(a.expr for a in kept))


def _keeps_calls(expr: ex.Expr) -> bool:
    """A volatile Python call is made even when nobody looks at its result."""
    return is_volatile(expr) and any(isinstance(n, ex.PythonCall) for n in walk(expr))


def _apply(plan: lp.Apply, wanted: Wanted) -> lp.LogicalPlan:
    kept = tuple(c for c in plan.calls if c.column.name in wanted or c.on_every_row)
    if not kept:
        return _prune(plan.input, wanted)
    pruned = plan if kept == plan.calls else replace(plan, calls=kept)
    made = {c.name for call in kept for c in call.columns}
    return _with_input(pruned, (wanted - made) | _used(kept))


def _of_records(plan: lp.MapRows | lp.Reduce, wanted: Wanted) -> lp.LogicalPlan:
    record = plan.record
    if plan.reads is not None:
        # An empty record would be no record: the function is still handed a dict.
        record = tuple((n, c) for n, c in record if n in plan.reads) or record[:1]
    pruned = plan if record == plan.record else replace(plan, record=record)
    used = frozenset(c.name for _, c in record) | _used(v for _, v in plan.keywords)
    used |= _used(plan.args)
    if pruned.on_error is not None:
        used |= frozenset(c.name for c in pruned.on_error.kept)
    if isinstance(pruned, lp.Reduce):
        return _with_input(pruned, used | _used((*pruned.keys, *pruned.order)))
    carried = tuple(c for c in pruned.carried if c.name in wanted)
    if carried != pruned.carried:
        pruned = replace(pruned, carried=carried)
    return _with_input(pruned, used | _used(carried))


def _aggregate(plan: lp.Aggregate, wanted: Wanted) -> lp.LogicalPlan:
    kept = tuple(a for a in plan.aggregates if a.column.name in wanted)
    if not kept and not plan.keys:
        kept = plan.aggregates[:1]
    pruned = plan if kept == plan.aggregates else replace(plan, aggregates=kept)
    return _with_input(pruned, _used(a.expr for a in plan.keys + kept))


def _fold(plan: lp.Fold, wanted: Wanted) -> lp.LogicalPlan:
    """Aggregates that nobody uses are not made, but for volatile ones; the groups stay."""
    natives = tuple(a for a in plan.natives if a.column.name in wanted)
    kept = tuple(a for a in plan.aggregates if a.column.name in wanted or a.function.volatile)
    if not kept and (natives or plan.keys):
        keys = tuple(lp.Assign(k, k) for k in plan.keys)
        return _aggregate(lp.Aggregate(plan.input, keys, natives), wanted)
    kept = kept or plan.aggregates[:1]
    pruned = plan
    if (kept, natives) != (plan.aggregates, plan.natives):
        pruned = replace(plan, aggregates=kept, natives=natives)
    used = frozenset(c.name for a in kept for c in a.taken) | _used(
        k for a in kept for k in a.order
    )
    return _with_input(pruned, used | _used((*plan.keys, *(a.expr for a in natives))))


def _join(plan: lp.Join, wanted: Wanted) -> lp.LogicalPlan:
    if plan.condition is not None:
        wanted |= columns_of(plan.condition)
    left, right = _prune(plan.left, wanted), _prune(plan.right, wanted)
    plan = _subqueries(plan)  # type: ignore[assignment]
    if left is plan.left and right is plan.right:
        return plan
    return replace(plan, left=left, right=right)


def _lateral(plan: lp.Lateral, wanted: Wanted) -> lp.LogicalPlan:
    """The right side looks at columns of the left one, which nothing above it may use."""
    if plan.condition is not None:
        wanted |= columns_of(plan.condition)
    right = _prune(plan.right, wanted)
    left = _prune(plan.left, wanted | free_columns(right))
    plan = _subqueries(plan)  # type: ignore[assignment]
    if left is plan.left and right is plan.right:
        return plan
    return replace(plan, left=left, right=right)


def _recursive_union(plan: lp.RecursiveUnion) -> lp.LogicalPlan:
    """Each round makes all the columns: the next one may look at them."""
    given = _branch(plan.input, list(plan.input.columns))
    step = _branch(plan.step, list(plan.step.columns))
    if given is plan.input and step is plan.step:
        return plan
    return replace(plan, input=given, step=step)


def _set_operation(plan: lp.SetOperation, wanted: Wanted) -> lp.LogicalPlan:
    """UNION ALL can do with fewer columns; the others compare whole rows."""
    places = list(range(len(plan.columns)))
    if plan.kind == "UNION" and plan.all:
        places = [i for i in places if plan.columns[i].name in wanted] or [0]
    inputs = tuple(_branch(i, [i.columns[p] for p in places]) for i in plan.inputs)
    if len(places) == len(plan.columns) and all(
        a is b for a, b in zip(inputs, plan.inputs, strict=True)
    ):
        return plan
    return replace(plan, inputs=inputs, columns=tuple(plan.columns[p] for p in places))


def _branch(branch: lp.LogicalPlan, columns: list[ex.Column]) -> lp.LogicalPlan:
    pruned = _prune(branch, frozenset(c.name for c in columns))
    if list(pruned.columns) == columns:
        return pruned
    return lp.Project(pruned, tuple(lp.Assign(c, c) for c in columns))
