"""Sorts that may be done range by range, and when they are.

A stage that deals its rows to ranges of what they are sorted by says so when it is reached: then
sizes are known. Else the stage that reads them sorts them, in its own statement, as long as memory
is enough for that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from zql.errors import ZqlError
from zql.execution.engine import MEMORY, OUT_OF_MEMORY, EngineError
from zql.execution.partitions import Choice
from zql.execution.settings import Settings
from zql.execution.sizes import mib
from zql.logical.plan import Shared
from zql.physical.dealt import cut_at_sort, sorted_alone, sorted_whole
from zql.physical.plan import RunSql, Stage

T = TypeVar("T")

_PARTS = 64
"""Of rows that turned out to be more than memory; the exchange has more where they are many."""


def choice(size: int, settings: Settings) -> Choice:
    """Whether rows of about `size` bytes are sorted range by range."""
    if settings.partitions is not None:
        return Choice(True, "as set")
    memory = settings.native_memory()
    if size <= memory:
        return Choice(False, f"about {mib(size)} of rows fit into DuckDB's {mib(memory)}")
    return Choice(True, f"about {mib(size)} of rows may be more than DuckDB's {mib(memory)}")


class Sorts:
    """The sorts of a run."""

    def __init__(
        self,
        choose: Callable[[Stage], Choice],
        keep: Callable[[Stage], object],
        deal: Callable[[Stage], None],
        *,
        may_cut: bool,
    ) -> None:
        """`choose` says whether the rows of a stage are dealt; `keep` and `deal` do a stage.

        With `may_cut` a sort of which the plan did not think that it might be large is dealt, too.
        """
        self._choose = choose
        self._keep_rows = keep
        self._deal = deal
        self._may_cut = may_cut
        self._left: dict[int, Stage] = {}
        """Stages whose rows are not dealt out: who reads them sorts them."""

    def reached(self, stage: Stage) -> None:
        """Deals out the rows of a stage, or leaves them to the one that reads them."""
        stage = self.whole(stage)
        if self._choose(stage).deals:
            self._deal(stage)
        else:
            self._left[stage.id] = stage

    def whole(self, stage: Stage) -> Stage:
        """The stage with sorts in its statement whose rows were left to it.

        Where it is not one statement the sorted rows are kept.
        """
        for number in stage.inputs:
            rows = self._left.get(number)
            if rows is None:
                continue
            if can_sort(stage, rows):
                stage = sorted_whole(stage, rows)
            else:
                del self._left[number]
                self._keep(rows)
        return stage

    def done(self, stage: Stage, do: Callable[[Stage], T]) -> T:
        """What is done with a stage; where memory is not enough for sorts, range by range."""
        whole = self.whole(stage)
        try:
            return do(whole)
        except ZqlError as error:
            cut = cut_at_sort(whole, _PARTS) if whole is stage and self._may_cut else None
            if not _is_of_memory(error) or (whole is stage and cut is None):
                raise
        if cut is not None:
            stage, rows = cut
            self._deal(rows)
        for number in stage.inputs:
            if number in self._left:
                self._deal(self._left.pop(number))
        return do(stage)

    def _keep(self, rows: Stage) -> None:
        """Keeps the rows, sorted, for a stage into whose statement they cannot be put."""
        try:
            self._keep_rows(sorted_alone(rows))
        except ZqlError as error:
            if not _is_of_memory(error):
                raise
            self._deal(rows)


def can_sort(stage: Stage, rows: Stage) -> bool:
    """Whether a stage is a statement into which that of the rows can be put."""
    plans = [s.plan for each in (stage, rows) for s in each.steps if isinstance(s, RunSql)]
    return stage.source is None and not all(isinstance(plan, Shared) for plan in plans)


def _is_of_memory(error: ZqlError) -> bool:
    kind = error.kind if isinstance(error, EngineError) else error.code
    return kind in {OUT_OF_MEMORY, *MEMORY}
