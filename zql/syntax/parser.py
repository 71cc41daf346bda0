"""Text to AST: scripts, statements and expressions, and what could come next in one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

from zql.errors import ErrorList, ParseError
from zql.expr import expression as ex
from zql.source import Source, Span
from zql.syntax import ast
from zql.syntax.automaton import Actions, Rejected, accepts, bind_actions, run, states_after
from zql.syntax.depth import check_expressions, check_tokens
from zql.syntax.keywords import KEYWORDS
from zql.syntax.mistakes import current_operator, describe
from zql.syntax.statements import StatementActions
from zql.syntax.tables import Tables, load
from zql.syntax.tokens import BAD, END, Tokens, tokenize, vocabulary

NAME_RULES = ("common_keyword", "map_keyword", "reserved")

CHECKED_SIZE = 200
"""Statements of fewer tokens cannot be too deep for the limit."""


class Piece(NamedTuple):
    """One statement as a range of tokens; `number` counts from 1."""

    first: int
    last: int
    number: int


@cache
def _machine() -> tuple[Tables, Actions]:
    tables = load()
    return tables, bind_actions(tables, StatementActions())


def parse_script(source: Source) -> ast.Script:
    """All statements of a script.

    Raises ParseError, or ErrorList when several statements are wrong: one error for each.
    """
    script, errors = parse_leniently(source)
    if len(errors) > 1:
        raise ErrorList(errors)
    if errors:
        raise errors[0]
    return script


def parse_leniently(source: Source) -> tuple[ast.Script, list[ParseError]]:
    """The statements that can be parsed, and the errors of the others, for a check of all.

    Raises ParseError when even the words cannot be told apart.
    """
    tokens = tokenize(source)
    statements: list[ast.Statement] = []
    errors: list[ParseError] = []
    for piece in pieces(tokens):
        try:
            statements.append(_parse(tokens, piece, "statement"))
        except ParseError as error:
            errors.append(error)
    return ast.Script(tuple(statements), span=Span(source, 0, len(source.text))), errors


def parse_statement(source: Source) -> ast.Statement:
    """The only statement of a source; a ParseError when there are none or several."""
    script = parse_script(source)
    if len(script.statements) != 1:
        raise ParseError(
            f"one statement is wanted here, not {len(script.statements)}",
            code="S101",
            span=script.statements[1].span if script.statements else Span(source, 0, 0),
        )
    return script.statements[0]


def parse_expression(source: Source) -> ex.Expr:
    """A source that is one expression; raises ParseError."""
    tokens = tokenize(source)
    expression: ex.Expr = _parse(tokens, Piece(0, len(tokens.kinds), 1), "expression")
    return expression


def split_statements(source: Source) -> list[Span]:
    """The places of the statements, each without its `;`; what is empty is left out."""
    tokens = tokenize(source)
    semicolon = vocabulary().number["SEMICOLON"]
    spans = []
    for piece in pieces(tokens):
        last = piece.last - 1
        if tokens.kinds[last] == semicolon:
            last -= 1
        spans.append(Span(source, tokens.starts[piece.first], tokens.ends[last]))
    return spans


def is_complete(text: str) -> bool:
    """Whether the shell may run what was typed.

    That is text that ends with `;`, or with an empty line behind statements that are complete or
    wrong: more text would not mend those.
    """
    tokens = tokenize(Source("<input>", text))
    if not tokens.kinds:
        return False
    if any(error.code in ("S103", "S104", "S105") for error in tokens.errors.values()):
        return False
    if tokens.kinds[-1] == vocabulary().number["SEMICOLON"]:
        return True
    if text[tokens.ends[-1] :].count("\n") < 2:
        return False
    tables = load()
    last = list(pieces(tokens))[-1]
    kinds = [*tokens.kinds[last.first : last.last], END]
    try:
        states_after(tables, kinds, "statement")
    except Rejected as rejected:
        return rejected.at < len(kinds) - 1 or END in accepts(tables, rejected.states)
    return True


def completions(prefix: str) -> tuple[str, ...]:
    """The keywords and signs that could come behind a text, or end its last, unfinished word.

    Words that could only be names there are left out; empty behind a mistake.
    """
    tokens = tokenize(Source("<input>", prefix))
    words = vocabulary()
    partial = ""
    if (
        tokens.kinds
        and tokens.ends[-1] == len(prefix)
        and tokens.text(len(tokens.kinds) - 1).isidentifier()
    ):
        partial = tokens.text(len(tokens.kinds) - 1).upper()
        for column in (tokens.kinds, tokens.starts, tokens.ends):
            column.pop()
    if BAD in tokens.kinds:
        return ()
    tables = load()
    kinds = tokens.kinds
    semicolon = words.number["SEMICOLON"]
    first = len(kinds) - kinds[::-1].index(semicolon) if semicolon in kinds else 0
    try:
        states = states_after(tables, kinds[first:], "statement")
    except Rejected:
        return ()
    found = expected_words(tables, states)
    return tuple(word for word in found if word.startswith(partial))


def expected_words(tables: Tables, states: Sequence[int]) -> list[str]:
    """Keywords and signs that can follow, keywords first, without those that are mere names."""
    keywords, signs = [], []
    for terminal, state in accepts(tables, states).items():
        name = tables.terminals[terminal]
        if name in KEYWORDS:
            if not _is_only_a_name(tables, state):
                keywords.append(name)
        elif name in tables.signs:
            signs.append(tables.signs[name])
    return sorted(keywords) + sorted(signs)


def _is_only_a_name(tables: Tables, state: int) -> bool:
    actions = set(tables.row(state).values()) if state >= 0 else set()
    return len(actions) == 1 and all(
        action < 0 and tables.origins[-action - 1] in NAME_RULES for action in actions
    )


def pieces(tokens: Tokens) -> Iterator[Piece]:
    """The statements, each with its `;`; no string or comment is ever cut."""
    semicolon = vocabulary().number["SEMICOLON"]
    first, number = 0, 0
    for at, kind in enumerate(tokens.kinds):
        if kind == semicolon:
            if at > first:
                number += 1
                yield Piece(first, at + 1, number)
            first = at + 1
    if first < len(tokens.kinds):
        yield Piece(first, len(tokens.kinds), number + 1)


def _parse(tokens: Tokens, piece: Piece, start: str) -> Any:
    tables, actions = _machine()
    first, last, number = piece
    end = tokens.ends[last - 1] if last > first else len(tokens.source.text)
    kinds = [*tokens.kinds[first:last], END]
    starts = [*tokens.starts[first:last], end]
    ends = [*tokens.ends[first:last], end]
    try:
        check_tokens(tokens, first, last)
        value = run(tables, actions, tokens.source, (kinds, starts, ends), start)
        if last - first > CHECKED_SIZE:
            check_expressions(value)
    except Rejected as rejected:
        error = describe(tables, tokens, piece, rejected)
    except ParseError as raised:
        error = raised
        if error.span is not None:
            at = bisect_right(tokens.starts, error.span.start) - 1
            error.operator = current_operator(tables, tokens, first, at)
    else:
        return value
    error.statement = number
    raise error
