"""Rows that stay in the run's folder between stages: Arrow files, read through memory maps."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING

from zql.errors import StorageError
from zql.failpoints import hit
from zql.tree import node

if TYPE_CHECKING:
    import pyarrow as pa


@node
class KeptFile:
    """A finished file: an Arrow file of a stage's result (those of a stage are in the rows' order),
    or an output that has no name yet. `checksum` is that of its bytes, where somebody needs it.
    """

    path: str
    rows: int
    bytes: int
    checksum: str = ""


@node
class Part:
    """Rows `[start, stop)` of a kept file: what one task reads."""

    file: KeptFile
    start: int
    stop: int


def brought(file: KeptFile, folder: str) -> KeptFile:
    """A file in a folder: a link to it there, or a copy, when it is elsewhere."""
    if not file.path or os.path.dirname(file.path) == folder:
        return file
    path = os.path.join(folder, os.path.basename(file.path))
    link(file.path, path)
    return replace(file, path=path)


def link(path: str, to: str) -> None:
    """Makes a file appear at a second place; by a copy where that is another file system."""
    try:
        os.link(path, to)
    except FileExistsError:
        pass
    except OSError:
        import shutil

        shutil.copyfile(path, to)


class KeptWriter:
    """Writes one kept file; nothing refers to it before `close` is done."""

    def __init__(self, path: str, schema: pa.Schema) -> None:
        import pyarrow as pa

        self._path = path
        self._rows = 0
        with on_disk(path):
            self._file = pa.OSFile(path, "wb")
            self._writer = pa.ipc.new_file(self._file, schema)

    def write(self, batch: pa.RecordBatch) -> None:
        """Appends rows. Raises `StorageError`, as the others do, when the disk does not take it."""
        with on_disk(self._path):
            self._writer.write_batch(batch)
        self._rows += batch.num_rows

    def close(self) -> KeptFile:
        """Finishes the file."""
        with on_disk(self._path):
            self._writer.close()
            self._file.close()
            hit("kept_written")
            return KeptFile(self._path, self._rows, os.path.getsize(self._path))


@contextmanager
def on_disk(path: str) -> Iterator[None]:
    """Tells of a disk that does not take what a run keeps in a file: as a `StorageError`."""
    try:
        yield
    except OSError as error:
        raise unkept(path, error) from None


def unkept(path: str, error: OSError) -> StorageError:
    """The error for what a run keeps on disk while it lasts, and cannot."""
    return StorageError(
        f"cannot keep rows in {path}: {error.strerror or error}",
        code="R736",
        hint="set temp_dir to a folder with more room (--temp-dir, SET temp_dir)",
    )


def new_path(folder: str, number: int) -> str:
    """A name for a file of a task that no other try of it has."""
    return os.path.join(folder, f"{number:06d}-{os.urandom(6).hex()}.arrow")


def write_all(
    batches: Iterable[pa.RecordBatch], folder: str, batch_rows: int, file_bytes: int
) -> list[KeptFile]:
    """Writes batches into files of about `file_bytes`.

    The batches in them have `batch_rows` rows, however the rows came: tasks over these files and
    their results shall not depend on how DuckDB's threads happened to cut the rows.
    """
    files: list[KeptFile] = []
    writer: KeptWriter | None = None
    written = 0
    for batch in rechunked(batches, batch_rows):
        if writer is None:
            writer, written = KeptWriter(_path(folder, len(files)), batch.schema), 0
        writer.write(batch)
        written += batch.nbytes
        if written >= file_bytes:
            files.append(writer.close())
            writer = None
    if writer is not None:
        files.append(writer.close())
    return files


def write_groups(
    batches: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    folder: str,
    starts: str,
    batch_rows: int,
    file_bytes: Callable[[int], int],
) -> list[KeptFile]:
    """Writes batches into files, and ends one at a group's end when it has enough bytes.

    How many these are `file_bytes` says, from the bytes in all files before it.
    A file begins where the column `starts` is 1. Without one all rows go into one file, which is
    there even when there are no rows.
    """
    files: list[KeptFile] = []
    writer: KeptWriter | None = None if starts else KeptWriter(_path(folder, 0), schema)
    written, before = 0, 0
    for batch in rechunked(batches, batch_rows):
        for piece, begins in _at_groups(batch, starts, written, file_bytes(before)):
            if writer is not None and begins:
                files.append(writer.close())
                writer = None
                before += written
            if writer is None:
                writer, written = KeptWriter(_path(folder, len(files)), schema), 0
            writer.write(piece)
            written += piece.nbytes
    if writer is not None:
        files.append(writer.close())
    return files


def _at_groups(
    batch: pa.RecordBatch, starts: str, written: int, file_bytes: int
) -> Iterator[tuple[pa.RecordBatch, bool]]:
    """The batch in pieces, and whether a file begins with each; `written` is in the file so far."""
    row_bytes = batch.nbytes / batch.num_rows
    begun, begins = 0, False
    for row in _marked(batch.column(starts)) if starts else ():
        if written + (row - begun) * row_bytes < file_bytes:
            continue
        if row > begun:
            yield batch.slice(begun, row - begun), begins
        begun, begins, written = row, True, 0
    yield batch.slice(begun), begins


def _marked(marks: pa.Array) -> Iterator[int]:
    """Where a column of bytes is 1; `pyarrow.compute` would take a tenth of a second to load."""
    values = memoryview(marks.buffers()[1])[marks.offset : marks.offset + len(marks)].tobytes()
    row = values.find(1)
    while row >= 0:
        yield row
        row = values.find(1, row + 1)


def _path(folder: str, number: int) -> str:
    return os.path.join(folder, f"{number:06d}.arrow")


def rechunked(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of exactly `rows` rows, but for the last."""
    import pyarrow as pa

    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        while count + batch.num_rows >= rows:
            cut = rows - count
            waiting.append(batch.slice(0, cut))
            yield pa.concat_batches(waiting) if waiting[1:] else waiting[0]
            batch = batch.slice(cut)  # noqa: PLW2901 - the rest of it
            waiting, count = [], 0
        if batch.num_rows:
            waiting.append(batch)
            count += batch.num_rows
    if waiting:
        yield pa.concat_batches(waiting) if waiting[1:] else waiting[0]


