"""Rows dealt out to partitions by one column, and read back partition by partition, in order.

The file of an exchange is an Arrow IPC file; a batch in it has rows of one partition, and an index
says which batches are of which. Writing holds a batch for each partition at most, reading one
partition, or a part of one that is too big for that.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, TypeVar

from zql.execution.kept import on_disk
from zql.failpoints import hit
from zql.physical.plan import Spread
from zql.storage.threads import Threads
from zql.tree import node

if TYPE_CHECKING:
    import pyarrow as pa

Rows = TypeVar("Rows", "pa.RecordBatch", "pa.Table")

BATCH_ROWS = 2048
"""Rows as they come in: small batches are gathered in memory that is there already."""
PIECE_BYTES = 96 << 10
"""How much of a partition is gathered, about, before it is written as one batch."""
_HELD_BYTES = 128 << 20
"""How much of a partition is put in order at once, at most."""
_SHARE = 16
"""The part of the budget that is held of one partition; several are read at a time, and copied."""
_LARGEST = float(1 << 63)

Pieces = tuple["pa.RecordBatch", list[int]]
"""Rows by partition, and where each partition begins and the last one ends."""


@node
class Partition:
    """The rows of a partition: the numbers of their batches, how many, and their bytes."""

    batches: tuple[int, ...] = ()
    rows: int = 0
    bytes: int = 0


@node
class Exchange:
    """A finished exchange: its file, and its partitions in their order."""

    path: str
    spread: Spread
    partitions: tuple[Partition, ...]
    held_bytes: int = _HELD_BYTES

    def save_index(self, path: str) -> None:
        """Writes down which batches are whose. Raises `OSError`."""
        found = [(each.batches, each.rows, each.bytes) for each in self.partitions]
        with open(path, "w", encoding="utf-8") as file:
            json.dump(found, file)

    @classmethod
    def saved(cls, path: str, index: str, spread: Spread, budget: int) -> Exchange:
        """An exchange of its file and its saved index. Raises `OSError`."""
        with open(index, encoding="utf-8") as file:
            found = json.load(file)
        partitions = tuple(Partition(tuple(batches), *more) for batches, *more in found)
        return cls(path, spread, partitions, held_bytes(budget))

    @property
    def rows(self) -> int:
        """The number of all rows."""
        return sum(partition.rows for partition in self.partitions)

    @property
    def bytes(self) -> int:
        """The size of the file."""
        return os.path.getsize(self.path)

    @property
    def schema(self) -> pa.Schema:
        """The columns, with those that the rows are spread and ordered by."""
        import pyarrow as pa

        with pa.OSFile(self.path) as file:
            return pa.ipc.open_file(file).schema

    def batches(self, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """The rows with these numbers in the order of the exchange."""
        begin = 0
        for number, partition in enumerate(self.partitions):
            end = begin + partition.rows
            if begin < stop and end > start:
                for table in between(self._ordered(number), start - begin, stop - begin):
                    yield from table.to_batches()
            begin = end

    def dealt(self, numbers: range, part: int = 0, parts: int = 1) -> Iterator[pa.RecordBatch]:
        """The rows of partitions as they came; of each one of equal parts, by ranges of tickets."""
        import pyarrow as pa

        with pa.OSFile(self.path) as file:
            reader = pa.ipc.open_file(file)
            for number in numbers:
                for place in self.partitions[number].batches:
                    batch = reader.get_batch(place)
                    if parts > 1:
                        batch = _part_of(batch, self.spread, number, part, parts)
                    if batch.num_rows:
                        yield batch

    def _ordered(self, number: int) -> Iterator[pa.Table]:
        """The rows of a partition in order, a part after the other when it is big."""
        import pyarrow as pa
        import pyarrow.compute as pc

        partition, spread = self.partitions[number], self.spread
        parts = -(-partition.bytes // self.held_bytes) or 1
        by = (spread.ticket, spread.place)
        keys = [(column.name, "ascending") for column in by if column is not None]
        with pa.OSFile(self.path) as file:
            reader = pa.ipc.open_file(file)
            for part in range(parts):
                found = (reader.get_batch(i) for i in partition.batches)
                if parts > 1:
                    found = (_part_of(b, spread, number, part, parts) for b in found)
                rows = pa.Table.from_batches(list(found), reader.schema)
                by = rows.select([name for name, _ in keys])
                yield rows.take(pc.sort_indices(by, sort_keys=keys))


class InTurn:
    """Rows of a stream for one reader after the other, each of which takes a number of them."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._rest: pa.RecordBatch | None = None

    def take(self, rows: int) -> Iterator[pa.RecordBatch]:
        """The next rows."""
        while rows:
            batch = next(self._batches) if self._rest is None else self._rest
            self._rest = batch.slice(rows) if batch.num_rows > rows else None
            batch = batch.slice(0, rows)
            rows -= batch.num_rows
            yield batch


