"""From a token that fits no rule to a message that says what to write instead."""

from __future__ import annotations

from typing import Protocol

from zql.errors import ParseError
from zql.source import Span
from zql.syntax.automaton import Rejected, accepts
from zql.syntax.tables import Tables
from zql.syntax.tokens import Tokens


class Range(Protocol):
    """A statement's tokens: from `first` to before `last`."""

    @property
    def first(self) -> int: ...

    @property
    def last(self) -> int: ...


def describe(tables: Tables, tokens: Tokens, piece: Range, rejected: Rejected) -> ParseError:
    """The error for the token where a statement's tokens stopped to make sense."""
    at = piece.first + rejected.at
    if at < piece.last and at in tokens.errors:
        return tokens.errors[at]
    expected = [tables.terminals[t] for t in accepts(tables, rejected.states)]
    if at >= piece.last:
        end = tokens.ends[at - 1] if at else 0
        return ParseError("unexpected end", code="S102", span=Span(tokens.source, end, end))
    return ParseError(
        f'unexpected "{tokens.text(at)}"',
        code="S101",
        span=tokens.span(at),
        label=", ".join(expected[:5]),
    )
