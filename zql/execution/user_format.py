"""A format of the user's own, as the rest of the program knows formats.

Its reader gives rows to DuckDB as a stream that can be read once: only tasks read it. The rules by
which values become columns are those of Python functions.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from zql.errors import InternalError, StorageError, UdfError, UsageError
from zql.execution import kinds
from zql.execution.binding import CallError
from zql.execution.user_method import UserMethod, method
from zql.execution.user_reading import Reading
from zql.expr.functions import PythonFormat
from zql.expr.sql import quote_identifier
from zql.schema import DataType, Field, InputFile, Schema
from zql.storage import compression as packing
from zql.storage import files as storage_files
from zql.storage import hive, opening, scan
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
from zql.storage.options import FOR_ALL_READERS
from zql.storage.widening import widest

if TYPE_CHECKING:
    import pyarrow as pa

READ_OPTIONS = {**FOR_ALL_READERS, "columns": "STRUCT", "compression": "VARCHAR"}
"""The options that every such reader has: they are ZQL's business."""

WRITE_OPTIONS = {"compression": "VARCHAR", "compression_level": "BIGINT"}

_FIRST_ROWS = 100
_NUMBER = ReadColumn("row", "file_row_number", "BIGINT", "row")


class UserFormat:
    """See the module, and `Format`. What the user's code raises is a `UdfError`."""

    def __init__(self, own: PythonFormat) -> None:
        self.own = own
        self.name = own.name
        self.suffixes = own.suffixes
        self._columns: dict[str, DataType] = {}

    @cached_property
    def read_options(self) -> Mapping[str, str]:
        """ZQL's and the reader's. Raises `UsageError` when the format cannot read."""
        return {**self._reader.options, **READ_OPTIONS}

    @cached_property
    def write_options(self) -> Mapping[str, str]:
        """ZQL's and the writer's. Raises `UsageError` when the format cannot write."""
        return {**self._writer.options, **WRITE_OPTIONS}

    # ---- reading -------------------------------------------------------------------------------

    def schema(
        self,
        files: Sequence[InputFile],
        options: Mapping[str, Any],
        engine: SqlEngine,
        columns: Sequence[str] | None = None,
    ) -> Schema:
        """See `Format`. What nothing says is seen on the first rows of each file."""
        from zql.execution import user_schema

        self._reader.require(options, f"read_{self.name}")
        types = dict(options.get("columns") or user_schema.annotated(self._reader) or {})
        if not types:
            found = [self._types_of(file, options, engine) for file in files]
            for one in found:
                for name, type_ in one.items():
                    types[name] = widest(types[name], type_) if name in types else type_
        self._columns = scan.canonical_types(types, engine)
        return Schema(tuple(Field(name, type_) for name, type_ in self._columns.items()))

    def _types_of(
        self, file: InputFile, options: Mapping[str, Any], engine: SqlEngine
    ) -> dict[str, DataType]:
        from zql.execution import user_schema

        told = self._method("schema", 1)
        if told is not None:
            found = self._call(told, file, options)
            name = f"{self.own.code.name}.schema"
            return scan.canonical_types(user_schema.told(found, name), engine)
        with self._reading(file, options) as reading:
            taken = reading.take(_FIRST_ROWS)
            return scan.canonical_types(user_schema.seen(taken, reading), engine)

    def sample(
        self,
        files: Sequence[InputFile],
        options: Mapping[str, Any],
        columns: Sequence[str],
    ) -> Sample | None:
        """See `Format`: there is no such way."""
        return None

    def confirm(
        self, files: Sequence[InputFile], options: Mapping[str, Any], types: Mapping[str, DataType]
    ) -> None:
        """See `Format`: there is nothing to confirm."""

    def hints(
        self,
        files: Sequence[InputFile],
        options: Mapping[str, Any],
    ) -> dict[str, Any]:
        """See `Format`: the columns that `schema` found, which a scan may read a part of."""
        return {"columns": self._columns} if self._columns else {}

    def splits(
        self,
        files: Sequence[InputFile],
        options: Mapping[str, Any],
        target_bytes: int,
        engine: SqlEngine,
    ) -> list[Split]:
        """See `Format`: the parts that the user's `splits` gives, else whole files.

        So are packed files, and those whose rows are numbered: who reads a part does not know how
        many rows there are before it.
        """
        whole = not self.own.cuts or options.get("file_row_number")
        found: list[Split] = []
        for file in files:
            found += [Split(file)] if whole else self._parts(file, options)
        return found

    def _parts(self, file: InputFile, options: Mapping[str, Any]) -> list[Split]:
        import cloudpickle

        cut = self._method("splits", 1)
        if cut is None or self._packed(file, options) is not packing.NONE:
            return [Split(file)]
        parts = self._call(cut, file, options, list)
        return [
            Split(file, number, number + 1, part=cloudpickle.dumps(part))
            for number, part in enumerate(parts)
        ]

    @contextmanager
    def opened(
        self, source: Source, options: Mapping[str, Any], *, number_rows: bool = False
    ) -> Iterator[Source]:
        """See `Format`. Files are opened when their rows are taken."""
        if number_rows and isinstance(source, Split) and source.start:
            before = 0
            for split in self._parts(source.file, options)[: source.start]:
                for rows, _ in self._columns_of(split.file, split, (), options):
                    before += rows
            yield Split(source.file, source.start, source.stop, before, source.part)
        else:
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
        name = engine.stream(schema, self._batches(source, columns, options, schema))
        items = (scan.as_alias(f"CAST(c{i} AS {c.type})", c) for i, c in enumerate(columns))
        return f"(SELECT {', '.join(items)} FROM {name})"

    def _batches(
        self,
        source: Source,
        columns: Sequence[ReadColumn],
        options: Mapping[str, Any],
        schema: pa.Schema,
    ) -> Generator[pa.RecordBatch]:
        import pyarrow as pa

        split = source if isinstance(source, Split) else None
        for file in scan.files_of(source):
            number = split.first_row if split else 0
            data = [c for c in columns if c.kind == "data"]
            for rows, arrays in self._columns_of(file, split, data, options):
                found = dict(zip((c.alias for c in data), arrays, strict=True))
                for column, field in zip(columns, schema, strict=True):
                    if column.kind == "row":
                        found[column.alias] = pa.array(range(number, number + rows), field.type)
                    elif column.kind != "data":
                        value = _value_of(file, column)
                        found[column.alias] = pa.repeat(pa.scalar(value, field.type), rows)
                number += rows
                yield pa.RecordBatch.from_arrays([found[c.alias] for c in columns], schema=schema)

    def _columns_of(
        self,
        file: InputFile,
        split: Split | None,
        columns: Sequence[ReadColumn],
        options: Mapping[str, Any],
    ) -> Iterator[tuple[int, list[pa.Array]]]:
        """Batch by batch the number of rows, and the columns that are in the file."""
        names = [c.source for c in columns]
        types = [kinds.parse(c.type) for c in columns]
        known = frozenset(options.get("columns", ()))
        with self._reading(file, options, split, names) as reading:
            before = 0
            for arrays in reading.batches(names, types, known):
                yield reading.given - before, arrays
                before = reading.given

    @contextmanager
    def _reading(
        self,
        file: InputFile,
        options: Mapping[str, Any],
        split: Split | None = None,
        names: Sequence[str] | None = None,
    ) -> Iterator[Reading]:
        """A call of the reader, while the file is open."""
        reader = self._reader
        arguments = reader.arguments(options, READ_OPTIONS)
        if "columns" in reader.own:
            arguments["columns"] = None if names is None else list(names)
        place = storage_files.shown(file.path) if split is None else scan.place(split)
        if "part" in reader.own:
            # Made by this program for its own workers, and sent over their pipe: never from a file.
            part = split.part if split else b""
            arguments["part"] = pickle.loads(part) if part else None  # noqa: S301
        with self._handed(reader, file, options) as target:
            yield Reading(self.own.code.name, place, partial(reader.call, target, **arguments))

    def _call(
        self,
        called: UserMethod,
        file: InputFile,
        options: Mapping[str, Any],
        finish: Callable[[Any], Any] = lambda found: found,
    ) -> Any:
        """What a method tells of a file."""
        arguments = called.arguments(options, READ_OPTIONS)
        place = storage_files.shown(file.path)
        with self._handed(called, file, options) as target:
            name = f"{self.own.code.name}.{called.name}"
            with Reading(name, place, lambda: None).guarded():
                return finish(called.call(target, **arguments))

    def _handed(self, called: UserMethod, file: InputFile, options: Mapping[str, Any]) -> Any:
        """The file as a function takes it: a path, or a stream."""
        packed = self._packed(file, options)
        way = opening.as_stream if called.stream else opening.as_path
        return way(file, packed)

    def _packed(self, file: InputFile, options: Mapping[str, Any]) -> packing.Compression:
        """How a file is packed; a suffix such as `.warc.gz` of the format itself is its affair."""
        option = options.get("compression")
        if option is None and file.path.lower().endswith(self.suffixes):
            return packing.NONE
        return packing.chosen(file.path, option)

    def explain_failure(
        self,
        files: Sequence[InputFile],
        options: Mapping[str, Any],
        message: str,
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

        self._writer.require(options, f"the format {self.name}")
        arguments = self._writer.arguments(options, WRITE_OPTIONS)
        packed = packing.by_name(compression or "none")
        level = options.get("compression_level")
        name = f"{self.own.code.name}.write"
        return UserWriter(name, self._writer, path, columns, schema, arguments, (packed, level))

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

    # ---- the user's code -----------------------------------------------------------------------

    @cached_property
    def _reader(self) -> UserMethod:
        return self._needed("read", 1, "part", "columns")

    @cached_property
    def _writer(self) -> UserMethod:
        return self._needed("write", 2, "schema")

    def _needed(self, name: str, given: int, *zqls: str) -> UserMethod:
        found = self._method(name, given, *zqls)
        if found is None:
            raise UsageError(
                f'the format "{self.name}" cannot {name}',
                code="U625",
                hint=f"{self.own.code.name} has no method {name}",
            )
        taken = set(found.options) & set(READ_OPTIONS if name == "read" else WRITE_OPTIONS)
        if taken:
            raise UsageError(
                f'{self.own.code.name}: "{min(taken)}" is an option of ZQL\'s, and no parameter',
                code="U624",
                hint="call it something else",
            )
        return found

    def _method(self, name: str, given: int, *zqls: str) -> UserMethod | None:
        try:
            return method(self.own, name, given, *zqls)
        except CallError as error:
            message = f"{error.function} {error.message}"
            raise UdfError(message, code=error.code, notes=error.notes) from None


def _value_of(file: InputFile, column: ReadColumn) -> str | None:
    if column.kind == "filename":
        return file.path
    return hive.folder_values(file.path).get(column.source)
