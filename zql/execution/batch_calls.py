"""MAP BATCHES: a function of many rows at a time, as dicts or as a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zql.execution import frames, kinds
from zql.execution.binding import AsText, CallError, Catch, Constants, bind, failed
from zql.execution.kept import rechunked
from zql.execution.misfit import Misfit, show
from zql.execution.records import (
    Given,
    as_batch,
    gathered,
    items_of,
    record_columns,
    with_constants,
)
from zql.execution.refused import RefusedCallError
from zql.execution.rejects import Failed, is_failure
from zql.execution.udf import ORDINAL
from zql.expr.functions import ErrorPolicy
from zql.logical.plan import MapRows

if TYPE_CHECKING:
    import pyarrow as pa


class BatchCaller:
    """Makes the calls of one `MapRows` of the kind MAP BATCHES; one for each task and step."""

    def __init__(
        self,
        call: MapRows,
        constants: Constants,
        as_text: AsText,
        *,
        catch: Catch = BaseException,
        most_rows: int = 8192,
    ) -> None:
        """Loads the function; raises `CallError`. `most_rows` bounds the batches that come out."""
        self.calls = 0
        self.failures: list[Failed] = []
        """Those that a policy lets go, by row; whoever takes them clears the list."""
        self._call = call
        self._as_text = as_text
        self._catch = catch
        self._most_rows = most_rows
        self._function = with_constants(call.function, call.keywords, constants, catch)
        self._bound = bind(replace(call, keywords=()), constants, catch)

    def run(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The batches that come of one batch; a `CallError` is about all of its rows."""
        policy = self._call.on_error
        if policy is None:
            yield from self._whole(batch)
            return
        try:
            pieces = list(self._whole(batch))
        except CallError as error:
            if not is_failure(error):
                raise
            pieces = self._parts(batch, policy, error)
        yield from rechunked(pieces, self._most_rows)

    def _parts(
        self, batch: pa.RecordBatch, policy: ErrorPolicy, error: CallError
    ) -> list[pa.RecordBatch]:
        """What comes of the rows of a failed batch one by one, without those that fail alone.

        A volatile function is not called a second time: then all rows go.
        """
        rows = range(batch.num_rows)
        if self._call.function.volatile or batch.num_rows == 1:
            self.failures += [Failed(policy, row, error, self._shown(batch, row)) for row in rows]
            return []
        pieces: list[pa.RecordBatch] = []
        for row in rows:
            try:
                pieces += list(self._whole(batch.slice(row, 1)))
            except CallError as alone:
                if not is_failure(alone):
                    raise
                self.failures.append(Failed(policy, row, alone, self._shown(batch, row)))
        return pieces

    def _shown(self, batch: pa.RecordBatch, row: int) -> str:
        """A row for a message."""
        (args,) = self._bound.argument_rows(batch.slice(row, 1), self._as_text)
        return show(args[0]) if len(args) == 1 else show(args)

    def _whole(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """The batches that come of one call."""
        call = self._call
        given = self._given(batch)
        self.calls += 1
        try:
            found = self._function(given)
            table = frames.table_of(found)
        except self._catch as error:
            raise failed(call.function, 0, error) from None
        number = None
        if ORDINAL in batch.schema.names:
            number = batch.column(ORDINAL)[0].as_py()
        if table is not None:
            yield from self._pieces(table, number)
            return
        if found is None:
            message = "gave None, where MAP BATCHES takes a table or records"
            raise CallError("R711", call.function.name, 0, message, hint="return [] for no rows")
        items = items_of(call.function, found, call.kind, self._catch)
        for piece in gathered(call, (Given(item, 0) for item in items), self._most_rows):
            numbers = None if number is None else [number] * len(piece)
            yield as_batch(record_columns(call, piece), [c.name for c in call.columns], numbers)

    def _given(self, batch: pa.RecordBatch) -> Any:
        """The rows as the function takes them."""
        form = self._call.function.form
        if form and self._call.record:
            try:
                return frames.handed(self._as_table(batch), form)
            except RefusedCallError as error:
                raise failed(self._call.function, 0, error) from None
        rows = self._bound.argument_rows(batch, self._as_text)
        alone = len(self._call.args) <= 1
        return [row[0] for row in rows] if alone else list(rows)

    def _as_table(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The columns of the record in their wire types, under the users' names."""
        import pyarrow as pa

        columns = []
        for _, column in self._call.record:
            kind = kinds.parse(column.type)
            array = batch.column(column.name)
            target = kinds.arrow_type(kinds.wire_type(kind))
            if array.type != target:
                array = self._as_text(batch, column.name, kind)
            if array.type != target:
                array = array.cast(target)
            columns.append(array)
        return pa.RecordBatch.from_arrays(columns, [name for name, _ in self._call.record])

    def _pieces(self, table: pa.Table, number: int | None) -> Iterator[pa.RecordBatch]:
        call = self._call
        types = [kinds.parse(c.type) for c in call.columns]
        try:
            columns = frames.table_columns(table, call.names, types)
        except Misfit as misfit:
            message = f"gave {show(misfit.value)}, which does not fit: {misfit.why}"
            hint = "RETURNS (name TYPE, ..) behind it says other columns"
            raise CallError("R711", call.function.name, 0, message, hint=hint) from None
        names = [c.name for c in call.columns]
        for start in range(0, table.num_rows, self._most_rows):
            piece = [column.slice(start, self._most_rows) for column in columns]
            numbers = None if number is None else [number] * len(piece[0])
            yield as_batch(piece, names, numbers)
