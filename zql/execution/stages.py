"""Questions about stages, and stages made of others."""

from __future__ import annotations

from dataclasses import replace

from zql.errors import ZqlError
from zql.execution.engine import EngineError
from zql.execution.wording import worded
from zql.expr.expression import Column
from zql.logical.plan import Aggregate, StageResult
from zql.optimizer.held_states import can_be_parted, holds_states
from zql.physical.plan import Keep, RunSql, Stage
from zql.tree import walk

PARTITIONS_HINT = (
    "SET partitions = 16 makes a part of the groups at a time; or raise the memory budget"
    " (--memory, SET memory)"
)


def could_be_parted(stage: Stage) -> bool:
    """Whether a stage holds groups in memory that could be made partition by partition."""
    groups = [node for node in walk(stage) if isinstance(node, Aggregate)]
    return not stage.by_partition and any(holds_states(g) and can_be_parted(g) for g in groups)


def is_python(stage: Stage) -> bool:
    """Whether a stage is Python's (its calls, reader or writer), and so is cut into tasks."""
    return stage.source is not None


def columns_of(stage: Stage) -> tuple[Column, ...]:
    """The columns of the rows that a stage gives."""
    last = stage.steps[-1]
    return (last.plan if isinstance(last, RunSql) else last.call).columns


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
