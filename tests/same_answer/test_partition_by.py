"""PARTITION BY .. THEN gives what the subpipe gives for the rows of each key by themselves.

Subpipes of one and of two operators are run both ways.
"""

import contextlib
import itertools
import json
import os

import pytest
from zql.logical.context import Declarations
from zql.session import ALL_RULES, Session
from zql.source import Source

ROWS = [
    {"k": "y", "a": 2, "b": "p"},
    {"k": "x", "a": 1, "b": "p"},
    {"k": None, "a": 3, "b": "q"},
    {"k": "y", "a": None, "b": "q"},
    {"k": "x", "a": 4, "b": "q"},
    {"k": "y", "a": 5, "b": "p"},
    {"k": "x", "a": 1, "b": "p"},
    {"k": None, "a": 2, "b": "p"},
    {"k": "y", "a": 3, "b": "r"},
]
KEYS = ("x", "y", None)

SETUP = """
IMPORT PYTHON 'functions.py' AS py;
CREATE TEMP VIEW t AS
FROM read_json('t-*.jsonl', columns => {k: 'VARCHAR', a: 'BIGINT', b: 'VARCHAR'});
CREATE TEMP VIEW u AS FROM (VALUES ('p', 1), ('p', 2), ('q', 3)) AS u (b, c);
"""

FUNCTIONS = """
from typing import Iterator, TypedDict
class Row(TypedDict):
    a: int | None
    b: str
def same(row: dict) -> Row:
    return {"a": row["a"], "b": row["b"] + "!"}
def twice(row: dict) -> Iterator[Row]:
    yield {"a": row["a"], "b": row["b"]}
    yield {"a": 7, "b": row["b"]}
def even(a: int) -> bool:
    return a % 2 == 0
"""

KEEPS = {
    "where": "WHERE a > 1",
    "where window": "WHERE rank() OVER (ORDER BY a) <= 2",
    "where python": "WHERE py.even(a)",
    "set": "SET a = a + 1",
    "other key": "DROP IF EXISTS k |> EXTEND 'z' AS k",
    "select": "SELECT a, b",
    "drop key": "DROP IF EXISTS k",
    "rename": "RENAME a AS a{i} |> EXTEND a{i} AS a",
    "as": "AS r",
    "windows": "EXTEND sum(a) OVER () AS s{i}, rank() OVER (PARTITION BY b ORDER BY a) AS w{i}",
    "unnest": "UNNEST range(a) AS u{i}",
    "left unnest": "LEFT UNNEST range(a - 2) AS v{i} WITH OFFSET AS o{i}",
    "map": "MAP py.same",
    "flatmap": "FLATMAP py.twice",
    "subquery": "WHERE a IN (FROM t |> WHERE k = 'x' |> SELECT a)",
    "if": "IF TRUE THEN (|> WHERE a < 5)",
}
LOOKS = {
    "sample": "TABLESAMPLE BERNOULLI (60 PERCENT) REPEATABLE (2)",
    "places": "EXTEND row_number() OVER () AS n{i}, lag(a) OVER () AS l{i}",
    "limit": "LIMIT 2",
    "offset": "LIMIT 1 OFFSET 1",
    "rest": "OFFSET 2",
    "reservoir": "TABLESAMPLE RESERVOIR (2 ROWS) REPEATABLE (1)",
    "stratified": "TABLESAMPLE RESERVOIR (1 ROWS PARTITION BY b) REPEATABLE (1)",
    "shuffle": "SHUFFLE SEED 1",
    "distinct on": "DISTINCT ON (b)",
    "nested": "PARTITION BY b THEN (|> LIMIT 1)",
    "nested sum": "PARTITION BY b THEN (|> EXTEND sum(a) OVER () AS m{i})",
    "list": "AGGREGATE list(a) AS ls{i}, max(a) AS a, max(b) AS b, count(*) AS rows{i}",
}
"""Operators whose result depends on the order of the rows that they get."""

SORTS = {"sort": "ORDER BY a DESC, b"}

