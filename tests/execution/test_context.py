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

def numbered(text: str, ctx) -> int:
    ctx.counter(3).add()
    return 1

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
    with pytest.raises(zql.UdfError, match="a counter has a name of text, not 3"):
        words.run(HEAD + "FROM 'in-0.jsonl' |> SELECT udf.numbered(word) AS x |> WRITE 'x.jsonl'")
    with pytest.raises(zql.BindError, match=r"udf\.makes takes ctx"):
        words.run(HEAD + "DECLARE m SHARED DEFAULT udf.makes()")


MEASURED = """
import os
import signal
from pathlib import Path

def measure(text: str, ctx) -> int:
    length = ctx.counter("length")
    length.add(len(text))
    length.min(len(text))
    length.max(len(text))
    length.mean(len(text))
    ctx.counter("tenths").mean(len(text) / 10)
    return len(text)

def once(text: str, ctx) -> str:
    ctx.counter("seen").add()
    ctx.counter("seen").mean(1)
    if text == "bbb":
        try:
            os.close(os.open("died", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            pass
        else:
            os.kill(os.getpid(), signal.SIGKILL)
    return text

def counted(text: str, ctx, what) -> str:
    ctx.counter("x").max(what)
    return text

def strange(text: str, ctx) -> str:
    ctx.counter("x").add(float("nan") if text == "bbb" else 1)
    return text

def ends(text: str, ctx) -> str:
    ctx.counter("a.mean").add()
    return text

def part(text: str, ctx) -> str:
    return f"{ctx.shard.index} {ctx.shard.total} {ctx.shard.path == ctx.path} {ctx.task}"

def note(text: str, ctx) -> str:
    folder = ctx.scratch
    with open(folder / "notes", "a") as file:
        file.write(text)
    with open("folders", "a") as file:
        file.write(f"{folder} {len(list(folder.parent.iterdir()))}\\n")
    if text == "bad":
        raise ValueError(text)
    return (folder / "notes").read_text()

def probed(text: str, ctx):
    (ctx.scratch / "x").write_text(text)
    return (ctx.scratch / "x").read_text()

def dies(text: str, ctx) -> str:
    with open(ctx.scratch / "notes", "w") as file:
        file.write(text)
    os.kill(os.getpid(), signal.SIGKILL)
"""
LENGTHS = {"a": ["a", "bbb"], "b": ["cc"], "c": ["ddddddd", "", "ee"]}
FIGURES = {
    "length": 15,
    "length.min": 0,
    "length.max": 7,
    "length.mean": 2.5,
    "tenths.mean": pytest.approx(0.25),
}


@pytest.fixture
def texts(place):
    place.functions(MEASURED)
    for name, found in LENGTHS.items():
        place.rows(f"in-{name}.jsonl", [{"text": text} for text in found])
    return place


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_figures_of_tasks_weigh_what_they_should(texts, workers):
    script = HEAD + "FROM 'in-*.jsonl' |> SELECT udf.measure(text) AS n |> WRITE 'out.jsonl'"
    report = texts.run(script, workers)
    assert {name: report.counters[name] for name in FIGURES} == FIGURES
    assert all(report.to_dict()["counters"][name] == FIGURES[name] for name in FIGURES)


def test_figures_of_several_statements_are_put_together(texts):
    writes = [
        f"FROM 'in-{name}.jsonl' |> SELECT udf.measure(text) AS n |> WRITE 'out-{name}.jsonl';"
        for name in LENGTHS
    ]
    report = texts.run(HEAD + "\n".join(writes))
    assert {name: report.counters[name] for name in FIGURES} == FIGURES


