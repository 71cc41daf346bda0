"""Functions that fail in the ways that functions fail."""

from collections.abc import Iterator
from typing import TypedDict

from zql import udf


class Person(TypedDict):
    name: str
    age: int


def shout(text: str) -> str:
    return text.upper()


def half(number: int) -> int:
    return number // 2


def fails(text: str) -> str:
    if text == "Bob":
        raise ValueError(f"no {text} here")
    return text


def fails_untyped(value):
    raise KeyError(value)


def wrong(text: str) -> int:
    return text


def mixed(text):
    return [text] if text == "Bob" else {"a": text}


def person(row: dict) -> Person:
    return {"name": row["name"]}


def many(row: dict) -> Iterator[Person]:
    yield {"name": row["name"], "age": 1}


@udf(returns="TEXTT")
def odd(text: str) -> str:
    return text


def record(row):
    return {"name": row["name"]}


def none(row: dict) -> Person:
    return None
