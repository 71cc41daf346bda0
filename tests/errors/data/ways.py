"""Functions that are called in lists, with limits, and async, and what goes wrong with that."""

import asyncio
import time

from zql import udf


@udf(batch_size=10)
def lengths(texts: list[str], unit: int = 1) -> list[int]:
    return [len(text) // unit for text in texts]


@udf(batch_size=10)
def first_only(texts: list[str]) -> list[str]:
    return texts[:1]


@udf(batch_size=10)
def joined(texts: list[str]) -> str:
    return ", ".join(texts)


def stuck(text: str) -> str:
    if text == "Bob":
        time.sleep(60)
    return text


async def asked(text: str) -> str:
    await asyncio.sleep(0)
    if text == "Bob":
        raise ConnectionError("the server is gone")
    return text


async def made() -> dict:
    return {}
