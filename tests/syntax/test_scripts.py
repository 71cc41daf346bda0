"""Whole scripts: real jobs, and the forms that must be accepted besides."""

from __future__ import annotations

from pathlib import Path

import pytest
from zql.source import Source
from zql.syntax.parser import parse_script, split_statements
from zql.syntax.printer import print_script

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.zql"))


def parse(text):
    return parse_script(Source("script.zql", text))


def test_there_are_fourteen_scripts():
    assert len(SCRIPTS) == 14


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_script(path):
    script = parse(path.read_text())
    printed = print_script(script)
    assert parse(printed) == script
    assert print_script(parse(printed)) == printed


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_every_statement_is_found(path):
    text = path.read_text()
    spans = split_statements(Source(path.name, text))
    code = "".join(line.split("--")[0] for line in text.splitlines(keepends=True))
    assert len(spans) == code.count(";")
    assert not [span.text for span in spans if ";" in span.text.split("--")[0]]


@pytest.mark.parametrize(
    "text",
    [
        "|> LIMIT 1",
        "((FROM t)) |> LIMIT 2",
        "(((FROM t) |> WHERE x) |> LIMIT 2)",
        "FROM (t JOIN u USING (a)) AS q",
        "FROM (t JOIN (u JOIN v ON u.a = v.a) USING (a)) AS q (a, b)",
        "FROM t |> WHERE a > ((FROM u |> AGGREGATE max(a)))",
        "FROM t |> UNION ALL BY NAME (FROM u), (FROM v)",
        "FROM t |> LEFT UNNEST tags AS tag",
        "FROM t |> UNNEST tags AS tag WITH OFFSET AS i",
        "FROM t |> UNNEST tags tag WITH ORDINALITY i",
        "FROM t |> UNNEST f(x)",
        "FROM t |> DROP IF EXISTS a, b",
        "FROM t |> SELECT if, map |> DROP if |> DROP if, exists",
        "FROM t |> SET a.b.c = 1, select = 2, group.order = 3",
        "FROM t |> SELECT MAP {'a': 1}, map(1), map['a'], MAP {}, {}, []",
        "FROM t |> SELECT [x * 2 FOR x IN l IF x > 1], [y FOR y IN [1, 2]]",
        "FROM t |> SELECT list_transform(l, lambda x: x + 1), list_reduce(l, lambda a, b: a + b)",
        "#!/usr/bin/env -S zql run\nFROM t",
        "\ufeffFROM t",
        "\ufeff#! x\nFROM t",
        "FROM 'a.jsonl', ['b.jsonl', 'c.jsonl',] AS x, UNNEST([1]) AS u (v), $data d, range(10)",
        "FROM read_csv('x', header => true, columns => {a: 'INT'}) AS c",
        "FROM q.load(path => 'x')",
        "FROM VALUES (1, 'a'), (2, 'b') AS v (n, s)",
        "FROM (VALUES (1, 'a'), (2, 'b')) v (n, s)",
        "VALUES (1, 'a'), (2, 'b') |> LIMIT 1",
        "FROM a AS x LEFT JOIN b ON x.k = b.k CROSS JOIN c NATURAL JOIN d",
        "FROM a |> FULL OUTER JOIN @{strategy = hash} b AS y USING (k, l)",
        "FROM a |> SEMI JOIN b USING (k) |> ANTI JOIN c ON a.k = c.k |> RIGHT JOIN d USING (k)",
        "FROM a |> ASOF JOIN b ON a.t >= b.t |> ASOF LEFT JOIN c ON a.t >= c.t",
        "FROM a |> NATURAL LEFT OUTER JOIN b |> INNER JOIN (FROM c) USING (k)",
        "FROM t |> SELECT DISTINCT *, t.*, f(x).*, (s).*, s.a AS b,",
        "FROM t |> SELECT * EXCLUDE (a, t.b) REPLACE (a + 1 AS a) RENAME (c AS d)",
        "FROM t |> SELECT t.* EXCEPT (a), * EXCLUDE b, COLUMNS('re'), COLUMNS('x') AS y",
        "FROM t |> AGGREGATE GROUP BY a |> AGGREGATE count(*), sum(x) s GROUP AND ORDER BY k DESC,",
        "FROM t |> AGGREGATE sum(x) AS s DESC NULLS LAST GROUP AND ORDER BY a, b AS c ASC",
        "FROM t |> DISTINCT |> DISTINCT ON (a, b) ORDER BY c DESC NULLS FIRST, d",
        "FROM t |> ORDER BY a, b DESC, |> LIMIT 10 OFFSET 5 |> OFFSET 3 |> LIMIT $n",
        "FROM t |> INTERSECT DISTINCT (FROM u) |> EXCEPT (FROM v) |> UNION (VALUES (1))",
        "FROM t |> EXTEND sum(a) OVER w, rank() OVER (w ORDER BY b) WINDOW w AS (PARTITION BY k)",
        "FROM t |> MAP f |> MAP q.g(a, b => 1) RETURNS (x INTEGER, y VARCHAR[])",
        "FROM t |> MAP BATCHES @{batch_size = 10} q.f |> MAP SHARDS f(seq => 1) ON ERROR FAIL",
        "FROM t |> FLATMAP @{workers = 4, memory = '4GB', other.key = x} q.f()",
        "FROM t |> WHERE x ON ERROR SKIP INTO 'r' LIMIT 1 PERCENT |> SELECT a ON ERROR NULL",
        "FROM t |> EXTEND f(a) AS b ON ERROR FAIL |> SET a = f(a) ON ERROR SKIP LIMIT 5",
        "FROM t |> WRITE $out OPTIONS (format = 'csv', header = true, partition_by = [a, b],)",
        "FROM t |> WRITE 'x' OPTIONS ()",
        "FROM t |> EXPORT DATA TO 'x' OPTIONS (format = 'csv')",
        "FROM t |> EXPORT DATA OPTIONS (URI = 'x', format = 'csv')",
        "CREATE OR REPLACE TEMP VIEW v AS FROM t |> WHERE x",
        "CREATE TEMPORARY VIEW v AS (FROM t)",
        "IMPORT PYTHON 'a.py'; IMPORT PYTHON pkg.mod AS m; IMPORT PYTHON mod",
        "SET workers = 8; SET temp_dir = '/x'; SET disabled_rules = ['a']; SET optimizer = false",
        "EXPLAIN FROM t; EXPLAIN SYNTAX FROM t; EXPLAIN LOGICAL (FROM t); EXPLAIN TRACE VALUES (1)",
        "EXPLAIN ANALYZE FROM t |> LIMIT 1; EXPLAIN |> LIMIT 1; DESCRIBE t; DESCRIBE 'x.csv'",
        "DESCRIBE FROM t |> LIMIT 1; DESCRIBE |> LIMIT 1; DESCRIBE values; DESCRIBE VALUES (1)",
        "DECLARE a INTEGER; DECLARE b VARCHAR[] DEFAULT ['x']; DECLARE c DECIMAL(9, 2) DEFAULT 1.5",
        "FROM t; ;; FROM u;",
        "",
        " -- nothing\n/* at all */ ",
    ],
)
def test_accepted(text):
    script = parse(text)
    printed = print_script(script)
    assert parse(printed) == script