def test_a_task_that_is_begun_again_counts_once(texts):
    report = texts.run(HEAD + "FROM 'in-*.jsonl' |> SELECT udf.once(text) AS x |> WRITE 'o.jsonl'")
    assert report.counters["retries"] >= 1
    assert "died" in texts.names()
    assert (report.counters["seen"], report.counters["seen.mean"]) == (6, 1.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("udf.counted(text, what => 'x')", "TypeError: a counter takes an int or a float, not str"),
        ("udf.strange(text)", "row 2 of in-a.jsonl .*ValueError: a counter takes numbers up to"),
        ("udf.ends(text)", "ValueError: 'a.mean' ends as figures of other counters do"),
    ],
)
def test_what_is_no_number_is_refused(texts, call, message):
    with pytest.raises(zql.UdfError, match=message):
        texts.run(HEAD + f"FROM 'in-*.jsonl' |> SELECT {call} AS x |> WRITE 'o.jsonl'")


def test_numbers_of_numpy_count(texts):
    np = pytest.importorskip("numpy")
    context = zql.Context()
    context.counter("x").add(np.int8(3))
    context.counter("x").mean(np.float32(0.5))
    assert {name: tally.value for name, tally in context.tallies.items()} == {
        "x": 3,
        "x.mean": 0.5,
    }
    assert type(context.tallies["x"].value) is int


def test_the_shard_of_a_call_is_that_of_its_task(texts):
    texts.run(HEAD + "FROM 'in-*.jsonl' |> SELECT udf.part(text) AS x |> WRITE 'out.jsonl'")
    found = {row["x"] for row in texts.read("out.jsonl")}
    assert found == {f"{task} 3 True {task}" for task in range(3)}


def test_a_task_has_a_scratch_folder_of_its_own(texts):
    texts.run(HEAD + "FROM 'in-*.jsonl' |> SELECT udf.note(text) AS x |> WRITE 'out.jsonl'", 1)
    found = [row["x"] for row in texts.read("out.jsonl")]
    assert found == ["a", "abbb", "cc", "ddddddd", "ddddddd", "dddddddee"]
    lines = [line.split() for line in (texts.folder / "folders").read_text().splitlines()]
    assert len({folder for folder, _ in lines}) == 3
    assert {beside for _, beside in lines} == {"1"}, "that of the task before was gone"


@pytest.mark.parametrize("call", ["note", "dies"])
def test_scratch_folders_go_when_a_task_fails(texts, call):
    texts.rows("in-b.jsonl", [{"text": "bad"}])
    script = HEAD + f"FROM 'in-*.jsonl' |> SELECT udf.{call}(text) AS x |> WRITE 'out.jsonl'"
    with texts.session() as session:
        with pytest.raises(zql.UdfError):
            session.run(script)
        assert list(texts.temp.rglob("task-*")) == []


def test_scratch_while_a_type_is_looked_for(texts):
    script = HEAD + "FROM 'in-*.jsonl' |> SELECT udf.probed(text) AS x |> WRITE 'out.jsonl'"
    texts.run(script)
    given = [text for found in LENGTHS.values() for text in found]
    assert [row["x"] for row in texts.read("out.jsonl")] == given


ASKING = """
from pathlib import Path

def one(text: str, ctx) -> str:
    ctx.logger.debug("asked")
    return ctx.shared("small")[text]

def given(ctx, name):
    return ctx.shared(name)

def handed(text: str, ctx) -> str:
    return given(ctx, "small")[text]

def small() -> dict:
    return {"cc": "two"}

def big() -> dict:
    Path("made").write_text("")
    return {}
"""


@pytest.mark.parametrize(("call", "made"), [("one", False), ("handed", True)])
def test_objects_are_made_that_a_function_may_ask_for(texts, call, made):
    texts.functions(ASKING, "ask.py")
    texts.run(
        "IMPORT PYTHON 'ask.py'; DECLARE small SHARED DEFAULT ask.small();"
        "DECLARE big SHARED DEFAULT ask.big();"
        f"FROM 'in-b.jsonl' |> SELECT ask.{call}(text) AS x |> WRITE 'out.jsonl'"
    )
    assert texts.read("out.jsonl") == [{"x": "two"}]
    assert ("made" in texts.names()) is made
