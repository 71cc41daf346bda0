"""What a script is warned of: in reports, by `zql check` and in EXPLAIN."""

from __future__ import annotations

import pytest
from zql.cli.main import call
from zql.session import Session
from zql.source import Source

ROWS = "FROM VALUES (1, 2), (3, 4) AS t(a, b) "
RANDOM = f"CREATE TEMP VIEW v AS {ROWS} |> EXTEND random() AS r;\n"
SORT = "nothing sees the order that ORDER BY makes: it can be left out"
NULL_IN_LIST = (
    "NOT IN with NULL in its list is never true: leave the NULL out, "
    "and write AND .. IS NOT NULL where that is meant"
)


def swapped(kind):
    return f'{kind} goes by places, not by names: "b" comes into "a"; BY NAME goes by names'


def again(name, line):
    return (
        f'"{name}" is read again, and random(..) in it gives other values than on line {line}: '
        f"CREATE TEMP TABLE {name} keeps one set of them"
    )


DOUBTFUL = {
    "C6 a count": (ROWS + "|> ORDER BY b |> AGGREGATE count(*) AS n", [(1, 51, SORT)]),
    "C6 a second sort": (ROWS + "|> ORDER BY b |> ORDER BY a", [(1, 51, SORT)]),
    "C6 in a subquery": (f"FROM ({ROWS}|> ORDER BY b) |> DISTINCT", [(1, 57, SORT)]),
    "C6 in a branch": (
        ROWS + "|> FORK (|> ORDER BY b |> DISTINCT), (|> ORDER BY a)",
        [(1, 60, SORT)],
    ),
    "C14 a join with itself": (
        RANDOM + "FROM v |> JOIN v AS w USING (a) |> SELECT a",
        [(2, 16, again("v", 2))],
    ),
    "C14 two statements": (
        RANDOM + "FROM v |> WHERE r < 0.5;\nFROM v |> WHERE r >= 0.5",
        [(3, 6, again("v", 2))],
    ),
    "C14 two views": (
        RANDOM + "CREATE TEMP VIEW l AS FROM v |> WHERE r < 0.5;\n"
        "CREATE TEMP VIEW h AS FROM v |> WHERE r >= 0.5;",
        [(3, 28, again("v", 2))],
    ),
    "C14 WITH": (
        "WITH w AS (FROM range(3) |> EXTEND random() AS r)\nFROM w |> UNION ALL (FROM w)",
        [(2, 27, again("w", 2))],
    ),
    "C37 UNION ALL": (
        ROWS + "|> UNION ALL (FROM VALUES (1, 2) AS t(b, a))",
        [(1, 53, swapped("UNION"))],
    ),
    "C37 whatever the case": (
        ROWS + "|> EXCEPT (FROM VALUES (1, 2) AS t(B, A))",
        [(1, 50, 'EXCEPT goes by places, not by names: "B" comes into "a"; BY NAME goes by names')],
    ),
    "C37 RECURSIVE UNION": (
        ROWS + "|> RECURSIVE UNION (|> WHERE a < 9 |> SELECT b, a)",
        [(1, 58, swapped("RECURSIVE UNION"))],
    ),
    "C38 NOT IN": (ROWS + "|> WHERE a NOT IN (1, NULL)", [(1, 48, NULL_IN_LIST)]),
    "C38 NOT .. IN": (ROWS + "|> WHERE NOT a IN (NULL, b)", [(1, 52, NULL_IN_LIST)]),
    "of a view, once": (
        f"CREATE TEMP VIEW v AS {ROWS}|> WHERE a NOT IN (1, NULL);\nFROM v; FROM v;",
        [(1, 70, NULL_IN_LIST)],
    ),
}
ORDINARY = {
    "a sort that a LIMIT sees": ROWS + "|> ORDER BY b |> LIMIT 1 |> AGGREGATE count(*) AS n",
    "a sort that list sees": ROWS + "|> ORDER BY b |> AGGREGATE list(a) AS l",
    "what a window sees": ROWS + "|> ORDER BY b |> SELECT row_number() OVER () AS n |> DISTINCT",
    "a sort that DISTINCT ON sees": ROWS + "|> ORDER BY b |> DISTINCT ON (a)",
    "a sort that is shown": ROWS + "|> ORDER BY b |> WHERE a > 1 |> SELECT a",
    "a sort that a table keeps": f"CREATE TEMP TABLE s AS {ROWS}|> ORDER BY b",
    "a sort of a view": f"CREATE TEMP VIEW s AS {ROWS}|> ORDER BY b; FROM s |> DISTINCT",
    "sorted groups": ROWS + "|> AGGREGATE count(*) AS n GROUP AND ORDER BY a",
    "sorted groups of SELECT": "SELECT a, sum(a) AS n FROM range(3) AS t(a) GROUP BY a ORDER BY n",
    "sorted parts": ROWS + "|> PARTITION BY a THEN (|> ORDER BY b |> LIMIT 1) |> ORDER BY a",
    "one reading": RANDOM + "FROM v |> WHERE r < 0.5",
    "the columns of a view": RANDOM + "DESCRIBE FROM v; EXPLAIN FROM v; FROM v;",
    "another view of that name": RANDOM + "FROM v; CREATE OR REPLACE" + RANDOM[6:] + "FROM v",
    "a view twice": RANDOM.replace("random()", "a + 1") + "FROM v |> UNION ALL (FROM v)",
    "a split by FORK": RANDOM + "FROM v |> FORK (|> WHERE r < 0.5), (|> WHERE r >= 0.5)",
    "a table": RANDOM.replace("VIEW", "TABLE") + "FROM v |> UNION ALL (FROM v)",
    "BY NAME": ROWS + "|> UNION ALL BY NAME (FROM VALUES (1, 2) AS t(b, a))",
    "other names": ROWS + "|> UNION ALL (FROM VALUES (1, 2) AS t(b, c))",
    "the same order": ROWS + "|> UNION ALL (FROM VALUES (1, 2) AS t(A, B))",
    "IN with NULL": ROWS + "|> WHERE a IN (1, NULL)",
    "a parameter": "DECLARE p INTEGER DEFAULT NULL;\n" + ROWS + "|> WHERE a NOT IN (1, $p)",
}  # fmt: skip


