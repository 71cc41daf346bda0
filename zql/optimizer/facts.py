"""What a rule may ask of an expression before it moves it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from zql.expr import expression as ex
from zql.expr.functions import ErrorPolicy
from zql.logical.plan import LogicalPlan
from zql.logical.scope import Names
from zql.tree import Node, children, map_children, walk

_NEVER_FAIL = frozenset(
    [
        "lower",
        "upper",
        "length",
        "len",
        "trim",
        "ltrim",
        "rtrim",
        "contains",
        "starts_with",
        "ends_with",
        "prefix",
        "suffix",
        "coalesce",
        "md5",
        "sha256",
        "hash",
        "reverse",
        "strlen",
        "array_length",
        "list_contains",
        "concat",
        "isnan",
        "isinf",
        "isfinite",
    ]
)
_COMPARISONS = frozenset({"=", "==", "<>", "!=", "<", "<=", ">", ">=", "||"})


def columns_of(node: Node) -> frozenset[str]:
    """Names of all columns that an expression (with its subqueries) refers to."""
    return frozenset(n.name for n in walk(node) if isinstance(n, ex.Column))


def output_names(plan: LogicalPlan) -> frozenset[str]:
    """Names of a plan's columns."""
    return frozenset(c.name for c in plan.columns)


def is_volatile(node: Node) -> bool:
    """Whether evaluating it twice may give two answers, or is seen from outside."""
    return any(
        (isinstance(n, ex.Call) and n.volatile)
        or (isinstance(n, ex.PythonCall) and getattr(n.function, "volatile", False))
        for n in walk(node)
    )


def calls_python(node: Node) -> bool:
    """Whether it holds a Python call, its subqueries aside."""
    return any(isinstance(n, ex.PythonCall) for n in outside_subqueries(node))


def outside_subqueries(node: Node) -> list[Node]:
    """The nodes of an expression without those inside its subqueries' plans."""
    found, todo = [], [node]
    while todo:
        current = todo.pop()
        found.append(current)
        if isinstance(current, ex.Subquery):
            todo += [current.operand] if current.operand is not None else []
        else:
            todo += list(children(current))
    return found


def has_window(node: Node) -> bool:
    """Whether it holds a window function, whose value depends on other rows."""
    return any(isinstance(n, ex.Call) and n.window is not None for n in outside_subqueries(node))


def has_subquery(node: Node) -> bool:
    """Whether it holds a subquery."""
    return any(isinstance(n, ex.Subquery) for n in walk(node))


def free_columns(query: Node) -> frozenset[str]:
    """Columns that a subquery takes from outside."""
    made = {c.name for n in walk(query) if isinstance(n, LogicalPlan) for c in n.columns}
    made |= {c.name for n in walk(query) if isinstance(n, ErrorPolicy) for c in n.facts}
    return frozenset(n.name for n in walk(query) if isinstance(n, ex.Column) and n.name not in made)


def may_fail(node: Node) -> bool:
    """Whether evaluating it can raise (casts, arithmetic, functions): when in doubt, yes."""
    return any(_fails(n) for n in walk(node))


def _fails(node: Node) -> bool:
    match node:
        case ex.Call():
            return node.name[-1].lower() not in _NEVER_FAIL
        case ex.Binary():
            return node.op not in _COMPARISONS
        case ex.Cast():
            return not node.safe
        case ex.Unary():
            return node.op != "NOT"
        case ex.Literal():
            return bool(node.type)
        case (
            ex.Column()
            | ex.SharedObject()
            | ex.TaskContext()
            | ex.Logical()
            | ex.Is()
            | ex.Like()
            | ex.Between()
            | ex.In()
            | ex.Case()
            | ex.Try()
            | ex.Array()
            | ex.Struct()
            | ex.FieldAccess()
            | ex.Index()
        ):
            return False
        case ex.Expr():
            return True
        case _:
            return False


def conjuncts(predicate: ex.Expr) -> tuple[ex.Expr, ...]:
    """The operands of an AND, else the predicate itself."""
    if isinstance(predicate, ex.Logical) and predicate.op == "AND":
        return tuple(part for operand in predicate.operands for part in conjuncts(operand))
    return (predicate,)


def conjunction(parts: tuple[ex.Expr, ...]) -> ex.Expr:
    """One or more predicates joined by AND."""
    return parts[0] if len(parts) == 1 else ex.Logical("AND", parts, span=parts[0].span)


def substituted(expr: ex.Expr, values: Mapping[str, ex.Expr]) -> ex.Expr:
    """The expression with columns replaced by what they stand for."""

    def swap(node: Node) -> Node:
        return values.get(node.name, node) if isinstance(node, ex.Column) else node

    return _map_columns(expr, swap)


def _map_columns(expr: ex.Expr, swap: Callable[[Node], Node]) -> ex.Expr:
    if isinstance(expr, ex.Column):
        return swap(expr)  # type: ignore[return-value]
    return map_children(expr, lambda child: _map_columns(child, swap))


def unused_names(plan: LogicalPlan) -> Names:
    """Names for new columns, which no column of the plan has."""
    return Names({n.name.casefold() for n in walk(plan) if isinstance(n, ex.Column)})
