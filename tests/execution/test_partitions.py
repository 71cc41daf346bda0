"""Groups are the same whether they are made in one statement or partition by partition."""

import itertools
import os
import threading

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from zql.errors import Interrupted
from zql.execution import exchange, partitions
from zql.execution.engine import OUT_OF_MEMORY, EngineError
from zql.execution.exchange import deal
from zql.execution.partitions import Ways, groups
from zql.execution.settings import Settings
from zql.expr.expression import Column
from zql.optimizer.rules import partition_aggregates
from zql.physical.plan import Spread
from zql.session import Session
from zql.source import Source

EXAMPLES = int(os.environ.get("ZQL_EXAMPLES", "60"))
OFF = ["partition_aggregates"]

# What GROUP BY takes for equal, written in several ways, and what it does not.
VALUES = {
    "BOOLEAN": ["true", "false", "NULL"],
    "BIGINT": ["0", "-1", "9223372036854775807", "NULL"],
    "UTINYINT": ["0", "255"],
    "HUGEINT": ["0", "170141183460469231731687303715884105727", "-1"],
    "UHUGEINT": ["0", "1"],
    "BIGNUM": ["1", "'01'", "'-123456789012345678901234567890'"],
    "DECIMAL(10, 2)": ["1.0", "1.00", "-0.5", "0"],
    "DOUBLE": ["0.0", "'-0.0'", "'nan'", "'-nan'", "'inf'", "'-inf'", "1", "NULL"],
    "FLOAT": ["0.0", "'-0.0'", "'nan'", "0.1"],
    "VARCHAR": ["''", "'a'", "'A'", "'é'", "'e\u0301'", "'a longer text than twelve'", "NULL"],
    "BLOB": ["'a'", r"'\x61'", "''"],
    "BIT": ["'0101'", "'101'"],
    "UUID": ["'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'", "'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'"],
    "DATE": ["'2020-01-01'", "'infinity'", "NULL"],
    "TIME": ["'12:00'", "'12:00:00.0'"],
    "TIME WITH TIME ZONE": ["'12:00:00+00'", "'13:00:00+01'"],
    "TIMESTAMP": ["'2020-01-01'", "'2020-01-01 00:00:00'"],
    "TIMESTAMP_NS": ["'2020-01-01'", "'2020-01-01 00:00:00.000000001'"],
    "TIMESTAMP WITH TIME ZONE": ["'2020-01-01 12:00:00+00'", "'2020-01-01 13:00:00+01'"],
    "INTERVAL": ["'1 month'", "'30 days'", "'720 hours'", "'1 year'", "'12 months'", "'1 day'"],
    "JSON": ["""'{"a":1}'""", """'{"a": 1}'""", "'[]'", "NULL"],
    "ENUM('a', 'b')": ["'a'", "'b'", "NULL"],
    "DOUBLE[]": ["[0.0, NULL]", "['-0.0'::DOUBLE, NULL]", "['nan'::DOUBLE]", "[]", "NULL"],
    "INTERVAL[]": ["['1 month'::INTERVAL]", "['30 days'::INTERVAL]", "[]"],
    "DOUBLE[2]": ["[0.0, 1.0]", "['-0.0'::DOUBLE, 1.0]", "NULL"],
    "STRUCT(a DOUBLE, b VARCHAR)": [
        "{'a': 0.0, 'b': 'x'}",
        "{'a': '-0.0'::DOUBLE, 'b': 'x'}",
        "{'a': NULL, 'b': NULL}",
        "NULL",
    ],
    "MAP(INTEGER, DOUBLE)": ["MAP {1: 0.0}", "MAP {1: '-0.0'::DOUBLE}", "MAP {}", "NULL"],
}
AGGREGATES = {
    "median": "median(x) AS v",
    "quantiles": "quantile_cont(x, [0.1, 0.9]) AS v, quantile_disc(x, 0.5) AS w, mad(x) AS z",
    "of an expression": "median(x * 2 + length(s)) FILTER (WHERE x % 3 > 0) / 2 AS v",
    "lists": "list(x) AS v, string_agg(s, '-') AS w, array_agg(x ORDER BY s DESC, x) AS z",
    "with others": "count(*) AS v, sum(x) AS w, first(s) AS z, median(x) AS y",
    "distinct": "count(DISTINCT x % 5) AS v, sum(DISTINCT length(s)) AS w",
    "distinct list": "list(DISTINCT x % 5 ORDER BY x % 5) AS v",
    "highest": "max(x, 2) AS v, arg_max(s, x, 3) AS w, min_by(s, x, 1) AS z",
    "of the key": "list(k) AS v",
    "one value twice": "median(x + 1) AS v, list(x + 1) AS w",
    "equal in Python": "list([x, 1]) AS v, list([x = 1, TRUE]) AS w, list([x, 1.0]) AS z",
    "types that Arrow lacks": "list(x::HUGEINT * 10000000000000000000) AS v,"
    " list(('[' || x || ']')::JSON) AS w, list((x % 2)::VARCHAR::BIT) AS z,"
    " list(to_months(x)) AS y, list((s[:1])::ENUM('', 's', '0', '1', '2')) AS u,"
    " list('12:00:00+01'::TIME WITH TIME ZONE) AS t, list({'a': x::UHUGEINT}) AS r,"
    " list(uuid() IS NULL) AS q, list(MAP {x: x = 2}) AS p",
    "a constant": "list(7) AS v, median(3) AS w",
    "a lambda": "list(list_sum(list_transform([x, 2], lambda e: e * x))) AS v",
}


