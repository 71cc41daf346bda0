"""Queries without WRITE: rows as text, JSON and Arrow; types that Arrow lacks; probes."""

import gc
import os
import signal
import threading
from decimal import Decimal

import fsspec
import pytest
from zql.errors import BindError, Interrupted, StorageError, UdfError


@pytest.fixture
def place(place):
    place.rows("in.jsonl", [{"id": i, "s": f"text {i}", "f": i / 2} for i in range(10)])
    place.functions(
        """
        import uuid, datetime
        from decimal import Decimal
        def untyped(id): return {"n": id, "half": id / 2} if id % 2 else None
        def huge(id): return 10 ** 37 * id
        def money(id): return Decimal(id) / 4
        def echo(x): return x
        def kind(x) -> str: return type(x).__name__ + " " + str(x)
        def mixed(id): return id if id < 5 else "text"
        def fails(id):
            if id == 7: raise ValueError("seven")
            return id
        def typed(id) -> int: return fails(id)
        def gen(id):
            for i in range(id): yield {"i": i}
        def empty(id): return None
        def die(id):
            if id == 4:
                import os
                os._exit(7)
            return id
        def slow(id):
            import time
            time.sleep(1000)
        def late(id): return 1.5 if id > 150 else id
        def upper(s: str) -> str: return s.upper()
        """
    )
    return place


IMPORT = "IMPORT PYTHON 'udf.py' AS q; "


def dicts(place, text, **params):
    return place.shared(2).query(IMPORT + text, params).to_dicts()


def stream(place, text):
    session = place.shared(2)
    query = session.query(IMPORT + text)
    return session.open_rows(query._plan)


def test_text_rows_come_in_turn(place):
    with stream(place, "FROM 'in.jsonl' |> SELECT id, f") as rows:
        assert (rows.names, rows.types) == (["id", "f"], ["BIGINT", "DOUBLE"])
        assert rows.text_rows(2) == [("0", "0.0"), ("1", "0.5")]
        assert len(rows.text_rows(100)) == 8
        assert rows.text_rows(100) == []


def test_json_rows(place):
    with stream(place, "FROM 'in.jsonl' |> EXTEND q.upper(s) AS \"U'\" |> DROP f") as rows:
        assert rows.json_rows(1) == ['{"id":0,"s":"text 0","U\'":"TEXT 0"}']


def test_arrow_batches_and_schema(place):
    with stream(place, "FROM 'in.jsonl' |> EXTEND q.upper(s) AS u") as rows:
        schema = rows.arrow_schema()
        batches = list(rows.batches(4))
    sizes = [b.num_rows for b in batches]
    assert (sum(sizes), max(sizes)) == (10, 4)  # DuckDB may cut them where its readers do
    assert all(b.schema == schema for b in batches)


def test_a_stream_that_is_left_early_frees_what_it_held(place):
    with stream(place, "FROM 'in.jsonl' |> EXTEND q.upper(s) AS u") as rows:
        next(iter(rows.batches(1)))
    assert dicts(place, "FROM 'in.jsonl' |> LIMIT 1")[0]["id"] == 0


def test_types_that_arrow_lacks_survive_steps_stages_and_calls(place):
    plain = """
        FROM 'in.jsonl' |> LIMIT 1 |> SELECT
        CAST('158798437896437949616241483468158498679' AS HUGEINT) AS h,
        CAST('{"a": 1}' AS JSON) AS j, INTERVAL '1 day 3 seconds' AS i,
        CAST('12:00:00+02' AS TIMETZ) AS t,
        CAST('c4c5a92a-1f2c-4a8b-9b1f-1d1d1d1d1d1d' AS UUID) AS u,
        CAST('a' AS ENUM('a', 'b')) AS e, TIMESTAMPTZ '2024-01-01 00:00:00+00' AS z,
        [CAST(3 AS HUGEINT)] AS l
    """
    calls = ", ".join(f"q.kind({c}) AS {c}2" for c in "hjituezl")
    found = dicts(place, f"{plain} |> EXTEND {calls} |> SELECT * REPLACE (CAST(h AS VARCHAR)"
                  " AS h, CAST(l AS VARCHAR) AS l, CAST(i AS VARCHAR) AS i)")[0]  # fmt: skip
    assert found["h"] == "158798437896437949616241483468158498679"
    assert found["h2"] == "int 158798437896437949616241483468158498679"
    assert (found["j"], found["j2"]) == ('{"a": 1}', 'str {"a": 1}')
    assert (found["i"], found["i2"]) == ("1 day 00:00:03", "timedelta 1 day, 0:00:03")
    assert (found["t"], found["t2"]) == ("12:00:00+02", "time 12:00:00+02:00")
    assert found["u2"] == "UUID c4c5a92a-1f2c-4a8b-9b1f-1d1d1d1d1d1d"
    assert (found["e"], found["e2"]) == ("a", "str a")
    assert found["z2"] == "datetime 2024-01-01 00:00:00+00:00"
    assert (found["l"], found["l2"]) == ("[3]", "list [3]")


