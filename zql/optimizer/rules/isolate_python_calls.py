"""`isolate_python_calls`: Python calls leave expressions and become `Apply`; the rest stays SQL.

`WHERE lang = 'en' AND q.score(text) > 0.5` becomes a filter in SQL, an `Apply` of `q.score`, and a
filter on its result. A call that stands in a branch of CASE, behind AND or OR, or in coalesce, is
made only for the rows for which SQL would evaluate it (`guard`). Equal calls are made once, also by
operators that follow each other, unless the function is volatile.

This rule is no option: DuckDB cannot run what it does not isolate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from zql.errors import BindError
from zql.expr import expression as ex
from zql.expr.functions import ErrorPolicy
from zql.logical import plan as lp
from zql.logical.carry_columns import carry_columns
from zql.logical.scope import Names
from zql.optimizer.facts import (
    calls_python,
    columns_of,
    conjunction,
    conjuncts,
    has_window,
    may_fail,
    output_names,
    outside_subqueries,
    unused_names,
)
from zql.tree import Node, children, map_children, rewrite_up, walk


def isolate_python_calls(plan: lp.LogicalPlan) -> lp.LogicalPlan:
    """The plan without `PythonCall`s. Raises `BindError` for a call that has no place."""
    if not any(isinstance(n, ex.PythonCall) for n in walk(plan)):
        return plan
    names = unused_names(plan)
    isolated: lp.LogicalPlan = rewrite_up(plan, lambda node: _isolate(node, names))
    return isolated


def _isolate(node: Node, names: Names) -> Node:
    if isinstance(node, ex.Expr) or not any(_own_calls(node)):
        return node
    match node:
        case lp.Filter():
            return _filter(node, names)
        case lp.Project():
            inner, exprs = extract(node.input, tuple(a.expr for a in node.assigns), names)
            assigns = tuple(replace(a, expr=e) for a, e in zip(node.assigns, exprs, strict=True))
            return replace(node, input=inner, assigns=assigns)
        case lp.Aggregate():
            return _aggregate(node, names)
        case lp.Sort():
            inner, exprs = extract(node.input, tuple(k.expr for k in node.keys), names)
            keys = tuple(replace(k, expr=e) for k, e in zip(node.keys, exprs, strict=True))
            return _only(lp.Sort(inner, keys), node.columns)
        case lp.DistinctOn():
            exprs = node.on + tuple(k.expr for k in node.order)
            inner, exprs = extract(node.input, exprs, names)
            on, order = exprs[: len(node.on)], exprs[len(node.on) :]
            keys = tuple(replace(k, expr=e) for k, e in zip(node.order, order, strict=True))
            return _only(lp.DistinctOn(inner, on, keys), node.columns)
        case lp.Unnest():
            inner, (items,) = extract(node.input, (node.list,), names)
            return _only(replace(node, input=inner, list=items), node.columns)
        case lp.MapRows():
            return _map_rows(node, names)
        case lp.Join():
            return _join(node, names)
        case _:
            return node


def _own_calls(node: Node) -> Iterator[ex.PythonCall]:
    """Python calls in a plan node's own expressions (its inputs are done already)."""
    todo: list[object] = [getattr(node, name) for name in node.__dataclass_fields__]  # type: ignore[attr-defined]
    while todo:
        value = todo.pop()
        if isinstance(value, tuple):
            todo.extend(value)
        elif isinstance(value, ex.PythonCall):
            yield value
        elif isinstance(value, ex.Subquery):
            todo.append(value.operand)
        elif isinstance(value, Node) and not isinstance(value, lp.LogicalPlan):
            todo.extend(getattr(value, name) for name in value.__dataclass_fields__)  # type: ignore[attr-defined]


def _only(plan: lp.LogicalPlan, columns: tuple[ex.Column, ...]) -> lp.LogicalPlan:
    if plan.columns == columns:
        return plan
    return lp.Project(plan, tuple(lp.Assign(c, c) for c in columns))


