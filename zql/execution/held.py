"""Rows that wait until it is known what becomes of them: in memory, then in a file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from zql.execution.binding import CallError
from zql.execution.kept import KeptWriter
from zql.execution.rejects import FailedGroup, is_failure
from zql.execution.udf import ORDINAL
from zql.expr.functions import ErrorPolicy

if TYPE_CHECKING:
    import pyarrow as pa


class HeldRows:
    """Batches of one schema, in order. More than `most_bytes` of them go into a file of `folder`.

    Without a folder all stay in memory.
    """

    def __init__(self, folder: str, most_bytes: int) -> None:
        self.rows = 0
        self._folder = folder
        self._most_bytes = most_bytes
        self._bytes = 0
        self._batches: list[pa.RecordBatch] = []
        self._path = ""
        self._writer: KeptWriter | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Appends rows."""
        self.rows += batch.num_rows
        if self._writer is None:
            self._batches.append(batch)
            self._bytes += batch.nbytes
            if self._bytes > self._most_bytes and self._folder:
                self._spill(batch.schema)
        else:
            self._writer.write(batch)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows; none can be added any more."""
        import pyarrow as pa

        if not self._path:
            yield from self._batches
            return
        self._finish()
        reader = pa.ipc.open_file(pa.memory_map(self._path))
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number)

    def forget(self) -> None:
        """Lets go of all rows, and of the file; then others can be added."""
        if self._path:
            self._finish()
            os.unlink(self._path)
        self.rows = self._bytes = 0
        self._batches, self._path = [], ""

    def _finish(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    def _spill(self, schema: pa.Schema) -> None:
        self._path = os.path.join(self._folder, f"held-{os.urandom(6).hex()}.arrow")
        self._writer = KeptWriter(self._path, schema)
        for batch in self._batches:
            self._writer.write(batch)
        self._batches = []


Reject = Callable[[FailedGroup], None]
"""Takes the rows of a call for many that failed."""


class Attempt:
    """A call for many rows under a policy: it gives all that it gives, or nothing.

    What it was handed waits beside what it gives, if INTO wants it; both may be bigger than memory.
    """

    def __init__(self, policy: ErrorPolicy, reject: Reject, folder: str, most_bytes: int) -> None:
        self.rows = 0
        self._policy = policy
        self._reject = reject
        self._taken = HeldRows(folder, most_bytes)
        self._given = HeldRows(folder, most_bytes)

    def take(self, batch: pa.RecordBatch) -> None:
        """Notes rows on their way into the function."""
        self.rows += batch.num_rows
        if self._policy.facts:
            wanted = [column.name for column in self._policy.kept]
            self._taken.add(batch.select([*wanted, ORDINAL]))

    def results(
        self, given: Iterable[pa.RecordBatch], rest: Iterable[object], place: Callable[[], str]
    ) -> Iterator[pa.RecordBatch]:
        """What a call gives, when it has come to its end; `rest` are the rows that it left.

        Raises `CallError` when no policy lets the failure go, or when there is no row to let go.
        """
        failure: CallError | None = None
        try:
            for batch in given:
                self._given.add(batch)
        except CallError as error:
            if not is_failure(error):
                raise
            failure = error
        for _ in rest:
            pass
        if failure is None:
            yield from self._given.batches()
        elif self.rows:
            kept = ((batch, batch.column(ORDINAL)) for batch in self._taken.batches())
            self._reject(FailedGroup(self._policy, failure, place(), self.rows, kept))
        else:
            raise failure
        self._given.forget()
        self._taken.forget()
        self.rows = 0
