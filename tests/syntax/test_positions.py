"""Places of nodes and errors: tabs, line ends, wide characters, later statements."""

from __future__ import annotations

import pytest
from zql.errors import ErrorList, ParseError
from zql.expr import expression as ex
from zql.source import Source
from zql.syntax import ast
from zql.syntax.parser import parse_script, parse_statement
from zql.tree import walk

SCRIPT = """-- head
DECLARE n INTEGER DEFAULT 1;
FROM 'a.jsonl' AS t, u x
|> WHERE  t.a > ( n + 1 ) AND "b c" IN (1, 'x''y')
|> EXTEND lower( trim(title) ) AS t2, CASE WHEN a THEN 1 END
|> AGGREGATE sum(x) FILTER (WHERE y) AS s DESC GROUP BY k AS kk
|> JOIN @{strategy = hash} v ON a.b = c.d
|> SET a.b = 1
|> MAP q.f(x => 1) RETURNS (a INTEGER)
|> WRITE 'out' OPTIONS (format = 'csv');
"""


def nodes(text):
    return list(walk(parse_script(Source("s", text))))


def test_every_node_has_its_place():
    for node in nodes(SCRIPT):
        assert node.span is not None, node
        assert node.span.start <= node.span.end


def test_a_place_holds_its_children():
    def check(node):
        for child in node_children(node):
            assert node.span.start <= child.span.start, (node, child)
            assert child.span.end <= node.span.end, (node, child)
            check(child)

    from zql.tree import children as node_children

    check(parse_script(Source("s", SCRIPT)))


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        (ast.Where, ["WHERE  t.a > ( n + 1 ) AND \"b c\" IN (1, 'x''y')"]),
        (ast.Declare, ["DECLARE n INTEGER DEFAULT 1"]),
        (ast.Aliased, ["'a.jsonl' AS t", "u x"]),
        (ast.PathSource, ["'a.jsonl'"]),
        (ast.Join, ["JOIN @{strategy = hash} v ON a.b = c.d"]),
        (ast.Assignment, ["a.b = 1"]),
        (ast.ReturnColumn, ["a INTEGER"]),
        (ast.Write, ["WRITE 'out' OPTIONS (format = 'csv')"]),
        (ast.MapRows, ["MAP q.f(x => 1) RETURNS (a INTEGER)"]),
        (ast.AggregateItem, ["sum(x) FILTER (WHERE y) AS s DESC", "k AS kk"]),
        (ex.In, ["\"b c\" IN (1, 'x''y')"]),
        (ex.NamedArgument, ["x => 1"]),
        (ex.Case, ["CASE WHEN a THEN 1 END"]),
        (ex.Logical, ["t.a > ( n + 1 ) AND \"b c\" IN (1, 'x''y')"]),
    ],
)
def test_places(kind, texts):
    assert [node.span.text for node in nodes(SCRIPT) if type(node) is kind] == texts


def test_places_of_names_in_calls():
    calls = [node for node in nodes(SCRIPT) if isinstance(node, ex.Call)]
    assert [call.name_span.text for call in calls] == ["lower", "trim", "sum"]
    assert [call.span.text for call in calls] == [
        "lower( trim(title) )", "trim(title)", "sum(x) FILTER (WHERE y)"
    ]  # fmt: skip
    (mapped,) = [node for node in nodes(SCRIPT) if isinstance(node, ast.MapRows)]
    assert mapped.function_span.text == "q.f"


def test_an_operand_in_parentheses_counts_with_them():
    (binary,) = [n for n in nodes("FROM t |> WHERE (a + 1) * 2") if getattr(n, "op", "") == "*"]
    assert binary.span.text == "(a + 1) * 2"


def error_of(text):
    with pytest.raises((ParseError, ErrorList)) as caught:
        parse_script(Source("s.zql", text))
    return caught.value


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("FROM t\n|> WEHRE x", 2, 4),
        ("FROM t\r\n|> WEHRE x", 2, 4),
        ("FROM t\r\n\r\n|> LIMIT 1\r\n|> WEHRE x", 4, 4),
        ("\t\tFROM t\n\t|>\tWEHRE x", 2, 5),
        ("FROM 'a\nb\nc' |> WEHRE x", 3, 7),
        ("FROM $$a\nb$$ |> WEHRE x", 2, 8),
        ("/* a\nb */ FROM t |> WEHRE x", 2, 16),
        ("FROM '😀名' |> WEHRE x", 1, 14),
        ("FROM t; FROM u;\nFROM v\n|> WEHRE x", 3, 4),
        ("#!/usr/bin/zql\nFROM t |> WEHRE x", 2, 11),
        ("FROM t |> SELECT (a\n  ,\n", 1, 18),
    ],
)
def test_places_of_errors(text, line, column):
    error = error_of(text)
    assert (error.line, error.column) == (line, column)


def test_the_end_of_the_text_is_a_place():
    error = error_of("FROM t |> SELECT a +\n\n  ")
    assert (error.line, error.column) == (1, 21)
    assert str(error).splitlines()[3].endswith("^ expected an expression")


def test_tabs_stay_in_the_excerpt():
    lines = str(error_of("FROM t\n\t|>\tWEHRE\tx")).splitlines()
    assert lines[3] == "  2 | \t|>\tWEHRE\tx"
    assert lines[4] == "    | \t  \t^^^^^"


def test_number_of_the_statement_and_of_the_operator():
    error = error_of("FROM t;\nFROM u |> LIMIT 1 |> UNION ALL (FROM v |> LIMIT 2) |> SELECT a +;")
    assert error.statement == 2
    assert error.operator == "operator 3: SELECT"
    error = error_of("FROM u |> UNION ALL (FROM v |> LIMIT 2 |> SELECT a +)")
    assert error.operator == "operator 1: UNION"
    assert error_of("FROM").operator is None


def test_statements_know_their_places():
    script = parse_script(Source("s", "FROM a;\n  FROM b |> LIMIT 1 ;"))
    assert [statement.span.text for statement in script.statements] == [
        "FROM a",
        "FROM b |> LIMIT 1",
    ]
    assert script.statements[1].span.line == 2


def test_one_statement():
    assert parse_statement(Source("s", "FROM a;")).query.items[0].name == "a"
    for text in ("", "FROM a; FROM b"):
        with pytest.raises(ParseError):
            parse_statement(Source("s", text))