def _filter(node: lp.Filter, names: Names) -> lp.LogicalPlan:
    """Cheap native conditions first, then one Python condition after the other.

    A native condition that can fail keeps its place behind the Python ones before it: they may be
    what guards it.
    """
    parts = conjuncts(node.predicate)
    if has_window(node.predicate):
        parts = (node.predicate,)  # its rows are those that come here, none filtered before
    first = next(i for i, p in enumerate(parts) if calls_python(p))
    early = tuple(
        p for i, p in enumerate(parts) if not calls_python(p) and (i < first or not may_fail(p))
    )
    plan: lp.LogicalPlan = lp.Filter(node.input, conjunction(early)) if early else node.input
    for part in parts:
        if part not in early:
            plan, (predicate,) = extract(plan, (part,), names)
            plan = lp.Filter(plan, predicate)
    return _only(plan, node.columns)


def _aggregate(node: lp.Aggregate, names: Names) -> lp.LogicalPlan:
    """Calls inside aggregates and keys go below; calls over aggregates go above."""
    above: list[lp.Assign] = []
    aggregates: list[lp.Assign] = []
    for assign in node.aggregates:
        found: list[lp.Assign] = []
        expr = _pull_aggregates(assign.expr, found, names)
        if found:
            aggregates += found
            above.append(lp.Assign(assign.column, expr))
        else:
            aggregates.append(assign)
            above.append(lp.Assign(assign.column, assign.column))
    exprs = tuple(a.expr for a in node.keys) + tuple(a.expr for a in aggregates)
    inner, exprs = extract(node.input, exprs, names)
    count = len(node.keys)
    keys = tuple(replace(a, expr=e) for a, e in zip(node.keys, exprs[:count], strict=True))
    rest = tuple(replace(a, expr=e) for a, e in zip(aggregates, exprs[count:], strict=True))
    plan: lp.LogicalPlan = replace(node, input=inner, keys=keys, aggregates=rest)
    if any(not isinstance(a.expr, ex.Column) for a in above):
        plan, values = extract(plan, tuple(a.expr for a in above), names)
        passed = tuple(lp.Assign(k.column, k.column) for k in node.keys)
        made = tuple(replace(a, expr=e) for a, e in zip(above, values, strict=True))
        plan = lp.Project(plan, passed + made)
    return plan


def _pull_aggregates(expr: ex.Expr, found: list[lp.Assign], names: Names) -> ex.Expr:
    """When Python is called over aggregates: those become columns, and the rest comes back.

    The binder has given each of them a CAST to its type.
    """
    over = any(
        isinstance(n, ex.PythonCall) and any(_is_aggregate(m) for m in walk(n)) for n in walk(expr)
    )
    if not over:
        return expr

    def pull(node: Node) -> Node:
        if isinstance(node, ex.Cast) and _is_aggregate(node.operand):
            column = names.column("aggregate", node.type)
            found.append(lp.Assign(column, node))
            return column
        return map_children(node, pull)

    return pull(expr)  # type: ignore[return-value]


def _is_aggregate(node: Node) -> bool:
    return isinstance(node, ex.Call) and node.aggregate and node.window is None


def _map_rows(node: lp.MapRows, names: Names) -> lp.LogicalPlan:
    exprs = node.args + tuple(v for _, v in node.keywords)
    inner, exprs = extract(node.input, exprs, names)
    keywords = tuple(
        (k, e) for (k, _), e in zip(node.keywords, exprs[len(node.args) :], strict=True)
    )
    return replace(node, input=inner, args=exprs[: len(node.args)], keywords=keywords)


