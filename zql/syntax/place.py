"""Where the tokens of a statement stopped to make sense, and what stands around."""

from __future__ import annotations

from typing import Protocol

from zql.errors import ParseError
from zql.source import Span
from zql.syntax.automaton import Rejected, accepts
from zql.syntax.expected import Expected
from zql.syntax.keywords import KEYWORDS
from zql.syntax.tables import Tables
from zql.syntax.tokens import Tokens

OPENING = {"LPAR": "RPAR", "LSQB": "RSQB", "LBRACE": "RBRACE", "HINT": "RBRACE"}
CLOSING = frozenset(OPENING.values())


class Range(Protocol):
    """A statement's tokens: from `first` to before `last`."""

    @property
    def first(self) -> int: ...

    @property
    def last(self) -> int: ...


class Place:
    """Where the tokens stopped to make sense, and what stands around."""

    def __init__(self, tables: Tables, tokens: Tokens, piece: Range, rejected: Rejected) -> None:
        self._tables = tables
        self.tokens = tokens
        self.first = piece.first
        self.last = piece.last
        self.at = piece.first + rejected.at
        self.expected = Expected(tables, accepts(tables, rejected.states))

    def name(self, step: int = 0) -> str:
        """The terminal `step` tokens away; `$END` outside the statement."""
        at = self.at + step
        if not self.first <= at < self.last or self.tokens.kinds[at] < 0:
            return "$END"
        return self._tables.terminals[self.tokens.kinds[at]]

    def text(self, step: int = 0) -> str:
        """The text of that token; empty outside the statement."""
        at = self.at + step
        return self.tokens.text(at) if self.first <= at < self.last else ""

    def word(self, step: int = 0) -> str:
        """That text in capitals."""
        return self.text(step).upper()

    @property
    def is_word(self) -> bool:
        """Whether the token is a word outside quotes."""
        return self.name() == "IDENT" or self.name() in KEYWORDS

    @property
    def is_value(self) -> bool:
        """Whether the token is a literal, a parameter or a plain name."""
        return self.name() in ("IDENT", "QUOTED_IDENT", "NUMBER", "STRING", "PARAMETER")

    @property
    def at_end(self) -> bool:
        """Whether it is the end of the statement that came too early."""
        return self.at >= self.last or self.name() == "SEMICOLON"

    @property
    def span(self) -> Span:
        """The place of the token; behind the last one at the end."""
        if self.at < self.last:
            return self.tokens.span(self.at)
        end = self.tokens.ends[self.at - 1] if self.at else 0
        return Span(self.tokens.source, end, end)

    @property
    def begins_line(self) -> bool:
        """Whether a line end stands before the token."""
        if self.at == self.first or self.at >= self.last:
            return False
        between = self.tokens.source.text[
            self.tokens.ends[self.at - 1] : self.tokens.starts[self.at]
        ]
        return "\n" in between

    def kind_of(self, at: int) -> str:
        """The terminal of a token by its place in the list."""
        return self._tables.terminals[max(self.tokens.kinds[at], 0)]

    def open_bracket(self) -> int | None:
        """The innermost bracket that is open before the token."""
        stack = []
        for at in range(self.first, min(self.at, self.last)):
            name = self.kind_of(at)
            if name in OPENING:
                stack.append(at)
            elif name in CLOSING and stack:
                stack.pop()
        return stack[-1] if stack else None

    def error(
        self,
        code: str,
        message: str,
        hint: str | None = None,
        *,
        span: Span | None = None,
        label: str = "",
    ) -> ParseError:
        """A ParseError at this place."""
        return ParseError(message, code=code, span=span or self.span, hint=hint, label=label)


def shortened(text: str) -> str:
    """The text of a token for a message: one line, not too long."""
    line = text.split("\n", 1)[0]
    return line if len(line) <= 40 and line == text else line[:37] + "..."
