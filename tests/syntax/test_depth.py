"""What nests too deep is an error with a line, never a crash; what is only long works."""

from __future__ import annotations

import sys

import pytest
from zql.errors import ParseError
from zql.source import Source
from zql.syntax import depth
from zql.syntax.parser import completions, is_complete, parse_expression, parse_script
from zql.syntax.printer import expression_text, print_script

BEFORE = "FROM t\n|> SELECT "


def parse(text):
    return parse_script(Source("s.zql", text))


def too_deep(text, line):
    with pytest.raises(ParseError) as caught:
        parse(text)
    error = caught.value
    assert error.code == "S110"
    assert f"too deep on line {line}" in error.message
    assert error.line == line
    assert error.hint
    return error


@pytest.mark.parametrize(
    ("opening", "closing"),
    [("(", ")"), ("abs(", ")"), ("[", "]"), ("{a: ", "}"), ("(FROM ", ")"), ("a[", "]"), ("(", "")],
)
def test_brackets(opening, closing):
    limit = depth.MAX_NESTING
    too_deep(BEFORE + opening * (limit + 1) + "1" + closing * (limit + 1), 2)
    too_deep(BEFORE + opening * 3000 + "1" + closing * 3000, 2)
    too_deep(BEFORE + opening * 100_000, 2)


def test_as_many_brackets_as_are_allowed():
    limit = depth.MAX_NESTING
    parse(BEFORE + "(" * limit + "1" + ")" * limit)
    script = parse(BEFORE + "abs(" * limit + "1" + ")" * limit)
    assert print_script(script).count("abs(") == limit


def test_many_brackets_side_by_side():
    parse(BEFORE + ", ".join(["(1)"] * 1000))


def test_operators():
    limit = depth.MAX_OPERATORS
    parse("FROM t" + "\n|> WHERE a > 0" * limit)
    error = too_deep("FROM t" + "\n|> WHERE a > 0" * 2000, limit + 2)
    assert error.span.text == "|>"
    too_deep("FROM t |> UNION ALL (FROM u" + "\n|> WHERE a > 0" * 2000 + ")", limit + 2)


@pytest.mark.parametrize("many", [400, 20_000])
@pytest.mark.parametrize(
    "text",
    [
        lambda n: " + ".join(["a"] * n),
        lambda n: " || ".join(["a"] * n),
        lambda n: "- " * n + "a",
        lambda n: "NOT " * n + "a",
        lambda n: "a" + "[1]" * n,
        lambda n: "a" + "::INTEGER" * n,
        lambda n: "a" + " IS NULL" * n,
        lambda n: "f(x)" + ".b" * n,
        lambda n: "f(x)" + ".b()" * n,
        lambda n: "a" + " COLLATE x" * n,
        lambda n: "2" + " ** 2" * n,
    ],
    ids=["+", "||", "-", "NOT", "[]", "::", "IS", ".b", ".b()", "COLLATE", "**"],
)
def test_chains(text, many):
    if many < depth.MAX_DEPTH:
        expression = parse_expression(Source("e", text(many)))
        assert len(expression_text(expression)) > many
    else:
        with pytest.raises(ParseError) as caught:
            parse_expression(Source("e", text(many)))
        assert caught.value.code == "S110"
        assert caught.value.line == 1


@pytest.mark.parametrize("word", ["AND", "OR"])
def test_conditions_may_be_as_long_as_one_likes(word):
    text = f" {word} ".join(f"a = {n}" for n in range(10_000))
    expression = parse_expression(Source("e", text))
    assert len(expression.operands) == 10_000
    assert expression_text(expression) == text


def test_lists_may_be_as_long_as_one_likes():
    items = ", ".join(str(n) for n in range(10_000))
    assert len(parse_expression(Source("e", f"a IN ({items})")).items) == 10_000
    assert len(parse_expression(Source("e", f"[{items}]")).items) == 10_000
    rows = ", ".join(f"({n})" for n in range(5_000))
    assert len(parse(f"VALUES {rows}").statements[0].query.items[0].rows) == 5_000


def test_many_joins():
    too_deep("FROM a" + "\nCROSS JOIN b" * 2000, 1503)


def test_many_statements():
    assert len(parse("FROM a;\n" * 3000).statements) == 3000


def test_the_shell_can_stand_it():
    text = BEFORE + "(" * 5000
    assert completions(text)
    assert not is_complete(text)
    assert is_complete(text + ";")


def test_the_limit_of_python_is_not_touched():
    before = sys.getrecursionlimit()
    too_deep(BEFORE + "- " * 5000 + "1", 2)
    assert sys.getrecursionlimit() == before