def _join(node: lp.Join, names: Names) -> lp.LogicalPlan:
    """Calls over one side are made on that side; over both, only an inner join can filter later."""
    if node.condition is None:
        return node
    left, right, kept, later = node.left, node.right, [], []
    for part in conjuncts(node.condition):
        if not calls_python(part):
            kept.append(part)
            continue
        sides = {s for call in _own_calls(lp.Filter(node.left, part)) for s in _sides(call, node)}
        if sides <= {"left"}:
            left, (part,) = extract(left, (part,), names)  # noqa: PLW2901
            kept.append(part)
        elif sides <= {"right"}:
            right, (part,) = extract(right, (part,), names)  # noqa: PLW2901
            kept.append(part)
        elif node.kind in ("INNER", "CROSS"):
            later.append(part)
        else:
            raise BindError(
                f"a Python function over both sides of a {node.kind} JOIN",
                code="P407",
                span=part.span,
                hint="call it on each side with |> EXTEND before the JOIN",
            )
    condition = conjunction(tuple(kept)) if kept else None
    kind = node.kind if condition is not None else "CROSS"
    plan: lp.LogicalPlan = replace(node, left=left, right=right, kind=kind, condition=condition)
    if later:
        plan, exprs = extract(plan, tuple(later), names)
        plan = lp.Filter(plan, conjunction(exprs))
    return _only(plan, node.columns)


def _sides(call: ex.PythonCall, join: lp.Join) -> set[str]:
    used = columns_of(call)
    sides = {"left"} if used & output_names(join.left) else set()
    return sides | ({"right"} if used & output_names(join.right) else set())


def extract(
    plan: lp.LogicalPlan, exprs: tuple[ex.Expr, ...], names: Names
) -> tuple[lp.LogicalPlan, tuple[ex.Expr, ...]]:
    """A plan that has the calls' results as columns, and the expressions over those."""
    exprs = tuple(_tried(e, False) for e in exprs)
    flags: dict[str, frozenset[ex.Column]] = {}
    flagged = any(_needs_flag(e) for e in exprs)
    while any(calls_python(e) for e in exprs):
        found: dict[tuple[ex.PythonCall, int], ex.Expr | None] = {}
        for expr in exprs:
            for call, guard in _innermost(expr, None):
                _check_variables(call)
                key = (call, id(call) if getattr(call.function, "volatile", False) else 0)
                found[key] = _either(found[key], guard) if key in found else guard
        if flagged:
            found = {key: _unless_failed(key[0], g, flags) for key, g in found.items()}
        plan, swap = _reused(plan, list(found))
        found = {key: guard for key, guard in found.items() if key not in swap}
        plan, made = _apply(plan, list(found.items()), names, flagged) if found else (plan, [])
        for (call, _), column in zip(found, made, strict=True):
            behind = _flags_behind((call, column.guard), flags)
            flags[column.column.name] = behind | ({column.failed} if column.failed else set())
        swap |= {key: column.column for key, column in zip(found, made, strict=True)}
        exprs = tuple(_swapped(e, swap) for e in exprs)
    return plan, tuple(_null_if_failed(e, flags) for e in exprs)


def _reused(
    plan: lp.LogicalPlan, keys: Iterable[tuple[ex.PythonCall, int]]
) -> tuple[lp.LogicalPlan, dict[tuple[ex.PythonCall, int], ex.Column]]:
    """Calls that an operator below has made for these very rows: the plan keeps their results."""
    swap: dict[tuple[ex.PythonCall, int], ex.Column] = {}
    for call, number in keys:
        if number or call.on_error is not None:  # volatile, or its failures are this operator's
            continue
        found = _made_below(plan, call)
        if found is not None:
            home, column = found
            kept = carry_columns(plan, home, (column,))
            if kept is not None:
                plan, swap[call, number] = kept, column
    return plan, swap


def _made_below(
    plan: lp.LogicalPlan, call: ex.PythonCall
) -> tuple[lp.LogicalPlan, ex.Column] | None:
    wanted = (call.function, call.args, call.keywords, call.safe)
    match plan:
        case lp.Apply():
            for made in plan.calls:
                always = made.guard is None and made.on_error is None
                if always and (made.function, made.args, made.keywords, made.safe) == wanted:
                    return plan, made.column
            return _made_below(plan.input, call)
        case lp.Filter() | lp.Project() | lp.Sort() | lp.Limit():
            return _made_below(plan.input, call)
        case _:
            return None


