"""Failure cases that a golden file cannot hold: many inputs, odd bytes, values against a model.

The numbers are those of the list in README.md; the last test holds it against the tests.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from zql.errors import ZqlError
from zql.session import ALL_RULES, Session
from zql.source import Source
from zql.syntax.keywords import KEYWORDS, RESERVED

import golden

TESTS = Path(__file__).parents[1]
README = Path(__file__).with_name("README.md")


@pytest.fixture(scope="module")
def session():
    with Session() as session:
        yield session


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rows(session, text):
    return [tuple(row.values()) for row in session.query(text, scan_locals=False).to_dicts()]


def error_of(session, text):
    with pytest.raises(ZqlError) as caught:
        list(session.statements(Source("script.zql", text)))
    return getattr(caught.value, "errors", [caught.value])[0]


# ---- C1: every operator on either side of LIMIT ------------------------------------------------

NUMBERS = [3, 1, 2, 3, 5, 1]
INPUT = "FROM (VALUES (3), (1), (2), (3), (5), (1)) AS t (x)"
OTHER = "(FROM (VALUES (1), (3), (3)) AS u (x))"

OPERATORS = {
    "LIMIT 3": lambda v: v[:3],
    "OFFSET 2": lambda v: v[2:],
    "WHERE x > 1": lambda v: [x for x in v if x > 1],
    "SELECT x + 1 AS x": lambda v: [x + 1 for x in v],
    "SET x = x * 2": lambda v: [x * 2 for x in v],
    "EXTEND row_number() OVER () AS n |> SELECT x * 10 + n AS x": lambda v: [
        x * 10 + n for n, x in enumerate(v, 1)
    ],
    "WHERE rank() OVER (ORDER BY x) = 1": lambda v: [x for x in v if x == min(v)],
    "ORDER BY x": sorted,
    "ORDER BY x DESC": lambda v: sorted(v, reverse=True),
    "AGGREGATE sum(x) AS x": lambda v: [sum(v)],
    "AGGREGATE GROUP BY x |> ORDER BY x": lambda v: sorted(set(v)),
    "DISTINCT |> ORDER BY x": lambda v: sorted(set(v)),
    "DISTINCT ON (x) |> ORDER BY x": lambda v: sorted(set(v)),
    f"SEMI JOIN {OTHER} AS o USING (x) |> ORDER BY x": lambda v: sorted(
        x for x in v if x in (1, 3)
    ),
    f"ANTI JOIN {OTHER} AS o USING (x) |> ORDER BY x": lambda v: sorted(
        x for x in v if x not in (1, 3)
    ),
    f"JOIN {OTHER} AS o USING (x) |> ORDER BY x": lambda v: sorted(
        x for x in v for y in (1, 3, 3) if x == y
    ),
    f"UNION ALL {OTHER}": lambda v: [*v, 1, 3, 3],
    f"INTERSECT ALL {OTHER} |> ORDER BY x": lambda v: sorted(
        (Counter(v) & Counter([1, 3, 3])).elements()
    ),
    f"EXCEPT ALL {OTHER} |> ORDER BY x": lambda v: sorted(
        (Counter(v) - Counter([1, 3, 3])).elements()
    ),
    "UNNEST [x, -x] AS y |> SELECT y AS x": lambda v: [y for x in v for y in (x, -x)],
}


@pytest.mark.parametrize("rules", ["all rules", "no rules"])
@pytest.mark.parametrize("operator", OPERATORS)
def test_c1_an_operator_behind_limit_sees_what_limit_left(session, operator, rules):
    session.disabled = frozenset() if rules == "all rules" else ALL_RULES
    for limit in ("LIMIT 3", "LIMIT 2 OFFSET 1"):
        left = NUMBERS[:3] if limit == "LIMIT 3" else NUMBERS[1:3]
        found = rows(session, f"{INPUT} |> {limit} |> {operator}")
        assert [x for (x,) in found] == OPERATORS[operator](left)
        before = rows(session, f"{INPUT} |> {operator} |> {limit}")
        made = OPERATORS[operator](NUMBERS)
        assert [x for (x,) in before] == (made[:3] if limit == "LIMIT 3" else made[1:3])
    session.disabled = frozenset()


# ---- C19: parentheses --------------------------------------------------------------------------


def trees(names):
    leaf = st.sampled_from([*names, "1", "2", "3"])
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.builds("{} {} {}".format, inner, st.sampled_from("+-*"), inner),
            st.builds("({})".format, inner),
            st.builds("-({})".format, inner),
            st.builds("(CASE WHEN {} < {} THEN {} ELSE 1 END)".format, inner, inner, inner),
        ),
        max_leaves=8,
    )


def in_python(text, values):
    """The value of such an expression by the rules of Python, which are the same for these."""
    python = text.replace("CASE WHEN", "_when(").replace("THEN", ",").replace("ELSE 1 END", ")")
    places = {"_when": lambda test, value: value if test else 1, **values}
    return eval(compile(ast.parse(python, mode="eval"), "<tree>", "eval"), {}, places)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(inner=trees(["a", "b"]), outer=trees(["a", "n", "n"]))
@example(inner="a - (b + 1)", outer="a - (n - (n - a))")
@example(inner="a + b", outer="n * n - -(n)")
def test_c19_trees_keep_their_parentheses(session, inner, outer):
    values = {"a": 7, "b": -2}
    values["n"] = in_python(inner, values)
    text = f"FROM (VALUES (7::HUGEINT, -2::HUGEINT)) AS t (a, b) |> EXTEND {inner} AS n"
    assert rows(session, f"{text} |> SELECT {outer} AS x") == [(in_python(outer, values),)]


# ---- C21, C22: words -----------------------------------------------------------------------------


def test_c21_every_word_is_a_column_a_table_and_an_alias(session):
    free = sorted(word.lower() for word in KEYWORDS - RESERVED)
    assert len(free) > 100
    for word in free:
        assert rows(
            session,
            f"FROM (VALUES (1)) AS {word} ({word}) |> WHERE {word} = 1 AND {word}.{word} = 1"
            f" |> SET {word} = {word} + 1 |> RENAME {word} AS x |> SELECT x AS {word}"
            f" |> AGGREGATE count(*) AS n GROUP BY {word} |> ORDER BY {word}",
        ) == [(2, 1)], word


def test_c21_reserved_words_are_names_in_quotes_behind_dots_and_behind_as(session):
    for word in sorted(word.lower() for word in RESERVED):
        assert rows(
            session,
            f'FROM (VALUES (1)) AS t ("{word}") |> WHERE t.{word} = 1 |> SET {word} = 2'
            f' |> SELECT "{word}" AS x |> EXTEND x + 1 AS {word} |> DROP x |> SELECT `{word}`',
        ) == [(3,)], word


@pytest.mark.parametrize("word", ["order", "group", "limit", "from", "select", "desc", "left"])
@pytest.mark.parametrize("text", ["WHERE {} = 1", "SELECT x, {}", "AGGREGATE GROUP BY {}"])
def test_c22_a_reserved_word_is_said_to_be_one(session, word, text):
    if text.startswith("SELECT") and word == "from":
        pytest.skip("FROM behind a comma is more likely SQL's own order of clauses")
    found = error_of(session, f"FROM (VALUES (1)) AS t (x) |> {text.format(word)}")
    assert found.message == f"{word.upper()} is a reserved word"
    assert f'"{word}"' in found.hint
    assert "Expected" not in str(found)


# ---- C23, C29: names -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["foo-bar.baz", "a b", 'q"q', "`", "new\nline", "😀", "x'y", "--", "/*", "select", "0"]
)
def test_c23_odd_names_come_back(session, folder, name):
    quoted = '"' + name.replace('"', '""') + '"'
    text = f"FROM (VALUES (1)) AS {quoted} ({quoted}) |> SELECT {quoted}.{quoted} AS {quoted}"
    (printed,) = [
        result.text for result in session.statements(Source("s", f"EXPLAIN SYNTAX {text}"))
    ]
    assert session.query(text).to_dicts() == session.query(printed).to_dicts() == [{name: 1}]
    session.run(f"{text} |> WRITE 'odd.jsonl'")
    assert session.query(f"FROM 'odd.jsonl' |> SELECT {quoted}").to_dicts() == [{name: 1}]


def test_c29_the_hint_says_that_text_has_single_quotes(session):
    found = error_of(session, """FROM (VALUES ('bob')) AS t (name) |> WHERE name = "bob\"""")
    assert found.hint == "text needs single quotes: 'bob'"


