"""What values a column was seen to have, and the narrowest type that loses none of them.

`Evidence` is per file and per column, kept in the schema cache; evidence of several files merges,
so that the schema of a union never depends on the order of its files. The rules:

* integers: BIGINT, else UBIGINT, else HUGEINT, else VARCHAR (their digits);
* integers and floats: DOUBLE when every integer is exact in it, else DECIMAL when 38 digits hold
  all, else VARCHAR;
* scalars of different kinds: VARCHAR, each with its own text;
* scalars beside objects or lists: JSON;
* what is nested in more than 40 levels: JSON;
* objects: STRUCT, or MAP when there are more than 200 keys, or JSON when two keys differ in case
  only or one is empty (a DuckDB struct cannot hold them); lists: the type of all their elements.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any, cast

from zql.expr.sql import quote_identifier
from zql.schema import DataType
from zql.tree import node

EXACT = 2**53
"""Integers up to this size are exact in a DOUBLE."""
MOST_DIGITS = 38
"""The longest DECIMAL."""
MOST_DEPTH = 40
"""Values nested deeper than this are kept as JSON."""
MOST_FIELDS = 200
"""An object with more different keys than this is a map."""


@node
class Evidence:
    """Kinds of the non-null values of one column, and what decides between number types.

    `ints_exact`: every integer is exact in a DOUBLE. `huge`: an integer beyond HUGEINT was seen.
    `float_digits`, `float_scale`: most digits before and behind the point of any float.
    `float_plain`: no float had an exponent or was NaN or infinite. `opaque`: kinds are unknown
    below this point, so only JSON is safe.
    """

    bools: bool = False
    texts: bool = False
    int_min: int | None = None
    int_max: int | None = None
    ints_exact: bool = True
    huge: bool = False
    floats: bool = False
    float_digits: int = 0
    float_scale: int = 0
    float_plain: bool = True
    items: Evidence | None = None
    fields: tuple[tuple[str, Evidence], ...] | None = None
    opaque: bool = False

    @property
    def ints(self) -> bool:
        """Whether any integer was seen."""
        return self.int_min is not None or self.huge


NOTHING = Evidence()


def merge(a: Evidence, b: Evidence) -> Evidence:
    """Evidence of the values of both; keys in the order in which they were first seen."""
    if b in {a, NOTHING}:
        return a
    if a == NOTHING:
        return b
    lows = [n for n in (a.int_min, b.int_min) if n is not None]
    highs = [n for n in (a.int_max, b.int_max) if n is not None]
    return Evidence(
        bools=a.bools or b.bools,
        texts=a.texts or b.texts,
        int_min=min(lows) if lows else None,
        int_max=max(highs) if highs else None,
        ints_exact=a.ints_exact and b.ints_exact,
        huge=a.huge or b.huge,
        floats=a.floats or b.floats,
        float_digits=max(a.float_digits, b.float_digits),
        float_scale=max(a.float_scale, b.float_scale),
        float_plain=a.float_plain and b.float_plain,
        items=merge(a.items, b.items) if a.items and b.items else a.items or b.items,
        fields=_merge_fields(a.fields, b.fields),
        opaque=a.opaque or b.opaque,
    )


def merge_all(evidence: Iterable[Evidence]) -> Evidence:
    """Evidence of all."""
    found = NOTHING
    for one in evidence:
        found = merge(found, one)
    return found


_Fields = tuple[tuple[str, Evidence], ...]


def _merge_fields(a: _Fields | None, b: _Fields | None) -> _Fields | None:
    if a is None or b is None:
        return a if b is None else b
    found = dict(a)
    for name, evidence in b:
        found[name] = merge(found[name], evidence) if name in found else evidence
    return tuple(found.items())


def type_of(e: Evidence) -> DataType:
    """The type for a column with this evidence; VARCHAR when there was no value at all."""
    scalar = e.bools or e.texts or e.ints or e.floats
    if e.opaque or (scalar + (e.items is not None) + (e.fields is not None)) > 1:
        return "JSON"
    if e.items is not None:
        return f"{type_of(e.items)}[]"
    if e.fields is not None:
        return _object_type(e.fields)
    numbers = e.ints or e.floats
    if e.texts or (e.bools and numbers) or not scalar:
        return "VARCHAR"
    return "BOOLEAN" if e.bools else _number_type(e)


def _number_type(e: Evidence) -> DataType:
    if not e.floats:
        if e.huge or e.int_min is None or e.int_max is None:
            return "VARCHAR"
        if e.int_min >= -(2**63) and e.int_max < 2**63:
            return "BIGINT"
        if e.int_min >= 0 and e.int_max < 2**64:
            return "UBIGINT"
        fits = e.int_min >= -(2**127) and e.int_max < 2**127
        return "HUGEINT" if fits else "VARCHAR"
    if e.ints_exact and not e.huge:
        return "DOUBLE"
    if e.huge or not e.float_plain or e.int_min is None or e.int_max is None:
        return "VARCHAR"
    digits = max(len(str(abs(e.int_min))), len(str(abs(e.int_max))), e.float_digits)
    precision = digits + e.float_scale
    return f"DECIMAL({precision},{e.float_scale})" if precision <= MOST_DIGITS else "VARCHAR"


def _object_type(fields: _Fields) -> DataType:
    names = [name for name, _ in fields]
    folded = {name.lower() for name in names}
    if len(names) > MOST_FIELDS:
        return f"MAP(VARCHAR, {type_of(merge_all(e for _, e in fields))})"
    if not names or not all(names) or len(folded) < len(names) or any("\0" in n for n in names):
        return "JSON"
    inside = ", ".join(f"{quote_identifier(name)} {type_of(e)}" for name, e in fields)
    return f"STRUCT({inside})"


def of_structure(structure: Any, depth: int = 0) -> Evidence:
    """Evidence from what DuckDB's `json_structure` says, as Python values.

    It does not tell integers above 64 bits from floats, nor keeps their values: an integer is taken
    for one that is exact in a DOUBLE. `of_value` is for the columns where that may be wrong.
    """
    if depth > MOST_DEPTH:
        return OPAQUE
    if isinstance(structure, list):
        return Evidence(items=of_structure(structure[0], depth + 1) if structure else NOTHING)
    if isinstance(structure, dict):
        fields = ((k, of_structure(v, depth + 1)) for k, v in structure.items())
        return Evidence(fields=tuple(fields))
    return _STRUCTURES.get(structure, OPAQUE)


OPAQUE = Evidence(opaque=True)
"""Evidence of values that are kept as JSON."""
_STRUCTURES = {
    "NULL": NOTHING,
    "BOOLEAN": Evidence(bools=True),
    "VARCHAR": Evidence(texts=True),
    "BIGINT": Evidence(int_min=-1, int_max=0),
    "UBIGINT": Evidence(int_min=0, int_max=0),
    "DOUBLE": Evidence(floats=True, float_plain=False),
}


def of_value(value: Any, depth: int = 0) -> Evidence:
    """Evidence of one value of Python's json, parsed with `parse_float=Number`, exactly."""
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return _STRUCTURES["BOOLEAN"]
    if isinstance(value, Number):
        return of_float_text(value)
    if isinstance(value, str):
        return _STRUCTURES["VARCHAR"]
    if isinstance(value, int):
        return of_int(value)
    if depth > MOST_DEPTH:
        return OPAQUE
    if isinstance(value, list):
        return Evidence(items=merge_all(of_value(v, depth + 1) for v in value))
    if isinstance(value, dict):
        return Evidence(fields=tuple((k, of_value(v, depth + 1)) for k, v in value.items()))
    return OPAQUE


