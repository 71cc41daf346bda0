"""Parameters: typed, complete, and never text."""

from __future__ import annotations

import pytest
from zql.errors import ErrorList, ParameterError
from zql.parameters import CommandLineValue


def test_all_missing_parameters_come_together(explain):
    with pytest.raises(ErrorList) as caught:
        explain("DECLARE a BIGINT; FROM 'docs.jsonl' |> WHERE id > $a AND lang = $b |> SELECT id")
    assert [e.code for e in caught.value.errors] == ["A501", "A501"]


def test_a_value_for_a_name_that_is_not_used_is_an_error(explain):
    with pytest.raises(ParameterError) as caught:
        explain(
            "FROM 'docs.jsonl' |> WHERE id > $minimum |> SELECT id",
            params={"minimun": 1, "minimum": 1},
        )
    assert '"minimun"' in str(caught.value)
    assert 'did you mean "minimum"' in str(caught.value)


def test_a_value_that_does_not_fit_its_type_is_an_error(explain):
    with pytest.raises(ParameterError) as caught:
        explain(
            "DECLARE n BIGINT;\nFROM 'docs.jsonl' |> WHERE id > $n |> SELECT id",
            params={"n": CommandLineValue("many")},
        )
    assert caught.value.line == 1
    assert "BIGINT" in caught.value.message


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("3", "INTEGER"),
        ("3.5", "DECIMAL"),
        ("true", "BOOLEAN"),
        ("abc", "VARCHAR"),
        ('"3"', "VARCHAR"),
    ],
)
def test_a_command_line_value_without_declare_is_json_or_text(session, folder, text, type_):
    query = session.query("FROM 'docs.jsonl' |> SELECT $v AS v", {"v": CommandLineValue(text)})
    assert query.types[0].startswith(type_)


@pytest.mark.parametrize(
    "value", ["it's", '"', "\\", "a\nb", "; --", "$$", "$p", "{name}", "é\u202e", ""]
)
def test_a_text_means_itself(explain, value):
    from zql.expr.sql import quote_literal

    text = explain("FROM 'docs.jsonl' |> WHERE title = $p |> SELECT id", params={"p": value})
    assert quote_literal(value).split("\n")[0] in text


def test_default_and_given_value(explain):
    script = "DECLARE n BIGINT DEFAULT 2; FROM 'docs.jsonl' |> WHERE id > $n |> SELECT id"
    assert "CAST('2' AS BIGINT)" in explain(script)
    assert "CAST('7' AS BIGINT)" in explain(script, params={"n": CommandLineValue("7")})


def test_a_parameter_can_be_the_path(explain):
    assert "Read docs.jsonl" in explain("FROM $input |> SELECT id", params={"input": "docs.jsonl"})


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("BIGINT", "5.5"),
        ("BIGINT", 1.5),
        ("DECIMAL(5, 2)", "5.555"),
        ("BIGINT", True),
        ("INTEGER", "1e10"),
    ],
)
def test_a_value_is_not_rounded_to_its_type(explain, type_, value):
    given = CommandLineValue(value) if isinstance(value, str) else value
    with pytest.raises(ParameterError) as caught:
        explain(
            f"DECLARE p {type_}; FROM 'docs.jsonl' |> WHERE id > $p |> SELECT id",
            params={"p": given},
        )
    assert caught.value.code == "A503"


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("BIGINT", "5.0"),
        ("BIGINT", "1e3"),
        ("DECIMAL(5,2)", "5.5"),
        ("DOUBLE", 3),
        ("VARCHAR", "5.5"),
    ],
)
def test_a_value_that_is_the_same_in_its_type_fits(explain, type_, value):
    given = CommandLineValue(value) if isinstance(value, str) else value
    assert explain(f"DECLARE p {type_}; FROM 'docs.jsonl' |> SELECT $p AS p", params={"p": given})