OPENS = {
    "distinct": "DISTINCT",
    "select distinct": "SELECT DISTINCT a, b",
    "group": "AGGREGATE max(a) AS a, count(*) AS c{i} GROUP BY b",
    "group by key": "AGGREGATE max(a) AS a, max(b) AS b GROUP BY b = 'p' AS k",
    "aggregate": "AGGREGATE max(a) AS a, max(b) AS b, count(*) AS rows{i}",
    "join": "JOIN u AS j{i} USING (b) |> SELECT * EXCLUDE (c)",
    "left join": "LEFT JOIN (FROM u |> RENAME b AS b{i}, c AS c{i}) ON b = b{i} AND c{i} > 1",
    "semi join": "SEMI JOIN u AS j{i} USING (b)",
    "anti join": "ANTI JOIN u AS j{i} USING (b)",
}
"""Operators behind which the order is open."""

ALONE = {
    "pivot": "PIVOT (max(a) FOR b IN ('p', 'q'))",
    "pivot of key": "PIVOT (max(a) FOR k IN ('x', 'y'))",
    "unpivot": "EXTEND 1::BIGINT AS z |> UNPIVOT (v FOR name IN (a, z))",
    "rollup": "AGGREGATE max(a) AS a, count(*) AS rows0 GROUP BY ROLLUP (b)",
    "rollup of key": "AGGREGATE max(a) AS a GROUP BY ROLLUP (k, b)",
    "assert": "ASSERT a IS NULL OR a > 0",
    "lateral": "JOIN LATERAL (FROM UNNEST(range(a)) AS n) AS l ON TRUE",
}
"""Operators whose columns the others do not go on from."""

ALL = {**KEEPS, **SORTS, **LOOKS, **OPENS}
PAIRED = ("where window", "flatmap", "sort", "limit", "nested", "aggregate", "group", "join")
"""The operators of pairs; `make soak` takes all."""

SOAK = "ZQL_EXAMPLES" in os.environ
PIPES = [(), *((name,) for name in (*ALL, *ALONE))]
PIPES += [
    pair
    for pair in itertools.product(ALL if SOAK else PAIRED, repeat=2)
    if not (pair[0] in OPENS and pair[1] in LOOKS)
]


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    folder = tmp_path_factory.mktemp("partition")
    (folder / "functions.py").write_text(FUNCTIONS)
    for i in range(2):
        rows = ROWS[i * 5 : i * 5 + 5]
        (folder / f"t-{i}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with Session(workers=1, threads=2) as made, contextlib.chdir(folder):
        made.declarations = Declarations()
        list(made.statements(Source("setup", SETUP), base_dir=str(folder)))
        yield made


def rows_of(session, text):
    return session.query(text, scan_locals=False).to_arrow().to_pylist()


def pipe_of(names):
    return " ".join(
        "|> " + {**ALL, **ALONE}[name].replace("{i}", str(i)) for i, name in enumerate(names)
    )


def by_hand(session, names):
    """The rows of each key through the subpipe; a group that has become empty gives no totals."""
    found = []
    for key in KEYS:
        same = "k IS NULL" if key is None else f"k = '{key}'"
        for row in rows_of(session, f"FROM t |> WHERE {same} {pipe_of(names)}"):
            empty = any(n.startswith("rows") and v == 0 for n, v in row.items())
            if not empty:
                found.append(row if "k" in row else {"k": key, **row})
    return found


def text_of(row):
    return json.dumps(row, default=str)


@pytest.mark.parametrize("names", PIPES, ids=" then ".join)
def test_groups_are_as_by_themselves(session, names):
    text = f"FROM t |> PARTITION BY k THEN ({pipe_of(names)})"
    expected = [text_of(row) for row in by_hand(session, names)]
    for disabled in (frozenset(), frozenset(ALL_RULES)):
        session.disabled = disabled
        try:
            got = [text_of(row) for row in rows_of(session, text)]
        finally:
            session.disabled = frozenset()
        if any(name in OPENS or name in SORTS or name in ALONE for name in names):
            assert sorted(got) == sorted(expected)
        else:
            assert got == expected
