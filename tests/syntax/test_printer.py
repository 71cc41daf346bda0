"""Canonical text reads back as what was printed."""

from __future__ import annotations

import random_asts as r
from hypothesis import HealthCheck, given, settings
from random_statements import statements
from zql.expr import expression as ex
from zql.source import Source
from zql.syntax import ast
from zql.syntax.parser import parse_expression, parse_script
from zql.syntax.printer import expression_text, print_script
from zql.tree import same_tree


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(r.expressions())
def test_expressions_read_back(expression):
    text = expression_text(expression)
    parsed = parse_expression(Source("e", text))
    assert parsed == expression, text
    assert expression_text(parsed) == text


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(r.expressions())
def test_queries_read_back(expression):
    query = ast.Query((ast.NameSource("t"),), (ast.Where(expression), ast.Limit(expression)))
    printed = print_script(ast.Script((ast.QueryStatement(query),)))
    script = parse_script(Source("q", printed))
    assert script.statements[0].query == query
    assert print_script(script) == printed


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(statements())
def test_statements_read_back(statement):
    script = ast.Script((statement,))
    printed = print_script(script)
    parsed = parse_script(Source("s", printed))
    assert same_tree(parsed, script), printed
    assert print_script(parsed) == printed


def test_what_only_a_bound_plan_holds_is_printed_too():
    assert expression_text(ex.Literal(b"\x00'a")) == r"CAST('\x00\x27\x61' AS BLOB)"
    assert expression_text(ex.Literal(-5)) == "-5"
    assert expression_text(ex.Binary("**", ex.Literal(-5), ex.Literal(2))) == "-5 ** 2"
    assert expression_text(ex.Literal(5, "UTINYINT")) == "CAST(5 AS UTINYINT)"
    assert expression_text(ex.Column("order", "BIGINT")) == '"order"'
