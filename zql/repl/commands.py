"""The dot commands of the shell: their names, help, and what each one does."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from zql.display.formats import BINARY, WRITERS
from zql.errors import UsageError, did_you_mean, nearest
from zql.expr.sql import quote_identifier, quote_literal
from zql.tree import node

if TYPE_CHECKING:
    from zql.display.screen import Screen
    from zql.session import Session

MODES = ("table", *(name for name in WRITERS if name not in BINARY and " " not in name))


class Shell(Protocol):
    """What commands see and change of a shell."""

    session: Session
    screen: Screen
    format: str
    max_rows: int | None
    timer: bool
    running: bool

    def run_text(self, text: str) -> None:
        """Runs statements and shows their results."""

    def read(self, path: str) -> None:
        """Runs a file."""


@node
class DotCommand:
    """A command: how it is written, what it does, and the choices of its argument.

    `choices` gives None where a path is wanted.
    """

    usage: str
    help: str
    run: Callable[[Shell, list[str]], None]
    choices: Callable[[Shell], Iterable[str] | None] = lambda _: ()


def _help(shell: Shell, _: list[str]) -> None:
    wide = max(len(command.usage) for command in COMMANDS.values())
    for command in COMMANDS.values():
        shell.screen.line(f"  {command.usage:<{wide}}   {command.help}")
    shell.screen.line()
    shell.screen.line("  A statement ends with ; or an empty line. One that begins with |> goes on")
    shell.screen.line("  from the last result, which is also the table _. Ctrl-C stops a query.")


def _tables(shell: Shell, _: list[str]) -> None:
    for name in shell.session.tables():
        shell.screen.text(name)


def _schema(shell: Shell, words: list[str]) -> None:
    names = words or shell.session.tables()
    for name in names:
        known = name in shell.session.tables() or name == "_"
        is_path = not known and (os.path.exists(name) or any(c in name for c in "*?/."))
        if len(names) > 1:
            shell.screen.text(name)
        target = quote_literal(name) if is_path else quote_identifier(name)
        shell.run_text(f"DESCRIBE FROM {target};")


def _read(shell: Shell, words: list[str]) -> None:
    if len(words) != 1:
        raise UsageError("which file?", code="U641", hint=".read FILE")
    shell.read(words[0])


def _timer(shell: Shell, words: list[str]) -> None:
    if words not in ([], ["on"], ["off"]):
        raise UsageError(f"not a state: {' '.join(words)}", code="U641", hint=".timer on|off")
    if words:
        shell.timer = words == ["on"]
    shell.screen.line(f"timer is {'on' if shell.timer else 'off'}")


def _mode(shell: Shell, words: list[str]) -> None:
    if len(words) == 1 and words[0] in MODES:
        shell.format = words[0]
    elif words:
        near = nearest(words[0], MODES)
        raise UsageError(
            f'no format "{" ".join(words)}"',
            code="U641",
            hint=did_you_mean(near) or "one of " + ", ".join(MODES),
        )
    else:
        shell.screen.line(f"format is {shell.format}")


def _max_rows(shell: Shell, words: list[str]) -> None:
    if words == ["all"]:
        shell.max_rows = None
    elif len(words) == 1 and words[0].isdecimal():
        shell.max_rows = int(words[0])
    elif words:
        raise UsageError(f"not a number: {' '.join(words)}", code="U641", hint=".maxrows N|all")
    shown = "all" if shell.max_rows is None else shell.max_rows
    shell.screen.line(f"rows shown: {shown}")


def _quit(shell: Shell, _: list[str]) -> None:
    shell.running = False


COMMANDS: dict[str, DotCommand] = {
    ".help": DotCommand(".help", "this list", _help),
    ".tables": DotCommand(".tables", "views, tables and data by name", _tables),
    ".schema": DotCommand(
        ".schema [NAME|FILE]", "columns and types", _schema, lambda shell: shell.session.tables()
    ),
    ".read": DotCommand(".read FILE", "run a script", _read, lambda _: None),
    ".timer": DotCommand(
        ".timer on|off", "how long each statement takes", _timer, lambda _: ("on", "off")
    ),
    ".mode": DotCommand(
        ".mode FORMAT", "how results look: " + ", ".join(MODES), _mode, lambda _: MODES
    ),
    ".maxrows": DotCommand(".maxrows N|all", "rows of a table that are shown", _max_rows),
    ".quit": DotCommand(".quit", "leave; so do .exit and Ctrl-D", _quit),
}
SYNONYMS = {
    ".exit": ".quit",
    ".q": ".quit",
    "\\q": ".quit",
    "exit": ".quit",
    "quit": ".quit",
    "\\?": ".help",
    ".h": ".help",
    "\\h": ".help",
    "\\d": ".schema",
    "\\dt": ".tables",
    "\\i": ".read",
    "\\timing": ".timer",
}


def is_command(text: str) -> bool:
    """Whether an input is a dot command and no statement."""
    word = text.split(maxsplit=1)[0].rstrip(";") if text.strip() else ""
    return word.startswith((".", "\\")) or word.lower() in SYNONYMS


def run_command(shell: Shell, text: str) -> None:
    """Runs one line; raises UsageError for a command that does not exist."""
    line = text.strip().rstrip(";")
    try:
        word, *rest = shlex.split(line.replace("\\", "\\\\", 1) if line[0] == "\\" else line)
    except ValueError:
        word, *rest = line.split()
    name = SYNONYMS.get(word.lower(), word.lower())
    command = COMMANDS.get(name)
    if command is None:
        near = nearest(name, COMMANDS)
        raise UsageError(
            f"no command {word}", code="U640", hint=did_you_mean(near) or ".help lists them"
        )
    command.run(shell, rest)
