"""Values from Python to DuckDB and back: exact, or refused with the reason."""
# ruff: noqa: DTZ001, PT017

import dataclasses
import datetime as dt
import uuid
from decimal import Decimal
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from zql.execution import kinds
from zql.execution.arguments import to_python
from zql.execution.engine import Engine
from zql.execution.misfit import Misfit, safe_text, show
from zql.execution.results import records_to_arrow, to_arrow
from zql.execution.settings import Settings

PLUS2 = dt.timezone(dt.timedelta(hours=2))


@dataclasses.dataclass
class Point:
    a: int
    b: str | None = None


class Pair(NamedTuple):
    a: int
    b: str


@pytest.fixture(scope="module")
def engine():
    with Engine(Settings(), threads=1) as engine:
        yield engine


def through_duckdb(engine, values, type_):
    """Python -> Arrow -> DuckDB (cast to the type) -> Arrow -> Python."""
    kind = kinds.parse(type_)
    import pyarrow as pa

    engine.register("given", pa.table({"x": to_arrow(values, kind)}))
    wire = kinds.wire_type(kind) if kinds.travels_as_text(kind) else kind
    sql = f"SELECT CAST(CAST(x AS {kind}) AS {wire}) AS x FROM given"
    with engine.batches(sql, 1000, lossless=True) as stream:
        (batch,) = stream
    return to_python(batch.column(0), kind)


FITS = [
    ("BOOLEAN", [True, False, None]),
    ("TINYINT", [-128, 127, None]),
    ("BIGINT", [2**63 - 1, -(2**63), 0, None]),
    ("UBIGINT", [2**64 - 1, 0]),
    ("HUGEINT", [2**127 - 1, -(2**127), 158798437896437949616241483468158498679, None]),
    ("UHUGEINT", [2**128 - 1, 0]),
    ("BIGNUM", [10**60, -1]),
    ("DOUBLE", [1.5, float("inf"), -0.0, None]),
    ("FLOAT", [1.5, None]),
    ("DECIMAL(10,2)", [Decimal("12345678.90"), Decimal("-0.01"), None]),
    ("DECIMAL(38,0)", [Decimal(10**38 - 1)]),
    ("VARCHAR", ["", "a\0b", "é\U0001f600", None]),
    ("BLOB", [b"", b"\x00\xff", None]),
    ("DATE", [dt.date(1, 1, 1), dt.date(9999, 12, 31), None]),
    ("TIME", [dt.time(23, 59, 59, 999999), None]),
    ("TIMETZ", [dt.time(12, 0, tzinfo=PLUS2), None]),
    ("TIMESTAMP", [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999), None]),
    ("TIMESTAMP_S", [dt.datetime(2024, 1, 1, 1, 2, 3)]),
    ("TIMESTAMP_NS", [dt.datetime(2024, 1, 1, 1, 2, 3, 4)]),
    ("TIMESTAMPTZ", [dt.datetime(2024, 1, 1, tzinfo=dt.UTC), None]),
    ("INTERVAL", [dt.timedelta(days=-1, microseconds=3), None]),
    ("UUID", [uuid.UUID(int=2**127), None]),
    ("JSON", ['{"a": [1, null]}', None]),
    ("ENUM('a', 'it''s')", ["it's", "a", None]),
    ("BIT", ["0101", None]),
    ("BIGINT[]", [[1, None], [], None, [2]]),
    ("HUGEINT[]", [[2**100, None], None]),
    ("VARCHAR[][]", [[["a"], [], None], [], None]),
    ("INTEGER[2]", [[1, 2], None, [3, None]]),
    ("STRUCT(a BIGINT, b VARCHAR)", [{"a": 1, "b": "x"}, None, {"a": None, "b": None}]),
    (
        "STRUCT(a HUGEINT, t TIMESTAMPTZ[])",
        [{"a": 2**90, "t": [dt.datetime(1970, 1, 1, tzinfo=dt.UTC)]}],
    ),
    ("MAP(VARCHAR, BIGINT)", [{"k": 1, "l": None}, {}, None]),
    ("MAP(HUGEINT, DOUBLE[])", [{2**80: [0.5]}]),
]


