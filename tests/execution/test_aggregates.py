"""Aggregates of Python classes: what DuckDB's own give, however the rows are cut, and in little
memory.
"""

import json
import math
import subprocess
import sys
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from zql.errors import BindError, ZqlError
from zql.execution import loader
from zql.execution.fold_calls import FoldCaller
from zql.execution.introspect import module_functions
from zql.execution.kinds import Kind
from zql.execution.states import packed, unpacked
from zql.execution.udf import ORDINAL
from zql.expr.expression import Column
from zql.logical import plan as lp
from zql.physical.exchange import STARTS
from zql.session import ALL_RULES, Session

CLASSES = """
    class Sum:
        def __init__(self): self.sum = None
        def step(self, x: int): self.sum = x + (self.sum or 0)
        def merge(self, other): self.sum = (self.sum or 0) + (other.sum or 0)
        def finish(self) -> int | None: return self.sum


    class Items:
        def __init__(self): self.items = []
        def step(self, x: int | None): self.items.append(x)
        def merge(self, other): self.items += other.items
        def finish(self) -> list[int | None] | None: return self.items or None


    class Median:
        def __init__(self): self.values = []
        def step(self, x: int): self.values.append(x)
        def finish(self) -> float | None:
            values, n = sorted(self.values), len(self.values)
            return (values[(n - 1) // 2] + values[n // 2]) / 2 if n else None


    class Length:
        def __init__(self): self.rows = self.chars = 0
        def step(self, id: int, text: str):
            self.rows += 1
            self.chars += len(text)
        def finish(self) -> list[int]: return [self.rows, self.chars]


    class MergedLength(Length):
        def merge(self, other):
            self.rows += other.rows
            self.chars += other.chars


    class Float:
        def __init__(self): self.sum = 0.0
        def step(self, x: float): self.sum += x
        def merge(self, other): self.sum += other.sum
        def finish(self) -> float: return self.sum


    class Counted:
        def __init__(self, ctx): ctx.counter("made").add()
        def step(self, x: int, ctx): ctx.counter("stepped").add()
        def finish(self) -> int: return 0
"""

VALUES = st.one_of(st.none(), st.integers(-3, 3))
KEYS = st.sampled_from([None, 1, 1, 1, 1, 2, 3])
TABLES = st.lists(st.tuples(KEYS, VALUES), max_size=40)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    import textwrap

    path = tmp_path_factory.mktemp("aggregates")
    (path / "udf.py").write_text(textwrap.dedent(CLASSES))
    return path


@pytest.fixture(scope="module", params=[(1, ()), (2, ()), (4, ()), (2, tuple(ALL_RULES))])
def session(request, folder):
    """Parts and files of groups as small as can be, in workers; rules on, and off."""
    workers, disabled = request.param
    with Session(workers=workers) as session:
        session.settings = replace(session.settings, inline_bytes=0, split_size=64)
        session.disabled = frozenset(disabled)
        session.run("FROM range(1) |> FINISH")  # sets the limit of recursion, which is watched
        yield session


PAIRS = (
    ("q.Sum(v)", "sum(v)::BIGINT"),
    ("q.Items(v)", "list(v ORDER BY i)"),
    ("q.Items(v ORDER BY v DESC, i)", "list(v ORDER BY v DESC, i)"),
    (
        "q.Items(v) FILTER (WHERE v > 0 OR i > 20)",
        "list(v ORDER BY i) FILTER (WHERE v > 0 OR i > 20)",
    ),
    ("q.Sum(DISTINCT v)", "sum(DISTINCT v)::BIGINT"),
    ("q.Median(v)", "median(v)"),
    ("q.Median(v + k) + count(*)", "median(v + k) + count(*)"),
)
"""What a class is asked, and the same of DuckDB."""


@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    rows=TABLES,
    asked=st.lists(st.sampled_from(PAIRS), min_size=1, max_size=4),
    keys=st.sampled_from(["", " GROUP BY k", " GROUP BY k, i % 2 AS odd"]),
    native=st.booleans(),
)
def test_they_give_what_duckdb_gives(rows, asked, keys, native, session, folder, monkeypatch):
    monkeypatch.chdir(folder)
    text = "".join(json.dumps({"k": k, "v": v, "i": i}) + "\n" for i, (k, v) in enumerate(rows))
    (folder / "in.jsonl").write_text(text)
    start = "IMPORT PYTHON 'udf.py' AS q; FROM read_json('in.jsonl', columns => "
    start += "{k: 'BIGINT', v: 'BIGINT', i: 'BIGINT'})"
    beside = ", count(*) AS n, list(v) AS l" if native else ""

    def answer(place):
        items = ", ".join(f"{pair[place]} AS x{i}" for i, pair in enumerate(asked))
        found = session.query(f"{start} |> AGGREGATE {items}{beside}{keys}").to_dicts()
        return sorted(found, key=repr)

    assert answer(0) == answer(1)


