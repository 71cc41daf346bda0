"""Where results go: a terminal, a pipe or a file, in one format; what runs did goes beside them."""

from __future__ import annotations

import json
import shutil
import sys
from typing import IO, TYPE_CHECKING, Any

from zql.cli.options import Settings
from zql.cli.process import OutputClosed
from zql.cli.result_file import ResultFile
from zql.cli.run_record import RunRecord
from zql.display.box import ASCII, UNICODE, render_box
from zql.display.formats import BINARY, WRITERS
from zql.display.preview import read_preview
from zql.display.style import can_draw, style_for
from zql.display.summary import counter_lines, summary_lines, warning_lines
from zql.display.text import safe_lines
from zql.errors import RunError, UsageError, ZqlError

if TYPE_CHECKING:
    from zql.session import RowStream, RunResult, StatementResult


class Sink:
    """Standard output as bytes: a reader that has gone becomes `OutputClosed`."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._bytes: IO[bytes] = stream.buffer
        self._encoding: str = stream.encoding or "utf-8"

    def write(self, data: bytes) -> int:
        """Writes bytes; raises OutputClosed, or RunError when the place is full."""
        try:
            return self._bytes.write(data)
        except OSError as error:
            raise self._explain(error) from error

    def text(self, text: str) -> None:
        """Writes a text in the stream's own encoding, `?` for what it lacks."""
        self.write(text.encode(self._encoding, "replace"))

    def flush(self) -> None:
        """Sends on what is buffered."""
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
        return RunError(f"cannot write the output: {error.strerror or error}", code="R725")


class Output:
    """Takes the results of statements one after another, and prints them as the settings say."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._terminal = sys.stdout.isatty()
        self.format = settings.format or ("table" if self._terminal else "jsonl")
        self._sink = Sink(sys.stdout)
        self._style = style_for(sys.stdout, no_color=settings.no_color)
        self._printed = 0
        self._file = ResultFile(settings.output, settings.format) if settings.output else None
        self._record = RunRecord() if settings.json else None
        if self.format in BINARY and self._terminal and not self._file and not self._record:
            raise UsageError(
                f"a terminal cannot show {self.format}", code="U606", hint="write it with -o FILE"
            )

    def show(self, result: StatementResult) -> None:
        """Prints one result, or puts it where `-o` or `--json` want it."""
        if self._record:
            self._record.add(result, self._settings.max_rows)
        elif result.rows is not None:
            self._show_rows(result.rows)
        elif result.kind == "text":
            self.text(result.text)
        if result.result is not None:
            self._report(result.result)
        self._sink.flush()

    def text(self, text: str) -> None:
        """Prints a plan or a description, an empty line before it if something came before."""
        self._separate()
        self._sink.text(safe_lines(text.rstrip("\n")) + "\n")
        self._sink.flush()

    def _separate(self) -> None:
        if self._printed and self.format in BINARY:
            raise UsageError(
                f"{self.format} holds one result", code="U607", hint="one query at a time"
            )
        if self._printed:
            self._sink.text("\n")
        self._printed += 1

    def _show_rows(self, rows: RowStream) -> None:
        try:
            if self._file:
                self._file.write(rows)
                return
            self._separate()
            if self.format == "table":
                self._show_table(rows)
            else:
                WRITERS[self.format](rows, self._sink)  # type: ignore[arg-type]
        finally:
            rows.close()

    def _show_table(self, rows: RowStream) -> None:
        preview = read_preview(rows, self._settings.max_rows)
        table = render_box(
            preview,
            limit=shutil.get_terminal_size((80, 24)).columns if self._terminal else None,
            style=self._style,
            chars=UNICODE if can_draw(sys.stdout) else ASCII,
        )
        self._sink.text(table + "\n")

    def _report(self, result: RunResult) -> None:
        """What a run wrote and how long it took; stdout keeps results only when piped."""
        if self._settings.quiet:
            return
        lines = list(warning_lines(result, style_for(sys.stderr, no_color=self._settings.no_color)))
        if self._settings.verbose:
            lines += counter_lines(result.counters)
        if not self._record:
            summary = summary_lines(result)
            if self._terminal:
                self._sink.text("".join(f"{line}\n" for line in summary))
            else:
                lines += summary
        for line in lines:
            print(line, file=sys.stderr)  # noqa: T201

    def finish(self) -> None:
        """Publishes the file of `-o`, prints the object of `--json`."""
        if self._file:
            self._file.publish()
            if not self._settings.quiet:
                print(self._file.summary(), file=sys.stderr)  # noqa: T201
        if self._record:
            self._print_record(self._record.finished())
        self._sink.flush()

    def close(self, error: ZqlError | None) -> None:
        """Takes back what is half written; after an error `--json` says what failed."""
        if self._file:
            self._file.discard()
        if self._record and error:
            self._print_record(self._record.failed(error))
            self._sink.flush()

    def _print_record(self, record: dict[str, Any]) -> None:
        self._sink.write((json.dumps(record, ensure_ascii=False, indent=2) + "\n").encode())
