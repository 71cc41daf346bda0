"""Colours: SGR codes around safe text, or nothing at all."""

from __future__ import annotations

import os
from typing import IO, Any, TextIO


class Style:
    """Paints text when `color` is on, else gives it back as it is."""

    __slots__ = ("color",)

    def __init__(self, *, color: bool = False) -> None:
        self.color = color

    def _paint(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.color and text else text

    def error(self, text: str) -> str:
        """Red and bold: what is wrong."""
        return self._paint("1;31", text)

    def warning(self, text: str) -> str:
        """Yellow: what may be wrong."""
        return self._paint("33", text)

    def hint(self, text: str) -> str:
        """Cyan: what to do next."""
        return self._paint("36", text)

    def faint(self, text: str) -> str:
        """Dim: places, NULLs, footers."""
        return self._paint("2", text)

    def added(self, text: str) -> str:
        """Green: a line that is new."""
        return self._paint("32", text)

    def removed(self, text: str) -> str:
        """Red: a line that is gone."""
        return self._paint("31", text)

    def strong(self, text: str) -> str:
        """Bold: names."""
        return self._paint("1", text)


PLAIN = Style()


def style_for(stream: IO[Any], *, no_color: bool = False) -> Style:
    """Colours for a terminal that takes them; `NO_COLOR` (not empty) and `no_color` forbid them."""
    if no_color or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return PLAIN
    return Style(color=stream.isatty())


def can_draw(stream: TextIO) -> bool:
    """Whether the stream's encoding has the characters of a box."""
    try:
        "┌─│…·".encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
