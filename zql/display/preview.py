"""The few rows of a result that a person is shown, read without holding the rest."""

from __future__ import annotations

from collections import deque

from zql.display.formats import Row, TextRows
from zql.display.text import CELL_LIMIT
from zql.tree import node

MAX_ROWS = 40
"""Rows that a table shows when nobody says how many."""

COUNTED_ROWS = 9_999
"""Rows that are read at most to tell how many a result has; a longer one is `more than` this."""

_CHUNK = 1_000


@node
class Preview:
    """The part of a result that is shown: first rows, last rows, and how many there are.

    `total` counts all rows that were read; `complete` is False when the result had more.
    `tail` is empty when `head` is all that is shown.
    """

    names: tuple[str, ...]
    types: tuple[str, ...]
    head: tuple[Row, ...]
    tail: tuple[Row, ...] = ()
    total: int = 0
    complete: bool = True


def _cut(row: Row) -> Row:
    return [None if cell is None else cell[: CELL_LIMIT + 1] for cell in row]


def read_preview(rows: TextRows, max_rows: int | None = MAX_ROWS) -> Preview:
    """Reads up to `COUNTED_ROWS` and keeps the first and the last ones, `max_rows` in all.

    Without `max_rows` all rows are read and kept. Of a result too long to be counted only the
    first rows are kept: its last ones are not known.
    """
    if max_rows is None:
        return _read_all(rows)
    counted = max(COUNTED_ROWS, max_rows)
    head: list[Row] = []
    tail: deque[Row] = deque(maxlen=max_rows)
    total = 0
    while total <= counted:
        chunk = rows.text_rows(min(_CHUNK, counted + 1 - total))
        if not chunk:
            break
        total += len(chunk)
        kept = max(0, max_rows - len(head))
        head += map(_cut, chunk[:kept])
        tail.extend(map(_cut, chunk[kept:][-max_rows:]) if max_rows else ())
    names, types = tuple(rows.names), tuple(rows.types)
    if total > counted:
        return Preview(names, types, tuple(head), (), counted, complete=False)
    if total <= max_rows:
        return Preview(names, types, tuple(head), (), total)
    first = (max_rows + 1) // 2
    last = [*head[first:], *tail][-(max_rows - first) :] if max_rows > 1 else []
    return Preview(names, types, tuple(head[:first]), tuple(last), total)


def _read_all(rows: TextRows) -> Preview:
    kept: list[Row] = []
    while chunk := rows.text_rows(_CHUNK):
        kept += map(_cut, chunk)
    return Preview(tuple(rows.names), tuple(rows.types), tuple(kept), (), len(kept))
