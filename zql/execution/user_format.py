"""A format of the user's own, as the rest of the program knows formats.

Its reader gives rows to DuckDB as a stream that can be read once: only tasks read it. The rules by
which values become columns are those of Python functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from zql.errors import InternalError, StorageError
from zql.execution import kinds
from zql.execution.user_code import READ_OPTIONS, WRITE_OPTIONS, UserCode
from zql.execution.user_reader import UserReader
from zql.expr.functions import PythonFormat
from zql.expr.sql import quote_identifier
from zql.schema import DataType, Field, InputFile, Schema
from zql.storage import compression as packing
from zql.storage import scan
from zql.storage.format import (
    Copy,
    ReadColumn,
    RowWriter,
    Sample,
    ScanEngine,
    Source,
    Split,
    SqlEngine,
    WriteColumn,
)

if TYPE_CHECKING:
    import pyarrow as pa

_NUMBER = ReadColumn("row", "file_row_number", "BIGINT", "row")


class UserFormat:
    """See the module, and `Format`. What the user's code raises is a `UdfError`."""

    writes_columns = True

    def __init__(self, own: PythonFormat) -> None:
        self.own = own
        self.name = own.name
        self.suffixes = own.suffixes
        self._code = UserCode(own)
        self._reader = UserReader(self._code)
        self._columns: dict[str, DataType] = {}

    @cached_property
    def read_options(self) -> Mapping[str, str]:
        """ZQL's, and those of `read`, `schema`, `splits`. `UsageError` if it cannot read."""
        return {**self._code.reading_options, **READ_OPTIONS}

    @cached_property
    def write_options(self) -> Mapping[str, str]:
        """ZQL's and the writer's. Raises `UsageError` when the format cannot write."""
        return {**self._code.write.options, **WRITE_OPTIONS}

    # ---- reading -------------------------------------------------------------------------------

    def schema(
        self,
        files: Sequence[InputFile],
        options: Mapping[str, Any],
        engine: SqlEngine,
        columns: Sequence[str] | None = None,
    ) -> Schema:
        """See `Format`. All columns are kept in any case: a scan must know which there may be."""
        from zql.execution import user_schema

        self._code.read.require(options, f"read_{self.name}")
        types = dict(options.get("columns") or user_schema.annotated(self._code.read))
        if not types:
            types = user_schema.united([self._reader.kinds(f, options, engine) for f in files])
        self._columns = scan.canonical_types(types, engine)
        return Schema(tuple(Field(name, type_) for name, type_ in self._columns.items()))

    def sample(
        self, files: Sequence[InputFile], options: Mapping[str, Any], columns: Sequence[str]
    ) -> Sample | None:
        """See `Format`: there is no such way."""
        return None

    def confirm(
        self, files: Sequence[InputFile], options: Mapping[str, Any], types: Mapping[str, DataType]
    ) -> None:
        """See `Format`: there is nothing to confirm."""

    def hints(self, files: Sequence[InputFile], options: Mapping[str, Any]) -> dict[str, Any]:
        """See `Format`: the columns that `schema` found, of which a scan may read a part."""
        return {"columns": self._columns} if self._columns else {}

    def splits(
        self,
        files: Sequence[InputFile],
        options: Mapping[str, Any],
        target_bytes: int,
        engine: SqlEngine,
    ) -> list[Split]:
        """See `Format`: the parts that the user's `splits` gives, else whole files.

        Files whose rows are numbered are whole too: who reads a part does not know how many rows
        there are before it.
        """
        whole = not self.own.cuts or options.get("file_row_number")
        found: list[Split] = []
        for file in files:
            found += [Split(file)] if whole else self._reader.parts(file, options)
        return found

    def why_whole(self, file: InputFile, options: Mapping[str, Any]) -> str:
        """See `Format`."""
        if not self.own.cuts:
            return f"{self.own.code.name} has no splits"
        return "rows are numbered by file" if options.get("file_row_number") else ""

    def halves(self, split: Split, options: Mapping[str, Any]) -> tuple[Split, Split] | None:
        """See `Format`: only its own code could."""
        return None

    @contextmanager
    def opened(
        self, source: Source, options: Mapping[str, Any], *, number_rows: bool = False
    ) -> Iterator[Source]:
        """See `Format`. Files are opened when their rows are taken."""
        if number_rows and isinstance(source, Split) and source.start:
            before = self._reader.rows_before(source, options)
            source = Split(source.file, source.start, source.stop, before, source.part)
        yield source

    def scan_sql(
        self,
        source: Source,
        columns: Sequence[ReadColumn],
        options: Mapping[str, Any],
        engine: ScanEngine,
    ) -> str:
        """See `Format`."""
        import pyarrow as pa

        if not scan.files_of(source):
            return scan.empty(columns)
        # DuckDB has no table without columns.
        columns = scan.with_kinds(columns, options) or (_NUMBER,)
        types = [kinds.arrow_type(kinds.wire_type(kinds.parse(c.type))) for c in columns]
        schema = pa.schema([pa.field(f"c{i}", type_) for i, type_ in enumerate(types)])
        name = engine.stream(schema, self._reader.batches(source, columns, options, schema))
        items = (scan.as_alias(f"CAST(c{i} AS {c.type})", c) for i, c in enumerate(columns))
        return f"(SELECT {', '.join(items)} FROM {name})"

    def explain_failure(
        self, files: Sequence[InputFile], options: Mapping[str, Any], message: str
    ) -> StorageError | None:
        """See `Format`: the reader's own errors say it."""
        return None

    # ---- writing -------------------------------------------------------------------------------

    def output_sql(
        self,
        query: str,
        columns: Sequence[WriteColumn],
        options: Mapping[str, Any],
    ) -> str:
        """See `Format`: types that Arrow lacks as text."""
        items = ", ".join(
            f"CAST({quote_identifier(c.alias)} AS {kinds.wire_type(kinds.parse(c.type))}) AS c{i}"
            for i, c in enumerate(columns)
        )
        return f"SELECT {items} FROM ({query})"

    def copy(
        self,
        query: str,
        columns: Sequence[WriteColumn],
        options: Mapping[str, Any],
        compression: str | None,
    ) -> Copy | None:
        """See `Format`: DuckDB does not know it."""
        return None

    def writer(
        self,
        path: str,
        columns: Sequence[WriteColumn],
        schema: pa.Schema,
        options: Mapping[str, Any],
        compression: str | None,
    ) -> RowWriter:
        """See `Format`."""
        from zql.execution.user_writer import UserWriter

        self._code.write.require(options, f"the format {self.name}")
        arguments = self._code.write.arguments(options, WRITE_OPTIONS)
        packed = packing.by_name(compression or "none")
        level = options.get("compression_level")
        name = f"{self.own.code.name}.write"
        return UserWriter(name, self._code.write, path, columns, schema, arguments, (packed, level))

    def concatenate(
        self,
        parts: Sequence[str],
        target: str,
        columns: Sequence[WriteColumn],
        options: Mapping[str, Any],
        compression: str | None,
    ) -> None:
        """Nobody asks for it: such a file is written in one piece."""
        raise InternalError(f"files of the format {self.name} cannot be joined")

    def part_compression(self, compression: str | None) -> str | None:
        """See `concatenate`."""
        return compression
