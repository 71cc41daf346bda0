"""Any value of any type goes into a function, and comes out of it, as it was."""
# ruff: noqa: DTZ001

import datetime as dt
import json
import os
from decimal import Context, Decimal

import pytest
import zql
from hypothesis import given, settings
from hypothesis import strategies as st
from zql.execution import kinds
from zql.execution.arguments import to_python
from zql.execution.engine import Engine
from zql.execution.kinds import INTEGERS, Kind
from zql.execution.results import to_arrow
from zql.execution.settings import Settings

EXAMPLES = int(os.environ.get("ZQL_EXAMPLES", "150"))
WIDE = Context(prec=60)
times = st.times().map(lambda t: t.replace(fold=0))
moments = st.datetimes().map(lambda m: m.replace(fold=0))
seconds = moments.map(lambda m: m.replace(microsecond=0))
milliseconds = moments.map(lambda m: m.replace(microsecond=m.microsecond // 1000 * 1000))
offsets = st.integers(-(15 * 3600 + 3599), 15 * 3600 + 3599).map(
    lambda n: dt.timezone(dt.timedelta(seconds=n)) if n else dt.UTC
)
zoned = st.builds(lambda t, zone: t.replace(tzinfo=zone), times, offsets)
text = st.text(st.characters(exclude_categories=["Cs"]))
# DuckDB's intervals have months, days and microseconds; the last two are added up.
intervals = st.timedeltas(dt.timedelta(days=-20_000), dt.timedelta(days=20_000))
nanoseconds = st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2262, 1, 1)).map(
    lambda m: m.replace(fold=0)
)

SCALARS = {
    **{name: st.integers(*limits) for name, limits in INTEGERS.items()},
    "BIGNUM": st.integers(-(10**50), 10**50),
    "BOOLEAN": st.booleans(),
    "DOUBLE": st.floats(),
    "FLOAT": st.floats(width=32),
    "VARCHAR": text,
    "BLOB": st.binary(),
    "DATE": st.dates(),
    "TIME": times,
    "TIME WITH TIME ZONE": zoned,
    "TIMESTAMP": moments,
    "TIMESTAMP_S": seconds,
    "TIMESTAMP_MS": milliseconds,
    "TIMESTAMP_NS": nanoseconds,
    "TIMESTAMP WITH TIME ZONE": moments.map(lambda m: m.replace(tzinfo=dt.UTC)),
    "INTERVAL": intervals,
    "UUID": st.uuids(),
    "BIT": st.text("01", min_size=1, max_size=70),
    "JSON": st.recursive(
        st.none() | st.booleans() | st.integers(-9, 9), lambda inner: st.lists(inner, max_size=3)
    ).map(json.dumps),
}


def decimals(kind: Kind) -> st.SearchStrategy:
    width, scale = kind.numbers
    most = 10**width - 1
    return st.integers(-most, most).map(lambda n: Decimal(n).scaleb(-scale, WIDE))


scalar_kinds = st.sampled_from(sorted(SCALARS)).map(Kind)
decimal_kinds = st.integers(1, 38).flatmap(
    lambda width: st.integers(0, width).map(lambda scale: Kind("DECIMAL", numbers=(width, scale)))
)
enum_kinds = st.lists(text, min_size=1, max_size=4, unique=True).map(
    lambda labels: Kind("ENUM", labels=tuple(labels))
)
names = st.lists(
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=5),
    min_size=1,
    max_size=3,
    unique_by=str.lower,
)
leaf_kinds = scalar_kinds | decimal_kinds
key_kinds = st.sampled_from(["VARCHAR", "BIGINT", "HUGEINT", "UUID", "DATE", "BLOB"]).map(Kind)
all_kinds = st.recursive(
    leaf_kinds | enum_kinds,
    lambda inner: st.one_of(
        inner.map(lambda kind: Kind("LIST", (("", kind),))),
        st.tuples(inner, st.integers(1, 3)).map(
            lambda both: Kind("ARRAY", (("", both[0]),), (both[1],))
        ),
        st.tuples(key_kinds, inner).map(
            lambda both: Kind("MAP", (("key", both[0]), ("value", both[1])))
        ),
        names.flatmap(
            lambda found: st.tuples(*(inner for _ in found)).map(
                lambda parts: Kind("STRUCT", tuple(zip(found, parts, strict=True)))
            )
        ),
    ),
    max_leaves=4,
)


def values_of(kind: Kind) -> st.SearchStrategy:
    match kind.name:
        case "DECIMAL":
            found = decimals(kind)
        case "ENUM":
            found = st.sampled_from(kind.labels)
        case "LIST":
            found = st.lists(values_of(kind.element), max_size=3)
        case "ARRAY":
            size = kind.numbers[0]
            found = st.lists(values_of(kind.element), min_size=size, max_size=size)
        case "MAP":
            (_, key), (_, value) = kind.parts
            found = st.dictionaries(SCALARS[key.name], values_of(value), max_size=3)
        case "STRUCT":
            found = st.fixed_dictionaries({name: values_of(part) for name, part in kind.parts})
        case _:
            found = SCALARS[kind.name]
    return st.none() | found


@pytest.fixture(scope="module")
def engine():
    with Engine(Settings(), threads=1) as engine:
        yield engine


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.data())
def test_values_of_any_type(engine, data):
    """Python -> Arrow -> DuckDB (cast to the type) -> Arrow -> Python."""
    import pyarrow as pa

    kind = data.draw(all_kinds)
    values = data.draw(st.lists(values_of(kind), min_size=1, max_size=6))
    assert kinds.parse(str(kind)) == kind
    engine.register("given", pa.table({"x": to_arrow(values, kind)}))
    wire = kinds.wire_type(kind) if kinds.travels_as_text(kind) else kind
    sql = f"SELECT CAST(CAST(x AS {kind}) AS {wire}) AS x FROM given"
    with engine.batches(sql, 1000, lossless=True) as stream:
        (batch,) = stream
    found = to_python(batch.column(0), kind)
    assert exact(found) == exact(values)


