"""Slips with words in the wrong place: clauses of a SELECT, and what stands around subpipes."""

from __future__ import annotations

from zql.errors import ParseError
from zql.syntax.place import CLOSING, OPENING, Place

_CLAUSES = (
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP",
    "HAVING",
    "WINDOW",
    "QUALIFY",
    "ORDER",
    "LIMIT",
    "OFFSET",
)
_WRITTEN = {"GROUP": "GROUP BY", "ORDER": "ORDER BY"}


def clause_order(place: Place) -> ParseError | None:
    """A clause of a SELECT behind one that it should precede, or a second one of its kind."""
    word = place.name()
    if word not in _CLAUSES[1:] or "PIPE" not in place.expected:
        return None
    above = _since_select(place)
    if above is None:
        return None
    shown = _WRITTEN.get(word, word)
    if word in above:
        return place.error(
            "S114",
            f"a SELECT has one {shown}",
            f"write |> {shown} to go on from its result"
            if word in ("WHERE", "ORDER", "LIMIT")
            else "put it into the first one",
        )
    later = [w for w in above if _CLAUSES.index(w) > _CLAUSES.index(word)]
    if not later:
        return None
    also = f", or write |> {shown}" if word in ("WHERE", "ORDER", "LIMIT") else ""
    return place.error(
        "S114",
        f"{shown} stands before {_WRITTEN.get(later[0], later[0])}",
        f"put it there{also}",
    )


_BEFORE = {"SEED": ("INTO", "SHUFFLE"), "INTO": ("LIMIT", "ERROR")}
"""A word of an operator, one before which it stands, and the one that makes it that operator."""


def word_order(place: Place) -> ParseError | None:
    """A part of SHUFFLE, or of ON ERROR, behind one that it should precede."""
    word = place.name()
    if word not in _BEFORE or "PIPE" not in place.expected:
        return None
    other, home = _BEFORE[word]
    behind = False
    for at in _before(place, min(place.at, place.last)):
        name = place.kind_of(at)
        if name in ("PIPE", "SEMICOLON"):
            return None
        behind = behind or name == other
        if name == home:
            break
    else:
        return None
    if not behind:
        return None
    return place.error("S114", f"{word} stands before {other}", "put it there")


def _since_select(place: Place) -> list[str] | None:
    """The clauses of the SELECT that the place is in; None in a pipeline."""
    found: list[str] = []
    for at in _before(place, min(place.at, place.last)):
        name = place.kind_of(at)
        if name in ("PIPE", "SEMICOLON"):
            return None
        if name == "SELECT":
            piped = at > place.first and place.kind_of(at - 1) == "PIPE"
            return None if piped else found[::-1]
        if name in _CLAUSES and (name != "GROUP" or place.kind_of(at + 1) != "LPAR"):
            found.append(name)
    return None


def _before(place: Place, end: int) -> list[int]:
    """The tokens before one that are in the same brackets and no others, the nearest first."""
    found, depth = [], 0
    for at in range(end - 1, place.first - 1, -1):
        name = place.kind_of(at)
        depth += (name in CLOSING) - (name in OPENING)
        if depth < 0:
            break
        if depth == 0 and name not in OPENING:
            found.append(at)
    return found


def subpipes(place: Place) -> ParseError | None:
    """Words that are missing around a pipeline in parentheses, or too many in it."""
    if place.name() == "PIPE" and place.name(-1) == "LPAR":
        return _without_then(place, place.at - 1)
    if place.name() == "LPAR" and place.name(1) == "PIPE" and "THEN" in place.expected:
        return _without_then(place, place.at)
    if place.word() == "IF" and place.name(-1) == "ELSE" and "LPAR" in place.expected:
        return place.error("S114", "ELSE takes no condition", "write ELSEIF condition THEN (|> ..)")
    inside = place.name(-1) == "LPAR" and "PIPE" in place.expected
    if inside and place.name() in ("FROM", "SELECT") and "FROM" not in place.expected:
        return place.error(
            "S115",
            "a pipeline in parentheses goes on from the rows here",
            f"it begins with |>: leave {place.word()} away, or write |> {place.word()}"
            if place.name() == "SELECT"
            else "it begins with |>: leave FROM away",
        )
    if place.name() == "AS" and place.expected.end and "PIPE" in place.expected:
        return _as_query(place)
    return None


def _without_then(place: Place, bracket: int) -> ParseError | None:
    words = {"PARTITION": "PARTITION BY key", "WHEN": "SWITCH WHEN condition", "IF": "IF condition"}
    for at in _before(place, bracket):
        name = place.kind_of(at)
        if name in ("PIPE", "THEN"):
            return None
        if name in words:
            return place.error(
                "S114",
                'THEN is missing before "("',
                f"write {words[name]} THEN (|> ..)",
                span=place.tokens.span(bracket),
            )
    return None


def _as_query(place: Place) -> ParseError | None:
    """`|> CREATE TEMP TABLE t AS FROM ..`, `|> WRITE 'x' AS FROM ..`."""
    for at in _before(place, place.at):
        if place.kind_of(at) == "PIPE":
            word = place.tokens.text(at + 1).upper()
            if word not in ("CREATE", "WRITE", "EXPORT"):
                return None
            return place.error(
                "S115",
                f"behind |> {word} takes the rows from above, and no query",
                "leave AS and the query away",
            )
    return None
