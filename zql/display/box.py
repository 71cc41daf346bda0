"""Tables as DuckDB draws them: a box, a row of types, the middle of a long result left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from zql.display.preview import Preview
from zql.display.style import PLAIN, Style
from zql.display.text import CELL_LIMIT, count, cut, is_numeric, pad, safe_text, width
from zql.tree import node

MINIMUM = 12
"""Columns are not squeezed below this width while a column can be hidden instead."""


@node
class Charset:
    """What a box is made of: line, bar, the four rows of joints, and the marks for things cut."""

    line: str
    bar: str
    top: tuple[str, str, str]
    middle: tuple[str, str, str]
    bottom: tuple[str, str, str]
    more: str
    dot: str


UNICODE = Charset("─", "│", ("┌", "┬", "┐"), ("├", "┼", "┤"), ("└", "┴", "┘"), "…", "·")
ASCII = Charset("-", "|", ("+", "+", "+"), ("+", "+", "+"), ("+", "+", "+"), "...", ".")


@node
class _Column:
    """A shown column: texts without padding, its width, where they stand. None is NULL."""

    name: str
    type: str
    cells: tuple[str | None, ...]
    align: str
    width: int = 0
    filler: bool = False


def _measure(column: _Column) -> _Column:
    wide = max([width(column.name), *(4 if c is None else width(c) for c in column.cells)])
    # The text of a long STRUCT type says little: it does not make its column wide.
    return replace(column, width=max(wide, min(width(column.type), max(24, wide))))


def _columns(preview: Preview) -> list[_Column]:
    rows = (*preview.head, *preview.tail)
    return [
        _measure(
            _Column(
                safe_text(name, CELL_LIMIT),
                safe_text(kind.lower()),
                tuple(None if r[i] is None else safe_text(str(r[i]), CELL_LIMIT) for r in rows),
                ">" if is_numeric(kind) else "<",
            )
        )
        for i, (name, kind) in enumerate(zip(preview.names, preview.types, strict=True))
    ]


def _frame(columns: Sequence[_Column]) -> int:
    """What bars and the spaces beside them take."""
    return 3 * len(columns) + 1


def _squeeze(columns: list[_Column], limit: int) -> list[_Column]:
    """Cuts the widest columns, all to one width, until the table fits into `limit`."""
    free = limit - _frame(columns)
    widths = sorted(c.width for c in columns if not c.filler)
    free -= sum(c.width for c in columns if c.filler)
    cap = widths[-1]
    for done, wide in enumerate(widths):
        share = max(1, free // (len(widths) - done))
        if wide > share:
            cap = share
            break
        free -= wide
    return [c if c.filler else replace(c, width=min(c.width, cap)) for c in columns]


def _fit(columns: list[_Column], limit: int, chars: Charset) -> list[_Column]:
    """The columns that fit into `limit`: the outer ones stay, a filler stands for the others."""
    need = [min(c.width, MINIMUM) + 3 for c in columns]
    if sum(need) + 1 <= limit or len(columns) == 1:
        return _squeeze(columns, limit)
    left, right = 1, 0
    room = limit - 1 - need[0] - len(chars.more) - 3
    while left + right < len(columns) - 1:
        step = need[left] if left <= right else need[-right - 1]
        if step > room:
            break
        room -= step
        left, right = (left + 1, right) if left <= right else (left, right + 1)
    filler = _Column(
        chars.more,
        "",
        tuple(chars.more for _ in columns[0].cells),
        "<",
        len(chars.more),
        filler=True,
    )
    return _squeeze([*columns[:left], filler, *columns[len(columns) - right :]], limit)


def _line(cells: Sequence[str], bar: str) -> str:
    return f"{bar} " + f" {bar} ".join(cells) + f" {bar}"


def _rule(columns: Sequence[_Column], line: str, joints: tuple[str, str, str]) -> str:
    left, cross, right = joints
    return left + cross.join(line * (c.width + 2) for c in columns) + right


def _body(columns: Sequence[_Column], index: int, chars: Charset, style: Style) -> str:
    cells = []
    for column in columns:
        cell = column.cells[index]
        shown = pad(cut("NULL" if cell is None else cell, column.width), column.width, column.align)
        faint = cell is None or column.filler
        cells.append(style.faint(shown) if faint else shown)
    return _line(cells, chars.bar)


def _footer(preview: Preview, shown: int, table: int) -> str:
    rows = count(preview.total, "row") if preview.complete else f"more than {preview.total:,} rows"
    listed = len(preview.head) + len(preview.tail)
    if listed < preview.total or not preview.complete:
        rows += f" ({listed:,} shown)"
    columns = count(len(preview.names), "column")
    if shown < len(preview.names):
        columns += f" ({shown} shown)"
    gap = table - 4 - len(rows) - len(columns)
    return f"  {rows}" + " " * max(gap, 3) + columns


def render_box(
    preview: Preview,
    *,
    limit: int | None = None,
    style: Style = PLAIN,
    chars: Charset = UNICODE,
) -> str:
    """The table as text without a line end behind it; no line of it is wider than `limit`.

    Without `limit` every column is shown whole, as far as `CELL_LIMIT` lets it.
    """
    columns = _columns(preview)
    if not columns:
        return _footer(preview, 0, 0)
    if limit is not None:
        columns = _fit(columns, limit, chars)
    shown = sum(not c.filler for c in columns)
    names = [pad(cut(c.name, c.width), c.width, "^") for c in columns]
    types = [pad(cut(c.type, c.width), c.width, "^") for c in columns]
    lines = [
        _rule(columns, chars.line, chars.top),
        _line([style.strong(name) for name in names], chars.bar),
        _line([style.faint(kind) for kind in types], chars.bar),
    ]
    rows = [_body(columns, i, chars, style) for i in range(len(columns[0].cells))]
    if preview.total > len(rows) or not preview.complete:
        dots = _line([style.faint(pad(chars.dot, c.width, c.align)) for c in columns], chars.bar)
        rows[len(preview.head) : len(preview.head)] = [dots] * 3
    if rows:
        lines.append(_rule(columns, chars.line, chars.middle))
        lines += rows
    lines.append(_rule(columns, chars.line, chars.bottom))
    table = sum(c.width for c in columns) + _frame(columns)
    footer = _footer(preview, shown, table)
    footer = footer if limit is None else cut(footer, max(limit, 24))
    return "\n".join([*lines, style.faint(footer)])