def exact(value):
    """Something that is equal only when the values are the same: NaN and NaN, not 0.0 and -0.0."""
    if isinstance(value, list):
        return [exact(item) for item in value]
    if isinstance(value, dict):
        return {repr(key): exact(item) for key, item in value.items()}
    return repr(value)


LITERALS = [
    "(-128)::TINYINT",
    "18446744073709551615::UBIGINT",
    "'170141183460469231731687303715884105727'::HUGEINT",
    "'340282366920938463463374607431768211455'::UHUGEINT",
    "'-12345678901234567890123456789012345678901234567890'::BIGNUM",
    "'12345678901234567890123456789012345678'::DECIMAL(38, 0)",
    "'0.12345678901234567890123456789012345678'::DECIMAL(38, 38)",
    "'NaN'::DOUBLE",
    "'-inf'::FLOAT",
    "'-0.0'::DOUBLE",
    "'0001-01-01'::DATE",
    "'23:59:59.999999'::TIME",
    "'01:02:03+15:59:59'::TIMETZ",
    "'9999-12-31 23:59:59.999999'::TIMESTAMP",
    "'2024-01-02 03:04:05'::TIMESTAMP_S",
    "'2024-01-02 03:04:05.678'::TIMESTAMP_MS",
    "'2024-01-02 03:04:05.678901'::TIMESTAMP_NS",
    "'2024-01-02 03:04:05+02'::TIMESTAMPTZ",
    "INTERVAL '-3 days 4 seconds'",
    "'c4c5a92a-1f2c-4a8b-9b1f-1d1d1d1d1d1d'::UUID",
    "'\\x00\\xFF'::BLOB",
    "'b'::ENUM('a', 'b')",
    "'{\"a\": [1, null]}'::JSON",
    "'0101'::BIT",
    "[[1, NULL], NULL, []]",
    "[1, 2]::INTEGER[2]",
    "[['2024-01-02 03:04:05.678901'::TIMESTAMP_NS], NULL]",
    "{'a': 1, 'b': [{'c': NULL, 'd': '2024-01-02 03:04:05+02'::TIMESTAMPTZ}]}",
    "MAP {'2024-01-02'::DATE: INTERVAL '1 day', '2024-01-03'::DATE: NULL}",
    "MAP {'c4c5a92a-1f2c-4a8b-9b1f-1d1d1d1d1d1d'::UUID: [170141183460469231731687303715884105727]}",
    "[MAP {'a': ['01'::BIT]}, MAP {}, NULL]",
]


@pytest.mark.parametrize("in_workers", [False, True])
def test_values_through_functions(place, shared, in_workers):
    place.functions("def same(value, ctx):\n    return value\n")
    session = shared(2)
    items = ", ".join(f"CASE WHEN i = 1 THEN {sql} END AS v{i}" for i, sql in enumerate(LITERALS))
    values = f"FROM VALUES (0), (1), (2) AS t(i) |> SELECT i, {items}"
    types = session.query(values).types[1:]
    for i, type_ in enumerate(types):

        def same(value):
            return value

        session.udf(same, f"same{i}", returns=type_)
    calls = ", ".join(f"same{i}(v{i}) AS w{i}" for i in range(len(types)))
    query = f"{values} |> EXTEND {calls}"
    if in_workers:
        session.run(
            f"{query} |> SELECT i, {_equal(types)} |> WRITE 'out.parquet'",
        )
        found = session.query("FROM 'out.parquet'").to_dicts()
    else:
        found = session.query(f"{query} |> SELECT i, {_equal(types)}").to_dicts()
    wrong = {k for row in found for k, v in row.items() if v is False}
    assert {LITERALS[int(name[1:])] for name in wrong} == set()
    assert len(found) == 3


def _equal(types) -> str:
    """Whether each value came back, by its text too: -0.0 equals 0.0."""
    same = "v{i} IS NOT DISTINCT FROM w{i}", "v{i}::VARCHAR IS NOT DISTINCT FROM w{i}::VARCHAR"
    return ", ".join(" AND ".join(same).format(i=i) + f" AS e{i}" for i in range(len(types)))


@pytest.mark.parametrize(
    ("annotation", "value", "message"),
    [
        ("int", "2**63", "gave 9223372036854775808, which does not fit BIGINT: .*out of range"),
        ("float", "2**53 + 1", "gave 9007199254740993, which does not fit DOUBLE: .*round"),
        ("bool", "1", "gave 1, which does not fit BOOLEAN"),
        ("datetime", "datetime(2024, 1, 1, tzinfo=UTC)", "gave .*time zone, which TIMESTAMPTZ"),
        ("list[int]", "[1, 2.5]", r"gave 2.5, which does not fit BIGINT\[\]: inside: .*float"),
    ],
)
def test_what_does_not_fit_an_annotation_says_where(place, annotation, value, message):
    place.rows("in.jsonl", [{"a": 1}, {"a": 2}])
    head = "from datetime import *\n"
    place.functions(f"{head}def f(a: int) -> {annotation}:\n    return {value} if a == 2 else None")
    with pytest.raises(zql.UdfError, match=rf"udf\.f on row 2 of in\.jsonl {message}"):
        place.run(
            "IMPORT PYTHON 'udf.py'; FROM 'in.jsonl' |> SELECT udf.f(a) AS x |> WRITE 'o.jsonl'"
        )
