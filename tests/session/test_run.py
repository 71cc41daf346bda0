"""Scripts from text to results and files."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import threading

import pyarrow as pa
import pytest
import zql
from zql.errors import RunError, UdfError
from zql.source import Source

from leaks import Leaks


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize(
    "source",
    [
        "VALUES (1, 2), (2, 0) AS t (id, n)",
        "'numbers.jsonl'",
        "(FROM 'numbers.jsonl' |> ORDER BY id)",
    ],
)
def test_an_exception_names_function_row_and_call(session, folder, source):
    (folder / "numbers.jsonl").write_text('{"id": 1, "n": 2}\n{"id": 2, "n": 0}\n')
    (folder / "bad.py").write_text("def invert(n: int) -> float:\n    return 1 / n\n")
    script = f"IMPORT PYTHON 'bad.py' AS b;\nFROM {source} |> EXTEND b.invert(n) AS r"
    with pytest.raises(UdfError) as caught:
        list(session.statements(Source("job.zql", script), base_dir=str(folder)))
    text = str(caught.value)
    assert "bad.invert on row 2" in text
    assert "ZeroDivisionError" in text
    assert 'File "bad.py", line 2, in invert' in text
    assert caught.value.line == 2
    assert caught.value.span.text == "b.invert(n)"


def test_records_written_equals_the_rows(session, folder):
    for k in range(3):
        rows = "".join(json.dumps({"title": f"Title {k} {i}"}) + "\n" for i in range(10 + k))
        (folder / f"in{k}.jsonl").write_text(rows)
    report = session.run(
        "FROM 'in*.jsonl' |> SELECT lower(title) AS title |> WRITE 'titles-{shard:05d}.jsonl'"
    )
    assert report.counters["records_in"] == 33
    assert report.counters["records_written"] == 33
    assert [f.rows for f in report.outputs] == [10, 11, 12]
    assert read(folder / "titles-00002.jsonl")[0] == {"title": "title 2 0"}


def test_types_seen_on_the_first_rows_are_verified_by_the_run(session, folder):
    rows = [{"a": i, "b": "x"} for i in range(60_000)] + [{"a": "late", "b": "y"}]
    (folder / "late.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    for _ in range(2):
        session.run(
            "FROM 'late.jsonl' |> WHERE b >= 'x' |> SELECT a "
            "|> WRITE 'o.jsonl' OPTIONS (mode = 'overwrite')"
        )
        assert read(folder / "o.jsonl")[-2:] == [{"a": "59999"}, {"a": "late"}]


def test_a_query_is_lazy_and_knows_its_columns(session, folder):
    query = session.query("FROM 'docs.jsonl' |> WHERE lang = 'en' |> SELECT id, title")
    assert query.columns == ["id", "title"]
    assert query.types == ["BIGINT", "VARCHAR"]
    assert "not run" in repr(query)
    assert query.to_dicts() == [{"id": 1, "title": "Alpha"}, {"id": 3, "title": "Gamma"}]
    assert query.then("|> WHERE id > 1").count() == 1
    assert query.first() == {"id": 1, "title": "Alpha"}
    assert query.collect(limit=1).num_rows == 1
    assert [b.num_rows for b in query.to_reader()] == [2]


def test_sessions_that_nobody_closes_leave_nothing(tmp_path):
    """Neither that behind `zql.query`, nor one that is forgotten, nor one open at the end."""
    script = """
import gc, os, threading, zql
from zql.session import Session
def f(x: int) -> int:
    return x + 1
if __name__ == "__main__":
    zql.query("FROM range(2)").to_dicts()
    Session().query("FROM range(2)").to_dicts()
    gc.collect()
    assert len(os.listdir(os.environ["TMPDIR"])) == 1
    assert sum(t.name == "zql-engine" for t in threading.enumerate()) == 1
    session = Session(workers=1)
    session.udf(f)
    session.run("CREATE TEMP TABLE t AS FROM range(3)")
    session.run("FROM t |> EXTEND f(range) AS y |> WRITE 'o.csv'")
