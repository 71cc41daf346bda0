"""MinHash signatures cut into bands, and the groups that pairs of similar documents form."""

import re
import zlib
from collections.abc import Iterator
from typing import TypedDict

WORD = re.compile(r"\w+")
SHINGLE = 3  # words


class Member(TypedDict):
    """A document and the group that it belongs to: the smallest id in it."""

    id: str
    component: str


def bands(text: str, bands: int, rows: int) -> list[int]:
    """One number for each band of `rows` values: equal ones mean that two texts may be similar.

    One hash for each shingle of words, put into one of `bands` * `rows` bins of which each keeps
    its smallest; a bin that stays empty takes the value of the next one that is not.
    """
    words = WORD.findall(text.lower())
    size = bands * rows
    smallest: list[int | None] = [None] * size
    for start in range(max(len(words) - SHINGLE + 1, 1)):
        hashed = zlib.crc32(" ".join(words[start : start + SHINGLE]).encode())
        value, place = divmod(hashed, size)
        found = smallest[place]
        if found is None or value < found:
            smallest[place] = value
    signature = _filled(smallest)
    return [
        zlib.crc32(repr((band, signature[band * rows : (band + 1) * rows])).encode())
        for band in range(bands)
    ]


def _filled(values: list[int | None]) -> list[int]:
    filled: list[int] = []
    following = next(value for value in values if value is not None)
    for value in reversed(values):
        following = following if value is None else value
        filled.append(following)
    return filled[::-1]


def components(record: dict) -> Iterator[Member]:
    """The connected components of the graph whose edges `record["pairs"]` holds."""
    parents: dict[str, str] = {}

    def root(node: str) -> str:
        while (parent := parents.setdefault(node, node)) != node:
            parents[node] = parents[parent]
            node = parents[node]
        return node

    for pair in record["pairs"]:
        low, high = sorted((root(pair["src"]), root(pair["dst"])))
        parents[high] = low
    for node in sorted(parents):
        yield {"id": node, "component": root(node)}
