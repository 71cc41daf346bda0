"""How a `Fold` is computed: which aggregates go over the rows together, and how often.

A pass is one way through the rows of the groups. Aggregates that can merge states take the rows
where they are, part by part, and only states come together. The others want the rows of a group
together, and those with ORDER BY or DISTINCT want them in their own way: each such way is a pass.
"""

from __future__ import annotations

from dataclasses import replace

from zql.expr import expression as ex
from zql.logical import plan as lp
from zql.optimizer.facts import columns_of
from zql.physical.exchange import together

Way = tuple[object, ...]

_IN_PARTS: Way = ("in parts",)
_WHOLE: Way = ("whole",)


def narrowed(fold: lp.Fold) -> lp.Fold:
    """The fold over those columns only that it uses: in which parts states are made does not
    depend on others.
    """
    used = {name for a in fold.natives for name in columns_of(a.expr)}
    used |= {c.name for c in fold.keys}
    for aggregate in fold.aggregates:
        used |= {c.name for c in aggregate.taken}
        used |= {name for key in aggregate.order for name in columns_of(key)}
    kept = [c for c in fold.input.columns if c.name in used] or list(fold.input.columns[:1])
    if kept == list(fold.input.columns):
        return fold
    return replace(fold, input=lp.Project(fold.input, tuple(lp.Assign(c, c) for c in kept)))


def passes(fold: lp.Fold) -> list[lp.Fold]:
    """The same groups, for each way through the rows those aggregates that go it."""
    ways: dict[Way, list[lp.PythonAggregate]] = {}
    for aggregate in fold.aggregates:
        ways.setdefault(_way(aggregate), []).append(aggregate)
    if _WHOLE in ways and _IN_PARTS in ways:
        # All rows of a group come by in any case.
        del ways[_IN_PARTS]
        ways[_WHOLE] = [a for a in fold.aggregates if _way(a) in (_WHOLE, _IN_PARTS)]
    return [replace(fold, aggregates=tuple(found), natives=()) for found in ways.values()]


def _way(aggregate: lp.PythonAggregate) -> Way:
    if aggregate.distinct:
        return ("distinct", aggregate.taken, aggregate.order)
    if aggregate.order:
        return ("ordered", aggregate.order)
    kind = aggregate.function.aggregate
    return _IN_PARTS if kind is not None and kind.merges else _WHOLE


def in_parts(one: lp.Fold) -> bool:
    """Whether a pass makes states part by part."""
    return all(_way(a) == _IN_PARTS for a in one.aggregates)


def partial(one: lp.Fold) -> lp.Fold:
    """What gives the states of a pass, under the names of the results."""
    states = tuple(replace(a, column=_state(a)) for a in one.aggregates)
    return replace(one, aggregates=states, kind="PARTIAL")


def merging(one: lp.Fold) -> lp.Fold:
    """What makes results of states."""
    merged = tuple(replace(a, args=(_state(a),), keywords=(), guard=None) for a in one.aggregates)
    return replace(one, aggregates=merged, kind="MERGE")


def _state(aggregate: lp.PythonAggregate) -> ex.Column:
    return replace(aggregate.column, type="BLOB")


def grouped(
    one: lp.Fold, rows: lp.LogicalPlan, beside: tuple[ex.Column, ...] = ()
) -> lp.LogicalPlan:
    """The rows, or states, of a pass with those of each group together, and columns `beside`."""
    taken = tuple(dict.fromkeys(c for a in one.aggregates for c in a.taken))
    order = one.aggregates[0].order
    if one.kind == "AGGREGATE" and one.aggregates[0].distinct:
        by = (k.expr for k in order if isinstance(k.expr, ex.Column))
        used = dict.fromkeys((*one.keys, *taken, *by))
        rows = lp.Project(rows, tuple(lp.Assign(c, c) for c in used))
        rows = lp.DistinctOn(rows, (*one.keys, *taken), order)
    return together(rows, one.keys, (*taken, *beside), order if one.kind == "AGGREGATE" else ())


def joined(fold: lp.Fold, parts: list[lp.LogicalPlan]) -> lp.LogicalPlan:
    """The groups with the aggregates of all parts, each of which has every group once."""
    plan = parts[0]
    for number, part in enumerate(parts[1:], 1):
        own = {k: replace(k, name=f"zql key {number} {k.name}") for k in fold.keys}
        passed = tuple(lp.Assign(own.get(c, c), c) for c in part.columns)
        same = tuple(ex.Is(k, "DISTINCT", True, own[k]) for k in fold.keys)
        condition = None if not same else same[0] if len(same) == 1 else ex.Logical("AND", same)
        kind = "CROSS" if condition is None else "INNER"
        plan = lp.Join(plan, lp.Project(part, passed), kind, condition)
    return lp.Project(plan, tuple(lp.Assign(c, c) for c in fold.columns))
