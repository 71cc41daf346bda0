"""Functions of many rows that fail in the ways that such functions fail."""

from typing import TypedDict

import polars as pl
import pyarrow as pa


class Person(TypedDict):
    name: str
    age: int


def tagged(rows: list[dict], tag: str = "") -> list[Person]:
    return [{"name": row["name"] + tag, "age": 1} for row in rows]


def table(table: pa.Table) -> pa.Table:
    return table


def person_of_all(rows: list[dict]) -> Person:
    return {"name": rows[0]["name"]}


def nothing(rows: list[dict]):
    list(rows)


def count(key, rows) -> int:
    return sum(1 for _ in rows)


def first(key, rows, word: str = ""):
    return next(rows)


def lines(key, rows) -> Person:
    return str(key)


def raises(key, rows) -> Person:
    raise LookupError(f"nothing for {key}")


def polars_again(frame: pl.DataFrame) -> pl.DataFrame:
    return frame