def deal(
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    spread: Spread,
    path: str,
    budget: int,
) -> Exchange:
    """Writes the rows of batches by partition. Several threads put them in order meanwhile.

    What reads them shall stay far below `budget`, in bytes. Raises `StorageError` when the
    disk does not take them.
    """
    import pyarrow as pa

    partitions = [Partition() for _ in range(spread.parts)]
    written = 0
    threads = Threads()
    gathered = gathered_by(batches, PIECE_BYTES * spread.parts)
    try:
        # The only `OSError` is that of this file: DuckDB's stream raises none.
        with on_disk(path), pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, schema) as writer:

            def write(rows: pa.RecordBatch, cuts: list[int]) -> None:
                nonlocal written
                for number, before in enumerate(partitions):
                    if cuts[number + 1] == cuts[number]:
                        continue
                    piece = rows.slice(cuts[number], cuts[number + 1] - cuts[number])
                    writer.write_batch(piece)
                    partitions[number] = Partition(
                        (*before.batches, written),
                        before.rows + piece.num_rows,
                        before.bytes + piece.nbytes,
                    )
                    written += 1

            for pieces in threads.in_order(partial(_dealt, spread=spread), gathered):
                write(*pieces)
                del pieces  # they are not held while the next are waited for
            hit("exchange_dealt")
    finally:
        threads.close()
    return Exchange(path, spread, tuple(partitions), held_bytes(budget))


def held_bytes(budget: int) -> int:
    """How much of a partition is put in order at once, of a budget in bytes."""
    return min(_HELD_BYTES, budget // _SHARE)


def gathered_by(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[list[pa.RecordBatch]]:
    """Batches that are about `size` bytes together."""
    found: list[pa.RecordBatch] = []
    held = 0
    for batch in batches:
        found.append(batch)
        held += batch.nbytes
        if held >= size:
            yield found
            found, held = [], 0
    if found:
        yield found


def _dealt(batches: list[pa.RecordBatch], spread: Spread) -> Pieces:
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = pa.concat_batches(batches) if batches[1:] else batches[0]
    batches.clear()
    numbers = pc.cast(_place_in(rows, spread), pa.uint16(), safe=False)
    found = pc.value_counts(numbers)
    sizes = dict(zip(found.field(0).to_pylist(), found.field(1).to_pylist(), strict=True))
    cuts = accumulate((sizes.get(number, 0) for number in range(spread.parts)), initial=0)
    # The sort is stable: rows of one partition stay in order.
    return rows.take(pc.array_sort_indices(numbers)), list(cuts)


def _place_in(rows: pa.RecordBatch, spread: Spread) -> pa.Array:
    """The partition of each row, as a number with a fraction: how far in it the row is."""
    import pyarrow as pa
    import pyarrow.compute as pc

    ticket = pc.cast(rows.column(spread.ticket.name), pa.float64(), safe=False)
    whole = _LARGEST if spread.ticket.type == "BIGINT" else 1.0
    found = pc.multiply(pc.divide(ticket, whole), float(spread.parts))
    # Rounding keeps the order, and may reach the end.
    return pc.min_element_wise(found, spread.parts - 2.0**-40)


def _part_of(
    rows: pa.RecordBatch, spread: Spread, number: int, part: int, parts: int
) -> pa.RecordBatch:
    """The rows of one of equal parts of a partition."""
    import pyarrow as pa
    import pyarrow.compute as pc

    within = pc.multiply(pc.subtract(_place_in(rows, spread), float(number)), float(parts))
    places = pc.min_element_wise(pc.cast(within, pa.int64(), safe=False), parts - 1)
    return rows.filter(pc.equal(places, part))


def between(pieces: Iterable[Rows], start: int, stop: int) -> Iterator[Rows]:
    """The rows of pieces, one behind the other, with numbers from `start` to `stop`."""
    begin = 0
    for piece in pieces:
        end = begin + piece.num_rows
        if end > start and begin < stop:
            first = max(start - begin, 0)
            yield piece.slice(first, min(end, stop) - begin - first)
        begin = end
        if begin >= stop:
            return