"""
    (tmp_path / "script.py").write_text(script)
    (tmp_path / "temp").mkdir()
    subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env={
            **os.environ,
            "TMPDIR": str(tmp_path / "temp"),
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
        check=True,
    )
    assert list((tmp_path / "temp").iterdir()) == []


def test_local_variables_with_an_arrow_stream_are_tables():
    import pyarrow as pa

    people = pa.table({"name": ["a", "b"], "age": [1, 2]})
    assert zql.query("FROM people |> WHERE age > 1 |> SELECT name").to_dicts() == [{"name": "b"}]
    assert people.num_rows == 2
    rows = [{"x": 1}, {"x": 2, "y": "z"}]
    assert zql.query("FROM t |> SELECT x, y", tables={"t": rows}).to_dicts() == [
        {"x": 1, "y": None},
        {"x": 2, "y": "z"},
    ]


def test_other_libraries_take_a_query_as_a_stream(session, folder):
    pl = pytest.importorskip("polars")
    pd = pytest.importorskip("pandas")
    query = session.query("FROM 'docs.jsonl' |> SELECT id, title")
    assert pl.DataFrame(query).shape == (3, 2)
    assert query.to_polars()["id"].to_list() == [1, 2, 3]
    assert isinstance(query.to_pandas(), pd.DataFrame)


def test_write_from_a_query(session, folder):
    report = session.query("FROM 'docs.jsonl' |> SELECT id").write(
        "ids.parquet", compression="zstd"
    )
    assert report.counters["records_written"] == 3
    assert (folder / "ids.parquet").exists()
    with pytest.raises(zql.ZqlError):
        session.query("FROM 'docs.jsonl' |> SELECT id").write("ids.parquet")


def test_a_function_of_the_caller_runs_in_a_query(session, folder):
    offset = 10

    def shifted(n: int) -> int:
        return n + offset

    session.udf(shifted)
    assert session.query("FROM 'docs.jsonl' |> SELECT shifted(id) AS n").to_dicts()[0] == {"n": 11}


def test_the_last_result_goes_on(session, folder):
    list(session.statements(Source("<repl>", "FROM 'docs.jsonl' |> WHERE id > 1;")))
    (result,) = session.statements(Source("<repl>", "|> SELECT id;"))
    with result.rows as rows:
        assert rows.text_rows(10) == [("2",), ("3",)]
    (result,) = session.statements(Source("<repl>", "FROM _ |> SELECT id + 1 AS n;"))
    with result.rows as rows:
        assert rows.text_rows(10) == [("3",), ("4",)]


def test_sums_of_integers_are_integers(session, folder):
    query = session.query("FROM 'docs.jsonl' |> AGGREGATE sum(id) AS s")
    assert query.types == ["HUGEINT"]
    for rows in (query.to_dicts(), query.collect().to_dicts()):
        assert rows == [{"s": 6}]
        assert type(rows[0]["s"]) is int


def test_try_takes_exceptions_of_python_functions(session, folder):
    (folder / "bad.py").write_text("def invert(n: int) -> float:\n    return 1 / n\n")
    script = (
        "IMPORT PYTHON 'bad.py' AS b; FROM VALUES (1), (0), (2) AS t (n)"
        " |> SELECT n, TRY(b.invert(n) + 1) AS r, coalesce(TRY(b.invert(n)), -1) AS d"
    )
    (_, result) = session.statements(Source("job.zql", script), base_dir=str(folder))
    with result.rows as rows:
        assert rows.text_rows(9) == [("1", "2.0", "1.0"), ("0", None, "-1.0"), ("2", "1.5", "0.5")]


def test_rows_that_were_not_read_confirm_no_types(session, folder):
    rows = [{"a": i} for i in range(60_000)] + [{"a": "late"}]
    (folder / "late.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    write = (
        "FROM 'late.jsonl' |> WHERE {} |> SELECT a |> WRITE 'o.jsonl' OPTIONS (mode = 'overwrite')"
    )
    session.run(write.format("1 = 2 AND a IS NOT NULL"))
    session.run(write.format("a IS NOT NULL"))
    assert read(folder / "o.jsonl")[-1] == {"a": "late"}


def test_flatmap_of_plain_values_gives_a_column(session, folder):
    (folder / "it.py").write_text(
        "from collections.abc import Iterator\n"
        "def gen(n: int) -> Iterator[int]:\n    yield from range(n)\n"
        "def whole(n: int) -> list[int]:\n    return list(range(n))\n"
    )
    for name in ("gen", "whole"):
        script = f"IMPORT PYTHON 'it.py' AS i; FROM VALUES (2) AS t (n) |> FLATMAP i.{name}(n)"
        (_, result) = session.statements(Source("job.zql", script), base_dir=str(folder))
        with result.rows as rows:
            assert rows.text_rows(9) == [("0",), ("1",)]


def test_too_many_threads_are_a_slip():
    with pytest.raises(zql.UsageError, match="from 1 to 1024"):
        zql.Session(threads=100_000)


def test_a_name_may_mean_another_table_in_the_next_query(session):
    table = pa.table({"a": [1, 2]})
    first = session.query("FROM table")
    table = pa.table({"a": [3], "b": [4]})
    second = session.query("FROM table")
    assert second.to_dicts() == [{"a": 3, "b": 4}]
    assert first.to_dicts() == [{"a": 1}, {"a": 2}]
    assert first.then("|> WHERE a > 1").to_dicts() == [{"a": 2}]
    assert session.query("FROM t", tables={"t": [{"x": 1}]}).to_dicts() == [{"x": 1}]
    assert session.query("FROM t", tables={"t": [{"y": 2}]}).to_dicts() == [{"y": 2}]
    assert table.num_rows == 1


def test_what_is_handed_in_wins_over_what_is_registered(session):
    session.register("t", [{"x": 1}])
    assert session.query("FROM t").to_dicts() == [{"x": 1}]
    assert session.query("FROM t", tables={"t": [{"x": 2}]}).to_dicts() == [{"x": 2}]
    assert session.query("FROM t").to_dicts() == [{"x": 1}]


def test_tables_of_queries_that_are_gone_are_not_kept(session):
    for number in range(5):
        session.query("FROM t", tables={"t": pa.table({"a": [number]})}).to_dicts()
    gc.collect()
    assert not session._handed.tables


@pytest.mark.parametrize("text", ["FROM (", "FROM nothing", "VALUES (1)"])
def test_a_session_that_is_closed_at_once_leaves_no_folder(folder, text):
    temp = folder / "temp"
    temp.mkdir()
    for _ in range(5):
        with zql.Session(temp_dir=str(temp)) as session:
            session.check(Source("job.zql", text))
    assert list(temp.iterdir()) == []


TWO_OUTPUTS = """CREATE TEMP FUNCTION f(n BIGINT) RETURNS BIGINT LANGUAGE python AS $$
def f(n): return n
$$;
FROM range(100000)
|> EXTEND f(range) AS n
|> TEE (|> WRITE 'out/a.jsonl')
|> WHERE n > 10;
"""


def engine_threads():
    """Threads that make calls of DuckDB, those of this process's other sessions among them."""
    return {thread for thread in threading.enumerate() if thread.name == "zql-engine"}


