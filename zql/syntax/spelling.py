"""Tokens that are printed, matched with those that the author wrote, and spelled as there."""

from __future__ import annotations

from collections.abc import Sequence

from zql.expr.sql import quote_identifier
from zql.source import Source
from zql.syntax.literals import name_value, string_value
from zql.syntax.tokens import tokenize
from zql.syntax.type_names import type_text

_SIGNS = {"==": "=", "!=": "<>"}

_AHEAD = 60
"""Tokens that are looked at for the place where two sequences agree again."""


def words_in(text: str) -> list[tuple[int, int]]:
    """Where the tokens of a piece of printed text start and end."""
    if text.isalnum():
        return [(0, len(text))]
    tokens = tokenize(Source("", text))
    return list(zip(tokens.starts, tokens.ends, strict=True))


def meaning(token: str) -> tuple[str, str]:
    """What a token is, however it is spelled: case, quotes, digits' `_`, other words for types."""
    first = token[0]
    if first == "'" or token[:2] in ("e'", "E'") or (first == "$" and token[-1] == "$"):
        return "string", string_value(token)
    if first in '"`':
        return "word", name_value(token).upper()
    if first.isdecimal() or (first == "." and len(token) > 1):
        digits = token.replace("_", "").lower()
        return "number", digits.lstrip("0") or "0"
    return "word", type_text(_SIGNS.get(token, token))


def spelled(printed: str, written: str) -> str:
    """A printed token as the author wrote it, where that is the author's to choose.

    Backticks become quotes, and keywords are capitals.
    """
    kind, _ = meaning(written)
    if kind != "word":
        return written
    if written[0] in '"`':
        return quote_identifier(name_value(written))
    if written.upper() != printed.upper() and written[0].isalpha() and printed[0].isalpha():
        return written.upper()  # another word for a type
    return printed


def match(written: Sequence[str], printed: Sequence[str]) -> list[int | None]:
    """For each token that was written the place of the printed one that it became, if any.

    Places grow. The sequences differ where something was put in canonical form, so they soon
    agree again.
    """
    left = [meaning(token) for token in written]
    right = [meaning(token) for token in printed]
    found: list[int | None] = [None] * len(left)
    i = j = 0
    while i < len(left) and j < len(right):
        if left[i] != right[j]:
            step = _agree_again(left, right, i, j)
            if step is None:
                i, j = i + 1, j + 1
                continue
            i, j = i + step[0], j + step[1]
        found[i] = j
        i, j = i + 1, j + 1
    return found


def _agree_again(
    left: Sequence[tuple[str, str]], right: Sequence[tuple[str, str]], i: int, j: int
) -> tuple[int, int] | None:
    """How many tokens to pass over on each side, as few as can be; two that agree are surer."""
    single = None
    for distance in range(1, _AHEAD):
        for on_right in range(distance + 1):
            a, b = i + distance - on_right, j + on_right
            if a >= len(left) or b >= len(right) or left[a] != right[b]:
                continue
            if left[a + 1 : a + 2] == right[b + 1 : b + 2]:
                return a - i, b - j
            single = single or (a - i, b - j)
    return single
