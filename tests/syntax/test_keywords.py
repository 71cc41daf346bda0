"""Every keyword as a name, wherever the language says that it is one."""

from __future__ import annotations

import pytest
from zql.errors import ParseError
from zql.source import Source
from zql.syntax.keywords import KEYWORDS, NON_RESERVED, RESERVED, is_keyword, is_reserved
from zql.syntax.parser import parse_script

FORMS = {"columns", "extract", "try", "try_cast", "values"}


def parse(text):
    return parse_script(Source("k", text)).statements[0].query


def each_case(words):
    return [case for word in sorted(words) for case in (word, word.lower(), word.title())]


@pytest.mark.parametrize("word", each_case(NON_RESERVED))
def test_a_keyword_is_a_name(word):
    query = parse(
        f"FROM {word} AS {word} |> SELECT {word}, {word} + 1 AS {word}, t.{word}, {word}.{word}"
        f" |> SET {word} = {word} |> WHERE {word} = 1 AND {word} IS NULL OR NOT {word}"
        f" |> AGGREGATE sum({word}) AS {word} GROUP BY {word} |> ORDER BY {word}, {word} DESC"
        f" |> JOIN {word} USING ({word}) |> RENAME {word} AS {word} |> DROP {word}"
        f" |> UNNEST {word} AS {word} |> AS {word} |> LIMIT {word}"
        f" |> EXTEND f({word} => {word}), {{{word}: {word}}}, [{word}, {word}], ({word}, {word})"
        f" |> EXTEND CASE {word} WHEN {word} THEN {word} ELSE {word} END, {word}::INTEGER, -{word}"
        f" |> EXTEND sum(x) OVER {word} WINDOW {word} AS (PARTITION BY {word} ORDER BY {word})"
    )
    assert query.items[0].item.name == word
    select = query.operators[0]
    assert select.items[0].expr.parts == (word,)
    assert select.items[1].alias.text == word
    assert select.items[2].expr.parts == ("t", word)
    assert select.items[3].expr.parts == (word, word)
    assert query.operators[1].assignments[0].target.parts == (word,)


@pytest.mark.parametrize("word", sorted(NON_RESERVED - {word.upper() for word in FORMS}))
def test_a_keyword_is_a_function(word):
    query = parse(f"FROM {word}(1) |> SELECT {word}(x), {word}.{word}(x), f(x).{word}(1)")
    assert query.items[0].call.name == (word,)
    assert query.operators[0].items[0].expr.name == (word,)


@pytest.mark.parametrize("word", sorted(NON_RESERVED - {"BATCHES", "SHARDS"}))
def test_a_keyword_is_a_python_function(word):
    query = parse(f"FROM t |> MAP {word} |> FLATMAP q.{word}(a) |> MAP BATCHES {word}")
    assert [operator.function[-1] for operator in query.operators] == [word] * 3


@pytest.mark.parametrize("word", each_case(RESERVED))
def test_a_reserved_word_is_a_name_where_nothing_else_can_stand(word):
    query = parse(
        f"FROM t AS {word} |> SELECT a AS {word}, t.{word} |> SET {word} = 1, a.{word} = 2"
        f" |> RENAME {word} AS {word} |> DROP a, {word} |> SELECT f({word} => 1), {{{word}: 1}}"
        f" |> AS {word} |> JOIN u USING ({word}) |> SELECT * EXCLUDE ({word}), f(x).{word}"
        f" |> WRITE 'x' OPTIONS ({word} = 1) |> MAP f RETURNS ({word} INTEGER)"
    )
    assert query.operators[0].items[0].alias.text == word
    assert query.operators[1].assignments[0].target.parts == (word,)
    assert query.operators[3].columns[1].parts == (word,)


@pytest.mark.parametrize("word", sorted(KEYWORDS))
@pytest.mark.parametrize("quote", ['"', "`"])
def test_a_quoted_keyword_is_a_name_everywhere(word, quote):
    q = f"{quote}{word}{quote}"
    query = parse(
        f"FROM {q} AS {q} |> SELECT {q}, a {q}, {q}({q}), {q}.{q} |> MAP {q} |> WHERE {q}"
    )
    assert query.items[0].item.name == word
    assert query.operators[0].items[0].expr.parts == (word,)
    assert query.operators[0].items[1].alias.text == word
    assert query.operators[0].items[2].expr.name == (word,)


@pytest.mark.parametrize("word", sorted(KEYWORDS - {"AS", "DESC", "ASC"}))
def test_a_keyword_is_no_bare_alias(word):
    with pytest.raises(ParseError):
        parse(f"FROM t |> SELECT a {word}")


MEANT = {
    "FROM {}": {"UNNEST"},
    "FROM t |> SELECT {}": {"NULL", "TRUE", "FALSE"},
    "FROM t |> WHERE {} > 1": {"NULL", "TRUE", "FALSE"},
    "FROM t |> SELECT {}(x)": {"NOT", "DISTINCT", "LEFT", "RIGHT"},
}
"""Places, and the reserved words that mean something there."""


@pytest.mark.parametrize("text", MEANT)
def test_a_reserved_word_is_no_name_elsewhere(text):
    for word in RESERVED - MEANT[text]:
        with pytest.raises(ParseError):
            parse(text.format(word))


def test_letters_that_only_look_like_keywords():
    """The dotless i and the Kelvin sign become ASCII letters when their case is changed."""
    assert parse("FROM t |> SELECT a lım\u0131t").operators[0].items[0].alias.text == "lım\u0131t"
    assert not is_keyword("l\u0131m\u0131t")
    assert not is_reserved("LI\u212aE")
