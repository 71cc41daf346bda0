"""The values of written literals and names."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

from zql.errors import ParseError
from zql.source import Span

MAX_DIGITS = 1000
"""A longer number is no number that any column could hold."""

_ESCAPE = re.compile(
    r"''|\\(x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{1,3}|.)", re.DOTALL
)
_SIMPLE = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}


def string_value(text: str) -> str:
    """The value of `'..'`, `E'..'`, `$$..$$` or `$tag$..$tag$`."""
    if text[0] == "'":
        return text[1:-1].replace("''", "'")
    if text[0] == "$":
        size = text.index("$", 1) + 1
        return text[size:-size]
    return _ESCAPE.sub(_unescape, text[2:-1])


def _unescape(found: re.Match[str]) -> str:
    code = found.group(1)
    if code is None:
        return "'"
    if len(code) > 1 and code[0] in "xuU":
        number = int(code[1:], 16)
        return chr(number) if number < 0x110000 else "\ufffd"
    if code[0] in "01234567":
        return chr(int(code, 8))
    return _SIMPLE.get(code, code)


def name_value(text: str) -> str:
    """The name that a word, `"quoted"` or `` `quoted` `` stands for."""
    quote = text[0]
    return text[1:-1].replace(quote * 2, quote) if quote in '"`' else text


def number_value(text: str, span: Span) -> int | Decimal:
    """The exact value of a number; a ParseError for one that is absurdly long."""
    digits = text.replace("_", "")
    if len(digits) > MAX_DIGITS:
        raise ParseError(
            f"a number of {len(digits)} characters is too long", code="S106", span=span
        )
    if digits.isdecimal():
        return int(digits)
    try:
        return Decimal(digits)
    except InvalidOperation:
        raise ParseError(f"{text} is too large", code="S106", span=span) from None
