"""What the grammar's rules for expressions make: `expr.expression` nodes with unbound names."""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

from zql.errors import ParseError
from zql.expr import expression as ex
from zql.source import Span
from zql.syntax import ast
from zql.syntax.automaton import Token
from zql.syntax.keywords import UNITS
from zql.syntax.literals import name_value, number_value, string_value
from zql.syntax.type_names import TypeActions, type_text
from zql.tree import node

Argument = ex.Expr | ex.NamedArgument


@node
class AsType:
    """`x AS type` as an argument: TRY_CAST only."""

    operand: ex.Expr
    type: str
    span: Span


@node
class FromPart:
    """`part FROM x` as an argument: EXTRACT only."""

    part: ex.Expr
    operand: ex.Expr
    span: Span


@node
class Arguments:
    """What stands between the parentheses of a call."""

    items: tuple[Argument | AsType | FromPart, ...] = ()
    order: tuple[ex.SortKey, ...] = ()
    ignore_nulls: bool | None = None
    distinct: bool = False
    star: bool = False


@node
class Tail:
    """One clause behind a call: FILTER, WITHIN GROUP or OVER."""

    word: str
    span: Span
    filter: ex.Expr | None = None
    order: tuple[ex.SortKey, ...] = ()
    window: ex.Window | None = None


def _fail(message: str, span: Span, hint: str | None = None) -> NoReturn:
    raise ParseError(message, code="S120", span=span, hint=hint)


class PlainActions:
    """Rules whose value is a constant, their only part, or a tuple of their parts."""

    def none(self, span: Span) -> None:
        return None

    def true(self, span: Span) -> bool:
        return True

    def false(self, span: Span) -> bool:
        return False

    def empty(self, span: Span) -> tuple[()]:
        return ()

    def first(self, span: Span, value: object) -> object:
        return value

    def items(self, span: Span, *values: object) -> tuple[object, ...]:
        return values

    pair = items

    def words(self, span: Span, *tokens: Token) -> str:
        """The words of a fixed phrase, in capitals."""
        return " ".join(token.text.upper() for token in tokens)

    def text(self, span: Span, token: Token) -> str:
        return string_value(token.text)

    def text_pair(self, span: Span, token: Token, value: object) -> tuple[ast.Identifier, object]:
        return ast.Identifier(string_value(token.text), span=token.span), value

    def keyword(self, span: Span, token: Token) -> Token:
        return token

    common_keyword = map_keyword = reserved = keyword

    def name(self, span: Span, token: Token) -> ast.Identifier:
        quoted = token.text[0] in '"`'
        return ast.Identifier(name_value(token.text), quoted=quoted, span=span)

    anyname = plain_name = function_word = name

    def option_name(self, span: Span, *parts: ast.Identifier) -> ast.Identifier:
        return ast.Identifier(".".join(part.text for part in parts), span=span)


