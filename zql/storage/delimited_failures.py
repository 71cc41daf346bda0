"""Finds the line behind DuckDB's refusal of a delimited file."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from zql.errors import StorageError
from zql.schema import InputFile
from zql.storage import contract, delimited_read, failures

_LINE = re.compile(r"CSV Error on Line: (\d+)")
_LONG = ("maximum line size", "Maximum line size", "max_line_size", "maximum_line_size")
_PACKED = ("gzip", "GZIP", "zstd", "ZSTD")


def explain(
    inputs: Sequence[InputFile], options: Mapping[str, Any], message: str
) -> StorageError | None:
    """The `StorageError` with file and line; None when the message is about something else."""
    found = failures.suspects(inputs, message)
    if "unicode" in message.lower() or "utf-8" in message.lower():
        return _first(_no_text(f, options) for f in found)
    if "Expected Number of Columns" in message or "invalid state" in message:
        return _first(_ragged(f, options) for f in found)
    if any(words in message for words in _LONG):
        return _too_long(found, options)
    if contract.MARK in message:
        broken = contract.parts(message)
        return _first(_holding(f, options, *broken) for f in inputs)
    line = _LINE.search(message)
    if line:
        reason = _reason(message)
        return failures.bad(found[0], int(line.group(1)), reason, hint=_quoting_hint(reason))
    if any(word in message for word in _PACKED):
        for file in found:
            for _ in failures.unpacked_lines(file, options):
                pass
    return None


def _first(found: Iterator[StorageError | None]) -> StorageError | None:
    return next((error for error in found if error), None)


def _reason(message: str) -> str:
    lines = [line.strip() for line in message.split("\n")[1:]]
    shown = [li for li in lines if li and not li.startswith(("Original Line", "Possible", "*"))]
    return shown[0].rstrip(".") if shown else "cannot be read"


def _quoting_hint(reason: str) -> str | None:
    if "quote" not in reason:
        return None
    return "quotes inside of a quoted value are doubled; quote => '' reads them as characters"


def _no_text(file: InputFile, options: Mapping[str, Any]) -> StorageError | None:
    name = delimited_read.encoding(options)
    for number, line in enumerate(failures.unpacked_lines(file, options), 1):
        try:
            line.decode(name)
        except UnicodeDecodeError as error:
            return failures.bad(
                file,
                number,
                f"no {name.upper()} at byte {error.start + 1}: {failures.excerpt(line)}",
                hint=delimited_read.ENCODING_HINT,
            )
    return None


def _rows(
    file: InputFile, options: Mapping[str, Any], *, strict: bool = False
) -> Iterator[tuple[int, list[str]]]:
    """The rows of a file with the line on which each begins."""
    name = delimited_read.encoding(options)
    if delimited_read.is_utf8(options):
        lines = failures.unpacked_lines(file, options)
        text: Iterator[str] = (line.decode("utf-8", "replace") for line in lines)
    else:
        text = iter(b"".join(failures.unpacked_lines(file, options)).decode(name).splitlines(True))
    with delimited_read.any_length():
        rows = csv.reader(text, **delimited_read.python_dialect(options), strict=strict)
        line = 1
        for row in rows:
            yield line, row
            line = rows.line_num + 1


def _ragged(file: InputFile, options: Mapping[str, Any]) -> StorageError | None:
    width = None
    padded = options.get("null_padding", False)
    for line, row in _rows(file, options):
        if width is None:
            width = len(row)
        elif row and (len(row) > width or (len(row) < width and not padded)):
            hint = "read_csv('..', null_padding => true) takes missing values for NULL"
            return failures.bad(
                file,
                line,
                f"{_values(len(row))}, but the first line has {width}",
                hint=hint if len(row) < width else _delimiter_hint(width),
            )
    return None


def _values(count: int) -> str:
    return "1 value" if count == 1 else f"{count} values"


def _delimiter_hint(width: int) -> str | None:
    return "is the delimiter another? read_csv('..', delimiter => ';')" if width == 1 else None


def _too_long(found: Sequence[InputFile], options: Mapping[str, Any]) -> StorageError | None:
    limit = int(options.get("max_line_bytes", delimited_read.LINE_BYTES))
    for file in found:
        for line, row in _rows(file, options):
            size = sum(len(value.encode()) + 1 for value in row)
            if size > limit:
                what = f"a row of {size} bytes, more than the limit of {limit}"
                hint = f"read_csv('..', max_line_bytes => {1 << size.bit_length()})"
                return failures.bad(file, line, what, hint=hint)
    return None


def _holding(
    file: InputFile, options: Mapping[str, Any], name: str, type_: str, value: str
) -> StorageError | None:
    names = delimited_read.header(file, options)
    if name not in names:
        return None
    place = names.index(name)
    rows = _rows(file, options)
    if options.get("header", True):
        next(rows, None)
    for line, row in rows:
        if place < len(row) and row[place] == value:
            what = f'column "{name}" holds {value!r}, which is no {type_}'
            return failures.bad(file, line, what, hint=f'declare another type for "{name}"')
    return None
