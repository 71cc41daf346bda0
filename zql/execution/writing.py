"""Rows into one file: through DuckDB's COPY where it gives the right bytes, else batch by batch."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from itertools import chain
from typing import TYPE_CHECKING, Any

from zql.errors import RunError, StorageError, UdfError
from zql.execution.binding import CallError
from zql.execution.checksums import summed
from zql.execution.engine import Engine, EngineError
from zql.execution.kept import KeptFile
from zql.execution.own_formats import format_of
from zql.execution.picks import Picks
from zql.execution.row_bytes import Shares
from zql.execution.sources import registered_stream
from zql.expr.expression import Column
from zql.expr.functions import PythonFormat
from zql.failpoints import hit
from zql.storage import files
from zql.storage.format import Format, WriteColumn
from zql.tree import node

if TYPE_CHECKING:
    import pyarrow as pa

_BATCH_ROWS = 8192


@node
class KeptOutput:
    """The rows stay in a folder of the run.

    The file is `summed` when its checksum is wanted.
    """

    folder: str
    summed: bool = False


@node
class FileOutput:
    """The rows go into `folder`, to a file under a name of its own.

    `own` is the format when it is the user's, `target` the name that the file will get. The file is
    `summed` when its checksum is wanted.
    """

    folder: str
    format: str
    names: tuple[str, ...]
    compression: str | None = None
    options: tuple[tuple[str, Any], ...] = ()
    own: PythonFormat | None = None
    target: str = ""
    summed: bool = False

    def path(self, number: int) -> str:
        """A name that no other try has."""
        return os.path.join(self.folder, f"{number:06d}-{os.urandom(6).hex()}.tmp")

    def columns(self, columns: Sequence[Column]) -> list[WriteColumn]:
        """The columns of a plan under the users' names."""
        pairs = zip(columns, self.names, strict=True)
        return [WriteColumn(column.name, name, column.type) for column, name in pairs]


@node
class Fed:
    """Batches that a SELECT, row by row, reads under a name; they are made as it asks for them.

    `picks` is what the SELECT takes of them, when it does no more.
    """

    name: str
    schema: pa.Schema
    batches: Iterator[pa.RecordBatch]
    picks: Picks | None = None

    def readable(self, engine: Engine) -> AbstractContextManager[str]:
        """All of them, for one statement."""
        return registered_stream(engine, self.schema, self.batches, self.name)


def write_file(
    engine: Engine,
    select: str,
    columns: Sequence[Column],
    output: FileOutput,
    path: str,
    fed: Fed | None = None,
) -> KeptFile:
    """Runs a SELECT of the columns and writes its rows to `path`, synced to disk.

    It may read what it is `fed`.
    Raises `EngineError`, `StorageError`, and `RunError` for values that the format cannot hold.
    A file that was begun is removed when it fails.
    """
    format_ = format_of(output.format, output.own)
    written = output.columns(columns)
    options = dict(output.options)
    copy = format_.copy(select, written, options, output.compression)
    with _whole_or_gone([path], columns, output):
        hit("file_begun")
        if copy is not None:
            with fed.readable(engine) if fed is not None else nullcontext():
                rows = engine.copy(copy.select, path, copy.options) - copy.extra_rows
            hit("file_written")
            _sync(path)
        else:
            sql = format_.output_sql(select, written, options)
            rows = _write_batches(engine, sql, format_, written, output, path, fed)
        hit("file_synced")
        file = KeptFile(path, rows, os.path.getsize(path))
        return summed(file) if output.summed else file


def write_shares(
    engine: Engine,
    select: str,
    columns: Sequence[Column],
    output: FileOutput,
    size: Callable[[int], int],
) -> list[KeptFile]:
    """Runs a SELECT of the columns; its rows in one file after the other, each synced to disk.

    A file ends when its rows have so many bytes as `size` says of those of all files before: in the
    form that its writer takes, so of lines as they are written, of columns as they are in memory.
    There is a file even when there are no rows. Checksums are left to who wants them.
    Raises what `write_file` does, and removes all files then.
    """
    format_ = format_of(output.format, output.own)
    written = output.columns(columns)
    options = dict(output.options)
    sql = format_.output_sql(select, written, options)
    files: list[KeptFile] = []
    paths: list[str] = []
    with _whole_or_gone(paths, columns, output), engine.batches(sql, _BATCH_ROWS) as stream:
        for share in Shares(stream, size):
            path = output.path(len(files))
            paths.append(path)
            hit("file_begun")
            writer = format_.writer(path, written, stream.schema, options, output.compression)
            writer.write_all(share)
            hit("file_synced")
            files.append(KeptFile(path, writer.rows, os.path.getsize(path)))
    return files


