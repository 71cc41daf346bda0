"""`check`: every mistake of a script in one go, and nothing runs."""

from __future__ import annotations


def test_three_mistakes_of_three_kinds_come_together(check, folder):
    text = (
        "IMPORT PYTHON 'quality.py' AS q;\n"
        "FROM 'docs.jsonl'\n"
        "|> WHERE titel IS NOT NULL\n"
        "|> EXTEND q.scor(text) AS s\n"
        "|> WRITE 'out/part-{shard}.parquet';\n"
        "FROM 'docs.jsonl' |> WHRE id > 1;\n"
        "FROM 'docs.jsonl' |> SELECT lower(id, 2, 3) AS l;\n"
    )
    errors = check(text)
    assert [(e.line, e.code[0]) for e in errors] == [(3, "N"), (4, "N"), (6, "S"), (7, "T")]
    assert all("^" in e.render() for e in errors)
    assert not (folder / "out").exists()


def test_a_path_without_files_is_an_error_at_the_path(check):
    (error,) = check("FROM 'nothing/*.jsonl' |> AGGREGATE count(*) AS n")
    assert "nothing/*.jsonl" in error.message
    assert (error.line, error.column) == (1, 6)


def test_a_statement_may_read_what_an_earlier_one_would_write(check, folder):
    script = (
        "FROM 'docs.jsonl' |> SELECT id, upper(title) AS t "
        "|> WRITE 'out/part-{shard:05d}.parquet';\n"
        "FROM 'out/*.parquet' |> WHERE t = 'ALPHA' |> SELECT id;\n"
    )
    assert check(script) == []
    (error,) = check(script.replace("WHERE t", "WHERE title"))
    assert error.code == "N201"
    assert error.line == 2
    assert not (folder / "out").exists()


def test_an_unknown_option_points_at_the_option(check):
    (error,) = check(
        "FROM 'docs.jsonl' |> WRITE 'o.parquet' OPTIONS (mode = 'error', compresion = 'zstd')"
    )
    assert error.line == 1
    assert 'did you mean "compression"' in (error.hint or "")
    assert error.span.text.startswith("compresion")


def test_a_column_that_no_row_has_is_unknown(check):
    (error,) = check("FROM 'docs.jsonl' |> SELECT id, nope")
    assert error.code == "N201"
    assert "columns here: id, title, lang, text" in error.render()


def test_names_match_exactly_first_and_then_without_case(check, folder):
    (folder / "case.jsonl").write_text('{"Id": 1, "id": 2}\n')
    assert check("FROM 'case.jsonl' |> SELECT Id, id") == []
    (error,) = check("FROM 'case.jsonl' |> SELECT ID")
    assert error.code == "N202"
    assert check("FROM 'docs.jsonl' |> SELECT TITLE") == []


def test_a_missing_parameter_hides_no_other_mistake(check):
    errors = check(
        "FROM VALUES (1) AS t (x) |> WHERE yy = $u AND x > $u;\n"
        "FROM VALUES (1) AS t (x) |> SELET x;\n"
    )
    assert [(e.line, e.code) for e in errors] == [(1, "N201"), (1, "A501"), (2, "S112")]
