"""`zql fmt`: a script in the one style, its comments kept and its meaning unchanged.

Each statement is printed from its tree. The tokens that are printed are matched with those that
the author wrote: where both mean the same, the author's spelling of strings, numbers, quoted names
and types stays, and comments find their places by their neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from zql.errors import InternalError
from zql.expr.sql import quote_identifier
from zql.source import Source
from zql.syntax import ast
from zql.syntax.comments import (
    Comment,
    Printed,
    Remarks,
    find_comments,
    remarks_between,
    settle,
    with_remarks,
)
from zql.syntax.layout import SPACE, WIDTH, Doc, Item, items_of, lay_out
from zql.syntax.literals import name_value, string_value
from zql.syntax.parser import Piece, parse_script, pieces
from zql.syntax.printer import document
from zql.syntax.tokens import Tokens, start_of_script, tokenize
from zql.syntax.type_names import type_text
from zql.tree import node, same_tree

_SIGNS = {"==": "=", "!=": "<>"}
_AHEAD = 60
"""Tokens that are looked at for the place where two sequences agree again."""


def format_script(source: Source, width: int = WIDTH) -> str:
    """The script in the one style, with the line ends that its first line has.

    Raises ParseError or ErrorList for a text that is no ZQL, InternalError when the result would
    not be the same script with the same comments: a bug.
    """
    script = parse_script(source)
    newline = "\r\n" if source.text.partition("\n")[0].endswith("\r") else "\n"
    text = _Formatter(source, script, width, newline).text()
    _check(source, script, text)
    return text


def _check(source: Source, script: ast.Script, text: str) -> None:
    after = Source(source.name, text)
    if not same_tree(parse_script(after), script):
        raise InternalError("formatting would change what the script means; it is left as it is")
    if comments_of(after) != comments_of(source):
        raise InternalError("formatting would lose comments; the script is left as it is")


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


class _Formatter:
    """One script."""

    def __init__(self, source: Source, script: ast.Script, width: int, newline: str) -> None:
        self._source = source
        self._script = script
        self._width = width
        self._newline = newline
        self._tokens = tokenize(source)

    def text(self) -> str:
        """The whole script, its last line ended."""
        text = self._source.text
        start = start_of_script(text)
        out, at = [text[:start].rstrip()], start
        for element in self._elements(start):
            blank = text.count("\n", at, element.start) > 1 and out != [""]
            first = out in ([""], ["\ufeff"])
            out.append("" if first else self._newline * (2 if blank else 1))
            out.append(element.text)
            at = element.end
        whole = "".join(out)
        return whole + self._newline if whole.strip("\ufeff") else whole

    def _elements(self, start: int) -> Iterator[_Element]:
        """Statements with the comments that end their last lines, and other comments, in order."""
        ranges = list(pieces(self._tokens))
        before: _Element | None = None
        at = start
        for piece, statement in zip(ranges, self._script.statements, strict=True):
            yield from self._between(before, at, self._tokens.starts[piece.first])
            at = self._tokens.ends[piece.last - 1]
            before = _Element(
                self._statement(piece, statement), self._tokens.starts[piece.first], at
            )
        yield from self._between(before, at, len(self._source.text))

    def _between(self, before: _Element | None, start: int, end: int) -> Iterator[_Element]:
        """A statement and the comments up to the next one."""
        lines: list[list[Comment]] = []
        for comment in find_comments(self._source.text, start, end):
            if not lines or comment.line != lines[-1][-1].line:
                lines.append([])
            lines[-1].append(comment)
        elements = [
            _Element(" ".join([c.text for c in line]), line[0].start, line[-1].end)
            for line in lines
        ]
        if before is not None:
            if lines and lines[0][0].line == 0 and not before.text.endswith(";\n"):
                pass
            yield before
        yield from elements

    def _statement(self, piece: Piece, statement: ast.Statement) -> str:
        raise NotImplementedError
