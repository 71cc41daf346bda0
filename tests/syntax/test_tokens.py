"""Where tokens begin and end, and what is none."""

from __future__ import annotations

import pytest
from zql.errors import ErrorList, ParseError
from zql.source import Source
from zql.syntax.parser import parse_script, split_statements
from zql.syntax.tokens import BAD, tokenize, vocabulary


def tokens(text):
    found = tokenize(Source("t", text))
    return [found.text(at) for at in range(len(found.kinds))]


def kinds(text):
    found = tokenize(Source("t", text))
    return ["BAD" if kind == BAD else vocabulary().names[kind] for kind in found.kinds]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a|>b", ["a", "|>", "b"]),
        ("a||b", ["a", "||", "b"]),
        ("a|b", ["a", "|", "b"]),
        ("a->>b", ["a", "->>", "b"]),
        ("a->b", ["a", "->", "b"]),
        ("a=>b", ["a", "=>", "b"]),
        ("a==b", ["a", "==", "b"]),
        ("a<=b", ["a", "<=", "b"]),
        ("a<>b", ["a", "<>", "b"]),
        ("a<-b", ["a", "<", "-", "b"]),
        ("1--2", ["1"]),
        ("1 - -2", ["1", "-", "-", "2"]),
        ("a::b", ["a", "::", "b"]),
        ("{a:1}", ["{", "a", ":", "1", "}"]),
        ("l[1:2]", ["l", "[", "1", ":", "2", "]"]),
        ("l[1::2]", ["l", "[", "1", "::", "2", "]"]),
        ("$1", ["$", "1"]),
        ("$a+$b", ["$a", "+", "$b"]),
        ("$$a$$", ["$$a$$"]),
        ("$x$a$x$", ["$x$a$x$"]),
        ("$x$ $$ $y$ $x$", ["$x$ $$ $y$ $x$"]),
        ("$$a$$b", ["$$a$$", "b"]),
        ("'a''b'", ["'a''b'"]),
        ("'a' 'b'", ["'a'", "'b'"]),
        (r"'\'", [r"'\'"]),
        (r"E'\''", [r"E'\''"]),
        ("e'a' e", ["e'a'", "e"]),
        ("ae'a'", ["ae", "'a'"]),
        ('"a""b"', ['"a""b"']),
        ("`a``b`", ["`a``b`"]),
        ('""', ['""']),
        ("a//b", ["a", "//", "b"]),
        ("a/b", ["a", "/", "b"]),
        ("a/*x*/b", ["a", "b"]),
        ("a/* -- */b", ["a", "b"]),
        ("a--/*\nb*/", ["a", "b", "*", "/"]),
        ("a/**/b/***/c", ["a", "b", "c"]),
        ("1.5.a", ["1.5", ".", "a"]),
        ("1..2", ["1.", ".2"]),
        ("a.5", ["a", ".5"]),
        ("a**b*c", ["a", "**", "b", "*", "c"]),
        ("@{a}", ["@{", "a", "}"]),
        ("\u00a0a\u2003b\r\n\tc", ["a", "b", "c"]),
        ("é_1 Ωx 名", ["é_1", "Ωx", "名"]),
    ],
)
def test_tokens(text, wanted):
    assert tokens(text) == wanted


def test_a_word_is_a_keyword_whole_or_not_at_all():
    assert kinds("FROMt ORDERBY selects from_ _from") == ["IDENT"] * 5
    assert kinds("From frOM FROM") == ["FROM"] * 3


def test_with_time_zone_is_told_from_with_offset():
    assert kinds("WITH TIME ZONE WITH TIME, WITH OFFSET")[0] == "WITH_TIME"
    assert kinds("x WITH time zone")[1] == "WITH_TIME"
    assert kinds("WITH TIME AS")[0] == "WITH"


@pytest.mark.parametrize(
    ("text", "code", "at"),
    [
        ("a 'b\nc", "S103", 2),
        ("a $$b", "S103", 2),
        ("a $t$ b $$ $T$", "S103", 2),
        ("a e'\\'", "S103", 2),
        ("a /* b", "S104", 2),
        ('a "b', "S105", 2),
        ("a `b", "S105", 2),
        ("1a", "S106", 0),
        ("a 0x1F b", "S106", 2),
        ("1_", "S106", 0),
        ("1__0", "S106", 0),
        ("1e", "S106", 0),
        ("1.5x", "S106", 0),
        (".5x", "S106", 1),
        ("1é", "S106", 0),
        ("a \u200b", "S107", 2),
        ("a # b", "S107", 2),
        ("a @b", "S107", 2),
        ("a ! b", "S107", 2),
        ("a \\ b", "S107", 2),
        ("a ? b", "S107", 2),
        ("\x00", "S107", 0),
        ("a \ud800", "S107", 2),
    ],
)
def test_what_is_no_token(text, code, at):
    found = tokenize(Source("t", text))
    (error,) = list(found.errors.values())[:1]
    assert (error.code, error.span.start) == (code, at)
    assert str(error)


def test_later_statements_are_still_read_behind_a_bad_character():
    with pytest.raises(ParseError) as caught:
        parse_script(Source("t", "FROM t |> WHERE a ? b; FROM u;"))
    assert caught.value.code == "S107"
    with pytest.raises(ErrorList) as caught:
        parse_script(Source("t", "FROM t |> WHERE a ? b; FROM u |> ;"))
    assert [error.code for error in caught.value.errors] == ["S107", "S102"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("FROM a; FROM b", ["FROM a", "FROM b"]),
        (
            "FROM 'a;b'; FROM $$;$$ -- ;\n; /* ; */ FROM \";\"",
            ["FROM 'a;b'", "FROM $$;$$", 'FROM ";"'],
        ),
        (";;FROM a;;", ["FROM a"]),
        ("FROM (a; FROM b", ["FROM (a", "FROM b"]),
        ("", []),
        ("-- x", []),
        (" ; ", []),
    ],
)
def test_statements_are_split_at_semicolons(text, wanted):
    assert [span.text for span in split_statements(Source("t", text))] == wanted
