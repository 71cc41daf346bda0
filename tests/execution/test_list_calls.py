"""Scalar functions with `batch_size`: what they are handed, what they give, and who fails."""

import pytest
import zql
from hypothesis import given, settings
from hypothesis import strategies as st
from zql.errors import BindError, UdfError

FUNCTIONS = """
import asyncio
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import zql

@zql.udf(batch_size=4)
def double(ns: list[int]) -> list[int]:
    assert 1 <= len(ns) <= 4 and None not in ns
    return [n * 2 for n in ns]

@zql.udf(batch_size=4)
def known(ns: list[int | None]) -> list[bool]:
    return [n is not None for n in ns]

@zql.udf(batch_size=4)
def sizes(ns) -> list[int]:
    return [len(ns)] * len(ns)

@zql.udf(batch_size=4)
def add(ns: list[int], more: list[int], times: int = 1) -> list[int]:
    return [(n + m) * times for n, m in zip(ns, more, strict=True)]

@zql.udf(batch_size=4)
def strict(ns: list[int]) -> list[int]:
    if any(n % 5 == 3 for n in ns):
        raise ValueError("a number that is bad")
    return ns

@zql.udf(batch_size=4, volatile=True)
def strict_volatile(ns: list[int]) -> list[int]:
    return strict(ns)

@zql.udf(batch_size=4)
def too_few(ns: list[int]) -> list[int]:
    return ns[:1]

@zql.udf(batch_size=4)
def no_list(ns: list[int]):
    return "abc"

@zql.udf(batch_size=4, concurrency=2)
async def awaited(ns: list[int]) -> list[int]:
    await asyncio.sleep(0.001)
    return [n * 2 for n in ns]

@zql.udf(batch_size=4, concurrency=2)
def in_threads(ns: list[int]) -> list[int]:
    return [n * 2 for n in ns]

@zql.udf(batch_size=4, returns="BIGINT")
def arrow(ns: pa.Array) -> pa.Array:
    import pyarrow.compute as pc
    assert isinstance(ns, pa.Array)
    return pc.multiply(ns, 2)

@zql.udf(batch_size=4, returns="BIGINT")
def numpy(ns: np.ndarray) -> np.ndarray:
    assert isinstance(ns, np.ndarray) and ns.dtype == np.int64
    return ns * 2

@zql.udf(batch_size=4, returns="BIGINT")
def series(ns: pd.Series) -> pd.Series:
    assert isinstance(ns, pd.Series)
    return ns * 2

@zql.udf(batch_size=4, returns="BIGINT")
def polars(ns: pl.Series) -> pl.Series:
    assert isinstance(ns, pl.Series)
    return ns * 2

@zql.udf(batch_size=4)
def probed(ns: np.ndarray):
    return np.stack([ns, ns * 2], axis=1).astype(np.float64)

@zql.udf(batch_size=4)
def place(words: list[str], lexicon: dict, ctx) -> list[int | None]:
    ctx.counter("batches").add()
    return [lexicon.get(word) for word in words]
"""
ROWS = [{"n": None if n % 7 == 2 else n} for n in range(30)]
READ = "IMPORT PYTHON 'udf.py'; FROM 'in.jsonl' "


@pytest.fixture
def numbers(place):
    place.functions(FUNCTIONS)
    place.rows("in.jsonl", ROWS)
    return place


def here(place, text: str) -> list[dict]:
    return place.shared(2).query(READ + text).to_dicts()


def everywhere(place, text: str) -> list[dict]:
    """The rows, which are the same in this process and in 1, 2 and 4 workers."""
    found = here(place, text)
    for workers in (1, 2, 4):
        script = f"{READ}{text} |> WRITE 'out.jsonl' OPTIONS (mode = 'overwrite');"
        place.run(script, workers)
        assert place.read("out.jsonl") == found
    return found


DOUBLES = ["double", "awaited", "in_threads", "arrow", "numpy", "series", "polars"]


@pytest.mark.parametrize("function", DOUBLES)
def test_a_value_for_each_row(numbers, function):
    found = everywhere(numbers, f"|> EXTEND udf.{function}(n) AS d")
    assert found == [{**r, "d": None if r["n"] is None else r["n"] * 2} for r in ROWS]


def test_null_is_handed_over_where_it_may_be(numbers):
    found = everywhere(numbers, "|> SELECT udf.known(n) AS k")
    assert [row["k"] for row in found] == [row["n"] is not None for row in ROWS]


