"""Documents that know where their lines may end, and how they are laid out. Knows no language.

A document is a text, a break, or a tuple of documents. A group stays on one line if it fits there
and else ends its line at every break of its own; the groups inside decide for themselves. Outside
all groups every break ends its line. Nothing here recurses: documents may be as deep as queries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Union

from zql.tree import node

WIDTH = 100
"""Columns that a line should not go beyond."""

STEP = 2
"""Columns of one more level of indentation."""


@node
class Break:
    """A place where a line may end; `flat` stands there when it does not.

    A `kept` break is a plain space, which never ends a line; a `hard` one always does, and all
    groups around it with it, and a `blank` one leaves a line empty besides.
    """

    flat: str
    kept: bool = False
    hard: bool = False
    blank: bool = False


@node
class Mark:
    """Where a group (`group`) or an indentation (`columns`) begins or, without either, ends."""

    group: bool = False
    columns: int = 0


@node
class Aside:
    """A text that counts for nothing when lines are measured: a comment at the end of one."""

    text: str


Item = str | Break | Mark | Aside
Doc = Union[Item, tuple["Doc", ...]]  # noqa: UP007 - a string cannot stand in `|`

LINE = Break(" ")
SOFT = Break("")
HARD = Break("", hard=True)
BLANK = Break("", hard=True, blank=True)
SPACE = Break(" ", kept=True)

BEGIN = Mark(group=True)
END = Mark()
STOP = Mark(columns=-1)


def group(*docs: Doc) -> Doc:
    """On one line if it fits there."""
    return (BEGIN, *docs, END)


def indent(*docs: Doc, columns: int = STEP) -> Doc:
    """Lines that begin inside stand further right."""
    return (Mark(columns=columns), *docs, STOP)


def join(separator: Doc, docs: Iterable[Doc]) -> Doc:
    """Documents with a separator between."""
    out: list[Doc] = []
    for doc in docs:
        if out:
            out.append(separator)
        out.append(doc)
    return tuple(out)


def fill(docs: Iterable[Doc]) -> Doc:
    """Documents with commas between, as many on a line as fit."""
    first, *others = docs
    return (first, *((",", group(LINE, doc)) for doc in others))


def block(opening: str, content: Doc, closing: str) -> Doc:
    """Brackets: what is between them stands on lines of its own when it does not fit."""
    return group(opening, indent(SOFT, content), SOFT, closing)


def items_of(doc: Doc) -> Iterator[Item]:
    """The texts, breaks and marks of a document in order."""
    todo: list[Doc] = [doc]
    while todo:
        current = todo.pop()
        if isinstance(current, tuple):
            todo.extend(reversed(current))
        elif current != "":
            yield current


def one_line(doc: Doc) -> str:
    """The document on one line."""
    return "".join(
        [
            item if isinstance(item, str) else item.flat
            for item in items_of(doc)
            if isinstance(item, str | Break)
        ]
    )


def lay_out(items: Iterable[Item], width: int = WIDTH, newline: str = "\n") -> str:
    """The lines of a document."""
    items = list(items)
    needed = _needed(items)
    out: list[str] = []
    column = 0
    broken, indents = [True], [0]
    for at, item in enumerate(items):
        if isinstance(item, str):
            out.append(item)
            column = _column_after(column, item)
        elif isinstance(item, Aside):
            out.append(item.text)
        elif isinstance(item, Break):
            if item.hard or (broken[-1] and not item.kept):
                column = indents[-1]
                out.append(newline * (2 if item.blank else 1) + " " * column)
            else:
                out.append(item.flat)
                column += len(item.flat)
        elif item.group:
            broken.append(broken[-1] and not 0 <= needed[at] <= width - column)
        elif item is END:
            broken.pop()
        elif item is STOP:
            indents.pop()
        else:
            indents.append(indents[-1] + item.columns)
    return "".join(out)


def _column_after(column: int, text: str) -> int:
    return column + len(text) if "\n" not in text else len(text) - text.rindex("\n") - 1


def _needed(items: list[Item]) -> dict[int, int]:
    """By where a group begins: the columns that it and what cannot leave its line need.

    -1 for a group that cannot stand on one line. A text with a line feed ends the line, so
    nothing behind it counts.
    """
    needed: dict[int, int] = {}
    ends: list[tuple[int, bool]] = []
    flat = reach = 0  # columns to the next line feed, and to the next break besides
    hard = False
    for at in range(len(items) - 1, -1, -1):
        item = items[at]
        if isinstance(item, str):
            head, feed, _ = item.partition("\n")
            if feed:
                flat = reach = 0
                ends = [(0, hard_behind) for _, hard_behind in ends]
            flat += len(head)
            reach += len(head)
        elif isinstance(item, Break):
            flat += len(item.flat)
            reach = reach + len(item.flat) if item.kept else 0
            hard = hard or item.hard
        elif item is END:
            ends.append((flat - reach, hard))
            hard = False
        elif isinstance(item, Mark) and item.group:
            behind, hard_behind = ends.pop()
            needed[at] = -1 if hard else flat - behind
            hard = hard or hard_behind
    return needed
