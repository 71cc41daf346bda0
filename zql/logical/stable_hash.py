"""`stable_hash(x [, seed])`: a number that a value has for ever, made of DuckDB's own functions.

The hash of a value with the text `t` is, in Python,

    int.from_bytes(md5(f"{seed}:{t}".encode()).digest()[:8], "little") & (2**63 - 1)

and that of NULL the same of `f"{seed}"`; the seed is 0 if none is given. So it is a BIGINT from 0
on, the same on every machine, in every version and for any number of workers. Values with the same
text have the same hash, whatever their type: 1 and '1', an INTEGER and a BIGINT.
"""

from __future__ import annotations

from zql.errors import BindError
from zql.expr import expression as ex
from zql.source import Span

STABLE_HASH = "stable_hash"
LARGEST = 2**63 - 1
_NESTED = ("STRUCT(", "TUPLE(", "MAP(", "UNION(")


def arguments(call: ex.Call) -> tuple[ex.Expr, ex.Expr]:
    """The value and the seed of a call that is not yet bound. Raises `BindError`."""
    if call.window or call.distinct or call.order or call.filter or call.star:
        raise BindError(
            f"{STABLE_HASH} takes a value: OVER, DISTINCT, FILTER and * are for aggregates",
            code="T305",
            span=call.span,
        )
    plain = [a for a in call.args if not isinstance(a, ex.NamedArgument)]
    named = {a.name.lower(): a.value for a in call.args if isinstance(a, ex.NamedArgument)}
    seeds = plain[1:] + ([named.pop("seed")] if "seed" in named else [])
    if not plain or len(seeds) > 1 or named:
        raise BindError(
            f"{STABLE_HASH} takes a value and a seed",
            code="T307",
            span=call.span,
            hint="stable_hash(x, 42); for several columns stable_hash({a: a, b: b})",
        )
    return plain[0], seeds[0] if seeds else ex.Literal(0)


def hash_of(value: ex.Expr, type: str, seed: ex.Expr, span: Span | None = None) -> ex.Expr:
    """The hash of a bound value of this type; `seed` is a bound whole number.

    `value` stands once in it: a volatile or Python call is made once.
    """
    marked = ex.Binary("||", ex.Literal(":"), text_of(value, type))
    key: ex.Expr = ex.Call(("coalesce",), (marked, ex.Literal("")))
    if isinstance(seed, ex.Literal) and not seed.type:
        start: ex.Expr = ex.Literal(str(seed.value))
    else:
        start = ex.Cast(seed, "VARCHAR")
    number = ex.Call(("md5_number",), (ex.Binary("||", start, key),), span=span)
    return ex.Cast(ex.Binary("&", number, ex.Literal(LARGEST)), "BIGINT", span=span)


def text_of(value: ex.Expr, type: str) -> ex.Expr:
    """The text that stands for a value: one that no setting and no version changes.

    Floats have no negative zero, points in time are in UTC, bytes are hexadecimal, and nested
    values are JSON.
    """
    if type == "VARCHAR":
        return value
    if type in ("DOUBLE", "FLOAT"):
        value = ex.Binary("+", value, ex.Cast(ex.Literal(0), type))
    elif type == "BLOB":
        return ex.Call(("hex",), (value,))
    elif type == "TIMESTAMP WITH TIME ZONE":
        value = ex.Call(("timezone",), (ex.Literal("UTC"), value))
    elif type.endswith("]") or type.startswith(_NESTED):
        value = ex.Call(("to_json",), (value,))
    return ex.Cast(value, "VARCHAR")
