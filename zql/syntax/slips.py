"""The slips that people make, one function for each kind: what it is, and what to write instead."""

from __future__ import annotations

from zql.errors import ParseError, did_you_mean, nearest
from zql.source import Span
from zql.syntax.expected import END_NAMES
from zql.syntax.keywords import (
    KEYWORDS,
    OPERATORS,
    RESERVED,
    STATEMENTS,
)
from zql.syntax.misplaced import clause_order, subpipes, word_order
from zql.syntax.place import CLOSING, OPENING, Place, shortened

_COMPARISONS = frozenset(
    {"EQUAL", "SAME", "NOT_EQUAL", "BANG_EQUAL", "LESSTHAN", "AT_MOST", "MORETHAN", "AT_LEAST"}
)
_SET_WORDS = frozenset({"UNION", "INTERSECT", "EXCEPT", "ALL", "DISTINCT", "NAME"})
_RANGES = frozenset({"IN", "LIKE", "ILIKE", "GLOB", "SIMILAR", "BETWEEN", "TILDE", "NOT"})

OTHER_LANGUAGES = {
    "ADD": "EXTEND",
    "ARRANGE": "ORDER BY",
    "COPY": "WRITE",
    "COUNT": "AGGREGATE count(*)",
    "DERIVE": "EXTEND",
    "FILTER": "WHERE",
    "FLATTEN": "UNNEST",
    "FLAT_MAP": "FLATMAP",
    "EXPLODE": "UNNEST",
    "HAVING": "WHERE (behind AGGREGATE it sees the groups)",
    "HEAD": "LIMIT",
    "INTO": "WRITE",
    "KEEP": "SELECT",
    "MUTATE": "EXTEND",
    "PROJECT": "SELECT",
    "QUALIFY": "WHERE (it may call window functions)",
    "REMOVE": "DROP",
    "SAVE": "WRITE",
    "SORT": "ORDER BY",
    "SUMMARIZE": "AGGREGATE",
    "TAKE": "LIMIT",
    "UNIQUE": "DISTINCT",
    "WINDOW": "EXTEND .. WINDOW w AS (..)",
}
"""Operators by the names they have elsewhere."""


def _no_token(place: Place) -> ParseError | None:
    touching = (
        place.at > place.first
        and place.at < place.last
        and place.tokens.ends[place.at - 1] == place.tokens.starts[place.at]
    )
    runs_on = place.name(-1) == "STRING" and "\n" in place.text(-1)
    if runs_on and touching and place.is_word:
        start = place.tokens.starts[place.at - 1]
        return place.error(
            "S103",
            f"this string runs on to line {place.span.line}",
            "close it with '; a quote inside a string is written twice",
            span=Span(place.tokens.source, start, start + 1),
            label="opened here",
        )
    if place.name(-1) == "STRING" and touching and (place.is_word or place.name() == "NUMBER"):
        return place.error(
            "S119",
            f'the string ends before "{shortened(place.text())}"',
            "a quote inside a string is written twice: 'it''s'",
        )
    comment_end = place.name() == "STAR" and place.text(1).startswith("/")
    if comment_end and place.tokens.starts[place.at + 1] == place.tokens.ends[place.at]:
        return place.error(
            "S104", '"*/" ends no comment', "comments do not nest: the first */ ended the comment"
        )
    return place.tokens.errors.get(place.at) if place.at < place.last else None


def _brackets(place: Place) -> ParseError | None:
    opened = place.open_bracket()
    closing = OPENING.get(place.kind_of(opened)) if opened is not None else None
    cut_off = place.at_end or (place.name() == "PIPE" and closing in place.expected.names)
    if cut_off and opened is not None:
        text = place.tokens.text(opened)
        return place.error(
            "S108", f'"{text}" is never closed', span=place.tokens.span(opened), label="opened here"
        )
    if place.name() not in CLOSING:
        return None
    if opened is None:
        return place.error("S108", f'"{place.text()}" closes nothing', label="no bracket is open")
    bracket = place.tokens.text(opened)
    if place.name() != closing:
        line = place.tokens.span(opened).line
        return place.error(
            "S108", f'"{place.text()}" does not close the "{bracket}" of line {line}'
        )
    return None