def test_a_probe_finds_types(place):
    query = place.shared(2).query(
        IMPORT + "FROM 'in.jsonl' |> SELECT q.untyped(id) AS r, q.huge(id) AS h, q.money(id) AS m"
    )
    assert query.types == ["STRUCT(n BIGINT, half DOUBLE)", "HUGEINT", "DECIMAL(38,2)"]
    rows = query.to_dicts()
    assert rows[1]["r"] == {"n": 1, "half": 0.5}
    assert rows[0]["r"] is None
    assert rows[9]["h"] == Decimal(9 * 10**37)
    assert rows[1]["m"] == Decimal("0.25")


def test_a_probe_of_an_iterator(place):
    assert dicts(place, "FROM 'in.jsonl' |> WHERE id < 3 |> FLATMAP q.gen(id)") == [
        {"i": 0}, {"i": 0}, {"i": 1}
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("q.fails(id)", r"udf\.fails on row 8 of in\.jsonl raised ValueError: seven"),
        ("q.mixed(id)", r"row 6 of in\.jsonl has no one type for its results"),
        ("q.die(id)", r"row 5 of in\.jsonl died 3 times \(EXIT\(7\)\)"),
    ],
)
def test_a_probe_fails_as_the_run_would(place, call, said):
    with pytest.raises(UdfError, match=said):
        place.shared(2).query(IMPORT + f"FROM 'in.jsonl' |> WHERE id > 2 |> EXTEND {call} AS x")


def test_a_probe_has_a_limit_in_time(place):
    from dataclasses import replace

    with place.session() as session:
        session.settings = replace(session.settings, probe_seconds=0.3)
        with pytest.raises(UdfError, match=r"took more than 0\.3 seconds"):
            session.query(IMPORT + "FROM 'in.jsonl' |> EXTEND q.slow(id) AS x")


def test_a_later_value_is_never_bent_to_the_probed_type(place):
    place.rows("many.jsonl", [{"id": i} for i in range(200)])
    with pytest.raises(UdfError) as caught:
        dicts(place, "FROM 'many.jsonl' |> EXTEND q.late(id) AS x")
    assert "row 152 of many.jsonl gave 1.5, which does not fit BIGINT" in caught.value.message
    assert "RETURNS DOUBLE" in caught.value.hint


def test_a_row_is_named_behind_filters_and_calls(place):
    text = "FROM 'in.jsonl' |> WHERE id > 3 |> EXTEND q.upper(s) AS u |> WHERE u <> 'TEXT 5'"
    call = " |> WHERE q.{}(id + length(u) - 6) >= 0"
    with pytest.raises(UdfError, match=r"row 8 of in\.jsonl raised ValueError: seven"):
        dicts(place, text + call.format("typed"))
    with pytest.raises(UdfError, match=r"one of the first rows of in\.jsonl raised"):
        dicts(place, text + call.format("fails"))


def test_no_rows_no_type(place):
    with pytest.raises(BindError, match="no row"):
        place.shared(2).query(IMPORT + "FROM 'in.jsonl' |> WHERE id > 99 |> MAP q.untyped")


def test_a_limit_stops_the_tasks(place):
    place.rows("more.jsonl", [{"id": i} for i in range(10)])
    place.functions(
        """
        def f(id: int) -> int:
            with open("calls", "a") as file:
                file.write("x")
            return id
        """,
        "count.py",
    )
    text = "IMPORT PYTHON 'count.py' AS c; FROM ['in.jsonl', 'more.jsonl'] |> WHERE c.f(id) > 2"
    rows = place.shared(2).query(text + " |> SELECT id |> LIMIT 3").to_dicts()
    assert [row["id"] for row in rows] == [3, 4, 5]
    assert len((place.folder / "calls").read_text()) <= 10  # none for the second file