@pytest.mark.parametrize(("type_", "values"), FITS, ids=[t for t, _ in FITS])
def test_values_survive(engine, type_, values):
    assert through_duckdb(engine, values, type_) == values


CONVERTED = [
    ("DOUBLE", 3, 3.0),
    ("DOUBLE", Decimal("0.5"), 0.5),
    ("DOUBLE", np.float32(0.5), 0.5),
    ("BIGINT", np.int64(7), 7),
    ("BOOLEAN", np.bool_(True), True),
    ("VARCHAR", np.str_("x"), "x"),
    ("DECIMAL(5,1)", 3, Decimal("3.0")),
    (
        "TIMESTAMPTZ",
        dt.datetime(2024, 1, 1, tzinfo=PLUS2),
        dt.datetime(2023, 12, 31, 22, tzinfo=dt.UTC),
    ),
    ("TIMESTAMP", np.datetime64("2024-01-02T03:04:05.000006"), dt.datetime(2024, 1, 2, 3, 4, 5, 6)),
    ("UUID", str(uuid.UUID(int=5)), uuid.UUID(int=5)),
    ("JSON", {"a": 1}, '{"a": 1}'),
    ("BIGINT[]", (1, 2), [1, 2]),
    ("DOUBLE[]", np.array([0.5, 1]), [0.5, 1.0]),
    ("BLOB", bytearray(b"x"), b"x"),
    ("STRUCT(a BIGINT, b VARCHAR)", {"a": 1}, {"a": 1, "b": None}),
    ("STRUCT(a BIGINT, b VARCHAR)", Point(1), {"a": 1, "b": None}),
    ("STRUCT(a BIGINT, b VARCHAR)", Pair(1, "x"), {"a": 1, "b": "x"}),
]


@pytest.mark.parametrize(("type_", "value", "expected"), CONVERTED)
def test_values_that_mean_the_same_are_taken(engine, type_, value, expected):
    assert through_duckdb(engine, [value, None], type_) == [expected, None]


REFUSED = [
    ("BIGINT", 1.0),
    ("BIGINT", 1.5),
    ("BIGINT", True),
    ("BIGINT", "1"),
    ("BIGINT", 2**63),
    ("TINYINT", 128),
    ("HUGEINT", 2**127),
    ("BOOLEAN", 1),
    ("DOUBLE", 2**53 + 1),
    ("DOUBLE", 10**400),
    ("DOUBLE", "1"),
    ("DOUBLE", True),
    ("FLOAT", 1e39),
    ("FLOAT", 2**24 + 1),
    ("DECIMAL(4,2)", Decimal("0.001")),
    ("DECIMAL(4,2)", 100),
    ("DECIMAL(4,2)", Decimal("NaN")),
    ("DECIMAL(4,2)", 1.5),
    ("VARCHAR", 1),
    ("VARCHAR", b"x"),
    ("VARCHAR", "\ud800"),
    ("BLOB", "x"),
    ("DATE", dt.datetime(2024, 1, 1)),
    ("TIMESTAMP", dt.date(2024, 1, 1)),
    ("TIMESTAMP", dt.datetime(2024, 1, 1, tzinfo=dt.UTC)),
    ("TIMESTAMPTZ", dt.datetime(2024, 1, 1)),
    ("TIMESTAMP_S", dt.datetime(2024, 1, 1, 0, 0, 0, 1)),
    ("TIME", dt.time(1, tzinfo=PLUS2)),
    ("UUID", "nope"),
    ("JSON", "{"),
    ("ENUM('a')", "b"),
    ("BIT", "2"),
    ("NULL", 1),
    ("BIGINT[]", 1),
    ("BIGINT[]", "12"),
    ("BIGINT[]", {1, 2}),
    ("BIGINT[]", [1, 1.5]),
    ("INTEGER[2]", [1]),
    ("STRUCT(a BIGINT)", {"a": 1, "z": 2}),
    ("STRUCT(a BIGINT)", {"a": 1.5}),
    ("STRUCT(a BIGINT)", [1]),
    ("MAP(VARCHAR, BIGINT)", {1: 1}),
    ("MAP(VARCHAR, BIGINT)", {None: 1}),
    ("MAP(VARCHAR, BIGINT)", [("a", 1)]),
]


