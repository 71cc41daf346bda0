"""Physical plans: stages of steps. Frozen data: tasks are made from it, nothing runs here.

A stage with a `source` is cut into tasks over the splits of that source, run by the worker pool;
a stage without one is a single DuckDB statement with all threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace

from zql.expr.expression import Column, SortKey
from zql.expr.functions import ErrorPolicy, PythonFormat, PythonFunction
from zql.logical import plan as lp
from zql.logical.plan import (
    Apply,
    Fold,
    LogicalPlan,
    PythonOperator,
    Scan,
    StageResult,
)
from zql.resources import Resources, most
from zql.tree import Node, node, walk


@node
class RunSql(Node):
    """A logical plan that DuckDB runs as one SELECT.

    Its leaves are scans, results of earlier stages, or `BatchInput`: the rows of the step before.
    """

    plan: LogicalPlan


@node
class CallPython(Node):
    """Python over batches: an operator whose input is `BatchInput`.

    A REDUCE wants the rows of each group together, as `exchange` puts them.
    """

    call: PythonOperator


Step = RunSql | CallPython


def step_columns(step: Step) -> tuple[Column, ...]:
    """The columns of the rows that a step gives."""
    return step.plan.columns if isinstance(step, RunSql) else step.call.columns


@node
class Spread(Node):
    """How rows are dealt to partitions: by ranges of `ticket`, a number that chance spreads evenly.

    It is a BIGINT from 0 on, or a DOUBLE from 0 to 1. The rows are ordered by it, and by `place`
    where two are equal. Without a place the ticket is a hash, which `hash` names, of the columns
    `keys`: rows of equal keys are in one partition, in the order in which they came. With an
    `order` the ticket is what `SORT_KEY` makes of its keys, and ranges of it are sampled.
    """

    ticket: Column
    place: Column | None
    parts: int
    keys: tuple[Column, ...] = ()
    hash: str = ""
    order: tuple[SortKey, ...] = ()


@node
class Keep(Node):
    """The rows stay in the run's work folder for later stages.

    With `starts` the rows of a group stay in one file: it names the column that is 1 where a group
    begins, or is empty when all rows are one group, which then is there even without any. With
    `spread` they are an exchange.
    """

    starts: str | None = None
    spread: Spread | None = None


@node
class Collect(Node):
    """The rows go to the caller under the users' names."""

    names: tuple[str, ...]


@node
class WriteFiles(Node):
    """The rows go to files; `names` are the users' names of the columns.

    The `shard` column, if there is one, has none: it says which file a row goes to, and the rows
    come sorted by it. `own` is the format when it is the user's.
    """

    uri: str
    format: str
    names: tuple[str, ...]
    mode: str = "error"
    options: tuple[tuple[str, object], ...] = ()
    shard: Column | None = None
    own: PythonFormat | None = None


@node
class Drop(Node):
    """The rows go nowhere; their number goes to the `counter` of the report, if it has a name."""

    counter: str = ""


@node
class StoreTable(Node):
    """The rows become a table of the session, under the users' names of the columns."""

    table: str
    names: tuple[str, ...]


def rejects_of(policy: int) -> int:
    """The number under which the rows that a policy kept are read, as if a stage had left them."""
    return -policy


Sink = Keep | Collect | WriteFiles | Drop | StoreTable


@node
class Stage(Node):
    """Steps that run without a break, and where their rows go.

    `row_local` says that a native stage may be run split by split (over its one `Scan`) with the
    same rows in the same order: it is when its output is sharded. `limit` is the number of rows
    that the next stage wants of this one: tasks behind those that give it need not run. `by_file`
    says that each file of its source is a task, however big; `by_partition` that it groups the rows
    of an exchange, which can be done for each partition by itself. `resources` are what its
    operators, or the program, ask for.
    """

    id: int
    source: Scan | StageResult | None
    steps: tuple[Step, ...]
    sink: Sink
    row_local: bool = False
    limit: int | None = None
    by_file: bool = False
    by_partition: bool = False
    resources: Resources | None = field(default=None, compare=False)

    @property
    def spread(self) -> Spread | None:
        """How its rows are dealt to partitions, if they are."""
        return self.sink.spread if isinstance(self.sink, Keep) else None

    @property
    def inputs(self) -> tuple[int, ...]:
        """Ids of the stages whose results this one reads."""
        found = [n.stage for step in self.steps for n in walk(step) if isinstance(n, StageResult)]
        return tuple(dict.fromkeys(found))


def resources_in(nodes: Iterable[Node]) -> Resources | None:
    """What the operators in plans ask for together."""
    return most(
        node.resources
        for top in nodes
        for node in walk(top)
        if isinstance(node, PythonFunction | lp.ASKING) and node.resources is not None
    )


def policies_in(step: Step) -> tuple[ErrorPolicy, ...]:
    """The policies of a step's Python calls."""
    if isinstance(step, RunSql):
        return ()
    if isinstance(step.call, Fold):
        return ()
    calls = step.call.calls if isinstance(step.call, Apply) else (step.call,)
    return tuple(dict.fromkeys(c.on_error for c in calls if c.on_error is not None))


def policies_of(stage: Stage) -> tuple[ErrorPolicy, ...]:
    """The policies of a stage's Python calls, in order."""
    return tuple(dict.fromkeys(p for step in stage.steps for p in policies_in(step)))


def policed_scans(stage: Stage) -> tuple[Scan, ...]:
    """The scans of a stage that pass over rows which cannot be read."""
    scans = [n for step in stage.steps for n in walk(step) if isinstance(n, Scan)]
    if isinstance(stage.source, Scan):
        scans.append(stage.source)
    return tuple(dict.fromkeys(scan for scan in scans if scan.on_error is not None))


@node
class PhysicalPlan(Node):
    """Stages in an order in which they can run; those that do not end in `Keep` are the outputs."""

    stages: tuple[Stage, ...]

    @property
    def outputs(self) -> tuple[Stage, ...]:
        """The stages whose rows leave the plan, in the order of the script."""
        return tuple(stage for stage in self.stages if not isinstance(stage.sink, Keep))

    def asking(self, resources: Mapping[int, Resources]) -> PhysicalPlan:
        """The plan with what the program says of stages, by their place from 0, over hints."""
        if not resources:
            return self
        stages = [
            replace(s, resources=resources[i].over(s.resources or Resources()))
            if i in resources
            else s
            for i, s in enumerate(self.stages)
        ]
        return replace(self, stages=tuple(stages))

    @property
    def writes(self) -> bool:
        """Whether something is left behind: files, or a table."""
        return any(isinstance(stage.sink, WriteFiles | StoreTable) for stage in self.stages)
