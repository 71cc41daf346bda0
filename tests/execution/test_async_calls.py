"""Async functions, and plain ones in threads: how many at a time, in what order, and failures."""

import _thread
import subprocess
import sys
import textwrap
import threading
import time

import pytest
from zql.errors import Interrupted, UdfError

FUNCTIONS = """
import asyncio, os, threading, time
from collections.abc import AsyncIterator
import zql

open_calls = most = 0
lock = threading.Lock()

def enter():
    global open_calls, most
    with lock:
        open_calls += 1
        most = max(most, open_calls)

def leave():
    global open_calls
    with lock:
        open_calls -= 1

async def watched(n: int) -> int:
    enter()
    await asyncio.sleep(0.002 * (n % 5))
    leave()
    return most

@zql.udf(concurrency=3)
async def three(n: int) -> int:
    return await watched(n)

@zql.udf(concurrency=3)
def threads(n: int) -> int:
    enter()
    time.sleep(0.002 * (n % 5))
    leave()
    return most

async def double(n: int) -> int:
    await asyncio.sleep(0.001 * (7 - n % 7))
    return n * 2

async def picky(n: int) -> int:
    # The later ones are the quicker ones.
    await asyncio.sleep(0.05 if n == 20 else 0.001)
    if n >= 20:
        raise ValueError(f"no {n}")
    return n

@zql.udf(concurrency=4)
def picky_in_threads(n: int) -> int:
    time.sleep(0.05 if n == 20 else 0.001)
    if n >= 20:
        raise ValueError(f"no {n}")
    return n

async def odd(n: int) -> int:
    await asyncio.sleep(0)
    if n % 2:
        raise ValueError(f"{n} is odd")
    return n

@zql.udf(concurrency=4)
def odd_in_threads(n: int) -> int:
    if n % 2:
        raise ValueError(f"{n} is odd")
    return n

async def record(r) -> dict:
    await asyncio.sleep(0)
    return {"n": r["n"], "square": r["n"] ** 2}

async def some(r):
    for i in range(r["n"] % 3):
        await asyncio.sleep(0)
        yield {"n": r["n"], "i": i}

async def some_list(r):
    await asyncio.sleep(0)
    return [{"n": r["n"], "i": i} for i in range(r["n"] % 3)]

@zql.udf(concurrency=4)
def some_in_threads(r):
    for i in range(r["n"] % 3):
        yield {"n": r["n"], "i": i}

async def listed(n: int) -> AsyncIterator[int]:
    for i in range(n % 3):
        yield i

async def batch(rows):
    await asyncio.sleep(0)
    return [{"n": row["n"] + 1} for row in rows]

async def batch_stream(rows):
    for row in rows:
        await asyncio.sleep(0)
        yield {"n": row["n"] + 1}

async def total(key, rows):
    await asyncio.sleep(0)
    return {"key": key, "total": sum(row["n"] for row in rows)}

async def shard(rows):
    seen = 0
    for row in rows:
        seen += 1
        await asyncio.sleep(0)
        yield {"n": row["n"], "seen": seen}

class Client:
    def __init__(self):
        self.loop = None

    async def __call__(self, n: int) -> bool:
        first = self.loop is None
        self.loop = self.loop or asyncio.get_running_loop()
        return self.loop is asyncio.get_running_loop()

client = Client()
"""
ROWS = 40
READ = "IMPORT PYTHON 'udf.py'; FROM 'in-*.jsonl' "


