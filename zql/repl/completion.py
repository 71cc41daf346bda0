"""What Tab offers: words of the language, tables, columns, functions, files, dot commands."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from zql.display.text import safe_text
from zql.repl.scan import place_at_end

_WORD = re.compile(r"[\w$]*$")
_MODULE = re.compile(r"[A-Za-z_]\w*\.$")
_PLAIN = re.compile(r"[A-Za-z_]\w*")


class ShellCompleter(Completer):
    """Completes by place.

    `words(text)` gives the language's words that may follow a text, `names()` what is called by
    name: tables and columns; `functions()` what a script declares or imports, `module.function`;
    `arguments` the choices behind each dot command.
    """

    def __init__(
        self,
        words: Callable[[str], Iterable[str]],
        names: Callable[[], Iterable[str]],
        functions: Callable[[], Iterable[str]],
        arguments: Callable[[str], Iterable[str] | None],
        commands: Iterable[str],
    ) -> None:
        self._words = words
        self._names = names
        self._functions = functions
        self._arguments = arguments
        self._commands = tuple(commands)

    def get_completions(self, document: Document, _: CompleteEvent) -> Iterator[Completion]:
        """Completions at the cursor, best first."""
        text = document.text_before_cursor
        if text.lstrip().startswith("."):
            yield from self._complete_command(text.lstrip())
            return
        place = place_at_end(text)
        if place.inside == "string":
            closing = "" if document.text_after_cursor.startswith("'") else "'"
            yield from complete_path(text[place.start :].lstrip("eE").removeprefix("'"), closing)
        elif not place.inside:
            yield from self._complete_word(text)

    def _complete_command(self, text: str) -> Iterator[Completion]:
        command, space, rest = text.partition(" ")
        if not space:
            yield from _matching(command, self._commands)
            return
        choices = self._arguments(command)
        if choices is None:
            yield from complete_path(rest.lstrip())
        else:
            yield from _matching(rest.lstrip(), choices)

    def _complete_word(self, text: str) -> Iterator[Completion]:
        match = _WORD.search(text)
        typed = match.group() if match else ""
        functions = list(self._functions())
        if module := _MODULE.search(text[: len(text) - len(typed)]):
            start = module.group()
            members = [f.removeprefix(start) for f in functions if f.startswith(start)]
            if members:
                yield from _matching(typed, members)
                return
        names = [_as_written(name) for name in self._names()]
        names += [function.partition(".")[0] for function in functions]
        words = list(self._words(text[: len(text) - len(typed)]))
        if typed and typed == typed.lower():
            words = [word.lower() for word in words]
        yield from _matching(typed, dict.fromkeys([*names, *words]))


def _as_written(name: str) -> str:
    """A name as it has to stand in a query."""
    return name if _PLAIN.fullmatch(name) else '"' + name.replace('"', '""') + '"'


def _matching(typed: str, choices: Iterable[str]) -> Iterator[Completion]:
    wanted = typed.casefold()
    for choice in choices:
        if choice.lstrip('"').casefold().startswith(wanted) or choice.casefold().startswith(wanted):
            yield Completion(choice, start_position=-len(typed), display=safe_text(choice))


def complete_path(typed: str, closing: str = "") -> Iterator[Completion]:
    """Files and folders that go on with a path; hidden ones only when a dot was typed.

    Behind the name of a file comes `closing`, the quote that ends it.
    """
    folder, name = os.path.split(typed)
    try:
        entries = sorted(os.scandir(os.path.expanduser(folder) or "."), key=lambda e: e.name)
    except OSError:
        return
    for entry in entries:
        hidden = entry.name.startswith(".") and not name.startswith(".")
        if hidden or not entry.name.startswith(name) or not entry.name.isprintable():
            continue
        try:
            end = "/" if entry.is_dir() else closing
        except OSError:
            end = closing
        # A quote in a name has to be doubled inside quotes.
        written = entry.name.replace("'", "''") if closing else entry.name
        yield Completion(written + end, -len(name), entry.name + end.strip("'"))