def _statement_start(place: Place) -> ParseError | None:
    if place.at != place.first or "FROM" not in place.expected or place.at_end:
        return None
    word = place.word()
    if word in OPERATORS or word in ("GROUP", "HAVING", "FILTER"):
        return place.error(
            "S111",
            f"{word} is an operator: it stands behind |>",
            f"begin with FROM, or in the shell with |> {word} to go on from the last result",
        )
    if place.name() in ("STRING", "LSQB"):
        return place.error("S111", "a statement begins with a word", "write FROM before a path")
    if not place.is_word:
        return place.error(
            "S101", f'unexpected "{shortened(place.text())}"', label=place.expected.text()
        )
    names = nearest(word, STATEMENTS)
    hint = did_you_mean(names) or f"a statement begins with {', '.join(STATEMENTS)}"
    return place.error("S111", f'unknown statement "{place.text()}"', hint)


def _operator_start(place: Place) -> ParseError | None:
    if place.name(-1) != "PIPE":
        return None
    word = place.word()
    if place.name() == "PIPE" or place.at_end:
        return place.error("S102", "an operator is missing behind |>", label=place.expected.text())
    if word in OTHER_LANGUAGES:
        return place.error(
            "S112", f"{word} is no operator of ZQL", f"write |> {OTHER_LANGUAGES[word]}"
        )
    if word == "GROUP":
        return place.error(
            "S115",
            "GROUP BY belongs to AGGREGATE, without |> before it",
            "write |> AGGREGATE count(*) AS n GROUP BY key",
        )
    if word == "FROM":
        return place.error(
            "S115",
            "a pipeline has one FROM, at its beginning",
            "join another table with |> JOIN, append it with |> UNION ALL (FROM ..)",
        )
    if not place.is_word:
        return place.error(
            "S101",
            f'unexpected "{shortened(place.text())}"',
            "an expression needs an operator before it, as in |> WHERE or |> EXTEND",
            label=place.expected.text(),
        )
    hint = did_you_mean(nearest(word, OPERATORS))
    return place.error(
        "S112",
        f'unknown operator "{place.text()}"',
        hint
        or "operators are WHERE, SELECT, EXTEND, SET, AGGREGATE, ORDER BY, JOIN, MAP, WRITE, ..",
    )


def _single_bar(place: Place) -> ParseError | None:
    words = {*OPERATORS, "GROUP", "HAVING", "QUALIFY", "FILTER"}
    if place.name() == "VBAR" and "PIPE" in place.expected:
        return place.error("S114", 'the sign between operators is "|>", not "|"', "write |>")
    if place.name(-1) == "VBAR" and place.word() in words:
        bar = place.tokens.span(place.at - 1)
        return place.error(
            "S114", 'the sign between operators is "|>", not "|"', "write |>", span=bar
        )
    at = place.at if place.name() == "MORETHAN" else place.at + 1
    if at + 1 < place.last and place.name(at - place.at) == "MORETHAN":
        before = place.name(at - place.at - 1)
        if before not in ("VBAR", "CONCAT"):
            return None
        pair = place.tokens.span(at - 1).to(place.tokens.span(at))
        return place.error("S114", f'"{pair.text}" is not "|>"', "write |>", span=pair)
    return None


