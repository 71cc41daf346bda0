"""The shell: reads an input, runs it, shows what comes back, and lives on whatever happens."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from zql import __version__
from zql.display.errors import render_error
from zql.display.screen import OutputClosed, Screen, complain, explain_exception
from zql.display.style import style_for
from zql.display.summary import summary_lines, warning_lines
from zql.display.text import duration
from zql.errors import Interrupted, UsageError, ZqlError
from zql.repl.commands import COMMANDS, SYNONYMS, is_command, run_command
from zql.repl.scan import place_at_end
from zql.source import Source
from zql.tree import node

if TYPE_CHECKING:
    from zql.session import Session, StatementResult


@node
class ShellSettings:
    """How a shell starts: how results look, the file to read first.

    `params` gives the values of parameters that an input uses.
    """

    params: Callable[[Source], Mapping[str, object]] = lambda _: {}
    format: str = "table"
    max_rows: int | None = 40
    no_color: bool = False
    verbose: bool = False
    init: str | None = None


class Shell:
    """An interactive session; dot commands set its attributes."""

    session: Session

    def __init__(self, session: Session, settings: ShellSettings) -> None:
        self.session = session
        self.screen = Screen(no_color=settings.no_color)
        self.format = settings.format
        self.max_rows = settings.max_rows
        self.timer = False
        self.running = True
        self._settings = settings
        self._errors = style_for(sys.stderr, no_color=settings.no_color)
        self._columns: tuple[str, ...] = ()

    def run(self) -> int:
        """Reads and runs until `.quit` or Ctrl-D; gives 0."""
        # Ctrl-C means the query here, never the process.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        from zql.repl.completion import ShellCompleter
        from zql.repl.prompt import open_prompt
        from zql.syntax.parser import completions, is_complete

        completer = ShellCompleter(
            completions, self._names, self._functions, self._arguments, COMMANDS
        )
        prompt = open_prompt(completer, is_complete, color=self.screen.style.color)
        if self._settings.init and os.path.isfile(os.path.expanduser(self._settings.init)):
            self._attempt(lambda: self.read(self._settings.init or ""))
        self.screen.line(f"ZQL {__version__}   .help for help, Ctrl-D to leave")
        self.screen.flush()
        while self.running:
            try:
                text = prompt.prompt()
            except KeyboardInterrupt:
                continue
            except EOFError:
                break
            self.execute(text)
        return 0

    def execute(self, text: str) -> None:
        """Runs one input, a dot command or statements; errors are shown, not raised."""
        if not text.strip():
            return
        if is_command(text):
            self._attempt(lambda: run_command(self, text))
        else:
            started = time.perf_counter()
            self._attempt(lambda: self.run_text(text))
            if self.timer:
                self.screen.line(f"took {duration(time.perf_counter() - started)}")
                self.screen.flush()

    def _attempt(self, action: Callable[[], None]) -> None:
        try:
            action()
        except (KeyboardInterrupt, Interrupted):
            complain(self._errors.error("interrupted"))
        except ZqlError as error:
            complain(render_error(error, self._errors))
        except OutputClosed:
            self.running = False
        except Exception as error:  # noqa: BLE001 - a bug must not take the session with it
            complain(explain_exception(error, verbose=self._settings.verbose))
        self.screen.flush()

    def run_text(self, text: str, name: str = "<repl>", base_dir: str | None = None) -> None:
        """Runs statements and shows their results; raises what they raise."""
        source = Source(name, text)
        params = self._settings.params(source)
        for result in self.session.statements(source, params, base_dir=base_dir):
            self._show(result)

    def read(self, path: str) -> None:
        """Runs a file of statements, and of dot commands on lines of their own."""
        path = os.path.expanduser(path)
        try:
            with open(path, encoding="utf-8-sig") as file:
                text = file.read()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise UsageError(f"cannot read {path}: {reason}", code="U601") from None
        base_dir = os.path.dirname(os.path.abspath(path))
        for part in _parts(text):
            if is_command(part):
                run_command(self, part)
            else:
                self.run_text(part, path, base_dir)

    def _show(self, result: StatementResult) -> None:
        if result.rows is not None:
            with result.rows as rows:
                self._columns = tuple(rows.names)
                self.screen.rows(rows, self.format, self.max_rows)
        elif result.kind == "text":
            self.screen.text(result.text)
        if result.result is not None:
            for line in warning_lines(result.result.warnings, self._errors):
                complain(line)
            for line in summary_lines(result.result):
                self.screen.line(line)
        self.screen.flush()

    def _names(self) -> list[str]:
        return [*self._columns, *self.session.tables()]

    def _functions(self) -> list[str]:
        found = self.session.declarations
        imported = [f"{alias}.{name}" for alias, names in found.modules.items() for name in names]
        modules = [
            f"{alias}.{name}"
            for alias, one in found.scripts.items()
            for name in (*one.functions, *one.sql_functions, *one.table_functions, *one.views)
        ]
        own = (*found.functions, *found.sql_functions, *found.table_functions)
        return [*own, *imported, *modules]

    def _arguments(self, command: str) -> list[str] | None:
        found = COMMANDS.get(SYNONYMS.get(command, command))
        choices = found.choices(self) if found else ()
        return None if choices is None else list(choices)


def _parts(text: str) -> Iterator[str]:
    """A file cut before and behind its dot commands.

    What is left out of a part is there as empty lines, so that errors tell the file's own lines.
    """
    kept: list[str] = []
    start = 0
    for number, line in enumerate(text.splitlines(keepends=True)):
        if line.startswith(".") and not place_at_end("".join(kept)).inside:
            if "".join(kept).strip():
                yield "\n" * start + "".join(kept)
            yield line
            kept, start = [], number + 1
        else:
            kept.append(line)
    if "".join(kept).strip():
        yield "\n" * start + "".join(kept)
