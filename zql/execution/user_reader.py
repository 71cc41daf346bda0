"""The reader of a user's format: its files opened as it takes them, its rows as columns."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import IO, TYPE_CHECKING, Any

from zql.execution import kinds
from zql.execution.kinds import Kind
from zql.execution.user_code import READ_OPTIONS, UserCode
from zql.execution.user_method import UserMethod
from zql.execution.user_reading import Reading
from zql.schema import InputFile
from zql.storage import compression as packing
from zql.storage import hive, opening, scan
from zql.storage.files import shown
from zql.storage.format import ReadColumn, Source, Split, SqlEngine

if TYPE_CHECKING:
    import pyarrow as pa

_FIRST_ROWS = 100

Options = Mapping[str, Any]


class UserReader:
    """What the user's code raises is a `UdfError`, with the file and the rows given so far."""

    def __init__(self, code: UserCode) -> None:
        self._code = code

    def kinds(self, file: InputFile, options: Options, engine: SqlEngine) -> dict[str, Kind]:
        """The columns of a file: the method `schema` tells them, or the first rows show them.

        A column of which only None was seen is NULL.
        """
        from zql.execution import user_schema

        told = self._code.method("schema", 1)
        if told is not None:
            found = self._call(told, file, options)
            name = f"{self._code.name}.schema"
            return user_schema.told(found, name, engine)
        with self._reading(file, options) as reading:
            taken = reading.take(_FIRST_ROWS)
            return user_schema.seen(taken, reading)

    def parts(self, file: InputFile, options: Options) -> list[Split]:
        """The parts that the method `splits` gives; a packed file is one."""
        import cloudpickle

        cut = self._code.method("splits", 1)
        if cut is None or self._packed(file, options) is not packing.NONE:
            return [Split(file)]
        return [
            Split(file, number, number + 1, part=cloudpickle.dumps(part))
            for number, part in enumerate(self._call(cut, file, options, list))
        ]

    def rows_before(self, split: Split, options: Options) -> int:
        """How many rows a file has before a part of it: they are read."""
        return sum(
            rows
            for part in self.parts(split.file, options)[: split.start]
            for rows, _ in self._columns_of(split.file, part, (), options)
        )

    def batches(
        self, source: Source, columns: Sequence[ReadColumn], options: Options, schema: pa.Schema
    ) -> Generator[pa.RecordBatch]:
        """The rows of a source, file by file, with the columns in this order, under `schema`."""
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
        options: Options,
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
        options: Options,
        split: Split | None = None,
        names: Sequence[str] | None = None,
    ) -> Iterator[Reading]:
        """A call of the reader, while the file is open."""
        read = self._code.read
        arguments = read.arguments(options, READ_OPTIONS)
        if "columns" in read.own:
            arguments["columns"] = None if names is None else list(names)
        if "part" in read.own:
            # Made by this program for its own workers, and sent over their pipe: never from a file.
            part = split.part if split else b""
            arguments["part"] = pickle.loads(part) if part else None  # noqa: S301
        place = shown(file.path) if split is None else scan.place(split)
        with self._handed(read, file, options) as target:
            yield Reading(self._code.name, place, partial(read.call, target, **arguments))

    def _call(
        self,
        called: UserMethod,
        file: InputFile,
        options: Options,
        finish: Callable[[Any], Any] = lambda found: found,
    ) -> Any:
        """What a method tells of a file."""
        arguments = called.arguments(options, READ_OPTIONS)
        name = f"{self._code.name}.{called.name}"
        with (
            self._handed(called, file, options) as target,
            Reading(name, shown(file.path), lambda: None).guarded(),
        ):
            return finish(called.call(target, **arguments))

    def _handed(
        self, called: UserMethod, file: InputFile, options: Options
    ) -> AbstractContextManager[str | IO[bytes]]:
        """The file as a function takes it: a path, or a stream."""
        packed = self._packed(file, options)
        return (opening.as_stream if called.stream else opening.as_path)(file, packed)

    def _packed(self, file: InputFile, options: Options) -> packing.Compression:
        """How a file is packed; a suffix such as `.warc.gz` of the format itself is its affair."""
        option = options.get("compression")
        if option is None and file.path.lower().endswith(self._code.own.suffixes):
            return packing.NONE
        return packing.chosen(file.path, option)


def _value_of(file: InputFile, column: ReadColumn) -> str | None:
    if column.kind == "filename":
        return file.path
    return hive.folder_values(file.path).get(column.source)
