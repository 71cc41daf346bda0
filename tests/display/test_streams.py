"""Streams for programs: what other readers of the same formats make of them."""

import csv
import io
import json
from contextlib import ExitStack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from zql.display.formats import WRITERS
from zql.execution.engine import Engine
from zql.execution.settings import Settings
from zql.execution.stream import RowStream
from zql.expr.sql import quote_literal


@pytest.fixture(scope="module")
def engine():
    with Engine(Settings(threads=1)) as engine:
        yield engine


def written(engine, format, columns, select):
    """The bytes of a SELECT in a format; `columns` are names and types of its c0, c1, ..."""
    out = io.BytesIO()
    named = [(f"c{i}", name, kind) for i, (name, kind) in enumerate(columns)]
    with engine.cursor() as cursor, RowStream(cursor, select, named, ExitStack(), None) as rows:
        WRITERS[format](rows, out)
    return out.getvalue()


def test_csv_tells_null_from_empty_and_quotes_what_it_must(engine):
    select = """SELECT * FROM (VALUES (1, NULL, '', [1, NULL]),
                (2, 'say "hi"', 'a,b' || chr(10), [])) AS t(c0, c1, c2, c3)"""
    columns = [("n", "BIGINT"), ("s", "VARCHAR"), ("t,t", "VARCHAR"), ("l", "INTEGER[]")]
    assert written(engine, "csv", columns, select).decode() == (
        'n,s,"t,t",l\n1,,"","[1,null]"\n2,"say ""hi""","a,b\n",[]\n'
    )


def test_tsv_quotes_tabs(engine):
    text = written(engine, "tsv", [("a", "VARCHAR")], "SELECT 'x' || chr(9) || 'y,z' AS c0")
    assert text == b'a\n"x\ty,z"\n'


fields = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(fields, fields), min_size=1, max_size=5), st.sampled_from(["csv", "tsv"]))
def test_any_text_comes_back_from_csv(engine, rows, format):
    values = ", ".join(f"({quote_literal(a)}, {quote_literal(b)})" for a, b in rows)
    select = f"SELECT * FROM (VALUES {values}) AS t(c0, c1)"
    data = written(engine, format, [("a", "VARCHAR"), ("b", "VARCHAR")], select)
    delimiter = {"csv": ",", "tsv": "\t"}[format]
    read = list(csv.reader(io.StringIO(data.decode(), newline=""), delimiter=delimiter))
    assert read == [["a", "b"], *map(list, rows)]


@pytest.mark.parametrize("count", [0, 1, 3, 5000])
def test_json_is_one_array_and_jsonl_a_line_for_each(engine, count):
    select = f"SELECT range AS c0 FROM range({count})"
    expected = [{"n": i} for i in range(count)]
    assert json.loads(written(engine, "json", [("n", "BIGINT")], select)) == expected
    text = written(engine, "jsonl", [("n", "BIGINT")], select).decode()
    assert [json.loads(line) for line in text.splitlines()] == expected
    assert text == "" or text.endswith("}\n")


def test_json_is_json_whatever_the_values(engine):
    select = """SELECT 'nan'::DOUBLE AS c0, [1.5, '-inf'::DOUBLE] AS c1, 'NaN "q"' || chr(27) AS c2,
                170141183460469231731687303715884105727 AS c3"""
    columns = [("f", "DOUBLE"), ("l", "DOUBLE[]"), ("s", "VARCHAR"), ("h", "HUGEINT")]
    assert json.loads(written(engine, "jsonl", columns, select), parse_constant=pytest.fail) == {
        "f": "NaN",
        "l": [1.5, "-Infinity"],
        "s": 'NaN "q"\x1b',
        "h": 2**127 - 1,
    }


def test_markdown_keeps_its_columns(engine):
    select = """SELECT * FROM (VALUES (1, 'a|b'), (2, 'x' || chr(10) || 'y'), (3, NULL),
                (4, chr(27) || '[1m')) AS t(c0, c1)"""
    assert written(engine, "markdown", [("n", "BIGINT"), ("s", "VARCHAR")], select).decode() == (
        "| n | s |\n|--:|---|\n| 1 | a\\|b |\n| 2 | x<br>y |\n| 3 |  |\n| 4 | \\x1b[1m |\n"
    )