# ---- C31 to C34: what comes late in files ------------------------------------------------------

MANY = 21_000
"""More rows than DuckDB looks at when it guesses columns."""


def write_lines(path, records):
    path.write_text("".join(json.dumps(r) + "\n" for r in records), encoding="utf-8")


def test_c31_a_key_of_the_last_line_of_the_last_file_is_a_column(session, folder):
    for shard in range(3):
        write_lines(folder / f"{shard}.jsonl", [{"id": i} for i in range(MANY)])
    with (folder / "2.jsonl").open("a") as file:
        file.write('{"id": -1, "late": {"deep": [1.5]}}\n')
    assert rows(session, "FROM '*.jsonl' |> WHERE late IS NOT NULL |> SELECT id, late") == [
        (-1, {"deep": [1.5]})
    ]
    assert session.query("FROM '*.jsonl'").columns == ["id", "late"]


@pytest.mark.parametrize("apart", [True, False], ids=["in another file", "in one file"])
@pytest.mark.parametrize(
    ("late", "kind", "shown"),
    [(1.5, "DOUBLE", 1.5), (True, "VARCHAR", "true"), ("x", "VARCHAR", "x"), ([1], "JSON", "[1]")],
)
def test_c32_a_late_value_of_another_type_is_not_bent(session, folder, late, kind, shown, apart):
    early = [{"v": 1}] * MANY
    write_lines(folder / "0.jsonl", early if apart else [*early, {"v": late}])
    if apart:
        write_lines(folder / "1.jsonl", [{"v": late}])
    query = session.query("FROM '*.jsonl'")
    assert query.types == [kind]
    assert Counter(str(row["v"]) for row in query) == Counter(
        {str({"DOUBLE": 1.0}.get(kind, 1)): MANY, str(shown): 1}
    )


