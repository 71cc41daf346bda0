"""A script in the one style, its comments kept and its meaning unchanged.

Each statement is printed from its tree. What is printed is matched, token by token, with what the
author wrote: strings, numbers and quoted names keep their spelling, comments their neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from zql.errors import InternalError
from zql.source import Source
from zql.syntax import ast
from zql.syntax.comments import (
    NOTHING,
    Printed,
    Remarks,
    find_comments,
    remarks_between,
    settle,
    with_remarks,
)
from zql.syntax.layout import SPACE, WIDTH, Doc, Item, items_of, lay_out
from zql.syntax.parser import Piece, parse_script, pieces
from zql.syntax.printer import document
from zql.syntax.spelling import match, spelled, words_in
from zql.syntax.tokens import start_of_script, tokenize
from zql.tree import node, same_tree


def format_script(source: Source, width: int = WIDTH) -> str:
    """The script in the one style, with the line ends that its first line has.

    Raises ParseError or ErrorList for a text that is no ZQL, and InternalError when the result
    would not be the same script with the same comments: that is a bug.
    """
    script = parse_script(source)
    newline = "\r\n" if source.text.partition("\n")[0].endswith("\r") else "\n"
    text = _Formatter(source, width, newline).text(script)
    after = Source(source.name, text)
    if not same_tree(parse_script(after), script):
        raise InternalError("formatting would change what the script means: it is left as it is")
    if comments_of(after) != comments_of(source):
        raise InternalError("formatting would change the comments: the script is left as it is")
    return text


def comments_of(source: Source) -> list[str]:
    """The comments of a script in order."""
    tokens = tokenize(source)
    ends = [start_of_script(source.text), *tokens.ends]
    starts = [*tokens.starts, len(source.text)]
    return [
        comment.text
        for end, start in zip(ends, starts, strict=True)
        for comment in find_comments(source.text, end, start)
    ]


@node
class _Element:
    """A statement, or the comments of one line between statements, and where it stood."""

    text: str
    start: int
    end: int
    remark: str = ""

    def __str__(self) -> str:
        return f"{self.text} {self.remark}" if self.remark else self.text


class _Formatter:
    """One script, element by element."""

    def __init__(self, source: Source, width: int, newline: str) -> None:
        self._text = source.text
        self._tokens = tokenize(source)
        self._width = width
        self._newline = newline

    def text(self, script: ast.Script) -> str:
        """All of it. Empty lines between elements stay, several become one."""
        at = start_of_script(self._text)
        mark = "\ufeff" if self._text.startswith("\ufeff") else ""
        first_line = self._text[len(mark) : at].rstrip()
        out = [first_line] if first_line else []
        for element in self._elements(script, at):
            if out:
                blank = self._text.count("\n", at, element.start) > 1
                out.append(self._newline * (2 if blank else 1))
            out.append(str(element))
            at = element.end
        return mark + "".join(out) + (self._newline if out else "")

    def _elements(self, script: ast.Script, start: int) -> Iterator[_Element]:
        statement: _Element | None = None
        for piece, tree in zip(pieces(self._tokens), script.statements, strict=True):
            following = self._statement(piece, tree)
            yield from self._up_to(statement, start, following.start)
            statement, start = following, following.end
        yield from self._up_to(statement, start, len(self._text))

    def _up_to(self, statement: _Element | None, start: int, end: int) -> Iterator[_Element]:
        """A statement and the comments behind it; those on its last line stay there."""
        comments = find_comments(self._text, start, end)
        lines = [list(line) for _, line in groupby(comments, lambda comment: comment.line)]
        elements = [
            _Element(" ".join([comment.text for comment in line]), line[0].start, line[-1].end)
            for line in lines
        ]
        if statement is not None:
            if lines and lines[0][0].line == 0 and not statement.remark:
                following = self._text[elements[0].end : end]
                if "\n" in following or end == len(self._text):
                    last = elements.pop(0)
                    statement = _Element(statement.text, statement.start, last.end, last.text)
            yield statement
        yield from elements

    def _statement(self, piece: Piece, tree: ast.Statement) -> _Element:
        tokens = self._tokens
        written = [tokens.text(at) for at in range(piece.first, piece.last)]
        printed = _printed(document(tree, as_written=True))
        places = match(written, printed.tokens)
        printed = _respelled(printed, written, places)
        remarks = settle(self._remarks(piece, places, len(printed.tokens)), printed)
        last = len(printed.tokens) - 1
        remark = ""
        if last in remarks and remarks[last] == Remarks(remarks[last].trailing):
            remark = remarks.pop(last).trailing
        text = lay_out(with_remarks(printed, remarks), self._width, self._newline)
        return _Element(text, tokens.starts[piece.first], tokens.ends[piece.last - 1], remark)

    def _remarks(self, piece: Piece, places: list[int | None], count: int) -> dict[int, Remarks]:
        """The comments inside a statement, by the printed token that they stand before."""
        starts, ends = self._tokens.starts, self._tokens.ends
        nexts: list[int] = []
        following = count - 1
        for place in reversed(places):
            following = following if place is None else place
            nexts.append(following)
        nexts.reverse()
        found: dict[int, Remarks] = {}
        previous, latest = -1, 0
        for at in range(1, len(places)):
            before = places[at - 1]
            previous = previous if before is None else before
            here = remarks_between(self._text, ends[piece.first + at - 1], starts[piece.first + at])
            if here == NOTHING:
                continue
            gap, nearest = nexts[at], max(previous + 1, latest)
            if here.trailing and nearest < gap:
                found[nearest] = found.get(nearest, NOTHING).followed_by(Remarks(here.trailing))
                here, latest = Remarks("", here.lines, here.inline), nearest
            if here != NOTHING:
                found[gap] = found.get(gap, NOTHING).followed_by(here)
                latest = gap
        return found


def _respelled(printed: Printed, written: list[str], places: list[int | None]) -> Printed:
    words = list(printed.tokens)
    for word, place in zip(written, places, strict=True):
        if place is not None:
            words[place] = spelled(words[place], word)
    return Printed(words, printed.gaps)


def _printed(doc: Doc) -> Printed:
    """The tokens of a statement and what stands between them, and a semicolon."""
    tokens: list[str] = []
    gaps: list[list[Item]] = [[]]
    for item in items_of(doc):
        if not isinstance(item, str):
            gaps[-1].append(item)
            continue
        at = 0
        for start, end in words_in(item):
            if start > at:
                gaps[-1].append(SPACE)
            tokens.append(item[start:end])
            gaps.append([])
            at = end
        if at < len(item):
            gaps[-1].append(SPACE)
    tokens.append(";")
    return Printed(tokens, gaps)
