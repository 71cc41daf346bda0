"""A view that several statements write from is computed once, and only when that is the same."""

from __future__ import annotations

import json

from zql.source import Source

VIEW = """IMPORT PYTHON 'quality.py' AS q;
CREATE TEMP VIEW scored AS FROM 'docs.jsonl' |> EXTEND q.score(text) AS s;
"""


def rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def explained(session, folder, text):
    return session.explain(Source("job.zql", text), base_dir=str(folder))


TWO = (
    VIEW + "FROM scored |> WHERE s > 0.7 |> WRITE 'high.jsonl';\nFROM scored |> WRITE 'all.jsonl';"
)


def test_two_readers_share_it(session, folder):
    report = session.run(TWO)
    assert [r["id"] for r in rows(folder / "all.jsonl")] == [1, 2, 3]
    assert [r["id"] for r in rows(folder / "high.jsonl")] == [3]
    assert report.counters["python_calls"] == 3


def test_explain_says_so(session, folder):
    text = explained(session, folder, TWO)
    assert text.startswith("The view scored is computed once, for statements 3 and 4:\n")
    assert text.count("Python quality.score") == 1
    assert text.count("FROM <view scored>") == 2


def test_one_reader_does_not(session, folder):
    text = explained(session, folder, VIEW + "FROM scored |> WRITE 'all.jsonl'; FROM scored;")
    assert "computed once" not in text


def test_what_reads_no_more_than_files_is_not_shared(session, folder):
    script = """CREATE TEMP VIEW en AS FROM 'docs.jsonl' |> WHERE lang = 'en';
    FROM en |> WRITE 'a.jsonl'; FROM en |> WRITE 'b.jsonl';"""
    assert "computed once" not in explained(session, folder, script)


def test_volatile_views_are_not_shared(session, folder):
    script = """CREATE TEMP VIEW v AS FROM 'docs.jsonl' |> EXTEND random() AS u |> ORDER BY u;
    FROM v |> WRITE 'a.jsonl'; FROM v |> WRITE 'b.jsonl';"""
    assert "computed once" not in explained(session, folder, script)


def test_views_between_share_what_they_have_in_common(session, folder):
    script = (
        VIEW
        + """CREATE TEMP VIEW low AS FROM scored |> WHERE s < 0.7;
    CREATE TEMP VIEW high AS FROM scored |> WHERE s >= 0.7;
    FROM low |> WRITE 'low.jsonl'; FROM high |> WRITE 'high.jsonl';"""
    )
    assert "The view scored is computed once" in explained(session, folder, script)
    session.run(script)
    assert [r["id"] for r in rows(folder / "low.jsonl")] == [2]
    assert [r["id"] for r in rows(folder / "high.jsonl")] == [1, 3]


def test_a_file_that_changes_in_between_is_read_again(session, folder):
    script = """CREATE TEMP VIEW n AS FROM 'part-*.jsonl' |> AGGREGATE count(*) AS n;
    FROM n |> WRITE 'first.jsonl';
    FROM 'docs.jsonl' |> SELECT id |> WRITE 'part-b.jsonl';
    FROM n |> WRITE 'second.jsonl';"""
    (folder / "part-a.jsonl").write_text('{"id": 7}\n')
    session.run(script)
    assert rows(folder / "first.jsonl") == [{"n": 1}]
    assert rows(folder / "second.jsonl") == [{"n": 4}]


def test_a_view_that_is_replaced_is_another(session, folder):
    script = """CREATE TEMP VIEW n AS FROM 'docs.jsonl' |> AGGREGATE count(*) AS n;
    FROM n |> WRITE 'first.jsonl';
    CREATE OR REPLACE TEMP VIEW n AS FROM 'docs.jsonl' |> AGGREGATE sum(id) AS n;
    FROM n |> WRITE 'second.jsonl';"""
    session.run(script)
    assert rows(folder / "first.jsonl") == [{"n": 3}]
    assert rows(folder / "second.jsonl") == [{"n": 6}]


def test_a_mistake_in_it_is_told_once_where_it_is_read(session, folder):
    script = """CREATE TEMP VIEW v AS FROM 'docs.jsonl' |> ORDER BY id;
    FROM v |> WHERE nothing |> WRITE 'a.jsonl'; FROM v |> WRITE 'b.jsonl';"""
    errors = session.check(Source("job.zql", script), base_dir=str(folder))
    assert [error.code for error in errors] == ["N201"]