@pytest.mark.parametrize(("type_", "value"), REFUSED)
def test_values_that_do_not_fit_are_refused_with_their_row(type_, value):
    good = None
    with pytest.raises(Misfit) as caught:
        to_arrow([good, good, value, good], kinds.parse(type_))
    assert caught.value.row == 2
    assert caught.value.why


def test_a_misfit_deep_inside_names_its_row():
    kind = kinds.parse("STRUCT(a MAP(VARCHAR, BIGINT[]))")
    rows = [{"a": {"x": [1], "y": []}}, {"a": {}}, None, {"a": {"x": [], "z": [3, 4.5]}}]
    with pytest.raises(Misfit) as caught:
        to_arrow(rows, kind)
    assert (caught.value.row, caught.value.value) == (3, 4.5)
    assert '"a"' in caught.value.why


def test_records_become_columns():
    types = [kinds.parse("BIGINT"), kinds.parse("VARCHAR")]
    a, b = records_to_arrow([{"a": 1}, Point(2, "x"), {"b": "y"}], ["a", "b"], types)
    assert (a.to_pylist(), b.to_pylist()) == ([1, 2, None], [None, "x", "y"])


@pytest.mark.parametrize("bad", [None, 5, {"c": 1}])
def test_what_is_no_record_is_refused(bad):
    with pytest.raises(Misfit) as caught:
        records_to_arrow([{"a": 1}, bad], ["a"], [kinds.parse("BIGINT")])
    assert caught.value.row == 1


@pytest.mark.parametrize(
    ("sql", "type_"),
    [
        ("'infinity'::DATE", "DATE"),
        ("'290000-01-01'::TIMESTAMP", "TIMESTAMP"),
        ("INTERVAL '1 month'", "INTERVAL"),
        ("'2024-01-01 00:00:00.000000001'::TIMESTAMP_NS", "TIMESTAMP_NS"),
    ],
)
def test_what_python_has_no_value_for_is_named(engine, sql, type_):
    with engine.batches(f"SELECT unnest([NULL, {sql}]) AS x", 10) as stream:
        column = next(iter(stream)).column(0)
    with pytest.raises(Misfit) as caught:
        to_python(column, kinds.parse(type_))
    assert caught.value.row == 1


def test_types_are_printed_as_they_are_read():
    for type_, _ in FITS:
        kind = kinds.parse(type_)
        assert kinds.parse(str(kind)) == kind


def test_values_are_shown_on_one_line_and_cut():
    assert show("a\x1b[2J\nb") == "'a\\x1b[2J\\nb'"
    assert len(show("x" * 1000)) <= 60
    assert safe_text("\u202eabc") == "\\u202eabc"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@settings(max_examples=300, deadline=None)
@given(st.lists(json_values, max_size=5), st.sampled_from([t for t, _ in FITS]))
def test_any_value_fits_exactly_or_is_refused(values, type_):
    """Nothing but a `Misfit` comes out, and what fits has the same values."""
    kind = kinds.parse(type_)
    try:
        array = to_arrow(values, kind)
    except Misfit as misfit:
        assert 0 <= misfit.row < len(values)
        return
    assert len(array) == len(values)
    assert [v is None for v in array.to_pylist()] == [v is None for v in values]
    if kind.name in ("BIGINT", "VARCHAR", "BOOLEAN"):
        assert array.to_pylist() == values
