"""Rows dealt to the folders of their values, in one pass, and read back folder by folder.

The file is an Arrow IPC file like that of an exchange: a batch in it has rows of one partition, in
their order. One piece of the input is held at a time, and of a partition what one file takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING

from zql.errors import RunError
from zql.execution.exchange import between, gathered_by
from zql.execution.kept import on_disk
from zql.failpoints import hit
from zql.storage import hive
from zql.storage.threads import Threads
from zql.tree import node, record

if TYPE_CHECKING:
    import pyarrow as pa

_PIECE_BYTES = 64 << 20
_SHARE = 16
"""The part of the budget that pieces have; each is there twice while it is put in order."""
_LONGEST = 255
"""Bytes of a name, as file systems have it."""
_SHOWN = 40

Key = tuple[object, ...]
Pieces = tuple["pa.RecordBatch", list[Key], list[int]]
"""Rows by partition, their keys, and where each partition begins and the last one ends."""


@node
class PartitionColumns:
    """The columns of texts whose values say to which folders a row goes, with the users' names.

    `shard` is one more column, of numbers, that says to which file there.
    """

    names: tuple[str, ...]
    texts: tuple[str, ...]
    shard: str | None = None

    @property
    def keys(self) -> tuple[str, ...]:
        """All of the columns."""
        return self.texts if self.shard is None else (*self.texts, self.shard)


@node
class DealtPartition:
    """A partition: its folders with `/` behind each, the shard that is asked for, its batches."""

    folders: str
    shard: int | None
    batches: tuple[int, ...]
    rows: int


@node
class Dealt:
    """All partitions, in the order of their folders and shards, and the file of their rows."""

    path: str
    partitions: tuple[DealtPartition, ...]

    @property
    def rows(self) -> int:
        """The number of all rows."""
        return sum(partition.rows for partition in self.partitions)

    def table(self, partition: DealtPartition, start: int, stop: int) -> pa.Table:
        """The rows `[start, stop)` of a partition, without copying them."""
        import pyarrow as pa

        reader = pa.ipc.open_file(pa.memory_map(self.path))
        batches = (reader.get_batch(number) for number in partition.batches)
        return pa.Table.from_batches(list(between(batches, start, stop)), reader.schema)


def deal(
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    columns: PartitionColumns,
    path: str,
    most: int,
    budget: int,
) -> Dealt:
    """Writes the rows of batches by partition. Several threads put them in order meanwhile.

    What they hold shall stay far below `budget`, in bytes; the order of rows does not depend on it.
    Raises `RunError` for more than `most` folders, and for a value that cannot name one.
    """
    import pyarrow as pa

    found: dict[Key, _Growing] = {}
    folders: dict[Key, str] = {}
    written = 0
    threads = Threads()
    share = budget // _SHARE
    gathered = gathered_by(batches, min(_PIECE_BYTES, share // threads.count))
    try:
        with on_disk(path), pa.OSFile(path, "wb") as file, pa.ipc.new_file(file, schema) as writer:

            def write(rows: pa.RecordBatch, keys: list[Key], cuts: list[int]) -> None:
                nonlocal written
                _note(found, folders, keys, columns, most)
                for number, key in enumerate(keys):
                    piece = rows.slice(cuts[number], cuts[number + 1] - cuts[number])
                    writer.write_batch(piece)
                    found[key].add(written, piece.num_rows)
                    written += 1

            for pieces in threads.in_order(partial(_dealt, keys=columns.keys), gathered):
                write(*pieces)
                del pieces  # they are not held while the next are waited for
    finally:
        threads.close()
    hit("rows_dealt")
    ordered = sorted(found.values(), key=lambda each: (each.folders, each.shard or 0))
    return Dealt(path, tuple(each.done() for each in ordered))


@record
class _Growing:
    """A partition whose rows still come."""

    folders: str
    shard: int | None
    batches: list[int] = field(default_factory=list)
    rows: int = 0

    def add(self, number: int, rows: int) -> None:
        self.batches.append(number)
        self.rows += rows

    def done(self) -> DealtPartition:
        return DealtPartition(self.folders, self.shard, tuple(self.batches), self.rows)


def _note(
    found: dict[Key, _Growing],
    folders: dict[Key, str],
    keys: Sequence[Key],
    columns: PartitionColumns,
    most: int,
) -> None:
    """Makes partitions known when their first rows come."""
    width = len(columns.texts)
    values = dict.fromkeys(key[:width] for key in keys if key[:width] not in folders)
    if len(folders) + len(values) > most:
        raise _too_many(columns, [*folders, *values], most)
    folders |= {key: folders_of(columns.names, key) for key in values}
    for key in keys:
        if key not in found:
            shard = None if columns.shard is None else int(str(key[-1]))
            found[key] = _Growing(folders[key[:width]], shard)


def folders_of(names: Sequence[str], values: Sequence[object]) -> str:
    """The folders of values, with `/` behind each. Raises `RunError` where a name is too long."""
    found = ""
    for name, value in zip(names, values, strict=True):
        text = None if value is None else str(value)
        folder = hive.folder_name(name, text)
        if len(folder) > _LONGEST:
            shown = repr(text if text is None or len(text) <= _SHOWN else f"{text[:_SHOWN]}..")
            raise RunError(
                f'partition_by: the value {shown} of "{name}" makes the name of a folder of'
                f" {len(folder)} bytes, and {_LONGEST} is the most",
                code="R756",
                hint=f"a shorter value: |> SET {name} = left({name}, 20), or stable_hash({name})",
            )
        found += f"{folder}/"
    return found


def _too_many(columns: PartitionColumns, folders: Sequence[Key], most: int) -> RunError:
    counts = [len(set(values)) for values in zip(*folders, strict=True)]
    told = ", ".join(f'{n:,} of "{name}"' for name, n in zip(columns.names, counts, strict=True))
    return RunError(
        f"partition_by makes more than {most:,} folders: so far there are {told}",
        code="R755",
        hint="partition by what has few values, such as a prefix or a month, or raise the number: "
        f"SET max_partitions = {most * 10}",
    )


def _dealt(batches: list[pa.RecordBatch], keys: Sequence[str]) -> Pieces:
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = pa.concat_batches(batches) if batches[1:] else batches[0]
    batches.clear()
    codes = pa.repeat(pa.scalar(0, pa.int64()), rows.num_rows)
    texts = [rows.column(key).dictionary_encode("encode") for key in keys]
    for text in texts:
        codes = pc.add(pc.multiply(codes, len(text.dictionary)), pc.cast(text.indices, pa.int64()))
        # Codes stay small: of so many columns that their product is no number any more, too.
        codes = pc.cast(codes.dictionary_encode().indices, pa.int64())
    order = pc.array_sort_indices(codes)  # it is stable: rows of one folder stay in order
    found = pc.value_counts(codes)  # in the order in which codes came: from 0 on
    cuts = [*accumulate(found.field(1).to_pylist(), initial=0)]
    firsts = order.take(pa.array(cuts[:-1], pa.int64()))
    columns = [text.take(firsts).to_pylist() for text in texts]
    return rows.take(order), list(zip(*columns, strict=True)), cuts