def _needs_flag(expr: ex.Expr) -> bool:
    """Whether a failed call in it must be told from one that gave NULL: ON ERROR NULL makes the
    whole column NULL, and `coalesce(f(x), 0)` would not.
    """
    calls = [n for n in outside_subqueries(expr) if isinstance(n, ex.PythonCall)]
    policies = [c.on_error for c in calls if isinstance(c.on_error, ErrorPolicy)]
    return any(p.action == "NULL" for p in policies) and calls != [expr]


Flags = Mapping[str, frozenset[ex.Column]]
"""By a column of results, the columns that say whether a call behind it has failed."""


def _flags_behind(nodes: Iterable[Node | None], flags: Flags) -> frozenset[ex.Column]:
    names = {name for node in nodes if node is not None for name in columns_of(node)}
    return frozenset(flag for name in names & flags.keys() for flag in flags[name])


def _not_failed(behind: frozenset[ex.Column]) -> list[ex.Expr]:
    ordered = sorted(behind, key=lambda column: column.name)
    return [ex.Is(flag, "TRUE", negated=True) for flag in ordered]


def _unless_failed(call: ex.PythonCall, guard: ex.Expr | None, flags: Flags) -> ex.Expr | None:
    """The guard of a call that is not made over the result of a failed one."""
    for test in _not_failed(_flags_behind((*call.args, *(v for _, v in call.keywords)), flags)):
        guard = _and(guard, test)
    return guard


def _null_if_failed(expr: ex.Expr, flags: Flags) -> ex.Expr:
    tests = _not_failed(_flags_behind((expr,), flags))
    if not tests:
        return expr
    return ex.Case(None, ((conjunction(tuple(tests)), expr),), span=expr.span)


def _tried(expr: ex.Expr, inside: bool) -> ex.Expr:
    """The expression with the Python calls inside of a TRY made safe ones."""

    def visit(node: Node) -> Node:
        if isinstance(node, lp.LogicalPlan):
            return node
        if isinstance(node, ex.Expr):
            return _tried(node, inside or isinstance(expr, ex.Try))
        return map_children(node, visit)

    expr = map_children(expr, visit)
    if not inside or not isinstance(expr, ex.PythonCall):
        return expr
    # Arguments are computed before the call, outside of the TRY.
    args = tuple(_argument(a) for a in expr.args)
    keywords = tuple((k, _argument(v)) for k, v in expr.keywords)
    return replace(expr, args=args, keywords=keywords, safe=True, on_error=None)


def _argument(expr: ex.Expr) -> ex.Expr:
    return ex.Try(expr) if may_fail(expr) and not calls_python(expr) else expr


def _either(first: ex.Expr | None, second: ex.Expr | None) -> ex.Expr | None:
    """The guard of a call that stands in two places: made where one of them needs it."""
    if first is None or second is None:
        return None
    return first if first == second else ex.Logical("OR", (first, second))


def _check_variables(call: ex.PythonCall) -> None:
    if any(isinstance(n, ex.Variable) for n in walk(call)):
        raise BindError(
            "a Python function cannot be called inside a lambda",
            code="P407",
            span=call.span,
            hint="|> UNNEST the list, call the function on its elements, and collect them with "
            "list(..) in |> AGGREGATE",
        )


def _innermost(
    expr: ex.Expr, guard: ex.Expr | None
) -> Iterator[tuple[ex.PythonCall, ex.Expr | None]]:
    """The calls whose arguments (and guards) hold no further calls, each with its guard."""
    match expr:
        case ex.PythonCall():
            inner = [
                c
                for a in (*expr.args, *(v for _, v in expr.keywords))
                for c in _innermost(a, guard)
            ]
            if inner:
                yield from inner
            elif guard is not None and calls_python(guard):
                yield from _innermost(guard, None)
            else:
                yield expr, guard
        case ex.Case():
            yield from _case_calls(expr, guard)
        case ex.Logical():
            test = "FALSE" if expr.op == "AND" else "TRUE"
            for operand in expr.operands:
                yield from _innermost(operand, guard)
                guard = _and(guard, ex.Is(operand, test, negated=True))
        case ex.Call() if expr.name[-1].lower() in ("coalesce", "ifnull"):
            for argument in expr.args:
                value = argument.value if isinstance(argument, ex.NamedArgument) else argument
                yield from _innermost(value, guard)
                guard = _and(guard, ex.Is(value, "NULL"))
        case ex.Subquery():
            if expr.operand is not None:
                yield from _innermost(expr.operand, guard)
        case _:
            for child in _expressions_below(expr):
                yield from _innermost(child, guard)


