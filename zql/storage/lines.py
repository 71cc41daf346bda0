"""Files of lines, JSONL and CSV: DuckDB makes the bytes of each row, here they are written.

Every path goes through the same SQL, so that a COPY, a stream and a worker write the same bytes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from zql.storage import compression as packing
from zql.storage.format import BatchWriter

if TYPE_CHECKING:
    import pyarrow as pa

COPY_OPTIONS = (
    "FORMAT csv, HEADER false, QUOTE '', ESCAPE '', DELIMITER '\x01', NULLSTR '', COMPRESSION none"
)
"""COPY of one text column as it is, a line end behind each. It uses all threads."""
_CHUNK = 1 << 20


class LineWriter(BatchWriter):
    """Writes batches of one column of lines, each with its line end."""

    def __init__(
        self, path: str, compression: str | None, level: int | None = None, prologue: bytes = b""
    ) -> None:
        self.rows = 0
        self._file = open(path, "wb")  # noqa: SIM115
        kind = packing.by_name(compression or "none")
        self._out = packing.writer(self._file, kind, level)
        self._out.write(prologue)

    def write(self, batch: pa.RecordBatch) -> None:
        """See `RowWriter`."""
        if batch.num_rows:
            self._out.write(_bytes_of(batch.column(0)))
            self.rows += batch.num_rows

    def append(self, path: str, start: int) -> None:
        """Appends the bytes of a plain file from `start` on."""
        with open(path, "rb") as source:
            if self._out is self._file:
                self._file.flush()
                _copy(source.fileno(), self._file.fileno(), start)
            else:
                source.seek(start)
                while chunk := source.read(_CHUNK):
                    self._out.write(chunk)

    def close(self) -> None:
        """See `RowWriter`."""
        with self._file:
            if isinstance(self._out, packing.PackedWriter):
                self._out.close()
            self._file.flush()
            os.fsync(self._file.fileno())

    def abandon(self) -> None:
        """See `BatchWriter`."""
        if isinstance(self._out, packing.PackedWriter):
            self._out.abandon()
        with suppress(OSError):  # what is buffered may not fit on the disk
            self._file.close()


def _bytes_of(column: pa.Array) -> memoryview:
    """All values of a column of text as they lie behind each other in memory."""
    _, offsets, data = column.buffers()
    width = 8 if str(column.type).startswith("large") else 4
    places = memoryview(offsets).cast("q" if width == 8 else "i")
    start, stop = places[column.offset], places[column.offset + len(column)]
    return memoryview(data)[start:stop] if data is not None else memoryview(b"")


def concatenate(
    parts: Sequence[str], target: str, compression: str | None, level: int | None, skip: int = 0
) -> None:
    """Joins uncompressed parts; the first `skip` bytes of all but the first are left out."""
    writer = LineWriter(target, compression, level)
    try:
        for i, part in enumerate(parts):
            writer.append(part, skip if i else 0)
    finally:
        writer.close()


def _copy(source: int, target: int, start: int) -> None:
    """The bytes of one file from `start` to another's place, by the kernel where it can."""
    left = os.fstat(source).st_size - start
    while left > 0:
        try:
            count = os.copy_file_range(source, target, left, offset_src=start)
        except (OSError, AttributeError):
            count = os.write(target, os.pread(source, min(left, _CHUNK), start))
        start, left = start + count, left - count
