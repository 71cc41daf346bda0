"""The narrowest type that holds the values of two types without loss."""

from __future__ import annotations

from zql.schema import DataType

_SIGNED = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
_UNSIGNED = ("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
_EXACT_IN = {
    "FLOAT": {"TINYINT", "SMALLINT", "UTINYINT", "USMALLINT"},
    "DOUBLE": {"TINYINT", "SMALLINT", "INTEGER", "UTINYINT", "USMALLINT", "UINTEGER", "FLOAT"},
}


def widest(a: DataType, b: DataType) -> DataType:
    """The common type; VARCHAR (each value's own text) when no narrower one holds both."""
    if a == b:
        return a
    if a in _SIGNED + _UNSIGNED and b in _SIGNED + _UNSIGNED:
        return _widest_int(a, b)
    for wide, narrow in ((a, b), (b, a)):
        if narrow in _EXACT_IN.get(wide, ()):
            return wide
    if {a, b} <= {"FLOAT", *_EXACT_IN["DOUBLE"]}:
        return "DOUBLE"
    return "VARCHAR"


def _widest_int(a: DataType, b: DataType) -> DataType:
    if (a in _SIGNED) == (b in _SIGNED):
        order = _SIGNED if a in _SIGNED else _UNSIGNED
        return max(a, b, key=order.index)
    signed, unsigned = (a, b) if a in _SIGNED else (b, a)
    return max(signed, _SIGNED[_UNSIGNED.index(unsigned) + 1], key=_SIGNED.index)
