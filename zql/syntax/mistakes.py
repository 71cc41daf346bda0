"""From a token that fits no rule to a message that says what to write instead.

Codes of syntax errors:
S101 unexpected, S102 ends too early, S103 open string, S104 open comment, S105 open quoted name,
S106 bad number, S107 bad character, S108 bracket without its partner, S110 too deep,
S111 unknown statement, S112 unknown operator, S113 not supported yet, S114 `|>` or `;` is missing,
S115 a clause in the wrong place, S116 chained comparison, S117 strings side by side,
S118 keyword as a name, S119 quotes, S120 wrong argument of a form, S121 no table, S122 a list or
condition that does not fit, S123 no type.
"""

from __future__ import annotations

from zql.errors import ParseError
from zql.syntax.automaton import Rejected
from zql.syntax.place import CLOSING, OPENING, Place, Range, shortened
from zql.syntax.slips import RULES
from zql.syntax.tables import Tables
from zql.syntax.tokens import Tokens


def describe(tables: Tables, tokens: Tokens, piece: Range, rejected: Rejected) -> ParseError:
    """The error for the token where a statement's tokens stopped to make sense."""
    place = Place(tables, tokens, piece, rejected)
    error = next((found for rule in RULES if (found := rule(place)) is not None), None)
    if error is None:
        error = _generic(place)
    error.expected = tuple(sorted(place.expected.names))
    error.operator = current_operator(tables, tokens, piece.first, place.at)
    return error


def current_operator(tables: Tables, tokens: Tokens, first: int, at: int) -> str | None:
    """`operator 2: WHERE` for a place behind the second `|>` of the statement; None before it."""
    depth = count = 0
    found = None
    for index in range(first, min(at, len(tokens.kinds))):
        name = tables.terminals[max(tokens.kinds[index], 0)]
        if name in OPENING:
            depth += 1
        elif name in CLOSING:
            depth -= 1
        elif name == "PIPE" and depth == 0:
            count += 1
            word = tokens.text(index + 1).upper() if index + 1 < len(tokens.kinds) else ""
            found = f"operator {count}: {word}" if word.isidentifier() else f"operator {count}"
    return found


def _generic(place: Place) -> ParseError:
    label = place.expected.text()
    if place.at_end:
        return place.error("S102", "the statement ends too early", label=label)
    hint = None
    if place.is_value:
        if "COMMA" in place.expected:
            hint = "is a comma missing before it?"
    elif place.name(-1) == "COMMA":
        hint = "something is missing behind the comma, or the comma is one too many"
    return place.error("S101", f'unexpected "{shortened(place.text())}"', hint, label=label)
