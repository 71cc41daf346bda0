"""How many bytes the values of rows have, and rows cut by that.

What is counted are the values alone: not how a stream happened to be cut into batches, nor whether
a batch has a bitmap of its NULLs, as Arrow's `nbytes` does. So the same rows are always cut alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


class Shares:
    """Rows of a stream for one reader after the other: each gets them up to the row that fills it.

    `size` says how many bytes that takes, from the bytes in all shares before. Iterating gives the
    shares, each of which is to be read before the next; what its reader leaves of it, nobody gets.
    The first is there even when there are no rows.
    """

    def __init__(self, batches: Iterable[pa.RecordBatch], size: Callable[[int], int]) -> None:
        self._batches = iter(batches)
        self._size = size
        self._bits = 0
        self._rest: pa.RecordBatch | None = None

    def __iter__(self) -> Iterator[Iterator[pa.RecordBatch]]:
        while True:
            share = self._share()
            yield share
            for _ in share:
                pass
            if self._next() is None:
                return

    def _share(self) -> Iterator[pa.RecordBatch]:
        end = self._bits + 8 * self._size(self._bits // 8)
        while self._bits < end and (batch := self._next()) is not None:
            rows = rows_of(batch, end - self._bits)
            part = batch.slice(0, rows)
            self._rest = batch.slice(rows) if rows < batch.num_rows else None
            self._bits += bits_of(part)
            yield part

    def _next(self) -> pa.RecordBatch | None:
        """The next rows, which stay where they are; None at the end."""
        while self._rest is None or not self._rest.num_rows:
            self._rest = next(self._batches, None)
            if self._rest is None:
                return None
        return self._rest


def rows_of(batch: pa.RecordBatch, bits: int) -> int:
    """How many rows of a batch make so many bits; all, where that is less."""
    if bits_of(batch) < bits:
        return batch.num_rows  # type: ignore[no-any-return]
    least, most = 1, batch.num_rows
    while least < most:
        middle = (least + most) // 2
        if bits_of(batch.slice(0, middle)) < bits:
            least = middle + 1
        else:
            most = middle
    return least


def bits_of(batch: pa.RecordBatch) -> int:
    """The bits of all values in a batch. It takes as long for many rows as for few."""
    return sum(_bits(column, 0, batch.num_rows) for column in batch.columns)


def _bits(values: pa.Array, start: int, stop: int) -> int:
    """The bits of the values `[start, stop)` of an array."""
    import pyarrow as pa

    type_, is_ = values.type, pa.types
    if isinstance(values, pa.ExtensionArray):
        return _bits(values.storage, start, stop)
    if is_.is_dictionary(type_):
        return (stop - start) * int(type_.index_type.bit_width)
    if isinstance(values, pa.ListArray | pa.LargeListArray | pa.MapArray):
        return _bits(values.values, *_bounds(values, start, stop))
    if isinstance(values, pa.FixedSizeListArray):
        first, size = values.offset, type_.list_size
        return _bits(values.values, (first + start) * size, (first + stop) * size)
    if is_.is_struct(type_):
        return sum(_bits(values.field(i), start, stop) for i in range(type_.num_fields))
    if is_.is_union(type_) and type_.mode == "sparse":
        fields = sum(_bits(values.field(i), start, stop) for i in range(type_.num_fields))
        return fields + 8 * (stop - start)
    if _has_offsets(type_):
        begin, end = _bounds(values, start, stop)
        return 8 * (end - begin)
    if is_.is_null(type_):
        return 0
    try:
        return (stop - start) * int(type_.bit_width)
    except ValueError:  # types that DuckDB does not give
        return 8 * sum(map(_length, values.slice(start, stop - start).to_pylist()))


def _has_offsets(type_: pa.DataType) -> bool:
    import pyarrow as pa

    is_ = pa.types
    return any(
        test(type_)
        for test in (is_.is_string, is_.is_binary, is_.is_large_string, is_.is_large_binary)
    )


def _bounds(values: pa.Array, start: int, stop: int) -> tuple[int, int]:
    """Where the values `[start, stop)` begin and end in what the offsets of an array point to."""
    if start == stop:
        return 0, 0
    kind = str(values.type)
    places = memoryview(values.buffers()[1]).cast("q" if kind.startswith("large") else "i")
    return places[values.offset + start], places[values.offset + stop]


def _length(value: object) -> int:
    if value is None:
        return 0
    return len(value if isinstance(value, bytes) else str(value).encode())