class ExpressionActions(PlainActions, TypeActions):
    """The rules from `expression` down."""

    # ---- names and literals ----

    def path(self, span: Span, name: ast.Identifier) -> ex.Name:
        return ex.Name((name.text,), (name.quoted,), span=span)

    def longer_path(self, span: Span, path: ex.Name, name: ast.Identifier) -> ex.Name:
        return ex.Name((*path.parts, name.text), (*path.quoted, name.quoted), span=span)

    def number(self, span: Span, token: Token) -> ex.Literal:
        return ex.Literal(number_value(token.text, span), text=token.text, span=span)

    def literal_string(self, span: Span, token: Token) -> ex.Literal:
        return ex.Literal(string_value(token.text), span=span)

    def typed_literal(self, span: Span, type_words: str, token: Token) -> ex.Literal:
        return ex.Literal(string_value(token.text), type_text(type_words), span=span)

    def literal_true(self, span: Span) -> ex.Literal:
        return ex.Literal(True, span=span)

    def literal_false(self, span: Span) -> ex.Literal:
        return ex.Literal(False, span=span)

    def literal_null(self, span: Span) -> ex.Literal:
        return ex.Literal(None, span=span)

    def parameter(self, span: Span, token: Token) -> ex.Parameter:
        return ex.Parameter(token.text[1:], span=span)

    def interval(self, span: Span, value: Token, unit: str = "") -> ex.Interval:
        amount: ex.Expr
        if value.text[0] == "$" and not value.text.endswith("$"):
            amount = self.parameter(value.span, value)
        elif value.text[0].isdecimal() or value.text[0] == ".":
            amount = self.number(value.span, value)
        else:
            amount = self.literal_string(value.span, value)
        return self.interval_of(span, amount, unit)

    def interval_of(self, span: Span, value: ex.Expr, unit: str) -> ex.Interval:
        return ex.Interval(value, UNITS[unit] if unit else "", span=span)

    # ---- operators ----

    def any_of(self, span: Span, *operands: ex.Expr) -> ex.Expr:
        return ex.Logical("OR", operands, span=span)

    def all_of(self, span: Span, *operands: ex.Expr) -> ex.Expr:
        return ex.Logical("AND", operands, span=span)

    def not_(self, span: Span, operand: ex.Expr) -> ex.Expr:
        return ex.Unary("NOT", operand, span=span)

    def is_value(self, span: Span, operand: ex.Expr, words: str) -> ex.Expr:
        return ex.Is(operand, words.rpartition(" ")[2], " NOT " in words, span=span)

    def is_distinct_from(self, span: Span, operand: ex.Expr, words: str, other: ex.Expr) -> ex.Expr:
        return ex.Is(operand, "DISTINCT", " NOT " in words, other, span=span)

    def binary(self, span: Span, left: ex.Expr, op: str, right: ex.Expr) -> ex.Expr:
        return ex.Binary({"==": "=", "!=": "<>"}.get(op, op), left, right, span=span)

    comparison = binary

    def in_list(
        self, span: Span, operand: ex.Expr, words: str, items: tuple[ex.Expr, ...]
    ) -> ex.Expr:
        return ex.In(operand, items, words != "IN", span=span)

    def in_query(self, span: Span, operand: ex.Expr, words: str, query: ast.Query) -> ex.Expr:
        return ex.Subquery("IN", query, operand, words != "IN", span=span)

    def like(
        self,
        span: Span,
        operand: ex.Expr,
        words: str,
        pattern: ex.Expr,
        escape: ex.Expr | None = None,
    ) -> ex.Expr:
        op = words.removeprefix("NOT ")
        if escape is not None and op in ("GLOB", "~"):
            _fail(f"{op} takes no ESCAPE", span)
        return ex.Like(op, operand, pattern, op != words, escape, span=span)

    def between(
        self, span: Span, operand: ex.Expr, words: str, low: ex.Expr, high: ex.Expr
    ) -> ex.Expr:
        return ex.Between(operand, low, high, words != "BETWEEN", span=span)

    def unary(self, span: Span, op: str, operand: ex.Expr) -> ex.Expr:
        return ex.Unary(op, operand, span=span)

    def collate(self, span: Span, operand: ex.Expr, name: ast.Identifier) -> ex.Expr:
        return ex.Collate(operand, name.text, span=span)

    def at_time_zone(self, span: Span, operand: ex.Expr, zone: ex.Expr) -> ex.Expr:
        return ex.AtTimeZone(operand, zone, span=span)

    # ---- forms ----

    def subscripted(
        self,
        span: Span,
        operand: ex.Expr,
        subscript: tuple[ex.Expr] | tuple[ex.Expr | None, ex.Expr | None, ex.Expr | None],
    ) -> ex.Expr:
        if len(subscript) == 1:
            return ex.Index(operand, subscript[0], span=span)
        return ex.Slice(operand, *subscript, span=span)

    def index(self, span: Span, at: ex.Expr) -> tuple[ex.Expr]:
        return (at,)

    def slice(
        self,
        span: Span,
        start: ex.Expr | None,
        stop: ex.Expr | None,
        step: ex.Expr | None = None,
    ) -> tuple[ex.Expr | None, ex.Expr | None, ex.Expr | None]:
        return start, stop, step

    def cast(self, span: Span, operand: ex.Expr, type: str) -> ex.Expr:
        return ex.Cast(operand, type, span=span)

    def cast_sign(self, span: Span, operand: ex.Expr, type: str) -> ex.Expr:
        return ex.Cast(operand, type, sign=True, span=span)

    def field(self, span: Span, operand: ex.Expr, name: ast.Identifier) -> ex.Expr:
        return ex.FieldAccess(operand, name.text, span=span)

    def parenthesized(self, span: Span, inner: ex.Expr) -> ex.Expr:
        # `(a).b` is the field of a column, never the column of a table: not the path `a.b`.
        return inner if inner.parenthesized else replace(inner, parenthesized=True)

    def row(self, span: Span, first: ex.Expr, rest: tuple[ex.Expr, ...]) -> ex.Expr:
        return ex.Row((first, *rest), span=span)

    def scalar_query(self, span: Span, query: ast.Query) -> ex.Expr:
        return ex.Subquery("SCALAR", query, span=span)

    def exists(self, span: Span, query: ast.Query) -> ex.Expr:
        return ex.Subquery("EXISTS", query, span=span)

    def case(
        self,
        span: Span,
        operand: ex.Expr | None,
        whens: tuple[tuple[ex.Expr, ex.Expr], ...],
        otherwise: ex.Expr | None,
    ) -> ex.Expr:
        return ex.Case(operand, whens, otherwise, span=span)

    def array(self, span: Span, items: tuple[ex.Expr, ...] = ()) -> ex.Expr:
        return ex.Array(items, span=span)

    empty_array = array

    def comprehension(
        self,
        span: Span,
        element: ex.Expr,
        variable: ast.Identifier,
        items: ex.Expr,
        condition: ex.Expr | None,
    ) -> ex.Expr:
        return ex.Comprehension(element, variable.text, items, condition, span=span)

    def struct(
        self, span: Span, entries: tuple[tuple[ast.Identifier, ex.Expr], ...] = ()
    ) -> ex.Expr:
        return ex.Struct(tuple((key.text, value) for key, value in entries), span=span)

    empty_struct = struct

    def map_(self, span: Span, entries: tuple[tuple[ex.Expr, ex.Expr], ...] = ()) -> ex.Expr:
        return ex.Map(entries, span=span)

    empty_map = map_

    # ---- calls ----

    def function_reserved(self, span: Span, token: Token) -> ex.Name:
        return ex.Name((token.text.lower(),), (False,), span=span)

    def arguments(
        self,
        span: Span,
        items: tuple[Argument | AsType | FromPart, ...] = (),
        order: tuple[ex.SortKey, ...] = (),
        ignore_nulls: bool | None = None,
    ) -> Arguments:
        return Arguments(items, order, ignore_nulls)

    def distinct_arguments(
        self,
        span: Span,
        items: tuple[Argument | AsType | FromPart, ...],
        order: tuple[ex.SortKey, ...],
        ignore_nulls: bool | None,
    ) -> Arguments:
        return Arguments(items, order, ignore_nulls, distinct=True)

    def star_argument(self, span: Span) -> Arguments:
        return Arguments(star=True)

    def named_argument(
        self, span: Span, name: ast.Identifier | Token, value: ex.Expr
    ) -> ex.NamedArgument:
        return ex.NamedArgument(name.text, value, span=span)

    def lambda_(
        self, span: Span, parameters: tuple[ast.Identifier, ...], body: ex.Expr
    ) -> ex.Lambda:
        return ex.Lambda(tuple(name.text for name in parameters), body, span=span)

    def as_type(self, span: Span, operand: ex.Expr, type: str) -> AsType:
        return AsType(operand, type, span)

    def from_part(self, span: Span, part: ex.Expr, operand: ex.Expr) -> FromPart:
        return FromPart(part, operand, span)

    def call(
        self, span: Span, name: ex.Name, arguments: Arguments, tails: tuple[Tail, ...] = ()
    ) -> ex.Expr:
        special = _special_form(span, name, arguments)
        if special is not None:
            if tails:
                _fail(f"{tails[0].word} cannot follow {name.parts[0].upper()}(..)", tails[0].span)
            return special
        call = ex.Call(
            name.parts,
            plain_arguments(name, arguments),
            arguments.distinct,
            arguments.order,
            star=arguments.star,
            ignore_nulls=arguments.ignore_nulls,
            span=span,
            name_span=name.span,
        )
        for at, tail in enumerate(tails):
            if any(other.word == tail.word for other in tails[:at]):
                _fail(f"{tail.word} stands twice behind one call", tail.span)
            if tail.word == "FILTER":
                call = replace(call, filter=tail.filter)
            elif tail.word == "OVER":
                call = replace(call, window=tail.window)
            else:
                call = replace(call, within_group=tail.order)
        return call

    def method(
        self, span: Span, receiver: ex.Expr, name: ast.Identifier, arguments: Arguments
    ) -> ex.Expr:
        if arguments.star or arguments.distinct or arguments.order or arguments.ignore_nulls:
            _fail("a method takes plain arguments", span, f"write {name.text}(value, ..)")
        called = ex.Name((name.text,), (True,), span=name.span)
        return ex.Method(receiver, name.text, plain_arguments(called, arguments), span=span)

    def tail_filter(self, span: Span, predicate: ex.Expr) -> Tail:
        return Tail("FILTER", span, filter=predicate)

    def tail_within_group(self, span: Span, order: tuple[ex.SortKey, ...]) -> Tail:
        return Tail("WITHIN GROUP", span, order=order)

    def tail_over_name(self, span: Span, name: ast.Identifier) -> Tail:
        return Tail("OVER", span, window=ex.Window(name=name.text, span=span))

    def tail_over(self, span: Span, window: ex.Window) -> Tail:
        return Tail("OVER", span, window=window)

    # ---- windows and sort keys ----

    def window_parts(
        self,
        span: Span,
        base: ast.Identifier | None,
        partition: tuple[ex.Expr, ...],
        order: tuple[ex.SortKey, ...],
        frame: str,
    ) -> ex.Window:
        return ex.Window(partition, order, frame, base.text if base else "", span=span)

    def no_frame(self, span: Span) -> str:
        return ""

    def frame(self, span: Span, unit: str, *parts: str) -> str:
        exclude = f" {parts[-1]}" if parts[-1] else ""
        if len(parts) == 2:
            return f"{unit} {parts[0]}{exclude}"
        return f"{unit} BETWEEN {parts[0]} AND {parts[1]}{exclude}"

    def bound(self, span: Span, *parts: Token | ex.Interval) -> str:
        words = []
        for part in parts:
            if isinstance(part, Token):
                words.append(part.text.upper())
            else:
                from zql.syntax.printer import expression_text

                words.append(expression_text(part))
        return " ".join(words)

    def sort_key(
        self, span: Span, expr: ex.Expr, direction: str, nulls_first: bool | None
    ) -> ex.SortKey:
        return ex.SortKey(expr, direction == "DESC", nulls_first, span=span)


