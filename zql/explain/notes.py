"""What the optimizer did and did not do with a query, and why: the notes of EXPLAIN.

They are found by looking at the plan as it was bound and as it came out. Nothing here decides
anything: the rules do, and `zql/optimizer/rules` has their reasons in full.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from zql.execution.sizes import mib
from zql.explain.labels import word, written
from zql.explain.stays import why_filter_stays, why_limit_stays
from zql.expr import expression as ex
from zql.logical import plan as lp
from zql.optimizer.facts import conjuncts, has_window
from zql.optimizer.optimizer import Rewrite
from zql.optimizer.rules.broadcast_joins import broadcast_joins
from zql.optimizer.rules.isolate_python_calls import isolate_python_calls
from zql.optimizer.rules.keep_row_order import keep_row_order
from zql.optimizer.rules.partition_aggregates import partition_aggregates
from zql.optimizer.rules.partition_sorts import partition_sorts
from zql.optimizer.unseen_sorts import unseen_sorts
from zql.physical.plan import CallPython, Keep, PhysicalPlan, RunSql, Stage
from zql.tree import children, walk


@dataclass(frozen=True, slots=True)
class Note:
    """One thing that was done or not. `kind` is pushed, stays, pruned, handed, types, fused,
    stage, shared, join, order, reuse, off, warning, sizes or resources; `line` is the line of the
    script that it is about.
    """

    kind: str
    text: str
    line: int | None = None

    @property
    def shown(self) -> str:
        """The text with the line."""
        return self.text if self.line is None else f"{self.text} (line {self.line})"


def notes_of(
    bound: lp.LogicalPlan,
    trace: Sequence[Rewrite],
    optimized: lp.LogicalPlan,
    stages: PhysicalPlan,
    unfused: PhysicalPlan,
    disabled: Collection[str] = (),
    warnings: Sequence[str] = (),
    reuse: Sequence[str] = (),
) -> tuple[Note, ...]:
    """All notes on a query, in the order of kinds; each text once."""
    # Before that rule Python calls stand in expressions, and nothing has moved yet.
    isolated = [r.plan for r in trace if r.rule == isolate_python_calls.__name__]
    # What these rules add is in nobody's way: they run last.
    late = (keep_row_order, partition_aggregates, partition_sorts, broadcast_joins)
    last = [rule.__name__ for rule in late]
    moved = [bound, *(r.plan for r in trace if r.rule not in last)][-1]
    found = [
        *_pushed(isolated[0] if isolated else bound, moved),
        *_stays(moved),
        *_pruned(bound, optimized),
        *_handed(optimized),
        *_typed(optimized),
        *_fused(stages, unfused),
        *_cuts(stages),
        *_joins(optimized, stages),
        *_unseen_sorts(bound),
    ]
    found += [Note("reuse", text) for text in reuse]
    if disabled:
        found.append(Note("off", f"rules that are switched off: {', '.join(sorted(disabled))}"))
    found += [Note("warning", text) for text in warnings]
    return tuple(dict.fromkeys(found))


def _line(expr: ex.Expr) -> int | None:
    return expr.span.line if expr.span else None


# ---- conditions and limits ----------------------------------------------------------------------


def _conditions(plan: lp.LogicalPlan) -> dict[object, tuple[ex.Expr, lp.LogicalPlan]]:
    """Each condition of the plan's filters by its place in the script, and what it stands on."""
    found: dict[object, tuple[ex.Expr, lp.LogicalPlan]] = {}
    for node in walk(plan):
        if isinstance(node, lp.Filter):
            for part in conjuncts(node.predicate):
                found.setdefault(part.span or part, (part, node.input))
    return found


def _chain(plan: lp.LogicalPlan) -> list[str]:
    """The operators from here down to where there are none, or several, below."""
    words = []
    while True:
        if not isinstance(plan, lp.Filter | lp.Project):
            # One whose Python classes nobody needs is a plain one.
            words.append("AGGREGATE" if isinstance(plan, lp.Fold) else word(plan))
        below = [c for c in children(plan) if isinstance(c, lp.LogicalPlan)]
        if len(below) != 1:
            return words
        plan = below[0]


