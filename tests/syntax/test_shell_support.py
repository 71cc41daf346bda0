"""What the shell asks of the parser: is it complete, and what could come next."""

from __future__ import annotations

import pytest
from zql.syntax.keywords import OPERATORS
from zql.syntax.parser import completions, is_complete


@pytest.mark.parametrize(
    "text",
    [
        "FROM t;",
        "FROM t |> ;",
        "nonsense;",
        "FROM t; -- done",
        "FROM t; FROM u;",
        "FROM t\n\n",
        "FROM t\n|> LIMIT 1\n \n",
        "|> LIMIT 1\n\n",
        "FROM t WHERE x\n\n",
        "FROM t; FROM u\n\n",
    ],
)
def test_complete(text):
    assert is_complete(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n\n",
        "-- only\n\n",
        "FROM t",
        "FROM t\n",
        "FROM t |>\n\n",
        "FROM t |> SELECT\n\n",
        "FROM t |> SELECT (a\n\n",
        "FROM 'a;",
        "FROM 'a\n\n",
        "FROM $$ a; \n\n",
        'FROM "a;\n\n',
        "FROM t /* ; \n\n",
        "FROM t -- ;",
        "FROM t; FROM u |>\n\n",
    ],
)
def test_incomplete(text):
    assert not is_complete(text)


def test_operators_come_behind_the_pipe():
    found = completions("FROM t |> ")
    assert set(found) == set(OPERATORS)
    assert completions("FROM t |> SE") == ("SELECT", "SEMI", "SET")
    assert completions("FROM t |> se") == ("SELECT", "SEMI", "SET")


@pytest.mark.parametrize(
    ("text", "some", "none"),
    [
        ("", {"FROM", "DECLARE", "CREATE", "|>"}, {"WHERE", "AND"}),
        ("FROM t ", {"|>", "AS", "JOIN", "LEFT"}, {"FROM", "MAP", "GROUP"}),
        ("FROM t |> WHERE a ", {"AND", "OR", "IS", "BETWEEN", "|>"}, {"SELECT", "MAP"}),
        ("FROM t |> WHERE a IS ", {"NULL", "NOT", "TRUE"}, {"SELECT"}),
        ("FROM t |> AGGREGATE count(*) ", {"GROUP", "AS"}, {"WHERE"}),
        ("FROM t |> AGGREGATE count(*) GROUP ", {"BY", "AND"}, {"OR"}),
        ("FROM t |> SELECT ", {"CASE", "DISTINCT", "NOT", "INTERVAL", "DATE"}, {"FIRST", "NAME"}),
        ("FROM t |> ORDER ", {"BY"}, {"DESC"}),
        ("FROM t |> ORDER BY a ", {"DESC", "ASC", "NULLS"}, {"WHERE"}),
        ("FROM t |> LEFT ", {"JOIN", "OUTER", "UNNEST"}, {"SEMI"}),
        ("FROM t |> SELECT a AS ", set(), {"SELECT", "FIRST"}),
        ("FROM t |> SELECT t.", {"*"}, {"SELECT", "FIRST"}),
        ("CREATE ", {"TEMP", "OR"}, {"VIEW"}),
        ("CREATE TEMP FUNCTION f(x INT) ", {"RETURNS", "LANGUAGE", "AS", "OPTIONS"}, {"FROM"}),
        ("CREATE TEMP FUNCTION f(x INT) LANGUAGE ", {"PYTHON"}, {"AS"}),
        ("EXPLAIN ", {"LOGICAL", "TRACE", "ANALYZE", "SYNTAX", "FROM", "SELECT"}, {"EXTEND"}),
        ("FROM t; EXPL", {"EXPLAIN"}, {"EXTEND"}),
        ("FROM t |> SELECT sum(a) ", {"OVER", "FILTER", "AS"}, {"WHERE"}),
    ],
)
def test_completions(text, some, none):
    found = set(completions(text))
    assert some <= found
    assert not none & found


@pytest.mark.parametrize("text", ["FROM t |> WEHRE x ", "FROM 'a", "FROM t ) ", "FROM t ? "])
def test_nothing_behind_a_mistake(text):
    assert completions(text) == ()
