"""Classes as functions: made once in each process that calls them, closed when it ends in order."""

import subprocess
import sys
import textwrap
from collections import Counter

import pytest
import zql
from zql.errors import BindError, UdfError
from zql.execution.introspect import module_functions
from zql.session import Session

TOKENIZER = """
    import os, time

    def note(what, model):
        with open("log", "a") as file:
            file.write(f"{what} {model} {os.getpid()}\\n")

    class Tokenizer:
        def __init__(self, model: str = "small"):
            self.model = model
            note("built", model)

        def __call__(self, id: int) -> str:
            time.sleep(0.02)
            return f"{self.model} {id}"

        def close(self):
            note("closed", self.model)

    class Untyped(Tokenizer):
        def __call__(self, id):
            return super().__call__(id)
"""


@pytest.fixture
def place(place):
    place.functions(TOKENIZER)
    for i in range(6):
        place.rows(f"in{i}.jsonl", [{"id": i * 10 + k} for k in range(5)])
    return place


def log(place):
    """What was noted: (word, model) and how often, and the processes by word."""
    path = place.folder / "log"
    lines = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
    pids = {word: [int(p) for w, _, p in lines if w == word] for word in ("built", "closed")}
    return Counter((word, model) for word, model, _ in lines), pids


WRITE = """
    IMPORT PYTHON 'udf.py' AS u;
    FROM 'in*.jsonl' |> SELECT u.{}(id) AS t
    |> WRITE 'out/' OPTIONS (format = 'jsonl', mode = 'overwrite')
"""


@pytest.mark.parametrize("name", ["Tokenizer", "Untyped"])
@pytest.mark.parametrize("workers", [1, 2])
def test_one_object_in_each_worker_and_each_is_closed(place, workers, name):
    """Untyped is tried first, in a worker: its object there is the one that the tasks use."""
    with place.session(workers) as session:
        for _ in range(2):
            session.run(WRITE.format(name))
        _, pids = log(place)
        assert 1 <= len(pids["built"]) <= workers
        assert len(set(pids["built"])) == len(pids["built"])
        assert pids["closed"] == []
    _, pids = log(place)
    assert sorted(pids["closed"]) == sorted(pids["built"])
    assert [row["t"] for row in place.read("out/*.jsonl")] == [
        f"small {i * 10 + k}" for i in range(6) for k in range(5)
    ]


def test_other_arguments_make_another_object(place):
    declare = "CREATE TEMP FUNCTION {0}(id BIGINT) LANGUAGE python OPTIONS "
    declare += "(library = 'udf.py', entry_point = 'Tokenizer', init = {{model: '{0}'}});"
    with place.session(1) as session:
        session.run(
            declare.format("a") + declare.format("b") + "FROM 'in0.jsonl' |> SELECT a(id) AS a, "
            "b(id) AS b, a(id + 1) AS c |> WRITE 'out.jsonl'"
        )
    counts, _ = log(place)
    assert counts == Counter({(w, m): 1 for w in ("built", "closed") for m in "ab"})
    assert place.read("out.jsonl")[0] == {"a": "a 0", "b": "b 0", "c": "a 1"}


def test_in_the_sessions_own_process(place):
    query = "IMPORT PYTHON 'udf.py' AS u; FROM 'in0.jsonl' |> SELECT u.Tokenizer(id) AS t"
    with place.session() as session, place.session() as other:
        for _ in range(2):
            session.query(query).to_dicts()
        other.query(query).to_dicts()
        assert log(place)[0] == {("built", "small"): 2}
        session.close()
        assert log(place)[0] == {("built", "small"): 2, ("closed", "small"): 1}
        other.query("FROM 'in1.jsonl' |> SELECT u.Tokenizer(id) AS t").to_dicts()
        session.query("FROM 'in1.jsonl' |> SELECT u.Tokenizer(id) AS t").to_dicts()
        assert log(place)[0] == {("built", "small"): 3, ("closed", "small"): 1}
    assert log(place)[0] == {("built", "small"): 3, ("closed", "small"): 3}


def test_planning_builds_nothing_and_neither_do_empty_tasks(place):
    with place.session(1) as session:
        text = WRITE.format("Tokenizer")
        session.explain(zql.source.Source("s", text))
        session.check(zql.source.Source("s", text))
        session.run(text.replace("|> SELECT", "|> WHERE id > 1000 |> SELECT"))
        session.run(text.replace("|> SELECT", "|> WHERE id = 30 |> SELECT"))
        _, pids = log(place)
        assert len(pids["built"]) == 1