def _clauses(place: Place) -> ParseError | None:
    """SQL's order of clauses: `FROM t WHERE`, `SELECT a FROM t`, `GROUP BY` in the wrong place."""
    word = place.word()
    if not ({"PIPE", "SEMICOLON"} & place.expected.names) or not place.is_word:
        return None
    if word in RESERVED and place.name(-1) == "COMMA" and _ends_item(place):
        return _reserved(place)
    if word == "GROUP" and place.name(1) in ("BY", "AND"):
        return place.error(
            "S115", "GROUP BY belongs to AGGREGATE", "write |> AGGREGATE count(*) AS n GROUP BY key"
        )
    if word in ("HAVING", "QUALIFY"):
        return place.error("S115", f"there is no {word}", f"write |> {OTHER_LANGUAGES[word]}")
    if word == "FROM" and not place.begins_line:
        return place.error(
            "S115", "FROM stands at the beginning of a pipeline", "write FROM table |> SELECT .."
        )
    begins_statement = word in STATEMENTS
    if begins_statement and place.begins_line and place.expected.end and word != "SET":
        also = f", or |> before {word}" if word in OPERATORS else ""
        return place.error(
            "S114",
            f"a new statement begins with {word}, but the one before has no end",
            f'put ";" before it{also}',
        )
    if word == "SET" and place.begins_line and place.expected.end:
        return place.error(
            "S114",
            '"|>" or ";" is missing before SET',
            'write |> SET to change a column, ";" before SET for a setting',
        )
    if word == "AS" and not place.begins_line:
        return None
    if word in ("UNION", "INTERSECT", "EXCEPT"):
        kind = f"{word} {place.word(1) if place.name(1) in ('ALL', 'DISTINCT') else 'DISTINCT'}"
        return place.error(
            "S114",
            f"{word} is an operator: it stands behind |> and takes queries in parentheses",
            f"write |> {kind} (SELECT ..)",
        )
    if word in OPERATORS:
        operator = "ORDER BY" if word == "ORDER" else word
        return place.error("S114", f'"|>" is missing before {operator}', f"write |> {operator}")
    return None


def _ends_item(place: Place) -> bool:
    """Whether nothing more of a list's item stands behind the word."""
    return place.at + 1 >= place.last or place.name(1) in ("COMMA", "PIPE", "SEMICOLON", "AS")


def _comparison(place: Place) -> ParseError | None:
    if not (place.expected.operand_before and "AND" in place.expected):
        return None
    if place.name() in _COMPARISONS:
        return place.error(
            "S116",
            "a comparison cannot follow a comparison",
            "write a < b AND b < c, or put one of them in parentheses",
        )
    if place.name() in _RANGES:
        return place.error(
            "S116", f"{place.word()} cannot follow a test", "put the first test in parentheses"
        )
    return None


def _strings(place: Place) -> ParseError | None:
    if place.name() == "STRING" and place.name(-1) == "STRING" and place.name(-2) == "FROM":
        return place.error(
            "S117",
            "two paths stand side by side",
            f"a list of paths is [{place.text(-1)}, {place.text()}]",
        )
    if place.name() == "STRING" and place.name(-1) == "STRING":
        return place.error(
            "S117",
            "two strings stand side by side",
            "put a comma between them, or || to join them",
        )
    if place.name() == "STRING" and place.name(-1) == "AS":
        return place.error("S119", "an alias is a name, not a string", 'write it bare or in "..."')
    quoted_path = place.name(-1) in ("WRITE", "TO") or (
        place.name(-1) == "PYTHON" and place.name(-2) == "IMPORT"
    )
    if quoted_path and place.name() in ("IDENT", "QUOTED_IDENT", "SLASH", "DOT", "INTEGER_DIVIDE"):
        return place.error("S119", "a path stands in single quotes", "write '..' around it")
    in_from = place.name(-2) in ("FROM", "JOIN", "COMMA") or place.name(-1) in ("FROM", "JOIN")
    if in_from and place.name() in ("SLASH", "INTEGER_DIVIDE", "DOT", "STAR", "TILDE"):
        return place.error("S119", "a path stands in single quotes", "write '..' around it")
    return None


def _aliases(place: Place) -> ParseError | None:
    if place.name(-1) in ("LEFT", "RIGHT") and place.expected.names == {"LPAR"}:
        return _reserved(place, -1)  # a function is all that it can be
    if place.name() not in KEYWORDS or place.name() in ("AND", "OR", "NOT", "IN", "IS", "BY"):
        return None
    if {"AS", "IDENT"} <= place.expected.names and not place.expected.expression:
        return place.error(
            "S118",
            f"{place.word()} is a keyword: it is an alias only behind AS",
            f"write AS {place.text()}",
        )
    follows = place.name(1) in (
        *END_NAMES, "COMMA", "RPAR", "RSQB", "DOT", "AS", "PIPE", "EQUAL", "IS", "PLUS", "MINUS",
        "LESSTHAN", "MORETHAN", "ASC", "DESC", "NOT_EQUAL", "STAR", "SLASH", "IN", "AND", "OR",
    )  # fmt: skip
    declared = place.word(-1) in ("DECLARE", "VIEW", "TABLE", "FUNCTION")
    if place.name() in RESERVED and "IDENT" in place.expected and (follows or declared):
        return _reserved(place)
    return None


