"""What user code prints: whole lines on stderr, with the name of the task that printed them."""

from __future__ import annotations

import io
import sys
import threading
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from typing import Any, TextIO

_MOST = 8192
"""Characters that are kept back at most while a line has no end."""
_JOINERS = "\u200c\u200d"


def show_line(label: str, line: str, stream: TextIO | None = None) -> None:
    """Writes a line in one piece; when nobody can read that any more, so be it."""
    with suppress(OSError, ValueError):
        stream = stream or sys.stderr
        stream.write(f"[{_safe(label)}] {_safe(line)}\n")
        stream.flush()


class Printer(io.TextIOBase):
    """A stream that hands on each line as soon as it has ended, under a `label`.

    A context manager: meanwhile it takes the place of stdout and stderr. What has no end of line is
    handed on by `flush_rest`. Lines that threads print at the same time are not mixed.

    Whoever keeps it longer, as a handler of `logging` may, prints under the label of today's task.
    """

    put: Callable[[str, str, TextIO | None], None] = staticmethod(show_line)
    """Takes label, line, and the stderr that was there before; another one in workers."""
    _lock = threading.Lock()
    _active: list[Printer] = []  # noqa: RUF012 - of all printers: those that stand in for streams
    _streams: tuple[TextIO, TextIO] | None = None

    def __init__(self, label: str, *, fixed: bool = False) -> None:
        """A `fixed` label is not that of today's task."""
        self.label = label
        self._fixed = fixed
        self.buffer = _Bytes(self)
        self._rest: dict[int, str] = {}

    def __enter__(self) -> Printer:
        with self._lock:
            if not self._active:
                Printer._streams = (sys.stdout, sys.stderr)
            self._active.append(self)
            sys.stdout = sys.stderr = self
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._active.reverse()
            self._active.remove(self)
            self._active.reverse()
            if self._active:
                sys.stdout = sys.stderr = self._active[-1]
            elif self._streams is not None:
                sys.stdout, sys.stderr = self._streams

    def write(self, text: str) -> int:
        """Takes text; its whole lines are handed on."""
        thread = threading.get_ident()
        *lines, rest = (self._rest.pop(thread, "") + text).split("\n")
        if "\r" in rest[:-1]:
            # A progress bar goes back to the beginning of its line again and again.
            rest = rest[rest.rindex("\r", 0, -1) + 1 :]
        if len(rest) > _MOST:
            lines, rest = [*lines, rest], ""
        if rest:
            self._rest[thread] = rest
        for line in lines:
            self._hand_on(line, self.label_now())
        return len(text)

    def flush_rest(self) -> None:
        """Hands on what has no end of line."""
        for thread in list(self._rest):
            self._hand_on(self._rest.pop(thread), self.label)

    def label_now(self) -> str:
        """The label of what stands in for the streams at this moment."""
        active = self._active[-1:]
        return active[0].label if active and not self._fixed else self.label

    def _hand_on(self, line: str, label: str) -> None:
        stream = self._streams[1] if self._active and self._streams is not None else None
        Printer.put(label, line.rstrip("\r").rpartition("\r")[2], stream)

    # What programs ask of a stream.
    encoding = "utf-8"
    errors = "backslashreplace"
    name = "<task>"

    def reconfigure(self, **_: object) -> None:
        """Does nothing."""

    def writable(self) -> bool:
        """Always."""
        return True

    def isatty(self) -> bool:
        """Never: a label stands before each line."""
        return False

    def fileno(self) -> int:
        """That of the stderr behind it, for processes that a function starts."""
        stream = self._streams[1] if self._streams is not None else sys.__stderr__
        if stream is None:
            raise io.UnsupportedOperation("fileno")
        return stream.fileno()


@contextmanager
def aside(label: str) -> Iterator[None]:
    """What is printed meanwhile, in an import say, is no part of the results."""
    printer = Printer(label, fixed=True)
    with redirect_stdout(printer):
        try:
            yield
        finally:
            printer.flush_rest()


class _Bytes(io.RawIOBase):
    """The bytes behind a `Printer`."""

    def __init__(self, printer: Printer) -> None:
        self._printer = printer

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        found = bytes(data)
        self._printer.write(found.decode("utf-8", "backslashreplace"))
        return len(found)


def _safe(text: str) -> str:
    """The text with nothing that a terminal would obey."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or _is_harmless(c) else _escape(c) for c in text)


def _is_harmless(char: str) -> bool:
    return char == "\t" or char in _JOINERS or unicodedata.category(char) == "Zs"


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
