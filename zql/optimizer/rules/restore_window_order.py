"""`restore_window_order`: rows keep their order through window functions.

DuckDB gives them by partition. Where something above can see the order, each row gets its place
before the windows are computed, and is put back there after. A sort, a group or a join that comes
next sees no order, and nothing is done.

This rule is no option: it is what the language says of SELECT, EXTEND, SET and WHERE.
"""

from __future__ import annotations

from dataclasses import replace

from zql.expr import expression as ex
from zql.logical import plan as lp
from zql.logical.scope import Names
from zql.optimizer.facts import outside_subqueries
from zql.tree import Node, map_children, walk

_UNORDERED_AGGREGATES = frozenset(
    {"count", "sum", "fsum", "min", "max", "avg", "favg", "bool_and", "bool_or", "median",
     "stddev", "variance", "approx_count_distinct", "count_if"}
)  # fmt: skip
_PLACE = ex.Call(("row_number",), window=ex.Window())


def restore_window_order(plan: lp.LogicalPlan) -> lp.LogicalPlan:
    """The plan with rows put back in place behind windows, where that can be seen."""
    if not any(isinstance(n, ex.Call) and n.window is not None for n in walk(plan)):
        return plan
    names = Names({n.name.casefold() for n in walk(plan) if isinstance(n, ex.Column)})
    return _restore(plan, True, names)


def _restore(plan: lp.LogicalPlan, seen: bool, names: Names) -> lp.LogicalPlan:
    """`seen`: whether the order of the plan's rows can be seen above it."""
    below = _sees_order(plan, seen)

    def visit(child: Node) -> Node:
        if isinstance(child, lp.LogicalPlan):
            return _restore(child, below, names)
        if isinstance(child, ex.Subquery):
            ordered = any(isinstance(n, lp.Limit) for n in walk(child.query))
            query: lp.LogicalPlan = child.query  # type: ignore[assignment]
            return replace(child, query=_restore(query, ordered, names))
        return map_children(child, visit)

    plan = map_children(plan, visit)
    if not seen or not isinstance(plan, lp.Project | lp.Filter) or not _mixes(plan):
        return plan
    return _put_back(plan, names)


def _sees_order(plan: lp.LogicalPlan, seen: bool) -> bool:
    """Whether an operator looks at the order of its input, or passes it on to one that does."""
    match plan:
        case lp.Sort() | lp.Distinct() | lp.Join():
            return False
        case lp.Limit() | lp.DistinctOn():
            return True
        case lp.SetOperation():
            return seen and plan.kind == "UNION" and plan.all
        case lp.Aggregate():
            calls = [n for a in plan.aggregates for n in walk(a.expr) if isinstance(n, ex.Call)]
            return any(
                c.aggregate and not c.order and c.name[-1].lower() not in _UNORDERED_AGGREGATES
                for c in calls
            )
        case lp.Project() | lp.Filter():
            return seen or any(
                isinstance(n, ex.Call) and n.window is not None and not n.window.order
                for n in _own(plan)
            )
        case _:
            return seen


def _own(plan: lp.LogicalPlan) -> list[Node]:
    roots = [a.expr for a in plan.assigns] if isinstance(plan, lp.Project) else []
    roots += [plan.predicate] if isinstance(plan, lp.Filter) else []
    return [n for root in roots for n in outside_subqueries(root)]


def _mixes(plan: lp.Project | lp.Filter) -> bool:
    """Whether its windows make DuckDB give rows in another order: row_number() OVER () does not."""
    return any(
        isinstance(n, ex.Call) and n.window is not None and not _in_place(n) for n in _own(plan)
    )


def _in_place(call: ex.Call) -> bool:
    window = call.window
    plain = window is not None and not window.partition and not window.order
    return plain and call.name[-1].lower() == "row_number"


def _put_back(plan: lp.Project | lp.Filter, names: Names) -> lp.LogicalPlan:
    columns = plan.columns
    place = names.column("place", "BIGINT")
    passed = tuple(lp.Assign(c, c) for c in plan.input.columns)
    numbered = lp.Project(plan.input, (*passed, lp.Assign(place, _PLACE)))
    wide: lp.LogicalPlan
    if isinstance(plan, lp.Project):
        wide = replace(plan, input=numbered, assigns=(*plan.assigns, lp.Assign(place, place)))
    else:
        wide = replace(plan, input=numbered)
    ordered = lp.Sort(wide, (ex.SortKey(place),))
    return lp.Project(ordered, tuple(lp.Assign(c, c) for c in columns))