@pytest.fixture(scope="module")
def session():
    with Session(workers=2, threads=2) as session:
        yield session


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Batches of a few rows, so that partitions have several."""
    monkeypatch.setattr(exchange, "PIECE_BYTES", 1 << 6)


def rows(session, text, parts=None, off=()):
    session.set("partitions", parts or "auto")
    session.set("disabled_rules", list(off))
    if parts:
        assert ("by DuckDB's hash" in session.explain(Source("", text))) == (not off)
    found = session.query(text).to_arrow().to_pylist()
    return sorted(found, key=repr)


@pytest.mark.parametrize("parts", [2, 7, 64])
@pytest.mark.parametrize("kind", VALUES)
def test_keys_of_all_types(session, kind, parts):
    values = ", ".join(f"({value})::{kind}" for value in VALUES[kind])
    for key in ("k", "[k]", "{'a': k, 'b': x % 2}"):
        text = (
            f"FROM range(300) AS r (x) |> EXTEND [{values}][x % {len(VALUES[kind])} + 1] AS k"
            f" |> AGGREGATE count(*) AS n, median(x) AS m, list(x) AS xs GROUP BY {key} AS k"
            " |> SELECT n, m, xs"
        )
        assert rows(session, text, parts) == rows(session, text, parts, OFF)


@pytest.mark.parametrize("name", AGGREGATES)
def test_aggregates(session, name):
    text = (
        "FROM range(500) AS r (i) |> SELECT i % 7 AS k, (i * 7919) % 101 AS x,"
        " repeat('s', i % 4) || i % 3 AS s |> DISTINCT ON (x, k)"
        f" |> ORDER BY x, k |> AGGREGATE {AGGREGATES[name]} GROUP BY k"
    )
    assert rows(session, text, 5) == rows(session, text, 5, OFF)


BY = {
    "several keys": "x % 3 AS a, s, x % 2 = 0 AS c",
    "one column twice": "x % 3 AS a, x % 3 AS b",
    "the argument": "x",
    "a constant": "1 AS one",
}


@pytest.mark.parametrize("name", BY)
def test_groups_by(session, name):
    text = (
        "FROM range(200) AS r (x) |> EXTEND 't' || x % 4 AS s"
        f" |> AGGREGATE median(x) AS m, count(*) AS n GROUP BY {BY[name]}"
    )
    assert rows(session, text, 4) == rows(session, text, 4, OFF)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT x % 3 + median(x) AS m, x % 3 AS k FROM range(99) AS r (x) GROUP BY x % 3",
        "SELECT x % 3 AS k FROM range(99) AS r (x) GROUP BY k HAVING list(x)[1] > 0",
        (
            "FROM range(99) AS r (x) |> WHERE x IN (FROM range(9) AS q (y)"
            " |> AGGREGATE median(y) AS m GROUP BY y % 2 AS k |> SELECT m)"
        ),
        (
            "FROM range(99) AS r (x) |> EXTEND x % 4 AS g |> PARTITION BY g THEN"
            " (|> AGGREGATE median(x) AS m GROUP BY x % 3 AS k)"
        ),
        (
            "FROM range(99) AS r (x) |> EXTEND x % 3 AS y, x % 5 AS g"
            " |> PIVOT (median(x) FOR y IN (0, 1))"
        ),
    ],
)
def test_groups_of_other_statements(session, text):
    assert rows(session, text, 4) == rows(session, text, 4, OFF)


def test_each_volatile_key_and_value_is_made_once(session):
    text = (
        "FROM range(300) AS r (x) |> AGGREGATE list(random()) AS a, list(random()) AS b"
        " GROUP BY floor(random() * 5) AS k, floor(random() * 2) AS l"
    )
    found = rows(session, text, 4)
    assert sorted({row["k"] for row in found}) == [0, 1, 2, 3, 4]
    assert len(found) == 10
    assert all(row["a"] != row["b"] for row in found)
    assert sum(len(row["a"]) for row in found) == 300


def test_no_rows(session):
    text = "FROM range(9) AS r (x) |> WHERE x > 9 |> AGGREGATE list(x + 1) AS m GROUP BY x % 2 AS k"
    assert rows(session, text, 4) == []


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.floats(), st.text(max_size=2)), max_size=60),
    st.sampled_from(["a", "b", "c", "a, b", "b, c, a", "[b], c"]),
    st.sampled_from([1, 2, 16, 200]),
)
def test_any_rows(given, keys, parts):
    a, b, c = zip(*given, strict=True) if given else ((), (), ())
    data = pa.table(
        {
            "a": pa.array(a, pa.int64()),
            "b": pa.array(b, pa.float64()),
            "c": pa.array(c, pa.string()),
            "i": pa.array(range(len(given)), pa.int64()),
        }
    )
    named = ", ".join(f"{key} AS k{n}" for n, key in enumerate(keys.split(", ")))
    with Session(workers=1, threads=2) as session:
        session.register("data", data)
        text = (
            f"FROM data |> AGGREGATE list(i) AS xs, median(i) AS m GROUP BY {named} |> SELECT xs, m"
        )
        session.set("partitions", parts)
        found = sorted(session.query(text).to_arrow().to_pylist(), key=repr)
        session.set("disabled_rules", OFF)
        assert found == sorted(session.query(text).to_arrow().to_pylist(), key=repr)


# ---- when the run chooses ------------------------------------------------------------------------


def stages(report):
    return {stage.id: stage for stage in report.stages}


PYTHON = (
    "IMPORT PYTHON 'udf.py' AS q; FROM 'in.jsonl' |> EXTEND q.twice(x) AS y"
    " |> AGGREGATE median(y) AS m, list(y) AS ys GROUP BY x % 11 AS k"
    " |> ORDER BY k |> WRITE '{}.jsonl'"
)


@pytest.fixture
def functions(place):
    place.rows("in.jsonl", [{"x": i * 7919 % 1009} for i in range(3000)])
    place.functions("def twice(x: int) -> int:\n    return 2 * x\n")
    return place


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_rows_of_python_are_dealt_out_when_there_are_many(functions, monkeypatch, workers):
    with functions.session(workers, threads=workers) as session:
        few = session.run(PYTHON.format("few"))
        assert stages(few).keys() == {1, 3, 4}
        monkeypatch.setattr(partitions, "SHARE", 1 << 20)
        many = session.run(PYTHON.format("many"))
        assert stages(many)[2].rows == 3000
        assert stages(many)[3].rows == 11
    names = functions.bytes("*.jsonl")
    assert names["few.jsonl"] == names["many.jsonl"]


def test_tables_frames_and_what_branches_share(place):
    data = pa.table({"k": [i % 5 for i in range(900)], "x": range(900)})
    with Session(workers=1, threads=2) as session:
        session.register("data", data)
        session.run("CREATE TEMP TABLE kept AS FROM data |> WHERE x > 3;")
        for off in ([], OFF):
            session.set("disabled_rules", off)
            session.set("partitions", 4)
            session.run(
                f"FROM kept |> AGGREGATE median(x) AS m GROUP BY k"
                f" |> JOIN (FROM data |> AGGREGATE mad(x) AS d GROUP BY k) AS o USING (k)"
                f" |> ORDER BY k |> WRITE 'joined-{len(off)}.jsonl';"
                f" FROM data |> EXTEND x + 1 AS y |> TEE (|> AGGREGATE median(y) AS m GROUP BY k"
                f" |> ORDER BY k |> WRITE 'tee-{len(off)}.jsonl')"
                f" |> AGGREGATE list(y) AS ys GROUP BY k |> ORDER BY k"
                f" |> WRITE 'main-{len(off)}.jsonl';"
            )
    found = place.bytes("*.jsonl")
    for name in ("joined", "tee", "main"):
        assert found[f"{name}-0.jsonl"] == found[f"{name}-1.jsonl"]
        assert found[f"{name}-0.jsonl"]


def test_a_cache_finds_groups_however_they_were_made(place):
    place.rows("in.jsonl", [{"x": i} for i in range(500)])
    text = (
        "FROM 'in.jsonl' |> AGGREGATE median(x) AS m GROUP BY x % 7 AS k |> ORDER BY k"
        " |> WRITE '{}.jsonl';"
    )
    with place.session(1, config={"cache": "kept", "partitions": 4}) as session:
        assert stages(session.run(text.format("a")))[2].reused == 0
        again = stages(session.run(text.format("b")))
        assert again.keys() == {2, 3, 4}  # the order of the groups is made by ranges, too
        assert again[2].reused == 1
        said = session.explain(Source("", text.format("d")))
        assert "reuse: stage 2 is there already" in said
        session.set("partitions", 9)
        assert stages(session.run(text.format("c")))[2].reused == 1
    assert len({tuple(data) for data in place.bytes("?.jsonl").values()}) == 1


def test_rows_alike_are_dealt_once_where_that_is_all_that_counts(place, monkeypatch):
    monkeypatch.setattr(partition_aggregates, "WORTH_BYTES", 0)
    monkeypatch.setattr(partition_aggregates, "_PARTITION_BYTES", 1)
    place.rows("in.jsonl", [{"x": i % 10, "s": f"t{i % 30}"} for i in range(600)])
    text = (
        "FROM 'in.jsonl' |> AGGREGATE {} GROUP BY x % 2 AS k |> ORDER BY k"
        " |> WRITE '{}.jsonl' OPTIONS (mode = 'overwrite');"
    )
    seen = (
        "count(DISTINCT s) AS n, max(x) AS m,"
        " list(DISTINCT x ORDER BY x) FILTER (WHERE x > 2) AS xs"
    )
    with place.session(1) as session:
        for values, most in ((seen, 90), (f"{seen}, count(*) AS c", 600)):
            session.set("partitions", 4)
            assert stages(session.run(text.format(values, "dealt")))[1].rows <= most
            session.set("partitions", "auto")
            assert 1 not in stages(session.run(text.format(values, "one")))
            session.set("partitions", 1)
            session.run(text.format(values, "off"))
            found = place.bytes("*.jsonl")
            assert found["dealt.jsonl"] == found["one.jsonl"] == found["off.jsonl"]


def test_groups_over_what_is_shared(place, monkeypatch):
    monkeypatch.setattr(partition_aggregates, "WORTH_BYTES", 0)
    monkeypatch.setattr(partition_aggregates, "_PARTITION_BYTES", 1)
    place.rows("in.jsonl", [{"x": i % 10} for i in range(60)])
    text = (
        "CREATE OR REPLACE TEMP VIEW v AS FROM 'in.jsonl' |> AGGREGATE count(*) AS n GROUP BY x;"
        "FROM v AS a |> JOIN v AS b ON a.n = b.n |> SELECT a.x AS x, b.x AS y"
        " |> AGGREGATE median(y) AS m GROUP BY x |> ORDER BY x"
        " |> WRITE 'out.jsonl' OPTIONS (mode = 'overwrite');"
    )
    found = []
    with place.session(1) as session:
        for count in (4, "auto", 1):
            session.set("partitions", count)
            session.run(text)
            found.append(place.read("out.jsonl"))
    assert found[0] == found[1] == found[2] == [{"x": x, "m": 4.5} for x in range(10)]


def test_figures(place):
    with place.session(1, config={"partitions": 4}) as session:
        text = "EXPLAIN ANALYZE FROM range(99) AS r (x) |> AGGREGATE median(x) GROUP BY x % 2 AS k"
        (said,) = [r.text for r in session.statements(Source("", text)) if r.kind == "text"]
    assert "99" in said


BLOWN_UP = (
    "FROM 'in.jsonl' |> UNNEST range(x) AS i |> AGGREGATE median(i) AS m, count(*) AS n"
    " GROUP BY i % 700001 AS k |> AGGREGATE count(m) AS k, sum(n) AS n |> WRITE '{}.jsonl'"
)


def test_groups_that_turn_out_too_many(place, monkeypatch):
    monkeypatch.setattr(exchange, "PIECE_BYTES", 96 << 10)
    place.rows("in.jsonl", [{"x": 2_000_000}])
    with place.session(1, threads=2, memory_limit="90MB") as session:
        with pytest.raises(EngineError) as error:
            session.run(BLOWN_UP.format("small"))
        assert "SET partitions = 16" in error.value.hint
        session.set("partitions", 16)
        assert stages(session.run(BLOWN_UP.format("asked")))[2].tasks == 16
        # The same where a plan knows of many rows, and the run takes them for few.
        monkeypatch.setattr(partition_aggregates, "WORTH_BYTES", 0)
        monkeypatch.setattr(partition_aggregates, "_PARTITION_BYTES", 1)
        session.set("partitions", "auto")
        assert stages(session.run(BLOWN_UP.format("retried")))[1].rows == 2_000_000
    names = place.bytes("*.jsonl")
    assert names["asked.jsonl"] == names["retried.jsonl"] == b'{"k":700001,"n":2000000}\n'


# ---- when memory is not enough -------------------------------------------------------------------


def dealt(folder, tickets, parts):
    table = pa.table({"ticket": pa.array(tickets, pa.int64())})
    spread = Spread(Column("ticket", "BIGINT"), None, parts, (), "any")
    path = str(folder / "x.arrow")
    return deal(table.to_batches(max_chunksize=7), table.schema, spread, path, 1 << 30)


@pytest.mark.parametrize("parts", [1, 4])
@pytest.mark.parametrize("most", [1000, 40, 5])
def test_a_partition_too_big_is_grouped_in_parts(tmp_path, parts, most):
    tickets = [i * 2**63 // 250 for i in range(250)]
    found = dealt(tmp_path, tickets, parts)
    tried = []

    def select(batches):
        got = list(itertools.chain.from_iterable(b["ticket"].to_pylist() for b in batches))
        tried.append(len(got))
        if len(got) > most:
            raise EngineError("none left", kind=OUT_OF_MEMORY)
        return [pa.record_batch({"ticket": got})] if got else []

    ways = Ways.of(found, Settings(threads=2, memory=1 << 30))
    got = [t for b in groups(found, ways, select, lambda: None) for t in b["ticket"].to_pylist()]
    assert sorted(got) == tickets
    assert (max(tried) > most) == (most < 250)


def test_one_hot_key_cannot_be_divided(tmp_path):
    found = dealt(tmp_path, [5] * 20, 4)

    def select(batches):
        if list(batches):
            raise EngineError("none left", kind=OUT_OF_MEMORY)
        return []

    ways = Ways.of(found, Settings(threads=2))
    with pytest.raises(EngineError, match="none left"):
        list(groups(found, ways, select, lambda: None))


def test_ways_fit_into_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(partitions, "_LARGEST", 100)
    found = dealt(tmp_path, [i * 2**63 // 400 for i in range(400)], 32)
    sizes = [p.bytes for p in found.partitions]
    ways = Ways.of(found, Settings(threads=4, memory=1 << 30))
    assert [n for numbers in ways.ranges for n in numbers] == list(range(32))
    assert all(sum(sizes[n] for n in numbers) >= 100 for numbers in ways.ranges)
    assert (ways.at_a_time, ways.threads) == (4, 1)
    asked = Ways.of(found, Settings(threads=4, memory=1 << 30, partitions=32))
    assert len(asked.ranges) == 32
    monkeypatch.setattr(partitions, "SHARE", (1 << 30) // 300)
    little = Ways.of(found, Settings(threads=4, memory=1 << 30))
    assert (little.at_a_time, little.threads) == (2, 2)


def test_an_interruption_stops_the_statements(tmp_path):
    found = dealt(tmp_path, [i * 2**63 // 250 for i in range(250)], 8)
    told, numbers = threading.Event(), itertools.count()

    def select(_):
        if next(numbers) == 0:
            raise KeyboardInterrupt
        assert told.wait(30)
        return []

    ways = Ways.of(found, Settings(threads=2, partitions=8))
    with pytest.raises(Interrupted):
        list(groups(found, ways, select, told.set))
    assert next(numbers) <= 4
