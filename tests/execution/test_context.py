"""`ctx`: what a function is told of its task, and what it counts."""

from dataclasses import replace

import pytest
import zql

FUNCTIONS = """
from zql import Context

def clean(text: str, ctx) -> str:
    ctx.counter("seen").add()
    if text.startswith("w1"):
        ctx.counter("letters").add(len(text))
    return text.upper()

def row(record: dict, suffix: str = "!", ctx: Context = None):
    ctx.counter("rows").add(2)
    return {"text": record["word"] + suffix}

def where(text: str, ctx) -> str:
    return f"{ctx.task} {ctx.path}"

def look(text: str, ctx):
    return ctx.shared("lex")[text]

def lexicon() -> dict:
    return {f"w{i}": i for i in range(40)}

def reserved(text: str, ctx) -> str:
    ctx.counter("tasks").add()
    return text

def own(ctx: str) -> str:
    return ctx + "?"

def makes(ctx) -> dict:
    return {}
"""
HEAD = "IMPORT PYTHON 'udf.py';\n"


@pytest.fixture
def words(place):
    place.functions(FUNCTIONS)
    for part in range(4):
        place.rows(f"in-{part}.jsonl", [{"word": f"w{part * 10 + i}"} for i in range(10)])
    return place


@pytest.mark.parametrize("workers", [1, 2])
def test_counters_of_all_tasks_add_up(words, workers):
    report = words.run(
        HEAD + "FROM 'in-*.jsonl' |> SELECT udf.clean(word) AS word "
        "|> MAP udf.row(suffix => '?') RETURNS (text VARCHAR) |> WRITE 'out.jsonl'",
        workers,
    )
    counters = report.counters
    assert (counters["seen"], counters["letters"], counters["rows"]) == (40, 2 + 30, 80)
    assert [row["text"] for row in words.read("out.jsonl")] == [f"W{i}?" for i in range(40)]


def test_a_call_is_told_its_task_and_its_file(words):
    with words.session() as session:
        session.settings = replace(session.settings, split_size=40)
        session.run(HEAD + "FROM 'in-*.jsonl' |> SELECT udf.where(word) AS x |> WRITE 'out.jsonl'")
    found = [row["x"].split() for row in words.read("out.jsonl")]
    assert {path.rpartition("/")[2] for _, path in found} == {f"in-{i}.jsonl" for i in range(4)}
    assert sorted({int(task) for task, _ in found}) == list(range(len({task for task, _ in found})))


def test_shared_objects_by_their_names(words):
    script = HEAD + "DECLARE lex SHARED DEFAULT udf.lexicon();\n"
    words.run(script + "FROM 'in-*.jsonl' |> SELECT udf.look(word) AS n |> WRITE 'out.jsonl'")
    assert [row["n"] for row in words.read("out.jsonl")] == list(range(40))
    no_object = pytest.raises(zql.UdfError, match=r"there is no shared object \$lex")
    with words.session() as session, no_object:
        session.run(HEAD + "FROM 'in-*.jsonl' |> SELECT udf.look(word) AS n |> WRITE 'no.jsonl'")


def test_it_is_no_argument_of_the_script(words):
    with words.session() as session:
        with pytest.raises(zql.BindError, match='unknown parameter "ctx"'):
            session.query(HEAD + "FROM 'in-0.jsonl' |> SELECT udf.clean(word, ctx => 1)")
        plan = session.query(HEAD + "FROM 'in-0.jsonl' |> SELECT udf.clean(word) AS x").explain()
        assert "udf.clean(word) ->" in plan
        query = session.query(HEAD + "FROM 'in-0.jsonl' |> SELECT udf.own(word) AS x |> LIMIT 1")
        assert query.to_dicts() == [{"x": "w0?"}], "a ctx of another type is an argument"


def test_names_of_counters_and_factories(words):
    with pytest.raises(zql.UdfError, match="'tasks' is a counter of every run"):
        words.run(HEAD + "FROM 'in-0.jsonl' |> SELECT udf.reserved(word) AS x |> WRITE 'x.jsonl'")
    with pytest.raises(zql.BindError, match=r"udf\.makes takes ctx"):
        words.run(HEAD + "DECLARE m SHARED DEFAULT udf.makes()")
