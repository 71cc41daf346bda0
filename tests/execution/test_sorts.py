"""A sort gives the same rows in one statement as range by range, and fits into memory there."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.execution.test_partitions import EXAMPLES, VALUES
from zql.execution import exchange, exchanges, ranges
from zql.execution.partitions import Choice
from zql.optimizer.rules.partition_sorts import _OTHER_ORDER
from zql.session import Session
from zql.source import Source

OFF = ["partition_sorts"]


@pytest.fixture(scope="module")
def session():
    with Session(workers=2, threads=2) as session:
        yield session


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Ranges of however few rows, some of which are dealt twice."""
    monkeypatch.setattr(exchange, "PIECE_BYTES", 1 << 8)
    monkeypatch.setattr(exchange, "_HELD_BYTES", 1 << 11)
    monkeypatch.setattr(ranges, "_OF_A_RANGE", 4)


def both(session, text, *, dealt=True):
    """The rows, range by range and in one statement."""
    found = []
    for off in ([], OFF):
        session.set("partitions", 5)
        session.set("disabled_rules", off)
        said = session.explain(Source("", text))
        assert ("by ranges of" in said) == (dealt and not off), said
        found.append(session.query(text).to_arrow().to_pylist())
    return found


WAYS = [*itertools.product(["", " DESC"], ["", " NULLS FIRST", " NULLS LAST"])]


@pytest.mark.parametrize("kind", VALUES)
def test_keys_of_all_types(session, kind):
    values = ", ".join(f"({value})::{kind}" for value in VALUES[kind])
    for key in ("k", "[k]", "{'a': k, 'b': x % 2}"):
        for down, nulls in WAYS:
            text = (
                f"FROM range(60) AS r (x)"
                f" |> EXTEND [{values}][x * 7 % {len(VALUES[kind])} + 1] AS k"
                f" |> ORDER BY {key}{down}{nulls}, x DESC |> SELECT x, k::VARCHAR AS k"
            )
            ranged, whole = both(session, text, dealt=not _OTHER_ORDER.search(kind))
            assert repr(ranged) == repr(whole)


@pytest.mark.parametrize(
    "order",
    [
        "random()",
        "length(s) DESC, x",
        "s COLLATE NOCASE, x",
        "x % 3 = 0, -x",
        "(FROM range(9) AS q (y) |> WHERE y = x % 9 |> AGGREGATE max(y) AS m), x",
    ],
)
def test_orders(session, order):
    text = f"FROM range(300) AS r (x) |> EXTEND 'Tt'[x % 2 + 1] || x % 7 AS s |> ORDER BY {order}"
    easy = "COLLATE" not in order and "FROM" not in order
    ranged, whole = both(session, text, dealt=easy)
    if order == "random()":
        assert ranged != sorted(ranged, key=repr) != whole
        ranged, whole = sorted(ranged, key=repr), sorted(whole, key=repr)
    assert ranged == whole


@pytest.mark.parametrize(
    "text",
    [
        "FROM range(99) AS r (x) |> ORDER BY x % 9, x |> EXTEND row_number() OVER () AS n",
        "FROM range(99) AS r (x) |> ORDER BY -x |> EXTEND [x, x + 1] AS l |> UNNEST l AS y",
        "FROM range(99) AS r (x) |> ORDER BY -x |> WHERE x % 2 = 0 |> SELECT x * 2 AS y",
        "FROM range(99) AS r (x) |> ORDER BY -x |> UNION ALL (FROM range(9) AS q (x))",
        "FROM range(99) AS r (x) |> ORDER BY x % 5, x |> AGGREGATE list(x) AS xs",
        "FROM range(99) AS r (x) |> ORDER BY x % 5, x |> ORDER BY x % 3, -x",
        "FROM range(99) AS r (x) |> WHERE x IN (FROM range(9) AS q (y) |> ORDER BY -y)",
        "FROM range(99) AS r (x) |> WHERE x > 99 |> ORDER BY x",
        "SELECT DISTINCT x % 9 AS y FROM range(99) AS r (x) ORDER BY y DESC",
    ],
)
def test_sorts_in_statements(session, text):
    session.set("partitions", 5)
    session.set("disabled_rules", [])
    ranged = session.query(text).to_arrow().to_pylist()
    session.set("disabled_rules", OFF)
    assert ranged == session.query(text).to_arrow().to_pylist()


def test_the_first_rows_are_not_dealt(session):
    for text in ("|> LIMIT 3", "|> SELECT x |> LIMIT 3", "|> LIMIT 3 OFFSET 2"):
        both(session, f"FROM range(99) AS r (x) |> ORDER BY -x {text}", dealt=False)


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.data())
def test_rows_with_equal_keys_stay_in_order(data):
    keys = data.draw(st.lists(st.integers(0, 4), max_size=200))
    parts = data.draw(st.sampled_from([2, 8, 200]))
    with Session(workers=1, threads=2) as session:
        session.set("partitions", parts)
        session.register("rows", {"k": keys, "i": range(len(keys))} if keys else {"k": [], "i": []})
        found = session.query("FROM rows |> ORDER BY k").to_arrow().to_pylist()
    assert [row["i"] for row in found] == sorted(range(len(keys)), key=lambda i: keys[i])


