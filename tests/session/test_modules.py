"""IMPORT MODULE from files on disk, and the functions that ZQL brings along."""

from __future__ import annotations

import pytest
from zql import modules
from zql.errors import BindError
from zql.session import Session
from zql.source import Source


@pytest.fixture
def session():
    with Session() as session:
        yield session


@pytest.fixture
def library(tmp_path, monkeypatch):
    """A library of two functions; the second calls the first."""
    folder = tmp_path / "library"
    folder.mkdir()
    (folder / "evens.zql").write_text(
        "CREATE TEMP FUNCTION is_even(n BIGINT) AS (n % 2 = 0);\n"
        "CREATE TEMP TABLE FUNCTION evens(t TABLE, e EXPR) AS FROM t |> WHERE is_even(e);\n"
    )
    (folder / "count_evens.zql").write_text(
        "CREATE TEMP TABLE FUNCTION count_evens(t TABLE, e EXPR) AS\n"
        "FROM t |> CALL evens(e) |> AGGREGATE count(*) AS n;\n"
    )
    monkeypatch.setattr(modules, "LIBRARY", str(folder))
    modules._library_names.cache_clear()
    yield folder
    modules._library_names.cache_clear()


def rows(session, text, **options):
    found = []
    for result in session.statements(Source("script.zql", text), **options):
        if result.rows is not None:
            with result.rows as stream:
                for batch in stream.batches():
                    found += batch.to_pylist()
    return found


def test_paths_are_relative_to_the_script_and_to_the_module(session, tmp_path):
    (tmp_path / "lib" / "deep").mkdir(parents=True)
    (tmp_path / "lib" / "a.zql").write_text(
        "IMPORT MODULE 'deep/b.zql'; CREATE TEMP VIEW v AS FROM b.w;"
    )
    (tmp_path / "lib" / "deep" / "b.zql").write_text(
        "IMPORT PYTHON 'c.py'; CREATE TEMP VIEW w AS FROM range(2) AS r (x) |> SELECT c.f(x) AS y;"
    )
    (tmp_path / "lib" / "deep" / "c.py").write_text("def f(x: int) -> int:\n    return x + 1\n")
    script = "IMPORT MODULE 'lib/a.zql'; FROM a.v"
    assert rows(session, script, base_dir=str(tmp_path)) == [{"y": 1}, {"y": 2}]


def test_a_file_is_read_once(session, tmp_path, monkeypatch):
    (tmp_path / "base.zql").write_text("CREATE TEMP VIEW v AS VALUES (1);")
    for name in "ab":
        (tmp_path / f"{name}.zql").write_text("IMPORT MODULE 'base.zql' AS same;")
    read, real = [], modules._read
    monkeypatch.setattr(modules, "_read", lambda path, span: read.append(path) or real(path, span))
    script = (
        "IMPORT MODULE 'a.zql'; IMPORT MODULE './b.zql'; IMPORT MODULE 'base.zql' AS c; FROM c.v"
    )
    assert rows(session, script, base_dir=str(tmp_path)) == [{"col0": 1}]
    assert sorted(path.rsplit("/", 1)[1] for path in read) == ["a.zql", "b.zql", "base.zql"]


def test_check_shows_the_mistakes_of_a_module_in_its_file(session, tmp_path):
    far = "\n" * 200
    (tmp_path / "m.zql").write_text(f"{far}CREATE TEMP VIEW v AS FROM range(2) |> WHERE nope > 1;")
    source = Source("script.zql", "IMPORT MODULE 'm.zql'; FROM m.v; FROM range(2) |> WHERE other")
    found = session.check(source, base_dir=str(tmp_path))
    assert [(e.span.source.name.rsplit("/", 1)[-1], e.line) for e in found] == [
        ("m.zql", 201),
        ("script.zql", 1),
    ]


def test_leading_imports_of_a_query(session, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.zql").write_text("CREATE TEMP FUNCTION inc(n BIGINT) AS (n + 1);")
    query = session.query("IMPORT MODULE 'm.zql'; FROM range(2) AS r (x) |> SELECT m.inc(x) AS y")
    assert query.to_dicts() == [{"y": 1}, {"y": 2}]


def test_the_library_is_there_without_an_import(session, library):
    assert rows(session, "FROM range(5) |> CALL count_evens(range)") == [{"n": 3}]
    assert session.query("FROM evens(range(3), range)").to_dicts() == [{"range": 0}, {"range": 2}]


def test_what_a_library_file_needs_is_its_own(session, library):
    with pytest.raises(BindError, match='unknown function "is_even"'):
        session.query("VALUES (is_even(2))")


def test_a_script_may_replace_a_function_of_the_library(session, library):
    mine = "CREATE TEMP TABLE FUNCTION evens(t TABLE, e EXPR) AS FROM t |> LIMIT 1;"
    assert rows(session, f"{mine} FROM range(5) |> CALL evens(range)") == [{"range": 0}]
    # The library's own calls keep its own function.
    assert rows(session, "FROM range(5) |> CALL count_evens(range)") == [{"n": 3}]


def test_every_file_of_the_library_declares_its_function(session):
    loaded = modules.Modules(session.catalog).library
    for name, home in loaded.items():
        assert name in home.table_functions or name in home.sql_functions, name


def test_a_parameter_that_hides_a_column_of_the_body_is_a_warning(session):
    script = (
        "CREATE TEMP TABLE FUNCTION f(t TABLE, k EXPR) AS FROM t |> EXTEND 1 AS k |> SELECT k AS v;"
        "FROM range(2) |> CALL f(range + 5)"
    )
    first, second = session.statements(Source("<script>", script))
    (warning,) = first.result.warnings
    assert warning == (
        'f: "k" is a parameter and a column made here: the name means the parameter (<script>:1:72)'
    )
    with second.rows as stream:
        assert [r for b in stream.batches() for r in b.to_pylist()] == [{"v": 5}, {"v": 6}]
    session.declarations.table_functions.clear()
    assert session.run(script).warnings == first.result.warnings
