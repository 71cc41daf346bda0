"""A logical plan cut into stages, wherever rows must meet rows or SQL must hand over to Python.

Native operators over anything native stay one statement. A Python call over a scan (with row-wise
SQL before it) becomes tasks over the scan's splits, and row-wise SQL behind it joins the tasks.
So does a scan by a reader of the user's own: it is Python, and gives its rows once.
What needs all rows (a group, a sort, a join) reads the results that the tasks left. A join to few
rows does not need all: tasks can do it (`zql/physical/broadcast.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from zql.errors import BindError
from zql.expr import expression as ex
from zql.logical import plan as lp
from zql.optimizer.facts import free_columns, has_window
from zql.physical import folds
from zql.physical.broadcast import (
    cut_at_joins,
    has_join,
    is_row_wise,
    may_follow_joins,
    with_right_sides,
    without_last_joins,
)
from zql.physical.dealt import dealt, ranged
from zql.physical.exchange import STARTS, exchange
from zql.physical.fuse import over
from zql.physical.plan import (
    CallPython,
    Collect,
    Drop,
    Keep,
    PhysicalPlan,
    RunSql,
    Sink,
    Spread,
    Stage,
    Step,
    StoreTable,
    WriteFiles,
    policies_of,
    rejects_of,
    resources_in,
    step_columns,
)
from zql.tree import Node, children, map_children, node, walk


@node
class _Native:
    """A subtree that is one DuckDB statement."""

    plan: lp.LogicalPlan

    @property
    def columns(self) -> tuple[ex.Column, ...]:
        return self.plan.columns


@node
class _Tasks:
    """Steps over the splits of a source."""

    source: lp.Scan | lp.StageResult
    steps: tuple[Step, ...]
    columns: tuple[ex.Column, ...]
    by_file: bool = False


def split(plan: lp.Root) -> PhysicalPlan:
    """The stages of an optimized plan, unfused. Raises `BindError` for what cannot be run."""
    return _Splitter().root(plan)


def _sink(plan: lp.Output) -> Sink:
    match plan:
        case lp.Write():
            return WriteFiles(
                plan.uri, plan.format, plan.names, plan.mode, plan.options, plan.shard, plan.own
            )
        case lp.Query():
            return Collect(plan.names)
        case lp.Finish():
            return Drop(plan.counter)
        case lp.Store():
            return StoreTable(plan.table, plan.names)


class _Splitter:
    def __init__(self) -> None:
        self.stages: list[Stage] = []
        self.common: dict[int, lp.StageResult] = {}

    def root(self, plan: lp.Root) -> PhysicalPlan:
        if isinstance(plan, lp.Program):
            for common in plan.commons:
                self.common[common.number] = self.kept(self.build(common.input))
        outputs = lp.outputs_of(plan)
        for output in outputs:
            self.finish(self.build(output.input), _sink(output))
        stages = tuple(self.stages)
        return PhysicalPlan(_with_limit(stages) if len(outputs) == 1 else stages)

    def finish(self, part: _Native | _Tasks, sink: Sink) -> int:
        """Adds a stage; its id."""
        if isinstance(part, _Native) and _is_written_by_tasks(sink):
            source = _source(part.plan)
            part = part if source is None else _Tasks(source, (RunSql(part.plan),), part.columns)
        if isinstance(part, _Tasks):
            part = replace(part, steps=with_right_sides(part.steps, self.right_side))
        number = len(self.stages) + 1
        if isinstance(part, _Native):
            local = is_row_local(part.plan) and not isinstance(part.plan, lp.StageResult)
            stage = Stage(number, None, (RunSql(part.plan),), sink, local)
        else:
            stage = Stage(number, part.source, part.steps, sink, by_file=part.by_file)
        stage = replace(stage, resources=resources_in(stage.steps))
        self.stages.append(stage)
        return number

    def kept(self, part: _Native | _Tasks, sink: Keep | None = None) -> lp.StageResult:
        """The result of a stage of its own."""
        return lp.StageResult(self.finish(part, sink or Keep()), part.columns)

    def native(self, plan: lp.LogicalPlan) -> lp.LogicalPlan:
        """The plan as SQL: what needs tasks is computed before and read back."""
        return self.natively(self.build(plan))

    def natively(self, part: _Native | _Tasks) -> lp.LogicalPlan:
        """A part as SQL; joins that its tasks would end with go into the statement that follows."""
        if isinstance(part, _Native):
            return part.plan
        steps, joined = without_last_joins(part.steps)
        plan: lp.LogicalPlan = self.kept(
            replace(part, steps=steps, columns=step_columns(steps[-1]))
        )
        for step in joined:
            plan = over(step.plan, plan)
        return plan

    def right_side(self, plan: lp.LogicalPlan) -> lp.LogicalPlan:
        """What each task joins its rows to, computed once before them."""
        if isinstance(plan, lp.Values | lp.StageResult):
            return plan
        return self.kept(_Native(plan))

    def build(self, plan: lp.LogicalPlan) -> _Native | _Tasks:
        match plan:
            case lp.Reduce(kind="REDUCE"):
                return self.reduce(plan)
            case lp.Fold(kind="AGGREGATE"):
                return self.fold(folds.narrowed(plan))
            case lp.Apply() | lp.MapRows() | lp.Reduce() | lp.Fold():
                return self.python(plan)
            case lp.Scan() if plan.own is not None:
                return _Tasks(plan, (RunSql(plan),), plan.columns)
            case lp.Rejects(number, columns):
                return _Native(lp.StageResult(rejects_of(number), columns))
            case lp.CommonRows():
                return _Native(replace(self.common[plan.number], columns=plan.columns))
            case lp.Check(kept=True):
                return _Native(self.kept(self.build(replace(plan, kept=False))))
            case lp.Sort() if plan.parts > 1:
                return self.shuffle(plan) if plan.shuffles else self.ranged(plan)
            case lp.Aggregate() if plan.parts > 1:
                return self.partitioned(plan)
            case lp.Filter() | lp.Project() | lp.Unnest() | lp.Check() if not _sees_other_rows(
                plan
            ):
                below = self.apart(plan, self.build(plan.input))
                if isinstance(below, _Tasks):
                    own = self.subqueries(plan, inline=False)
                    step = RunSql(lp.with_input(own, lp.BatchInput(below.columns)))
                    return replace(below, steps=(*below.steps, step), columns=plan.columns)
                own = self.subqueries(plan, inline=True)
                return _Native(lp.with_input(own, below.plan))
            case lp.Join(broadcast=True):
                return self.join(plan)
            case lp.Lateral():
                left, right = self.native(plan.left), _map_deep(plan.right, self)
                joined = replace(plan, left=left, right=right)
                return _Native(self.subqueries(joined, inline=True))
            case lp.RecursiveUnion():
                rounds = _map_deep(plan.step, self)
                return _Native(replace(plan, input=self.native(plan.input), step=rounds))
            case _:
                plan = self.subqueries(plan, inline=True)
                return _Native(_map_inputs(plan, self.native))

    def join(self, plan: lp.Join) -> _Native | _Tasks:
        """A join to few rows: a step of the tasks that make the others, when there are such."""
        below, right = self.build(plan.left), self.native(plan.right)
        if isinstance(below, _Tasks):
            asked = resources_in(below.steps)
            if asked is None or asked.fuse:
                step = RunSql(replace(plan, left=lp.BatchInput(below.columns), right=right))
                return replace(below, steps=(*below.steps, step), columns=plan.columns)
        return _Native(replace(plan, left=self.natively(below), right=right))

    def shuffle(self, plan: lp.Sort) -> _Native:
        """Rows dealt out by their tickets in a stage of their own."""
        ticket, place = (c for c in (k.expr for k in plan.keys) if isinstance(c, ex.Column))
        rows = _Native(self.native(plan.input))
        return _Native(self.kept(rows, Keep(spread=Spread(ticket, place, plan.parts))))

    def ranged(self, plan: lp.Sort) -> _Native:
        """Rows dealt out by ranges of what they are sorted by in a stage of their own."""
        rows, spread = ranged(plan, self.native(plan.input))
        number = self.finish(_Native(rows), Keep(spread=spread))
        return _Native(lp.StageResult(number, plan.columns))

    def partitioned(self, plan: lp.Aggregate) -> _Native:
        """Rows dealt out by their keys in a stage of their own, and groups of each partition."""
        rows, spread, groups = dealt(plan, self.native(plan.input))
        source = self.kept(_Native(rows), Keep(spread=spread))
        number = self.finish(_Native(groups(source)), Keep())
        self.stages[-1] = replace(self.stages[-1], by_partition=True)
        return _Native(lp.StageResult(number, plan.columns))

    def reduce(self, plan: lp.Reduce) -> _Tasks:
        """Groups put together by a statement of their own, then worked on file by file."""
        return self.by_group(plan, exchange(plan, self.native(plan.input)), bool(plan.keys))

    def fold(self, plan: lp.Fold) -> _Native | _Tasks:
        """One pass over the input, or several, and DuckDB's own, over rows that are kept first."""
        ways = folds.passes(plan)
        if len(ways) == 1 and not plan.natives:
            return self.fold_pass(ways[0])
        rows = self.native(plan.input)
        rows = rows if isinstance(rows, lp.StageResult) else self.kept(_Native(rows))
        parts: list[lp.LogicalPlan] = [
            self.kept(self.fold_pass(replace(way, input=rows))) for way in ways
        ]
        if plan.natives:
            keys = tuple(lp.Assign(k, k) for k in plan.keys)
            native = lp.Aggregate(rows, keys, plan.natives)
            parts.append(self.subqueries(native, inline=True))
        return _Native(folds.joined(plan, parts))

    def fold_pass(self, way: lp.Fold) -> _Tasks:
        """The rows of a pass put together by a statement of their own, or else their states."""
        if folds.in_parts(way):
            states = self.kept(self.python(folds.partial(way)))
            way, rows = folds.merging(way), folds.grouped(folds.merging(way), states)
        else:
            rows = folds.grouped(way, self.native(way.input))
        return self.by_group(way, rows, bool(way.keys))

    def by_group(self, call: lp.Reduce | lp.Fold, rows: lp.LogicalPlan, keyed: bool) -> _Tasks:
        """Python over rows that a statement puts together group by group."""
        source = self.kept(_Native(rows), Keep(STARTS if keyed else ""))
        step = CallPython(replace(call, input=lp.BatchInput(source.columns)))
        return _Tasks(source, (RunSql(source), step), call.columns, by_file=True)

    def apart(self, plan: lp.LogicalPlan, below: _Native | _Tasks) -> _Native | _Tasks:
        """What is below an operator, as a stage of its own when hints want them apart."""
        steps = below.steps if isinstance(below, _Tasks) else (below.plan,)
        own = resources_in((lp.with_input(plan, lp.BatchInput(())),))
        theirs = resources_in(steps)
        if own == theirs:  # parts of one operator, for one
            return below
        alone = [r for r in (own, theirs) if r is not None and not r.fuse]
        if not alone and (own is None or theirs is None or not own.clashes(theirs)):
            return below
        one = below.plan if isinstance(below, _Native) else None
        if isinstance(one, lp.Scan | lp.StageResult):
            return below
        return _Native(self.kept(below))

    def python(self, plan: lp.PythonOperator) -> _Tasks:
        below = self.tasks(plan, self.apart(plan, self.build(plan.input)))
        call = CallPython(replace(plan, input=lp.BatchInput(below.columns)))
        return replace(below, steps=(*below.steps, call), columns=plan.columns)

    def tasks(self, plan: lp.PythonOperator, below: _Native | _Tasks) -> _Tasks:
        """What is below a Python operator as tasks, with joins to few rows in them if it may be."""
        joins = may_follow_joins(plan)
        if isinstance(below, _Tasks):
            if joins or not any(isinstance(s, RunSql) and has_join(s.plan) for s in below.steps):
                return below
            below = _Native(self.natively(below))
        if (source := _source(below.plan)) is not None:
            return _Tasks(source, (RunSql(below.plan),), below.columns)
        found = cut_at_joins(below.plan) if joins else None
        source = None if found is None else _source(found[0])
        if found is None or source is None:
            source = self.kept(below)
            return _Tasks(source, (RunSql(source),), below.columns)
        rows, joined = found
        return _Tasks(source, (RunSql(rows), RunSql(joined)), below.columns)

    def subqueries(self, plan: lp.LogicalPlan, inline: bool) -> lp.LogicalPlan:
        """Plans of subqueries made SQL; inside tasks each is computed once, before them."""

        def visit(node: Node) -> Node:
            if isinstance(node, lp.LogicalPlan):
                return node
            if isinstance(node, ex.Subquery):
                return self.subquery(node, inline)
            return map_children(node, visit)

        return map_children(plan, visit)

    def subquery(self, node: ex.Subquery, inline: bool) -> ex.Subquery:
        query: lp.LogicalPlan = node.query  # type: ignore[assignment]
        correlated = bool(free_columns(query))
        python = any(isinstance(n, lp.PythonOperator) for n in walk(query))
        if correlated and (python or not inline):
            raise BindError(
                "a subquery that looks at the outer row cannot stand beside Python here",
                code="P408",
                span=node.span,
                hint="write it as a JOIN",
            )
        if correlated:
            return replace(node, query=_map_deep(query, self))
        native = self.native(query)
        if not inline and not isinstance(native, lp.Values | lp.StageResult):
            native = self.kept(_Native(native))
        return replace(node, query=native)


