"""Plans as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from zql.execution.called import has_time_limit
from zql.explain.labels import inputs, keys_text, label, policy_text, python_lines
from zql.explain.notes import Note
from zql.expr import expression as ex
from zql.logical import plan as lp
from zql.optimizer.optimizer import Rewrite
from zql.physical.plan import (
    CallPython,
    Collect,
    Drop,
    Keep,
    PhysicalPlan,
    RunSql,
    Spread,
    Stage,
    StoreTable,
    WriteFiles,
)
from zql.physical.sql import indented, render
from zql.tree import Node, walk


def logical_text(plan: lp.LogicalPlan) -> str:
    """The bound plan, an operator a line, with its columns and their types."""
    lines = tree_lines(plan)
    for output in outputs(plan):
        named = (f"{name} {type_}" for name, type_ in shown_columns(output))
        lines.append(f"columns: {', '.join(named)}")
    return "\n".join(lines)


def outputs(plan: lp.LogicalPlan) -> tuple[lp.LogicalPlan, ...]:
    """What a statement gives; a plan that is no whole statement gives itself."""
    return lp.outputs_of(plan) if isinstance(plan, lp.Root) else (plan,)


def shown_columns(plan: lp.LogicalPlan) -> list[tuple[str, str]]:
    """Names and types of a plan's columns: the users' names, where the plan knows them."""
    known = isinstance(plan, lp.Query | lp.Write | lp.Store)
    names = plan.names if known else tuple(c.name for c in plan.columns)  # type: ignore[union-attr]
    return [(name, c.type) for name, c in zip(names, plan.columns, strict=True)]


def trace_text(plan: lp.LogicalPlan, trace: Iterable[Rewrite]) -> str:
    """The bound plan, then each rule that changed it with the plan behind it."""
    parts = ["bound", *_indented(tree_lines(plan))]
    rewrites = list(trace)
    for rewrite in rewrites:
        parts += ["", rewrite.rule, *_indented(tree_lines(rewrite.plan))]
    if not rewrites:
        parts.append("(no rule changed the plan)")
    return "\n".join(parts)


def stages_text(plan: PhysicalPlan, notes: Sequence[Note]) -> str:
    """Each stage: what is cut into tasks, its steps with their SQL and Python calls, its end."""
    here = not plan.writes
    parts = ["\n".join(_stage(stage, here)) for stage in plan.stages]
    if notes:
        parts.append("\n".join(["Notes", *(f"  {note.kind}: {note.shown}" for note in notes)]))
    return "\n\n".join(parts)


def stage_kind(stage: Stage, here: bool = False) -> str:
    """How a stage is run. `here`: little input is worked on in this process."""
    here = here and not has_time_limit(stage)
    workers = "in worker processes" + (" (in this one when the input is small)" if here else "")
    if stage.source is None:
        if stage.row_local and is_sharded(stage) and not is_partitioned(stage):
            if any(isinstance(node, lp.Scan) for node in walk(stage)):
                return "DuckDB, one statement for each split of the input"
            if isinstance(stage.sink, WriteFiles) and "shards" in dict(stage.sink.options):
                return "DuckDB, one statement for each file"
        if stage.by_partition:
            return f"one DuckDB statement for each partition of stage {stage.inputs[0]}"
        return "one DuckDB statement, all threads"
    if isinstance(stage.source, lp.Scan):
        return f"tasks over the splits of {stage.source.name}, {workers}"
    what = "groups of rows that stage {} left" if stage.by_file else "result of stage {}"
    return f"tasks over the {what.format(stage.source.stage)}, {workers}"


def is_sharded(stage: Stage) -> bool:
    """Whether the stage writes several files."""
    sink = stage.sink
    return isinstance(sink, WriteFiles) and ("{shard" in sink.uri or sink.uri.endswith("/"))


def _stage(stage: Stage, here: bool) -> list[str]:
    lines = [f"Stage {stage.id}: {stage_kind(stage, here)}"]
    for step in stage.steps:
        lines += _indented(_step(step))
    return [*lines, f"  {sink_line(stage)}"]


def _step(step: RunSql | CallPython) -> list[str]:
    if isinstance(step, CallPython):
        return [f"Python {line}" for line in python_lines(step.call)]
    lines = [reads_line(node) for node in walk(step.plan) if isinstance(node, lp.Scan)]
    if not passes_on(step.plan):
        lines += ["SQL", *_indented(step_sql(step).split("\n"))]
    return lines


def step_sql(step: RunSql) -> str:
    """A step's SELECT for people: indented, sources under their own names."""
    return indented(render(step.plan, _shown_sources(step.plan)))