def test_a_process_that_ends_closes_what_was_forgotten(place):
    script = textwrap.dedent(
        """
        import zql
        session = zql.default_session()
        session.query("IMPORT PYTHON 'udf.py' AS u; SELECT u.Tokenizer(1) AS t").to_dicts()
        session.run("SELECT u.Tokenizer(1) AS t |> WRITE 'out.jsonl'")
        """
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)
    _, pids = log(place)
    assert len(pids["built"]) == 2
    assert sorted(pids["closed"]) == sorted(pids["built"])


def test_a_worker_that_is_killed_is_followed_by_one_that_builds(place):
    place.functions(
        """
        import os

        class Once:
            def __init__(self):
                with open("log", "a") as file:
                    file.write(f"built it {os.getpid()}\\n")

            def __call__(self, id: int) -> int:
                if id == 12 and not os.path.exists("died"):
                    open("died", "w").close()
                    os._exit(9)
                return id

            def close(self):
                raise ValueError("no matter")
        """
    )
    with place.session(1) as session:
        report = session.run(WRITE.format("Once"))
    assert report.counters["retries"] >= 1
    assert len(place.read("out/*.jsonl")) == 30
    _, pids = log(place)
    assert len(pids["built"]) == len(set(pids["built"])) == 2


def test_an_error_of_the_constructor_ends_the_run_whatever_on_error_says(place):
    place.functions(
        """
        class Broken:
            def __init__(self):
                raise OSError("no model")

            def __call__(self, id: int) -> int:
                return id
        """
    )
    text = "IMPORT PYTHON 'udf.py' AS u; FROM 'in*.jsonl' |> EXTEND u.Broken(id) AS b "
    for way in ("ON ERROR SKIP", "ON ERROR NULL", ""):
        with pytest.raises(
            UdfError, match=r"u.*Broken cannot be built: OSError: no model"
        ) as caught:
            place.run(f"{text} {way} |> WRITE 'out.jsonl'")
        assert caught.value.code == "R713"
        assert any(
            'line 4, in __init__: raise OSError("no model")' in n for n in caught.value.notes
        )


# ---- from Python -----------------------------------------------------------------------------


class Prefix:
    def __init__(self, prefix: str, *, times: int = 1) -> None:
        self.prefix = prefix * times

    def __call__(self, text: str, ctx) -> str:
        ctx.counter("prefixed").add()
        return self.prefix + text


@zql.udf(init={"prefix": "<"}, volatile=True)
class Marked(Prefix):
    def __call__(self, text: str | None) -> str:
        return f"{self.prefix}{text}"


class Letters:
    def __call__(self, row):
        for letter in row["text"]:
            yield {"letter": letter}


@pytest.fixture(params=[None, 2], ids=["here", "pool"])
def session(request, place):
    with place.session(request.param or 1) as session:
        if request.param:
            session.set("split_size", "1MB")
        yield session


def results(session, text):
    """The rows of a query, and of the same in workers."""
    here = session.query(text).to_dicts()
    report = session.run(f"{text} |> WRITE 'x.parquet' OPTIONS (mode = 'overwrite')")
    assert session.query("FROM 'x.parquet'").to_dicts() == here
    return here, report


def test_a_class_with_arguments(session):
    found = session.udf(Prefix, init={"prefix": "a", "times": 2})
    assert [p.name for p in found.parameters] == ["text"]
    assert (found.returns, found.built, found.context) == ("VARCHAR", True, True)
    rows, report = results(
        session, "FROM VALUES ('x'), (NULL) AS t(text) |> SELECT prefix(text) AS p"
    )
    assert rows == [{"p": "aax"}, {"p": None}]
    assert report.counters["prefixed"] == 1


def test_a_class_with_a_decorator(session):
    found = session.udf(Marked)
    assert found.volatile
    rows, _ = results(session, "FROM VALUES ('x'), (NULL) AS t(text) |> SELECT Marked(text) AS p")
    assert rows == [{"p": "<x"}, {"p": "<None"}]
    session.udf(Marked, "other", init={"prefix": ">"})
    assert session.query("SELECT other('x') AS p").to_dicts() == [{"p": ">x"}]


