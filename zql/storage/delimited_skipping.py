r"""Rows of delimited text that `on_error => 'skip'` passes over, and a copy of a file without them.

A row is bad whose number of values is not that of the first row, whose quotes are not closed or
not doubled, or that is no text in the file's encoding. Python's reader tells, so that there is one
answer whatever DuckDB's threads do. In the copy each row begins with its number in the file. When a
quote is not closed, only the line on which it begins is bad: the next one is looked at by itself.
"""

from __future__ import annotations

import csv
import io
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from zql.schema import DataType, InputFile
from zql.storage import compression, delimited_read, failures, files
from zql.storage.delimited_read import NUMBER
from zql.storage.format import BadRow, SqlEngine


class Row(NamedTuple):
    """A row, its number among them from 0 (of the header -1), the line on which it begins."""

    number: int
    line: int
    text: str
    values: list[str]
    wrong: str


def rows(file: InputFile, options: Mapping[str, Any]) -> Iterator[Row]:
    """The rows of a file with what is wrong with them; the first one is always right."""
    lines = _Lines(_text_lines(file, options), options)
    strict = bool(options.get("strict_mode", True))
    dialect = delimited_read.python_dialect(options)
    number, line, width = -1 if options.get("header", True) else 0, 1, 0
    reader = csv.reader(lines, **dialect, strict=strict)
    while True:
        values, wrong = _next(reader, lines)
        if not lines.taken:
            return
        text, count = "".join(lines.taken), len(lines.taken)
        lines.taken.clear()
        width = width or len(values)
        if values or width == 1 or wrong:
            wrong = wrong or _wrong(values, text, width, options)
            yield Row(number, line, text.rstrip("\r\n"), values, wrong)
            number += 1
        line += count


def _next(reader: Iterator[list[str]], lines: _Lines) -> tuple[list[str], str]:
    """The values of the next row, or what is wrong with its first line."""
    with delimited_read.any_length():
        try:
            return next(reader, []), ""
        except csv.Error as error:
            lines.back.extendleft(reversed(lines.taken[1:]))
            del lines.taken[1:]
            reason = str(error).removesuffix(".")
            return [], f"a quote that is not closed or not doubled ({reason})"


def _wrong(values: list[str], text: str, width: int, options: Mapping[str, Any]) -> str:
    if any("\udc80" <= char <= "\udcff" for char in text):
        return f"no {delimited_read.encoding(options).upper()}"
    count, padded = len(values), options.get("null_padding", False)
    # A blank line of a file of one column is NULL.
    if count > width or (count < width and count and not padded):
        return f"{count} value{'s' * (count != 1)}, but the first line has {width}"
    return ""


class _Lines:
    """The lines of a file for Python's reader: those of a row are `taken`, `back` come again."""

    def __init__(self, lines: Iterator[str], options: Mapping[str, Any]) -> None:
        self.taken: list[str] = []
        self.back: deque[str] = deque()
        self._lines = lines
        self._most = int(options.get("max_line_bytes", delimited_read.LINE_BYTES))
        self._size = 0

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        self._size = 0 if not self.taken else self._size
        line = self.back.popleft() if self.back else next(self._lines)
        self.taken.append(line)
        self._size += len(line)
        if self._size > self._most and len(self.taken) > 1:
            raise csv.Error(f"nor on the next {len(self.taken):,} lines")
        return line


def _text_lines(file: InputFile, options: Mapping[str, Any]) -> Iterator[str]:
    packed = compression.chosen(file.path, options.get("compression"))
    name = delimited_read.encoding(options)
    name = "utf-8-sig" if delimited_read.is_utf8(options) else name
    with files.open_binary(InputFile(file.path, file.size, file.version)) as stored:
        stream = compression.reader(stored, packed)
        text = io.TextIOWrapper(stream, encoding=name, errors="surrogateescape", newline="")
        try:
            yield from text
        except (OSError, EOFError, ValueError) as error:
            raise failures.not_unpacked(file, packed.name, error) from None
        except Exception as error:
            if type(error).__name__ not in failures.UNPACKING_ERRORS:
                raise
            raise failures.not_unpacked(file, packed.name, error) from None
        finally:
            text.detach()


def write_good_rows(file: InputFile, options: Mapping[str, Any], path: str) -> None:
    """Writes a copy without the bad rows, in UTF-8, a line end behind each row."""
    delimiter = options["delimiter"]
    with open(path, "w", encoding="utf-8", newline="") as copy:
        for row in rows(file, options):
            if not row.wrong:
                first = NUMBER if row.number < 0 else str(row.number)
                copy.write(f"{first}{delimiter}{row.text}\n")


def bad_rows(
    inputs: Sequence[InputFile],
    options: Mapping[str, Any],
    engine: SqlEngine,
    opened: Any,
) -> Iterator[BadRow | int]:
    """See `SkippingFormat`; `opened` gives the copies, the options have the `declared` types."""
    declared: Mapping[str, DataType] = options.get("declared", {})
    for file in inputs:
        names = delimited_read.header(file, options)
        misfits = _misfits(file, names, options, engine, opened)
        count = 0
        for row in rows(file, options):
            if row.number < 0:
                continue
            count += 1
            wrong = row.wrong
            column = misfits.get(row.number)
            if column is not None:
                value = row.values[names.index(column)]
                wrong = f'column "{column}" holds {value!r}, which is no {declared[column]}'
            if wrong:
                text = row.text.encode("utf-8", "surrogateescape").decode(errors="backslashreplace")
                yield BadRow(file.path, row.line, text, wrong)
        yield count


def _misfits(
    file: InputFile,
    names: Sequence[str],
    options: Mapping[str, Any],
    engine: SqlEngine,
    opened: Any,
) -> dict[int, str]:
    """By number the rows that are well-formed and do not fit a declared type: of which column."""
    fits = delimited_read.declared_fits(names, options)
    if not fits:
        return {}
    whens = " ".join(f"WHEN NOT ({sql}) THEN {i}" for i, sql in enumerate(fits.values()))
    columns = list(fits)
    with opened([file]) as copies:
        found = engine.rows(
            f"SELECT CAST({NUMBER} AS BIGINT), CASE {whens} END "
            f"FROM {delimited_read.reader(copies, len(names), options)} "
            f"WHERE NOT ({' AND '.join(fits.values())})"
        )
    return {number: columns[i] for number, i in found}
