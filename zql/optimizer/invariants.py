"""What every rule must keep: the columns that come out, and that each column has a source."""

from __future__ import annotations

from zql.errors import InternalError
from zql.expr import expression as ex
from zql.logical import plan as lp
from zql.tree import Node, children, walk


def check(before: lp.LogicalPlan, after: lp.LogicalPlan, rule: str) -> None:
    """Raises `InternalError`, naming the rule, when it broke the plan."""
    if before.columns != after.columns:
        raise InternalError(f"the rule {rule} changed the columns of the plan")
    check_columns(after, rule)


def check_columns(plan: lp.LogicalPlan, rule: str, outer: frozenset[str] = frozenset()) -> None:
    """Every column that an operator uses must come from its inputs, or from an outer query."""
    inputs = [c for c in children(plan) if isinstance(c, lp.LogicalPlan)]
    known = outer.union(*(frozenset(c.name for c in i.columns) for i in inputs))
    for used in [node for root in _roots(plan) for node in _below(root)]:
        if isinstance(used, ex.Column) and inputs and used.name not in known:
            raise InternalError(
                f"the rule {rule} lost the column {used.name} below {type(plan).__name__}"
            )
        if isinstance(used, ex.Subquery):
            check_columns(used.query, rule, known)  # type: ignore[arg-type]
    for below in inputs:
        lateral = isinstance(plan, lp.Lateral) and below is plan.right
        check_columns(below, rule, known if lateral else outer)


def _below(root: Node) -> list[Node]:
    found: list[Node] = []
    todo = [root]
    while todo:
        node = todo.pop()
        found.append(node)
        todo += [c for c in children(node) if not isinstance(c, lp.LogicalPlan)]
    return found


def _roots(plan: lp.LogicalPlan) -> list[Node]:
    """The operator's expressions; the columns that it defines are none of them."""
    match plan:
        case lp.Project():
            roots: list[Node] = [a.expr for a in plan.assigns]
        case lp.Aggregate():
            roots = [a.expr for a in plan.keys + plan.aggregates]
        case lp.Apply():
            roots = [e for c in plan.calls for e in (*c.args, *(v for _, v in c.keywords))]
            roots += [c.guard for c in plan.calls if c.guard is not None]
            roots += [r for c in plan.calls if c.on_error for r in c.on_error.kept]
        case lp.MapRows():
            roots = [*(c for _, c in plan.record), *plan.carried, *plan.args]
            roots += [v for _, v in plan.keywords]
            roots += plan.on_error.kept if plan.on_error else ()
        case lp.Reduce():
            roots = [*plan.keys, *(c for _, c in plan.record), *plan.args, *plan.order]
            roots += plan.on_error.kept if plan.on_error else ()
        case lp.Fold():
            roots = [*plan.keys, *(a.expr for a in plan.natives)]
            roots += [c for a in plan.aggregates for c in (*a.taken, *a.order)]
        case lp.SetOperation() | lp.RecursiveUnion():
            roots = []
        case lp.Unnest():
            roots = [plan.list]
        case _:
            roots = [c for c in children(plan) if not isinstance(c, lp.LogicalPlan)]
    return roots


def has_python_calls(plan: lp.LogicalPlan) -> bool:
    """Whether a Python call still stands in an expression."""
    return any(isinstance(n, ex.PythonCall) for n in walk(plan))
