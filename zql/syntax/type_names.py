"""Types as written to types as DuckDB writes them."""

from __future__ import annotations

import re

from zql.errors import ParseError
from zql.expr.sql import quote_identifier, quote_literal
from zql.source import Span
from zql.syntax.ast import Identifier
from zql.syntax.automaton import Token
from zql.syntax.keywords import is_keyword
from zql.syntax.literals import name_value, string_value

ALIASES = {
    alias: name
    for name, aliases in {
        "BIGINT": "INT64 INT8 LONG OID",
        "BIT": "BITSTRING",
        "BLOB": "BYTES BYTEA BINARY VARBINARY",
        "BOOLEAN": "BOOL",
        "DECIMAL": "DEC NUMERIC",
        "DOUBLE": "FLOAT64 FLOAT8",
        "FLOAT": "FLOAT4 REAL",
        "HUGEINT": "INT128",
        "INTEGER": "INT INT4 INT32 SIGNED INTEGRAL",
        "SMALLINT": "INT2 INT16 SHORT",
        "TIME WITH TIME ZONE": "TIMETZ",
        "TIMESTAMP": "DATETIME TIMESTAMP_US",
        "TIMESTAMP WITH TIME ZONE": "TIMESTAMPTZ",
        "TINYINT": "INT1",
        "UBIGINT": "UINT64",
        "UINTEGER": "UINT32",
        "USMALLINT": "UINT16",
        "UTINYINT": "UINT8",
        "UUID": "GUID",
        "VARCHAR": "STRING TEXT CHAR BPCHAR NVARCHAR",
    }.items()
    for alias in aliases.split()
}
"""Other words for DuckDB's types, GoogleSQL's among them."""


_DUCKDB_WORDS = frozenset(
    """
    analyse array asymmetric authorization binary both check collation column columns concurrently
    constraint deferrable do fetch foreign freeze generated initially isnull leading notnull only
    overlaps pivot_longer pivot_wider placing positional primary references returning some symmetric
    trailing try_cast tuple unique unpack variadic verbose
    """.split()  # noqa: SIM905 - a list of words reads as words
)
"""Words that are reserved in DuckDB only."""

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
MAX_WIDTH = 38
"""Digits that a DECIMAL can hold."""


def field_text(name: str) -> str:
    """The name of a struct's field in a type; quoted wherever DuckDB could need that."""
    if _PLAIN.fullmatch(name) and not is_keyword(name) and name.lower() not in _DUCKDB_WORDS:
        return name
    return quote_identifier(name)


def type_text(words: str) -> str:
    """DuckDB's word for the name of a simple type, whatever its case."""
    upper = words.upper()
    return ALIASES.get(upper, upper)


class TypeActions:
    """What the grammar's rules for types make: canonical text."""

    def type_name(self, span: Span, *words: Token) -> str:
        name = name_value(words[0].text)
        return type_text(name) if _PLAIN.fullmatch(name) else quote_identifier(name)

    def named_type(self, span: Span, name: str, arguments: tuple[str, ...] = ()) -> str:
        if name == "DECIMAL":
            return _decimal(span, arguments)
        if name == "VARCHAR":
            return name  # a length says nothing in DuckDB
        return f"{name}({', '.join(arguments)})" if arguments else name

    def type_argument(self, span: Span, token: Token) -> str:
        if token.text.isdecimal():
            return str(int(token.text)) if len(token.text) < 10 else token.text
        if "'" in token.text[:2] or token.text[0] == "$":
            return quote_literal(string_value(token.text))
        raise ParseError(f"{token.text} cannot stand in a type", code="S123", span=span)

    def simple_type(self, span: Span, text: str) -> str:
        return text

    def zoned_type(self, span: Span, *words: Token) -> str:
        return f"{words[0].text.upper()} WITH TIME ZONE"

    def list_type(self, span: Span, element: str) -> str:
        return f"{element}[]"

    def array_type(self, span: Span, element: str, size: Token) -> str:
        if not size.text.isdecimal():
            raise ParseError("the size of an array is a whole number", code="S123", span=size.span)
        return f"{element}[{size.text}]"

    def type_field(self, span: Span, name: Identifier, type: str) -> str:
        return f"{field_text(name.text)} {type}"

    def struct_type(self, span: Span, fields: tuple[str, ...]) -> str:
        return f"STRUCT({', '.join(fields)})"

    def union_type(self, span: Span, fields: tuple[str, ...]) -> str:
        return f"UNION({', '.join(fields)})"

    def map_type(self, span: Span, key: str, value: str) -> str:
        return f"MAP({key}, {value})"


def _decimal(span: Span, arguments: tuple[str, ...]) -> str:
    match [int(a) for a in arguments if a.isdecimal()]:
        case [] if not arguments:
            width, scale = 18, 3
        case [width]:
            scale = 0
        case [width, scale]:
            pass
        case _:
            raise ParseError("write DECIMAL(width, scale)", code="S123", span=span)
    if not 1 <= width <= MAX_WIDTH or scale > width:
        raise ParseError(
            f"DECIMAL({width},{scale}) cannot be",
            code="S123",
            span=span,
            hint=f"width is 1 to {MAX_WIDTH} digits, of which scale stand behind the point",
        )
    return f"DECIMAL({width},{scale})"