def _pushed(bound: lp.LogicalPlan, optimized: lp.LogicalPlan) -> Iterator[Note]:
    before, after = _conditions(bound), _conditions(optimized)
    for key, (part, below) in before.items():
        if key not in after:
            continue
        _, now = after[key]
        left = _chain(now)
        passed = [w for w in _chain(below) if w not in left]
        if passed:
            to = f", to {word(now)}" if isinstance(now, lp.Scan | lp.MemoryScan) else ""
            text = f"the filter on {written(part)}, below {' and '.join(passed)}{to}"
            yield Note("pushed", text, _line(part))
    limits = (n for n in walk(bound) if isinstance(n, lp.Limit))
    for limit in limits:
        same = [n for n in walk(optimized) if isinstance(n, lp.Limit) and n.count == limit.count]
        if same and same[0].offset == limit.offset:
            left = _chain(same[0].input)
            passed = [w for w in _chain(limit.input) if w not in left]
            if passed:
                yield Note("pushed", f"LIMIT {limit.count}, below {' and '.join(passed)}")


def _stays(optimized: lp.LogicalPlan) -> Iterator[Note]:
    for node in walk(optimized):
        if isinstance(node, lp.Filter):
            for part in conjuncts(node.predicate):
                below, reason = why_filter_stays(part, node)
                if reason and part.span is not None:  # else nobody has written it
                    text = f"the filter on {written(part)} above {word(below)}: {reason}"
                    yield Note("stays", text, _line(part))
        elif isinstance(node, lp.Limit) and (reason := why_limit_stays(node)):
            text = f"LIMIT {node.count} above {word(node.input)}: {reason}"
            yield Note("stays", text)


# ---- columns ------------------------------------------------------------------------------------


def _pruned(bound: lp.LogicalPlan, optimized: lp.LogicalPlan) -> Iterator[Note]:
    before = [n for n in walk(bound) if isinstance(n, lp.Scan)]
    for scan in dict.fromkeys(n for n in walk(optimized) if isinstance(n, lp.Scan)):
        kept = {c.column.name for c in scan.columns_read if c.kind != "place"}
        whole = next((s for s in before if kept <= {c.column.name for c in s.columns_read}), scan)
        data = [c for c in whole.columns_read if c.kind in ("data", "hive")]
        read = [c for c in data if c.column.name in kept]
        if len(read) < len(data):
            yield Note("pruned", f"{scan.name}: {len(read)} of {len(data)} columns are read")


def _handed(optimized: lp.LogicalPlan) -> Iterator[Note]:
    for node in walk(optimized):
        if not isinstance(node, lp.MapRows | lp.Reduce) or not node.record:
            continue
        name = node.function.name
        names = ", ".join(n for n, _ in node.record)
        if node.reads is None:
            every = "the one column is" if len(node.record) == 1 else "all columns are"
            text = f"{every} handed to {name}: it takes the record, and may look at any of it"
        else:
            text = f"{name} gets {names}: its source looks at nothing else of the record"
        yield Note("handed", text, node.span.line if node.span else None)


def _typed(optimized: lp.LogicalPlan) -> Iterator[Note]:
    """What each function takes and gives, and what says so."""
    for node in walk(optimized):
        match node:
            case lp.PythonColumn():
                gives = node.column.type
            case lp.PythonAggregate():
                gives = node.function.returns
            case lp.MapRows() | lp.Reduce():
                named = zip(node.names, node.made, strict=True)
                gives = f"({', '.join(f'{n} {c.type}' for n, c in named)})"
            case _:
                continue
        function = node.function
        if function.told_by:
            takes = ", ".join(f"{p.name} {p.type}".rstrip() for p in function.parameters)
            text = f"{function.name}({takes}) gives {gives}, by {function.told_by}"
            yield Note("types", text, node.span.line if node.span else None)


# ---- stages -------------------------------------------------------------------------------------


def _sql_steps(stage: Stage) -> int:
    return sum(isinstance(step, RunSql) for step in stage.steps)


def _fused(stages: PhysicalPlan, unfused: PhysicalPlan) -> Iterator[Note]:
    for stage, before in zip(stages.stages, unfused.stages, strict=True):
        count, now = _sql_steps(before), _sql_steps(stage)
        if now < count:
            yield Note("fused", f"stage {stage.id}: {count} steps of SQL into {now}")
        for step in stage.steps:
            if isinstance(step, RunSql) and isinstance(step.plan, lp.Shared):
                names = " and ".join(dict.fromkeys(word(table) for _, table in step.plan.tables))
                text = f"stage {stage.id}: {names}, written more than once, is computed once"
                yield Note("shared", text)


