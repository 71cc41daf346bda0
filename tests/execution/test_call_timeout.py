"""Time limits of calls: whatever a function is stuck in, it is ended, and its row is named."""

import threading
import time

import pytest
import zql
from zql.errors import UdfError
from zql.execution import call_timeout

FUNCTIONS = """
import asyncio, re, threading, time
from collections.abc import Iterator
import zql

lock = threading.Lock()
lock.acquire()

def sleeps(n: int) -> int:
    if n == 7:
        time.sleep(100)
    return n

def loops(n: int) -> int:
    while n == 7:
        pass
    return n

def backtracks(n: int) -> int:
    if n == 7:
        re.match(r"(a+)+$", "a" * 40 + "b")
    return n

def waits(n: int) -> int:
    if n == 7:
        lock.acquire()
    return n

def swallows(n: int) -> int:
    while n == 7:
        try:
            time.sleep(100)
        except Exception:
            pass
    return n

def gives_late(n: int) -> Iterator[int]:
    for i in range(3):
        if n == 7 and i == 1:
            time.sleep(100)
        yield i

@zql.udf(concurrency=3)
def in_threads(n: int) -> int:
    return loops(n)

@zql.udf(concurrency=3)
def sleeps_in_threads(n: int) -> int:
    return sleeps(n)

async def sleeps_async(n: int) -> int:
    if n == 7:
        await asyncio.sleep(100)
    return n

async def swallows_async(n: int) -> int:
    if n == 7:
        try:
            await asyncio.sleep(100)
        except Exception:
            pass
    return n

def in_c(n: int) -> int:
    return sum(range(10 ** 12)) if n == 7 else n

async def blocks_async(n: int) -> int:
    await asyncio.sleep(0)
    if n == 7:
        time.sleep(100)
    return n

@zql.udf(batch_size=5)
def lists(ns: list[int]) -> list[int]:
    return [sleeps(n) for n in ns]

def batch(rows):
    return [{"n": sleeps(row["n"])} for row in rows]

def record(row):
    return {"n": sleeps(row["n"])}

def parts(row):
    yield {"n": row["n"]}
    sleeps(row["n"])

def group(key, rows):
    return {"key": key, "n": sum(sleeps(row["n"]) for row in rows)}

def shard(rows):
    for row in rows:
        yield {"n": sleeps(row["n"])}

@zql.udf(timeout="200ms")
def limited(n: int) -> int:
    return sleeps(n)

def brief(n: int) -> int:
    time.sleep(0.02)
    return n
"""
READ = "IMPORT PYTHON 'udf.py'; FROM 'in.jsonl' "
FAST = "@{timeout = '200ms'}"
EASY = (
    "sleeps",
    "loops",
    "backtracks",
    "waits",
    "swallows",
    "in_threads",
    "sleeps_in_threads",
    "sleeps_async",
    "swallows_async",
    "lists",
)
HARD = ("in_c", "blocks_async")


@pytest.fixture
def numbers(place):
    place.functions(FUNCTIONS)
    place.rows("in.jsonl", [{"n": n} for n in range(20)])
    return place


def read(place, text: str, workers: int = 1) -> list[dict]:
    return place.shared(workers).query(READ + text).to_dicts()


@pytest.mark.parametrize("function", EASY)
def test_a_call_that_is_stuck_ends_and_its_row_goes(numbers, function):
    text = f"|> EXTEND {FAST} udf.{function}(n) AS m ON ERROR SKIP INTO 'bad.jsonl' "
    began = time.monotonic()
    numbers.run(f"{READ}{text} |> WRITE 'good.jsonl';", 1)
    assert time.monotonic() - began < 15
    assert numbers.read("good.jsonl") == [{"n": n, "m": n} for n in range(20) if n != 7]
    (row,) = numbers.read("bad.jsonl")
    assert row == {
        "n": 7,
        "_error": "TimeoutError: no result after 200 ms",
        "_operator": f"EXTEND udf.{function}",
        "_file": "in.jsonl",
        "_row": 8,
    }


@pytest.mark.parametrize("function", HARD)
def test_what_does_not_end_is_ended_with_its_process(numbers, function):
    text = f"|> EXTEND {FAST} udf.{function}(n) AS m "
    numbers.run(f"{READ}{text} ON ERROR SKIP INTO 'bad.jsonl' |> WRITE 'good.jsonl';", 1)
    assert [row["m"] for row in numbers.read("good.jsonl")] == [n for n in range(20) if n != 7]
    assert [(row["n"], row["_row"]) for row in numbers.read("bad.jsonl")] == [(7, 8)]