def _special_form(span: Span, name: ex.Name, arguments: Arguments) -> ex.Expr | None:
    """TRY, TRY_CAST, EXTRACT and COLUMNS look like calls; in quotes their names are functions."""
    if len(name.parts) != 1 or name.quoted[0] or len(arguments.items) != 1:
        return None
    word, (item,) = name.parts[0].upper(), arguments.items
    if word == "TRY" and isinstance(item, ex.Expr):
        return ex.Try(item, span=span)
    if word == "TRY_CAST" and isinstance(item, AsType):
        return ex.Cast(item.operand, item.type, True, span=span)
    if word == "EXTRACT" and isinstance(item, FromPart):
        return ex.Extract(_part(item.part), item.operand, span=span)
    if word == "COLUMNS" and isinstance(item, ex.Literal) and isinstance(item.value, str):
        return ex.Columns(item.value, span=span)
    return None


def _part(part: ex.Expr) -> str:
    if isinstance(part, ex.Name) and len(part.parts) == 1:
        return part.parts[0].lower()
    if isinstance(part, ex.Literal) and isinstance(part.value, str) and part.value.isidentifier():
        return part.value.lower()
    raise ParseError("EXTRACT takes the name of a part", code="S120", span=part.span)


def plain_arguments(name: ex.Name, arguments: Arguments) -> tuple[Argument, ...]:
    """The arguments of a call that is none of the special forms; a ParseError for their parts."""
    plain: list[Argument] = []
    for item in arguments.items:
        if isinstance(item, AsType):
            hint = "a struct is written {name: value}" if name.parts[-1].lower() == "struct" else ""
            _fail("AS in an argument belongs to CAST and TRY_CAST only", item.span, hint or None)
        if isinstance(item, FromPart):
            _fail("FROM in an argument belongs to EXTRACT only", item.span)
        plain.append(item)
    return tuple(plain)