def test_objects_handed_in(place):
    rows = place.shared(2).query(
        IMPORT + "FROM t |> EXTEND q.upper(s) AS u |> WHERE u LIKE 'A%'",
        tables={"t": [{"s": "ab"}, {"s": "b"}, {"s": None}]},
    )
    assert rows.to_dicts() == [{"s": "ab", "u": "AB"}]


def test_a_broken_input_is_told_by_its_reader(place):
    (place.folder / "bad.jsonl").write_text('{"id": 1}\n{"id": 2\n')
    with pytest.raises(StorageError, match=r"bad\.jsonl"):
        dicts(place, "FROM read_json('bad.jsonl', columns => {id: 'BIGINT'}) |> EXTEND q.die(id)")


def test_ctrl_c_reaches_a_function_in_this_process(place):
    place.functions("import time\ndef f(id: int) -> int:\n    time.sleep(1000)\n", "sleepy.py")
    query = place.shared(2).query(
        "IMPORT PYTHON 'sleepy.py' AS z; FROM 'in.jsonl' |> EXTEND z.f(id)"
    )
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(Interrupted):
        query.to_dicts()
    assert len(dicts(place, "FROM 'in.jsonl'")) == 10


def test_many_queries_hold_no_more_than_one(place):
    def run():
        dicts(place, "FROM 'in.jsonl' |> EXTEND q.upper(s) AS u |> AGGREGATE max(u) AS m")
        with stream(place, "FROM 'in.jsonl'") as rows:
            rows.text_rows(1)
        gc.collect()
        return len(os.listdir("/proc/self/fd")), threading.active_count()

    run()
    first = run()
    for _ in range(10):
        last = run()
    assert last[0] <= first[0]
    assert last[1] <= first[1]


def test_files_elsewhere(place):
    system = fsspec.filesystem("memory")
    system.pipe("/execution/a.jsonl", b'{"s": "a"}\n{"s": "b"}\n')
    system.pipe("/execution/b.jsonl", b'{"s": "c"}\n')
    assert [
        r["u"] for r in dicts(place, "FROM 'memory://execution/*.jsonl' |> EXTEND q.upper(s) AS u")
    ] == ["A", "B", "C"]
    text = "FROM 'memory://execution/*.jsonl' |> WRITE 'memory://execution/o/{shard}.parquet'"
    outputs = place.run(text).outputs
    assert [(f.path, f.rows) for f in outputs] == [
        ("memory://execution/o/0.parquet", 2), ("memory://execution/o/1.parquet", 1)
    ]  # fmt: skip
    with pytest.raises(StorageError, match="exists"):
        place.run(text)
    place.run(text + " OPTIONS (mode = 'overwrite', shards = 1)")
    assert sorted(system.find("/execution/o")) == [
        "/execution/o/0.parquet", "/execution/o/_SUCCESS", "/execution/o/_zql_manifest.json"
    ]  # fmt: skip
    assert len(dicts(place, "FROM 'memory://execution/o/*.parquet'")) == 3


# ---- which side of a join is held ------------------------------------------------------------


@pytest.mark.parametrize(("hint", "held"), [("", "in0"), ("@{strategy = broadcast}", "big")])
def test_a_broadcast_holds_the_right_side(place, hint, held):
    place.rows("in0.jsonl", [{"k": i, "a": i} for i in range(10)])
    place.rows("big.jsonl", [{"k": i % 10, "b": i} for i in range(5000)])
    text = f"FROM 'in0.jsonl' AS s |> JOIN {hint} 'big.jsonl' AS b USING (k)"
    text += " |> AGGREGATE count(*) AS n, sum(b) AS total"
    with place.session(threads=1) as session:
        told = session.explain(text, level="analyze")
        assert session.query(text).to_arrow().to_pylist() == [{"n": 5000, "total": 12_497_500}]
        assert session.query("FROM range(1) |> SELECT current_setting('disabled_optimizers') AS o"
                             ).to_arrow().to_pylist() == [{"o": ""}]  # fmt: skip
    joined = str(told).split("HASH_JOIN", 1)[1]
    sides = [line for line in joined.splitlines() if "READ_JSON" in line]
    assert len(sides) == 2
    rows = {"in0": " 10 ", "big": "5,000"}[held]
    assert rows in sides[1], str(told)