def test_the_decorator_of_a_class_is_not_that_of_a_derived_one(session):
    class Derived(Marked):
        pass

    with pytest.raises(BindError, match="is a class, and is made with prefix"):
        session.udf(Derived)


def test_an_object_is_sent_as_it_is(session):
    marked = Prefix("#")
    found = session.udf(marked, "tagged")
    assert (found.returns, found.built) == ("VARCHAR", False)
    rows, _ = results(session, "FROM VALUES ('x'), (NULL) AS t(text) |> SELECT tagged(text) AS p")
    assert rows == [{"p": "#x"}, {"p": None}]


def test_a_class_that_yields(session):
    session.udf(Letters)
    rows, _ = results(session, "FROM VALUES ('ab'), ('c') AS t(text) |> FLATMAP Letters")
    assert rows == [{"letter": "a"}, {"letter": "b"}, {"letter": "c"}]


class Reader:
    def read(self, row):
        return {"a": row["a"], "b": row["b"]}

    def __call__(self, row):
        return {"a": row["a"]}


def test_columns_that_a_method_looks_at(session):
    """`self`, which it does not use, is not the record."""
    assert session.udf(Reader().read, "read").reads == ("a", "b")
    assert session.udf(Reader).reads == ("a",)
    rows, _ = results(session, "FROM VALUES (1, 2, 3) AS t(a, b, c) |> MAP read")
    assert rows == [{"a": 1, "b": 2}]


def test_what_a_function_refers_to_may_change(place):
    """In a program, whose functions are sent with all that they refer to."""
    (place.folder / "program.py").write_text(
        textwrap.dedent(
            """
            import zql

            def helper(x):
                return x

            def calls(x: int) -> int:
                return helper(x)

            with zql.Session() as session:
                session.udf(calls)
                first = session.query("SELECT calls(1) AS a").first()
                def helper(x):
                    return -x
                session.udf(calls)
                print(first, session.query("SELECT calls(1) AS a").first())
            """
        )
    )
    run = [sys.executable, "program.py"]
    done = subprocess.run(run, check=True, timeout=120, capture_output=True, text=True)
    assert done.stdout == "{'a': 1} {'a': -1}\n"


class Noisy:
    def __init__(self):
        print("loading")

    def __call__(self, x: int) -> int:
        print("calling")
        return x

    def close(self):
        print("closing")


def test_what_objects_print_is_no_result(place, capsys):
    with place.session() as session:
        session.udf(Noisy)
        session.query("SELECT Noisy(1) AS a").to_dicts()
    out, err = capsys.readouterr()
    lines = ["[Noisy] loading", "[task 1 of 1] calling", "[Noisy] closing"]
    assert (out, err.splitlines()) == ("", lines)


def test_which_classes_are_functions(tmp_path):
    (tmp_path / "m.py").write_text(
        textwrap.dedent(
            """
            import abc, enum, typing
            from collections import Counter
            from dataclasses import dataclass
            from typing import NamedTuple, Protocol, TypedDict

            class Plain: pass
            class Wrong(ValueError): pass
            class Row(TypedDict):
                a: int
            class Pair(NamedTuple):
                a: int
            class Colour(enum.Enum):
                RED = 1
            @dataclass
            class Point:
                x: int
            class Shape(Protocol):
                def __call__(self, x: int) -> int: ...
            class Base(abc.ABC):
                @abc.abstractmethod
                def __call__(self, x: int) -> int: ...
            class _Hidden:
                def __call__(self, x: int) -> int: return x
            class Derived(Base):
                def __call__(self, x: int) -> int: return x
            class Inherits(Derived): pass
            @dataclass
            class Scale:
                by: int = 2
                def __call__(self, x: int) -> int: return x * self.by
            def function(x: int) -> int: return x
            """
        )
    )
    found = module_functions("m.py", True, str(tmp_path))
    assert sorted(found) == ["Derived", "Inherits", "Scale", "function"]
    assert {name: f.built for name, f in found.items()} == {
        "Derived": True, "Inherits": True, "Scale": True, "function": False
    }  # fmt: skip
    assert all(f.returns == "BIGINT" and len(f.parameters) == 1 for f in found.values())


def test_a_session_takes_no_unknown_argument():
    with (
        Session() as session,
        pytest.raises(BindError, match='without an argument "prefx"') as caught,
    ):
        session.udf(Prefix, init={"prefx": "a"})
    assert caught.value.hint == 'did you mean "prefix"?'
