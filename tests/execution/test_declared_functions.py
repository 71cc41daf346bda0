"""CREATE TEMP FUNCTION .. LANGUAGE python: what of it reaches plans and workers."""

import json
import os

import pytest
from zql.errors import UdfError
from zql.execution.fingerprint import fingerprint
from zql.session import Session
from zql.source import Source


@pytest.fixture
def place(place):
    place.rows("in.jsonl", [{"id": i, "s": f"word{i}"} for i in range(4)])
    return place


def declared(text, name="f", **params):
    """The function that a script declares."""
    with Session() as session:
        for _ in session.statements(Source("script.zql", text), params):
            pass
        return session.declarations.functions[name]


def test_options_are_in_the_function():
    function = declared(
        "CREATE TEMP FUNCTION f(x BIGINT) RETURNS DOUBLE LANGUAGE python VOLATILE "
        "OPTIONS (batch_size = 512, concurrency = 8, timeout = '1m', packages = ['duckdb']) "
        "AS $$ def f(x): return x $$"
    )
    assert (function.batch_size, function.concurrency, function.timeout) == (512, 8, 60.0)
    assert (function.returns, function.volatile, function.declared) == ("DOUBLE", True, True)
    plain = declared(
        "CREATE TEMP FUNCTION f() LANGUAGE python IMMUTABLE AS $$ def f(): return 1 $$"
    )
    assert (plain.batch_size, plain.concurrency, plain.timeout) == (None, None, None)
    assert not plain.volatile


def test_options_of_the_statement_win_over_the_decorator(place):
    place.functions(
        """
        import zql
        @zql.udf(volatile=True, returns="VARCHAR", timeout=5, concurrency=3)
        def f(x): return x
        """
    )
    text = "CREATE TEMP FUNCTION f(x BIGINT) {} LANGUAGE python {} OPTIONS (library = 'udf.py'{})"
    kept = declared(text.format("", "", ""))
    assert (kept.returns, kept.volatile, kept.timeout, kept.concurrency) == ("VARCHAR", True, 5, 3)
    other = declared(text.format("RETURNS BIGINT", "IMMUTABLE", ", timeout = 7"))
    assert (other.returns, other.volatile, other.timeout) == ("BIGINT", False, 7)
    assert other.concurrency == 3


def test_the_source_is_what_workers_get(place):
    """Neither the script nor another file of its name is read when the function is called."""
    script = place.folder / "script.zql"
    script.write_text(
        "CREATE TEMP FUNCTION f(r ANY TYPE) LANGUAGE python AS $$\n"
        "import os\n"
        "def f(r):\n"
        "    if r['id'] == 1: os.remove('script.zql')\n"
        "    if r['id'] == 3: raise ValueError(r['s'])\n"
        "    return {'id': r['id']}\n"
        "$$;\n"
        "FROM 'in.jsonl' |> MAP f RETURNS (id BIGINT) |> WRITE 'out.jsonl'"
    )
    with place.session() as session, pytest.raises(UdfError) as caught:
        session.run(script)
    note, given = caught.value.notes
    assert given.startswith("it was given {'id': 3")
    where, _, line = note.partition(": ")
    assert where == 'File "script.zql", line 5, in f'
    assert line == "if r['id'] == 3: raise ValueError(r['s'])"
    assert not script.exists()


def test_columns_that_the_source_looks_at_are_those_of_this_source(place):
    """A file that happens to be called as the script says nothing about it."""
    (place.folder / "<query>").write_text("\ndef f(r): return {'n': r['other']}\n")
    with place.session() as session:
        query = session.query(
            "CREATE TEMP FUNCTION f(r ANY TYPE) LANGUAGE python AS $$\n"
            "def f(r): return {'n': r['id']}\n"
            "$$; FROM 'in.jsonl' |> MAP f"
        )
        assert session.declarations.functions["f"].reads == ("id",)
        assert query.to_dicts() == [{"n": i} for i in range(4)]


def test_two_queries_with_functions_of_one_name_and_place(place):
    text = (
        "CREATE OR REPLACE TEMP FUNCTION f(x BIGINT) RETURNS BIGINT LANGUAGE python AS $$\n"
        "def f(x):\n    return x {}\n$$; FROM 'in.jsonl' |> SELECT f(id) AS n"
    )
    with place.session() as session:
        first = session.query(text.format("+ 1"))
        second = session.query(text.format("/ 0"))
        assert first.to_dicts() == [{"n": i + 1} for i in range(4)]
        with pytest.raises(UdfError, match="division by zero") as caught:
            second.to_dicts()
        assert caught.value.notes[0].endswith("line 3, in f: return x / 0")


