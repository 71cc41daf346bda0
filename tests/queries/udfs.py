"""Python functions that the query tests call."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count
from typing import TypedDict

from zql import udf


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
