"""The checks of single Python values against a type, before Arrow gets them."""

from __future__ import annotations

import datetime as dt
import struct
import uuid
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any

from zql.execution.kinds import INTEGERS, Kind

Check = Callable[[Any], Any]

EXACT: dict[str, type] = {
    **{name: int for name in INTEGERS if name not in ("HUGEINT", "UHUGEINT")},
    "BOOLEAN": bool,
    "DOUBLE": float,
    "VARCHAR": str,
    "BLOB": bytes,
    "DATE": dt.date,
}
"""Python's own type for those types that Arrow takes without loss when all values are of it."""

_WIDE = Context(prec=100)
_FLOAT_MAX = 3.4028234663852886e38


class Unfit(Exception):  # noqa: N818 - becomes a `Misfit` with its row
    """Why a value does not fit."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


def checker(kind: Kind) -> Check:
    """The check for a scalar type: gives the value for its wire type, or raises `Unfit`."""
    if kind.name in INTEGERS:
        return _integer(kind)
    makers: dict[str, Callable[[Kind], Check]] = {
        "DECIMAL": _decimal,
        "ENUM": _enum,
        "TIMESTAMP": _timestamp,
        "TIMESTAMP_S": _timestamp,
        "TIMESTAMP_MS": _timestamp,
    }
    if kind.name in makers:
        return makers[kind.name](kind)
    return _CHECKS.get(kind.name, _nothing)


def _of(value: Any, *types: type, but: type | None = None) -> Any:
    """The value when it is of one of the types and not of `but`."""
    if not isinstance(value, types) or (but is not None and isinstance(value, but)):
        raise Unfit(f"it is of the type {type(value).__name__}")
    return value


def _integer(kind: Kind) -> Check:
    low, high = INTEGERS[kind.name]
    as_text = kind.name in ("HUGEINT", "UHUGEINT")

    def check(value: Any) -> Any:
        number = int(_of(value, int, but=bool))
        if not low <= number <= high:
            raise Unfit("it is out of range")
        return str(number) if as_text else number

    return check


def _bignum(value: Any) -> str:
    return str(int(_of(value, int, but=bool)))


def _double(value: Any) -> float:
    _of(value, float, int, Decimal, but=bool)
    try:
        number = float(value)
    except OverflowError:
        raise Unfit("it is out of range") from None
    if number != value and number == number:  # noqa: PLR0124 - NaN differs from itself
        raise Unfit("DOUBLE would round it")
    return number


def _float(value: Any) -> float:
    number = _double(value)
    if abs(number) > _FLOAT_MAX and number not in (float("inf"), float("-inf")):
        raise Unfit("it is out of range")
    if not isinstance(value, float) and struct.unpack("f", struct.pack("f", number))[0] != number:
        raise Unfit("FLOAT would round it")
    return number


def _decimal(kind: Kind) -> Check:
    width, scale = kind.numbers

    def check(value: Any) -> Decimal:
        number = Decimal(_of(value, Decimal, int, but=bool))
        if not number.is_finite():
            raise Unfit("it is not finite")
        scaled = _WIDE.scaleb(number, scale)
        if scaled != scaled.to_integral_value(context=_WIDE):
            raise Unfit(f"it has more than {scale} digits after the point")
        if scaled.copy_abs() >= 10**width:
            raise Unfit("it is out of range")
        return number

    return check


def _boolean(value: Any) -> bool:
    return bool(_of(value, bool))


def _text(value: Any) -> str:
    text = str.__str__(_of(value, str))
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Unfit("it holds half of a surrogate pair, which is no text") from None
    return text


def _blob(value: Any) -> bytes:
    return bytes(_of(value, bytes, bytearray, memoryview))


def _enum(kind: Kind) -> Check:
    def check(value: Any) -> str:
        text = _text(value)
        if text not in kind.labels:
            raise Unfit("it is none of the ENUM's values")
        return text

    return check


def _date(value: Any) -> dt.date:
    date: dt.date = _of(value, dt.date, but=dt.datetime)
    return date


_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - a time without a zone
_UNIT_MICROSECONDS = {"TIMESTAMP_S": 1_000_000, "TIMESTAMP_MS": 1000}


def _timestamp(kind: Kind) -> Check:
    unit = _UNIT_MICROSECONDS.get(kind.name, 1)

    def check(value: Any) -> dt.datetime:
        moment = _datetime(value)
        if moment.tzinfo is not None:
            raise Unfit("it has a time zone, which TIMESTAMPTZ keeps and TIMESTAMP does not")
        if moment.microsecond % unit:
            raise Unfit(f"{kind.name} would round it")
        return moment

    return check


def _timestamptz(value: Any) -> dt.datetime:
    moment = _datetime(value)
    if moment.tzinfo is None or moment.utcoffset() is None:
        raise Unfit("it has no time zone; TIMESTAMP takes such values")
    try:
        return moment.astimezone(dt.UTC)
    except OverflowError:
        raise Unfit("it is out of range") from None


def _timestamp_ns(value: Any) -> int:
    """Nanoseconds since 1970."""
    if type(value).__name__ == "datetime64":  # of numpy, and not a whole number of microseconds
        found = value.astype("datetime64[ns]")
        if found != value:
            raise Unfit("nanoseconds would round it")
        return int(found.astype("int64"))
    moment: dt.datetime = _of(value, dt.datetime)
    if moment.tzinfo is not None:
        raise Unfit("it has a time zone, which TIMESTAMPTZ keeps and TIMESTAMP_NS does not")
    whole = (moment.replace(microsecond=0) - _EPOCH) // dt.timedelta(seconds=1)
    nanoseconds = int(getattr(value, "nanosecond", 0))
    number = (whole * 1_000_000 + moment.microsecond) * 1000 + nanoseconds
    if not -(2**63) < number < 2**63 - 1:
        raise Unfit("it is out of range")
    return number


def _datetime(value: Any) -> dt.datetime:
    if type(value).__name__ == "datetime64" or getattr(value, "nanosecond", None):
        raise Unfit("microseconds would round it, or years before 1 or after 9999 are not kept")
    moment: dt.datetime = _of(value, dt.datetime)
    # pandas' own subclass prints and converts in other ways.
    to_plain = getattr(moment, "to_pydatetime", None)
    return to_plain() if to_plain is not None else moment


def _time(value: Any) -> dt.time:
    time: dt.time = _of(value, dt.time)
    if time.tzinfo is not None:
        raise Unfit("it has a time zone, which TIMETZ keeps and TIME does not")
    return time


def _timetz(value: Any) -> str:
    time: dt.time = _of(value, dt.time)
    if time.utcoffset() is None:
        raise Unfit("it has no fixed offset; TIME takes such values")
    return time.isoformat()


def _interval(value: Any) -> Any:
    import pyarrow as pa

    if getattr(value, "nanoseconds", 0):
        raise Unfit("microseconds would round it")
    delta: dt.timedelta = _of(value, dt.timedelta)
    return pa.MonthDayNano([0, delta.days, (delta.seconds * 1_000_000 + delta.microseconds) * 1000])


def _uuid(value: Any) -> str:
    try:
        return str(value if isinstance(value, uuid.UUID) else uuid.UUID(_of(value, str)))
    except ValueError:
        raise Unfit("it is no UUID") from None


def _json(value: Any) -> str:
    import json

    try:
        if isinstance(value, str):
            json.loads(_text(value))
            return value
        return json.dumps(_of(value, dict, list, int, float), allow_nan=False)
    except (ValueError, TypeError, RecursionError) as error:
        raise Unfit(f"it is no JSON: {error}") from None


def _bit(value: Any) -> str:
    text: str = _of(value, str)
    if not text or set(text) - {"0", "1"}:
        raise Unfit("it is no string of 0 and 1")
    return text


def _nothing(value: Any) -> Any:
    raise Unfit(f"it is of the type {type(value).__name__}, where only None came before")


_CHECKS: dict[str, Check] = {
    "BOOLEAN": _boolean,
    "DOUBLE": _double,
    "FLOAT": _float,
    "BIGNUM": _bignum,
    "VARCHAR": _text,
    "BLOB": _blob,
    "DATE": _date,
    "TIMESTAMP WITH TIME ZONE": _timestamptz,
    "TIMESTAMP_NS": _timestamp_ns,
    "TIME": _time,
    "TIME WITH TIME ZONE": _timetz,
    "INTERVAL": _interval,
    "UUID": _uuid,
    "JSON": _json,
    "BIT": _bit,
}
