"""Plans as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from zql.explain.labels import inputs, label, python_lines
from zql.explain.notes import Note
from zql.expr import expression as ex
from zql.logical import plan as lp
from zql.optimizer.optimizer import Rewrite
from zql.physical.plan import CallPython, Collect, Keep, PhysicalPlan, RunSql, Stage, WriteFiles
from zql.physical.sql import indented, render
from zql.tree import Node, walk


def logical_text(plan: lp.LogicalPlan) -> str:
    """The bound plan, an operator a line, with its columns and their types."""
    columns = ", ".join(f"{shown_name(plan, i)} {c.type}" for i, c in enumerate(plan.columns))
    return "\n".join([*tree_lines(plan), f"columns: {columns}"])


def shown_name(plan: lp.LogicalPlan, index: int) -> str:
    """The user's name of a column, where the plan knows it."""
    return plan.names[index] if isinstance(plan, lp.Query | lp.Write) else plan.columns[index].name


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
    here = isinstance(plan.stages[-1].sink, Collect)
    parts = ["\n".join(_stage(stage, here)) for stage in plan.stages]
    if notes:
        parts.append("\n".join(["Notes", *(f"  {note.kind}: {note.shown}" for note in notes)]))
    return "\n\n".join(parts)


def stage_kind(stage: Stage, here: bool = False) -> str:
    """How a stage is run. `here`: little input is worked on in this process."""
    workers = "in worker processes" + (" (in this one when the input is small)" if here else "")
    if stage.source is None:
        if stage.row_local and is_sharded(stage):
            return "DuckDB, one statement for each split of the input"
        return "one DuckDB statement, all threads"
    if isinstance(stage.source, lp.Scan):
        return f"tasks over the splits of {stage.source.name}, {workers}"
    return f"tasks over the result of stage {stage.source.stage}, {workers}"


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


def sink_line(stage: Stage) -> str:
    """Where a stage's rows go."""
    match stage.sink:
        case Keep():
            return f"Keep for later stages: {', '.join(c.name for c in stage_columns(stage))}"
        case Collect(names=names):
            return f"Result: {', '.join(names)}"
        case WriteFiles() as sink:
            options = "".join(f", {name} {value}" for name, value in sink.options)
            head = f"Write {sink.uri} ({sink.format}, mode {sink.mode}{options})"
            return f"{head}: {', '.join(sink.names)}"


def stage_columns(stage: Stage) -> tuple[ex.Column, ...]:
    """The columns of a stage's rows."""
    last = stage.steps[-1]
    return last.plan.columns if isinstance(last, RunSql) else last.call.columns


def tree_lines(plan: lp.LogicalPlan) -> list[str]:
    """The operators, inputs below and drawn as branches; subqueries of expressions too."""
    lines = [label(plan)]
    below = inputs(plan)
    for i, input in enumerate(below):
        lines += branch(tree_lines(input), last=i == len(below) - 1)
    return lines


def branch(lines: Sequence[str], *, last: bool) -> list[str]:
    """The lines of a subtree behind the branch that leads to it."""
    first, *rest = lines
    bar = "   " if last else "│  "
    return [("└─ " if last else "├─ ") + first, *(bar + line for line in rest)]


def _indented(lines: Iterable[str]) -> list[str]:
    return ["  " + line if line else line for line in lines]
