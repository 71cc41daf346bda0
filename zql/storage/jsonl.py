"""JSON Lines: one object a line, in UTF-8."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from zql.errors import StorageError, did_you_mean, nearest
from zql.schema import DataType, Field, InputFile, Schema
from zql.storage import compression, files, inference, jsonl_checked, jsonl_read, scan, schema_cache
from zql.storage.files import shown
from zql.storage.format import (
    BadRow,
    Copy,
    ReadColumn,
    RowWriter,
    Sample,
    Source,
    Split,
    SqlEngine,
    WriteColumn,
)
from zql.storage.options import FOR_ALL_READERS

if TYPE_CHECKING:
    import pyarrow as pa


class JsonlFormat:
    """See the module."""

    name = "jsonl"
    suffixes: tuple[str, ...] = (".jsonl", ".ndjson", ".json")
    writes_columns = False
    read_options: Mapping[str, str] = {
        **FOR_ALL_READERS,
        "columns": "STRUCT",
        "compression": "VARCHAR",
        "max_line_bytes": "BIGINT",
        "on_bad_line": "fail or skip",
        "on_error": "fail or skip",
        "on_new_column": "fail or ignore",
        "rest": "VARCHAR",
        "sample_size": "SIZE",
    }
    write_options: Mapping[str, str] = {
        "compression": "VARCHAR",
        "compression_level": "BIGINT",
        "nan": "error, null or text",
    }

    def schema(
        self,
        files: Sequence[InputFile],
        options: Mapping[str, Any],
        engine: SqlEngine,
        columns: Sequence[str] | None = None,
    ) -> Schema:
        """See `Format`. Keys are matched exactly."""
        from zql.storage import jsonl_evidence

        if "columns" in options:
            return self._declared(files, options, engine)
        known = jsonl_evidence.known_of(files, options, engine, columns)
        names = _names(files, known) if columns is None else columns
        merged = {
            key: inference.merge_all(known[f].columns.get(key, inference.NOTHING) for f in files)
            for key in names
        }
        if columns is not None and inference.NOTHING in merged.values():
            # No value of a key was seen: is it NULL everywhere, or not there at all?
            there = _names(files, jsonl_evidence.known_of(files, options, engine, None))
            merged = {key: e for key, e in merged.items() if key in there}
        types = {key: inference.type_of(e) for key, e in merged.items()}
        nested = {key: type_ for key, type_ in types.items() if "(" in type_}
        types |= scan.canonical_types(nested, engine)
        return Schema(tuple(Field(key, type_) for key, type_ in types.items()))

    def _declared(
        self, files: Sequence[InputFile], options: Mapping[str, Any], engine: SqlEngine
    ) -> Schema:
        """The columns of a `columns` option; `StorageError` for files that have others."""
        from zql.storage import jsonl_evidence

        types = scan.canonical_types(options["columns"], engine)
        rest = options.get("rest")
        if rest is not None:
            types[rest] = "JSON"
        elif options.get("on_new_column") != "ignore":
            whole = {name: value for name, value in options.items() if name != "sample_size"}
            for file, known in jsonl_evidence.known_of(files, whole, engine, (), keys=True).items():
                new = next((key for key in known.keys or () if key not in types), None)
                if new is not None:
                    raise _new_column(file, new, types)
        return Schema(tuple(Field(name, type_) for name, type_ in types.items()))

    def skipped(
        self, files: Sequence[InputFile], options: Mapping[str, Any], engine: SqlEngine
    ) -> list[tuple[str, int]]:
        """The files with lines that `on_bad_line => 'skip'` leaves out, and how many they are."""
        found = []
        for run in jsonl_read.same_reader(files, options):
            rows = engine.rows(
                "SELECT file_index, count(*) FROM (SELECT file_index, json FROM "
                f"{jsonl_read.reader(run, options, None)}) "
                "WHERE coalesce(json_type(json) <> 'OBJECT', true) GROUP BY ALL ORDER BY ALL"
            )
            found += [(run[index].path, count) for index, count in rows]
        return found

    def bad_rows(
        self, files: Sequence[InputFile], options: Mapping[str, Any], engine: SqlEngine
    ) -> Iterator[BadRow | int]:
        """See `SkippingFormat`: lines that are no object, or do not fit what is declared."""
        from zql.storage import jsonl_skipping

        return jsonl_skipping.bad_rows(files, scan.with_declared(options, engine), engine)

    def sample(
        self, files: Sequence[InputFile], options: Mapping[str, Any], columns: Sequence[str]
    ) -> Sample | None:
        """See `Format`. None also when the cache knows all: then a schema costs nothing."""
        from zql.storage import jsonl_sample

        if {"columns", "sample_size", "on_bad_line", "on_error", "max_line_bytes"} & set(options):
            return None
        known = [schema_cache.load(file, _reader(options)) for file in files]
        if all(one.keys is not None and not one.lacks(columns) for one in known):
            return None
        return _confirmed(files, options, columns) or jsonl_sample.sample(files, options, columns)

    def confirm(
        self, files: Sequence[InputFile], options: Mapping[str, Any], types: Mapping[str, DataType]
    ) -> None:
        """See `Format`."""
        sampled = options.get("sampled", ())
        found = {name: type_ if name in sampled else _UNSURE for name, type_ in types.items()}
        found |= dict.fromkeys(options.get("absent", ()), _ABSENT)
        schema_cache.confirm(files, _reader(options), found, options["max_line_bytes"])

    def hints(self, files: Sequence[InputFile], options: Mapping[str, Any]) -> dict[str, Any]:
        """See `Format`: the length of lines, where they are longer than usual."""
        known = [schema_cache.load(file, _reader(options)).line_bytes for file in files]
        lengths = [length for length in known if length]
        longer = max(lengths, default=0) > jsonl_read.LINE_BYTES
        return (
            {"max_line_bytes": max(lengths)} if longer and "max_line_bytes" not in options else {}
        )

    def splits(
        self,
        files: Sequence[InputFile],
        options: Mapping[str, Any],
        target_bytes: int,
        engine: SqlEngine,
    ) -> list[Split]:
        """See `Format`: plain files at line ends, packed ones whole."""
        found = []
        for file in files:
            if self.why_whole(file, options) or file.size <= target_bytes * 3 // 2:
                found.append(Split(file))
            else:
                found += _cut(file, target_bytes)
        return found

    def why_whole(self, file: InputFile, options: Mapping[str, Any]) -> str:
        """See `Format`: packed files can only be read from their beginning."""
        packed = compression.chosen(file.path, options.get("compression"))
        return "" if packed is compression.NONE else f"{packed.name} files are read as a whole"

    def halves(self, split: Split, options: Mapping[str, Any]) -> tuple[Split, Split] | None:
        """See `Format`: at a line end."""
        if self.why_whole(split.file, options):
            return None
        start, stop = split.start or 0, split.file.size if split.stop is None else split.stop
        with files.open_binary(split.file) as stream:
            stream.seek(max(start, (start + stop) // 2 - 1))
            stream.readline()
            middle = stream.tell()
        if not start < middle < stop:
            return None
        return Split(split.file, start, middle), Split(split.file, middle, stop)

    @contextmanager
    def opened(
        self, source: Source, options: Mapping[str, Any], *, number_rows: bool = False
    ) -> Iterator[Source]:
        """See `Format`."""
        if isinstance(source, Split) and source.start is not None and source.stop is not None:
            numbered = number_rows or options.get("file_row_number")
            first = files.count_lines(source.file, source.start) if numbered else 0
            with files.window(source.file, source.start, source.stop) as local:
                stand_in = InputFile(source.file.path, source.file.size, source.file.version, local)
                yield Split(stand_in, source.start, source.stop, first)
        else:
            with files.readable(scan.files_of(source), options) as found:
                yield Split(found[0]) if isinstance(source, Split) else found

    def scan_sql(
        self,
        source: Source,
        columns: Sequence[ReadColumn],
        options: Mapping[str, Any],
        engine: SqlEngine,
    ) -> str:
        """See `Format`."""
        columns = scan.with_kinds(columns, options)
        options = scan.with_declared(options, engine)
        found = scan.files_of(source)
        if not found:
            return scan.empty(columns)
        if any(c.kind == "row" for c in columns):
            first = source.first_row if isinstance(source, Split) else 0
            parts = [jsonl_read.select([f], columns, options, first) for f in found]
        else:
            runs = jsonl_read.same_reader(found, options)
            parts = [jsonl_read.select(run, columns, options) for run in runs]
        return scan.union_all(parts)

    def output_sql(
        self, query: str, columns: Sequence[WriteColumn], options: Mapping[str, Any]
    ) -> str:
        """See `Format`: lines as one column of text."""
        from zql.storage import jsonl_write

        return jsonl_write.output_sql(query, columns, options)

    def copy(
        self,
        query: str,
        columns: Sequence[WriteColumn],
        options: Mapping[str, Any],
        compression: str | None,
    ) -> Copy | None:
        """See `Format`: of plain files only, since packed ones would have other bytes."""
        from zql.storage import jsonl_write, lines

        if compression not in {None, "none"}:
            return None
        return Copy(jsonl_write.output_sql(query, columns, options, "''"), lines.COPY_OPTIONS)

    def writer(
        self,
        path: str,
        columns: Sequence[WriteColumn],
        schema: pa.Schema,
        options: Mapping[str, Any],
        compression: str | None,
    ) -> RowWriter:
        """See `Format`."""
        from zql.storage import lines

        return lines.LineWriter(path, compression, options.get("compression_level"))

    def concatenate(
        self,
        parts: Sequence[str],
        target: str,
        columns: Sequence[WriteColumn],
        options: Mapping[str, Any],
        compression: str | None,
    ) -> None:
        """See `Format`."""
        from zql.storage import lines

        lines.concatenate(parts, target, compression, options.get("compression_level"))

    def part_compression(self, compression: str | None) -> str | None:
        """See `Format`: parts are plain, and packed when they are joined."""
        return None

    def explain_failure(
        self, files: Sequence[InputFile], options: Mapping[str, Any], message: str
    ) -> StorageError | None:
        """See `Format`. Of a sampled schema only that it is to be given up: a full one explains."""
        from zql.storage import jsonl_failures

        if "sampled" in options and jsonl_checked.is_surprise(message):
            return StorageError(f"{jsonl_checked.SURPRISE}: the sample was wrong", code="R723")
        return jsonl_failures.explain(files, options, message)


def _new_column(file: InputFile, key: str, types: Mapping[str, DataType]) -> StorageError:
    guess = nearest(key, types)
    return StorageError(
        f'{shown(file.path)} has the key "{key}", which is no declared column',
        code="R724",
        hint=did_you_mean(guess)
        or "on_new_column => 'ignore' leaves such keys out, rest => '_rest' keeps them as JSON",
        candidates=guess,
    )


_UNSURE, _ABSENT = "?", ""
"""In place of types, in what `confirm` keeps."""


def _confirmed(
    files: Sequence[InputFile], options: Mapping[str, Any], columns: Sequence[str]
) -> Sample | None:
    """What an earlier run has verified, if that is all that is wanted now."""
    found, line_bytes = schema_cache.confirmed(files, _reader(options))
    if line_bytes is None or not all(name in found for name in columns):
        return None
    types = {name: found[name] for name in columns if found[name] not in {_UNSURE, _ABSENT}}
    unsure = tuple(name for name in columns if found[name] == _UNSURE)
    absent = tuple(name for name in columns if found[name] == _ABSENT)
    return Sample(types, unsure, absent, line_bytes, verified=True)


def _reader(options: Mapping[str, Any]) -> str:
    """What decides how lines are read, for the schema cache; not how long they may be."""
    from zql.storage import jsonl_evidence

    return schema_cache.fingerprint(options, jsonl_evidence.READER_OPTIONS)


def _names(files: Sequence[InputFile], known: Mapping[InputFile, schema_cache.Known]) -> list[str]:
    return list(dict.fromkeys(key for file in files for key in known[file].keys or ()))


def _cut(file: InputFile, target_bytes: int) -> list[Split]:
    """Ranges that begin and end at line starts, each but the last of at least `target_bytes`."""
    found, start = [], 0
    with files.open_binary(file) as stream:
        while start < file.size:
            stop = file.size
            if start + target_bytes < file.size:
                # The line that holds the byte before the cut belongs to this part.
                stream.seek(start + target_bytes - 1)
                stream.readline()
                stop = min(stream.tell(), file.size)
            found.append(Split(file, start, stop))
            start = stop
    return found
