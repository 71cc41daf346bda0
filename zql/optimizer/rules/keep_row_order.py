"""`keep_row_order`: what keeps the order of rows, or looks at it, does so with all threads.

DuckDB gives rows by partition behind a window function, in any order behind IN and EXISTS, and
collects `list` and `first` from several threads. Where the order can be seen, each row gets its
place in the input before such an operator; the rows are put back there, or the window or aggregate
is told to go by it. A sort, a group or a join that comes next sees no order: nothing is done then.

This rule is no option: it is what the language says of these operators.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from zql.expr import expression as ex
from zql.logical import plan as lp
from zql.logical.row_places import numbered, told_by_reader
from zql.logical.scope import Names
from zql.optimizer.facts import outside_subqueries, unused_names
from zql.tree import Node, map_children, walk

_ORDERED_AGGREGATES = frozenset(
    {"first", "last", "list", "array_agg", "string_agg", "group_concat", "listagg"}
)
_ORDERED_WINDOWS = frozenset({"row_number", "ntile", "lag", "lead"})
_FRAMED_WINDOWS = frozenset({"first_value", "last_value", "nth_value", *_ORDERED_AGGREGATES})
_WHOLE = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"


def keep_row_order(plan: lp.LogicalPlan) -> lp.LogicalPlan:
    """The plan with places of rows where something would lose their order, or must see it."""
    if not any(_concerns(n) for n in walk(plan)):
        return plan
    names = unused_names(plan)
    return _Rule(names).visit(plan, True)


def _concerns(node: Node) -> bool:
    if isinstance(node, ex.Call):
        return node.window is not None or _is_ordered_aggregate(node)
    return isinstance(node, ex.Subquery | lp.DistinctOn)


class _Rule:
    def __init__(self, names: Names) -> None:
        self.names = names

    def visit(self, plan: lp.LogicalPlan, seen: bool) -> lp.LogicalPlan:
        """`seen`: whether the order of the plan's rows can be seen above it."""
        below = sees_order(plan, seen)

        def child(node: Node) -> Node:
            if isinstance(node, lp.LogicalPlan):
                return self.visit(node, below)
            if isinstance(node, ex.Subquery):
                return map_children(replace(node, query=self.subquery(node)), child_of_expr)
            return map_children(node, child)

        def child_of_expr(node: Node) -> Node:
            return node if isinstance(node, lp.LogicalPlan) else child(node)

        plan = map_children(plan, child)
        match plan:
            case lp.Aggregate() | lp.Fold() if any(_is_ordered_aggregate(n) for n in _own(plan)):
                return self.aggregate(plan)
            case lp.Project() | lp.Filter():
                restore = seen and any(_mixes(n) for n in _own(plan))
                if restore or any(_goes_by_place(n) for n in _own(plan)):
                    return self.placed(plan, restore)
            case lp.DistinctOn(place=None):
                return self.distinct_on(plan, seen)
            case _:
                pass
        return plan

    def subquery(self, node: ex.Subquery) -> lp.LogicalPlan:
        query: lp.LogicalPlan = node.query  # type: ignore[assignment]
        return self.visit(query, any(isinstance(n, lp.Limit) for n in walk(query)))

    def numbered(self, plan: lp.LogicalPlan) -> tuple[lp.LogicalPlan, ex.Column]:
        """The plan with a column more: the place of each row."""
        place = self.names.column("place", "BIGINT")
        return numbered(plan, place), place

    def aggregate(self, plan: lp.Aggregate | lp.Fold) -> lp.LogicalPlan:
        inner, place = self.numbered(plan.input)

        def ordered(call: ex.Call) -> ex.Call:
            order = (ex.SortKey(place),)
            return replace(call, order=order) if _is_ordered_aggregate(call) else call

        natives = plan.natives if isinstance(plan, lp.Fold) else plan.aggregates
        made = tuple(replace(a, expr=_with_calls(a.expr, ordered)) for a in natives)
        if isinstance(plan, lp.Fold):
            return replace(plan, input=inner, natives=made)
        return replace(plan, input=inner, aggregates=made)

    def distinct_on(self, plan: lp.DistinctOn, seen: bool) -> lp.LogicalPlan:
        """By the places that the reader tells, where one can: with all threads."""
        place = ex.Column("place", "BIGINT")
        if told_by_reader(plan.input, place) is None:
            return plan
        inner, place = self.numbered(plan.input)
        firsts: lp.LogicalPlan = replace(plan, input=inner, place=place)
        firsts = lp.Sort(firsts, (ex.SortKey(place),)) if seen else firsts
        return lp.Project(firsts, tuple(lp.Assign(c, c) for c in plan.columns))

    def placed(self, plan: lp.Project | lp.Filter, restore: bool) -> lp.LogicalPlan:
        columns = plan.columns
        inner, place = self.numbered(plan.input)

        def by_place(call: ex.Call) -> ex.Call:
            return _window_by(call, place) if _goes_by_place(call) else call

        wide: lp.LogicalPlan
        if isinstance(plan, lp.Project):
            made = tuple(replace(a, expr=_with_calls(a.expr, by_place)) for a in plan.assigns)
            kept = (lp.Assign(place, place),) if restore else ()
            wide = lp.Project(inner, made + kept)
        else:
            wide = lp.Filter(inner, _with_calls(plan.predicate, by_place))
        if restore:
            wide = lp.Sort(wide, (ex.SortKey(place),))
        return lp.Project(wide, tuple(lp.Assign(c, c) for c in columns))


