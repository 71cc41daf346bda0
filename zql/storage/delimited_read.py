"""The SQL that reads delimited text with DuckDB, and the header that it needs to know first.

Nothing is sniffed: delimiter, quote and header come from the format or from options. Columns are
read by their place, each file under its own header, as text; types are casts above.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from zql.errors import StorageError, UsageError
from zql.expr.sql import quote_literal
from zql.schema import InputFile
from zql.storage import compression, contract, files, scan
from zql.storage.format import ReadColumn

LINE_BYTES = 16 * 2**20
"""The longest row that is read without being told of longer ones."""


def encoding(options: Mapping[str, Any]) -> str:
    """Python's name of the encoding; `UsageError` for an unknown one."""
    name = str(options.get("encoding", "utf-8"))
    try:
        return codecs.lookup(name).name
    except LookupError:
        raise UsageError(
            f'unknown encoding "{name}"', code="U615", hint="such as 'utf-8', 'latin-1', 'utf-16'"
        ) from None


def is_utf8(options: Mapping[str, Any]) -> bool:
    """Whether the encoding is DuckDB's own, with or without a mark at the beginning."""
    return encoding(options) in {"utf-8", "utf-8-sig", "ascii"}


NUMBER = "zql_number"
"""The first column of a copy without the rows that are passed over: a row's number in the file."""


def header(file: InputFile, options: Mapping[str, Any]) -> tuple[str, ...]:
    """The column names of a file: of its first row, or `column0`, ... when it has no header.

    Empty for a file without any row. Raises `StorageError` when a name comes twice.
    """
    names = _first_row(file, options)
    if file.local and skips(options):
        names = names[1:]
    if not options.get("header", True):
        return tuple(f"column{i}" for i in range(len(names)))
    for name in names:
        if names.count(name) > 1:
            raise StorageError(
                f'the header of {files.shown(file.path)} has the column "{name}" twice',
                code="R724",
                hint="rename one in the file, or read it with header => false",
            )
    return names


def _first_row(file: InputFile, options: Mapping[str, Any]) -> tuple[str, ...]:
    packed = compression.chosen(file.path, options.get("compression"))
    with files.open_binary(file) as stored:
        stream = stored if file.local else compression.reader(stored, packed)
        text = io.TextIOWrapper(stream, encoding="utf-8-sig", errors="surrogateescape", newline="")
        try:
            with any_length():
                first = tuple(next(csv.reader(text, **python_dialect(options)), ()))
        except (csv.Error, OSError, EOFError) as error:
            raise StorageError(
                f"{files.shown(file.path)}, line 1 cannot be read: {error}", code="R723"
            ) from None
        finally:
            text.detach()
    if any("\udc80" <= char <= "\udcff" for name in first for char in name):
        raise StorageError(
            f"{files.shown(file.path)}, line 1 is no UTF-8", code="R723", hint=ENCODING_HINT
        )
    return first


@contextmanager
def any_length() -> Iterator[None]:
    """Lets Python's csv module take values of any length."""
    before = csv.field_size_limit(1 << 30)
    try:
        yield
    finally:
        csv.field_size_limit(before)


ENCODING_HINT = "name the file's encoding, such as read_csv('..', encoding => 'latin-1')"


def python_dialect(options: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments for Python's csv module that mean the same."""
    quote, escape = options["quote"], options["escape"]
    return {
        "delimiter": options["delimiter"],
        "quotechar": quote or None,
        "quoting": csv.QUOTE_MINIMAL if quote else csv.QUOTE_NONE,
        "escapechar": escape if escape and escape != quote else None,
        "doublequote": escape == quote,
    }


def reader(run: Sequence[InputFile], width: int, options: Mapping[str, Any]) -> str:
    """DuckDB's reader for files of the same `width`: columns `c0`, `c1`, ... of text."""
    packed = compression.chosen(run[0].path, options.get("compression")).duckdb or "none"
    arguments = {
        "auto_detect": "false",
        "header": str(bool(options.get("header", True))).lower(),
        "delim": quote_literal(options["delimiter"]),
        "quote": quote_literal(options["quote"]),
        "escape": quote_literal(options["escape"]),
        "nullstr": quote_literal(options.get("null_str", "")),
        "allow_quoted_nulls": "false",
        "null_padding": str(bool(options.get("null_padding", False))).lower(),
        "strict_mode": str(bool(options.get("strict_mode", True))).lower(),
        "compression": quote_literal("none" if run[0].local else packed),
        "max_line_size": str(options.get("max_line_bytes", LINE_BYTES)),
        "hive_partitioning": "false",
    }
    if run[0].local:
        arguments["new_line"] = quote_literal("\\n")  # see `delimited_text`
    own = [NUMBER] if skips(options) else []
    struct = ", ".join(f"{name}: 'VARCHAR'" for name in (*own, *(f"c{i}" for i in range(width))))
    given = ", ".join(f"{name}={value}" for name, value in arguments.items())
    return f"read_csv({scan.path_list(run)}, {given}, columns={{{struct}}})"


def skips(options: Mapping[str, Any]) -> bool:
    """Whether a copy is read that has no row that cannot be read."""
    return options.get("on_error") == "skip"


def declared_fits(names: Sequence[str], options: Mapping[str, Any]) -> dict[str, str]:
    """For each column whose declared type is checked, whether its value is of the type."""
    return {
        name: contract.fits(type_, f"c{names.index(name)}")
        for name, type_ in options.get("declared", {}).items()
        if name in names and contract.is_checked(type_)
    }


def good_rows(run: Sequence[InputFile], names: Sequence[str], options: Mapping[str, Any]) -> str:
    """The rows of files of one header, without those that do not fit when such are passed over."""
    source = reader(run, len(names), options)
    fits = declared_fits(names, options) if skips(options) else {}
    if not fits:
        return source
    return f"(SELECT file_index, * FROM {source} WHERE {' AND '.join(fits.values())})"


def select(
    run: Sequence[InputFile],
    names: Sequence[str],
    columns: Sequence[ReadColumn],
    options: Mapping[str, Any],
) -> str:
    """A SELECT over files with the same header, or one file when rows are numbered."""
    places = {name: i for i, name in enumerate(names)}
    declared = {*options.get("columns", ()), *options.get("types", ())}
    items = []
    for column in columns:
        place = places.get(column.source)
        if column.kind == "row":
            number = f"CAST({NUMBER} AS BIGINT)" if skips(options) else "row_number() OVER () - 1"
            items.append(scan.as_alias(number, column))
        elif column.kind != "data":
            items.append(scan.as_alias(scan.file_value(column, run), column))
        elif place is None:
            items.append(scan.as_alias(f"CAST(NULL AS {column.type})", column))
        elif column.type == "VARCHAR":
            items.append(scan.as_alias(f"c{place}", column))
        elif column.source in declared and contract.is_checked(column.type):
            value = contract.converted(column.source, column.type, f"c{place}", f"c{place}")
            items.append(scan.as_alias(value, column))
        else:
            items.append(scan.as_alias(f"CAST(c{place} AS {column.type})", column))
    source = good_rows(run, names, options)
    return f"SELECT {', '.join(items) or '1'} FROM {source}"
