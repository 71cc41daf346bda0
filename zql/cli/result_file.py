"""The file of `-o`: one result, in the format of its suffix, whole or not at all.

What ZQL can write itself is written by it: the query gets a WRITE behind it, with all that brings
(workers, remote paths, compressions). The other formats are written here.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from zql.cli.sources import Script
from zql.display.box import render_box
from zql.display.formats import SUFFIXES, WRITERS
from zql.display.preview import read_preview
from zql.display.summary import written_lines
from zql.errors import StorageError, UsageError, did_you_mean, nearest
from zql.expr.sql import quote_literal
from zql.source import Source
from zql.storage import compression
from zql.storage.format import WrittenFile

if TYPE_CHECKING:
    from zql.execution.stream import RowStream


WRITTEN = ("csv", "tsv", "jsonl", "parquet")
"""Formats that WRITE has too."""


class ResultFile:
    """Is written under a temporary name beside its own, then renamed by `publish`."""

    def __init__(self, path: str, format: str) -> None:
        """`format` is one of those that `format_of` gives."""
        self.path = path
        self._packing = compression.of_path(path)
        self._format = format
        if format == "arrow" and not compression.strip_suffix(path).endswith(".arrows"):
            self._format = "arrow file"
        # A link stays one; what is no file (a pipe, a terminal) cannot be replaced by one.
        self._in_place = is_special(path)
        self._target = path if self._in_place else os.path.realpath(path)
        folder, name = os.path.split(self._target)
        self._temporary = os.path.join(folder, f".{name}.{os.getpid()}.tmp")
        self._rows: int | None = None

    def write(self, rows: RowStream) -> None:
        """Takes the one result; raises StorageError when it cannot be written."""
        counted = _Counted(rows)
        try:
            if self._in_place:
                # Appending does not cut what others have written to the same descriptor.
                with open(self._target, "ab") as file:
                    self._fill(counted, file)
            else:
                with open(self._temporary, "xb") as file:
                    self._fill(counted, file)
                    file.flush()
                    os.fsync(file.fileno())
        except OSError as error:
            raise self._failure(error) from error
        self._rows = counted.count

    def _fill(self, rows: Any, file: IO[bytes]) -> None:
        out: Any = file
        if self._packing is not compression.NONE:
            out = compression.writer(file, self._packing)
        if self._format == "table":
            out.write((render_box(read_preview(rows, None)) + "\n").encode())
        else:
            WRITERS[self._format](rows, out)
        if out is not file:
            out.close()

    def _failure(self, error: OSError) -> StorageError:
        return StorageError(f"cannot write {self.path}: {error.strerror or error}", code="R724")

    def publish(self) -> None:
        """Gives the file its name, if there was a result."""
        if self._in_place or self._rows is None:
            return
        try:
            os.replace(self._temporary, self._target)
        except OSError as error:
            raise self._failure(error) from error

    def discard(self) -> None:
        """Removes what was written; what stood under the name stays."""
        Path(self._temporary).unlink(missing_ok=True)

    def summary(self) -> str | None:
        """The line that tells what was written; None when it went to no file."""
        if self._in_place:
            return None
        written = WrittenFile(self.path, self._rows or 0, os.path.getsize(self._target))
        return written_lines([written])[0]


def is_special(path: str) -> bool:
    """Whether a path leads to no file of its own name: to a pipe, a terminal, a descriptor."""
    device = path.startswith(("/dev/", "/proc/"))
    return device or (os.path.exists(path) and not os.path.isfile(path))


def format_of(path: str, format: str | None) -> str:
    """The format of an output: the one that is named, else what its suffix tells.

    Raises UsageError when neither says anything.
    """
    name = compression.strip_suffix(path)
    suffix = os.path.splitext(name)[1].lower()
    if format is not None or suffix in SUFFIXES:
        return format or SUFFIXES[suffix]
    near = nearest(suffix, SUFFIXES) if suffix else ()
    raise UsageError(
        f"-o {path}: {f'the suffix {suffix}' if suffix else 'no suffix'} tells no format",
        code="U636",
        hint=did_you_mean(near) or f"one of {' '.join(SUFFIXES)}, or say it with --format",
        candidates=near,
    )


def write_into(scripts: Sequence[Script], path: str, format: str) -> list[Script]:
    """The scripts with the one result redirected: a WRITE behind its query, if ZQL can write it.

    Raises UsageError unless there is exactly one query without a WRITE, and ParseError.
    """
    found = [(i, end) for i, script in enumerate(scripts) for end in _ends(script.source)]
    if len(found) != 1:
        more = "there are more" if found else "there is none"
        hint = (
            "name the files in the script with WRITE"
            if found
            else "a query that ends in WRITE has its own file"
        )
        raise UsageError(f"-o takes exactly one result, and {more}", code="U635", hint=hint)
    if format not in WRITTEN or is_special(path):
        return list(scripts)
    (i, end) = found[0]
    source = scripts[i].source
    target = path if "://" in path else os.path.realpath(path) if os.path.islink(path) else path
    options = f"mode = 'overwrite', format = {quote_literal(format)}"
    write = f" |> WRITE {quote_literal(target)} OPTIONS ({options})"
    text = source.text[:end] + write + source.text[end:]
    return [
        script._replace(source=Source(source.name, text)) if n == i else script
        for n, script in enumerate(scripts)
    ]


def _ends(source: Source) -> list[int]:
    """Where the queries without a WRITE end."""
    from zql.syntax.ast import QueryStatement, Show, Write
    from zql.syntax.parser import parse_script

    ends = []
    for statement in parse_script(source).statements:
        if isinstance(statement, QueryStatement | Show) and statement.span:
            of = statement if isinstance(statement, Show) else statement.query
            if not isinstance(of.operators[-1] if of.operators else None, Write):
                ends.append(statement.span.end)
    return ends


class _Counted:
    """Passes a result on and counts its rows."""

    def __init__(self, rows: RowStream) -> None:
        self._rows = rows
        self.names, self.types = rows.names, rows.types
        self.arrow_schema = rows.arrow_schema
        self.count = 0

    def text_rows(self, limit: int) -> Any:
        return self._add(self._rows.text_rows(limit))

    def json_rows(self, limit: int) -> Any:
        return self._add(self._rows.json_rows(limit))

    def delimited_rows(self, delimiter: str, limit: int) -> Any:
        return self._add(self._rows.delimited_rows(delimiter, limit))

    def _add(self, chunk: Any) -> Any:
        self.count += len(chunk)
        return chunk

    def batches(self) -> Any:
        for batch in self._rows.batches():
            self.count += batch.num_rows
            yield batch