def test_floats_are_added_in_one_order(place):
    """The parts, and the order of their states, depend on the rows alone."""
    place.functions(CLASSES)
    place.rows("in.jsonl", [{"k": i * i % 7, "x": math.sin(i) * 10 ** (i % 9)} for i in range(900)])
    sums = set()
    for workers in (1, 2, 4):
        place.run(
            "IMPORT PYTHON 'udf.py' AS q; SET split_size = 2000; FROM 'in.jsonl' "
            f"|> AGGREGATE q.Float(x) AS s GROUP BY k |> WRITE 'o{workers}.jsonl'",
            workers,
        )
        sums.add((place.folder / f"o{workers}.jsonl").read_bytes())
    assert len(sums) == 1


def test_calls_of_step_are_counted(place):
    """NULLs and what FILTER leaves out are no calls; nor are merges."""
    place.functions(CLASSES)
    place.rows("in.jsonl", [{"x": None if x % 3 == 0 else x, "k": x % 2} for x in range(60)])
    for name in ("Sum", "Median"):
        report = place.run(
            "IMPORT PYTHON 'udf.py' AS q; SET split_size = 200; FROM 'in.jsonl' "
            f"|> AGGREGATE q.{name}(x) FILTER (WHERE k = 0) AS s GROUP BY k "
            f"|> WRITE '{name}.jsonl'"
        )
        assert report.counters["python_calls"] == 20


def test_many_groups_in_many_batches(place):
    place.functions(CLASSES)
    with place.session() as session:
        found = session.query(
            "IMPORT PYTHON 'udf.py' AS q; FROM range(60_000) AS r(i) "
            "|> AGGREGATE q.Sum(i) AS t, q.Items(i) AS l GROUP BY i % 30_000 AS k "
            "|> AGGREGATE count(*) AS n, count_if(t = 2 * k + 30_000) AS right, "
            "count_if(l = [k, k + 30_000]) AS listed"
        ).to_dicts()
    assert found == [{"n": 30_000, "right": 30_000, "listed": 30_000}]


