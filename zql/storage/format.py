"""What a format is: how its files are understood, cut, read and written.

A reader of ZQL's own never touches rows in Python: it gives DuckDB a SQL text. What a format must
ask of DuckDB (to infer a schema, say) goes through `SqlEngine`, so that nothing here imports it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from zql.errors import StorageError
from zql.schema import DataType, InputFile, Schema
from zql.tree import node

if TYPE_CHECKING:
    import pyarrow as pa


@node
class Split:
    """A part of a file that one task reads: bytes of JSONL, rows of Parquet, else the whole.

    `[start, stop)`; both None for the whole file. Splits of a file are in its order and cover each
    row once. `first_row` is the number in the file of the first row of an opened split, from 0.
    `part` is what a reader of the user's own made of the file, pickled; then `start` is its number.
    """

    file: InputFile
    start: int | None = None
    stop: int | None = None
    first_row: int = 0
    part: bytes = b""


@node
class ReadColumn:
    """A column to read: `alias` in the SQL, exact `source` name in the file, `type` wanted.

    `kind`: data, filename, row (row number in the file, from 0), hive, place (a number that grows
    along the rows of all files).
    """

    alias: str
    source: str
    type: DataType
    kind: str = "data"


@node
class Sample:
    """What a quick look tells of columns.

    `types` of those that a scan can verify; `unsure`: others that are there, `absent`: those that
    seem not to be; a line length that seems enough. `verified`: an earlier scan found it all true.
    `as_json`: columns of text that had values which are JSON themselves.
    """

    types: Mapping[str, DataType]
    unsure: tuple[str, ...]
    absent: tuple[str, ...]
    line_bytes: int
    verified: bool = False
    as_json: tuple[str, ...] = ()


@node
class WriteColumn:
    """A column to write: `alias` in the query, `name` in the file, `type` in DuckDB's words."""

    alias: str
    name: str
    type: DataType


@node
class WrittenFile:
    """A finished output file; `checksum` is the CRC-32 of its bytes, where it is known."""

    path: str
    rows: int
    bytes: int
    checksum: str = ""


class SqlEngine(Protocol):
    """DuckDB, as far as a format needs it: one statement, all rows, as tuples."""

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Runs one statement; raises the engine's own error (its text holds DuckDB's message)."""


class ScanEngine(SqlEngine, Protocol):
    """DuckDB where a scan is run."""

    def stream(self, schema: pa.Schema, batches: Generator[pa.RecordBatch]) -> str:
        """A name under which one statement reads batches as they are made, once, in order."""


@node
class Copy:
    """A COPY of `select` with `options`; it counts `extra_rows` more than there are rows."""

    select: str
    options: str
    extra_rows: int = 0


@node
class BadRow:
    """A row that cannot be read by itself: its file, its line from 1, its text, what is wrong."""

    path: str
    line: int
    text: str
    error: str


class SkippingFormat(Protocol):
    """A format with the option `on_error`: `'skip'` passes over rows that cannot be read."""

    def bad_rows(
        self, files: Sequence[InputFile], options: Mapping[str, Any], engine: SqlEngine
    ) -> Iterator[BadRow | int]:
        """Those rows, in order; between them the numbers of all rows that were looked at.

        The files are not opened. A file that is damaged as a whole raises `StorageError`.
        """


class RowWriter(Protocol):
    """Writes Arrow batches of one file; the path is already a temporary one.

    The bytes depend on the rows alone, not on how they were cut into batches.
    """

    rows: int
    """Rows written so far."""

    def write_all(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Writes the rows of the query that `Format.output_sql` made.

        The file is finished then and synced to disk. Without rows it is still a readable file.
        """


class BatchWriter(ABC):
    """A `RowWriter` that takes batch by batch."""

    rows = 0

    @abstractmethod
    def write(self, batch: pa.RecordBatch) -> None:
        """Appends rows."""

    @abstractmethod
    def close(self) -> None:
        """Finishes the file and syncs it to disk."""

    @abstractmethod
    def abandon(self) -> None:
        """Lets go of the file as it is."""

    def write_all(self, batches: Iterable[pa.RecordBatch]) -> None:
        """See `RowWriter`."""
        try:
            for batch in batches:
                self.write(batch)
        except BaseException:
            self.abandon()
            raise
        self.close()


Source = Sequence[InputFile] | Split
"""What a scan reads: whole files, in this order, or a part of one."""


