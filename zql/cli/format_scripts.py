"""`zql fmt`: scripts in the one style, in place, or what would change."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress

from zql.cli.sources import read_script
from zql.display.screen import Screen
from zql.display.style import Style
from zql.display.text import count, safe_text
from zql.errors import StorageError

SUFFIX = ".zql"


class Formatting:
    """What is to be done with each script, and what came of it.

    `check` names those that would change, `diff` shows how; either leaves files alone.
    """

    def __init__(self, screen: Screen, *, check: bool, diff: bool) -> None:
        self._screen = screen
        self._check = check
        self._diff = diff
        self.changed = 0
        self.unchanged = 0

    def format(self, path: str) -> None:
        """Formats one script; `-` is stdin. Raises ZqlError; the file is as it was then."""
        from zql.syntax.formatter import format_script

        script = read_script(path)
        before = script.source.text
        after = format_script(script.source)
        if after == before:
            self.unchanged += 1
        else:
            self.changed += 1
        name = safe_text(script.source.name)
        if self._diff:
            for line in _difference(before, after, name, self._screen.style):
                self._screen.write(line.encode())
        elif self._check:
            if after != before:
                self._screen.line(name)
        elif path == "-":
            self._screen.write((script.mark + after).encode())
        elif after != before:
            replace_text(path, script.mark + after)

    def verdict(self) -> str:
        """How many scripts are how."""
        parts = []
        if self.changed:
            would = "would be " if self._check or self._diff else ""
            parts.append(f"{count(self.changed, 'script')} {would}formatted")
        if self.unchanged:
            parts.append(f"{count(self.unchanged, 'script')} in style already")
        return ", ".join(parts)


def scripts_in(paths: Sequence[str]) -> Iterator[str]:
    """The files named, and all `*.zql` below the folders named; each file once.

    Hidden folders are left out.
    """
    seen = set()
    for path in paths:
        for found in _below(path) if os.path.isdir(path) else [path]:
            real = os.path.realpath(found) if found != "-" else found
            if real not in seen:
                seen.add(real)
                yield found


def _below(folder: str) -> Iterator[str]:
    for root, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if name.endswith(SUFFIX):
                yield os.path.normpath(os.path.join(root, name))


def replace_text(path: str, text: str) -> None:
    """A file's new text, all of it or none; its permissions stay, and a link stays one.

    Raises StorageError.
    """
    target = os.path.realpath(path)
    if not os.path.isfile(target):
        raise StorageError(f"cannot write {path}: it is no ordinary file", code="R724")
    folder, name = os.path.split(target)
    beside = os.path.join(folder, f".{name}.{os.getpid()}.tmp")
    try:
        with open(beside, "xb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        shutil.copymode(target, beside)
        os.replace(beside, target)
    except OSError as error:
        raise StorageError(
            f"cannot write {path}: {error.strerror or error}", code="R724"
        ) from error
    finally:
        with suppress(OSError):
            os.unlink(beside)


def _difference(before: str, after: str, name: str, style: Style) -> Iterator[str]:
    """The lines of a unified diff, coloured if the style says so."""
    import difflib

    old, new = _at_line_feeds(before), _at_line_feeds(after)
    for line in difflib.unified_diff(old, new, name, name):
        if not line.endswith("\n"):
            yield f"{_painted(line, style)}\n\\ No newline at end of file\n"
        else:
            yield f"{_painted(line[:-1], style)}\n"


def _at_line_feeds(text: str) -> list[str]:
    """The lines with their ends; what else Python takes for a line end is none in a script."""
    lines = [f"{line}\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _painted(line: str, style: Style) -> str:
    if not style.color:
        return line
    line = safe_text(line.removesuffix("\r"))
    if line.startswith(("---", "+++")):
        return style.strong(line)
    if line.startswith("@@"):
        return style.hint(line)
    if line.startswith("+"):
        return style.added(line)
    return style.removed(line) if line.startswith("-") else line
