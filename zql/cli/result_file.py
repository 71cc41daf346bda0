"""The file of `-o`: one result, in the format of its suffix, whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from zql.display.box import render_box
from zql.display.formats import SUFFIXES, WRITERS
from zql.display.preview import read_preview
from zql.display.summary import written_lines
from zql.errors import StorageError, UsageError, did_you_mean, nearest
from zql.storage import compression
from zql.storage.format import WrittenFile

if TYPE_CHECKING:
    from zql.execution.stream import RowStream


class ResultFile:
    """Is written under a temporary name beside its own, then renamed by `publish`."""

    def __init__(self, path: str, format: str | None) -> None:
        """Raises UsageError for a suffix that tells no format when none is given."""
        self.path = path
        self._packing = compression.of_path(path)
        self._format = format or _format_of(compression.strip_suffix(path))
        if self._format == "arrow" and not path.endswith(".arrows"):
            self._format = "arrow file"
        folder, name = os.path.split(path)
        self._temporary = os.path.join(folder, f".{name}.{os.getpid()}.tmp")
        self._rows: int | None = None

    def write(self, rows: RowStream) -> None:
        """Takes the one result; raises UsageError for a second, StorageError when it cannot."""
        if self._rows is not None:
            raise UsageError(
                "-o takes exactly one result, and there are more",
                code="U635",
                hint="name the files in the script with WRITE",
            )
        counted = _Counted(rows)
        try:
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
        """Gives the file its name; raises UsageError when there was no result."""
        if self._rows is None:
            raise UsageError(
                "-o takes exactly one result, and there is none",
                code="U635",
                hint="a query that ends in WRITE has its own file",
            )
        try:
            os.replace(self._temporary, self.path)
        except OSError as error:
            raise self._failure(error) from error

    def discard(self) -> None:
        """Removes what was written; what stood under the name stays."""
        Path(self._temporary).unlink(missing_ok=True)

    def summary(self) -> str:
        """The line that tells what was written."""
        written = WrittenFile(self.path, self._rows or 0, os.path.getsize(self.path))
        return written_lines([written])[0]


def _format_of(path: str) -> str:
    suffix = os.path.splitext(path)[1].lower()
    if suffix in SUFFIXES:
        return SUFFIXES[suffix]
    near = nearest(suffix, SUFFIXES) if suffix else ()
    raise UsageError(
        f"-o {path}: {f'the suffix {suffix}' if suffix else 'no suffix'} tells no format",
        code="U636",
        hint=did_you_mean(near) or f"one of {' '.join(SUFFIXES)}, or say it with --format",
        candidates=near,
    )


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

    def _add(self, chunk: Any) -> Any:
        self.count += len(chunk)
        return chunk

    def batches(self) -> Any:
        for batch in self._rows.batches():
            self.count += batch.num_rows
            yield batch