def test_what_lies_beside_the_script_can_be_imported(place):
    """By the probe too, which is the first thing that a worker does."""
    folder = place.folder / "jobs"
    folder.mkdir()
    (folder / "beside_it.py").write_text("def add(x): return x + 5\n")
    script = folder / "s.zql"
    script.write_text(
        "CREATE TEMP FUNCTION f(x BIGINT) LANGUAGE python AS $$\n"
        "def f(x):\n    from beside_it import add\n    return add(x)\n$$;\n"
        "FROM 'in.jsonl' |> SELECT f(id) AS n |> WRITE 'out.jsonl'"
    )
    with place.session(1) as session:
        session.run(script)
    assert [row["n"] for row in place.read("out.jsonl")] == [5, 6, 7, 8]


def test_windows_line_ends_and_tabs(place):
    text = (
        "CREATE TEMP FUNCTION f(x BIGINT) RETURNS BIGINT LANGUAGE python AS $$\r\n"
        "\tdef f(x):\r\n\r\n\t\treturn x + 1\r\n$$;\r\nFROM 'in.jsonl' |> SELECT f(id) AS n"
    )
    with place.session() as session:
        assert session.query(text).to_dicts() == [{"n": i + 1} for i in range(4)]


def test_a_record_class_of_the_source_is_a_record(place):
    text = """
        CREATE TEMP FUNCTION f(r ANY TYPE) LANGUAGE python AS $$
            from __future__ import annotations
            from dataclasses import dataclass
            from typing import Iterator

            @dataclass
            class Out:
                n: int
                s: str | None = None

            def f(r) -> Iterator[Out]:
                yield Out(r["id"])
        $$;
        FROM 'in.jsonl' |> FLATMAP f
    """
    with place.session() as session:
        query = session.query(text)
        assert query.types == ["BIGINT", "VARCHAR"]
        assert query.to_dicts()[1] == {"n": 1, "s": None}
        session.query(f"{text} |> LIMIT 1".replace("CREATE TEMP", "CREATE OR REPLACE TEMP")).write(
            "out.jsonl"
        )
    assert place.read("out.jsonl") == [{"n": 0, "s": None}]


def plan_of(source, init="", before=""):
    head = f"{before}CREATE TEMP FUNCTION f(x BIGINT) RETURNS BIGINT LANGUAGE python"
    return declared(f"{head} {init} AS $${source}$$")


def test_fingerprints_know_the_source_and_what_a_class_is_made_with():
    of = (
        "\nclass F:\n    def __init__(self, a=1): self.a = a\n    def __call__(self, x): return x\n"
    )
    plain = fingerprint(plan_of(of), "1")
    assert fingerprint(plan_of(of, before="\n\n-- moved\n"), "1") == plain
    assert fingerprint(plan_of(of.replace("return x", "return -x")), "1") != plain
    made = fingerprint(plan_of(of, "OPTIONS (init = {a: 2})"), "1")
    assert made != plain
    assert fingerprint(plan_of(of, "OPTIONS (init = {a: 3})"), "1") != made
    assert fingerprint(plan_of(of, "OPTIONS (init = {a: 2})"), "1") == made


def test_parameters_and_shared_objects_make_a_class(place):
    text = """
        DECLARE words VARCHAR[] DEFAULT ['word1', 'word2'];
        CREATE TEMP FUNCTION load(words VARCHAR[]) LANGUAGE python AS $$
        import os
        def load(words):
            with open("loaded", "a") as file:
                print(os.getpid(), file=file)
            return set(words)
        $$;
        DECLARE known SHARED DEFAULT load($words);
        CREATE TEMP FUNCTION knows(s VARCHAR) LANGUAGE python
        OPTIONS (init = {known: $known, least: 0.5, deep: {a: [$least]}}) AS $$
        class Knows:
            def __init__(self, known: set, least, deep):
                assert (least, deep) == (0.5, {"a": [3]}), (least, deep)
                self.known = known

            def __call__(self, s) -> bool:
                return s in self.known
        $$;
    """
    query = "FROM 'in.jsonl' |> SELECT s, knows(s) AS k"
    with place.session(2) as session:
        session.run(f"{text} {query} |> WRITE 'out.jsonl'", {"least": 3})
        assert [row["k"] for row in place.read("out.jsonl")] == [False, True, True, False]
        assert session.query(f"{query} |> LIMIT 2").to_dicts()[1] == {"s": "word1", "k": True}
    assert (place.folder / "loaded").read_text().split() == [str(os.getpid())]


def test_explain_and_show_functions(place):
    with place.session() as session:
        session.query(
            "CREATE TEMP FUNCTION f(x BIGINT, y VARCHAR DEFAULT 'a') RETURNS DOUBLE "
            "LANGUAGE python AS $$ def f(a, b): return 1.0 $$; FROM 'in.jsonl' |> SELECT f(id) AS n"
        )
        found = session.explain(Source("s", "FROM 'in.jsonl' |> SELECT f(id) AS n"), format="json")
        assert '"f"' in json.dumps(json.loads(found))
        result = list(session.statements(Source("s", "SHOW FUNCTIONS |> WHERE home = 'script'")))
        with result[0].rows as rows:
            assert rows.text_rows(10) == [
                ("f", "python", "f(x BIGINT, y VARCHAR DEFAULT ..) -> DOUBLE", "script")
            ]
