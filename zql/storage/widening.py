"""The narrowest type that holds the values of two types without loss."""

from __future__ import annotations

import re
from collections.abc import Iterator

from zql.schema import DataType
from zql.tree import node

_SIGNED = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
_UNSIGNED = ("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
_EXACT_IN = {
    "FLOAT": {"TINYINT", "SMALLINT", "UTINYINT", "USMALLINT"},
    "DOUBLE": {"TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT", "UINTEGER", "FLOAT"},
}
_DIGITS = dict(zip(_SIGNED + _UNSIGNED, (3, 5, 10, 19, 39, 3, 5, 10, 20), strict=True))
# To the right is finer; a value out of the range of a finer one is an error of the cast.
_TIMES = ("DATE", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP", "TIMESTAMP_NS")
_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)\Z")
_MOST_DIGITS = 38
_TOKEN = re.compile(r'"(?:[^"]|"")*"|[(),]|[^"(),]+')


def widest(a: DataType, b: DataType) -> DataType:
    """The common type; where no narrower one holds both, VARCHAR (each value's own text), or JSON
    when one is a list, a struct or a map.
    """
    return a if a == b else str(_widest(_parse(a), _parse(b)))


@node
class _Type:
    """`name` is a scalar's whole text, LIST, STRUCT or MAP; fields of a struct have names."""

    name: str
    parts: tuple[tuple[str, _Type], ...] = ()

    def __str__(self) -> str:
        if self.name == "LIST":
            return f"{self.parts[0][1]}[]"
        if not self.parts:
            return self.name
        return f"{self.name}({', '.join(f'{n} {t}'.strip() for n, t in self.parts)})"


def _parse(text: DataType) -> _Type:
    text = text.strip()
    if text.endswith("]"):
        return _Type("LIST", (("", _parse(text[: text.rindex("[")])),))
    name, _, inside = text.partition("(")
    if name == "MAP":
        return _Type("MAP", tuple(("", _parse(part)) for part in _split(inside[:-1])))
    if name == "STRUCT":
        return _Type("STRUCT", tuple(_field(part) for part in _split(inside[:-1])))
    return _Type(text)


def _split(inside: str) -> Iterator[str]:
    """The parts between commas that are in no brackets and no quotes."""
    part, depth = "", 0
    for found in _TOKEN.finditer(inside):
        piece = found.group()
        depth += (piece == "(") - (piece == ")")
        if piece == "," and depth == 0:
            yield part.strip()
            part = ""
        else:
            part += piece
    yield part.strip()


def _field(part: str) -> tuple[str, _Type]:
    quoted = _TOKEN.match(part)
    if part.startswith('"') and quoted:
        return quoted.group(), _parse(part[quoted.end() :])
    name, _, type_ = part.partition(" ")
    return name, _parse(type_)


def _widest(a: _Type, b: _Type) -> _Type:
    if a == b:
        return a
    if not a.parts and not b.parts:
        return _Type(_scalar(a.name, b.name))
    if a.name != b.name:
        return _Type("JSON")
    if a.name != "STRUCT":
        pairs = zip(a.parts, b.parts, strict=True)
        return _Type(a.name, tuple(("", _widest(x, y)) for (_, x), (_, y) in pairs))
    fields = dict(a.parts)
    for name, type_ in b.parts:
        fields[name] = _widest(fields[name], type_) if name in fields else type_
    folded = {name.lower() for name in fields}
    return _Type("STRUCT", tuple(fields.items())) if len(folded) == len(fields) else _Type("JSON")


def _scalar(a: DataType, b: DataType) -> DataType:
    if a in _DIGITS and b in _DIGITS:
        return _integer(a, b)
    for wide, narrow in ((a, b), (b, a)):
        if narrow in _EXACT_IN.get(wide, ()):
            return wide
    if {a, b} <= {"FLOAT", *_EXACT_IN["DOUBLE"]}:
        return "DOUBLE"
    if a in _TIMES and b in _TIMES:
        return max(a, b, key=_TIMES.index)
    return _decimal(a, b) or "VARCHAR"


def _integer(a: DataType, b: DataType) -> DataType:
    if (a in _SIGNED) == (b in _SIGNED):
        order = _SIGNED if a in _SIGNED else _UNSIGNED
        return max(a, b, key=order.index)
    signed, unsigned = (a, b) if a in _SIGNED else (b, a)
    return max(signed, _SIGNED[_UNSIGNED.index(unsigned) + 1], key=_SIGNED.index)


def _decimal(a: DataType, b: DataType) -> DataType | None:
    sizes = [_digits(a), _digits(b)]
    if None in sizes:
        return None
    whole = max(size[0] for size in sizes if size)
    scale = max(size[1] for size in sizes if size)
    fits = whole + scale <= _MOST_DIGITS
    return f"DECIMAL({whole + scale},{scale})" if fits else None


def _digits(type_: DataType) -> tuple[int, int] | None:
    """Digits before and behind the point."""
    found = _DECIMAL.match(type_)
    if found:
        precision, scale = map(int, found.groups())
        return precision - scale, scale
    return (_DIGITS[type_], 0) if type_ in _DIGITS else None