def passes_on(plan: lp.LogicalPlan) -> bool:
    """Whether a step's SQL only reads."""
    return isinstance(plan, lp.Scan | lp.StageResult | lp.BatchInput)


def reads_line(scan: lp.Scan) -> str:
    """What is read of some files."""
    files = f"{len(scan.files)} file" + ("s" if len(scan.files) != 1 else "")
    names = ", ".join(c.source for c in scan.columns_read if c.kind != "place")
    parts = ", in parts" if scan.own is not None and scan.own.cuts else ""
    read = f"Read {scan.name} ({format_shown(scan)}, {files}{parts}): {names}"
    return f"{read}{policy_text(scan.on_error)}"


def format_shown(place: lp.Scan | WriteFiles) -> str:
    """The format of a scan or an output, and whose code it is when it is the user's."""
    return place.format if place.own is None else f"{place.format} by {place.own.code.name}"


def _shown_sources(plan: lp.LogicalPlan) -> dict[Node, str]:
    sources: dict[Node, str] = {}
    for node in walk(plan):
        if isinstance(node, lp.Scan):
            sources[node] = f"<{node.name}>"
        elif isinstance(node, lp.MemoryScan):
            sources[node] = f"<{node.key}>"
        elif isinstance(node, lp.StageResult):
            sources[node] = f"<stage {node.stage}>" if node.stage > 0 else "<rejects>"
        elif isinstance(node, lp.BatchInput):
            sources[node] = "<rows>"
    return sources


def sink_line(stage: Stage) -> str:
    """Where a stage's rows go."""
    match stage.sink:
        case Keep(spread=spread):
            names = ", ".join(c.name for c in stage_columns(stage))
            if spread is not None:
                return f"Exchange, {spread.parts} partitions {dealt_by(spread)}: {names}"
            return f"Keep for later stages: {names}"
        case Collect(names=names):
            return f"Result: {', '.join(names)}"
        case WriteFiles() as sink:
            options = "".join(f", {name} {_option(value)}" for name, value in sink.options)
            by = f" by {sink.shard.name}" if sink.shard is not None else ""
            head = f"Write {sink.uri} ({format_shown(sink)}, mode {sink.mode}{options}{by})"
            return f"{head}: {', '.join(sink.names)}"
        case Drop(counter=counter):
            return f"Drop the rows, count them as {counter}" if counter else "Drop the rows"
        case StoreTable() as table:
            return f"Keep as the table {table.table}: {', '.join(table.names)}"


def dealt_by(spread: Spread) -> str:
    """What decides to which partition a row goes."""
    if spread.order:
        return f"by ranges of {keys_text(spread.order)}"
    if spread.place is not None:
        return f"by ranges of {spread.ticket.name}"
    keys = ", ".join(key.name for key in spread.keys)
    return f"by {spread.hash} of {keys}"


def _option(value: object) -> str:
    return ", ".join(value) if isinstance(value, tuple) else str(value)


def is_partitioned(stage: Stage) -> bool:
    """Whether values name the folders of the files that the stage writes."""
    return isinstance(stage.sink, WriteFiles) and "partition_by" in dict(stage.sink.options)


def stage_columns(stage: Stage) -> tuple[ex.Column, ...]:
    """The columns of a stage's rows."""
    last = stage.steps[-1]
    return last.plan.columns if isinstance(last, RunSql) else last.call.columns


def tree_lines(plan: lp.LogicalPlan) -> list[str]:
    """The operators, inputs below and drawn as branches; subqueries of expressions too."""
    lines = [label(plan)]
    below = inputs(plan)
    for i, plan_below in enumerate(below):
        lines += branch(tree_lines(plan_below), last=i == len(below) - 1)
    return lines


def branch(lines: Sequence[str], *, last: bool) -> list[str]:
    """The lines of a subtree behind the branch that leads to it."""
    first, *rest = lines
    bar = "   " if last else "│  "
    return [("└─ " if last else "├─ ") + first, *(bar + line for line in rest)]


def _indented(lines: Iterable[str]) -> list[str]:
    return ["  " + line if line else line for line in lines]
