"""Python functions that the query tests call."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count
from typing import TypedDict

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from zql import Shard, udf


def double(n: int) -> int:
    return n * 2


def shout(text: str) -> str:
    return text.upper() + "!"


def maybe(text: str | None) -> str | None:
    return None if text == "Bob" else f"<{text}>"


def untyped(value):
    return value


def is_adult(age: int) -> bool:
    return age >= 40


def at_least(age: int, limit: int = 30) -> bool:
    return age >= limit


def words(text: str) -> list[str]:
    return text.split()


def fail(text: str) -> str:
    raise ValueError(f"no {text}")


def only_positive(n: int) -> int:
    if n <= 0:
        raise ValueError("not positive")
    return n


class Point(TypedDict):
    x: int
    y: float | None


def point(n: int) -> Point | None:
    return {"x": n, "y": n / 2 if n % 2 else None} if n != 2 else None


def greet(row: dict) -> dict[str, str]:
    return {"greeting": f"hello {row['name']}"}


def greetings(row: dict) -> Iterator[dict[str, str]]:
    yield greet(row)
    yield {"greeting": f"{greet(row)['greeting']} again"}


class Named(TypedDict):
    id: int
    name: str


def rename(row: dict) -> Named:
    return {"id": row["id"] * 10, "name": row["name"].lower()}


def explode(row: dict) -> Iterator[Named]:
    for i in range(row["id"] % 3):
        yield {"id": i, "name": row["name"]}


def repeat(row: dict, times: int = 2) -> Iterator[Named]:
    for i in range(times):
        yield {"id": row["id"] * 100 + i, "name": row["name"]}


def only_lists(values: list[int] | None) -> int | None:
    return None if values is None else sum(values)


_calls: list[int] = []


@udf(volatile=True)
def count_calls(value: int) -> int:
    _calls.append(value)
    return len(_calls) * 0 + value


def process() -> int:
    return os.getpid()


_tickets = count()


@udf(volatile=True)
def ticket(value: int) -> int:
    return next(_tickets)


def same(row: dict) -> dict:
    return row


def named_again(rows: list[dict]) -> list[Named]:
    return [{"id": row["id"] * 10, "name": row["name"].lower()} for row in rows]


def longer_first(rows):
    for row in rows:
        yield {"name": row["name"], "tags": row["tags"]}
        if row["tags"]:
            yield {"name": row["name"], "tags": row["tags"][:1]}


def lengths(names: list[str]) -> list[int]:
    return [len(name) for name in names]


def pairs(rows: list[tuple]) -> list[Named]:
    return [{"id": n, "name": name} for name, n in rows]


def as_table(table: pa.Table) -> pa.Table:
    return table.append_column("next", pc.add(table["id"], 1))


def as_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.filter(pc.greater(batch["id"], 2))


def as_pandas(frame: pd.DataFrame) -> pd.DataFrame:
    frame["next"] = frame["age"] + 1
    return frame[["id", "age", "next"]]


def as_polars(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.select("id", older=pl.col("age") + 10)


def polars_again(frame: pl.DataFrame) -> pl.DataFrame:
    return frame


def wider_table(table: pa.Table) -> pa.Table:
    return table.select(["id"]).cast(pa.schema([("id", pa.int32())]))


def no_batch(rows: list[dict]) -> list[Named]:
    return [{"id": "x", "name": row["name"]} for row in rows]


def running(rows: Iterator[dict]) -> Iterator[Named]:
    for row in rows:
        yield {"id": row["id"], "name": row["name"].upper()}


def of_shard(rows, shard: Shard, word: str = "of"):
    for row in rows:
        inside = 0 <= shard.index < shard.total
        yield {"id": row["id"], "known": inside, "said": f"{word} {shard.path}"}


def stops(rows: Iterator[dict]) -> Iterator[Named]:
    for row in rows:
        if row["name"] == "Dee":
            raise ValueError("no Dee")
        yield {"id": row["id"], "name": row["name"]}


class Group(TypedDict):
    key: str | None
    n: int
    names: list[str]


def collect(key, rows: Iterator[dict]) -> Group:
    names = [row["name"] for row in rows]
    return {"key": key, "n": len(names), "names": names}


def numbered(key, rows):
    for place, row in enumerate(rows):
        yield {"key": str(key), "place": place, "name": row["name"]}


def oldest(key, rows) -> Named | None:
    """None, and so no record, for a group whose ages are not known."""
    known = [row for row in rows if row["age"] is not None]
    return max(known, key=lambda row: row["age"]) if known else None


def first_only(key, rows, word: str = ""):
    return {"key": key, "first": word + next(iter(rows))["name"]}


def late(key, rows):
    _kept.append(rows)
    return {"unread": sum(1 for kept in _kept for _ in kept)}


_kept: list[Iterator[dict]] = []


def total(key, rows):
    amount = 0
    for row in rows:
        amount += row["amount"]
    return {"key": key, "amount": amount}


def total_of_part(key, rows):
    yield {"amount": sum(row["amount"] for row in rows)}


def larger_half(key, rows):
    return [row for row in rows if row["amount"] > 10]


def joined(key, words) -> list[dict[str, str]]:
    return [{"key": str(key), "words": " ".join(map(str, words))}]


def not_paris(key, rows) -> Group:
    for row in rows:
        if row["city"] == "Paris":
            raise ValueError("no Paris")
    return {"key": key, "n": 0, "names": []}


def keyed(key, rows):
    return {"key": str(key), "type": type(key).__name__, "rows": sum(1 for _ in rows)}


def first_letter(text: str) -> str:
    return text[0].lower()


def of_row(row: dict) -> Group:
    raise ValueError("no row")


def picky(n: int) -> int:
    if n % 3 == 0:
        raise ValueError(f"{n} is a multiple of 3")
    return n * 10


def picky_untyped(n):
    return picky(n)


def too_long(n: int) -> int:
    return n if n < 3 else "three or more"


def picky_record(row: dict) -> dict[str, int]:
    return {"value": picky(row["id"])}


class Value(TypedDict):
    value: int


def picky_row(row: dict) -> Value:
    return {"value": picky(row["id"])}


def misfit_row(row: dict) -> Value:
    return {"value": "x"} if row["id"] == 2 else None if row["id"] == 4 else {"value": row["id"]}


def picky_rows(row: dict) -> Iterator[Value]:
    yield {"value": row["id"]}
    yield {"value": picky(row["id"])}


def misfit_rows(row: dict) -> Iterator[Value]:
    yield {"value": row["id"]}
    yield {"value": "x" if row["id"] == 2 else -row["id"]}


class Lexicon:
    def __init__(self, size: int, names: list[str]) -> None:
        self.places = {name: place for place, name in enumerate(names)}
        self.size = size


def lexicon(size: int, names: list[str] = ("Ada", "Bob")) -> Lexicon:
    return Lexicon(size, list(names))


def known(name: str, lexicon: Lexicon) -> bool:
    return name in lexicon.places


def place_of(name: str, lexicon: Lexicon) -> int | None:
    return lexicon.places.get(name)


def size_of(lexicon):
    return lexicon.size


def with_place(row: dict, lexicon):
    return {"id": row["id"], "place": lexicon.places.get(row["name"])}


def number_of(number: int, lexicon: Lexicon) -> int:
    return list(lexicon.places.values())[number - 1] + lexicon.size


def total_told(key, rows, ctx):
    ctx.counter("groups").add(1)
    return total(key, rows)


def part_told(key, rows, ctx):
    ctx.counter("parts").add(1)
    return total_of_part(key, rows)
