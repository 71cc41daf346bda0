"""SQL that only picks gives what DuckDB gives, and no file has other bytes for it."""

from __future__ import annotations

import gzip
import json

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from zql.execution.picks import picks_of
from zql.expr.expression import Column, FieldAccess, Is, Logical
from zql.logical.plan import Assign, BatchInput, Filter, Project
from zql.optimizer.rules import partition_shuffles

RECORD = "STRUCT(a BIGINT, b STRUCT(c VARCHAR, d DOUBLE[]), e BOOLEAN)"
COLUMNS = (Column("k", "BIGINT"), Column("r", RECORD), Column("t", "VARCHAR"))
LEAF = BatchInput(COLUMNS)
K, R, T = COLUMNS
A, B, E = (FieldAccess(R, name) for name in "abe")
C, D = (FieldAccess(B, name) for name in "cd")
VALUES = {
    K: ("BIGINT", "k"), T: ("VARCHAR", "t"), A: ("BIGINT", "r.a"), C: ("VARCHAR", "r.b.c"),
    D: ("DOUBLE[]", "r.b.d"), E: ("BOOLEAN", "r.e"), R: (RECORD, "r"),
}  # fmt: skip
ARROW = pa.schema(
    {
        "k": pa.int64(),
        "r": pa.struct(
            {
                "a": pa.int64(),
                "b": pa.struct({"c": pa.string(), "d": pa.list_(pa.float64())}),
                "e": pa.bool_(),
            }
        ),
        "t": pa.string(),
    }
)


def maybe(strategy):
    return st.none() | strategy


numbers = maybe(st.integers(-(2**63), 2**63 - 1))
inner = st.fixed_dictionaries(
    {"c": maybe(st.text(max_size=3)), "d": maybe(st.lists(maybe(st.floats(width=32)), max_size=2))}
)
records = st.fixed_dictionaries({"a": numbers, "b": maybe(inner), "e": maybe(st.booleans())})
rows = st.fixed_dictionaries({"k": numbers, "r": maybe(records), "t": maybe(st.text(max_size=3))})
exprs = st.sampled_from(list(VALUES))


@settings(deadline=None)
@given(
    st.lists(rows, max_size=12),
    st.lists(exprs, min_size=1, max_size=4, unique=True),
    st.lists(st.tuples(exprs, st.booleans()), max_size=2),
)
def test_they_are_what_duckdb_gives(table, wanted, tests):
    plan = LEAF
    if tests:
        found = [Is(expr, "NULL", negated) for expr, negated in tests]
        plan = Filter(plan, found[0] if not found[1:] else Logical("AND", tuple(found)))
    items = [Assign(Column(f"c{i}", VALUES[e][0]), e) for i, e in enumerate(wanted)]
    picks = picks_of(Project(plan, tuple(items)), LEAF)
    batch = pa.RecordBatch.from_pylist(table, ARROW)
    where = " AND ".join(f"{VALUES[e][1]} IS {'NOT ' * n}NULL" for e, n in tests) or "true"
    select = ", ".join(f"{VALUES[e][1]} AS c{i}" for i, e in enumerate(wanted))
    connection = duckdb.connect()
    connection.register("batch", batch)
    expected = connection.sql(f"SELECT {select} FROM batch WHERE {where}").to_arrow_table()
    assert picks.fit(batch.schema, expected.schema)
    assert str(picks.of(batch).to_pylist()) == str(expected.to_pylist())  # NaN is equal as text


@pytest.mark.parametrize(
    ("expr", "type_"),
    [
        (Is(K, "NULL"), "BOOLEAN"),
        (K, "HUGEINT"),
        (K, "UUID"),
        (R, "STRUCT(a UUID)"),
        (K, "INTERVAL"),
        (T, "ENUM('a')"),
        (T, "JSON"),
    ],
)
def test_what_is_computed_or_cast_is_left_to_duckdb(expr, type_):
    assert picks_of(Project(LEAF, (Assign(Column("x", type_), expr),)), LEAF) is None


def test_other_columns_or_types_do_not_fit():
    picks = picks_of(Project(LEAF, (Assign(Column("x", "BIGINT"), A),)), LEAF)
    result = pa.schema({"x": pa.int64()})
    assert picks.fit(ARROW, result)
    assert not picks.fit(ARROW, pa.schema({"x": pa.int32()}))
    assert not picks.fit(pa.schema({"r": pa.struct({"A": pa.int64()})}), result)
    assert not picks.fit(pa.schema({"r": pa.int64()}), result)


def lines(path):
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode().splitlines()


@pytest.mark.parametrize("suffix", ["jsonl", "jsonl.gz", "csv", "csv.gz"])
@pytest.mark.parametrize(
    "way",
    [
        "SELECT p.f(t) AS t |> WRITE 'o/{{shard}}.{}'",
        "SELECT t || t AS t |> SHUFFLE SEED 1 |> WRITE 'o/{{shard}}.{}' OPTIONS (shards = 2)",
    ],
)
def test_one_column_of_text_is_still_put_into_the_form_of_its_file(place, monkeypatch, suffix, way):
    """Where lines are text too, the column could be taken for them."""
    monkeypatch.setattr(partition_shuffles, "_WORTH_BYTES", 0)
    monkeypatch.setattr(partition_shuffles, "_PARTITION_BYTES", 1)
    place.functions("def f(s: str) -> str | None: return s and s + s", "picked.py")
    texts = 'a"', "b,c", None, "d"
    (place.folder / "t.jsonl").write_text("".join(json.dumps({"t": t}) + "\n" for t in texts))
    place.run(
        "IMPORT PYTHON 'picked.py' AS p; FROM 't.jsonl' |> WHERE t IS NOT NULL |> "
        + way.format(suffix)
    )
    found = [lines(path) for path in (place.folder / "o").glob(f"*.{suffix}")]
    if suffix.startswith("jsonl"):
        texts = [json.loads(line)["t"] for file in found for line in file]
        assert sorted(texts) == ['a"a"', "b,cb,c", "dd"]
    else:
        assert sorted(line for file in found for line in file[1:]) == ['"a""a"""', '"b,cb,c"', "dd"]
