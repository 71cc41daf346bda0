"""Plans as text: logical trees, the trace of the optimizer, and the stages with their SQL."""

from __future__ import annotations

import re
from collections.abc import Iterable

from zql.errors import masked
from zql.expr import expression as ex
from zql.expr.sql import expression_sql
from zql.logical import plan as lp
from zql.optimizer.optimizer import Rewrite
from zql.physical.plan import (
    CallPython,
    Collect,
    Drop,
    Keep,
    PhysicalPlan,
    RunSql,
    Stage,
    StoreTable,
    WriteFiles,
)
from zql.physical.sql import indented, render
from zql.tree import Node, children, map_children, walk

_QUOTED_PLAIN = re.compile(r'"([A-Za-z_][A-Za-z0-9_]*)"')


def explain_logical(plan: lp.LogicalPlan) -> str:
    """The bound plan, an operator a line, with its columns and their types."""
    lines = _tree(plan)
    for output in lp.outputs_of(plan) if isinstance(plan, lp.Root) else (plan,):
        named = (f"{_shown_name(output, i)} {c.type}" for i, c in enumerate(output.columns))
        lines.append(f"columns: {', '.join(named)}")
    return masked("\n".join(lines))


def _shown_name(plan: lp.LogicalPlan, index: int) -> str:
    return (
        plan.names[index]
        if isinstance(plan, lp.Query | lp.Write | lp.Store)
        else plan.columns[index].name
    )


def explain_trace(plan: lp.LogicalPlan, trace: Iterable[Rewrite]) -> str:
    """The bound plan, then each rule that changed it with the plan behind it."""
    parts = ["bound", *_indented(_tree(plan))]
    rewrites = list(trace)
    for rewrite in rewrites:
        parts += ["", rewrite.rule, *_indented(_tree(rewrite.plan))]
    if not rewrites:
        parts.append("(no rule changed the plan)")
    return masked("\n".join(parts))


def explain_stages(plan: PhysicalPlan) -> str:
    """Each stage: what is cut into tasks, its steps with their SQL and Python calls, its end."""
    here = not plan.writes
    return masked("\n\n".join("\n".join(_stage(stage, here)) for stage in plan.stages))


def _stage(stage: Stage, here: bool) -> list[str]:
    """`here`: nothing is written, so that little input is worked on in this process."""
    workers = "in worker processes" + (" (in this one when the input is small)" if here else "")
    if stage.source is None:
        kind = "one DuckDB statement, all threads"
        if stage.row_local and _is_sharded(stage):
            kind = "DuckDB, one statement for each split of the input"
    elif isinstance(stage.source, lp.Scan):
        kind = f"tasks over the splits of {stage.source.name}, {workers}"
    else:
        kind = f"tasks over the result of stage {stage.source.stage}, {workers}"
    lines = [f"Stage {stage.id}: {kind}"]
    for step in stage.steps:
        lines += _indented(_step(step))
    return lines + _indented(_sink(stage))


def _is_sharded(stage: Stage) -> bool:
    sink = stage.sink
    return isinstance(sink, WriteFiles) and ("{shard" in sink.uri or sink.uri.endswith("/"))


def _step(step: RunSql | CallPython) -> list[str]:
    if isinstance(step, CallPython):
        return _python(step.call)
    scans = [n for n in walk(step.plan) if isinstance(n, lp.Scan)]
    lines = [_reads(scan) for scan in scans]
    sql = indented(render(step.plan, _shown_sources(step.plan)))
    if not _passes_on(step.plan):
        lines += ["SQL", *_indented(sql.split("\n"))]
    return lines


def _passes_on(plan: lp.LogicalPlan) -> bool:
    return isinstance(plan, lp.Scan | lp.StageResult | lp.BatchInput)


def _reads(scan: lp.Scan) -> str:
    files = f"{len(scan.files)} file" + ("s" if len(scan.files) != 1 else "")
    names = ", ".join(c.source for c in scan.columns_read)
    return f"Read {scan.name} ({scan.format}, {files}): {names}"


def _shown_sources(plan: lp.LogicalPlan) -> dict[Node, str]:
    sources: dict[Node, str] = {}
    for node in walk(plan):
        if isinstance(node, lp.Scan):
            sources[node] = f"<{node.name}>"
        elif isinstance(node, lp.MemoryScan):
            sources[node] = f"<{node.key}>"
        elif isinstance(node, lp.StageResult):
            sources[node] = f"<stage {node.stage}>"
        elif isinstance(node, lp.BatchInput):
            sources[node] = "<rows>"
    return sources


def _python(call: lp.Apply | lp.MapRows) -> list[str]:
    if isinstance(call, lp.MapRows):
        if call.record:
            given = "{" + ", ".join(name for name, _ in call.record) + "}"
        else:
            given = ", ".join(expression_text(a) for a in call.args)
        named = "".join(f", {k} => {expression_text(v)}" for k, v in call.keywords)
        made = ", ".join(f"{n} {c.type}" for n, c in zip(call.names, call.made, strict=True))
        return [f"Python {call.kind} {_home(call.function)}({given}{named}) -> {made}"]
    lines = []
    for column in call.calls:
        args = [expression_text(a) for a in column.args]
        args += [f"{k} => {expression_text(v)}" for k, v in column.keywords]
        guard = f" only where {expression_text(column.guard)}" if column.guard else ""
        guard += ", NULL for an exception" if column.safe else ""
        home = _home(column.function)
        lines.append(
            f"Python {home}({', '.join(args)}) -> {column.column.name} {column.column.type}{guard}"
        )
    return lines


def _home(function: object) -> str:
    name = getattr(function, "name", "?")
    return f"{name}" + (" VOLATILE" if getattr(function, "volatile", False) else "")


