"""Calls over batches: NULL rules, guards, records, iterables, and how failures are told."""

import pyarrow as pa
import pytest
from zql.execution import loader
from zql.execution.binding import CallError
from zql.execution.engine import Engine
from zql.execution.introspect import module_functions
from zql.execution.kinds import parse
from zql.execution.settings import Settings
from zql.execution.udf import ORDINAL, Caller
from zql.expr.expression import Column, Literal
from zql.logical.plan import Apply, BatchInput, MapRows, PythonColumn

MODULE = """
from typing import Iterator, NamedTuple, TypedDict
calls = []
def note(*args):
    calls.append(args)
    return args
def strict(a: int, b: int) -> int:
    note(a, b)
    return a + b
def lax(a: int | None, b=None) -> int:
    note(a, b)
    return -1 if a is None else a
def plain(a):
    note(a)
    return None if a is None else a * 1.5
def gives_none(a: int) -> int | None:
    return None
def listing(a: int) -> Iterator[int]:
    yield from range(a)
def keywords(a, *, factor=1, plus=0) -> int:
    return a * factor + plus
def record(r): return {"x": r["a"], "y": str(r["b"])}
def same(r): return r
def none(r): return None
def explode(r):
    for i in range(r["a"] or 0):
        yield {"x": i}
def scalars(a: int): return [a, a + 1]
def one(r): return {"x": 1}
def text(r): return "abc"
def number(r): return 5
def third(a):
    if a == 3: raise ValueError("three")
    return a
def later(r):
    yield {"x": 1}
    raise KeyError("gone")
def big(a): return 2 ** 70
def half(a): return a + 0.5
"""

A, B = Column("a", "BIGINT"), Column("b", "BIGINT")
INPUT = BatchInput((A, B))


@pytest.fixture
def functions(tmp_path):
    (tmp_path / "m.py").write_text(MODULE)
    return module_functions("m.py", True, str(tmp_path))


@pytest.fixture(scope="module")
def engine():
    with Engine(Settings(), threads=1) as engine:
        yield engine


def constants(expr):
    return expr.value, parse(expr.type or "BIGINT")


constants.load = loader.load


def no_text(*_):
    raise AssertionError


def batch(a, b=None, **more):
    b = [None] * len(a) if b is None else b
    columns = {"a": pa.array(a, pa.int64()), "b": pa.array(b, pa.int64())}
    return pa.record_batch({**columns, **more})


def apply(function, rows, args=(A,), returns=None, keywords=(), guard=None):
    column = Column("r", returns or function.returns)
    call = Apply(INPUT, (PythonColumn(column, function, args, keywords, guard),))
    (result,) = Caller(call, constants, no_text).run(rows)
    return result.column("r").to_pylist()


def rows_of(function, kind, rows, columns, args=(), most_rows=8192):
    named = tuple(Column(f"out_{n}", t) for n, t in columns)
    record = () if args else (("a", A), ("b", B))
    call = MapRows(INPUT, kind, function, record, args, (), named, tuple(n for n, _ in columns))
    return list(Caller(call, constants, no_text, most_rows=most_rows).run(rows))


def made(function):
    from zql.execution import loader

    return loader.import_file(function.path).calls


def test_null_is_not_passed_to_annotated_parameters(functions):
    function = functions["strict"]
    assert apply(function, batch([1, None, 3], [1, 2, None]), (A, B)) == [2, None, None]
    assert made(function) == [(1, 1)]


def test_null_reaches_others_as_none(functions):
    function = functions["lax"]
    assert apply(function, batch([1, None], [None, 5]), (A, B)) == [1, -1]
    assert made(function) == [(1, None), (None, 5)]
    assert apply(functions["plain"], batch([2, None]), returns="DOUBLE") == [3.0, None]


def test_a_literal_null_is_the_same_as_a_column_of_nulls(functions):
    assert apply(functions["strict"], batch([1, 2]), (A, Literal(None))) == [None, None]
    assert apply(functions["lax"], batch([1, 2]), (Literal(None), A)) == [-1, -1]


def test_none_is_always_legal(functions):
    assert apply(functions["gives_none"], batch([1, 2])) == [None, None]


def test_a_guard_lets_only_true_rows_call(functions):
    function = functions["plain"]
    guard = Column("g", "BOOLEAN")
    rows = batch([1, 2, 3], g=pa.array([True, False, None]))
    assert apply(function, rows, returns="DOUBLE", guard=guard) == [1.5, None, None]
    assert made(function) == [(1,)]


def test_keywords(functions):
    keywords = (("factor", Literal(10)), ("plus", B))
    assert apply(functions["keywords"], batch([1, 2], [5, 6]), keywords=keywords) == [15, 26]


def test_an_iterator_as_a_value_is_a_list(functions):
    assert apply(functions["listing"], batch([2, 0])) == [[0, 1], []]


