"""What could have stood at a place, in words: the parser's exact set, grouped, a few of it."""

from __future__ import annotations

from collections.abc import Iterable

from zql.syntax.tables import Tables

LIMIT = 5
"""More than this many things in one message are a dump, not a help."""

END_NAMES = frozenset({"$END", "SEMICOLON"})
INFIX = frozenset(
    {
        "PLUS", "MINUS", "STAR", "SLASH", "INTEGER_DIVIDE", "MODULO", "POWER", "CIRCUMFLEX",
        "CONCAT", "SHIFT_LEFT", "SHIFT_RIGHT", "AMPERSAND", "VBAR", "ARROW", "LONG_ARROW",
        "EQUAL", "SAME", "NOT_EQUAL", "BANG_EQUAL", "LESSTHAN", "AT_MOST", "MORETHAN", "AT_LEAST",
        "TILDE", "AND", "OR", "NOT", "IN", "IS", "LIKE", "ILIKE", "GLOB", "SIMILAR", "BETWEEN",
        "AT", "COLLATE", "CAST_SIGN", "DOT", "LSQB", "LPAR", "OVER", "FILTER", "WITHIN",
    }
)  # fmt: skip
"""What goes on behind an operand."""

_JOINS = frozenset(
    {"JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "SEMI", "ANTI", "ASOF", "NATURAL"}
)
_PIPED = frozenset({"WHERE", "SELECT", "EXTEND", "AGGREGATE"})


class Expected:
    """The terminals that could come next."""

    def __init__(self, tables: Tables, terminals: Iterable[int]) -> None:
        self._tables = tables
        self.names = frozenset(tables.terminals[t] for t in terminals)

    def __contains__(self, name: str) -> bool:
        return name in self.names

    @property
    def end(self) -> bool:
        """Whether the statement could end here."""
        return "$END" in self.names

    @property
    def expression(self) -> bool:
        """Whether an expression could begin here."""
        return self._first("symbols") <= self.names

    @property
    def operand_before(self) -> bool:
        """Whether what stands before is an operand that an operator may follow."""
        every_word = "SELECT" in self.names
        return "CONCAT" in self.names or ({"AND", "OR"} <= self.names and not every_word)

    def _first(self, rule: str) -> frozenset[str]:
        return frozenset(self._tables.terminals[t] for t in self._tables.first[rule])

    def phrases(self) -> list[str]:
        """The groups, most telling first; at most `LIMIT` of them."""
        # Hints may stand behind every operator: nobody who has lost the way looks for one.
        left = set(self.names) - {"HINT"}
        found: list[str] = []
        if left >= _PIPED and "IDENT" not in left:
            return ["a pipe operator (WHERE, SELECT, EXTEND, AGGREGATE, ..)"]
        if self._first("statement") <= left:
            return ["a statement (FROM, VALUES, DECLARE, CREATE, IMPORT, SET, EXPLAIN, DESCRIBE)"]
        for phrase, rule in (
            ("an expression", "symbols"),
            ("a path, a table or (query)", "source"),
            ("a name", "anyname"),
            ("a type", "type"),
            ("a name", "name"),
            ("a unit of time", "interval_unit"),
            ("a name", "plain_name"),
        ):
            first = self._first(rule)
            if first <= left:
                left -= first | {"NOT"}
                if phrase == "an expression":
                    left -= self._first("anyname")
                if phrase not in found:
                    found.append(phrase)
        if self.operand_before:
            left -= INFIX
            found.append("an operator")
        if "JOIN" in left:
            left -= _JOINS
            found.append("JOIN")
        ends = left & END_NAMES
        pipe = left & {"PIPE"}
        left -= ends | pipe
        found += sorted(self._shown(name) for name in left if name not in self._tables.signs)
        found[:0] = sorted(self._shown(name) for name in left if name in self._tables.signs)
        tail = [self._shown("PIPE")] if pipe else []
        tail += ["the end of the statement"] if ends else []
        return found[: LIMIT - len(tail)] + tail

    def _shown(self, name: str) -> str:
        if name in self._tables.signs:
            return f'"{self._tables.signs[name]}"'
        return {
            "STRING": "a string in single quotes",
            "NUMBER": "a number",
            "PARAMETER": "a parameter",
            "IDENT": "a name",
            "QUOTED_IDENT": "a name",
            "SLASH": '"/"',
            "WITH_TIME": "WITH TIME ZONE",
        }.get(name, name)

    def text(self) -> str:
        """`expected A, B or C`."""
        phrases = list(dict.fromkeys(self.phrases()))
        if not phrases:
            return ""
        *rest, last = phrases
        return f"expected {', '.join(rest)} or {last}" if rest else f"expected {last}"