class Format(Protocol):
    """A file format: one of `registry.FORMATS`, or one of the user's own."""

    name: str
    suffixes: tuple[str, ...]
    writes_columns: bool
    """Whether `output_sql` gives the columns as they are, but for types that the format lacks."""

    @property
    def read_options(self) -> Mapping[str, str]:
        """The options of its reader, and what kind of value each takes."""

    @property
    def write_options(self) -> Mapping[str, str]:
        """The options of its writer, and what kind of value each takes."""

    def schema(
        self,
        files: Sequence[InputFile],
        options: Mapping[str, Any],
        engine: SqlEngine,
        columns: Sequence[str] | None = None,
    ) -> Schema:
        """Columns of the union of the files by name, types widened; every row counts.

        The files are as `opened` gives them. With `columns` only these need be found; others may be
        left out. Columns from `key=value` folders are not the format's business (see `hive`).
        """

    def sample(
        self, files: Sequence[InputFile], options: Mapping[str, Any], columns: Sequence[str]
    ) -> Sample | None:
        """A quick look at some of these columns, not at every row; None when there is no such way.

        Unless it is `verified`, the scan must verify it: it is told by the options `sampled`,
        `absent` and `as_json`, which hold names.
        """

    def confirm(
        self, files: Sequence[InputFile], options: Mapping[str, Any], types: Mapping[str, DataType]
    ) -> None:
        """Keeps in the cache that a scan over every row has verified the sample in `options`."""

    def hints(self, files: Sequence[InputFile], options: Mapping[str, Any]) -> dict[str, Any]:
        """Options for the scan that are known by now and were not given, such as line lengths."""

    def splits(
        self,
        files: Sequence[InputFile],
        options: Mapping[str, Any],
        target_bytes: int,
        engine: SqlEngine,
    ) -> list[Split]:
        """Cuts into parts of about `target_bytes`, in file order; depends on nothing else."""

    def why_whole(self, file: InputFile, options: Mapping[str, Any]) -> str:
        """Why `splits` leaves a file whole, however big it is; empty when it is cut."""

    def halves(self, split: Split, options: Mapping[str, Any]) -> tuple[Split, Split] | None:
        """Two parts of a split with the same rows; None when it cannot be cut any more."""

    def opened(
        self, source: Source, options: Mapping[str, Any], *, number_rows: bool = False
    ) -> AbstractContextManager[Source]:
        """The same source with everything in place that DuckDB cannot do itself.

        Remote files that DuckDB cannot unpack are fetched, a byte range gets its window. The SQL of
        `scan_sql` on what this yields may be run inside the `with` only. `number_rows` is needed
        when the scan reads a column of kind `row`: it finds `first_row`.
        """

    def scan_sql(
        self,
        source: Source,
        columns: Sequence[ReadColumn],
        options: Mapping[str, Any],
        engine: ScanEngine,
    ) -> str:
        """A parenthesised SELECT that gives the columns under their aliases, rows in order."""

    def output_sql(
        self, query: str, columns: Sequence[WriteColumn], options: Mapping[str, Any]
    ) -> str:
        """A query's rows in the form that `writer` takes, in order."""

    def copy(
        self,
        query: str,
        columns: Sequence[WriteColumn],
        options: Mapping[str, Any],
        compression: str | None,
    ) -> Copy | None:
        """A COPY that gives the same bytes as `writer` with the same rows; None when there is none.

        It writes to a local path, and needs `preserve_insertion_order`.
        """

    def writer(
        self,
        path: str,
        columns: Sequence[WriteColumn],
        schema: pa.Schema,
        options: Mapping[str, Any],
        compression: str | None,
    ) -> RowWriter:
        """Opens a writer on a local path; `schema` is that of the batches of `output_sql`.

        `compression` is a name of `compression.COMPRESSIONS`; None and `none` are the same. In
        Parquet it is that of the pages.
        """

    def concatenate(
        self,
        parts: Sequence[str],
        target: str,
        columns: Sequence[WriteColumn],
        options: Mapping[str, Any],
        compression: str | None,
    ) -> None:
        """Makes one file of parts in their order; all are local paths, `target` a temporary one.

        The parts were written with `part_compression`.
        """

    def part_compression(self, compression: str | None) -> str | None:
        """The compression for parts that `concatenate` will join into a file with this one."""

    def explain_failure(
        self, files: Sequence[InputFile], options: Mapping[str, Any], message: str
    ) -> StorageError | None:
        """Finds the place behind DuckDB's reading error: a `StorageError` with file and line."""