class Number(str):
    """The text of a number that is no integer."""

    __slots__ = ()


def of_int(value: int) -> Evidence:
    """Evidence of one integer."""
    if not -(2**127) <= value < 2**127:
        return Evidence(huge=True, ints_exact=False)
    exact = abs(value) <= EXACT or int(float(value)) == value
    return Evidence(int_min=value, int_max=value, ints_exact=exact)


def of_float_text(text: str) -> Evidence:
    """Evidence of one float, NaN or infinity by its text."""
    whole, _, fraction = text.lstrip("-").partition(".")
    if not (whole + fraction).isdigit():
        return Evidence(floats=True, float_plain=False)
    return Evidence(floats=True, float_digits=len(whole), float_scale=len(fraction))


_NAMES = tuple(f.name for f in fields(cast("Any", Evidence)))


def as_json(e: Evidence) -> dict[str, Any]:
    """The evidence as plain values for the schema cache; what is at its default is left out."""
    out: dict[str, Any] = {}
    for name in _NAMES:
        value = getattr(e, name)
        if value == getattr(NOTHING, name):
            continue
        if name == "items":
            value = as_json(value)
        elif name == "fields":
            value = [[k, as_json(v)] for k, v in value]
        out[name] = value
    return out


def from_json(values: dict[str, Any]) -> Evidence:
    """The inverse of `as_json`; raises TypeError, KeyError or ValueError for anything else."""
    found = Evidence(**values)
    if found.items is not None:
        found = replace(found, items=from_json(values["items"]))
    if found.fields is not None:
        found = replace(found, fields=tuple((k, from_json(v)) for k, v in values["fields"]))
    return found
