"""Whatever the text is: a script, or errors that have a place."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from zql.errors import ErrorList, ParseError
from zql.source import Source
from zql.syntax.keywords import KEYWORDS
from zql.syntax.parser import completions, is_complete, parse_script, split_statements
from zql.syntax.printer import print_script

SCRIPTS = [path.read_text() for path in sorted((Path(__file__).parent / "scripts").glob("*.zql"))]
SIGNS = (
    "|> | || > ( ) [ ] { } , . ; : :: = == => -> ->> - -- + * ** / // /* */ % ^ ~ & << >> <> != < "
    "<= >= @{ @ $ $$ $x $x$ ' '' 'a' E'a' \" \"a\" ` `a` a b t.a f( 1 1.5 1e3 .5 0x1F 1a # ! ? "
    "\\ é 😀"
)
SPACES = ["\n", "\t", "\r\n", "\x00", "\u200b", "\ufeff", " "]
PIECES = [*sorted(KEYWORDS), *SIGNS.split(), *SPACES]

relaxed = settings(deadline=None, suppress_health_check=list(HealthCheck))


def parsed(source):
    """The script, or None and what was raised."""
    try:
        return parse_script(source), None
    except (ParseError, ErrorList) as error:
        return None, error


def check(text):
    source = Source("fuzz.zql", text)
    script, found = parsed(source)
    if script is None:
        for error in getattr(found, "errors", [found]):
            assert error.code.startswith("S1")
            assert error.span is not None
            assert 0 <= error.span.start <= error.span.end <= len(text)
            assert error.message
            assert error.line >= 1
            assert error.column >= 1
            assert len(error.label) < 200
        assert str(found)
    else:
        printed = print_script(script)
        # Not the same AST: the case of a built-in function's name is not kept.
        assert print_script(parse_script(Source("again.zql", printed))) == printed
    is_complete(text)
    completions(text)
    split_statements(source)


@settings(relaxed, max_examples=300)
@given(st.lists(st.sampled_from(PIECES), max_size=25), st.sampled_from(["", " "]))
def test_random_tokens(pieces, gap):
    check(gap.join(pieces))


@settings(relaxed, max_examples=200)
@given(st.lists(st.sampled_from(PIECES), max_size=12))
def test_random_operators(pieces):
    check("FROM t |> " + " ".join(pieces))


@settings(relaxed, max_examples=150)
@given(st.text(max_size=60))
def test_random_text(text):
    check(text)


@settings(relaxed, max_examples=50)
@given(st.binary(max_size=80))
def test_random_bytes(data):
    check(data.decode("utf-8", "surrogateescape"))
    check(data.decode("latin-1"))


@settings(relaxed, max_examples=150)
@given(st.data())
def test_mutated_scripts(data):
    text = data.draw(st.sampled_from(SCRIPTS))
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        size = data.draw(st.sampled_from([0, 1, 3, 20]))
        piece = data.draw(st.sampled_from(["", " ", *PIECES]))
        text = text[:start] + piece + text[start + size :]
    check(text)


@pytest.mark.parametrize("text", SCRIPTS, ids=lambda text: text.split(".")[0].strip("- "))
def test_every_beginning_of_a_script(text):
    for end in range(0, len(text), 7):
        check(text[:end])
