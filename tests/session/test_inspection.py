"""SUMMARIZE, SHOW and ASSERT, from the places that statements come from."""

from __future__ import annotations

import duckdb
import pytest
import zql
from zql.errors import RunError, UsageError
from zql.session import Session
from zql.source import Source

EVERY_TYPE = """
    SELECT i::INTEGER AS i, (i * 1.5)::DOUBLE AS d, (i * 1.25)::DECIMAL(10, 2) AS dec,
      'v' || i AS s, i % 2 = 0 AS b, DATE '2024-01-01' + i::INTEGER AS dt,
      TIMESTAMP '2024-01-01' + INTERVAL (i) HOUR AS ts, TIME '01:00:00' + INTERVAL (i) MINUTE AS tm,
      [i, i + 1] AS l, {a: i} AS st, i::UTINYINT AS u8, 'x'::BLOB AS bl, i::FLOAT AS f,
      CASE WHEN i = 3 THEN NULL ELSE i END AS n, NULL::BIGINT AS nothing
    FROM range(7) AS r(i)
"""


@pytest.fixture
def session():
    with Session() as session:
        yield session


def test_summarize_says_what_duckdb_says(session):
    with duckdb.connect() as database:
        table = database.sql(EVERY_TYPE).to_arrow_table()
        session.register("t", table)
        database.register("t", table)
        for query in ("FROM t", "FROM t LIMIT 0"):
            wanted = database.sql(f"SUMMARIZE {query}")
            found = session.query(f"SUMMARIZE {query.replace(' LIMIT', ' |> LIMIT')}")
            assert found.columns == wanted.columns
            assert [tuple(r.values()) for r in found] == wanted.fetchall()
            assert found.types == [str(t) for t in wanted.types]


def test_summarize_takes_a_name_a_path_and_a_result(session, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.csv").write_text("a\n1\n2\n")
    session.query("CREATE TEMP VIEW v AS FROM 'x.csv'; FROM v").collect()
    for text in (
        "SUMMARIZE v",
        "SUMMARIZE 'x.csv'",
        "SUMMARIZE FROM v",
        "SUMMARIZE |> WHERE a > 0",
    ):
        (row,) = session.query(text)
        assert (row["column_name"], row["max"], row["count"]) == ("a", "2", 2)
        session.query("FROM v")


def test_show_tables_lists_views_tables_objects_and_those_of_modules(session, tmp_path):
    (tmp_path / "m.zql").write_text("CREATE TEMP VIEW w AS VALUES (1);")
    session.register("o", [{"x": 1}])
    script = (
        "IMPORT MODULE 'm.zql'; CREATE TEMP VIEW v AS FROM o; CREATE TEMP TABLE t AS FROM o; "
        "SHOW TABLES |> SELECT name, kind"
    )
    found = list(session.statements(Source("s", script), base_dir=str(tmp_path)))
    with found[-1].rows as rows:
        assert [tuple(r.values()) for b in rows.batches() for r in b.to_pylist()] == [
            ("m.w", "view"),
            ("o", "object"),
            ("t", "table"),
            ("v", "view"),
        ]


def test_show_tables_of_a_fresh_session_is_empty(session):
    assert session.query("SHOW TABLES").to_dicts() == []


def test_show_functions_has_signatures(session):
    def half(x: float, by: int = 2) -> float:
        return x / by

    session.udf(half)
    session.query(
        "CREATE TEMP FUNCTION f(a INTEGER, b DOUBLE DEFAULT 1.5) RETURNS DOUBLE AS (a * b);"
        "CREATE TEMP TABLE FUNCTION g(t TABLE, k EXPR) AS FROM t |> WHERE k; VALUES (1)"
    )
    found = {r["name"]: r for r in session.query("SHOW FUNCTIONS |> WHERE home = 'script'")}
    assert found["f"]["signature"] == "f(a INTEGER, b DOUBLE DEFAULT 1.5) RETURNS DOUBLE"
    assert found["g"]["signature"] == "g(t TABLE, k EXPR)"
    assert found["half"]["signature"] == "half(x DOUBLE, by BIGINT DEFAULT ..) -> DOUBLE"
    upper = session.query("SHOW FUNCTIONS |> WHERE name = 'upper'").first()
    assert upper == {
        "name": "upper",
        "kind": "scalar",
        "signature": "upper(string VARCHAR) -> VARCHAR",
        "home": "duckdb",
    }


def test_show_settings_are_those_that_set_takes(session):
    session.set("workers", 3)
    session.set("disabled_rules", ["push_filters_down"])
    found = {r["name"]: r["value"] for r in session.query("SHOW SETTINGS")}
    assert (found["workers"], found["disabled_rules"]) == ("3", "push_filters_down")
    for name, value in found.items():
        if value:
            session.set(name, value)


def test_assert_stops_a_script_before_it_writes(session, tmp_path):
    with pytest.raises(RunError) as caught:
        session.run(
            "ASSERT (FROM range(3) |> AGGREGATE count(*)) > 3 AS 'too few';"
            f"WRITE '{tmp_path}/x.jsonl' AS FROM range(3)"
        )
    assert caught.value.code == "R760"
    assert "count(*)" in str(caught.value)
    assert "too few" in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_assert_before_a_query_is_run_and_checked(session):
    assert session.query("ASSERT 1 < 2; VALUES (1)").to_dicts() == [{"col0": 1}]
    with pytest.raises(RunError):
        session.query("ASSERT 1 > 2; VALUES (1)")
    (error,) = session.check(Source("s", "ASSERT 1 > 2; ASSERT 1 + 1"))
    assert error.code == "T302"


def test_a_text_holds_one_query(session):
    for text in ("SHOW TABLES; VALUES (1)", "ASSERT TRUE"):
        with pytest.raises(UsageError):
            session.query(text)


def test_the_statement_write(session, tmp_path):
    report = zql.run(f"WRITE '{tmp_path}/x.csv' OPTIONS (header = false) AS SELECT 1 AS a, 2 AS b")
    assert (tmp_path / "x.csv").read_text() == "1,2\n"
    assert report.counters["records_out"] == 1
    session.run(
        f"WITH w AS (VALUES (1)) FROM w |> EXPORT DATA OPTIONS (uri = '{tmp_path}/y.jsonl')"
    )
    assert (tmp_path / "y.jsonl").read_text() == '{"col0":1}\n'
    (tmp_path / "x.csv").unlink()
    with zql.Session() as other:
        other.run(f"WRITE '{tmp_path}/x.csv' AS FROM range(2) AS r (x) |> WHERE x > 0")
    assert (tmp_path / "x.csv").read_text() == "x\n1\n"
