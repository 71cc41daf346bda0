"""EXPLAIN ANALYZE, and every level and format from Python and the command line."""

import json
import os
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from zql.errors import RunError, UsageError
from zql.explain.figures import seconds, size
from zql.explain.mermaid import escaped
from zql.session import Session
from zql.source import Source

FUNCTIONS = """
import os

def double(n: int) -> int:
    return 2 * n

def dies_once(n: int) -> int:
    if not os.path.exists("died"):
        open("died", "w").close()
        os._exit(1)
    return n
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "f.py").write_text(FUNCTIONS)
    (tmp_path / "t.jsonl").write_text("".join(f'{{"n": {n}, "k": "k{n % 3}"}}\n' for n in range(9)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def session(folder):
    with Session(workers=1) as session:
        yield session


def explained(session, text, level="analyze", format="text"):
    return session.explain(Source("job.zql", text), level=level, format=format)


def without_figures(text):
    """Times and sizes differ from run to run and from machine to machine."""
    text = re.sub(r"\b\d+\.\d{2,3}\b", "T", text)
    text = re.sub(r"\b[\d.]+ (B|KB|MB)\b", "SIZE", text)
    return "\n".join(" ".join(line.split()) for line in text.split("\n"))


def test_a_query_of_sql(session):
    shown = explained(session, "FROM 't.jsonl' |> WHERE n > 2 |> AGGREGATE sum(n) AS s GROUP BY k")
    lines = without_figures(shown).split("\n")
    assert lines[0] == "Stage 1: one DuckDB statement, all threads"
    assert lines[1] == "operator rows in rows out read seconds"
    assert any(re.search(r"GROUP_BY .* 6 3 T", line) for line in lines)
    assert any(re.search(r"READ_JSON\w* 9 \d+ SIZE T", line) for line in lines)
    assert lines[-4:] == [
        "read SIZE, spilled SIZE; T s",
        "Result: k, s",
        "",
        "Total: 9 rows read, 3 rows out; T s",
    ]


def test_steps_of_python(session):
    shown = explained(
        session,
        "IMPORT PYTHON 'f.py' AS f;"
        "FROM 't.jsonl' |> WHERE n > 2 |> EXTEND f.double(n) AS d |> WHERE d > 10",
    )
    assert (
        without_figures(shown)
        == """\
Stage 1: tasks over the splits of t.jsonl, in worker processes (in this one when the input is small)
step rows in rows out calls seconds
read t.jsonl, SQL 9 6 T
f.double(..) 6 6 6 T
SQL 6 3 T
1 task, read SIZE, wrote SIZE, spilled SIZE; T s
Result: n, k, d

