"""DuckDB's type names taken apart, and how their values travel to Python and back.

Arrow lacks some of DuckDB's types. Values of these travel as text (their wire type), which DuckDB
casts on both sides.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from zql.errors import InternalError, UdfError
from zql.expr.sql import quote_identifier
from zql.schema import DataType
from zql.tree import node

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

_ALIASES = {
    "BOOL": "BOOLEAN",
    "LOGICAL": "BOOLEAN",
    "INT1": "TINYINT",
    "INT2": "SMALLINT",
    "SHORT": "SMALLINT",
    "INT": "INTEGER",
    "INT4": "INTEGER",
    "SIGNED": "INTEGER",
    "INT8": "BIGINT",
    "INT64": "BIGINT",
    "LONG": "BIGINT",
    "INT128": "HUGEINT",
    "FLOAT4": "FLOAT",
    "REAL": "FLOAT",
    "FLOAT8": "DOUBLE",
    "FLOAT64": "DOUBLE",
    "NUMERIC": "DECIMAL",
    "TEXT": "VARCHAR",
    "STRING": "VARCHAR",
    "CHAR": "VARCHAR",
    "BPCHAR": "VARCHAR",
    "BYTES": "BLOB",
    "BYTEA": "BLOB",
    "BINARY": "BLOB",
    "VARBINARY": "BLOB",
    "DATETIME": "TIMESTAMP",
    "TIMESTAMP_US": "TIMESTAMP",
    "TIMESTAMPTZ": "TIMESTAMP WITH TIME ZONE",
    "TIMETZ": "TIME WITH TIME ZONE",
    "VARINT": "BIGNUM",
    "NULL": "NULL",
}

INTEGERS = {
    "TINYINT": (-(2**7), 2**7 - 1),
    "SMALLINT": (-(2**15), 2**15 - 1),
    "INTEGER": (-(2**31), 2**31 - 1),
    "BIGINT": (-(2**63), 2**63 - 1),
    "HUGEINT": (-(2**127), 2**127 - 1),
    "UTINYINT": (0, 2**8 - 1),
    "USMALLINT": (0, 2**16 - 1),
    "UINTEGER": (0, 2**32 - 1),
    "UBIGINT": (0, 2**64 - 1),
    "UHUGEINT": (0, 2**128 - 1),
}
"""Least and greatest value of each integer type."""

AS_TEXT = frozenset({"HUGEINT", "UHUGEINT", "BIGNUM", "UUID", "TIME WITH TIME ZONE", "BIT"})
"""Types that Arrow lacks or Python cannot read from it: they travel as text."""

_DEFAULT_DECIMAL = (18, 3)


@node
class Kind:
    """A type: its `name` (LIST, ARRAY, STRUCT, MAP, ENUM, UNION or a scalar's) and its parts.

    `parts` are the fields of a STRUCT, the element of a LIST (under an empty name), key and value
    of a MAP; `numbers` width and scale of a DECIMAL, or the size of an ARRAY; `labels` an ENUM's.
    """

    name: str
    parts: tuple[tuple[str, Kind], ...] = ()
    numbers: tuple[int, ...] = ()
    labels: tuple[str, ...] = ()

    def __str__(self) -> DataType:
        match self.name:
            case "LIST":
                return f"{self.parts[0][1]}[]"
            case "ARRAY":
                return f"{self.parts[0][1]}[{self.numbers[0]}]"
            case "STRUCT" | "UNION":
                inner = ", ".join(f"{quote_identifier(name)} {kind}" for name, kind in self.parts)
                return f"{self.name}({inner})"
            case "MAP":
                return f"MAP({self.parts[0][1]}, {self.parts[1][1]})"
            case "DECIMAL":
                return f"DECIMAL({self.numbers[0]},{self.numbers[1]})"
            case "ENUM":
                inner = ", ".join("'" + label.replace("'", "''") + "'" for label in self.labels)
                return f"ENUM({inner})"
            case "NULL":
                return '"NULL"'
            case _:
                return self.name

    @property
    def element(self) -> Kind:
        """The element of a LIST or an ARRAY."""
        return self.parts[0][1]


@cache
def parse(type: DataType) -> Kind:
    """The parts of a type's name. Raises `InternalError` for what is no type name."""
    reader = _Reader(type)
    kind = reader.kind()
    reader.expect("")
    return kind


_TOKEN = re.compile(
    r"""\s*(?:("(?:[^"]|"")*")|('(?:[^']|'')*')|([A-Za-z_][A-Za-z0-9_]*|\d+)|(.))"""
)


class _Reader:
    """Reads one type name, a token ahead."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.words = [m.group().strip() for m in _TOKEN.finditer(text.strip())] + [""]
        self.at = 0

    @property
    def ahead(self) -> str:
        return self.words[self.at]

    def take(self) -> str:
        self.at += 1
        return self.words[self.at - 1]

    def expect(self, word: str) -> None:
        if self.take() != word:
            raise InternalError(f"no type: {self.text}")

    def kind(self) -> Kind:
        kind = self.base()
        while self.ahead == "[":
            self.take()
            if self.ahead == "]":
                kind = Kind("LIST", (("", kind),))
            else:
                kind = Kind("ARRAY", (("", kind),), (self.number(),))
            self.expect("]")
        return kind

    def base(self) -> Kind:
        word = self.name().upper()
        if word in ("STRUCT", "ROW", "UNION") and self.ahead == "(":
            return Kind(
                "UNION" if word == "UNION" else "STRUCT",
                tuple(self.inside(lambda: (self.name(), self.kind()))),
            )
        if word == "TUPLE" and self.ahead == "(":
            # Arrow and Python get a row's values under the names that DuckDB gives them.
            parts = enumerate(self.inside(self.kind), 1)
            return Kind("STRUCT", tuple((f"element{i}", part) for i, part in parts))
        if word == "MAP" and self.ahead == "(":
            key, value = self.inside(self.kind)
            return Kind("MAP", (("key", key), ("value", value)))
        if word == "ENUM" and self.ahead == "(":
            return Kind("ENUM", labels=tuple(self.inside(self.label)))
        numbers = tuple(self.inside(self.number)) if self.ahead == "(" else ()
        if self.ahead.upper() in ("WITH", "WITHOUT"):
            tail = [self.take().upper(), self.take().upper(), self.take().upper()]
            word += " " + " ".join(tail) if tail[0] == "WITH" else ""
        word = _ALIASES.get(word, word)
        if word == "DECIMAL":
            return Kind("DECIMAL", numbers=(*numbers, 0)[:2] if numbers else _DEFAULT_DECIMAL)
        return Kind(word)

    def name(self) -> str:
        word = self.take()
        if word.startswith('"'):
            return word[1:-1].replace('""', '"')
        if not word or not (word[0].isalpha() or word[0] == "_"):
            raise InternalError(f"no type: {self.text}")
        return word

    def number(self) -> int:
        word = self.take()
        if not word.isdecimal():
            raise InternalError(f"no type: {self.text}")
        return int(word)

    def label(self) -> str:
        return self.take()[1:-1].replace("''", "'")

    def inside(self, item: Callable[[], T]) -> list[T]:
        """Items in parentheses, with commas between."""
        self.expect("(")
        items = [item()]
        while self.ahead == ",":
            self.take()
            items.append(item())
        self.expect(")")
        return items


def travels_as_text(kind: Kind) -> bool:
    """Whether the type, or one inside it, must be cast to text before Python sees it."""
    return kind.name in AS_TEXT or any(travels_as_text(part) for _, part in kind.parts)


def wire_type(kind: Kind) -> Kind:
    """The type as it travels: those that Arrow lacks become VARCHAR, at any depth."""
    if kind.name in AS_TEXT or kind.name in ("ENUM", "JSON"):
        return Kind("VARCHAR")
    parts = tuple((name, wire_type(part)) for name, part in kind.parts)
    return Kind(kind.name, parts, kind.numbers)


@cache
def arrow_type(kind: Kind) -> pa.DataType:
    """The Arrow type of a wire type. Raises `UdfError` for types that Python cannot give."""
    import pyarrow as pa

    match kind.name:
        case "LIST":
            return pa.list_(arrow_type(kind.element))
        case "ARRAY":
            return pa.list_(arrow_type(kind.element), kind.numbers[0])
        case "STRUCT":
            return pa.struct([pa.field(name, arrow_type(part)) for name, part in kind.parts])
        case "MAP":
            return pa.map_(*(arrow_type(part) for _, part in kind.parts))
        case "DECIMAL":
            return pa.decimal128(*kind.numbers)
        case _:
            return _scalar_arrow_type(kind)


def _scalar_arrow_type(kind: Kind) -> pa.DataType:
    import pyarrow as pa

    scalars = {
        "BOOLEAN": pa.bool_(),
        "TINYINT": pa.int8(),
        "SMALLINT": pa.int16(),
        "INTEGER": pa.int32(),
        "BIGINT": pa.int64(),
        "UTINYINT": pa.uint8(),
        "USMALLINT": pa.uint16(),
        "UINTEGER": pa.uint32(),
        "UBIGINT": pa.uint64(),
        "FLOAT": pa.float32(),
        "DOUBLE": pa.float64(),
        "VARCHAR": pa.string(),
        "BLOB": pa.binary(),
        "DATE": pa.date32(),
        "TIME": pa.time64("us"),
        "TIMESTAMP": pa.timestamp("us"),
        "TIMESTAMP_S": pa.timestamp("s"),
        "TIMESTAMP_MS": pa.timestamp("ms"),
        "TIMESTAMP_NS": pa.timestamp("ns"),
        "TIMESTAMP WITH TIME ZONE": pa.timestamp("us", "UTC"),
        "INTERVAL": pa.month_day_nano_interval(),
        "NULL": pa.null(),
    }
    if kind.name not in scalars:
        raise UdfError(
            f"a Python function cannot give values of type {kind}",
            code="R711",
            hint="let it give VARCHAR or another type that Python has, and CAST that",
        )
    return scalars[kind.name]
