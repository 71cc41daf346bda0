"""Where results go: a terminal, a pipe or a file, in one format; what runs did goes beside them."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zql.cli.options import Settings
from zql.display.formats import BINARY
from zql.display.screen import Screen, complain
from zql.display.style import style_for
from zql.display.summary import stage_lines, summary_lines, warning_lines
from zql.errors import UsageError, ZqlError

if TYPE_CHECKING:
    from zql.cli.result_file import ResultFile
    from zql.cli.run_record import RunRecord
    from zql.execution.report import RunReport
    from zql.execution.stream import RowStream
    from zql.session import StatementResult


class Output:
    """Takes the results of statements one after another, and prints them as the settings say."""

    def __init__(self, settings: Settings, file: ResultFile | None = None) -> None:
        """`file` takes the rows, and nothing of them is printed; raises UsageError."""
        self._settings = settings
        self._screen = Screen(no_color=settings.no_color)
        self._format = settings.format or ("table" if self._screen.terminal else "jsonl")
        self._printed = 0
        self._file = file
        self._record = _open_record(settings)
        if self._format in BINARY and self._screen.terminal and not self._file and not self._record:
            raise UsageError(
                f"a terminal cannot show {self._format}", code="U633", hint="write it with -o FILE"
            )

    def show(self, result: StatementResult) -> None:
        """Prints one result, or puts it where `-o` or `--json` want it."""
        if result.rows is not None and self._file:
            with result.rows as rows:
                self._file.write(rows)
            result = replace(result, rows=None)
        if self._record:
            self._record.add(result, self._settings.max_rows)
        elif result.rows is not None:
            self._show_rows(result.rows)
        elif result.kind == "text":
            self.text(result.text)
        if result.result is not None:
            self._report(result.result)
        self._screen.flush()

    def text(self, text: str) -> None:
        """Prints a plan or a description, an empty line before it if something came before."""
        self._separate()
        self._screen.text(text)
        self._screen.flush()

    def _separate(self) -> None:
        if self._printed and self._format in BINARY:
            raise UsageError(
                f"{self._format} holds one result", code="U634", hint="one query at a time"
            )
        if self._printed:
            self._screen.line()
        self._printed += 1

    def _show_rows(self, rows: RowStream) -> None:
        with rows:
            self._separate()
            self._screen.rows(rows, self._format, self._settings.max_rows)

    def _report(self, result: RunReport) -> None:
        """What a run wrote and how long it took; stdout keeps results only when piped."""
        if self._settings.quiet:
            return
        style = style_for(sys.stderr, no_color=self._settings.no_color)
        for line in warning_lines(result.warnings, style):
            complain(line)
        if self._settings.verbose:
            for line in stage_lines(result):
                complain(line)
        if not self._record:
            say = self._screen.line if self._screen.terminal else complain
            for line in summary_lines(result):
                say(line)

    def finish(self) -> None:
        """Publishes the file of `-o`, prints the object of `--json`."""
        if self._file:
            self._file.publish()
            summary = self._file.summary()
            if summary and not self._settings.quiet:
                complain(summary)
        if self._record:
            self._print_record(self._record.finished())

    def close(self, error: ZqlError | None) -> None:
        """Takes back what is half written; after an error `--json` says what failed."""
        if self._file:
            self._file.discard()
        if self._record and error:
            self._print_record(self._record.failed(error))

    def _print_record(self, record: dict[str, Any]) -> None:
        self._screen.write((json.dumps(record, ensure_ascii=False, indent=2) + "\n").encode())
        self._screen.flush()


def _open_record(settings: Settings) -> RunRecord | None:
    if not settings.json:
        return None
    from zql.cli.run_record import RunRecord

    return RunRecord()
