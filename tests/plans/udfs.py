"""Functions that the plans call; none is ever run."""

from collections.abc import Iterator
from typing import TypedDict

import pyarrow as pa
from zql import udf


class Words(TypedDict):
    word: str
    n: int


def score(text: str) -> float:
    raise NotImplementedError


def clean(text: str) -> str:
    raise NotImplementedError


def optional(text: str | None) -> str | None:
    raise NotImplementedError


def near(text: str, limit: float = 0.5) -> bool:
    raise NotImplementedError


def count(row: dict) -> Words:
    return {"word": row["title"], "n": len(row["text"])}


def split(row: dict) -> list[Words]:
    return [{"word": str(value), "n": 1} for value in row.values()]


def words(text: str) -> list[str]:
    raise NotImplementedError


@udf(volatile=True)
def dice(sides: int) -> int:
    raise NotImplementedError


def merge(key, rows) -> Words:
    n = sum(len(row["text"]) for row in rows)
    return {"word": str(key), "n": n}


def shorten(key, rows):
    raise NotImplementedError


def words_of(key, words) -> list[str]:
    raise NotImplementedError


def lengths(rows: list[dict]) -> list[Words]:
    return [{"word": row["title"], "n": len(row.get("text", ""))} for row in rows]


def scored(table: pa.Table, least: float = 0.0) -> pa.Table:
    raise NotImplementedError


def packed(rows, shard) -> Iterator[Words]:
    for row in rows:
        yield {"word": row["title"], "n": shard.index}


@udf(batch_size=64)
def text_lengths(texts: list[str]) -> list[int]:
    return [len(text) for text in texts]


@udf(concurrency=4, timeout="30s")
async def asked(text: str) -> str:
    return text
