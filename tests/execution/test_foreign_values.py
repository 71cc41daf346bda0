"""Values of numpy, pandas, pyarrow and polars, and less plain ones of Python, out of functions."""
# ruff: noqa: DTZ001

import array
import collections
import dataclasses
import datetime as dt
import enum
import pathlib

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from zql.execution import kinds
from zql.execution.misfit import Misfit
from zql.execution.observed import NoType, kind_of, kind_of_all, settled
from zql.execution.results import records_to_arrow, to_arrow


class Colour(enum.Enum):
    RED = "red"
    ONE = 1


class Word(str, enum.Enum):  # noqa: UP042 - as it was written before Python 3.11
    RED = "red"


@dataclasses.dataclass
class Inner:
    a: int
    b: list[int]


@dataclasses.dataclass
class Outer:
    x: Inner
    y: list[Inner]
    z: Inner | None = None


INNER = "STRUCT(a BIGINT, b BIGINT[])"
RECORDS = np.array([(1, 2.5), (3, 4.5)], dtype=[("a", "i4"), ("b", "f8")])
NANOS = np.datetime64("2024-01-02T00:00:00.000000001")
BIG = [2**64 - 1]
TAKEN = [
    ("BIGINT", np.int8(-3), -3),
    ("HUGEINT", np.uint64(2**64 - 1), str(2**64 - 1)),
    ("BIGINT", np.array(5), 5),
    ("BIGINT", pa.scalar(5), 5),
    ("BIGINT", pa.scalar(None, pa.int64()), None),
    ("BIGINT", Colour.ONE, 1),
    ("BIGINT", pd.NA, None),
    ("DOUBLE", np.float16(1.5), 1.5),
    ("DOUBLE", np.float32(1.1), float(np.float32(1.1))),
    ("BOOLEAN", np.bool_(True), True),
    ("VARCHAR", np.str_("x"), "x"),
    ("VARCHAR", Colour.RED, "red"),
    ("VARCHAR", Word.RED, "red"),
    ("VARCHAR", pathlib.PurePosixPath("a/b"), "a/b"),
    ("BLOB", np.bytes_(b"x"), b"x"),
    ("BLOB", memoryview(b"xy"), b"xy"),
    ("DATE", np.datetime64("2024-01-02"), dt.date(2024, 1, 2)),
    ("DATE", np.datetime64("2024-05"), dt.date(2024, 5, 1)),
    ("DATE", np.datetime64("NaT"), None),
    ("TIMESTAMP", pd.NaT, None),
    ("TIMESTAMP", np.datetime64("2024-01-02T03", "h"), dt.datetime(2024, 1, 2, 3)),
    ("TIMESTAMP", np.datetime64("2024-01-02", "ns"), dt.datetime(2024, 1, 2)),
    ("TIMESTAMP", pd.Timestamp("2024-01-02 03:04"), dt.datetime(2024, 1, 2, 3, 4)),
    ("INTERVAL", np.timedelta64(5000, "ns"), pa.MonthDayNano([0, 0, 5000])),
    ("INTERVAL", pd.Timedelta("1 day"), pa.MonthDayNano([0, 1, 0])),
    ("BIGINT[]", np.arange(3), [0, 1, 2]),
    ("BIGINT[][]", np.arange(4).reshape(2, 2), [[0, 1], [2, 3]]),
    ("BIGINT[]", array.array("i", [1, 2]), [1, 2]),
    ("BIGINT[]", range(3), [0, 1, 2]),
    ("BIGINT[]", collections.deque([1, 2]), [1, 2]),
    ("BIGINT[]", pd.Series([1, None], dtype="Int64"), [1, None]),
    ("BIGINT[]", pl.Series([1, None]), [1, None]),
    ("BIGINT[]", pa.array([1, None]), [1, None]),
    ("BIGINT[]", pa.chunked_array([[1], [None]]), [1, None]),
    ("BIGINT[]", np.ma.array([1, 2], mask=[False, True]), [1, None]),
    ("BIGINT[]", pd.NA, None),
    ("BOOLEAN[]", np.array([True]), [True]),
    ("VARCHAR[]", np.array(["a", "bc"]), ["a", "bc"]),
    ("DATE[]", np.array(["2024-01-02", "NaT"], "datetime64[D]"), [dt.date(2024, 1, 2), None]),
    ("TIMESTAMP[]", np.array(["2024-01-02"], "datetime64[ns]"), [dt.datetime(2024, 1, 2)]),
    ("TIMESTAMP[]", pd.Series(pd.to_datetime(["2024-01-02"])), [dt.datetime(2024, 1, 2)]),
    ("STRUCT(a BIGINT, b DOUBLE)", RECORDS[0], {"a": 1, "b": 2.5}),
    ("STRUCT(a BIGINT, b DOUBLE)[]", RECORDS, [{"a": 1, "b": 2.5}, {"a": 3, "b": 4.5}]),
    (
        f"STRUCT(x {INNER}, y {INNER}[], z {INNER})",
        Outer(Inner(1, [2]), [Inner(3, [])]),
        {"x": {"a": 1, "b": [2]}, "y": [{"a": 3, "b": []}], "z": None},
    ),
    ("MAP(BIGINT, BIGINT)", {np.int64(1): np.int64(2)}, [(1, 2)]),
    ("MAP(BIGINT, BIGINT)", pd.NA, None),
    ("STRUCT(a BIGINT)", pd.NA, None),
]


