"""Delimited text: CSV and TSV."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from zql.errors import StorageError, UsageError, did_you_mean, nearest
from zql.schema import DataType, Field, InputFile, Schema
from zql.storage import scan
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


class DelimitedFormat:
    """CSV with the comma, TSV with the tab; else the same."""

    writes_columns = False

    read_options: Mapping[str, str] = {
        **FOR_ALL_READERS,
        "delimiter": "CHAR",
        "quote": "CHAR?",
        "escape": "CHAR?",
        "header": "BOOLEAN",
        "null_str": "VARCHAR",
        "encoding": "VARCHAR",
        "columns": "STRUCT",
        "on_new_column": "fail or ignore",
        "types": "STRUCT",
        "all_varchar": "BOOLEAN",
        "null_padding": "BOOLEAN",
        "on_error": "fail or skip",
        "strict_mode": "BOOLEAN",
        "compression": "VARCHAR",
        "max_line_bytes": "BIGINT",
    }
    write_options: Mapping[str, str] = {
        "delimiter": "CHAR",
        "quote": "CHAR",
        "header": "BOOLEAN",
        "null_str": "VARCHAR",
        "compression": "VARCHAR",
        "compression_level": "BIGINT",
    }

    def __init__(self, name: str, suffixes: tuple[str, ...], delimiter: str) -> None:
        self.name = name
        self.suffixes = suffixes
        self.delimiter = delimiter

    def dialect(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options with delimiter, quote and escape set."""
        quote = options.get("quote", '"')
        return {"delimiter": self.delimiter, "quote": quote, "escape": quote} | dict(options)

    def schema(
        self,
        files: Sequence[InputFile],
        options: Mapping[str, Any],
        engine: SqlEngine,
        columns: Sequence[str] | None = None,
    ) -> Schema:
        """See `Format`. Text unless every value of a column is a plain number, or true or false."""
        from zql.storage import delimited_evidence, delimited_read

        dialect = self.dialect(options)
        headers = {file: delimited_read.header(file, dialect) for file in files}
        if "delimiter" not in options:
            _check_delimiter(headers, dialect)
        if "columns" in options and options.get("on_new_column") != "ignore":
            _refuse_new(headers, options["columns"])
        names = list(dict.fromkeys(name for names in headers.values() for name in names))
        declared = scan.canonical_types(options.get("columns", {}), engine)
        declared |= scan.canonical_types(options.get("types", {}), engine, "types")
        for name in declared:
            if name not in names and names:
                guess = nearest(name, names)
                raise UsageError(
                    f'no file has the column "{name}"', code="U614", hint=did_you_mean(guess)
                )
        wanted = list(options["columns"]) if "columns" in options else names
        if columns is not None:
            wanted = [n for n in wanted if n in set(columns)]
        if options.get("all_varchar"):
            found = dict.fromkeys(wanted, "VARCHAR")
        else:
            unknown = [n for n in wanted if n not in declared]
            dialect = self.dialect(scan.with_declared(options, engine))
            found = delimited_evidence.types_of(files, headers, unknown, dialect, engine)
        return Schema(tuple(Field(n, declared.get(n) or found[n]) for n in wanted))

    def bad_rows(
        self, files: Sequence[InputFile], options: Mapping[str, Any], engine: SqlEngine
    ) -> Iterator[BadRow | int]:
        """See `SkippingFormat`: rows that are no rows, or do not fit what is declared."""
        from zql.storage import delimited_skipping, delimited_text

        dialect = self.dialect(scan.with_declared(options, engine))
        opened = partial(delimited_text.readable, options=dialect)
        return delimited_skipping.bad_rows(files, dialect, engine, opened)

    def sample(
        self, files: Sequence[InputFile], options: Mapping[str, Any], columns: Sequence[str]
    ) -> Sample | None:
        """See `Format`: there is none."""
        return None

    def confirm(
        self, files: Sequence[InputFile], options: Mapping[str, Any], types: Mapping[str, DataType]
    ) -> None:
        """See `Format`: nothing is sampled."""

    def hints(self, files: Sequence[InputFile], options: Mapping[str, Any]) -> dict[str, Any]:
        """See `Format`: none."""
        return {}

    def splits(
        self,
        files: Sequence[InputFile],
        options: Mapping[str, Any],
        target_bytes: int,
        engine: SqlEngine,
    ) -> list[Split]:
        """See `Format`: whole files, since a quoted value may hold a line end."""
        return [Split(file) for file in files]

    def why_whole(self, file: InputFile, options: Mapping[str, Any]) -> str:
        """See `Format`."""
        return f"{self.name} files are read as a whole: a quoted value may hold a line end"

    def halves(self, split: Split, options: Mapping[str, Any]) -> tuple[Split, Split] | None:
        """See `Format`: they are not cut."""
        return None

    @contextmanager
    def opened(
        self,
        source: Source,
        options: Mapping[str, Any],
        *,
        number_rows: bool = False,
    ) -> Iterator[Source]:
        """See `Format`."""
        from zql.storage import delimited_text

        with delimited_text.readable(scan.files_of(source), self.dialect(options)) as found:
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
        from zql.storage import delimited_evidence, delimited_read

        dialect = self.dialect(scan.with_declared(options, engine))
        headers = {file: delimited_read.header(file, dialect) for file in scan.files_of(source)}
        found = [file for file, names in headers.items() if names]
        if not found:
            return scan.empty(columns)
        numbered = any(c.kind == "row" for c in columns)
        runs = delimited_evidence.same_reader(found, headers, dialect, apart=numbered)
        return scan.union_all(
            [delimited_read.select(run, headers[run[0]], columns, dialect) for run in runs]
        )

    def output_sql(
        self, query: str, columns: Sequence[WriteColumn], options: Mapping[str, Any]
    ) -> str:
        """See `Format`: lines as one column of text."""
        from zql.storage import delimited_write

        return delimited_write.output_sql(query, columns, self.dialect(options))

    def copy(
        self,
        query: str,
        columns: Sequence[WriteColumn],
        options: Mapping[str, Any],
        compression: str | None,
    ) -> Copy | None:
        """See `Format`: of plain files only, since packed ones would have other bytes."""
        from zql.storage import delimited_write, lines

        if compression not in {None, "none"}:
            return None
        select = delimited_write.copy_sql(query, columns, self.dialect(options))
        return Copy(select, lines.COPY_OPTIONS, int(options.get("header", True)))

    def writer(
        self,
        path: str,
        columns: Sequence[WriteColumn],
        schema: pa.Schema,
        options: Mapping[str, Any],
        compression: str | None,
    ) -> RowWriter:
        """See `Format`."""
        from zql.storage import delimited_write, lines

        head = delimited_write.header(columns, self.dialect(options))
        return lines.LineWriter(path, compression, options.get("compression_level"), head)

    def concatenate(
        self,
        parts: Sequence[str],
        target: str,
        columns: Sequence[WriteColumn],
        options: Mapping[str, Any],
        compression: str | None,
    ) -> None:
        """See `Format`."""
        from zql.storage import delimited_write, lines

        head = delimited_write.header(columns, self.dialect(options))
        lines.concatenate(parts, target, compression, options.get("compression_level"), len(head))

    def part_compression(self, compression: str | None) -> str | None:
        """See `Format`: parts are plain, and packed when they are joined."""
        return None

    def explain_failure(
        self, files: Sequence[InputFile], options: Mapping[str, Any], message: str
    ) -> StorageError | None:
        """See `Format`."""
        from zql.storage import delimited_failures

        return delimited_failures.explain(files, self.dialect(options), message)


def _check_delimiter(
    headers: Mapping[InputFile, Sequence[str]], dialect: Mapping[str, Any]
) -> None:
    """Refuses a header that is one column for this delimiter and several for another."""
    for file, names in headers.items():
        others = [c for c in ("\t", ";", "|", ",") if c != dialect["delimiter"]]
        told = [c for c in others if len(names) == 1 and c in names[0]]
        if told:
            written = "E'\\t'" if told[0] == "\t" else f"'{told[0]}'"
            raise StorageError(
                f"{shown(file.path)} has one column, whose name looks like several: {names[0]}",
                code="R724",
                hint=f"read_csv('..', delimiter => {written}), or ',' if it is one",
            )


def _refuse_new(
    headers: Mapping[InputFile, Sequence[str]], declared: Mapping[str, DataType]
) -> None:
    for file, names in headers.items():
        for name in names:
            if name not in declared:
                raise StorageError(
                    f'{shown(file.path)} has the column "{name}", which is no declared one',
                    code="R724",
                    hint=did_you_mean(nearest(name, declared))
                    or "on_new_column => 'ignore' leaves such columns out",
                )