def _cuts(stages: PhysicalPlan) -> Iterator[Note]:
    """Why a stage ends where it does."""
    for stage in stages.stages:
        readers = [s for s in stages.stages if stage.id in s.inputs or _reads(s, stage)]
        if not isinstance(stage.sink, Keep) or not readers:
            continue
        reader = readers[0]
        if readers[1:]:
            *most, last = (str(r.id) for r in readers)
            why = f"its rows are computed once, and read by the stages {', '.join(most)} and {last}"
            yield Note("shared", f"stage {stage.id}: {why}")
            continue
        if stage.spread is not None and stage.spread.order:
            why = f"stage {reader.id} puts its rows in order, range by range"
        elif stage.by_partition:
            why = f"its groups are made partition by partition, before stage {reader.id} reads them"
        elif reader.by_partition:
            why = f"{_consumer(reader, stage)} in stage {reader.id} takes its rows by keys"
        elif reader.spread is not None and not reader.spread.keys:
            by = "ORDER BY" if reader.spread.order else "SHUFFLE"
            why = f"{by} deals its rows out in stage {reader.id}"
        elif _reads(reader, stage):
            calls = [s.call for s in reader.steps if isinstance(s, CallPython)]
            names = ", ".join(dict.fromkeys(word(c) for c in calls))
            parts = "group by group" if reader.by_file else "in parts"
            why = f"{names} in stage {reader.id} works on its rows {parts}"
        elif _is_joined(reader, stage):
            why = f"its rows are few: each task of stage {reader.id} joins its own to all of them"
        elif isinstance(reader.sink, Keep) and reader.sink.starts is not None:
            why = f"stage {reader.id} puts the rows of each group together"
        elif stage.limit is not None:
            why = f"LIMIT in stage {reader.id} takes {stage.limit} rows, then no task is begun"
        else:
            why = f"{_consumer(reader, stage)} in stage {reader.id} needs all of its rows"
            if _consumer(reader, stage) in ("WHERE", "SQL", "UNNEST"):
                why = f"its rows are computed once, before stage {reader.id} reads them"
        yield Note("stage", f"stage {stage.id} ends here: {why}")


def _reads(reader: Stage, stage: Stage) -> bool:
    source = reader.source
    return isinstance(source, lp.StageResult) and source.stage == stage.id


def _is_joined(reader: Stage, stage: Stage) -> bool:
    """Whether the tasks of a stage join their rows to those of another one."""
    rights = (join.right for join in _task_joins(reader))
    return any(isinstance(r, lp.StageResult) and r.stage == stage.id for r in rights)


def _task_joins(stage: Stage) -> list[lp.Join]:
    """The joins that the tasks of a stage do."""
    if stage.source is None:
        return []
    return [node for step in stage.steps for node in walk(step) if isinstance(node, lp.Join)]


def _consumer(reader: Stage, stage: Stage) -> str:
    for node in walk(reader):
        below = [c for c in children(node) if isinstance(c, lp.StageResult)]
        if isinstance(node, lp.LogicalPlan) and any(b.stage == stage.id for b in below):
            if isinstance(node, lp.Project):
                return "a window function" if any(map(has_window, node.assigns)) else "SQL"
            return word(node)
    return "a subquery"


_STRATEGIES = {
    "hash": "as asked for: DuckDB's hash join, which holds the side that it takes for smaller",
    "broadcast": "as asked for: DuckDB's hash join holds the right side, for all its threads; the"
    " joins of this statement are made in the order of the text",
    "merge": "equal keys are joined by hash, sorted or not: DuckDB has no merge join for them",
}


def _joins(optimized: lp.LogicalPlan, stages: PhysicalPlan) -> Iterator[Note]:
    """Which joins tasks do, and what becomes of the strategies that hints ask for."""
    homes = {
        (join.right.columns, join.condition): stage.id
        for stage in stages.stages
        for join in _task_joins(stage)
    }
    for node in dict.fromkeys(n for n in walk(optimized) if isinstance(n, lp.Join)):
        line = _line(node.condition) if node.condition is not None else None
        home = homes.get((node.right.columns, node.condition)) if node.broadcast else None
        if home is not None:
            why = "as the hint asks" if node.strategy else _smallness(node.right)
            yield Note("join", f"{word(node)} in each task of stage {home}: broadcast: {why}", line)
        elif node.strategy:
            yield Note("join", f"strategy {node.strategy}: {_STRATEGIES[node.strategy]}", line)


def _smallness(right: lp.LogicalPlan) -> str:
    """Why the right side of a join may be held by every task."""
    files = {file for n in walk(right) if isinstance(n, lp.Scan) for file in n.files}
    if not files:
        return "the right side is written in the script"
    return f"the right side is {mib(sum(file.size for file in files))} of files"


# ---- order --------------------------------------------------------------------------------------


def _unseen_sorts(plan: lp.LogicalPlan) -> Iterator[Note]:
    """Sorts whose order nothing above them can see."""
    for sort in unseen_sorts(plan):
        keys = ", ".join(written(k.expr) for k in sort.keys)
        text = f"nothing sees the order of ORDER BY {keys}: it can be left out"
        yield Note("order", text, _line(sort.keys[0].expr))