def _map_deep(query: lp.LogicalPlan, splitter: _Splitter) -> lp.LogicalPlan:
    if isinstance(query, lp.Scan) and query.own is not None:
        return splitter.native(query)
    query = splitter.subqueries(query, inline=True)
    return _map_inputs(query, lambda p: _map_deep(p, splitter))


def _map_inputs(
    plan: lp.LogicalPlan, function: Callable[[lp.LogicalPlan], lp.LogicalPlan]
) -> lp.LogicalPlan:
    """The plan with its inputs replaced; plans inside its expressions are left alone."""

    def visit(node: Node) -> Node:
        return function(node) if isinstance(node, lp.LogicalPlan) else node

    return map_children(plan, visit)


CUT_BY = frozenset({"shards", "max_rows_per_file", "file_size_bytes", "partition_by"})
"""Options of WRITE by which all rows are kept first, and then cut."""


def _is_written_by_tasks(sink: Sink) -> bool:
    """Whether a writer of the user's own writes several files: each is written in a worker."""
    if not isinstance(sink, WriteFiles) or sink.own is None:
        return False
    if not CUT_BY.isdisjoint(dict(sink.options)):
        return False
    return "{shard" in sink.uri or sink.uri.endswith("/")


def _sees_other_rows(plan: lp.Filter | lp.Project | lp.Unnest | lp.Check) -> bool:
    own = [c for c in children(plan) if not isinstance(c, lp.LogicalPlan)]
    return any(has_window(node) for node in own)


def is_row_local(plan: lp.LogicalPlan) -> bool:
    """Whether each row comes from one row of one scan, in its order."""
    return _source(plan) is not None


def _source(plan: lp.LogicalPlan) -> lp.Scan | lp.StageResult | None:
    while is_row_wise(plan):
        plan = plan.input
    return plan if isinstance(plan, lp.Scan | lp.StageResult) else None


def _with_limit(stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
    """`LIMIT` over the tasks of the stage before: these may stop when they have enough rows."""
    if len(stages) < 2:
        return stages
    last, before = stages[-1], stages[-2]
    (step,) = last.steps if last.source is None else (None,)
    plan = step.plan if isinstance(step, RunSql) else None
    while isinstance(plan, lp.Project):
        plan = plan.input
    if before.source is None or not isinstance(plan, lp.Limit) or plan.count is None:
        return stages
    if any(policy.limited for policy in policies_of(before)):
        return stages  # all rows count there
    below = plan.input
    while isinstance(below, lp.Project) and not _sees_other_rows(below):
        below = below.input
    reads = [n for n in walk(last) if isinstance(n, lp.StageResult) and n.stage == before.id]
    if reads != [below]:
        return stages
    return (*stages[:-2], replace(before, limit=plan.count + plan.offset), last)