def _reserved(place: Place, offset: int = 0) -> ParseError:
    span = place.tokens.span(place.at + offset)
    return place.error(
        "S118",
        f"{place.word(offset)} is a reserved word",
        f'in quotes it is a name: "{span.text}"',
        span=span,
    )


def _planned(place: Place) -> ParseError | None:
    before, word = place.word(-1), place.word()
    if before == "CREATE" and word in ("VIEW", "TABLE", "FUNCTION"):
        return place.error(
            "S101",
            "CREATE needs TEMP: what it makes lives as long as the script",
            f"write CREATE TEMP {word}",
        )
    if before == "IMPORT":
        return place.error(
            "S101",
            "IMPORT needs PYTHON or MODULE",
            "write IMPORT PYTHON 'file.py' AS m, or IMPORT MODULE 'file.zql' AS m",
            label=place.expected.text(),
        )
    creates = place.tokens.text(place.first).upper() == "CREATE"
    if creates and before == "AS" and place.expected.names == {"STRING"}:
        return place.error(
            "S120",
            "Python source stands in $$ .. $$",
            "write LANGUAGE python AS $$ .. $$",
            label=place.expected.text(),
        )
    return None


def _forms(place: Place) -> ParseError | None:
    before, word = place.word(-1), place.word()
    if place.name(-1) == "IN" and place.name() != "LPAR" and "LPAR" in place.expected:
        return place.error(
            "S120",
            "IN takes values in parentheses or a query",
            "write x IN (1, 2); for a list, list_contains(list, x)",
        )
    if before == "DISTINCT" and word == "ON":
        return place.error(
            "S115", "SELECT has no DISTINCT ON", "write |> DISTINCT ON (key) |> SELECT .."
        )
    if before == "IS" and place.expected.names >= {"NULL", "TRUE"} and place.is_value:
        return place.error(
            "S120",
            "IS tests for NULL, TRUE, FALSE and DISTINCT FROM",
            f"write = {shortened(place.text())}, or IS NOT DISTINCT FROM {shortened(place.text())}",
        )
    if word == "FROM" and "LPAR" in place.expected and before in _SET_WORDS:
        return place.error("S120", "the other query stands in parentheses", "write (FROM ..)")
    if before == "BY" and word == "ALL":
        return place.error("S120", f"{place.word(-2)} BY ALL is not supported", "name the columns")
    if word in ("IGNORE", "RESPECT") and place.name(-1) == "RPAR":
        return place.error(
            "S115", f"{word} NULLS stands inside the parentheses", f"write f(x {word} NULLS)"
        )
    if place.name() == "COLON" and place.name(1) == "EQUAL":
        return place.error("S101", '":=" is no sign of ZQL', "write name => value")
    if place.name() == "EQUAL" and place.name(-1) == "COLON":
        pair = place.tokens.span(place.at - 1).to(place.span)
        return place.error("S101", '":=" is no sign of ZQL', "write name => value", span=pair)
    if not place.expected.expression:
        kind = next((w for w in (before, place.word(-2)) if w in ("MAP", "FLATMAP")), None)
        if kind:
            return place.error(
                "S120",
                f"{kind} takes a Python function",
                "an expression stands in |> EXTEND or |> SELECT",
                label=place.expected.text(),
            )
        return None
    if word == "LAMBDA":
        return place.error("S115", "LAMBDA is an argument of a function, nothing else")
    if word == "UNNEST":
        return place.error("S115", "UNNEST is an operator", "write |> UNNEST list AS element")
    if word in ("ANY", "ALL") and place.name(1) == "LPAR":
        return place.error(
            "S120", f"{word} is not supported", "write x IN (query), or list_contains(list, x)"
        )
    return None


RULES = (
    _no_token,
    subpipes,
    _brackets,
    _operator_start,
    _statement_start,
    _single_bar,
    _planned,
    _strings,
    _comparison,
    _forms,
    clause_order,
    word_order,
    _clauses,
    _aliases,
)
"""Tried in this order: what is certain first."""