def test_map_gives_one_record_for_each_row(functions):
    found = rows_of(
        functions["record"], "MAP", batch([1, 2], [3, None]), [("x", "BIGINT"), ("y", "VARCHAR")]
    )
    assert [b.to_pylist() for b in found] == [
        [{"out_x": 1, "out_y": "3"}, {"out_x": 2, "out_y": "None"}]
    ]


def test_map_takes_no_none(functions):
    with pytest.raises(CallError) as caught:
        rows_of(functions["none"], "MAP", batch([1]), [("x", "BIGINT")])
    assert "None" in caught.value.message


def test_an_unknown_key_is_refused_with_the_clause_to_write(functions):
    with pytest.raises(CallError) as caught:
        rows_of(functions["same"], "MAP", batch([1, 2], [3, 4]), [("a", "BIGINT")])
    assert "'b'" in caught.value.message
    assert caught.value.hint == 'RETURNS ("a" BIGINT, "b" BIGINT) takes it'


def test_flatmap_in_bounded_batches_that_know_their_rows(functions):
    rows = batch([3, 0, None, 2]).append_column(ORDINAL, pa.array([10, 11, 12, 13]))
    found = rows_of(functions["explode"], "FLATMAP", rows, [("x", "BIGINT")], most_rows=2)
    assert [b.column("out_x").to_pylist() for b in found] == [[0, 1], [2, 0], [1]]
    assert [b.column(ORDINAL).to_pylist() for b in found] == [[10, 10], [10, 13], [13]]


def test_flatmap_over_values_and_with_none(functions):
    found = rows_of(functions["scalars"], "FLATMAP", batch([1, None]), [("v", "BIGINT")], (A,))
    assert [b.to_pylist() for b in found] == [[{"out_v": 1}, {"out_v": 2}]]
    assert rows_of(functions["none"], "FLATMAP", batch([1]), [("x", "BIGINT")]) == []


@pytest.mark.parametrize("name", ["one", "text", "number"])
def test_flatmap_refuses_what_is_no_iterable_of_records(functions, name):
    with pytest.raises(CallError, match="iterable of records"):
        rows_of(functions[name], "FLATMAP", batch([1]), [("x", "BIGINT")])


def test_a_failure_names_its_row(functions):
    with pytest.raises(CallError) as caught:
        apply(functions["third"], batch([1, 2, 3, 4]), returns="BIGINT")
    error = caught.value
    assert (error.row, error.function, error.code) == (2, "m.third", "R710")
    assert error.message == "raised ValueError: three"
    guard = Column("g", "BOOLEAN")
    rows = batch([1, 2, 3, 4], g=pa.array([False, True, True, True]))
    with pytest.raises(CallError) as caught:
        apply(functions["third"], rows, returns="BIGINT", guard=guard)
    assert caught.value.row == 2


def test_a_failure_inside_an_iterator_names_its_row(functions):
    with pytest.raises(CallError, match="KeyError") as caught:
        rows_of(functions["later"], "FLATMAP", batch([1, 2]), [("x", "BIGINT")])
    assert caught.value.row == 0


@pytest.mark.parametrize(
    ("name", "returns", "wider"), [("big", "BIGINT", "HUGEINT"), ("half", "BIGINT", "DOUBLE")]
)
def test_a_value_that_does_not_fit_says_what_would(functions, name, returns, wider):
    with pytest.raises(CallError) as caught:
        apply(functions[name], batch([1]), returns=returns)
    assert f"does not fit {returns}" in caught.value.message
    assert f"RETURNS {wider}" in caught.value.hint


def test_calls_are_counted(functions):
    call = Apply(INPUT, (PythonColumn(Column("r", "BIGINT"), functions["strict"], (A, B)),))
    caller = Caller(call, constants, no_text)
    list(caller.run(batch([1, None, 2], [1, 1, 1])))
    assert caller.calls == 2


def test_operators_that_follow_each_other_make_a_call_once(place):
    place.rows("in.jsonl", [{"a": a} for a in range(40)])
    place.functions(
        """
        def f(a: int) -> int:
            with open("calls", "a") as file:
                file.write(f"{a}\\n")
            return a * 2
        """
    )
    rows = place.shared(1).query(
        "IMPORT PYTHON 'udf.py' AS u; FROM 'in.jsonl' |> WHERE u.f(a) > 20 |> ORDER BY u.f(a) DESC "
        "|> SELECT a, u.f(a) AS y |> WHERE u.f(a) < 70 |> SET a = a + 1 |> EXTEND u.f(a) AS z"
    )
    assert [tuple(r.values()) for r in rows.to_dicts()] == [
        (a + 1, 2 * a, 2 * a + 2) for a in range(34, 10, -1)
    ]
    calls = (place.folder / "calls").read_text().split()
    assert sorted(map(int, calls)) == sorted([*range(40), *range(12, 36)])
