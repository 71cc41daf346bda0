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
    groups around it with it.
    """

    flat: str
    kept: bool = False
    hard: bool = False


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
    sizes, reach = _group_sizes(items), _reach(items)
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
                out.append(newline + " " * column)
            else:
                out.append(item.flat)
                column += len(item.flat)
        elif item.group:
            size, end = sizes[at]
            broken.append(broken[-1] and (size < 0 or column + size + reach[end] > width))
        elif item is END:
            broken.pop()
        elif item is STOP:
            indents.pop()
        else:
            indents.append(indents[-1] + item.columns)
    return "".join(out)


def _column_after(column: int, text: str) -> int:
    return column + len(text) if "\n" not in text else len(text) - text.rindex("\n") - 1


def _columns(text: str) -> int:
    """The columns of the first line: what comes behind it begins anew."""
    return len(text) if "\n" not in text else text.index("\n")


def _group_sizes(items: list[Item]) -> dict[int, tuple[int, int]]:
    """By where a group begins: its columns on one line (-1: it must not be), and where it ends."""
    sizes: dict[int, tuple[int, int]] = {}
    open_groups: list[tuple[int, int]] = []
    total, last_hard = 0, -1
    for at, item in enumerate(items):
        if isinstance(item, str):
            total += _columns(item)
        elif isinstance(item, Break):
            total += len(item.flat)
            last_hard = at if item.hard else last_hard
        elif isinstance(item, Mark):
            if item.group:
                open_groups.append((at, total))
            elif item is END:
                begin, before = open_groups.pop()
                sizes[begin] = (-1 if last_hard > begin else total - before, at)
    return sizes


def _reach(items: list[Item]) -> list[int]:
    """By place: the columns of text from there to the next break."""
    reach = [0] * (len(items) + 1)
    for at in range(len(items) - 1, -1, -1):
        item = items[at]
        if isinstance(item, str):
            reach[at] = _columns(item) + ("\n" not in item and reach[at + 1])
        elif isinstance(item, Break):
            reach[at] = len(item.flat) + reach[at + 1] if item.kept else 0
        else:
            reach[at] = reach[at + 1]
    return reach
