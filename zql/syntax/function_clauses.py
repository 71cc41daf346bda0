"""CREATE TEMP FUNCTION .. LANGUAGE python: its clauses, which come in any order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from zql.errors import ParseError
from zql.expr import expression as ex
from zql.source import Span
from zql.syntax import ast
from zql.syntax.automaton import Token
from zql.syntax.literals import string_value
from zql.syntax.operators import OperatorActions
from zql.tree import node


@node
class Clause:
    """One clause by its first word; IMMUTABLE and VOLATILE are two words for one thing."""

    word: str
    span: Span
    value: Any = None

    @property
    def kind(self) -> str:
        """What there can be one of."""
        return "VOLATILE" if self.word == "IMMUTABLE" else self.word


class FunctionActions(OperatorActions):
    """Functions that are declared with their Python source, or where it is."""

    def any_parameter(
        self, span: Span, name: ast.Identifier, token: Token, default: ex.Expr | None
    ) -> ast.FunctionParameter:
        if token.text.upper() != "TYPE":
            raise ParseError(
                f"ANY {token.text} is no type",
                code="S120",
                span=token.span,
                hint="ANY TYPE takes values of every type",
            )
        return ast.FunctionParameter(name, "ANY", default, span=span)

    def python_clauses(
        self, _: Span, first: Clause, others: tuple[Clause, ...]
    ) -> tuple[Clause, ...]:
        return (first, *others)

    def clause_returns(self, span: Span, type: str) -> Clause:
        return Clause("RETURNS", span, type)

    def clause_language(self, span: Span) -> Clause:
        return Clause("LANGUAGE", span)

    def clause_other_language(self, _: Span, token: Token) -> NoReturn:
        raise ParseError(
            f"there are no functions in {token.text}",
            code="S113",
            span=token.span,
            hint="write LANGUAGE python, or a SQL expression: AS (..)",
        )

    def clause_immutable(self, span: Span) -> Clause:
        return Clause("IMMUTABLE", span)

    def clause_volatile(self, span: Span) -> Clause:
        return Clause("VOLATILE", span)

    def clause_called(self, span: Span, token: Token) -> Clause:
        if token.text.upper() != "INPUT":
            raise ParseError(
                f'unexpected "{token.text}"',
                code="S101",
                span=token.span,
                label="expected INPUT",
                hint="CALLED ON NULL INPUT",
            )
        return Clause("CALLED", span)

    def clause_options(self, span: Span, options: tuple[ast.Option, ...] = ()) -> Clause:
        return Clause("OPTIONS", span, options)

    def clause_source(self, span: Span, token: Token) -> Clause:
        if token.text.startswith("'''"):
            raise ParseError(
                "''' is a quote inside of a string, and opens no longer one",
                code="S119",
                span=Span(span.source, token.span.start, token.span.start + 3),
                hint="Python source stands in $$ .. $$",
            )
        return Clause("AS", token.span, string_value(token.text))

    def create_python_function(
        self,
        span: Span,
        replace: bool,
        name: ast.Identifier,
        parameters: tuple[ast.FunctionParameter, ...],
        returns: str | None,
        clauses: Sequence[Clause],
    ) -> ast.CreatePythonFunction:
        found: dict[str, Clause] = {"RETURNS": Clause("RETURNS", span, returns)} if returns else {}
        for clause in clauses:
            if clause.kind in found:
                raise _twice(found[clause.kind], clause)
            found[clause.kind] = clause
        if "LANGUAGE" not in found:
            raise _no_language(name, clauses[0])
        volatility, source = found.get("VOLATILE"), found.get("AS")
        return ast.CreatePythonFunction(
            name,
            parameters,
            found["RETURNS"].value if "RETURNS" in found else None,
            volatility.word if volatility else "",
            "CALLED" in found,
            found["OPTIONS"].value if "OPTIONS" in found else (),
            source.value if source else None,
            replace,
            source.span if source else None,
            span=span,
        )


def _twice(one: Clause, other: Clause) -> ParseError:
    if one.word != other.word:
        message = "a function is IMMUTABLE or VOLATILE, not both"
    else:
        message = f"{other.word} stands here twice"
    return ParseError(message, code="S120", span=other.span, hint="leave one of them out")


def _no_language(name: ast.Identifier, first: Clause) -> ParseError:
    hint = "write LANGUAGE python before it"
    if first.word == "AS":
        hint = "Python source needs LANGUAGE python before AS; a SQL expression stands in ( .. )"
    return ParseError(
        f"it is not said what language {name.text} is written in",
        code="S120",
        span=first.span,
        hint=hint,
    )
