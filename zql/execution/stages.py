"""Questions about stages, and stages made of others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from zql.errors import ZqlError
from zql.execution.engine import EngineError
from zql.execution.kept import KeptFile
from zql.execution.wording import worded
from zql.expr.expression import Column, SortKey
from zql.logical.plan import (
    Aggregate,
    Check,
    Filter,
    Project,
    Scan,
    Sort,
    StageResult,
    Unnest,
)
from zql.optimizer.held_states import can_be_parted, holds_states
from zql.optimizer.rules.partition_sorts import can_be_ranged
from zql.physical.plan import Keep, RunSql, Stage
from zql.tree import walk

Results = Mapping[int, Sequence[KeptFile]]
"""What stages have left, by their numbers."""


def hint_of_parts(stage: Stage) -> str | None:
    """What to do when a stage is out of memory that could do a part of the rows at a time."""
    nodes = list(walk(stage))
    groups = [node for node in nodes if isinstance(node, Aggregate) and holds_states(node)]
    sorts = [node for node in nodes if isinstance(node, Sort) and not node.shuffles]
    if not stage.by_partition and any(map(can_be_parted, groups)):
        what = "makes a part of the groups"
    elif any(map(can_be_ranged, sorts)):
        what = "sorts a part of the rows"
    else:
        return None
    return (
        f"SET partitions = 16 {what} at a time; or raise the memory budget (--memory, SET memory)"
    )


def is_python(stage: Stage) -> bool:
    """Whether a stage is Python's (its calls, reader or writer), and so is cut into tasks."""
    return stage.source is not None


def columns_of(stage: Stage) -> tuple[Column, ...]:
    """The columns of the rows that a stage gives."""
    last = stage.steps[-1]
    return (last.plan if isinstance(last, RunSql) else last.call).columns


def shuffle_of(stage: Stage, stages: Iterable[Stage]) -> Sort | StageResult | None:
    """The sort by chance, or the exchange that is one, whose rows a stage of SQL gives on one by
    one; `stages` are all of the plan.
    """
    step = stage.steps[-1]
    plan = step.plan if isinstance(step, RunSql) and stage.source is None else None
    while isinstance(plan, Filter | Project | Unnest | Check):
        plan = plan.input
    if isinstance(plan, Sort):
        return plan if plan.shuffles else None
    by_chance = {each.id for each in stages if _is_dealt(each) and not _order_of(each)}
    return plan if isinstance(plan, StageResult) and plan.stage in by_chance else None


def shuffled_bytes(stage: Stage, stages: Sequence[Stage], results: Results) -> int:
    """The bytes of what the rows of a shuffle were made of; 0 when the stage gives on none."""
    return 0 if shuffle_of(stage, stages) is None else input_bytes(stage, stages, results)


def input_bytes(stage: Stage, stages: Sequence[Stage], results: Results) -> int:
    """The bytes of what a stage reads: of files, and of rows that earlier stages left.

    Of an exchange, which depends on how its rows came, those of what it was made of.
    """
    nodes = {node for top in (stage.source, *stage.steps) if top for node in walk(top)}
    total = sum(file.size for node in nodes if isinstance(node, Scan) for file in node.files)
    numbers = {node.stage for node in nodes if isinstance(node, StageResult)}
    dealt = {each.id: each for each in stages if _is_dealt(each)}
    for number in numbers:
        if number in dealt:
            total += input_bytes(dealt[number], stages, results)
        else:
            total += sum(file.bytes for file in results.get(number, ()))
    return total


def _is_dealt(stage: Stage) -> bool:
    return stage.spread is not None and not stage.spread.keys


def _order_of(stage: Stage) -> tuple[SortKey, ...]:
    return stage.spread.order if stage.spread is not None else ()


def reading(stage: Stage) -> Stage:
    """A native stage that reads what `stage` kept, and ends where it should have ended."""
    return Stage(stage.id, None, (RunSql(StageResult(stage.id, columns_of(stage))),), stage.sink)


def kept_stage(stage: Stage) -> Stage:
    """The stage with its rows kept."""
    return replace(stage, sink=Keep())


def explained(error: EngineError, stage: Stage) -> ZqlError:
    """What DuckDB's failure means: an assertion's, or the place in a file that it cannot read."""
    from zql.execution.asserts import assert_failure
    from zql.execution.task import read_failure

    found = assert_failure(error.message, stage) or read_failure(error, stage, None)
    return found or worded(error)