def test_c33_keys_that_differ_in_case_are_two(session, folder):
    records = [{"id": 1, "Id": "a", "s": {"k": 1, "K": 2}}, {"id": 2, "Id": "b", "s": {"K": 3}}]
    write_lines(folder / "0.jsonl", records[:1])
    write_lines(folder / "1.jsonl", [*records[1:], {"ID": 7}])
    assert rows(
        session, "FROM '*.jsonl' |> WHERE id < 3 |> SELECT id, Id, s ->> 'k', s ->> 'K' AS l"
    ) == [
        (1, "a", "1", "2"),
        (2, "b", None, "3"),
    ]
    session.run("FROM '*.jsonl' |> WHERE id < 3 |> DROP ID |> WRITE 'again/0.jsonl'")
    again = [json.loads(line) for line in (folder / "again/0.jsonl").read_text().splitlines()]
    assert again == records
    found = session.query("FROM 'again/0.jsonl'").to_dicts()
    assert [{**row, "s": json.loads(row["s"])} for row in found] == records


def test_c34_no_row_of_a_csv_is_lost(session, folder):
    late = [*(f"{i},{i}" for i in range(MANY)), "x,y"]
    (folder / "late.csv").write_text("a,b\n" + "\n".join(late) + "\n")
    assert rows(session, "FROM 'late.csv' |> AGGREGATE count(*) AS n, max(a) AS m") == [
        (MANY + 1, "x")
    ]


@pytest.mark.parametrize("line", ["1", "1,2,3", '"1'])
def test_c34_a_ragged_csv_is_an_error_that_names_the_line(session, folder, line):
    (folder / "ragged.csv").write_text(f"a,b\n1,2\n{line}\n3,4\n")
    with pytest.raises(ZqlError, match=r"ragged\.csv") as caught:
        session.query("FROM 'ragged.csv'").to_dicts()
    assert re.search(r"line 3\b", str(caught.value))


# ---- C39, C45: places and constants --------------------------------------------------------------


@pytest.mark.parametrize(
    "before",
    [
        "\r\n\r\n",
        "-- 日本語\r\n",
        "\t",
        "/* a\r\nb */ ",
        "FROM (VALUES ('a\r\n\r\nb', '😀')) AS t (x, y) |> LIMIT 1;\r\n",
    ],
)
def test_c39_places_behind_line_ends_tabs_and_wide_characters(session, before):
    text = f"{before}FROM (VALUES ('日本', 1)) AS t (x, y) |> WHERE nope"
    found = error_of(session, text)
    assert found.message == 'unknown column "nope"'
    lines = text[: text.index("nope")].split("\r\n")
    assert (found.line, found.column) == (len(lines), len(lines[-1]) + 1)


@pytest.mark.parametrize("rules", ["all rules", "no rules"])
def test_c45_a_constant_is_compared_in_its_own_type(session, folder, rules):
    session.disabled = frozenset() if rules == "all rules" else ALL_RULES
    session.run(
        "FROM (VALUES (0.1::FLOAT, 1::TINYINT), (0.5::FLOAT, 2::TINYINT)) AS t (c, i)"
        " |> WRITE 'narrow.parquet'"
    )
    session.run("FROM (VALUES (0.1::DOUBLE, 300)) AS t (c, i) |> WRITE 'wide.parquet'")
    count = "|> AGGREGATE count(*) AS n"
    for files, condition, n in [
        ("narrow", "c > 0.1::DOUBLE", 2),
        ("narrow", "c = 0.1::DOUBLE", 0),
        ("narrow", "i < 1000", 2),
        ("narrow", "i > 1.5", 1),
        ("*", "c > 0.1::DOUBLE", 2),
        ("*", "i > 255", 1),
    ]:
        assert rows(session, f"FROM '{files}.parquet' |> WHERE {condition} {count}") == [(n,)]
    session.disabled = frozenset()


# ---- the list ------------------------------------------------------------------------------------


def listed():
    """Numbers of the table in README.md, and those of them that wait for an operator."""
    lines = re.findall(r"^\| (C[^|]*) \|([^|]*)\|", README.read_text(), re.MULTILINE)
    found, waiting = [], set()
    for cell, what in lines:
        for part in cell.split(", "):
            first, _, last = part.replace("C", "").partition(" to ")
            numbers = range(int(first), int(last or first) + 1)
            found += numbers
            if what.strip().startswith("waits"):
                waiting.update(numbers)
    return found, waiting


def numbers_with_tests():
    titles = [case.title for path in TESTS.rglob("*.test") for case in golden.read(path)]
    found = {int(n) for title in titles for n in re.findall(r"^C(\d+): ", title)}
    for path in TESTS.rglob("test_*.py"):
        found |= {int(n) for n in re.findall(r"def test_c(\d+)_", path.read_text(encoding="utf-8"))}
    return found


def test_each_failure_of_the_list_has_a_test():
    numbers, waiting = listed()
    assert sorted(numbers) == list(range(1, 53))
    assert numbers_with_tests() & set(numbers) == set(numbers) - waiting
