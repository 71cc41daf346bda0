"""Aggregates of Python classes: a state for each group, whose rows are handed over one by one.

The rows of a group, or its states, stand together; no more than the state of one group is alive.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

from zql.execution import kinds
from zql.execution.binding import Argument, AsText, Bound, CallError, Catch, Constants
from zql.execution.folders import Merger, Stepper
from zql.execution.misfit import show
from zql.execution.udf import ORDINAL
from zql.logical.plan import Fold
from zql.physical.exchange import STARTS

if TYPE_CHECKING:
    import pyarrow as pa

_MOST_BYTES = 16 * 2**20
"""So many bytes of states become a batch, even if these are few."""


class FoldCaller:
    """Computes the aggregates of one `Fold` over the rows of a task, each group's together."""

    def __init__(
        self,
        call: Fold,
        constants: Constants,
        as_text: AsText,
        *,
        catch: Catch = BaseException,
        most_rows: int = 8192,
    ) -> None:
        """Loads the classes; raises `CallError`. `most_rows` bounds the batches that come out."""
        self.seconds_waited = 0.0
        self._call = call
        self._as_text = as_text
        self._most_rows = most_rows
        kind = Merger if call.kind == "MERGE" else Stepper
        partial = call.kind == "PARTIAL"
        self._folders = [kind(a, constants, as_text, catch, partial) for a in call.aggregates]
        keys = (Argument(k.name, None, kinds.parse(k.type), False) for k in call.keys)
        self._key_values = Bound(call.aggregates[0].function, _nothing, tuple(keys), ())
        self._keys: list[pa.RecordBatch] = []
        self._group: tuple[pa.RecordBatch, int] | None = None
        self._failed_row: int | None = None
        self._numbered = False

    @property
    def calls(self) -> int:
        """How many rows have been handed to a `step`."""
        return sum(folder.calls for folder in self._folders)

    def run(self, stream: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """A row for each group. Raises `CallError`, and what `stream` raises."""
        open_group = False
        for batch in self._timed(stream):
            if not batch.num_rows:
                continue
            self._numbered = ORDINAL in batch.schema.names
            begun = self._begun(batch, first=not open_group)
            self._note_keys(batch, begun)
            yield from self._take(batch, begun, open_group)
            open_group = True
        if open_group or (not self._call.keys and self._call.kind != "PARTIAL"):
            self._end_group()
        if self._folders[0].done:
            yield self._batch()

    def failed_at(self) -> tuple[int | None, str]:
        """The row that a failed call was about, by its number, and the group, for people."""
        if self._group is None or not self._call.keys:
            return self._failed_row, ""
        batch, row = self._group
        keys = batch.slice(row, 1)
        (key,) = self._key_values.argument_rows(keys, self._as_text)
        return self._failed_row, f"the group {show(key[0] if len(key) == 1 else key)}"

    def _timed(self, stream: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        while True:
            began = time.perf_counter()
            batch = next(stream, None)
            self.seconds_waited += time.perf_counter() - began
            if batch is None:
                return
            yield batch

    def _begun(self, batch: pa.RecordBatch, *, first: bool) -> list[int]:
        """The rows of a batch in which groups begin; the very first row is one."""
        import pyarrow.compute as pc

        starts: list[int] = []
        if self._call.keys:
            starts = pc.indices_nonzero(batch.column(STARTS)).to_pylist()
        if first and starts[:1] != [0]:
            starts.insert(0, 0)
        return starts

    def _note_keys(self, batch: pa.RecordBatch, begun: list[int]) -> None:
        import pyarrow as pa

        if begun and self._call.keys:
            names = [k.name for k in self._call.keys]
            self._keys.append(batch.select(names).take(pa.array(begun, pa.int64())))

    def _take(
        self, batch: pa.RecordBatch, begun: list[int], open_group: bool
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a batch, group by group; what is done comes out when it is much."""
        try:
            for folder in self._folders:
                folder.open(batch)
        except CallError as error:
            self._failed_row = self._number(batch, error.row)
            self._group = None
            raise
        edges = [*begun, batch.num_rows]
        if edges[0]:
            self._feed(batch, 0, edges[0])
        for start, stop in pairwise(edges):
            if open_group:
                self._end_group()
                if self._is_full():
                    yield self._batch()
            open_group = True
            self._group = (batch, start)
            self._feed(batch, start, stop)

    def _feed(self, batch: pa.RecordBatch, start: int, stop: int) -> None:
        for folder in self._folders:
            try:
                folder.feed(start, stop)
            except CallError as error:
                self._failed_row = self._number(batch, error.row)
                raise

    def _number(self, batch: pa.RecordBatch, row: int) -> int | None:
        """Which row of its input a row of a batch was; rows behind a sort are no input's."""
        if self._call.kind != "PARTIAL":
            return None
        return int(batch.column(ORDINAL)[row].as_py())

    def _end_group(self) -> None:
        for folder in self._folders:
            folder.end()

    def _is_full(self) -> bool:
        folders = self._folders
        many = len(folders[0].done) >= self._most_rows
        return many or sum(folder.bytes for folder in folders) >= _MOST_BYTES

    def _batch(self) -> pa.RecordBatch:
        """The groups that are done, as a batch."""
        import pyarrow as pa

        count = len(self._folders[0].done)
        columns: list[pa.Array] = []
        names = [c.name for c in self._call.columns]
        if self._call.keys:
            known = pa.Table.from_batches(self._keys).combine_chunks()
            taken, rest = known.slice(0, count), known.slice(count)
            columns = [_one(column) for column in taken.columns]
            self._keys = rest.to_batches()
        for folder in self._folders:
            try:
                columns.append(folder.results())
            except CallError as error:
                width = len(self._call.keys)
                keys = pa.RecordBatch.from_arrays(columns[:width], names[:width])
                self._group = (keys, error.row)
                raise
        if self._numbered:
            columns.append(pa.array([0] * count, pa.int64()))
            names.append(ORDINAL)
        return pa.RecordBatch.from_arrays(columns, names)


def _one(column: pa.ChunkedArray) -> pa.Array:
    import pyarrow as pa

    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def _nothing() -> None:
    """In the place of a function where only its arguments are wanted."""
