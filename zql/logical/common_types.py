"""Which types may stand in one column when rows of several queries or columns meet."""

from __future__ import annotations

from collections.abc import Sequence

from zql.logical.catalog import TypeProblem
from zql.logical.context import UNKNOWN, Context

_UNTYPED = (UNKNOWN, '"NULL"')


def common_type(context: Context, types: Sequence[str]) -> str | None:
    """The type that holds values of all these; None when they do not meet.

    Numbers widen, and nothing else becomes anything else: DuckDB would turn numbers beside text
    into text, and try to make a list of a number, without a word.
    """
    known = list(dict.fromkeys(t for t in types if t not in _UNTYPED))
    if len(known) <= 1:
        return known[0] if known else types[0]
    if any(clash(known[0], other) for other in known[1:]):
        return None
    try:
        return context.catalog.common_type(known)
    except TypeProblem:
        return None


def clash(first: str, second: str) -> bool:
    """Whether values of two types do not meet: text and anything else, a list and no list."""
    if first == second or first in _UNTYPED or second in _UNTYPED:
        return False
    if first.endswith("]") or second.endswith("]"):
        both = first.endswith("]") and second.endswith("]")
        return not both or clash(first[: first.rindex("[")], second[: second.rindex("[")])
    nested = {t.split("(", 1)[0] for t in (first, second)}
    if len(nested) > 1 and nested & {"STRUCT", "MAP", "UNION"}:
        return True
    return "VARCHAR" in (first, second)
