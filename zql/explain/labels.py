"""Operators and expressions as people read them: one line for each."""

from __future__ import annotations

import re
from collections.abc import Iterable

from zql.expr import expression as ex
from zql.expr.functions import ErrorPolicy, PythonFunction
from zql.expr.sql import expression_sql
from zql.logical import plan as lp
from zql.tree import Node, children, map_children

_QUOTED_PLAIN = re.compile(r'"([A-Za-z_][A-Za-z0-9_]*)"')


def inputs(plan: lp.LogicalPlan) -> list[lp.LogicalPlan]:
    """The plans that an operator reads, those of its expressions' subqueries last."""
    below = [c for c in children(plan) if isinstance(c, lp.LogicalPlan)]
    return below + [n.query for n in _own(plan) if isinstance(n, ex.Subquery)]  # type: ignore[misc]


def _own(plan: lp.LogicalPlan) -> list[Node]:
    found, todo = [], [c for c in children(plan) if not isinstance(c, lp.LogicalPlan)]
    while todo:
        node = todo.pop()
        found.append(node)
        todo += [c for c in children(node) if not isinstance(c, lp.LogicalPlan)]
    return found


def label(plan: lp.LogicalPlan) -> str:  # noqa: C901, PLR0912 - one case for each operator
    """An operator in a line, with what it works on."""
    match plan:
        case lp.Scan():
            return f"Scan {plan.name}: {_names(plan)}{policy_text(plan.on_error)}"
        case lp.MemoryScan():
            return f"MemoryScan {plan.key}: {', '.join(c.name for c in plan.columns)}"
        case lp.StageResult() | lp.BatchInput():
            return type(plan).__name__
        case lp.TableFunction():
            return f"TableFunction {plan.name}({_list(plan.args)})"
        case lp.DuckdbQuery():
            return f"DuckdbQuery {' '.join(plan.sql.split())}: {', '.join(plan.sources)}"
        case lp.Values():
            return f"Values {len(plan.rows)} rows"
        case lp.Filter():
            return f"Filter {expression_text(plan.predicate)}"
        case lp.Project():
            return f"Project {_assigns(plan.assigns)}"
        case lp.Aggregate():
            keys = f" by {_assigns(plan.keys)}" if plan.keys else ""
            return f"Aggregate {_assigns(plan.aggregates)}{keys}{_sets(plan)}{_in_parts(plan)}"
        case lp.DistinctOn():
            order = f" order {keys_text(plan.order)}" if plan.order else ""
            return f"DistinctOn {_list(plan.on)}{order}"
        case lp.Sort():
            return f"Sort {keys_text(plan.keys)}{_in_parts(plan)}"
        case lp.Limit():
            count = "all" if plan.count is None else str(plan.count)
            return f"Limit {count}" + (f" offset {plan.offset}" if plan.offset else "")
        case lp.Join() | lp.Lateral():
            on = f" on {expression_text(plan.condition)}" if plan.condition is not None else ""
            held = ", broadcast" if isinstance(plan, lp.Join) and plan.broadcast else ""
            return f"{type(plan).__name__} {plan.kind}{on}{held}"
        case lp.SetOperation():
            return f"{plan.kind.capitalize()}{' all' if plan.all else ''}"
        case lp.RecursiveUnion():
            return f"RecursiveUnion{' all' if plan.all else ''} {plan.name}"
        case lp.RoundRows():
            return f"RoundRows {plan.name}: {', '.join(c.name for c in plan.columns)}"
        case lp.Unnest():
            outer = " outer" if plan.outer else ""
            return f"Unnest{outer} {expression_text(plan.list)} as {plan.column.name}"
        case lp.Apply():
            return "Apply " + "; ".join(python_lines(plan))
        case lp.Rejects():
            return f"Rejects {plan.number}"
        case lp.MapRows() | lp.Reduce() | lp.Fold():
            return f"{type(plan).__name__} {'; '.join(python_lines(plan))}{_beside(plan)}"
        case lp.Write():
            return _write(plan)
        case lp.Query():
            return f"Query {', '.join(plan.names)}"
        case lp.Check():
            said = f" says {_list(plan.payload)}" if plan.payload else ""
            return f"Check {plan.condition.name}: {plan.text}{said}" + (
                ", on all rows first" if plan.kept else ""
            )
        case lp.Shared():
            return f"Shared {', '.join(name for name, _ in plan.tables)}"
        case lp.SharedRows():
            return f"SharedRows {plan.table}"
        case lp.Finish():
            return f"Finish, counted as {plan.counter}" if plan.counter else "Finish"
        case lp.Store():
            return f"Store {plan.table}: {', '.join(plan.names)}"
        case lp.Common() | lp.CommonRows():
            return f"{type(plan).__name__} {plan.number} ({plan.name})"
        case _:
            return type(plan).__name__


def _write(plan: lp.Write) -> str:
    options = dict(plan.options)
    shown = f", {options['shards']} shards" if "shards" in options else ""
    if plan.folders:
        shown += f", partitioned by {', '.join(plan.folders)}"
    by = f" by {plan.shard.name}" if plan.shard is not None else ""
    return f"Write {plan.uri} ({plan.format}{shown}{by}): {', '.join(plan.names)}"