def run_in_little_memory(place, query):
    """In a process of its own: the budget is for all of a run, and that of the tests is large."""
    job = f"IMPORT PYTHON 'udf.py' AS q; {query} |> WRITE 'out.jsonl'"
    (place.folder / "job.zql").write_text(job)
    command = [sys.executable, "-m", "zql", "run", "job.zql", "--json"]
    options = ["--workers", "1", "--memory", "450MB", "--set", f"temp_dir={place.temp}"]
    done = subprocess.run(
        [*command, *options], cwd=place.folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return place.read("out.jsonl")


def test_big_states_do_not_pile_up(place):
    """They come out in batches of some megabytes, however few groups these are."""
    place.functions(
        """
        class Sketch:
            def __init__(self): self.cells = bytes(100_000)
            def step(self, x: int): ...
            def merge(self, other): ...
            def finish(self) -> int: return 0
        """
    )
    (function,) = module_functions("udf.py", is_path=True).values()
    key = Column("k", "BIGINT")
    aggregate = lp.PythonAggregate(Column("s", "BLOB"), function, (key,))
    call = lp.Fold(lp.BatchInput((key,)), (key,), (aggregate,), kind="PARTIAL")
    rows = pa.record_batch({"k": range(1000), STARTS: [1] * 1000, ORDINAL: range(1000)})
    caller = FoldCaller(call, Nothing(), lambda *_: pa.array([]))
    batches = list(caller.run(iter([rows])))
    assert max(batch.nbytes for batch in batches) < 17 * 2**20
    assert [k for batch in batches for k in batch["k"].to_pylist()] == list(range(1000))


class Nothing:
    """Constants of calls that have none."""

    def __call__(self, expr):
        return None, Kind("NULL")

    def load(self, function):
        return loader.load(function)


@pytest.mark.parametrize("name", ["Length", "MergedLength"])
def test_a_group_bigger_than_memory_streams(place, name):
    """Two million rows, nearly all of one key, are no more than some of them at a time."""
    place.functions(CLASSES)
    rows = run_in_little_memory(
        place,
        "FROM range(2_000_000) AS r (id)"
        "|> SELECT id, if(id % 100_000 = 1, id, 7) AS k, repeat('x', 200) AS text"
        f"|> AGGREGATE q.{name}(id, text) AS found GROUP BY k",
    )
    found = {row["k"]: row["found"] for row in rows}
    assert len(found) == 21
    assert found[7] == [1_999_980, 399_996_000]
    assert found[1] == [1, 200]


class Mine:
    """A class of the program that asks; no worker can import it."""

    def __init__(self, least: int = 0) -> None:
        self.found: list[int] = []
        self.least = least

    def step(self, x: int) -> None:
        if x >= self.least:
            self.found.append(x)

    def merge(self, other: "Mine") -> None:
        self.found += other.found

    def finish(self) -> list[int]:
        return sorted(self.found)


def test_a_class_of_the_caller(place):
    place.rows("in.jsonl", [{"x": x} for x in range(6)])
    query = "FROM 'in.jsonl' |> AGGREGATE mine(x, least => 2) AS l GROUP BY x % 2 AS k"
    with place.session() as session:
        session.settings = replace(session.settings, inline_bytes=0, split_size=16)
        session.udf(Mine, name="mine")
        found = session.query(query).to_dicts()
    assert sorted(row["l"] for row in found) == [[2, 4], [3, 5]]


def test_the_context_of_the_task(place):
    place.functions(CLASSES)
    place.rows("in.jsonl", [{"x": x} for x in range(6)])
    report = place.run(
        "IMPORT PYTHON 'udf.py' AS q; FROM 'in.jsonl' "
        "|> AGGREGATE q.Counted(x) AS n GROUP BY x % 2 AS k |> WRITE 'out.jsonl'"
    )
    assert report.counters["made"] == 2
    assert report.counters["stepped"] == report.counters["python_calls"] == 6


# ---- states ------------------------------------------------------------------------------------


def test_a_state_finds_its_class_where_it_has_no_name():
    class Local:
        pass

    state = Local()
    state.items, state.again = [1, 2], state
    other = type("Local", (), {})
    found = unpacked(packed(state, Local), other)
    assert type(found) is other
    assert found.items == [1, 2]
    assert found.again is found


# ---- which classes aggregate -------------------------------------------------------------------


def test_classes_that_aggregate(tmp_path):
    (tmp_path / "m.py").write_text(
        "import zql\n"
        "class Plain:\n    pass\n"
        "class _Hidden:\n    def step(self): ...\n    def finish(self): ...\n"
        "class Called:\n    def step(self): ...\n    def finish(self): ...\n"
        "    def __call__(self): ...\n"
        "class Base:\n    def step(self, x: float, *more: int): ...\n"
        "class Whole(Base):\n    def finish(self) -> 'str | None': ...\n"
        "@zql.udf(returns='DECIMAL(9,2)', volatile=True)\n"
        "class Parts(Whole):\n"
        "    def __init__(self, base: int, *, least: float = 0.5, ctx=None): ...\n"
        "    def merge(self, other): ...\n"
    )
    found = module_functions(str(tmp_path / "m.py"), is_path=True)
    assert set(found) - {"Called"} == {"Whole", "Parts"}
    whole, parts = found["Whole"], found["Parts"]
    assert [(p.name, p.type, p.passes_null, p.variadic) for p in whole.parameters] == [
        ("x", "DOUBLE", False, False),
        ("more", "BIGINT", False, True),
    ]
    assert (whole.returns, whole.volatile) == ("VARCHAR", False)
    assert (parts.returns, parts.volatile) == ("DECIMAL(9,2)", True)
    kind = whole.aggregate
    assert (kind.parameters, kind.merges, kind.context) == ((), False, False)
    assert whole.told_by == "the annotation of finish"
    kind = parts.aggregate
    assert [(p.name, p.type, p.required) for p in kind.parameters] == [
        ("base", "BIGINT", True),
        ("least", "DOUBLE", False),
    ]
    assert (kind.merges, kind.context, parts.told_by) == (True, True, "@zql.udf")


def test_an_error_names_the_method_the_row_and_the_group(place):
    place.functions(
        """
        class Fussy:
            def step(self, x: int):
                if x == 7:
                    raise ValueError("seven")
            def merge(self, other): ...
            def finish(self) -> int: return 1
        """
    )
    place.rows("in.jsonl", [{"x": x, "k": "ab"[x % 2]} for x in range(60)])
    for workers in (1, 2):
        with place.session(workers) as session:
            session.settings = replace(session.settings, inline_bytes=0, split_size=200)
            with pytest.raises(ZqlError) as caught:
                session.run(
                    "IMPORT PYTHON 'udf.py' AS q; FROM 'in.jsonl' |> WHERE x > 3 "
                    "|> AGGREGATE q.Fussy(x) AS n GROUP BY k |> WRITE 'out.jsonl'"
                )
        error = caught.value
        assert error.message == (
            "udf.Fussy.step on row 8 of in.jsonl (the group 'b') raised ValueError: seven"
        )
        assert error.notes[-1] == "it was given 7"
        assert error.span is not None


def test_it_is_no_function(place):
    place.functions(CLASSES)
    with place.session() as session, pytest.raises(BindError, match="aggregate class"):
        session.query("IMPORT PYTHON 'udf.py' AS q; FROM range(3) AS r(i) |> MAP q.Sum")


@pytest.mark.parametrize(("hint", "option"), [("@{timeout = '1s'} ", ""), ("", "timeout=1")])
def test_a_time_limit_is_refused(place, hint, option):
    place.rows("in.jsonl", [{"x": 1}])
    place.functions(
        f"""
        import zql
        @zql.udf({option or "volatile=False"})
        class Count:
            def __init__(self): self.n = 0
            def step(self, x: int): self.n += 1
            def finish(self) -> int: return self.n
        """
    )
    query = f"IMPORT PYTHON 'udf.py' AS u; FROM 'in.jsonl' |> AGGREGATE {hint}u.Count(x) AS n"
    with pytest.raises(BindError, match="cannot have a time limit"):
        place.shared(1).query(query)