@pytest.mark.parametrize("text", ["FROM range(100000)", TWO_OUTPUTS])
@pytest.mark.parametrize("end", ["dropped", "closed"])
def test_rows_that_are_not_read_to_their_end_leave_nothing(folder, text, end):
    """Those that nobody holds any longer, and those that a session is closed with."""
    temp = folder / "temp"
    temp.mkdir()
    before = engine_threads()
    with zql.Session(temp_dir=str(temp), workers=1) as session:
        leaks = Leaks(temp)
        results = [r for r in session.statements(Source("job.zql", text)) if r.rows is not None]
        batches = results[0].rows.batches()
        assert next(batches).num_rows > 0
        if end == "dropped":
            del results, batches
            gc.collect()
            assert not [left for left in leaks.found() if "folder" in left or "lock" in left]
    assert list(temp.iterdir()) == []
    assert engine_threads() <= before
    if end == "closed":
        with pytest.raises(RunError, match="gone"):
            list(batches)


def test_a_function_of_the_program_fails_under_its_name_at_its_line(session):
    session.udf(lambda n: 1 // n, "inverse")
    with pytest.raises(UdfError, match=r"^ZQL-R710 inverse on one of the first rows") as caught:
        session.query("FROM range(2) AS t(n) |> SELECT inverse(n) AS i")
    assert caught.value.notes[0].endswith('in <lambda>: session.udf(lambda n: 1 // n, "inverse")')
    assert "test_run.py" in caught.value.notes[0]
    assert caught.value.__context__ is None


@pytest.mark.parametrize("item", ["late(n)", "CAST(t AS INTEGER)"])
def test_an_error_of_a_lazy_query_has_its_place(session, item):
    def late(n: int) -> int:
        return 1 // n

    session.udf(late)
    query = session.query(f"FROM VALUES (1, '1'), (0, 'x') AS t(n, t)\n|> SELECT {item} AS i")
    for run in (query.to_dicts, query.show, query.collect, lambda: query.write("late.jsonl")):
        with pytest.raises(zql.ZqlError) as caught:
            run()
        assert (caught.value.line, caught.value.operator) == (2, "operator 1: SELECT"), run