def _beside(plan: lp.LogicalPlan) -> str:
    natives = plan.natives if isinstance(plan, lp.Fold) else ()
    return f"; beside {_assigns(natives)}" if natives else ""


def _names(plan: lp.LogicalPlan) -> str:
    return ", ".join(c.name for c in plan.columns)


def _sets(plan: lp.Aggregate) -> str:
    names = [k.column.name for k in plan.keys]
    sets = ", ".join(f"({', '.join(names[i] for i in numbers)})" for numbers in plan.sets)
    return f" in sets {sets}" if sets else ""


def _in_parts(plan: lp.Aggregate | lp.Sort) -> str:
    return f" in {plan.parts} parts" if plan.parts > 1 else ""


def _list(exprs: Iterable[ex.Expr]) -> str:
    return ", ".join(expression_text(e) for e in exprs)


def keys_text(keys: Iterable[ex.SortKey]) -> str:
    """What rows are sorted by."""
    return ", ".join(expression_text(k.expr) + (" desc" if k.descending else "") for k in keys)


def _assigns(assigns: Iterable[lp.Assign]) -> str:
    parts = []
    for assign in assigns:
        text = expression_text(assign.expr)
        name = assign.column.name
        parts.append(
            name
            if isinstance(assign.expr, ex.Column) and assign.expr.name == name
            else f"{text} as {name}"
        )
    return ", ".join(parts)


def expression_text(expr: ex.Expr) -> str:
    """A bound expression for people: as its SQL, plain names without quotes."""
    text = expression_sql(_readable(expr), lambda _plan: "subquery")
    return _QUOTED_PLAIN.sub(r"\1", text)


def _readable(expr: ex.Expr) -> ex.Expr:
    def visit(node: Node) -> Node:
        if isinstance(node, lp.LogicalPlan):
            return node
        node = map_children(node, visit)
        if isinstance(node, ex.Column):
            return ex.Variable(node.name)
        if isinstance(node, ex.PythonAggregateCall):
            made = tuple(ex.NamedArgument(k, v) for k, v in _named(node.made_with))
            given = tuple(a for a in node.args if not _is_context(a))
            return ex.Call(
                (".".join(node.name),),
                (*given, *made),
                distinct=node.distinct,
                order=node.order,
                filter=node.filter,
            )
        if isinstance(node, ex.PythonCall):
            named = tuple(ex.NamedArgument(k, v) for k, v in node.keywords)
            name = getattr(node.function, "name", "python")
            return ex.Call((name,), (*node.args, *named))
        return node

    return visit(expr)  # type: ignore[return-value]


def _is_context(argument: ex.Expr | ex.NamedArgument) -> bool:
    return isinstance(argument, ex.NamedArgument) and isinstance(argument.value, ex.TaskContext)


def python_lines(call: lp.PythonOperator) -> list[str]:
    """Each Python call of an operator in a line: what is handed in, and what comes back."""
    if isinstance(call, lp.Reduce):
        return [_reduce_line(call)]
    if isinstance(call, lp.Fold):
        return [_fold_line(call, aggregate) for aggregate in call.aggregates]
    if isinstance(call, lp.MapRows):
        given, named = _given(call)
        made = ", ".join(f"{n} {c.type}" for n, c in zip(call.names, call.made, strict=True))
        if call.shard:
            named += f", {call.shard} => the shard"
        size = f" of {call.batch_rows} rows" if call.batch_rows is not None else ""
        policy = _way(call.function) + policy_text(call.on_error)
        return [f"{call.kind}{size} {_home(call.function)}({given}{named}) -> {made}{policy}"]
    lines = []
    for column in call.calls:
        args = [expression_text(a) for a in column.args]
        args += [f"{k} => {expression_text(v)}" for k, v in _named(column.keywords)]
        guard = f" only where {expression_text(column.guard)}" if column.guard else ""
        guard += ", NULL for an exception" if column.safe else ""
        guard += _way(column.function)
        guard += policy_text(column.on_error)
        home = _home(column.function)
        lines.append(
            f"{home}({', '.join(args)}) -> {column.column.name} {column.column.type}{guard}"
        )
    return lines


def _given(call: lp.MapRows | lp.Reduce) -> tuple[str, str]:
    """What the function gets of each row, and the named arguments, with a comma before each."""
    given = ", ".join(expression_text(a) for a in call.args)
    if call.record:
        given = "{" + ", ".join(name for name, _ in call.record) + "}"
    return given, "".join(f", {k} => {expression_text(v)}" for k, v in _named(call.keywords))


def _named(keywords: Iterable[tuple[str, ex.Expr]]) -> Iterable[tuple[str, ex.Expr]]:
    """The named arguments that the script gives."""
    return ((k, v) for k, v in keywords if not isinstance(v, ex.TaskContext))


