"""Source text and positions in it, and the excerpt with a caret that errors show."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property


@dataclass(frozen=True)
class Source:
    """A named piece of ZQL text: a script's path, `<command line>`, `<repl>` or a Python call."""

    name: str
    text: str = field(repr=False)

    @cached_property
    def line_starts(self) -> list[int]:
        """Offset of the first character of each line; lines end at LF (CRLF keeps its CR)."""
        starts = [0]
        starts += [i + 1 for i, char in enumerate(self.text) if char == "\n"]
        return starts

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, both counted from 1, the column in characters."""
        line = bisect_right(self.line_starts, offset)
        return line, offset - self.line_starts[line - 1] + 1

    def line(self, number: int) -> str:
        """The text of a line (from 1) without its line end; empty past the last one."""
        if number > len(self.line_starts):
            return ""
        start = self.line_starts[number - 1]
        stop = self.line_starts[number] if number < len(self.line_starts) else len(self.text)
        return self.text[start:stop].rstrip("\r\n")


@dataclass(frozen=True, slots=True)
class Span:
    """Half-open range of characters `[start, end)` of a source."""

    source: Source = field(compare=False, repr=False)
    start: int
    end: int

    @property
    def text(self) -> str:
        """The words that the span covers, as the user wrote them."""
        return self.source.text[self.start : self.end]

    @property
    def line(self) -> int:
        """Line of the first character, from 1."""
        return self.source.position(self.start)[0]

    @property
    def column(self) -> int:
        """Column of the first character, from 1, in characters."""
        return self.source.position(self.start)[1]

    def to(self, other: Span) -> Span:
        """The span from the start of this one to the end of `other`."""
        return Span(self.source, self.start, other.end)