@pytest.fixture
def numbers(place):
    place.functions(FUNCTIONS)
    for start in (0, ROWS // 2):
        rows = [{"n": n} for n in range(start, start + ROWS // 2)]
        place.rows(f"in-{start:02d}.jsonl", rows)
    return place


def here(place, text: str) -> list[dict]:
    """The rows of a query that calls its functions in this process."""
    return place.shared(2).query(READ + text).to_dicts()


def in_workers(place, text: str, workers: int) -> list[dict]:
    place.run(f"{READ}{text} |> WRITE 'out.jsonl' OPTIONS (mode = 'overwrite');", workers)
    return place.read("out.jsonl")


@pytest.mark.parametrize(("function", "limit"), [("watched", 16), ("three", 3), ("threads", 3)])
def test_as_many_calls_as_allowed_are_under_way_and_no_more(numbers, function, limit):
    numbers.rows("in-00.jsonl", [{"n": n} for n in range(200)])
    found = here(numbers, f"|> WHERE filename = 'in-00.jsonl' |> SELECT udf.{function}(n) AS most")
    assert max(row["most"] for row in found) == limit
    assert len(found) == 200


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("|> SELECT udf.double(n) AS d", [{"d": n * 2} for n in range(ROWS)]),
        ("|> MAP udf.record", [{"n": n, "square": n * n} for n in range(ROWS)]),
        ("|> SELECT udf.listed(n) AS l", [{"l": list(range(n % 3))} for n in range(ROWS)]),
        ("|> MAP BATCHES udf.batch", [{"n": n + 1} for n in range(ROWS)]),
        ("|> MAP BATCHES udf.batch_stream", [{"n": n + 1} for n in range(ROWS)]),
        (
            "|> MAP SHARDS udf.shard",
            [{"n": n, "seen": n % (ROWS // 2) + 1} for n in range(ROWS)],
        ),
        (
            "|> REDUCE udf.total GROUP BY n % 2 |> ORDER BY key",
            [{"key": k, "total": sum(range(k, ROWS, 2))} for k in (0, 1)],
        ),
        *(
            (f"|> FLATMAP udf.{f}", [{"n": n, "i": i} for n in range(ROWS) for i in range(n % 3)])
            for f in ("some", "some_list", "some_in_threads")
        ),
    ],
)
def test_results_are_in_the_order_of_the_rows(numbers, text, rows, workers):
    assert in_workers(numbers, text, workers) == rows
    assert here(numbers, text) == rows


@pytest.mark.parametrize("function", ["picky", "picky_in_threads"])
def test_the_first_row_that_fails_is_named_though_others_failed_before(numbers, function):
    for run in (here, lambda *args: in_workers(*args, workers=2)):
        with pytest.raises(UdfError, match=r"row 1 of in-20\.jsonl raised ValueError: no 20"):
            run(numbers, f"|> SELECT udf.{function}(n) AS p")


@pytest.mark.parametrize("function", ["odd", "odd_in_threads"])
def test_failures_go_row_by_row(numbers, function):
    even = [{"n": n, "o": n} for n in range(0, ROWS, 2)]
    text = f"|> EXTEND udf.{function}(n) AS o ON ERROR SKIP INTO 'rejects.jsonl'"
    assert in_workers(numbers, text, 2) == even
    rejects = numbers.read("rejects.jsonl")
    assert [(r["n"], r["_row"]) for r in rejects] == [(n, n % 20 + 1) for n in range(1, ROWS, 2)]
    assert rejects[0]["_error"] == "ValueError: 1 is odd"
    nulls = [{"n": n, "o": None if n % 2 else n} for n in range(ROWS)]
    assert here(numbers, f"|> EXTEND udf.{function}(n) AS o ON ERROR NULL") == nulls
    assert here(numbers, f"|> EXTEND TRY(udf.{function}(n)) AS o") == nulls


def test_one_loop_lives_on_between_calls(numbers):
    found = in_workers(numbers, "|> SELECT udf.client(n) AS same", 1)
    assert found == [{"same": True}] * ROWS


def test_an_object_with_an_async_call_is_a_function(place):
    place.rows("in.jsonl", [{"n": n} for n in range(3)])

    class Add:
        def __init__(self, more: int) -> None:
            self.more = more

        async def __call__(self, n: int) -> int:
            return n + self.more

    with place.session() as session:
        found = session.udf(Add(3), "add")
        assert (found.is_async, found.returns) == (True, "BIGINT")
        assert session.query("FROM 'in.jsonl' |> SELECT add(n) AS n").to_dicts() == [
            {"n": 3},
            {"n": 4},
            {"n": 5},
        ]


def test_ctrl_c_cancels_what_is_under_way(place):
    place.rows("in.jsonl", [{"n": n} for n in range(50)])
    place.functions(
        """
        import asyncio, zql

        @zql.udf(concurrency=8)
        async def endless(n: int) -> int:
            with open(f"begun-{n}", "w"):
                pass
            try:
                await asyncio.sleep(1000)
            finally:
                with open(f"cancelled-{n}", "w"):
                    pass
        """
    )

    def stop() -> None:
        while not (place.folder / "begun-7").exists():
            time.sleep(0.01)
        _thread.interrupt_main()

    query = place.shared(2).query(
        "IMPORT PYTHON 'udf.py'; FROM 'in.jsonl' |> MAP udf.endless(n) RETURNS (n BIGINT)"
    )
    threading.Thread(target=stop, daemon=True).start()
    with pytest.raises((Interrupted, KeyboardInterrupt)):
        query.to_dicts()
    names = place.names()
    assert [n for n in range(50) if f"cancelled-{n}" in names] == list(range(8))
    assert [n for n in range(50) if f"begun-{n}" in names] == list(range(8))


def test_nothing_is_left_unawaited(tmp_path):
    """A run that fails, one that skips and one in a running loop, with all warnings on."""
    (tmp_path / "script.py").write_text(
        textwrap.dedent(
            """
            import asyncio, gc, zql

            async def f(n: int) -> int:
                await asyncio.sleep(0.01)
                if n == 5:
                    raise ValueError("five")
                await asyncio.sleep(0.05)
                return n

            async def main():
                with zql.Session() as session:
                    session.udf(f)
                    text = "FROM range(200) AS r (n) |> SELECT f(n) AS n"
                    try:
                        session.query(text).to_dicts()
                    except zql.UdfError as error:
                        print(error.message)
                    print(len(session.query(text + " ON ERROR SKIP").to_dicts()))

            asyncio.run(main())
            gc.collect()
            """
        )
    )
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error::RuntimeWarning", "script.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "raised ValueError: five" in done.stdout
    assert done.stdout.endswith("\n199\n")
    for words in ("never awaited", "was destroyed", "never retrieved", "Traceback"):
        assert words not in done.stderr