@pytest.mark.parametrize(("type_", "value", "expected"), TAKEN)
def test_values_are_taken_as_what_they_stand_for(type_, value, expected):
    assert to_arrow([value, None], kinds.parse(type_)).to_pylist() == [expected, None]


@pytest.mark.parametrize(
    ("type_", "value", "expected"), [case for case in TAKEN if case[2] is not None]
)
def test_their_types_are_seen(type_, value, expected):
    """What is seen holds the same value, whatever the type that it was asked for as above."""
    kind = settled(kind_of(value))
    found = to_arrow([value], kind).to_pylist()
    assert (
        str(kind).replace('"', "").split("[")[0].split("(")[0] == type_.split("[")[0].split("(")[0]
    )
    if kind.name != "STRUCT":
        assert found == [expected]


def test_nanoseconds_are_kept_or_refused():
    kind = kinds.parse("TIMESTAMP_NS")
    moments = [NANOS, pd.Timestamp(NANOS), dt.datetime(2024, 1, 2, 0, 0, 0, 5), None]
    found = to_arrow(moments, kind).cast(pa.int64()).to_pylist()
    second = 1_704_153_600_000_000_000
    assert found == [second + 1, second + 1, second + 5000, None]
    assert str(kind_of_all([dt.datetime(2024, 1, 2), NANOS])) == "TIMESTAMP_NS"
    assert str(kind_of(pd.Timestamp(NANOS))) == "TIMESTAMP_NS"


REFUSED = [
    ("TIMESTAMP", NANOS, "round"),
    ("TIMESTAMP", pd.Timestamp(NANOS), "round"),
    ("TIMESTAMP", np.datetime64("20000-01-02"), "after 9999"),
    ("TIMESTAMP_NS", np.datetime64("2024-01-02T00:00:00.000000000001"), "round"),
    ("TIMESTAMP_NS", dt.datetime(2300, 1, 1), "out of range"),
    ("TIMESTAMP_NS", dt.datetime(2024, 1, 1, tzinfo=dt.UTC), "time zone"),
    ("INTERVAL", np.timedelta64(5, "M"), "timedelta64"),
    ("INTERVAL", np.timedelta64(5, "ns"), "timedelta64"),
    ("INTERVAL", pd.Timedelta(1, "ns"), "round"),
    ("INTERVAL", np.timedelta64(2**62, "D"), "timedelta64"),
    ("BIGINT", NANOS, "datetime64"),
    ("DOUBLE", np.longdouble(1.5), "longdouble"),
    ("DOUBLE", 1j, "complex"),
    ("BIGINT[]", {1, 2}, "no order"),
    ("BIGINT[]", frozenset([1]), "no order"),
    ("BIGINT[]", b"ab", "no list"),
    ("VARCHAR[]", "ab", "no list"),
    ("BIGINT[]", np.array([1.5]), "float"),
    ("TIMESTAMP[]", np.array([NANOS]), "round"),
    ("STRUCT(a BIGINT)", RECORDS[0], "not among"),
    ("VARCHAR", Colour.ONE, "int"),
    ("BIGINT", Colour.RED, "str"),
]


@pytest.mark.parametrize(("type_", "value", "why"), REFUSED)
def test_what_would_change_is_refused(type_, value, why):
    with pytest.raises(Misfit, match=why) as caught:
        to_arrow([None, value], kinds.parse(type_))
    assert caught.value.row == 1


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({1}, "no order"),
        ({"a": 1, "A": 2}, "differ in case"),
        ({"": 1}, "empty key"),
        (np.timedelta64(5, "M"), "no SQL type"),
        (1j, "no SQL type"),
        (object(), "no SQL type"),
        ([1, "x"], "both BIGINT and VARCHAR"),
        (2**127, "128 bits"),
    ],
)
def test_what_has_no_type(value, why):
    with pytest.raises(NoType, match=why):
        kind_of(value)


def test_empty_dicts_are_what_others_are():
    assert str(settled(kind_of_all([{}, {"a": 1}]))) == 'STRUCT("a" BIGINT)'
    assert str(settled(kind_of_all([{}, {1: "a"}]))) == "MAP(BIGINT, VARCHAR)"
    assert str(settled(kind_of_all([{}, {}]))) == "MAP(VARCHAR, VARCHAR)"
    assert str(settled(kind_of_all([[{}], [{"a": {}}]]))) == 'STRUCT("a" MAP(VARCHAR, VARCHAR))[]'


@pytest.mark.parametrize("nothing", [None, pd.NA])
def test_nothing_is_no_record(nothing):
    with pytest.raises(Misfit) as caught:
        records_to_arrow([{"a": 1}, nothing], ["a"], [kinds.parse("BIGINT")])
    assert caught.value.row == 1
