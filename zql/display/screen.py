"""Standard output: bytes for programs, tables and text for people."""

from __future__ import annotations

import os
import sys
from typing import IO

from zql.display.formats import WRITERS, ResultRows
from zql.display.style import can_draw, style_for
from zql.display.text import safe_lines
from zql.errors import RunError


class OutputClosed(Exception):  # noqa: N818 - it is the reader's wish, no error
    """Whoever read our output has gone: stop without a word."""


class Screen:
    """Standard output, written to as bytes; a reader that has gone becomes `OutputClosed`.

    It is also the binary file that the writers of formats and pyarrow are given.
    """

    def __init__(self, *, no_color: bool = False) -> None:
        self._stream = sys.stdout
        self._bytes: IO[bytes] = self._stream.buffer
        self._encoding = self._stream.encoding or "utf-8"
        self.terminal = self._stream.isatty()
        self.style = style_for(self._stream, no_color=no_color)

    def write(self, data: bytes) -> int:
        """Writes bytes; raises OutputClosed, or RunError when the place is full."""
        try:
            return self._bytes.write(data)
        except OSError as error:
            raise self._explain(error) from error

    def flush(self) -> None:
        """Sends on what is buffered; raises as `write` does."""
        try:
            self._stream.flush()
        except OSError as error:
            raise self._explain(error) from error

    # What pyarrow asks of a file.
    closed = False
    seekable = readable = staticmethod(lambda: False)
    writable = staticmethod(lambda: True)

    def _explain(self, error: OSError) -> Exception:
        if isinstance(error, BrokenPipeError):
            return OutputClosed()
        return RunError(f"cannot write the output: {error.strerror or error}", code="R724")

    def line(self, text: str = "") -> None:
        """Writes a line in the stream's own encoding, `?` for what it lacks."""
        self.write((text + "\n").encode(self._encoding, "replace"))

    def text(self, text: str) -> None:
        """Writes lines that may hold names and values, made safe."""
        self.line(safe_lines(text.rstrip("\n")))

    def _columns(self) -> int:
        """Columns of the terminal; `COLUMNS` may say another number."""
        wanted = os.environ.get("COLUMNS", "")
        if wanted.isdecimal() and int(wanted):
            return int(wanted)
        try:
            return os.get_terminal_size(self._stream.fileno()).columns or 80
        except (OSError, ValueError):
            return 80

    def rows(self, rows: ResultRows, format: str, max_rows: int | None) -> None:
        """Writes a result in a format; a table shows `max_rows` of it at most (None: all)."""
        if format != "table":
            WRITERS[format](rows, self)  # type: ignore[arg-type]
            return
        from zql.display.box import ASCII, UNICODE, render_box
        from zql.display.preview import read_preview

        limit = self._columns() if self.terminal else None
        chars = UNICODE if can_draw(self._stream) else ASCII
        preview = read_preview(rows, max_rows)
        self.line(render_box(preview, limit=limit, style=self.style, chars=chars))


def complain(text: str) -> None:
    """Writes a line to stderr; when nobody can read that any more, so be it."""
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        pass


def explain_exception(error: Exception, *, verbose: bool) -> str:
    """The words for an exception that nobody expected; `verbose` puts its traceback before."""
    trace = ""
    if verbose:
        import traceback

        trace = safe_lines("".join(traceback.format_exception(error)))
    advice = "" if verbose else "; -v shows where it happened"
    return (
        f"{trace}ZQL-X900 internal error: {safe_lines(f'{type(error).__name__}: {error}')}\n"
        f"  hint: this is a bug in ZQL: please report it with the script{advice}"
    )
