"""Streams for programs: what other readers of the same formats make of them."""

import csv
import io
import json

import pytest
from fake_rows import Rows
from hypothesis import given
from hypothesis import strategies as st
from zql.display.formats import WRITERS


def written(format, names, types, rows=(), json_rows=()):
    out = io.BytesIO()
    WRITERS[format](Rows(names, types, rows, json_rows), out)
    return out.getvalue().decode()


def test_csv_tells_null_from_empty():
    rows = [("1", None, ""), ("2", 'say "hi"', "a,b\nc")]
    assert written("csv", ["n", "s", "t t"], ["BIGINT", "VARCHAR", "VARCHAR"], rows) == (
        'n,s,t t\n1,,""\n2,"say ""hi""","a,b\nc"\n'
    )


def test_tsv_quotes_tabs():
    assert written("tsv", ["a", "b"], ["VARCHAR"] * 2, [("x\ty", "a,b")]) == 'a\tb\n"x\ty"\ta,b\n'


fields = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)


@given(
    st.lists(st.tuples(fields, fields), max_size=5), st.sampled_from([("csv", ","), ("tsv", "\t")])
)
def test_any_text_comes_back_from_csv(rows, format):
    name, delimiter = format
    text = written(name, ["a", "b"], ["VARCHAR"] * 2, rows)
    read = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    assert read == [["a", "b"], *map(list, rows)]


@pytest.mark.parametrize("count", [0, 1, 3, 5000])
def test_json_is_one_array_and_jsonl_a_line_for_each(count):
    lines = [f'{{"n":{i}}}' for i in range(count)]
    expected = [{"n": i} for i in range(count)]
    assert json.loads(written("json", ["n"], ["BIGINT"], (), lines)) == expected
    text = written("jsonl", ["n"], ["BIGINT"], (), lines)
    assert [json.loads(line) for line in text.splitlines()] == expected
    assert text == "" or text.endswith("}\n")


def test_markdown_keeps_its_columns():
    rows = [("1", "a|b"), ("2", "x\ny"), ("3", None), ("4", "\x1b[1m")]
    assert written("markdown", ["n", "s"], ["BIGINT", "VARCHAR"], rows) == (
        "| n | s |\n|--:|---|\n| 1 | a\\|b |\n| 2 | x<br>y |\n| 3 |  |\n| 4 | \\x1b[1m |\n"
    )
