"""Functions that the plans call; none is ever run."""

from typing import TypedDict

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
