"""MAP SHARDS: a function that goes through all rows of a task, one after the other."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from operator import length_hint
from typing import TYPE_CHECKING, Any

from zql.execution.binding import AsText, CallError, Catch, Constants, bind, failed
from zql.execution.call_timeout import waiting
from zql.execution.held import Attempt
from zql.execution.records import (
    Given,
    as_batch,
    gathered,
    items_of,
    record_columns,
    with_constants,
)
from zql.execution.shard import Shard
from zql.execution.udf import ORDINAL
from zql.logical.plan import MapRows

if TYPE_CHECKING:
    import pyarrow as pa


class Rows:
    """Rows on their way into a function, in blocks; it knows what became of them.

    A failure of what makes the rows shows up inside of the function, which might keep it for
    itself: `error` remembers it.
    """

    def __init__(self, blocks: Iterator[list[Any]]) -> None:
        self.error: BaseException | None = None
        self.seconds = 0.0
        self._blocks = blocks
        self._before = 0
        self._count = 0
        self._current: Iterator[Any] = iter(())

    def __iter__(self) -> Iterator[Any]:
        return chain.from_iterable(self._pieces())

    @property
    def taken(self) -> int:
        """How many rows the function has taken."""
        return self._before + self._count - length_hint(self._current)

    def _pieces(self) -> Iterator[Iterator[Any]]:
        while True:
            began = time.perf_counter()
            try:
                with waiting():
                    block = next(self._blocks, None)
            except BaseException as error:
                self.error = error
                raise
            finally:
                self.seconds += time.perf_counter() - began
            if block is None:
                return
            self._before += self._count
            self._count, self._current = len(block), iter(block)
            yield self._current


class ShardCaller:
    """Makes the one call of a `MapRows` of the kind MAP SHARDS in one task."""

    def __init__(
        self,
        call: MapRows,
        shard: Shard,
        constants: Constants,
        as_text: AsText,
        *,
        catch: Catch = BaseException,
        most_rows: int = 8192,
        attempt: Attempt | None = None,
        place: str = "",
    ) -> None:
        """Loads the function; raises `CallError`. `most_rows` bounds the batches that come out.

        With `attempt` a shard whose call fails is let go; `place` says for people which it is.
        """
        self.calls = 0
        self._attempt = attempt
        self._place = place
        self._call = call
        self._as_text = as_text
        self._catch = catch
        self._most_rows = most_rows
        self._function = with_constants(call.function, call.keywords, constants, catch)
        self._bound = bind(replace(call, keywords=()), constants, catch)
        self._shard = {call.shard: shard} if call.shard else {}
        self._numbered = False
        self._numbers: list[int] = []
        self._first = 0
        self._rows = Rows(iter(()))

    @property
    def seconds_waited(self) -> float:
        """How long the function waited for its rows."""
        return self._rows.seconds

    def run(self, stream: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches that come of all rows. Raises `CallError`, and what `stream` raises."""
        blocks = self._blocks(stream)
        self._rows = Rows(blocks)
        self.calls = 1
        if self._attempt is None:
            yield from self._batches()
        else:
            yield from self._attempt.results(self._batches(), blocks, lambda: self._place)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        """What the call gives."""
        call, rows = self._call, self._rows
        try:
            try:
                found = self._function(iter(rows), **self._shard)
            except self._catch as error:
                raise failed(call.function, 0, error) from None
            items = items_of(call.function, found, call.kind, self._catch)
            for piece in gathered(call, (Given(item, 0) for item in items), self._most_rows):
                numbers = [self.last_row or 0] * len(piece) if self._numbered else None
                names = [c.name for c in call.columns]
                yield as_batch(record_columns(call, piece), names, numbers)
        except CallError:
            if rows.error is not None:
                raise rows.error from None
            raise
        if rows.error is not None:
            raise rows.error

    @property
    def last_row(self) -> int | None:
        """The number of the last row that the function took; None when it took none."""
        taken = self._rows.taken
        if not taken:
            return None
        place = taken - 1 - self._first
        return self._numbers[place] if self._numbered and place >= 0 else taken - 1

    def _blocks(self, stream: Iterator[pa.RecordBatch]) -> Iterator[list[Any]]:
        alone = len(self._call.args) <= 1
        self._first = count = 0
        for batch in stream:
            if ORDINAL in batch.schema.names:
                self._numbered = True
                self._numbers = batch.column(ORDINAL).to_pylist()
            self._first = count
            count += batch.num_rows
            if self._attempt is not None:
                self._attempt.take(batch)
            rows = self._bound.argument_rows(batch, self._as_text)
            yield [row[0] for row in rows] if alone else list(rows)
