"""The Pygments lexer loses no text and knows the words."""

from __future__ import annotations

from pathlib import Path

import pytest
from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Error, Keyword, Name, Number, String
from zql.syntax.lexer import ZqlLexer

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.zql"))


def lexed(text):
    return [(kind, value) for kind, value in ZqlLexer().get_tokens(text) if value.strip()]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_scripts(path):
    text = path.read_text()
    found = list(ZqlLexer().get_tokens(text))
    assert "".join(value for _, value in found) == text
    assert not [value for kind, value in found if kind is Error]


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("FROM t", Keyword, "FROM"),
        ("from t", Keyword, "from"),
        ("a |> Where b", Keyword.Declaration, "Where"),
        ("a |> -- x\n map f", Keyword.Declaration, "map"),
        ("map(f)", Name.Function, "map"),
        ("t.select", Name.Attribute, "select"),
        ('"select"', Name, '"select"'),
        ("$limit", Name.Variable, "$limit"),
        ("'it''s'", String.Single, "'it''s'"),
        ("$a$ ' $a$", String.Heredoc, "$a$ ' $a$"),
        ("'open", Error, "'open\n"),
        ("/* open", Error, "/* open\n"),
        ("-- c", Comment.Single, "-- c"),
        ("#! z\nFROM t", Comment.Hashbang, "#! z"),
        ("1_000.5e3", Number, "1_000.5e3"),
        ("a?b", Error, "?"),
    ],
)
def test_kinds(text, kind, value):
    assert (kind, value) in lexed(text)


def test_it_is_installed_under_its_name():
    assert get_lexer_by_name("zql").name == "ZQL"