# ---- when the run chooses ------------------------------------------------------------------------


PYTHON = (
    "IMPORT PYTHON 'udf.py' AS q; FROM 'in.jsonl' |> EXTEND q.twice(x) AS y"
    " |> ORDER BY y, i{} |> WRITE '{}' OPTIONS (mode = 'overwrite'{})"
)
ENDS = {
    "one file": ("", "out.jsonl", ""),
    "shards": ("", "out/{shard}.parquet", ", shards = 3"),
    "by size": ("", "out/{shard:03d}.jsonl", ""),
    "by size, columns": ("|> SELECT y", "out/{shard:03d}.parquet", ""),
    "sizes": ("", "out/{shard}.csv", ", max_rows_per_file = 700"),
    "folders": ("|> EXTEND x % 3 AS k", "out/", ", format = 'jsonl', partition_by = [k]"),
    "python behind": ("|> EXTEND q.twice(y) AS z", "out/{shard}.jsonl", ""),
    "a group behind": (
        "|> AGGREGATE list(i) AS is GROUP BY x % 3 AS k |> ORDER BY k",
        "o.jsonl",
        "",
    ),
    "a reducer behind": (
        "|> REDUCE q.all GROUP BY x % 7 AS k RETURNS (n BIGINT[]) |> ORDER BY n",
        "o.jsonl",
        "",
    ),
}


@pytest.fixture
def functions(place):
    place.rows("in.jsonl", [{"x": i * 7919 % 409, "i": i} for i in range(3000)])
    place.functions(
        "def twice(x: int) -> int:\n    return 2 * x\n"
        "def all(key, rows):\n    return {'n': [r['i'] for r in rows]}\n"
    )
    return place


def stages(report):
    return {stage.id: stage for stage in report.stages}


@pytest.mark.parametrize("end", ENDS)
def test_the_same_files_however_they_are_sorted(functions, monkeypatch, end):
    behind, target, options = ENDS[end]
    text = PYTHON.format(behind, target, options)
    if end.startswith("by size"):
        text = f"SET split_size = '8KiB'; {text}"
    found = []
    for memory, workers, off in ((1 << 40, 2, []), (0, 1, []), (0, 4, []), (0, 2, OFF)):
        monkeypatch.setattr(exchanges, "choice", lambda size, _, m=memory: Choice(size > m, ""))
        with functions.session(workers, threads=workers) as session:
            session.set("disabled_rules", off)
            report = session.run(text)
        if not off:  # stage 2 deals the rows out, or leaves them to stage 3
            assert (2 in stages(report)) == (memory == 0 or end == "python behind")
        found.append(functions.bytes("o*.jsonl") | functions.bytes("out/**/[!_]*.*"))
        assert len(found[-1]) > 2 * end.startswith("by size")
    assert found[0] == found[1] == found[2] == found[3]


def test_a_cache_and_a_resumed_run_find_the_ranges(place, monkeypatch):
    place.rows("in.jsonl", [{"x": i * 7919 % 409, "i": i} for i in range(3000)])
    text = "FROM 'in.jsonl' |> ORDER BY x, i |> WRITE '{}/{{shard}}.jsonl' OPTIONS (shards = {});"
    with place.session(1, config={"cache": "kept", "partitions": 4}) as session:
        assert not stages(session.run(text.format("a", 2)))[1].reused
        again = stages(session.run(text.format("b", 3)))
        assert again[1].reused == 1
        said = session.explain(Source("", text.format("d", 4)))
        assert "reuse: stage 1 is there already" in said


def test_memory_that_is_not_enough_for_a_sort_is_for_its_ranges(tmp_path, monkeypatch):
    """160 MB of rows of 8 KB under a budget that DuckDB's own sort fails with."""
    monkeypatch.setattr(exchange, "PIECE_BYTES", 96 << 10)
    monkeypatch.setattr(exchange, "_HELD_BYTES", 128 << 20)
    monkeypatch.chdir(tmp_path)
    text = (
        "FROM 'in.parquet' |> ORDER BY k |> SELECT k, length(text) AS n, left(text, 99) AS text"
        " |> WRITE '{}.parquet'"
    )
    with Session(workers=1, threads=2) as session:
        session.run(
            "FROM range(20000) AS r (i)"
            " |> SELECT hash(i) AS k, repeat(md5(i::VARCHAR), 250) AS text |> WRITE 'in.parquet'"
        )
    with Session(workers=1, threads=2, memory_limit="160MB") as session:
        session.set("partitions", 1)
        with pytest.raises(Exception, match="memory") as error:
            session.run(text.format("whole"))
        assert "partitions" in error.value.hint
        for parts, name in ((16, "ranges"), ("auto", "after all")):
            session.set("partitions", parts)
            report = session.run(text.format(name))
            assert [stage.id for stage in report.stages] == ([1, 2] if parts == 16 else [1, 1])
            found = session.query(f"FROM '{name}.parquet'").to_arrow()["k"].to_pylist()
            assert len(found) == 20000
            assert found == sorted(found)