def sees_order(plan: lp.LogicalPlan, seen: bool) -> bool:
    """Whether an operator looks at the order of its input, or passes it on to one that does."""
    match plan:
        case lp.Sort() | lp.Distinct() | lp.Join() | lp.Lateral() | lp.RecursiveUnion():
            return False
        case lp.Limit() | lp.DistinctOn() | lp.Reduce() | lp.Fold() | lp.Write() | lp.Query():
            return True
        case lp.MapRows(is_of_many=True):
            return True
        case lp.SetOperation():
            return seen and plan.kind == "UNION" and plan.all
        case lp.Aggregate():
            return any(
                _is_ordered_aggregate(n) or isinstance(n, ex.PythonAggregateCall)
                for n in _own(plan)
            )
        case lp.Project() | lp.Filter():
            return seen or any(_goes_by_place(n) or _is_place(n) for n in _own(plan))
        case _:
            return seen


def _own(plan: lp.LogicalPlan) -> list[Node]:
    """The nodes of the operator's expressions, without the plans of subqueries."""
    match plan:
        case lp.Project():
            roots = [a.expr for a in plan.assigns]
        case lp.Filter():
            roots = [plan.predicate]
        case lp.Aggregate():
            roots = [a.expr for a in plan.aggregates]
        case lp.Fold():
            roots = [a.expr for a in plan.natives]
        case _:
            roots = []
    return [n for root in roots for n in outside_subqueries(root)]


def _is_ordered_aggregate(node: Node) -> bool:
    """Whether it collects rows in their order and names no other."""
    return (
        isinstance(node, ex.Call)
        and node.aggregate
        and node.window is None
        and not node.order
        and not node.distinct
        and node.name[-1].lower() in _ORDERED_AGGREGATES
    )


def _mixes(node: Node) -> bool:
    """Whether it makes DuckDB give rows in another order: row_number() OVER () does not."""
    if isinstance(node, ex.Subquery):
        return True
    if not isinstance(node, ex.Call) or node.window is None:
        return False
    return not _is_place(node)


def _is_place(node: Node) -> bool:
    """Whether it is `row_number() OVER ()`, which DuckDB makes of the rows as they come."""
    if not isinstance(node, ex.Call) or node.window is None:
        return False
    plain = not node.window.partition and not node.window.order
    return plain and node.name[-1].lower() == "row_number"


def _goes_by_place(node: Node) -> bool:
    """Whether it is a window without ORDER BY whose value depends on the order of the rows."""
    if not isinstance(node, ex.Call) or node.window is None or node.window.order:
        return False
    if _is_place(node):
        return False
    name = node.name[-1].lower()
    return name in _ORDERED_WINDOWS or name in _FRAMED_WINDOWS


def _window_by(call: ex.Call, place: ex.Column) -> ex.Call:
    """The window over rows in their places; what it saw, the whole partition, it still sees."""
    window = call.window or ex.Window()
    frame = window.frame
    if not frame and call.name[-1].lower() in _FRAMED_WINDOWS:
        frame = _WHOLE
    return replace(call, window=replace(window, order=(ex.SortKey(place),), frame=frame))


def _with_calls(expr: ex.Expr, change: Callable[[ex.Call], ex.Call]) -> ex.Expr:
    """The expression with its calls changed, those in plans of subqueries aside."""

    def visit(node: Node) -> Node:
        if isinstance(node, lp.LogicalPlan):
            return node
        node = map_children(node, visit)
        return change(node) if isinstance(node, ex.Call) else node

    changed = visit(expr)
    return changed if isinstance(changed, ex.Expr) else expr