def test_guards_choose_the_rows(numbers):
    text = "|> WHERE n IS NOT NULL |> SELECT n, CASE WHEN n % 2 = 0 THEN udf.sizes(n) END AS s"
    found = everywhere(numbers, text)
    even = [row["s"] for row in found if row["n"] % 2 == 0]
    assert even == [4] * (len(even) // 4 * 4) + [len(even) % 4] * (len(even) % 4)
    assert {row["s"] for row in found if row["n"] % 2} == {None}
    kept = everywhere(numbers, "|> WHERE n > 3 AND udf.double(n) < 20 |> SELECT n")
    assert [row["n"] for row in kept] == [4, 5, 6, 7, 8]


def test_several_arguments_constants_and_named_ones(numbers):
    text = (
        "|> WHERE n < 6 |> SELECT udf.add(n, 10) AS a, udf.add(n, more => n + 1, times => 2) AS b"
    )
    found = everywhere(numbers, text)
    ns = [row["n"] for row in ROWS if row["n"] is not None and row["n"] < 6]
    assert found == [{"a": n + 10, "b": (2 * n + 1) * 2} for n in ns]


def test_shared_objects_and_the_context_are_handed_over_as_they_are(numbers):
    numbers.rows("words.jsonl", [{"w": w} for w in ("a", "b", "c", "d", "e")])
    with numbers.session() as session:
        session.share("lexicon", {"a": 1, "e": 5})
        report = session.run(
            "IMPORT PYTHON 'udf.py'; FROM 'words.jsonl' "
            "|> SELECT udf.place(w, $lexicon) AS p |> WRITE 'out.jsonl';"
        )
    assert [row["p"] for row in numbers.read("out.jsonl")] == [1, None, None, None, 5]
    assert report.counters["batches"] == 2
    assert report.counters["python_calls"] == 2


def test_the_type_is_seen_on_the_first_rows(numbers):
    query = numbers.shared(2).query(READ + "|> SELECT udf.probed(n) AS p")
    assert query.types == ["DOUBLE[]"]
    assert query.to_dicts()[1] == {"p": [1.0, 2.0]}


def test_only_the_rows_that_fail_go(numbers):
    good = [r["n"] for r in ROWS if r["n"] is None or r["n"] % 5 != 3]
    text = "|> EXTEND udf.strict(n) AS s ON ERROR SKIP"
    assert [row["n"] for row in everywhere(numbers, text)] == good
    tried = everywhere(numbers, "|> SELECT n, TRY(udf.strict(n)) AS s")
    assert [r["s"] for r in tried] == [r["n"] if r["n"] in good else None for r in ROWS]


def test_a_volatile_function_is_not_called_again(numbers):
    numbers.rows("in.jsonl", [{"n": n} for n in range(12)])
    found = everywhere(numbers, "|> EXTEND udf.strict_volatile(n) AS s ON ERROR SKIP")
    assert [row["n"] for row in found] == [4, 5, 6, 7]
    numbers.rows("in.jsonl", [{"n": n} for n in (0, 1, 2, 4, 3, 5, 6, 7, 9, 10)])
    found = everywhere(numbers, "|> EXTEND udf.strict_volatile(n) AS s ON ERROR SKIP")
    assert [row["n"] for row in found] == [0, 1, 2, 4, 9, 10]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("too_few", "udf.too_few on rows 1 to 5 of in.jsonl gave 1 value for 4 rows"),
        ("no_list", "gave 'abc', where a list for 4 rows is wanted"),
        ("strict", "udf.strict on rows 1 to 5 of in.jsonl raised ValueError: a number that is bad"),
    ],
)
def test_what_is_wrong_is_told_of_all_rows_of_the_call(numbers, function, message):
    with pytest.raises(UdfError) as caught:
        here(numbers, f"|> SELECT udf.{function}(n) AS x")
    assert message in caught.value.message


def test_a_list_too_short_lets_its_rows_go(numbers):
    found = everywhere(numbers, "|> EXTEND udf.too_few(n) AS x ON ERROR SKIP")
    assert found == [{**row, "x": row["n"]} for row in ROWS]  # alone, each has a list of one


def test_values_that_do_not_fit_are_those_of_a_row(place):
    place.rows("in.jsonl", [{"n": n} for n in range(9)])

    def wide(ns: list[int]) -> list[int]:
        return [2**70 if n == 5 else n for n in ns]

    with place.session() as session:
        session.udf(wide, batch_size=4)
        with pytest.raises(UdfError, match=r"wide on row 6 of in\.jsonl gave 1180591"):
            session.query("FROM 'in.jsonl' |> SELECT wide(n) AS w").to_dicts()
        found = session.query("FROM 'in.jsonl' |> SELECT wide(n) AS w ON ERROR NULL").to_dicts()
    assert [row["w"] for row in found] == [0, 1, 2, 3, 4, None, 6, 7, 8]


@pytest.mark.parametrize("kind", ["MAP", "FLATMAP", "MAP SHARDS", "REDUCE"])
def test_operators_of_records_do_not_take_them(numbers, kind):
    with pytest.raises(BindError) as caught:
        here(numbers, f"|> {kind} udf.double" + " GROUP BY n" * (kind == "REDUCE"))
    assert caught.value.code == "P460"


def test_map_batches_has_that_many_rows(place):
    place.rows("in.jsonl", [{"n": n} for n in range(10)])

    def count(rows) -> list[int]:
        return [len(rows)]

    with place.session() as session:
        session.udf(count, batch_size=4)
        found = session.query("FROM 'in.jsonl' |> MAP BATCHES count").to_dicts()
    assert found == [{"value": 4}, {"value": 4}, {"value": 2}]


@pytest.fixture(scope="module")
def one_session():
    with zql.Session() as session:
        yield session


@given(
    values=st.lists(st.one_of(st.none(), st.integers(-50, 50)), max_size=40),
    size=st.integers(1, 50),
    bad=st.integers(2, 9),
)
@settings(max_examples=40, deadline=None)
def test_the_size_of_the_batches_does_not_matter(one_session, values, size, bad):
    def f(ns: list[int]) -> list[int | None]:
        if any(n % bad == 1 for n in ns):
            raise ValueError
        return [None if n % 3 == 0 else n * n for n in ns]

    def rows(batch_size: int) -> list[dict]:
        one_session.udf(f, batch_size=batch_size)
        text = (
            "FROM given |> WHERE i % 4 <> 3 |> EXTEND CASE WHEN n > -20 THEN f(n) END AS y, "
            "n IS NULL OR f(n) > 9 AS z ON ERROR SKIP |> WHERE TRY(f(i)) IS NOT NULL OR i < 9"
        )
        given = {"given": [{"i": i, "n": n} for i, n in enumerate(values)] or [{"i": 0, "n": 1}]}
        return one_session.query(text, tables=given).to_dicts()

    assert rows(size) == rows(1)