Total: 9 rows read, 3 rows out, 6 Python calls; T s"""
    )


def test_writes_are_done_and_counted(session, folder):
    text = "EXPLAIN ANALYZE FROM 't.jsonl' |> WHERE n > 2 |> WRITE 'out.csv'"
    (result,) = session.statements(Source("job.zql", text))
    assert (folder / "out.csv").read_text().count("\n") == 7
    assert "Write out.csv (csv, mode error): n, k" in result.text
    assert "9 rows read, 6 rows out, 1 file of " in result.text
    with pytest.raises(RunError) as caught:
        list(session.statements(Source("job.zql", text)))
    assert (caught.value.code, caught.value.column) == ("R752", 50)


def test_nothing_runs_at_the_other_levels(session, folder):
    for level in ("syntax", "logical", "trace", "stages"):
        assert explained(session, "FROM 't.jsonl' |> WRITE 'out.csv'", level)
    assert not (folder / "out.csv").exists()


def test_statements_of_a_script_are_measured_in_order(session):
    text = "FROM 't.jsonl' |> WRITE 'a.jsonl'; FROM 'a.jsonl' |> LIMIT 2"
    first, second = json.loads(explained(session, text, format="json"))
    assert first["outputs"] == [{"path": "a.jsonl", "rows": 9, "bytes": 153}]
    assert second["total"]["records_out"] == 2


def test_json_has_figures_for_stages_steps_and_operators(session):
    text = (
        "IMPORT PYTHON 'f.py' AS f;"
        "FROM 't.jsonl' |> EXTEND f.double(n) AS d |> AGGREGATE max(d) AS m GROUP BY k"
    )
    (document,) = json.loads(explained(session, text, format="json"))
    assert (document["version"], document["level"]) == (1, "analyze")
    tasks, native = (stage["figures"] for stage in document["stages"])
    assert list(tasks) == [
        "tasks", "retries", "rows_in", "rows_out", "bytes_read", "bytes_written", "bytes_spilled",
        "seconds", "steps", "operators",
    ]  # fmt: skip
    assert (tasks["rows_in"], tasks["rows_out"]) == (9, 9)
    assert tasks["bytes_read"] == os.path.getsize("t.jsonl")
    assert [(s["label"], s["rows_out"], s["calls"]) for s in tasks["steps"][:2]] == [
        ("SQL", 9, 0),
        ("CALL f.double", 9, 9),
    ]
    assert native["bytes_read"] == tasks["bytes_written"] > 0
    assert native["operators"][0]["rows_out"] == 3
    assert document["total"]["python_calls"] == 9


def test_work_that_is_begun_again_is_counted(session):
    text = (
        "IMPORT PYTHON 'f.py' AS f; FROM 't.jsonl' |> EXTEND f.dies_once(n) AS d |> WRITE 'o.csv'"
    )
    (document,) = json.loads(explained(session, text, format="json"))
    assert document["stages"][0]["figures"]["retries"] == document["total"]["retries"] == 1


def test_spilled_bytes_are_told(folder):
    with Session(memory_limit="150MB", threads=1) as session:
        text = "FROM range(6000000) |> EXTEND hash(range) AS h |> ORDER BY h |> SELECT h, range"
        (document,) = json.loads(explained(session, text, format="json"))
    assert document["stages"][0]["figures"]["bytes_spilled"] > 1_000_000


def test_every_level_and_format_of_a_query(session):
    query = session.query("FROM 't.jsonl' |> WHERE n>7")
    assert query.explain("syntax") == "FROM 't.jsonl'\n|> WHERE n > 7"
    for level in ("syntax", "logical", "trace", "stages", "analyze"):
        assert json.loads(query.explain(level, "json"))["level"] == level
        assert query.explain(level.upper(), format="Mermaid").startswith("flowchart TD\n  ")
    assert "1 row out" in query.explain("analyze")
    with pytest.raises(UsageError, match='EXPLAIN has no level "analyse"') as caught:
        query.explain("analyse")
    assert caught.value.hint == 'did you mean "analyze"?'
    with pytest.raises(UsageError, match='EXPLAIN has no format "yaml"'):
        query.explain(format="yaml")


def test_a_flowchart_of_a_run_shows_rows(session):
    chart = explained(
        session, "IMPORT PYTHON 'f.py' AS f; FROM 't.jsonl' |> EXTEND f.double(n) AS d",
        format="mermaid",
    )  # fmt: skip
    assert '["f.double(..)<br/>9 rows in, 9 out"]' in chart


@given(st.text())
def test_no_text_is_markup(text):
    assert re.fullmatch(r"(?:[\w _.,()=+/'\[\]!?-]|#\d+;)*", escaped(text))


def test_figures_are_rounded():
    assert [seconds(s) for s in (0.00001, 0.0125, 0.5, 3.14159, 1234.5)] == [
        "0.000", "0.013", "0.500", "3.14", "1,234.50",
    ]  # fmt: skip
    assert [size(n) for n in (0, 999, 1000, 12_345, 250_000_000, 3_000_000_000_000)] == [
        "0 B", "999 B", "1.0 KB", "12.3 KB", "250 MB", "3.0 TB",
    ]  # fmt: skip


SINKS = (
    "FROM range(10) |> SELECT range AS x |> SHUFFLE SEED 1",
    "SET partitions = 4; FROM range(9) AS r (x) |> AGGREGATE median(x) AS m GROUP BY x % 3 AS k",
    "CREATE TEMP TABLE t AS FROM range(3); FROM t |> AGGREGATE count(*) AS n",
    "FROM range(3) |> WRITE 'o.csv'",
    "FROM range(3) |> FINISH",
    """CREATE TEMP FUNCTION f(x BIGINT) RETURNS BIGINT LANGUAGE python AS $$
def f(x): return x
$$;
FROM range(3) AS r (x) |> EXTEND f(x) AS y |> ORDER BY y""",
)


@pytest.mark.parametrize("format", ["text", "json", "mermaid"])
@pytest.mark.parametrize("text", SINKS)
def test_every_plan_can_be_shown_in_every_format(session, folder, text, format):
    assert session.explain(text, format=format)


def test_a_script_is_text_or_a_path(session, folder):
    text = "FROM 'some.jsonl' |> SELECT id"
    (folder / "some.jsonl").write_text('{"id": 1}\n')
    (folder / "job.zql").write_text(text)
    told = session.explain(text)
    assert "Read some.jsonl" in told
    assert session.explain("job.zql") == session.explain(folder / "job.zql") == told
    assert session.check("FROM 'some.jsonl' |> SELECT nothing")[0].code == "N201"
    assert [r.kind for r in session.statements("SET workers = 1; FROM range(1)")] == [
        "done",
        "rows",
    ]
