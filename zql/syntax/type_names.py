"""Types as written to types as DuckDB writes them."""

from __future__ import annotations

from zql.errors import ParseError
from zql.expr.sql import quote_literal
from zql.source import Span
from zql.syntax.automaton import Token
from zql.syntax.literals import name_value, string_value
from zql.syntax.names import identifier_text

ALIASES = {
    alias: name
    for name, aliases in {
        "BIGINT": "INT64 INT8 LONG OID",
        "BIT": "BITSTRING",
        "BLOB": "BYTES BYTEA BINARY VARBINARY",
        "BOOLEAN": "BOOL LOGICAL",
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


def type_text(words: str) -> str:
    """DuckDB's word for the name of a simple type, whatever its case."""
    upper = words.upper()
    return ALIASES.get(upper, upper)


class TypeActions:
    """What the grammar's rules for types make: canonical text."""

    def type_name(self, span: Span, *words: Token) -> str:
        if words[0].text[0] in '"`':
            return identifier_text(name_value(words[0].text))
        return type_text(words[0].text)

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

    def struct_type(self, span: Span, fields: tuple[str, ...]) -> str:
        return f"STRUCT({', '.join(fields)})"

    def union_type(self, span: Span, fields: tuple[str, ...]) -> str:
        return f"UNION({', '.join(fields)})"

    def map_type(self, span: Span, key: str, value: str) -> str:
        return f"MAP({key}, {value})"


def _decimal(span: Span, arguments: tuple[str, ...]) -> str:
    numbers = [int(a) for a in arguments if a.isdecimal()]
    if len(numbers) != len(arguments) or len(numbers) > 2:
        raise ParseError("write DECIMAL(width, scale)", code="S123", span=span)
    width, scale = (numbers or [18, 3]) if len(numbers) != 1 else (numbers[0], 0)
    if not 1 <= width <= 38 or scale > width:
        raise ParseError(
            f"DECIMAL({width},{scale}) cannot be: 1 to 38 digits, of which scale are behind the point",
            code="S123",
            span=span,
        )
    return f"DECIMAL({width},{scale})"