def _expressions_below(node: Node) -> Iterator[ex.Expr]:
    for child in children(node):
        if isinstance(child, ex.Expr):
            yield child
        elif not isinstance(child, lp.LogicalPlan):
            yield from _expressions_below(child)


def _case_calls(
    case: ex.Case, guard: ex.Expr | None
) -> Iterator[tuple[ex.PythonCall, ex.Expr | None]]:
    if case.operand is not None:
        yield from _innermost(case.operand, guard)
    for condition, result in case.whens:
        test = condition if case.operand is None else ex.Binary("=", case.operand, condition)
        yield from _innermost(condition, guard)
        yield from _innermost(result, _and(guard, ex.Is(test, "TRUE")))
        guard = _and(guard, ex.Is(test, "TRUE", negated=True))
    if case.otherwise is not None:
        yield from _innermost(case.otherwise, guard)


def _and(guard: ex.Expr | None, test: ex.Expr) -> ex.Expr:
    return test if guard is None else ex.Logical("AND", (guard, test))


def _apply(
    plan: lp.LogicalPlan,
    calls: list[tuple[tuple[ex.PythonCall, int], ex.Expr | None]],
    names: Names,
    flagged: bool = False,
) -> tuple[lp.LogicalPlan, list[lp.PythonColumn]]:
    """An `Apply` over columns: arguments and guards that are more become columns first."""
    extra: dict[ex.Expr, ex.Column] = {}

    def as_column(expr: ex.Expr, wanted: str, type_: str = "") -> ex.Expr:
        if isinstance(expr, ex.Literal | ex.SharedObject | ex.TaskContext) or (
            isinstance(expr, ex.Column) and expr in plan.columns
        ):
            return expr
        if expr not in extra:
            extra[expr] = names.column(wanted, type_ or _shown_type(expr))
        return extra[expr]

    made: list[lp.PythonColumn] = []
    for (call, _), guard in calls:
        function = call.function
        args = tuple(as_column(a, "argument") for a in call.args)
        keywords = tuple((k, as_column(v, k)) for k, v in call.keywords)
        test = as_column(guard, "guard", "BOOLEAN") if guard is not None else None
        column = names.column(getattr(function, "name", "python"), call.type)
        policy = call.on_error if isinstance(call.on_error, ErrorPolicy) else None
        failing = flagged and policy is not None and policy.action == "NULL"
        failed = names.column("failed", "BOOLEAN") if failing else None
        made.append(
            lp.PythonColumn(
                column,
                function,  # type: ignore[arg-type]
                args,
                keywords,
                test,  # type: ignore[arg-type]
                call.safe,
                policy,
                failed,
                call.span,
            )
        )
    if extra:
        passed = tuple(lp.Assign(c, c) for c in plan.columns)
        plan = lp.Project(plan, passed + tuple(lp.Assign(c, e) for e, c in extra.items()))
    return lp.Apply(plan, tuple(made)), made


def _shown_type(expr: ex.Expr) -> str:
    if isinstance(expr, ex.Try):
        return _shown_type(expr.operand)
    return getattr(expr, "type", "") or "UNKNOWN"


def _swapped(expr: ex.Expr, swap: dict[tuple[ex.PythonCall, int], ex.Column]) -> ex.Expr:
    def visit(node: Node) -> Node:
        if isinstance(node, lp.LogicalPlan):
            return node
        if isinstance(node, ex.PythonCall):
            key = (node, id(node) if getattr(node.function, "volatile", False) else 0)
            if key in swap:
                return swap[key]
        return map_children(node, visit)

    return visit(expr)  # type: ignore[return-value]
