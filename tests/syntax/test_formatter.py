"""One style: what comes out means the same, holds the same comments, and comes out again."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from markdown_blocks import blocks
from random_statements import statements
from zql.errors import ErrorList, InternalError, ParseError
from zql.source import Source
from zql.syntax import ast, formatter
from zql.syntax.formatter import comments_of, format_script
from zql.syntax.parser import parse_script
from zql.syntax.printer import print_script
from zql.syntax.tokens import tokenize

from golden import cases, parameters

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

relaxed = settings(deadline=None, suppress_health_check=list(HealthCheck))


def formatted(text, width=100):
    return format_script(Source("script.zql", text), width)


def is_script(text):
    try:
        parse_script(Source("script.zql", text))
    except (ParseError, ErrorList):
        return False
    return True


def all_scripts():
    """Every script of this repository that is one."""
    files = [*ROOT.glob("examples/**/*.zql"), *ROOT.glob("tests/**/*.zql")]
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in sorted(files)]
    for folder in sorted({path.parent for path in ROOT.glob("tests/**/*.test")}):
        texts += [case.script for case in cases(folder)]
    for page in sorted(ROOT.glob("docs/**/*.md")):
        texts += [block.text for block in blocks(page) if block.language == "zql"]
    return [text for text in texts if is_script(text)]


SCRIPTS = all_scripts()


@pytest.mark.parametrize("case", parameters(HERE / "formatted"))
def test_format(case):
    text = formatted(case.script)
    assert formatted(text) == text
    case.check(text)


def test_all_scripts_keep_their_style_once_they_have_it():
    assert len(SCRIPTS) > 300
    for text in SCRIPTS:
        once = formatted(text)
        assert formatted(once) == once
        assert not [line for line in once.split("\n") if line != line.rstrip()]


def test_canonical_text_is_in_style():
    for text in SCRIPTS:
        printed = print_script(parse_script(Source("script.zql", text)))
        assert formatted(printed).strip() == printed.strip()


@settings(relaxed, max_examples=120)
@given(statements(), st.sampled_from([30, 100]))
def test_random_statements(statement, width):
    printed = print_script(ast.Script((statement,)))
    once = formatted(printed, width)
    assert formatted(once, width) == once
    if width == 100:
        assert once == printed


# ---- comments ----------------------------------------------------------------------------------

PLACES = [
    " -- {}\n", "\n-- {}\n", " /* {} */ ", "\n/* {} */\n", "\n\n  -- {}\n\n", "/* {}\n  more */",
    "\n/* {} */ ", " /* {} */\n", "-- {}\r\n",
]  # fmt: skip


def with_comments(text, seed):
    """The script with comments at some of the places between its tokens."""
    rng = random.Random(seed)
    share = rng.choice([0.03, 0.2, 0.6])
    tokens = tokenize(Source("script.zql", text))
    out, at, number = [], 0, 0
    for start in [*tokens.starts, len(text)]:
        out.append(text[at:start])
        while rng.random() < share:
            number += 1
            out.append(rng.choice(PLACES).format(number))
        at = start
    return "".join(out), number


def check_comments(text, seed):
    commented, number = with_comments(text, seed)
    before = comments_of(Source("before.zql", commented))
    assert len(before) >= number
    width = random.Random(seed).choice([20, 60, 100])
    once = formatted(commented, width)
    assert comments_of(Source("after.zql", once)) == before
    assert formatted(once, width) == once


@settings(relaxed, max_examples=200)
@given(st.sampled_from(SCRIPTS), st.integers(0, 10**6))
def test_comments_of_scripts_are_kept_in_order(text, seed):
    check_comments(text, seed)


@settings(relaxed, max_examples=100)
@given(statements(), st.integers(0, 10**6))
def test_comments_of_random_statements_are_kept_in_order(statement, seed):
    check_comments(print_script(ast.Script((statement,))), seed)


# ---- files -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", ""),
        (" \n\n", ""),
        (";;", ""),
        ("-- nothing", "-- nothing\n"),
        ("\n\nfrom t", "FROM t;\n"),
        ("from t;\n\n\n", "FROM t;\n"),
        ("\ufefffrom t", "\ufeffFROM t;\n"),
        ("\ufeff", "\ufeff"),
        ("#! zql\nfrom t", "#! zql\nFROM t;\n"),
        ("#!/usr/bin/env -S zql run  \n\n\nfrom t", "#!/usr/bin/env -S zql run\n\nFROM t;\n"),
        ("\ufeff#! zql", "\ufeff#! zql\n"),
        ("from t\r\n|> where x\r\n", "FROM t\r\n|> WHERE x;\r\n"),
        ("from t -- a \r\n|> where x\r\n", "FROM t -- a\r\n|> WHERE x;\r\n"),
        ("from t\n|> select 'a\r\nb';\r\n", "FROM t\n|> SELECT 'a\r\nb';\n"),
        ("from t;\r\n\r\n\r\nfrom u", "FROM t;\r\n\r\nFROM u;\r\n"),
    ],
)  # fmt: skip
def test_the_edges_of_files(text, wanted):
    assert formatted(text) == wanted
    assert formatted(wanted) == wanted


def test_what_is_no_script_is_an_error():
    with pytest.raises(ParseError) as caught:
        formatted("from t |> limt 1")
    assert caught.value.column == 11


def test_deep_and_long_scripts():
    deep = "FROM t |> SELECT " + "abs(" * 200 + "1" + ")" * 200
    assert formatted(deep).count("abs(") == 200
    many = "FROM VALUES " + ", ".join(f"({i}, -- {i}\n 'x')" for i in range(2000))
    assert formatted(many).count("--") == 2000


def test_a_printer_that_loses_something_is_found_out(monkeypatch):
    monkeypatch.setattr(formatter, "lay_out", lambda *_: "FROM t")
    with pytest.raises(InternalError, match="means"):
        formatted("FROM t |> LIMIT 1")
    with pytest.raises(InternalError, match="comments"):
        formatted("FROM /* a */ t")