def parts(files: Sequence[KeptFile], target_bytes: int, batch_rows: int) -> list[Part]:
    """Cuts the files into tasks of about `target_bytes`; depends on the files alone."""
    found = []
    for file in files:
        if not file.rows:
            continue
        count = max(1, round(file.bytes / target_bytes))
        rows = -(-file.rows // count)
        rows = -(-rows // batch_rows) * batch_rows
        found += [Part(file, s, min(s + rows, file.rows)) for s in range(0, file.rows, rows)]
    return found


def table(files: Sequence[KeptFile]) -> pa.Table | None:
    """All rows of a stage, in order, without copying them; None when there is no file."""
    import pyarrow as pa

    tables = [mapped(file) for file in files if file.rows]
    return pa.concat_tables(tables) if tables else None


def bounds(rows: pa.Table | None, count: int, shard: str | None) -> list[int]:
    """Where each of `count` shards begins, and the last one ends.

    `shard` is the column by which the rows are sorted and that says which shard each is of; without
    it all shards get the same number of rows, or one more.
    """
    if rows is None or not rows.num_rows:
        return [0] * (count + 1)
    if shard is None:
        return [rows.num_rows * number // count for number in range(count + 1)]
    import pyarrow.compute as pc

    found = pc.value_counts(rows.column(shard)).to_pylist()
    sizes = {item["values"]: item["counts"] for item in found}
    return list(accumulate((sizes.get(number, 0) for number in range(count)), initial=0))


def part_table(part: Part) -> pa.Table:
    """The rows of a part, without copying them."""
    return mapped(part.file).slice(part.start, part.stop - part.start)


def part_reader(part: Part) -> pa.RecordBatchReader:
    """The rows of a part, to be read once, a batch at a time.

    Pages of a mapped file would count as memory of this process from the first to the last: those
    of one group may be more than there is.
    """
    import pyarrow as pa

    with pa.ipc.open_file(pa.memory_map(part.file.path)) as mapped:
        schema = mapped.schema
    return pa.RecordBatchReader.from_batches(schema, _part_batches(part))


def _part_batches(part: Part) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    with (
        pa.ipc.open_file(pa.memory_map(part.file.path)) as mapped,
        pa.ipc.open_file(pa.OSFile(part.file.path)) as read,
    ):
        begin = 0
        for number in range(mapped.num_record_batches):
            end = begin + mapped.get_batch(number).num_rows
            if end > part.start and begin < part.stop:
                batch = read.get_batch(number)
                start = max(part.start - begin, 0)
                yield batch.slice(start, min(end, part.stop) - begin - start)
            begin = end


def mapped(file: KeptFile) -> pa.Table:
    """The rows of a file, which stay in it until they are looked at."""
    import pyarrow as pa

    return pa.ipc.open_file(pa.memory_map(file.path)).read_all()