def _reduce_line(call: lp.Reduce) -> str:
    given, named = _given(call)
    keys = ", ".join(key.name for key in call.keys)
    key = f"({keys})" if len(call.keys) > 1 else keys or "NULL"
    order = f" order {keys_text(call.order)}" if call.order else ""
    made = ", ".join(f"{n} {c.type}" for n, c in zip(call.names, call.made, strict=True))
    handed = f"{key}, rows of {given}{named}"
    way = _way(call.function) + policy_text(call.on_error)
    return f"{call.kind} {_home(call.function)}({handed}){order} -> {made}{way}"


def _way(function: PythonFunction) -> str:
    """How the calls are made, where it is not simply one after the other."""
    words = [
        "async" if function.is_async else "",
        f"{function.concurrency} at a time" if function.concurrency is not None else "",
        f"lists of {function.batch_size}" if function.batch_size is not None else "",
        f"{function.timeout:g} s at most" if function.timeout is not None else "",
    ]
    return "".join(f", {word}" for word in words if word)


_FOLDED = {
    "AGGREGATE": "AGGREGATE",
    "PARTIAL": "AGGREGATE, states of a part:",
    "MERGE": "AGGREGATE, states merged:",
}


def _fold_line(call: lp.Fold, aggregate: lp.PythonAggregate) -> str:
    """As it is written, and what comes out; keys are named when there are some."""
    keys = f" by {', '.join(key.name for key in call.keys)}" if call.keys else ""
    made = f"{aggregate.column.name} {aggregate.column.type}"
    given = [expression_text(a) for a in aggregate.args]
    named = (*aggregate.keywords, *(aggregate.made_with if call.kind != "MERGE" else ()))
    given += [f"{k} => {expression_text(v)}" for k, v in _named(named)]
    args = ", ".join(given)
    if call.kind == "AGGREGATE":
        args = f"DISTINCT {args}" if aggregate.distinct else args
        args += f" ORDER BY {keys_text(aggregate.order)}" if aggregate.order else ""
    guard = f" only where {aggregate.guard.name}" if aggregate.guard is not None else ""
    home = _home(aggregate.function)
    return f"{_FOLDED[call.kind]} {home}({args}){guard}{keys} -> {made}"


def policy_text(policy: ErrorPolicy | None) -> str:
    """What ON ERROR says, as it is written."""
    if policy is None:
        return ""
    kept = ", rejects kept" if policy.facts else ""
    limit = f" limit {policy.most_rows}" if policy.most_rows is not None else ""
    if policy.most_percent is not None:
        limit = f" limit {policy.most_percent:g} percent"
    return f", on error {policy.action.lower()}{limit}{kept}"


def _home(function: object) -> str:
    name = getattr(function, "name", "?")
    return f"{name}" + (" VOLATILE" if getattr(function, "volatile", False) else "")


_WORDS: tuple[tuple[type, str], ...] = (
    (lp.Filter, "WHERE"),
    (lp.Project, "computed columns"),
    (lp.Aggregate, "AGGREGATE"),
    (lp.Distinct, "DISTINCT"),
    (lp.DistinctOn, "DISTINCT ON"),
    (lp.Sort, "ORDER BY"),
    (lp.Limit, "LIMIT"),
    (lp.Unnest, "UNNEST"),
    (lp.Write, "WRITE"),
    (lp.Query, "the result"),
    (lp.Check, "ASSERT"),
    (lp.Finish, "FINISH"),
    (lp.Store, "CREATE TABLE"),
    (lp.RecursiveUnion, "RECURSIVE UNION"),
    (lp.RoundRows, "the rows of the last round"),
    (lp.DuckdbQuery, "duckdb(..)"),
)


def word(plan: lp.LogicalPlan) -> str:
    """What an operator is called in scripts; Python calls by the functions' names."""
    match plan:
        case lp.Apply():
            return ", ".join(dict.fromkeys(f"{c.function.name}(..)" for c in plan.calls))
        case lp.MapRows() | lp.Reduce():
            return f"{plan.kind} {plan.function.name}"
        case lp.Fold():
            return "AGGREGATE " + ", ".join(f.name for f in lp.called_functions(plan))
        case lp.Join():
            return "JOIN" if plan.kind == "INNER" else f"{plan.kind} JOIN"
        case lp.Lateral():
            return "JOIN LATERAL" if plan.kind == "INNER" else f"{plan.kind} JOIN LATERAL"
        case lp.SetOperation():
            return f"{plan.kind} ALL" if plan.all else plan.kind
        case lp.Scan():
            return plan.name
        case lp.MemoryScan():
            return plan.key
        case lp.Common() | lp.CommonRows():
            return f"the rows of {plan.name}"
        case _:
            found = (name for kind, name in _WORDS if isinstance(plan, kind))
            return next(found, re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(plan).__name__).upper())


_LONGEST = 60


def written(expr: ex.Expr) -> str:
    """An expression as its user wrote it, in one line and not too long."""
    text = " ".join((expr.span.text if expr.span else expression_text(expr)).split())
    return text if len(text) <= _LONGEST else text[: _LONGEST - 2] + ".."