@contextmanager
def _whole_or_gone(
    paths: Sequence[str], columns: Sequence[Column], output: FileOutput
) -> Iterator[None]:
    """While files are written: they are removed when that fails, and it is told why."""
    try:
        yield
    except BaseException as error:
        for path in paths:
            _remove(path)
        if isinstance(error, EngineError):
            raise _explained(error, columns, output) from None
        if isinstance(error, OSError):
            raise _not_written(output, error) from None
        if isinstance(error, CallError):
            raise _writer_failed(error, output) from None
        raise


def _write_batches(
    engine: Engine,
    sql: str,
    format_: Format,
    columns: Sequence[WriteColumn],
    output: FileOutput,
    path: str,
    fed: Fed | None,
) -> int:
    options = dict(output.options)
    if fed is None:
        with engine.batches(sql, _BATCH_ROWS) as stream:
            writer = format_.writer(path, columns, stream.schema, options, output.compression)
            writer.write_all(stream)
    else:
        import pyarrow as pa

        # `empty_table` makes arrays, which Arrow cannot of all types.
        nothing = pa.Table.from_batches([], fed.schema)
        schema = _answer(engine, sql, fed.name, nothing)[0]
        writer = format_.writer(path, columns, schema, options, output.compression)
        picks = fed.picks if format_.writes_columns else None
        if picks is not None and picks.fit(fed.schema, schema):
            writer.write_all(map(picks.of, fed.batches))
        else:
            made = (_answer(engine, sql, fed.name, batch)[1] for batch in fed.batches)
            writer.write_all(chain.from_iterable(made))
    return writer.rows


def _answer(
    engine: Engine, sql: str, name: str, rows: pa.RecordBatch | pa.Table
) -> tuple[pa.Schema, list[pa.RecordBatch]]:
    """A statement on rows that are there.

    As a stream they might make statements of their own, which want types of Arrow by another
    setting while this one starts (`ConversionMode`), and would wait for it.
    """
    engine.register(name, rows)
    try:
        with engine.batches(sql, _BATCH_ROWS) as stream:
            return stream.schema, list(stream)
    finally:
        engine.unregister(name)


def join_files(
    parts: Sequence[KeptFile], columns: Sequence[Column], output: FileOutput, path: str
) -> KeptFile:
    """One file of parts in their order. Raises `StorageError`."""
    format_ = format_of(output.format, output.own)
    try:
        format_.concatenate(
            [part.path for part in parts],
            path,
            output.columns(columns),
            dict(output.options),
            output.compression,
        )
        file = KeptFile(path, sum(part.rows for part in parts), os.path.getsize(path))
        return summed(file) if output.summed else file
    except OSError as error:
        _remove(path)
        raise _not_written(output, error) from None


def _explained(error: EngineError, columns: Sequence[Column], output: FileOutput) -> RunError:
    """Tells the columns when it is a limit of the format that made DuckDB fail."""
    if error.kind == "Conversion" and "DECIMAL(38,0)" in error.message:
        pairs = zip(columns, output.names, strict=True)
        wide = ", ".join(f'"{name}"' for column, name in pairs if "HUGEINT" in column.type)
        if wide:
            return RunError(
                f"an integer of more than 38 digits in {wide}: {output.format} has no such type",
                code="R751",
                hint="CAST it to VARCHAR",
                notes=(error.message,),
            )
    return error


def _writer_failed(error: CallError, output: FileOutput) -> UdfError:
    """What a writer of the user's own did wrong, and after how many rows."""
    rows = f", after {error.row:,} row{'s' if error.row != 1 else ''}," if error.row else ""
    message = f"{error.function} on {files.shown(output.target)}{rows} {error.message}"
    return UdfError(message, code=error.code, hint=error.hint, notes=error.notes)


def _not_written(output: FileOutput, error: OSError) -> StorageError:
    return files.unwritable(os.path.dirname(output.target) or ".", error)


def _remove(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