@pytest.mark.parametrize("function", ["swallows", "sleeps_async", "in_c"])
def test_without_a_policy_the_run_ends_and_tells_where(numbers, function):
    with pytest.raises(UdfError) as caught:
        read(numbers, f"|> EXTEND {FAST} udf.{function}(n) AS m")
    error = caught.value
    assert error.code == "R729"
    assert f"udf.{function} on row 8 of in.jsonl" in error.message
    assert "no result after 200 ms" in error.message
    assert "ON ERROR SKIP" in error.hint
    assert any("udf.py" in note and function in note for note in error.notes)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("MAP BATCHES @{timeout = '200ms', batch_size = 5} udf.batch", "rows 6 to 10 of in.jsonl"),
        ("MAP @{timeout = '200ms'} udf.record", "row 8 of in.jsonl"),
        ("FLATMAP @{timeout = '200ms'} udf.parts", "row 8 of in.jsonl"),
        ("REDUCE @{timeout = '200ms'} udf.group GROUP BY n % 4 AS k", "the group 3"),
        ("MAP SHARDS @{timeout = '200ms'} udf.shard", "row 8 of in.jsonl, the last that it took,"),
        ("EXTEND @{timeout = 0.2} udf.gives_late(n) AS m", "row 8 of in.jsonl"),
        ("WHERE udf.limited(n) >= 0", "row 8 of in.jsonl"),
    ],
)
def test_all_operators_have_limits(numbers, text, where):
    returns = " RETURNS (n BIGINT)" if "EXTEND" not in text and "WHERE" not in text else ""
    head, by, tail = text.partition(" GROUP BY")
    with pytest.raises(UdfError) as caught:
        read(numbers, f"|> {head}{by}{tail}{returns}")
    assert caught.value.code == "R729"
    assert f" on {where} raised TimeoutError: no result after 200 ms" in caught.value.message


def test_null_and_try(numbers):
    nulls = [{"n": n, "m": None if n == 7 else n} for n in range(20)]
    assert read(numbers, f"|> EXTEND {FAST} udf.sleeps(n) AS m ON ERROR NULL") == nulls
    assert read(numbers, f"|> EXTEND {FAST} TRY(udf.sleeps(n)) AS m") == nulls


def test_the_hint_is_nearer_than_the_function(numbers):
    text = "|> WHERE n < 7 |> EXTEND @{timeout = '1ms'} udf.brief(n) AS m ON ERROR SKIP"
    assert read(numbers, text.replace("1ms", "5s")) == [{"n": n, "m": n} for n in range(7)]
    assert read(numbers, text) == []


def test_calls_that_are_quick_together_take_longer_than_the_limit(numbers):
    found = read(numbers, f"|> EXTEND {FAST} udf.brief(n) AS m")
    assert [row["m"] for row in found] == list(range(20))


def test_a_query_from_another_thread(numbers):
    found = []

    def run() -> None:
        found.extend(read(numbers, f"|> EXTEND {FAST} udf.sleeps(n) AS m ON ERROR SKIP"))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(30)
    assert len(found) == 19


def test_the_time_for_rows_does_not_count():
    def wait_for_rows() -> str:
        with call_timeout.waiting():
            time.sleep(0.3)
        numbers = call_timeout._cells.numbers
        began, limit = numbers[call_timeout._BEGAN], numbers[call_timeout._LIMIT]
        return "late" if call_timeout.overdue(began, limit) else "in time"

    assert call_timeout.Timed(wait_for_rows, "f", 0.2).call() == "in time"


def test_a_limit_costs_little_for_a_row():
    def nothing(n: int) -> int:
        return n

    timed = call_timeout.Timed(nothing, "f", 10.0)
    best = {}
    for name, call in (("plain", nothing), ("timed", timed.call)):
        runs = []
        for _ in range(5):
            timed.begin((n, n) for n in range(20_000))
            began = time.perf_counter()
            for n in range(20_000):
                call(n)
            runs.append(time.perf_counter() - began)
        best[name] = min(runs) / 20_000
    assert best["timed"] - best["plain"] < 3e-6  # about 1 us where little else runs


@pytest.mark.parametrize("value", [0, -1, True, "soon", "10 parsecs", "", float("inf"), []])
def test_a_limit_is_a_time(value):
    with pytest.raises(zql.UsageError) as caught:
        zql.udf(timeout=value)
    assert caught.value.code == "U607"


@pytest.mark.parametrize(
    ("value", "seconds"), [(2, 2.0), ("10s", 10.0), ("2m", 120.0), ("500ms", 0.5), ("1.5", 1.5)]
)
def test_times(value, seconds):
    @zql.udf(timeout=value)
    def f() -> int:
        return 1

    from zql.execution.introspect import python_function

    assert python_function(f).timeout == seconds
