"""Rows dealt out to partitions by one column, and read back partition by partition, in order.

The file of an exchange is an Arrow IPC file; a batch in it has rows of one partition, and an index
says which batches are of which. Writing holds a batch for each partition at most, reading one
partition, or a part of one that is too big for that. What keys are sampled for says little about
them all: ranges of them that turn out too big are dealt once more, to a second file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, TypeVar

from zql.execution.kept import on_disk
from zql.execution.ranges import Pieces, Ranges, Sample
from zql.failpoints import hit
from zql.physical.plan import Spread
from zql.storage.threads import Threads
from zql.tree import node

if TYPE_CHECKING:
    import pyarrow as pa

Rows = TypeVar("Rows", "pa.RecordBatch", "pa.Table")

BATCH_ROWS = 2048
"""Rows as they come in: small batches are gathered in memory that is there already."""
MOST_PARTITIONS = 1024
"""A piece of each of them is in memory at once."""
PIECE_BYTES = 96 << 10
"""How much of a partition is gathered, about, before it is written as one batch."""
_HELD_BYTES = 128 << 20
"""How much of a partition is put in order at once, at most."""
_SHARE = 16
"""The part of the budget that is held of one partition; several are read at a time, and copied."""
_LARGEST = float(1 << 63)


@node
class Partition:
    """The rows of a partition: the numbers of their batches, how many, and their bytes.

    Those of the second `file` were dealt twice; rows that are `alike` have one and the same key.
    """

    batches: tuple[int, ...] = ()
    rows: int = 0
    bytes: int = 0
    file: int = 0
    alike: bool = False

    def with_batch(self, number: int, rows: pa.RecordBatch) -> Partition:
        """The partition with a batch more."""
        return replace(
            self,
            batches=(*self.batches, number),
            rows=self.rows + rows.num_rows,
            bytes=self.bytes + rows.nbytes,
        )


@node
class Exchange:
    """A finished exchange: its files, and its partitions in their order."""

    paths: tuple[str, ...]
    spread: Spread
    partitions: tuple[Partition, ...]
    held_bytes: int = _HELD_BYTES

    def save_index(self, path: str) -> None:
        """Writes down which batches are whose. Raises `OSError`."""
        found = [(p.batches, p.rows, p.bytes, p.file, p.alike) for p in self.partitions]
        with open(path, "w", encoding="utf-8") as file:
            json.dump(found, file)

    @classmethod
    def saved(cls, paths: Sequence[str], index: str, spread: Spread, budget: int) -> Exchange:
        """An exchange of its files and its saved index; it has its own number of partitions.

        Raises `OSError`.
        """
        with open(index, encoding="utf-8") as file:
            found = json.load(file)
        partitions = tuple(Partition(tuple(batches), *more) for batches, *more in found)
        spread = replace(spread, parts=len(partitions))
        return cls(tuple(paths), spread, partitions, held_bytes(budget))

    def remove(self) -> None:
        """Removes the files. Raises `OSError`."""
        for path in self.paths:
            os.remove(path)

    @property
    def rows(self) -> int:
        """The number of all rows."""
        return sum(partition.rows for partition in self.partitions)

    @property
    def bytes(self) -> int:
        """The size of the files."""
        return sum(map(os.path.getsize, self.paths))

    @property
    def schema(self) -> pa.Schema:
        """The columns, with those that the rows are spread and ordered by."""
        import pyarrow as pa

        with pa.OSFile(self.paths[0]) as file:
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

    def reader(self) -> pa.RecordBatchReader:
        """All rows in the order of the exchange."""
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self.schema, self.batches(0, self.rows))

    def dealt(self, numbers: range, part: int = 0, parts: int = 1) -> Iterator[pa.RecordBatch]:
        """The rows of partitions as they came; of each one of equal parts, by ranges of tickets."""
        import pyarrow as pa

        with pa.OSFile(self.paths[0]) as file:
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
        by_chance = not spread.order  # ranges of sorted keys are no bigger than can be held
        parts = -(-partition.bytes // self.held_bytes) or 1 if by_chance else 1
        by = (spread.ticket, spread.place)
        keys = [(column.name, "ascending") for column in by if column is not None]
        with pa.OSFile(self.paths[partition.file]) as file:
            reader = pa.ipc.open_file(file)
            for part in range(parts):
                found = (reader.get_batch(i) for i in partition.batches)
                if partition.alike:
                    yield from (pa.Table.from_batches([batch]) for batch in found)
                    return
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
    ranges: Ranges | None = None,
) -> Exchange:
    """Writes the rows of batches by partition. Several threads put them in order meanwhile.

    Rows that are spread by an order go to `ranges` of it, each of which is made small enough to be
    held: what reads them shall stay far below `budget`, in bytes. Raises `StorageError` when the
    disk does not take them.
    """
    held = held_bytes(budget)
    if ranges is None:
        pieces = partial(_dealt, spread=spread)
        parts = [Partition()] * spread.parts
    else:
        pieces = partial(ranges.dealt, ticket=spread.ticket.name)
        parts = [Partition(alike=ranges.is_of_one(n)) for n in range(ranges.parts)]
    # The only `OSError` is that of this file: DuckDB's stream raises none.
    with on_disk(path):
        with _ExchangeFile(path, schema) as file:
            size = min(PIECE_BYTES * len(parts), max(held, PIECE_BYTES))
            file.deal(gathered_by(batches, size), pieces, parts)
            hit("exchange_dealt")
        found = Exchange((path,), spread, tuple(parts), held)
        return found if ranges is None else _in_smaller_ranges(found, schema)


def _in_smaller_ranges(exchange: Exchange, schema: pa.Schema) -> Exchange:
    """The exchange with ranges that are too big to be held dealt once more, to a second file.

    What keys they have is known now: a range of these is too big only if all of them are alike.
    """
    import pyarrow as pa

    held, ticket = exchange.held_bytes, exchange.spread.ticket.name
    if not any(_is_too_big(each, held) for each in exchange.partitions):
        return exchange
    path = f"{exchange.paths[0]}.again"
    partitions: list[Partition] = []
    with pa.memory_map(exchange.paths[0]) as mapped, _ExchangeFile(path, schema) as file:
        reader = pa.ipc.open_file(mapped)
        for each in exchange.partitions:
            if not _is_too_big(each, held):
                partitions.append(each)
                continue
            sample = Sample()
            for place in each.batches:
                sample.add_by_bytes(reader.get_batch(place), ticket)
            ranges = sample.ranges(-(-2 * each.bytes // held))
            smaller = [Partition(file=1, alike=ranges.is_of_one(n)) for n in range(ranges.parts)]
            rows = (reader.get_batch(place) for place in each.batches)
            pieces = partial(ranges.dealt, ticket=ticket)
            file.deal(gathered_by(rows, held), pieces, smaller)
            partitions += smaller
    return replace(exchange, paths=(exchange.paths[0], path), partitions=tuple(partitions))


def _is_too_big(partition: Partition, held: int) -> bool:
    return partition.bytes > 2 * held and not partition.alike


class _ExchangeFile:
    """A file that is being written: a context manager. Raises `OSError`."""

    def __init__(self, path: str, schema: pa.Schema) -> None:
        import pyarrow as pa

        self._stack = ExitStack()
        file = self._stack.enter_context(pa.OSFile(path, "wb"))
        self._writer = self._stack.enter_context(pa.ipc.new_file(file, schema))
        self._threads = Threads()
        self._stack.callback(self._threads.close)
        self._written = 0

    def __enter__(self) -> _ExchangeFile:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.__exit__(*error)  # type: ignore[arg-type]

    def deal(
        self,
        gathered: Iterator[list[pa.RecordBatch]],
        pieces: Callable[[list[pa.RecordBatch]], Pieces],
        partitions: list[Partition],
    ) -> None:
        """Writes rows, and adds their batches to the partitions."""
        for rows, cuts in self._threads.in_order(pieces, gathered):
            for number, before in enumerate(partitions):
                if cuts[number + 1] == cuts[number]:
                    continue
                piece = rows.slice(cuts[number], cuts[number + 1] - cuts[number])
                self._writer.write_batch(piece)
                partitions[number] = before.with_batch(self._written, piece)
                self._written += 1
            del rows  # they are not held while the next are waited for


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