def checked(text):
    """What `check` warns of."""
    found: list[str] = []
    with Session() as session:
        assert not session.check(Source("script.zql", text), warnings=found)
    return found


def run(text):
    """What the reports of a run warn of, statement by statement."""
    found: list[str] = []
    with Session() as session:
        for result in session.statements(Source("script.zql", text)):
            if result.rows is not None:
                result.rows.close()
            if result.result is not None:
                found += result.result.warnings
    return found


@pytest.mark.parametrize("name", DOUBTFUL)
def test_warned(name):
    text, expected = DOUBTFUL[name]
    wanted = [f"{said} (script.zql:{line}:{column})" for line, column, said in expected]
    assert checked(text) == wanted
    assert run(text) == wanted


@pytest.mark.parametrize("name", ORDINARY)
def test_not_warned(name):
    assert checked(ORDINARY[name]) == []
    assert run(ORDINARY[name]) == []


def test_reports_of_runs_have_the_warnings():
    with Session() as session:
        report = session.run(RANDOM + "FROM v |> ORDER BY a |> DISTINCT |> FINISH; FROM v;")
    assert [w.rpartition(" (")[0] for w in report.warnings] == [SORT, again("v", 2)]
    assert report.to_dict()["warnings"] == list(report.warnings)


def test_warnings_of_a_module_and_not_of_its_reader(tmp_path):
    (tmp_path / "m.zql").write_text(f"CREATE TEMP VIEW v AS {ROWS}|> WHERE a NOT IN (1, NULL);")
    found: list[str] = []
    source = Source("script.zql", "IMPORT MODULE 'm.zql' AS m; FROM m.v;")
    with Session() as session:
        assert not session.check(source, base_dir=str(tmp_path), warnings=found)
    assert [w.rpartition(" (")[0] for w in found] == [NULL_IN_LIST]
    assert "m.zql:1:" in found[0]


def test_explain_has_them_among_its_notes():
    text = ROWS + "|> UNION ALL (FROM VALUES (1, 2) AS t(b, a))"
    with Session() as session:
        shown = session.explain(Source("script.zql", text))
        as_json = session.explain(Source("script.zql", text), format="json")
    line = f"{swapped('UNION')} (script.zql:1:53)"
    assert f"  warning: {line}\n" in shown + "\n"
    assert '"kind": "warning"' in as_json


def test_command_line_prints_them_beside_results(tmp_path, capsys):
    path = tmp_path / "script.zql"
    path.write_text(ROWS + "|> WHERE a NOT IN (1, NULL)")
    assert call(["run", str(path)]) == 0
    assert capsys.readouterr() == ("", f"warning: {NULL_IN_LIST} ({path}:1:48)\n")
    assert call(["check", str(path)]) == 0
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines() == [
        f"warning: {NULL_IN_LIST} ({path}:1:48)",
        "no mistakes in 1 script",
    ]
    assert call(["check", "--quiet", str(path)]) == 0
    assert capsys.readouterr() == ("", "")