def _sink(stage: Stage) -> list[str]:
    match stage.sink:
        case Keep():
            return [f"Keep for later stages: {', '.join(c.name for c in _columns(stage))}"]
        case Collect(names=names):
            return [f"Result: {', '.join(names)}"]
        case WriteFiles() as sink:
            options = "".join(f", {name} {value}" for name, value in sink.options)
            by = f" by {sink.shard.name}" if sink.shard is not None else ""
            head = f"Write {sink.uri} ({sink.format}, mode {sink.mode}{options}{by})"
            return [f"{head}: {', '.join(sink.names)}"]
        case Drop(counter=counter):
            return [f"Drop the rows, count them as {counter}" if counter else "Drop the rows"]
        case StoreTable() as table:
            return [f"Keep as the table {table.table}: {', '.join(table.names)}"]


def _columns(stage: Stage) -> tuple[ex.Column, ...]:
    last = stage.steps[-1]
    return last.plan.columns if isinstance(last, RunSql) else last.call.columns


def _indented(lines: Iterable[str]) -> list[str]:
    return ["  " + line if line else line for line in lines]


def _tree(plan: lp.LogicalPlan) -> list[str]:
    """The operators, inputs below and drawn as branches; subqueries of expressions too."""
    lines = [_label(plan)]
    inputs = [c for c in children(plan) if isinstance(c, lp.LogicalPlan)]
    inputs += [n.query for n in _own(plan) if isinstance(n, ex.Subquery)]  # type: ignore[misc]
    for i, below in enumerate(inputs):
        last = i == len(inputs) - 1
        first, *rest = _tree(below)
        lines.append(("└─ " if last else "├─ ") + first)
        lines += [("   " if last else "│  ") + line for line in rest]
    return lines


def _own(plan: lp.LogicalPlan) -> list[Node]:
    found, todo = [], [c for c in children(plan) if not isinstance(c, lp.LogicalPlan)]
    while todo:
        node = todo.pop()
        found.append(node)
        todo += [c for c in children(node) if not isinstance(c, lp.LogicalPlan)]
    return found


def _label(plan: lp.LogicalPlan) -> str:  # noqa: C901, PLR0912 - one case for each operator
    match plan:
        case lp.Scan():
            return f"Scan {plan.name}: {', '.join(c.name for c in plan.columns)}"
        case lp.MemoryScan():
            return f"MemoryScan {plan.key}: {', '.join(c.name for c in plan.columns)}"
        case lp.StageResult() | lp.BatchInput():
            return type(plan).__name__
        case lp.TableFunction():
            return f"TableFunction {plan.name}({_list(plan.args)})"
        case lp.Values():
            return f"Values {len(plan.rows)} rows"
        case lp.Filter():
            return f"Filter {expression_text(plan.predicate)}"
        case lp.Project():
            return f"Project {_assigns(plan.assigns)}"
        case lp.Aggregate():
            keys = f" by {_assigns(plan.keys)}" if plan.keys else ""
            return f"Aggregate {_assigns(plan.aggregates)}{keys}{_sets(plan)}"
        case lp.DistinctOn():
            order = f" order {_keys(plan.order)}" if plan.order else ""
            return f"DistinctOn {_list(plan.on)}{order}"
        case lp.Sort():
            return f"Sort {_keys(plan.keys)}"
        case lp.Limit():
            count = "all" if plan.count is None else str(plan.count)
            return f"Limit {count}" + (f" offset {plan.offset}" if plan.offset else "")
        case lp.Join():
            on = f" on {expression_text(plan.condition)}" if plan.condition is not None else ""
            return f"Join {plan.kind}{on}"
        case lp.SetOperation():
            return f"{plan.kind.capitalize()}{' all' if plan.all else ''}"
        case lp.Unnest():
            outer = " outer" if plan.outer else ""
            return f"Unnest{outer} {expression_text(plan.list)} as {plan.column.name}"
        case lp.Apply():
            return "Apply " + "; ".join(line.removeprefix("Python ") for line in _python(plan))
        case lp.MapRows():
            return "MapRows " + _python(plan)[0].removeprefix("Python ")
        case lp.Write():
            shards = dict(plan.options).get("shards")
            shown = f", {shards} shards" if shards else ""
            by = f" by {plan.shard.name}" if plan.shard is not None else ""
            return f"Write {plan.uri} ({plan.format}{shown}{by}): {', '.join(plan.names)}"
        case lp.Query():
            return f"Query {', '.join(plan.names)}"
        case lp.Check():
            said = f" says {_list(plan.payload)}" if plan.payload else ""
            return f"Check {plan.condition.name}: {plan.text}{said}" + (
                ", on all rows first" if plan.kept else ""
            )
        case lp.Finish():
            return f"Finish, counted as {plan.counter}" if plan.counter else "Finish"
        case lp.Store():
            return f"Store {plan.table}: {', '.join(plan.names)}"
        case lp.Common() | lp.CommonRows():
            return f"{type(plan).__name__} {plan.number} ({plan.name})"
        case _:
            return type(plan).__name__


def _sets(plan: lp.Aggregate) -> str:
    names = [k.column.name for k in plan.keys]
    sets = ", ".join(f"({', '.join(names[i] for i in numbers)})" for numbers in plan.sets)
    return f" in sets {sets}" if sets else ""


def _list(exprs: Iterable[ex.Expr]) -> str:
    return ", ".join(expression_text(e) for e in exprs)


def _keys(keys: Iterable[ex.SortKey]) -> str:
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
        if isinstance(node, ex.PythonCall):
            named = tuple(ex.NamedArgument(k, v) for k, v in node.keywords)
            name = getattr(node.function, "name", "python")
            return ex.Call((name,), (*node.args, *named))
        return node

    return visit(expr)  # type: ignore[return-value]
