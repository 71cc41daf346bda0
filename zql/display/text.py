"""Text that came from data, names or files, made safe and measured for a terminal."""

from __future__ import annotations

import re

CELL_LIMIT = 200
"""Characters of one cell that are shown at most."""

_KILO = 1000
_UNITS = ("kB", "MB", "GB", "TB")
_MINUTE = 60

# What a terminal obeys or what reorders the text around it: C0, DEL and C1; the bidirectional
# controls; line and paragraph separators; halves of surrogate pairs; invisible tag characters.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
    "\ufeff\U000e0000-\U000e007f]"
)


def _escape(match: re.Match[str]) -> str:
    return match.group().encode("unicode_escape").decode("ascii")


def safe_text(text: str, limit: int | None = None) -> str:
    """The text on one line, without a character that a terminal would obey; cut behind `limit`."""
    if limit is not None and len(text) > limit:
        text = text[: limit - 1] + "…"
    return text if text.isprintable() else _UNSAFE.sub(_escape, text)


def safe_lines(text: str) -> str:
    """As `safe_text`, for a text of several lines: line ends and tabs stay."""
    if text.isprintable():
        return text
    return "\n".join(
        _UNSAFE.sub(lambda match: "\t" if match.group() == "\t" else _escape(match), line)
        for line in text.replace("\r\n", "\n").split("\n")
    )


def width(text: str) -> int:
    """Columns that a safe text takes on a terminal."""
    if text.isascii():
        return len(text)
    from wcwidth import wcswidth

    # Some marks are as wide as what stands before them lets them be: in a table, a space.
    columns = wcswidth(f" {text}") - 1
    return columns if columns >= 0 else len(text)


def cut(text: str, columns: int) -> str:
    """The text, or its beginning and `…`, in at most `columns` (1 or more)."""
    if len(text) * 2 <= columns or width(text) <= columns:
        return text
    if text.isascii():
        return text[: columns - 1] + "…"
    from wcwidth import wcwidth

    used = length = 0
    for char in text:
        used += max(0, wcwidth(char))
        if used > columns - 1:
            break
        length += 1
    # A variation selector can make the characters before it wider than their sum.
    while length and width(text[:length]) > columns - 1:
        length -= 1
    return text[:length] + "…"


def pad(text: str, columns: int, align: str = "<") -> str:
    """The text with spaces to `columns`: `<` at the right, `>` at the left, `^` on both sides."""
    free = max(0, columns - width(text))
    if align == ">":
        return " " * free + text
    if align == "^":
        return " " * (free // 2) + text + " " * (free - free // 2)
    return text + " " * free


def count(number: int, noun: str) -> str:
    """`1 row`, `12,345 rows`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def number(value: float) -> str:
    """`12,345`; a float in about six digits, `0.333333`."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"


def size(number: int) -> str:
    """Bytes for people, in powers of 1000: `512 bytes`, `1.5 MB`."""
    if number < _KILO:
        return count(number, "byte")
    value, unit = float(number), ""
    for unit in _UNITS:  # noqa: B007 - the unit that the loop stops at is the one
        value /= _KILO
        if round(value) < _KILO:
            break
    return f"{value:.{_decimals(value, 1)}f} {unit}"


def duration(seconds: float) -> str:
    """Seconds for people: `4 ms`, `1.25 s`, `2 min 5 s`, `1 h 2 min`."""
    if round(seconds * 1000) < _KILO:
        return f"{seconds * 1000:.0f} ms"
    if round(seconds) < 2 * _MINUTE:
        return f"{seconds:.{_decimals(seconds, 2)}f} s"
    minutes, rest = divmod(round(seconds), _MINUTE)
    if minutes < _MINUTE:
        return f"{minutes} min {rest} s"
    return f"{minutes // _MINUTE} h {minutes % _MINUTE} min"


def _decimals(value: float, most: int) -> int:
    """Places that leave about three digits."""
    return max(0, most + 1 - len(str(int(value))))


_NUMERIC = re.compile(
    r"(U?(TINY|SMALL|BIG|HUGE)INT|U?INTEGER|FLOAT|DOUBLE|REAL|BIGNUM|DECIMAL(\(.*\))?)$",
    re.IGNORECASE,
)


def is_numeric(type: str) -> bool:
    """Whether values of a DuckDB type are aligned at the right."""
    return _NUMERIC.match(type) is not None
